/*
 * Layout of a chunk: the lower and the upper level as floats, the indices of the kept elements in ascending order, and
 * their codes, in which bit 0 selects the level and bit 1 is the sign. Little-endian; unused bits are 0.
 */
#include "kernels/sparse.h"

#include "kernels/bits.h"
#include "kernels/float_mode.h"
#include "kernels/variant.h"

#include <string.h>

enum { LEVELS_BYTES = 8, INFINITE = 0x7f800000, SIGN = 2 };

struct chunk {
    size_t count, kept;           /* numbers of elements */
    size_t indices, codes, bytes; /* offsets of the two parts, and the size */
};

static struct chunk chunk_at(const struct pccl_sparse *sparse, size_t first)
{
    const size_t left = sparse->count - first;
    struct chunk chunk = {.count = left < PCCL_SPARSE_CHUNK_ELEMENTS ? left : PCCL_SPARSE_CHUNK_ELEMENTS,
                          .indices = LEVELS_BYTES};
    chunk.kept = (size_t)pccl_divide_up(chunk.count * sparse->kept, PCCL_SPARSE_CHUNK_ELEMENTS);
    chunk.codes = chunk.indices + (3 * chunk.kept + 1) / 2;
    chunk.bytes = chunk.codes + (chunk.kept + 3) / 4;
    return chunk;
}

size_t pccl_sparse_bytes(const struct pccl_sparse *sparse)
{
    const size_t rest = sparse->count % PCCL_SPARSE_CHUNK_ELEMENTS, whole = sparse->count - rest;
    size_t bytes = whole > 0 ? whole / PCCL_SPARSE_CHUNK_ELEMENTS * chunk_at(sparse, 0).bytes : 0;
    return rest > 0 ? bytes + chunk_at(sparse, whole).bytes : bytes;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
    for (uint32_t i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_u32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* ---- encode ---- */

/* Includes padding for accesses beyond the last element. */
struct work {
    int32_t magnitudes[PCCL_SPARSE_CHUNK_ELEMENTS];
    uint16_t indices[PCCL_SPARSE_CHUNK_ELEMENTS + 1];
    uint8_t codes[PCCL_SPARSE_CHUNK_ELEMENTS + 4];
};

/*
 * Returns the index of the element with this magnitude that follows `ties` others with the same magnitude, or `count`
 * if it does not exist.
 */
static size_t end_of_ties(const struct work *work, size_t count, int32_t magnitude, size_t ties)
{
    for (size_t i = 0; i < count; i++) {
        if (work->magnitudes[i] == magnitude && ties-- == 0)
            return i;
    }
    return count;
}

/*
 * Selects the largest elements. Of several elements equal to the smallest one kept, selects the first. Has no branches,
 * because they would be unpredictable.
 */
static void select_largest(struct work *work, const struct chunk *chunk, int32_t threshold)
{
    size_t above = 0, taken = 0;
    for (size_t i = 0; i < chunk->count; i++)
        above += work->magnitudes[i] > threshold;
    const size_t end = end_of_ties(work, chunk->count, threshold, chunk->kept - above);
    for (size_t i = 0; i < chunk->count; i++) {
        work->indices[taken] = (uint16_t)i;
        taken += work->magnitudes[i] >= threshold + (i >= end);
    }
}

struct levels {
    double middle;
    float values[2];
};

static double magnitude_at(const struct work *work, size_t index)
{
    return (double)pccl_f32_of((uint32_t)work->magnitudes[work->indices[index]]);
}

/*
 * Computes the levels. The mean magnitude divides the kept elements into two parts, and the mean of each part is its
 * level.
 */
static struct levels choose_levels(const struct work *work, size_t kept)
{
    struct levels levels = {.middle = 0};
    double lower = 0, upper = 0;
    size_t uppers = 0;
    for (size_t i = 0; i < kept; i++)
        levels.middle += magnitude_at(work, i);
    levels.middle /= (double)kept;
    for (size_t i = 0; i < kept; i++) {
        const double magnitude = magnitude_at(work, i);
        const bool is_upper = magnitude > levels.middle;
        lower += magnitude * !is_upper; /* exact, and avoids a branch */
        upper += magnitude * is_upper;
        uppers += is_upper;
    }
    levels.values[0] = (float)(uppers < kept ? lower / (double)(kept - uppers) : levels.middle);
    levels.values[1] = (float)(uppers > 0 ? upper / (double)uppers : levels.middle);
    return levels;
}

/* Encodes the kept elements, and leaves their residuals in `elements`. */
static void take(struct work *work, size_t kept, const struct levels *levels, float *elements)
{
    for (size_t i = 0; i < kept; i++) {
        float *element = elements + work->indices[i];
        const uint32_t sign = pccl_f32_bits(*element) >> 31, is_upper = magnitude_at(work, i) > levels->middle;
        work->codes[i] = (uint8_t)(sign * SIGN | is_upper);
        *element -= pccl_f32_of(pccl_f32_bits(levels->values[is_upper]) | sign << 31);
    }
    memset(work->codes + kept, 0, 4);
}

static void encode_chunk(const struct chunk *chunk, const struct pccl_kernels *kernels, float *elements, uint8_t *bytes)
{
    struct work work;
    kernels->sparse.magnitudes(elements, chunk->count, work.magnitudes);
    select_largest(&work, chunk, kernels->sparse.threshold(work.magnitudes, chunk->count, chunk->kept));
    const struct levels levels = choose_levels(&work, chunk->kept);
    put_u32(bytes, pccl_f32_bits(levels.values[0]));
    put_u32(bytes + 4, pccl_f32_bits(levels.values[1]));
    kernels->sparse.pack(work.indices, chunk->kept / 2, bytes + chunk->indices);
    if (chunk->kept % 2 != 0) {
        bytes[chunk->codes - 2] = (uint8_t)work.indices[chunk->kept - 1];
        bytes[chunk->codes - 1] = (uint8_t)(work.indices[chunk->kept - 1] >> 8);
    }
    take(&work, chunk->kept, &levels, elements);
    const uint8_t *codes = work.codes;
    for (size_t i = chunk->codes; i < chunk->bytes; i++, codes += 4)
        bytes[i] = (uint8_t)(codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6);
}

bool pccl_sparse_encode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, float *elements,
                        uint8_t *bytes)
{
    if (kernels->scaled_largest((const uint8_t *)elements, sparse->count) >= INFINITE)
        return false;
    uint64_t mode = pccl_float_mode_begin();
    for (size_t first = 0; first < sparse->count; first += PCCL_SPARSE_CHUNK_ELEMENTS) {
        const struct chunk chunk = chunk_at(sparse, first);
        encode_chunk(&chunk, kernels, elements + first, bytes);
        bytes += chunk.bytes;
    }
    pccl_float_mode_end(mode);
    return true;
}

/* ---- decode ---- */

static void unpack_indices(const struct chunk *chunk, const struct pccl_kernels *kernels, const uint8_t *bytes,
                           uint16_t *indices)
{
    kernels->sparse.unpack(bytes + chunk->indices, chunk->kept / 2, indices);
    if (chunk->kept % 2 != 0)
        indices[chunk->kept - 1] = (uint16_t)(bytes[chunk->codes - 2] | (bytes[chunk->codes - 1] & 0xf) << 8);
}

static uint32_t code_at(const struct chunk *chunk, const uint8_t *bytes, size_t index)
{
    return (uint32_t)bytes[chunk->codes + index / 4] >> index % 4 * 2 & 3U;
}

/* Returns true if the indices are ascending and within the chunk. */
static bool check_indices(const struct chunk *chunk, const uint16_t *indices, struct pccl_text *reason)
{
    for (size_t i = 0; i < chunk->kept; i++) {
        if (i > 0 && indices[i] <= indices[i - 1])
            pccl_text_append(reason, "invalid index %u after %u: expected ascending indices", indices[i],
                             indices[i - 1]);
        else if (indices[i] >= chunk->count)
            pccl_text_append(reason, "invalid index %u: the chunk has %zu elements", indices[i], chunk->count);
        else
            continue;
        return false;
    }
    return true;
}

static bool has_zeros_left_over(const struct chunk *chunk, const uint8_t *bytes)
{
    const bool fills_indices = chunk->kept % 2 == 0 || bytes[chunk->codes - 1] >> 4 == 0;
    return fills_indices && (chunk->kept % 4 == 0 || bytes[chunk->bytes - 1] >> chunk->kept % 4 * 2 == 0);
}

static double square_of(const struct chunk *chunk, const uint8_t *bytes, const double levels[2])
{
    size_t uppers = 0;
    for (size_t i = 0; i < chunk->kept; i++)
        uppers += code_at(chunk, bytes, i) & 1;
    return (double)(chunk->kept - uppers) * levels[0] * levels[0] + (double)uppers * levels[1] * levels[1];
}

static bool check_chunk(const struct chunk *chunk, const struct pccl_kernels *kernels, const uint8_t *bytes,
                        double *square, struct pccl_text *reason)
{
    uint16_t indices[PCCL_SPARSE_CHUNK_ELEMENTS];
    const uint32_t lower = get_u32(bytes), upper = get_u32(bytes + 4);
    if (upper >= INFINITE || lower > upper) {
        pccl_text_append(reason, "invalid levels: expected two ascending magnitudes");
        return false;
    }
    unpack_indices(chunk, kernels, bytes, indices);
    if (!check_indices(chunk, indices, reason))
        return false;
    if (!has_zeros_left_over(chunk, bytes)) {
        pccl_text_append(reason, "unused bits are not 0");
        return false;
    }
    *square += square_of(chunk, bytes, (const double[2]){(double)pccl_f32_of(lower), (double)pccl_f32_of(upper)});
    return true;
}

bool pccl_sparse_check(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t length, double *square, struct pccl_text *reason)
{
    bool is_valid = true;
    *square = 0;
    if (length != pccl_sparse_bytes(sparse)) {
        pccl_text_format(reason, "wrong length: %zu bytes for %zu elements with %u of %u kept, expected %zu", length,
                         sparse->count, sparse->kept, (unsigned)PCCL_SPARSE_CHUNK_ELEMENTS, pccl_sparse_bytes(sparse));
        return false;
    }
    uint64_t mode = pccl_float_mode_begin();
    for (size_t first = 0; is_valid && first < sparse->count; first += PCCL_SPARSE_CHUNK_ELEMENTS) {
        const struct chunk chunk = chunk_at(sparse, first);
        pccl_text_format(reason, "chunk %zu: ", first / PCCL_SPARSE_CHUNK_ELEMENTS);
        is_valid = check_chunk(&chunk, kernels, bytes, square, reason);
        bytes += chunk.bytes;
    }
    pccl_float_mode_end(mode);
    return is_valid;
}

void pccl_sparse_add(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *bytes,
                     float factor, float *sums)
{
    uint64_t mode = pccl_float_mode_begin();
    for (size_t first = 0; first < sparse->count; first += PCCL_SPARSE_CHUNK_ELEMENTS) {
        uint16_t indices[PCCL_SPARSE_CHUNK_ELEMENTS];
        const struct chunk chunk = chunk_at(sparse, first);
        const float lower = pccl_f32_of(get_u32(bytes)) * factor, upper = pccl_f32_of(get_u32(bytes + 4)) * factor;
        const float parts[] = {lower, upper, -lower, -upper};
        unpack_indices(&chunk, kernels, bytes, indices);
        for (size_t i = 0; i < chunk.kept; i++)
            sums[first + indices[i]] += parts[code_at(&chunk, bytes, i)];
        bytes += chunk.bytes;
    }
    pccl_float_mode_end(mode);
}
