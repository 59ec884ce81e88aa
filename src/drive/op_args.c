#include "drive/op_args.h"

#include "core/bytes.h"
#include "core/siphash.h"
#include "core/status.h"
#include "kernels/kernels.h"

static void digest_number(struct pccl_id *digest, uint64_t number)
{
    const struct pccl_id key = *digest;
    uint8_t bytes[8];
    pccl_put(bytes, sizeof bytes, number);
    pccl_siphash(key.bytes, bytes, sizeof bytes, digest->bytes);
}

struct pccl_id pccl_op_args_digest(const uint64_t *starts, uint32_t part_count)
{
    struct pccl_id digest = {{1}};
    for (uint32_t i = 0; i < part_count; i++)
        digest_number(&digest, starts[i + 1] - starts[i]);
    digest.bytes[0] |= 1;
    return digest;
}

struct pccl_id pccl_op_args_digest_tensors(const struct pccl_buffers *buffers)
{
    struct pccl_id digest = {{2}};
    const struct pccl_extents *input = &buffers->input;
    size_t end = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < buffers->section_count; i++) {
        const struct pccl_section *section = &buffers->sections[i];
        const size_t element = pccl_datatype_bytes((enum pccl_datatype)section->datatype), begin = end;
        end += (size_t)section->count * element;
        for (size_t at = begin, bytes; at < end; at += bytes, next++) {
            bytes = (next + 1 < input->count ? input->list[next + 1].from : end) - at;
            digest_number(&digest, bytes / element);
            digest_number(&digest, (uint64_t)section->datatype << 8 | section->operation);
        }
    }
    digest.bytes[0] |= 1;
    return digest;
}

struct pccl_section pccl_op_args_section(const struct pccl_op_args *args, uint32_t index, size_t bytes)
{
    if (args->buffers.sections)
        return args->buffers.sections[index];
    const struct pccl_descriptor *descriptor = &args->launch.descriptor;
    return (struct pccl_section){descriptor->datatype, descriptor->operation,
                                 bytes / pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype)};
}

bool pccl_op_args_is_from_any(const struct pccl_op_args *args)
{
    return args->launch.descriptor.collective == PCCL_SEND && !args->sends && args->root == PCCL_ANY_PEER;
}

size_t pccl_op_args_part_at(const struct pccl_op_args *args, uint32_t rank)
{
    uint64_t elements = args->starts ? args->starts[rank] : rank * args->launch.descriptor.count;
    return (size_t)elements * pccl_datatype_bytes((enum pccl_datatype)args->launch.descriptor.datatype);
}

/* Returns true for the root; the sender of a send has rank 0. */
static bool is_root(const struct pccl_op_args *args, uint32_t rank)
{
    return rank == (args->launch.descriptor.collective == PCCL_SEND ? 0 : args->root);
}

struct pccl_op_args_extent pccl_op_args_extent(const struct pccl_op_args *args, uint32_t world, uint32_t rank)
{
    const struct pccl_collective_row *row = pccl_collective(args->launch.descriptor.collective);
    const struct pccl_parts *input = row->one_buffer ? &row->result : &row->input;
    const bool splits = row->input.amount == PCCL_PART_FOR_EACH, joins = row->result.amount == PCCL_PART_FOR_EACH;
    const size_t own = splits != joins ? pccl_op_args_part_at(args, rank) : 0;
    const size_t part = splits != joins ? pccl_op_args_part_at(args, rank + 1) - own : pccl_op_args_part_at(args, 1);
    const size_t all = splits || joins ? pccl_op_args_part_at(args, world) : 0;
    const bool self_is_root = is_root(args, rank);
    const uint32_t parts_in = pccl_parts_of(input, world, self_is_root),
                   parts_out = pccl_parts_of(&row->result, world, self_is_root);
    return (struct pccl_op_args_extent){.input = splits && parts_in ? all : parts_in * part,
                                        .result = joins && parts_out ? all : parts_out * part,
                                        .own = own};
}

/* Returns true if the buffers overlap in the one permitted way. */
static bool is_in_place(const struct pccl_op_args *args, const struct pccl_op_args_extent *extent)
{
    uintptr_t input = (uintptr_t)args->buffers.input.memory, result = (uintptr_t)args->buffers.result.memory;
    if (pccl_row_exchanges(pccl_collective(args->launch.descriptor.collective)))
        return false;
    return extent->input < extent->result ? input == result + extent->own : result == input + extent->own;
}

static enum pccl_status check_blobs(const struct pccl_op_args *args, uint32_t world, uint32_t rank,
                                    struct pccl_text *reason)
{
    const struct pccl_parts *input = &pccl_collective(args->launch.descriptor.collective)->input;
    if (input->amount == PCCL_ONE_PART || pccl_parts_of(input, world, is_root(args, rank)) == 0)
        return PCCL_OK;
    if (args->blobs && args->blob_count > PCCL_PEERS_MAX) {
        pccl_text_format(reason, "too many parts: a group can have at most %u members", PCCL_PEERS_MAX);
        return PCCL_ARGUMENT;
    }
    if (!args->blobs || args->blob_count != world) {
        pccl_text_format(reason, "%u parts for %u members: expected one part per member",
                         args->blobs ? args->blob_count : 0, world);
        return PCCL_ARGUMENT;
    }
    for (uint32_t i = 0; i < world; i++) {
        const pcclPart_t *part = &args->blobs[i];
        if (part->length <= SIZE_MAX / 16 && (part->data || !part->length))
            continue;
        pccl_text_format(reason, "part %u %s", i,
                         part->data ? "is too large" : "has a length but no data: data is NULL");
        return PCCL_ARGUMENT;
    }
    return PCCL_OK;
}

enum pccl_status pccl_op_args_check_buffers(const struct pccl_op_args *args, uint32_t world, uint32_t rank,
                                            struct pccl_text *reason)
{
    const struct pccl_collective_row *row = pccl_collective(args->launch.descriptor.collective);
    if (row->of == PCCL_OF_BLOBS)
        return check_blobs(args, world, rank, reason); /* the result is in the library's memory */
    if (args->buffers.sections)
        return PCCL_OK; /* the list of tensors was checked when it was made */
    if (args->launch.descriptor.count > SIZE_MAX / 16 / (args->starts ? 1 : world)) {
        pccl_text_format(reason, "count is too large");
        return PCCL_ARGUMENT;
    }
    struct pccl_op_args_extent extent = pccl_op_args_extent(args, world, rank);
    if ((extent.result && !args->buffers.result.memory) || (extent.input && !args->buffers.input.memory)) {
        pccl_text_format(reason, "a buffer is NULL");
        return PCCL_ARGUMENT;
    }
    uintptr_t input = (uintptr_t)args->buffers.input.memory, result = (uintptr_t)args->buffers.result.memory;
    bool both = extent.input && extent.result;
    bool overlap = both && input < result + extent.result && result < input + extent.input;
    if (!overlap || is_in_place(args, &extent))
        return PCCL_OK;
    if (pccl_row_exchanges(row))
        pccl_text_format(reason, "sendbuf and recvbuf of an all-to-all overlap");
    else if (extent.own || extent.input != extent.result)
        pccl_text_format(
            reason, "sendbuf and recvbuf overlap, but the smaller one is not rank %u's part of the larger one", rank);
    else
        pccl_text_format(reason, "sendbuf and recvbuf partly overlap");
    return PCCL_ARGUMENT;
}
