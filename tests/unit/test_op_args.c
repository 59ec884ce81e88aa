/*
 * Arguments of operations: every kind of operation with every value in every member that it may not use. An accepted
 * operation does not depend on these members, and its messages can be decoded.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

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
    enum pccl_collective collective;
    bool type, op, root, count, input, result;
};
static const struct kind kinds[] = {
    {"all-reduce", PCCL_ALL_REDUCE, true, true, false, true, true, true},
    {"broadcast", PCCL_BROADCAST, true, false, true, true, true, true},
    {"all-gather", PCCL_ALL_GATHER, true, false, false, true, true, true},
    {"reduce-scatter", PCCL_REDUCE_SCATTER, true, true, false, true, true, true},
    {"barrier", PCCL_BARRIER, false, false, false, false, false, false},
    {"all-gather of blobs", PCCL_ALL_GATHER_V, false, false, false, true, true, true},
    {"reduce", PCCL_REDUCE, true, true, true, true, true, true},
    {"gather", PCCL_GATHER, true, false, true, true, true, true},
    {"scatter", PCCL_SCATTER, true, false, true, true, true, true},
    {"all-to-all", PCCL_ALL_TO_ALL, true, false, false, true, true, true},
    {"send", PCCL_SEND, true, false, true, true, true, true},
    {"coalesced", PCCL_COALESCED, false, false, false, true, true, true},
    {"gather of blobs", PCCL_GATHER_V, false, false, true, true, true, true},
    {"scatter of blobs", PCCL_SCATTER_V, false, false, true, true, true, true},
    {"all-to-all of blobs", PCCL_ALL_TO_ALL_V, false, false, false, true, true, true},
};

static const struct kind *kind_of(enum pccl_collective collective)
{
    const struct kind *kind = kinds;
    while (kind->collective != collective)
        kind++;
    return kind;
}

static const unsigned values[] = {0, 1, 2, 8, 9, 14, 15, 99, 255, 256, 0x7fffffff};

static struct pccl_asked asked_of(const struct kind *kind, const pcclCollectiveOptions_t *options)
{
    struct pccl_asked asked = {.collective = kind->collective, .options = options};
    blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    if (kind->collective == PCCL_COALESCED) {
        asked.input = tensors;
        asked.count = PCCL_COUNT_OF(tensors);
    } else if (pccl_collective_is_of_blobs((uint8_t)kind->collective)) {
        asked.input =
            kind->collective == PCCL_SCATTER_V || kind->collective == PCCL_ALL_TO_ALL_V ? (const void *)parts : input;
        asked.count = 1;
        asked.result = &blobs;
    } else if (kind->collective != PCCL_BARRIER) {
        asked.input = input;
        asked.result = result;
        asked.count = ELEMENTS;
        asked.datatype = pcclFloat;
    }
    return asked;
}

/* Compares arguments without their allocated memory. */
static struct pccl_op_args comparable(struct pccl_op_args args)
{
    pccl_api_op_args_free(&args);
    args.tensors = NULL;
    args.starts = NULL;
    args.members = NULL;
    return args;
}

static struct pccl_op_args must(const struct pccl_asked *asked, const char *name)
{
    struct pccl_op_args args;
    struct pccl_text reason;
    if (pccl_api_op_args(asked, &args, &reason) != PCCL_OK)
        fail_msg("%s: refused: %s", name, reason.bytes);
    return comparable(args);
}

static void same(const struct kind *kind, const struct pccl_op_args *canonical, const struct pccl_asked *asked,
                 const char *member, unsigned value)
{
    const struct pccl_op_args args = must(asked, kind->name);
    if (!pccl_descriptor_equal(&canonical->descriptor, &args.descriptor) || args.root != canonical->root ||
        args.input != canonical->input || args.result != canonical->result || args.length != canonical->length ||
        args.blobs != canonical->blobs || args.blob_count != canonical->blob_count ||
        args.tensor_count != canonical->tensor_count)
        fail_msg("%s: %s %u is in the args, though it is not used", kind->name, member, value);
}

static void what_a_kind_does_not_use_changes_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++) {
        const struct kind *kind = &kinds[k];
        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        const struct pccl_asked plain = asked_of(kind, &options);
        const struct pccl_op_args canonical = must(&plain, kind->name);
        for (size_t v = 0; v < PCCL_COUNT_OF(values); v++) {
            struct pccl_asked asked = plain;
            if (!kind->type)
                asked.datatype = (pcclDataType_t)values[v];
            if (!kind->op)
                asked.op = (pcclRedOp_t)values[v];
            if (!kind->root)
                asked.root = values[v];
            if (!kind->count)
                asked.count = values[v];
            if (!kind->input)
                asked.input = &values[v];
            if (!kind->result)
                asked.result = (void *)(uintptr_t)&values[v];
            same(kind, &canonical, &asked, "a member that holds", values[v]);
            options.quantization.quantized_datatype = (pcclDataType_t)values[v];
            options.member_count = options.counts_length = values[v];
            options.user_data = (void *)(uintptr_t)&values[v];
            same(kind, &canonical, &asked, "an option that holds", values[v]);
        }
    }
}

/* Fills in what the launch derives from the members, as if the peer was the root. */
static struct pccl_descriptor launched(const struct pccl_op_args *args)
{
    struct pccl_descriptor descriptor = args->descriptor;
    if (pccl_collective_has_root(descriptor.collective))
        descriptor.root = (struct pccl_id){{1}};
    if (pccl_choice_is_automatic(&descriptor))
        pccl_choice_apply(PCCL_LEVEL_EXACT, &descriptor, &descriptor);
    return descriptor;
}

static bool makes_valid_messages(const struct pccl_asked *asked, struct pccl_text *reason)
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
static void what_is_accepted_can_be_sent(void **state)
{
    (void)state;
    for (size_t k = 0; k < PCCL_COUNT_OF(kinds); k++)
        for (unsigned type = 0; type < 18; type++)
            for (unsigned op = 0; op < 12; op++)
                for (unsigned codec = 0; codec < 10; codec++)
                    for (size_t v = 0; v < PCCL_COUNT_OF(values) + 8; v++) {
                        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
                        struct pccl_asked asked = asked_of(&kinds[k], &options);
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
static void how_many_parts_others_give_to_a_scatter_is_no_matter(void **state)
{
    struct pccl_op_args args;
    struct pccl_text reason;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    struct pccl_asked asked = asked_of(kind_of(PCCL_SCATTER_V), &options);
    (void)state;
    asked.count = SIZE_MAX;
    assert_int_equal(pccl_api_op_args(&asked, &args, &reason), PCCL_OK);
    assert_int_equal(pccl_op_args_check_buffers(&args, 2, 1, &reason), PCCL_OK);
    assert_int_equal(pccl_op_args_check_buffers(&args, 2, 0, &reason), PCCL_ARGUMENT);
    pccl_api_op_args_free(&args);
}

static void an_invalid_descriptor_is_found_before_it_is_sent(void **state)
{
    struct pccl_text reason;
    (void)state;
    struct pccl_descriptor descriptor = {.collective = PCCL_COALESCED, .counts = {{1}}, .datatype = 99};
    assert_int_equal(pccl_wire_check_descriptor(&descriptor, true, &reason), PCCL_MALFORMED);
    assert_string_equal(reason.bytes, "descriptor.datatype is 99, not within 0 and 14");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_kind_does_not_use_changes_nothing),
        cmocka_unit_test(what_is_accepted_can_be_sent),
        cmocka_unit_test(how_many_parts_others_give_to_a_scatter_is_no_matter),
        cmocka_unit_test(an_invalid_descriptor_is_found_before_it_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
