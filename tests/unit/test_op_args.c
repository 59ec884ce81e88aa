/*
 * Arguments of operations: every kind of operation with every value in every member that it may not use. An accepted
 * operation does not depend on these members, and its messages can be decoded.
 */
#include "unit.h"
#include "api/api.h"
#include "wire/choice.h"

#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 6 };

static float input[ELEMENTS], result[ELEMENTS];
static const pcclCoalescedTensor_t tensors[] = {{input, result, ELEMENTS, pcclFloat, pcclSum}};
static const pcclPart_t parts[] = {{input, sizeof input}};
static pcclBlobs_t blobs;

/* Flags: the kind uses the member. A member that is not used may hold any value. */
struct kind {
    const char *name;
    pcclCollective_t collective;
    bool type, op, root, count, input, result;
};
static const struct kind kinds[] = {
    {"all-reduce", pcclCollectiveAllReduce, true, true, false, true, true, true},
    {"broadcast", pcclCollectiveBroadcast, true, false, true, true, true, true},
    {"all-gather", pcclCollectiveAllGather, true, false, false, true, true, true},
    {"reduce-scatter", pcclCollectiveReduceScatter, true, true, false, true, true, true},
    {"barrier", pcclCollectiveBarrier, false, false, false, false, false, false},
    {"all-gather of blobs", pcclCollectiveAllGatherV, false, false, false, true, true, false},
    {"reduce", pcclCollectiveReduce, true, true, true, true, true, true},
    {"gather", pcclCollectiveGather, true, false, true, true, true, true},
    {"scatter", pcclCollectiveScatter, true, false, true, true, true, true},
    {"all-to-all", pcclCollectiveAllToAll, true, false, false, true, true, true},
    {"send", pcclCollectiveSend, true, false, true, true, true, false},
    {"receive", pcclCollectiveRecv, true, false, true, true, false, true},
    {"coalesced", pcclCollectiveCoalesced, false, false, false, true, true, true},
    {"gather of blobs", pcclCollectiveGatherV, false, false, true, true, true, false},
    {"scatter of blobs", pcclCollectiveScatterV, false, false, true, true, true, false},
    {"all-to-all of blobs", pcclCollectiveAllToAllV, false, false, false, true, true, false},
};
static bool gives_blobs(const struct kind *kind) { return strstr(kind->name, "blobs") != NULL; }

static const struct kind *kind_of(pcclCollective_t collective)
{
    const struct kind *kind = kinds;
    while (kind->collective != collective)
        kind++;
    return kind;
}

static const unsigned values[] = {0, 1, 2, 8, 9, 14, 15, 99, 255, 256, 0x7fffffff};

static pcclOperation_t asked_of(const struct kind *kind, const pcclCollectiveOptions_t *options)
{
    pcclOperation_t asked = PCCL_OPERATION_INIT;
    asked.collective = kind->collective;
    asked.options = options;
    blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    if (kind->collective == pcclCollectiveCoalesced) {
        asked.sendbuf = tensors;
        asked.count = PCCL_COUNT_OF(tensors);
    } else if (gives_blobs(kind)) {
        bool in_parts = kind->collective == pcclCollectiveScatterV || kind->collective == pcclCollectiveAllToAllV;
        asked.sendbuf = in_parts ? (const void *)parts : input;
        asked.count = 1;
        asked.blobs = &blobs;
    } else if (kind->collective != pcclCollectiveBarrier) {
        asked.sendbuf = kind->input ? input : NULL;
        asked.recvbuf = kind->result ? result : NULL;
        asked.count = ELEMENTS;
        asked.datatype = pcclFloat;
    }
    if (kind->collective == pcclCollectiveBroadcast)
        asked.sendbuf = NULL;
    return asked;
}

/* Compares arguments without their allocated memory. */
static struct pccl_op_args comparable(struct pccl_op_args args)
{
    pccl_api_op_args_free(&args);
    args.buffers.input.list = args.buffers.result.list = NULL;
    args.buffers.sections = NULL;
    args.starts = NULL;
    args.members = NULL;
    return args;
}

static struct pccl_op_args must(const pcclOperation_t *asked, const char *name)
{
    struct pccl_op_args args;
    struct pccl_text reason;
    pcclOperation_t operation = *asked;
    if (pccl_api_op_args(&operation, &args, &reason) != PCCL_OK)
        fail_msg("%s: refused: %s", name, reason.bytes);
    return comparable(args);
}

static void same(const struct kind *kind, const struct pccl_op_args *canonical, const pcclOperation_t *asked,
                 const char *member, unsigned value)
{
    const struct pccl_op_args args = must(asked, kind->name);
    if (!pccl_descriptor_equal(&canonical->launch.descriptor, &args.launch.descriptor) ||
        args.root != canonical->root || args.buffers.input.memory != canonical->buffers.input.memory ||
        args.buffers.result.memory != canonical->buffers.result.memory || args.length != canonical->length ||
        args.blobs != canonical->blobs || args.blob_count != canonical->blob_count || args.out != canonical->out ||
        args.buffers.input.count != canonical->buffers.input.count ||
        args.buffers.section_count != canonical->buffers.section_count)
        fail_msg("%s: %s %u is in the args, though it is not used", kind->name, member, value);
}

TEST(what_a_kind_does_not_use_changes_nothing)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++) {
        const struct kind *kind = &kinds[k];
        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        const pcclOperation_t plain = asked_of(kind, &options);
        const struct pccl_op_args canonical = must(&plain, kind->name);
        for (size_t v = 0; v < PCCL_COUNT_OF(values); v++) {
            pcclOperation_t asked = plain;
            if (!kind->type)
                asked.datatype = (pcclDataType_t)values[v];
            if (!kind->op)
                asked.op = (pcclRedOp_t)values[v];
            if (!kind->root)
                asked.root = values[v];
            if (!kind->count)
                asked.count = values[v];
            if (!kind->input)
                asked.sendbuf = &values[v];
            if (!kind->result)
                asked.recvbuf = (void *)(uintptr_t)&values[v];
            same(kind, &canonical, &asked, "a member that holds", values[v]);
            options.quantization.quantized_datatype = (pcclDataType_t)values[v];
            options.member_count = options.counts_length = values[v];
            options.user_data = (void *)(uintptr_t)&values[v];
            same(kind, &canonical, &asked, "an option that holds", values[v]);
        }
    }
}

/* Fills in the fields that the launch derives from the members, as if the peer was the root. */
static struct pccl_descriptor launched(const struct pccl_op_args *args)
{
    struct pccl_descriptor descriptor = args->launch.descriptor;
    if (pccl_collective_has_root(descriptor.collective))
        descriptor.root = (struct pccl_id){{1}};
    if (pccl_choice_is_automatic(&descriptor))
        pccl_choice_apply(PCCL_LEVEL_EXACT, &descriptor, &descriptor);
    return descriptor;
}

static bool makes_valid_messages(pcclOperation_t *asked, struct pccl_text *reason)
{
    struct pccl_op_args args;
    struct pccl_text refusal;
    bool valid = true;
    if (pccl_api_op_args(asked, &args, &refusal) == PCCL_OK) {
        struct pccl_descriptor descriptor = launched(&args);
        valid = pccl_wire_check_descriptor(&descriptor, true, reason) == PCCL_OK;
    }
    pccl_api_op_args_free(&args);
    return valid;
}

/* Any values of used arguments, too, are refused or can be sent. */
TEST(what_is_accepted_can_be_sent)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++)
        for (unsigned type = 0; type < 18; type++)
            for (unsigned op = 0; op < 12; op++)
                for (unsigned codec = 0; codec < 10; codec++)
                    for (size_t v = 0; v < PCCL_COUNT_OF(values) + 8; v++) {
                        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
                        pcclOperation_t asked = asked_of(&kinds[k], &options);
                        struct pccl_text reason;
                        unsigned number = v < PCCL_COUNT_OF(values) ? values[v] : 0;
                        for (size_t bit = PCCL_COUNT_OF(values); bit <= v; bit++)
                            number = number << 4 | ((bit * 7) & 15);
                        asked.datatype = (pcclDataType_t)type;
                        asked.op = (pcclRedOp_t)op;
                        options.quantization.algorithm = (pcclQuantizationAlgorithm_t)codec;
                        options.quantization.quantized_datatype = (pcclDataType_t)number;
                        if (!makes_valid_messages(&asked, &reason))
                            fail_msg("%s, type %u, op %u, codec %u, number %u: %s", kinds[k].name, type, op, codec,
                                     number, reason.bytes);
                    }
}

/* Only the root's parts are used; the root is known when the members are. */
TEST(how_many_parts_others_give_to_a_scatter_is_no_matter)
{
    struct pccl_op_args args;
    struct pccl_text reason;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclOperation_t asked = asked_of(kind_of(pcclCollectiveScatterV), &options);
    asked.count = SIZE_MAX;
    assert_int_equal(pccl_api_op_args(&asked, &args, &reason), PCCL_OK);
    assert_int_equal(pccl_op_args_check_buffers(&args, 2, 1, &reason), PCCL_OK);
    assert_int_equal(pccl_op_args_check_buffers(&args, 2, 0, &reason), PCCL_ARGUMENT);
    pccl_api_op_args_free(&args);
}

TEST(an_invalid_descriptor_is_found_before_it_is_sent)
{
    struct pccl_text reason;
    struct pccl_descriptor descriptor = {.collective = PCCL_COALESCED, .counts = {{1}}, .datatype = 99};
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, true, &reason), PCCL_MALFORMED);
    assert_string_equal(reason.bytes, "descriptor.datatype is 99: expected 0 to 14");
    descriptor.datatype = 1;
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, true, &reason), PCCL_MALFORMED);
    assert_non_null(strstr(reason.bytes, "several tensors"));
    descriptor.datatype = 0;
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, true, &reason), PCCL_OK);
    descriptor.codec_block = 257;
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, true, &reason), PCCL_MALFORMED);
    descriptor = (struct pccl_descriptor){.collective = PCCL_BARRIER};
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, false, &reason), PCCL_MALFORMED);
}
