#include "wire/tiny.h"

#include "core/bytes.h"
#include "kernels/reduce.h"
#include "wire/subgroup.h"

/* What does not fit into 32 bits is far too much. */
static uint64_t times(uint64_t a, uint32_t b) { return a > UINT32_MAX ? UINT64_MAX : a * b; }

struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root)
{
    uint64_t one = times(descriptor->count, (uint32_t)pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype));
    uint64_t all = times(one, world);
    switch (descriptor->collective) {
    case PCCL_ALL_REDUCE:
    case PCCL_REDUCE: return (struct pccl_tiny_sizes){one, one, one};
    case PCCL_BROADCAST: return (struct pccl_tiny_sizes){self_is_root ? one : 0, one, one};
    case PCCL_ALL_GATHER:
    case PCCL_GATHER: return (struct pccl_tiny_sizes){one, all, all};
    case PCCL_SCATTER: return (struct pccl_tiny_sizes){self_is_root ? all : 0, all, all};
    case PCCL_ALL_TO_ALL: return (struct pccl_tiny_sizes){all, times(all, world), times(all, world)};
    case PCCL_REDUCE_SCATTER:
        if (!pccl_id_is_zero(&descriptor->counts))
            all = one;
        return (struct pccl_tiny_sizes){all, all, all};
    case PCCL_ALL_GATHER_V: {
        uint64_t lengths = descriptor->count == 0 ? world * (uint64_t)PCCL_TINY_LENGTH_BYTES : UINT64_MAX;
        return (struct pccl_tiny_sizes){0, lengths, lengths};
    }
    case PCCL_FOUND: return (struct pccl_tiny_sizes){pccl_founding_bytes(world), pccl_founded_bytes(world), 0};
    default: return (struct pccl_tiny_sizes){0, 0, 0}; /* a barrier */
    }
}

uint32_t pccl_tiny_blob_most(uint32_t world, uint32_t most)
{
    uint32_t each = most / world;
    return each > PCCL_TINY_LENGTH_BYTES ? each - PCCL_TINY_LENGTH_BYTES : 0;
}

/* Some way through the master is possible at all. */
static bool is_possible(const struct pccl_descriptor *descriptor, uint64_t largest, uint32_t most)
{
    bool without_elements = descriptor->collective == PCCL_BARRIER || descriptor->collective == PCCL_ALL_GATHER_V;
    return largest <= most && (descriptor->count > 0 || without_elements);
}

bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root,
                                 uint32_t length, uint32_t most)
{
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(descriptor, world, self_is_root);
    if (!is_possible(descriptor, sizes.largest, most))
        return false;
    if (descriptor->collective == PCCL_ALL_GATHER_V)
        return length <= pccl_tiny_blob_most(world, most);
    return length == sizes.contribution;
}

static bool are_blobs(const struct pccl_bytes *result, uint32_t world)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < world; i++) {
        if (result->length < at + PCCL_TINY_LENGTH_BYTES)
            return false;
        at += PCCL_TINY_LENGTH_BYTES + pccl_get(result->data + at, PCCL_TINY_LENGTH_BYTES);
    }
    return result->length == at;
}

bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world, const struct pccl_bytes *result,
                           uint32_t most)
{
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(descriptor, world, false);
    if (!is_possible(descriptor, sizes.largest, most))
        return false;
    if (descriptor->collective == PCCL_ALL_GATHER_V)
        return result->length <= most && are_blobs(result, world);
    return result->length == sizes.result;
}
