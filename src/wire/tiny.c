#include "wire/tiny.h"

#include "core/bytes.h"
#include "kernels/reduce.h"
#include "wire/coalesced.h"
#include "wire/subgroup.h"

#include <string.h>

/* ---- blobs: number and size of the lengths ---- */

/* Returns the number of blobs that a member contributes. */
static uint32_t blobs_of(const struct pccl_collective_row *row, uint32_t world, bool is_root)
{
    return pccl_parts_of(&row->input, world, is_root);
}

/* Returns the number of members that contribute blobs. */
static uint32_t contributors(const struct pccl_collective_row *row, uint32_t world)
{
    return row->input.by == PCCL_BY_ALL ? world : 1;
}

/* Returns the size of a result that contains only lengths. */
static uint64_t lengths_bytes(const struct pccl_collective_row *row, uint32_t world)
{
    const uint64_t each = (uint64_t)blobs_of(row, world, true) * PCCL_TINY_BLOB_BYTES;
    return world * (uint64_t)PCCL_TINY_LENGTH_BYTES + each * contributors(row, world);
}

uint32_t pccl_tiny_members_max(uint8_t collective)
{
    const struct pccl_collective_row *row = pccl_collective(collective);
    uint32_t most = 1;
    while (lengths_bytes(row, most + 1) <= PCCL_TINY_BYTES_MAX)
        most++;
    return most;
}

/* ---- sizes ---- */

static enum pccl_tiny_kind kind_of(const struct pccl_collective_row *row, const struct pccl_descriptor *descriptor)
{
    if (descriptor->collective == PCCL_FOUND)
        return PCCL_TINY_GROUP;
    if (!row->reduces)
        return PCCL_TINY_CONTRIBUTIONS;
    if (row->scan != PCCL_NO_SCAN)
        return PCCL_TINY_SCANS;
    /* Shares of given lengths are known only to the members. */
    const bool in_shares = row->input.amount == PCCL_PART_FOR_EACH && pccl_id_is_zero(&descriptor->counts);
    return in_shares ? PCCL_TINY_SHARES : PCCL_TINY_REDUCTION;
}

enum pccl_tiny_kind pccl_tiny_kind(const struct pccl_descriptor *descriptor)
{
    return kind_of(pccl_collective(descriptor->collective), descriptor);
}

/* Multiplies. Returns UINT64_MAX, which exceeds any limit, if a factor has more than 32 bits. */
static uint64_t times(uint64_t a, uint32_t b) { return a > UINT32_MAX ? UINT64_MAX : a * b; }

static struct pccl_tiny_sizes sizes_of(const struct pccl_collective_row *row, const struct pccl_descriptor *descriptor,
                                       uint32_t world, bool self_is_root)
{
    uint64_t one = times(descriptor->count, (uint32_t)pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype));
    const enum pccl_tiny_kind kind = kind_of(row, descriptor);
    if (kind == PCCL_TINY_REDUCTION && row->input.amount == PCCL_ONE_PART)
        return (struct pccl_tiny_sizes){one, one, one};
    if (kind == PCCL_TINY_GROUP)
        return (struct pccl_tiny_sizes){pccl_founding_bytes(world), pccl_founded_bytes(world), 0};
    const uint32_t parts = pccl_parts_of(&row->input, world, self_is_root);
    const bool counts_are_given = !pccl_id_is_zero(&descriptor->counts);
    if (row->of == PCCL_OF_BLOBS) {
        uint64_t all = counts_are_given ? UINT64_MAX : lengths_bytes(row, world);
        return (struct pccl_tiny_sizes){parts * (uint64_t)PCCL_TINY_BLOB_BYTES, all, all};
    }
    uint64_t own = counts_are_given ? one : times(one, parts);
    uint64_t all = times(times(one, pccl_parts_of(&row->input, world, true)), contributors(row, world));
    uint64_t result = kind == PCCL_TINY_REDUCTION || kind == PCCL_TINY_SHARES ? own : all;
    return (struct pccl_tiny_sizes){own, result, result};
}

struct pccl_tiny_sizes pccl_tiny_sizes(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root)
{
    return sizes_of(pccl_collective(descriptor->collective), descriptor, world, self_is_root);
}

/* Returns pccl_tiny_most for this row. */
static uint32_t most_of(const struct pccl_collective_row *row, uint32_t world, uint32_t tiny_bytes_max)
{
    if (row->of != PCCL_OF_BLOBS)
        return tiny_bytes_max;
    uint64_t lengths = pccl_min_u64(lengths_bytes(row, world), PCCL_TINY_BYTES_MAX);
    return pccl_max_u32(tiny_bytes_max, (uint32_t)lengths);
}

uint32_t pccl_tiny_most(const struct pccl_descriptor *descriptor, uint32_t world, uint32_t tiny_bytes_max)
{
    return most_of(pccl_collective(descriptor->collective), world, tiny_bytes_max);
}

/*
 * Returns the maximum size of one contribution. It is the same for all members, but the root's may use all the space if
 * only the root contributes.
 */
static uint32_t most_of_one(const struct pccl_collective_row *row, uint32_t world, uint32_t most)
{
    uint32_t prefixes = PCCL_TINY_LENGTH_BYTES * world;
    return row->input.by == PCCL_BY_ROOT ? most - prefixes : most / world - PCCL_TINY_LENGTH_BYTES;
}

/* Returns true if an operation with this number of elements can be tiny. */
static bool is_possible(const struct pccl_collective_row *row, uint64_t count, uint64_t largest, uint32_t most)
{
    return largest <= most && (count > 0 || row->of == PCCL_OF_NOTHING || row->of == PCCL_OF_BLOBS);
}

/*
 * Returns true if the bytes are `count` lengths, followed either by nothing or by exactly as many bytes as the lengths
 * add up to.
 */
static bool are_blobs_of_one(const uint8_t *bytes, uint32_t length, uint32_t count)
{
    uint32_t lengths = count * PCCL_TINY_BLOB_BYTES, rest = length - lengths;
    if (length <= lengths)
        return length == lengths;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t blob = pccl_get(bytes + i * PCCL_TINY_BLOB_BYTES, PCCL_TINY_BLOB_BYTES);
        if (blob > rest)
            return false;
        rest -= (uint32_t)blob;
    }
    return rest == 0;
}

/* Checks the sections of a coalesced operation. Returns true for all other operations. */
static bool has_its_sections(const struct pccl_collective_row *row, const struct pccl_bytes *bytes)
{
    return row->of != PCCL_OF_TENSORS || pccl_sections_are_valid(bytes);
}

bool pccl_tiny_contribution_fits(const struct pccl_descriptor *descriptor, uint32_t world, bool self_is_root,
                                 const struct pccl_bytes *contribution, uint32_t tiny_bytes_max)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    struct pccl_tiny_sizes sizes = sizes_of(row, descriptor, world, self_is_root);
    uint32_t most = most_of(row, world, tiny_bytes_max);
    if (!is_possible(row, descriptor->count, sizes.largest, most))
        return false;
    if (row->of != PCCL_OF_BLOBS)
        return contribution->length == sizes.contribution && has_its_sections(row, contribution);
    uint32_t count = blobs_of(row, world, self_is_root);
    return contribution->length <= most_of_one(row, world, most) &&
           are_blobs_of_one(contribution->data, contribution->length, count);
}

/*
 * Checks a result with blobs. If only the root contributes blobs, the contributions of the other members must be empty.
 */
static bool are_blobs(const struct pccl_collective_row *row, const struct pccl_bytes *result, uint32_t world)
{
    uint32_t at = 0, roots = 0;
    for (uint32_t i = 0; i < world; i++) {
        if (result->length - at < PCCL_TINY_LENGTH_BYTES)
            return false;
        uint64_t length = pccl_get(result->data + at, PCCL_TINY_LENGTH_BYTES);
        uint32_t count = blobs_of(row, world, length > 0);
        at += PCCL_TINY_LENGTH_BYTES;
        if (length > result->length - at || !are_blobs_of_one(result->data + at, (uint32_t)length, count))
            return false;
        roots += length > 0;
        at += (uint32_t)length;
    }
    return result->length == at && (row->input.by != PCCL_BY_ROOT || roots == 1);
}

bool pccl_tiny_result_fits(const struct pccl_descriptor *descriptor, uint32_t world, const struct pccl_bytes *result,
                           uint32_t tiny_bytes_max)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    struct pccl_tiny_sizes sizes = sizes_of(row, descriptor, world, false);
    uint32_t most = most_of(row, world, tiny_bytes_max);
    if (!is_possible(row, descriptor->count, sizes.largest, most))
        return false;
    if (row->of == PCCL_OF_BLOBS)
        return result->length <= most && are_blobs(row, result, world);
    return result->length == sizes.result && has_its_sections(row, result);
}

/* ---- blobs: writing and reading ---- */

static uint64_t sum_of(const struct pccl_tiny_blob *blobs, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum = pccl_sum_u64(sum, blobs[i].length);
    return sum;
}

uint32_t pccl_tiny_put_blobs(uint8_t *contribution, uint8_t collective, const struct pccl_tiny_blob *blobs,
                             uint32_t count, uint32_t world, uint32_t tiny_bytes_max)
{
    const struct pccl_collective_row *row = pccl_collective(collective);
    uint32_t most = most_of_one(row, world, most_of(row, world, tiny_bytes_max));
    uint32_t bytes = count * PCCL_TINY_BLOB_BYTES;
    bool fit = most >= bytes && sum_of(blobs, count) <= most - bytes;
    for (uint32_t i = 0; i < count; i++)
        pccl_put(contribution + i * PCCL_TINY_BLOB_BYTES, PCCL_TINY_BLOB_BYTES, blobs[i].length);
    for (uint32_t i = 0; i < count && fit; i++) {
        if (blobs[i].length > 0)
            memcpy(contribution + bytes, blobs[i].data, blobs[i].length);
        bytes += (uint32_t)blobs[i].length;
    }
    return bytes;
}

uint32_t pccl_tiny_list_blobs(uint8_t collective, uint32_t world, const uint8_t *result, struct pccl_tiny_blob *blobs)
{
    const struct pccl_collective_row *row = pccl_collective(collective);
    uint32_t listed = 0;
    for (uint32_t i = 0; i < world; i++) {
        uint32_t length = (uint32_t)pccl_get(result, PCCL_TINY_LENGTH_BYTES);
        uint32_t count = blobs_of(row, world, length > 0);
        const uint8_t *lengths = result + PCCL_TINY_LENGTH_BYTES, *data = lengths + count * PCCL_TINY_BLOB_BYTES;
        result = lengths + length;
        const bool are_here = result > data;
        for (uint32_t j = 0; j < count; j++) {
            uint64_t blob = pccl_get(lengths + j * PCCL_TINY_BLOB_BYTES, PCCL_TINY_BLOB_BYTES);
            blobs[listed++] = (struct pccl_tiny_blob){blob, are_here || blob == 0 ? data : NULL};
            data += are_here ? blob : 0;
        }
    }
    return listed;
}
