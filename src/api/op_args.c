/* Converts operations from the public structs, and makes all checks that need only the arguments. */
#include "api/api.h"
#include "drive/comm_blobs.h"
#include "net/heap.h"
#include "wire/choice.h"

#include <string.h>

enum { BLOBS_BYTES_MAX = 256 << 20 }; /* default limit for the total size of the blobs that a member receives */

static _Thread_local struct pccl_label label_of_thread;

void pccl_api_set_label(const struct pccl_label *label) { label_of_thread = *label; }

/* Returns the collective of the protocol, or PCCL_COLLECTIVES if unknown. */
static enum pccl_collective collective_of(pcclCollective_t kind)
{
    bool to_one = kind == pcclCollectiveSend || kind == pcclCollectiveRecv;
    return to_one ? PCCL_SEND : pccl_collective_listed_as((uint32_t)kind);
}

/*
 * Resets the fields that this collective does not use, so that they are not sent and do not make descriptors differ.
 * Sets both buffers if the caller passes only one for input and result.
 */
static enum pccl_status canonical(const struct pccl_collective_row *row, pcclOperation_t *asked,
                                  struct pccl_text *reason)
{
    if (row->of != PCCL_OF_ELEMENTS)
        asked->datatype = pcclUint8;
    if (row->of != PCCL_OF_ELEMENTS || !row->reduces)
        asked->op = pcclSum;
    if (!pccl_row_has_root(row))
        asked->root = 0;
    if (row->of == PCCL_OF_BLOBS)
        asked->recvbuf = asked->blobs;
    else if (asked->blobs)
        return pccl_fail(reason, PCCL_ARGUMENT, "this operation returns no blobs");
    if (row->of == PCCL_OF_NOTHING) {
        asked->sendbuf = asked->recvbuf = NULL;
        asked->count = 0;
    }
    if (row->of == PCCL_OF_TENSORS && asked->recvbuf)
        return pccl_fail(reason, PCCL_ARGUMENT, "a coalesced all-reduce takes a buffer per tensor, not recvbuf");
    if (row->one_buffer && asked->sendbuf && asked->sendbuf != asked->recvbuf)
        return pccl_fail(reason, PCCL_ARGUMENT, "a broadcast takes a single buffer, recvbuf");
    if (row->one_buffer || asked->collective == pcclCollectiveRecv)
        asked->sendbuf = asked->recvbuf;
    else if (asked->collective == pcclCollectiveSend)
        asked->recvbuf = (void *)(uintptr_t)asked->sendbuf; /* the library only reads this buffer */
    return PCCL_OK;
}

static const char *wrong_elements(const struct pccl_collective_row *row, const pcclOperation_t *asked)
{
    if (row->of != PCCL_OF_ELEMENTS)
        return NULL;
    return asked->count == 0                             ? "count is 0"
           : (unsigned)asked->datatype >= PCCL_DATATYPES ? "unknown data type"
           : (unsigned)asked->op >= PCCL_REDUCE_OPS      ? "unknown operation"
           : asked->count > SIZE_MAX / 16                ? "count is too large"
                                                         : NULL;
}

/* Fills in a descriptor that is zero except for its collective. */
static enum pccl_status describe(const struct pccl_collective_row *row, const pcclOperation_t *asked,
                                 const pcclQuantizationOptions_t *codec, struct pccl_descriptor *descriptor,
                                 struct pccl_text *reason)
{
    bool quantized = codec->algorithm != pcclQuantNone;
    const char *wrong = wrong_elements(row, asked);
    if (!wrong)
        wrong = pccl_row_misfit(row, (enum pccl_datatype)asked->datatype, (enum pccl_reduce_op)asked->op);
    if (wrong)
        return pccl_fail(reason, PCCL_ARGUMENT, "%s", wrong);
    if (quantized && row->codecs == PCCL_NEVER_PACKED)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         row->scan != PCCL_NO_SCAN     ? "a scan cannot be quantized"
                         : row->of == PCCL_OF_ELEMENTS ? "data sent to a single peer cannot be quantized"
                                                       : "this operation has no elements to quantize");
    descriptor->datatype = (uint8_t)asked->datatype;
    descriptor->operation = (uint8_t)asked->op;
    descriptor->count = asked->count;
    descriptor->label = label_of_thread;
    if (row->of == PCCL_OF_TENSORS)
        return PCCL_OK; /* the codec is checked and set for each tensor (api/coalesced.c) */
    return pccl_api_codec(codec, descriptor, reason);
}

enum pccl_status pccl_api_reduction(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                    pcclCollectiveOptions_t *options, pcclOperation_t *operation,
                                    struct pccl_text *reason)
{
    if (!sendbuf || !recvbuf || !descriptor)
        return pccl_fail(reason, PCCL_ARGUMENT, "sendbuf, recvbuf or the descriptor is NULL");
    if ((unsigned)descriptor->src_descriptor.distribution_hint > pcclDistributionUniform)
        return pccl_fail(reason, PCCL_ARGUMENT, "unknown distribution hint");
    if (descriptor->op == pcclPremulSum)
        return pccl_fail(reason, PCCL_ARGUMENT, "a premultiplied sum needs a factor: use pcclAllReduceWithOptions");
    *options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    options->tag = descriptor->tag;
    options->quantization = descriptor->quantization_options;
    *operation = (pcclOperation_t){.size = sizeof *operation,
                                   .collective = pcclCollectiveAllReduce,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = descriptor->count,
                                   .datatype = descriptor->src_descriptor.datatype,
                                   .op = descriptor->op,
                                   .options = options};
    return PCCL_OK;
}

void pccl_api_reduce_info(const pcclOperationInfo_t *info, pcclReduceInfo_t *info_out)
{
    if (info_out)
        *info_out = (pcclReduceInfo_t){info->world, info->tx_bytes, info->rx_bytes};
}

/* ---- options ---- */

static enum pccl_status read_members(const pcclCollectiveOptions_t *options, struct pccl_op_args *args,
                                     struct pccl_text *reason)
{
    if (!options->members)
        return PCCL_OK;
    if (options->member_count == 0 || options->member_count > PCCL_PEERS_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         options->member_count ? "the member list has more entries than a group can have members"
                                               : "the member list is empty");
    struct pccl_id *members = pccl_allocate(pccl_heap(), options->member_count * sizeof *members);
    if (!members)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for a member list of %u", options->member_count);
    args->members = members;
    args->member_count = options->member_count;
    for (uint32_t i = 0; i < options->member_count; i++) {
        const char *digits = options->members[i].digits;
        if (digits[PCCL_PEER_ID_SIZE - 1] || !pccl_id_read(digits, PCCL_PEER_ID_SIZE - 1, &members[i]))
            return pccl_fail(reason, PCCL_ARGUMENT,
                             "entry %u of the member list is not an id: expected 32 lower-case hexadecimal digits", i);
    }
    return PCCL_OK;
}

/* Computes the start of each share. */
static enum pccl_status read_counts(const pcclCollectiveOptions_t *options, struct pccl_op_args *args,
                                    struct pccl_text *reason)
{
    uint32_t length = options->counts_length;
    uint64_t all = args->launch.descriptor.count, given = 0;
    if (!options->counts)
        return PCCL_OK;
    const struct pccl_collective_row *row = pccl_collective(args->launch.descriptor.collective);
    if (!row->has_counts || row->of != PCCL_OF_ELEMENTS)
        return pccl_fail(reason, PCCL_ARGUMENT, "only a reduce-scatter takes counts");
    if (length == 0 || length > PCCL_PEERS_MAX)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         length ? "counts has more entries than a group can have members" : "counts is empty");
    uint64_t *starts = pccl_allocate(pccl_heap(), (length + 1) * sizeof *starts);
    if (!starts)
        return pccl_fail(reason, PCCL_MEMORY, "out of memory for %u counts", length);
    args->starts = starts;
    args->part_count = length;
    for (uint32_t i = 0; i < length && options->counts[i] <= all - given; i++)
        starts[i + 1] = given += options->counts[i];
    if (starts[length] != all)
        return pccl_fail(reason, PCCL_ARGUMENT, "the counts do not add up to %" PRIu64 " elements", all);
    args->launch.descriptor.counts = pccl_op_args_digest(starts, length);
    return PCCL_OK;
}

/* Reads the input: a blob or a list of parts. The launch clears the caller's result blobs; a success fills them in. */
static enum pccl_status read_blobs(const pcclOperation_t *asked, const pcclCollectiveOptions_t *options,
                                   struct pccl_op_args *args, struct pccl_text *reason)
{
    const pcclBlobs_t *blobs = asked->blobs;
    size_t size = blobs->size;
    if (pccl_collective(args->launch.descriptor.collective)->input.amount == PCCL_PART_FOR_EACH) {
        /*
         * Only the root of a scatter uses the parts, so pccl_op_args_check_buffers checks their number when the rank is
         * known.
         */
        args->blobs = asked->sendbuf;
        args->blob_count = (uint32_t)(asked->count > PCCL_PEERS_MAX ? PCCL_PEERS_MAX + 1 : asked->count);
        args->buffers.input = pccl_extents_of(NULL);
    } else {
        args->length = asked->count;
    }
    args->composed = &pccl_comm_blobs;
    args->out = asked->blobs;
    args->on_arrival = options->on_arrival;
    args->user_data = options->user_data;
    args->launch.descriptor.count = options->max_bytes ? options->max_bytes : BLOBS_BYTES_MAX;
    return size < sizeof *blobs || size > PCCL_API_STRUCT_MAX
               ? pccl_fail(reason, PCCL_ARGUMENT,
                           "the size of the blobs is not set: initialize it with PCCL_BLOBS_INIT")
               : PCCL_OK;
}

static const char *missing_buffer(const struct pccl_collective_row *row, const pcclOperation_t *asked,
                                  const pcclCollectiveOptions_t *options)
{
    bool blobs = row->of == PCCL_OF_BLOBS, moves = row->of != PCCL_OF_NOTHING, is_list = row->of == PCCL_OF_TENSORS;
    bool all_get = blobs || row->result.by != PCCL_BY_ROOT;
    bool needs_input = moves && row->input.by == PCCL_BY_ALL && (!blobs || asked->count > 0);
    bool may_be_empty = options->counts && row->has_counts && !blobs; /* this peer's share may be empty */
    bool needs_result = moves && all_get && !is_list && !may_be_empty;
    return is_list && !asked->sendbuf                                              ? "the tensor list is NULL"
           : (needs_input && !asked->sendbuf) || (needs_result && !asked->recvbuf) ? "a buffer is NULL"
           : options->max_bytes && !blobs  ? "only an operation that returns blobs takes max_bytes"
           : options->on_arrival && !blobs ? "only an operation that returns blobs takes on_arrival"
                                           : NULL;
}

enum pccl_status pccl_api_op_args(pcclOperation_t *asked, struct pccl_op_args *args, struct pccl_text *reason)
{
    static const pcclCollectiveOptions_t defaults = PCCL_COLLECTIVE_OPTIONS_INIT;
    const pcclCollectiveOptions_t *options = asked->options ? asked->options : &defaults;
    *args = (struct pccl_op_args){0};
    const enum pccl_collective collective = collective_of(asked->collective);
    if (collective == PCCL_COLLECTIVES)
        return pccl_fail(reason, PCCL_ARGUMENT, "unknown collective");
    const struct pccl_collective_row *row = pccl_collective((uint8_t)collective);
    enum pccl_status status = canonical(row, asked, reason);
    if (status == PCCL_OK)
        status = pccl_api_struct_check(options, sizeof *options, "PCCL_COLLECTIVE_OPTIONS_INIT", reason);
    if (status != PCCL_OK)
        return status;
    const char *wrong = missing_buffer(row, asked, options);
    if (wrong)
        return pccl_fail(reason, PCCL_ARGUMENT, "%s", wrong);
    args->launch.tag = options->tag;
    args->launch.descriptor.collective = (uint8_t)collective;
    args->buffers.input = pccl_extents_of(row->of == PCCL_OF_TENSORS ? NULL : asked->sendbuf);
    args->buffers.result = pccl_extents_of(row->of == PCCL_OF_BLOBS ? NULL : asked->recvbuf);
    args->root = asked->root;
    args->sends = asked->collective == pcclCollectiveSend;
    args->alone_ok = options->alone_ok && collective != PCCL_SEND;
    args->factor = options->factor;
    args->feedback = pccl_api_codec_feeds_back(&options->quantization);
    status = describe(row, asked, &options->quantization, &args->launch.descriptor, reason);
    if (status != PCCL_OK)
        return status;
    if (row->of == PCCL_OF_TENSORS)
        status = pccl_api_coalesced(asked, &options->quantization, args, reason);
    else if (args->launch.descriptor.operation != PCCL_PREMUL_SUM && options->factor != 1)
        status = pccl_fail(reason, PCCL_ARGUMENT, "only a premultiplied sum can have a factor");
    else if (row->of == PCCL_OF_BLOBS)
        status = read_blobs(asked, options, args, reason);
    if (status != PCCL_OK)
        return status;
    if (options->label && !pccl_label_of(options->label, &args->launch.descriptor.label))
        return pccl_fail(reason, PCCL_ARGUMENT, "invalid label: expected at most 32 bytes of printable UTF-8");
    status = read_counts(options, args, reason);
    const char *misfit =
        pccl_choice_is_automatic(&args->launch.descriptor) ? pccl_choice_misfit(&args->launch.descriptor) : NULL;
    if (status == PCCL_OK && misfit)
        return pccl_fail(reason, PCCL_ARGUMENT, "%s", misfit); /* needs the counts, which are read above */
    if (status == PCCL_OK)
        status = read_members(options, args, reason);
    args->needs_members = args->members || row->ranks_matter;
    if (status != PCCL_OK || args->needs_members)
        return status; /* the buffers are checked when the ranks are known */
    return pccl_op_args_check_buffers(args, 1, 0, reason);
}

void pccl_api_op_args_free(struct pccl_op_args *args)
{
    const struct pccl_extent *extents = args->buffers.input.list; /* the block that api/coalesced.c has allocated */
    if (!args->starts && !extents && !args->members)
        return;
    pccl_release(pccl_heap(), (void *)(uintptr_t)args->starts, (args->part_count + 1) * sizeof *args->starts);
    pccl_release(pccl_heap(), (void *)(uintptr_t)extents, pccl_api_coalesced_bytes(args->buffers.input.count));
    pccl_release(pccl_heap(), (void *)(uintptr_t)args->members, args->member_count * sizeof *args->members);
}
