#include "wire/tiny.h"

#include "core/bytes.h"
#include "kernels/reduce.h"
#include "wire/coalesced.h"
#include "wire/subgroup.h"

#include <string.h>

/* Of one member, in a result without blobs. */
enum { LENGTHS_BYTES = PCCL_TINY_LENGTH_BYTES + PCCL_TINY_BLOB_BYTES };

/* What does not fit into 32 bits is far too much. */
static uint64_t times(uint64_t a, uint32_t b) { return a > UINT32_MAX ? UINT64_MAX : a * b; }

struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root)
{
    uint64_t one = times(descriptor->count, (uint32_t)pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype));
    uint64_t all = times(one, world);
    switch (descriptor->collective) {
    case PCCL_ALL_REDUCE:
    case PCCL_COALESCED:
    case PCCL_REDUCE: return (struct pccl_tiny_sizes){one, one, one};
    case PCCL_SEND:
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
        uint64_t lengths = pccl_id_is_zero(&descriptor->counts) ? world * (uint64_t)LENGTHS_BYTES : UINT64_MAX;
        return (struct pccl_tiny_sizes){PCCL_TINY_BLOB_BYTES, lengths, lengths};
    }
    case PCCL_FOUND: return (struct pccl_tiny_sizes){pccl_founding_bytes(world), pccl_founded_bytes(world), 0};
    default: return (struct pccl_tiny_sizes){0, 0, 0}; /* a barrier */
    }
}

static uint32_t most_with_blobs(uint32_t world, uint32_t tiny_bytes_max)
{
    uint64_t lengths = world * (uint64_t)LENGTHS_BYTES;
    return pccl_max_u32(tiny_bytes_max, (uint32_t)pccl_min_u64(lengths, PCCL_TINY_BYTES_MAX));
}

uint32_t pccl_tiny_most(const struct pccl_descriptor *descriptor, uint32_t world, uint32_t tiny_bytes_max)
{
    return descriptor->collective == PCCL_ALL_GATHER_V ? most_with_blobs(world, tiny_bytes_max) : tiny_bytes_max;
}

/* Some way through the master is possible at all. */
static bool is_possible(const struct pccl_descriptor *descriptor, uint64_t largest, uint32_t most)
{
    bool without_elements = descriptor->collective == PCCL_BARRIER || descriptor->collective == PCCL_ALL_GATHER_V;
    return largest <= most && (descriptor->count > 0 || without_elements);
}

/* A length, and nothing or as many bytes behind it. */
static bool is_blob(const uint8_t *bytes, uint32_t length)
{
    return length == PCCL_TINY_BLOB_BYTES ||
           (length > PCCL_TINY_BLOB_BYTES && length - PCCL_TINY_BLOB_BYTES == pccl_get(bytes, PCCL_TINY_BLOB_BYTES));
}

/* What is coalesced says by itself what it consists of. */
static bool has_its_sections(const struct pccl_descriptor *descriptor, const struct pccl_bytes *bytes)
{
    return descriptor->collective != PCCL_COALESCED || pccl_sections_are_valid(bytes);
}

bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root,
                                 const struct pccl_bytes *contribution, uint32_t tiny_bytes_max)
{
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(descriptor, world, self_is_root);
    uint32_t most = pccl_tiny_most(descriptor, world, tiny_bytes_max);
    if (!is_possible(descriptor, sizes.largest, most))
        return false;
    if (descriptor->collective == PCCL_ALL_GATHER_V)
        return contribution->length <= most / world - PCCL_TINY_LENGTH_BYTES &&
               is_blob(contribution->data, contribution->length);
    return contribution->length == sizes.contribution && has_its_sections(descriptor, contribution);
}

static bool are_blobs(const struct pccl_bytes *result, uint32_t world)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < world; i++) {
        if (result->length - at < PCCL_TINY_LENGTH_BYTES)
            return false;
        uint64_t length = pccl_get(result->data + at, PCCL_TINY_LENGTH_BYTES);
        at += PCCL_TINY_LENGTH_BYTES;
        if (length > result->length - at || !is_blob(result->data + at, (uint32_t)length))
            return false;
        at += (uint32_t)length;
    }
    return result->length == at;
}

bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world, const struct pccl_bytes *result,
                           uint32_t tiny_bytes_max)
{
    struct pccl_tiny_sizes sizes = pccl_tiny_sizes(descriptor, world, false);
    uint32_t most = pccl_tiny_most(descriptor, world, tiny_bytes_max);
    if (!is_possible(descriptor, sizes.largest, most))
        return false;
    if (descriptor->collective == PCCL_ALL_GATHER_V)
        return result->length <= most && are_blobs(result, world);
    return result->length == sizes.result && has_its_sections(descriptor, result);
}

/* ---- blobs ---- */

uint32_t pccl_tiny_put_blob(uint8_t *contribution, const void *blob, uint64_t length, uint32_t world,
                            uint32_t tiny_bytes_max)
{
    uint32_t each = most_with_blobs(world, tiny_bytes_max) / world;
    bool fits = each >= LENGTHS_BYTES && length <= each - LENGTHS_BYTES;
    pccl_put(contribution, PCCL_TINY_BLOB_BYTES, length);
    if (!fits || length == 0)
        return PCCL_TINY_BLOB_BYTES;
    memcpy(contribution + PCCL_TINY_BLOB_BYTES, blob, length);
    return PCCL_TINY_BLOB_BYTES + (uint32_t)length;
}

const uint8_t *pccl_tiny_next_blob(const uint8_t *at, struct pccl_tiny_blob *blob)
{
    const uint8_t *contribution = at + PCCL_TINY_LENGTH_BYTES, *data = contribution + PCCL_TINY_BLOB_BYTES;
    const uint8_t *end = contribution + pccl_get(at, PCCL_TINY_LENGTH_BYTES);
    uint64_t length = pccl_get(contribution, PCCL_TINY_BLOB_BYTES);
    *blob = (struct pccl_tiny_blob){length, length == 0 || end > data ? data : NULL};
    return end;
}
