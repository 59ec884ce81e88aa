#include "kernels/kernels.h"

#include "kernels/float_mode.h"
#include "kernels/prefetch.h"
#include "kernels/variant.h"

#include <string.h>

/* Slow to fast, scalar first. */
static const struct pccl_kernels *const variants[] = {
    &pccl_kernels_scalar,
#if PCCL_KERNELS_X86
    &pccl_kernels_avx2,
    &pccl_kernels_avx512,
#endif
#if PCCL_KERNELS_NEON
    &pccl_kernels_neon,
#endif
};

const struct pccl_kernels *pccl_kernels_for(uint32_t features)
{
    const struct pccl_kernels *best = variants[0];
    for (size_t i = 1; i < PCCL_COUNT_OF(variants); i++) {
        if ((variants[i]->features & ~features) == 0) {
            best = variants[i];
        }
    }
    return best;
}

const char *pccl_kernels_name(const struct pccl_kernels *kernels) { return kernels->name; }

const struct pccl_kernels *pccl_kernels_variant(uint32_t index, uint32_t *features)
{
    if (index >= PCCL_COUNT_OF(variants)) {
        return NULL;
    }
    *features = variants[index]->features;
    return variants[index];
}

/* ---- blocks: what is in work stays in the first cache, beside a block of each of two operands ---- */

enum { BLOCK_BYTES = 8192, BLOCK_FLOATS = 1024 };

/* A fold of parts: one block of each is folded, then the next. divisor: 0 for none. */
struct fold {
    const struct pccl_kernels *kernels;
    enum pccl_datatype datatype;
    enum pccl_reduction reduction;
    const void *const *parts;
    uint32_t part_count;
    uint32_t divisor;
};

static const char *part_at(const struct fold *fold, uint32_t part, size_t offset_bytes)
{
    return (const char *)fold->parts[part] + offset_bytes;
}

/* The greater of an element and itself is the element, or the one quiet NaN: that is the fold of a single part. */
static enum pccl_reduction step_of(const struct fold *fold)
{
    return fold->part_count > 1 ? fold->reduction : PCCL_MAX;
}
static uint32_t second_of(const struct fold *fold) { return fold->part_count > 1 ? 1 : 0; }

/*
 * The first steps go to a block of our own and only the last one to the result, because the result may be any part.
 */
static void fold_block(const struct fold *fold, size_t offset_bytes, size_t count, char *result)
{
    _Alignas(PCCL_CACHE_LINE) uint64_t block[BLOCK_BYTES / sizeof(uint64_t)];
    const uint32_t first = second_of(fold), last = fold->part_count - 1;
    const void *folded = part_at(fold, 0, offset_bytes);
    for (uint32_t part = first; part <= last; part++) {
        void *to = part == last ? (void *)result : block;
        fold->kernels->combine[fold->datatype][step_of(fold)](to, folded, part_at(fold, part, offset_bytes), count);
        folded = to;
    }
    if (fold->divisor != 0) {
        fold->kernels->divide[fold->datatype](result, result, count, fold->divisor);
    }
}

static void fold_half_block(const struct fold *fold, size_t offset_bytes, size_t count, char *result)
{
    _Alignas(PCCL_CACHE_LINE) float folded[BLOCK_FLOATS];
    _Alignas(PCCL_CACHE_LINE) float next[BLOCK_FLOATS];
    const struct pccl_kernels *kernels = fold->kernels;
    kernels->widen[fold->datatype](folded, part_at(fold, 0, offset_bytes), count);
    for (uint32_t part = second_of(fold); part < fold->part_count; part++) {
        kernels->widen[fold->datatype](next, part_at(fold, part, offset_bytes), count);
        kernels->combine[PCCL_F32][step_of(fold)](folded, folded, next, count);
    }
    if (fold->divisor != 0) {
        kernels->divide[PCCL_F32](folded, folded, count, fold->divisor);
    }
    kernels->narrow[fold->datatype](result, folded, count);
}

static bool is_half(enum pccl_datatype datatype) { return datatype == PCCL_F16 || datatype == PCCL_BF16; }

static void fold_all(const struct fold *fold, size_t count, void *result)
{
    const size_t size = pccl_datatype_bytes(fold->datatype);
    const size_t block = is_half(fold->datatype) ? BLOCK_FLOATS : BLOCK_BYTES / size;
    for (size_t done = 0; done < count; done += block) {
        size_t now = count - done < block ? count - done : block;
        (is_half(fold->datatype) ? fold_half_block : fold_block)(fold, done * size, now, (char *)result + done * size);
    }
}

static void divide_halves(const struct pccl_kernels *kernels, enum pccl_datatype datatype, uint32_t divisor,
                          char *result, const char *source, size_t count)
{
    _Alignas(PCCL_CACHE_LINE) float block[BLOCK_FLOATS];
    for (size_t done = 0; done < count; done += BLOCK_FLOATS) {
        size_t now = count - done < BLOCK_FLOATS ? count - done : BLOCK_FLOATS;
        kernels->widen[datatype](block, source + done * sizeof(uint16_t), now);
        kernels->divide[PCCL_F32](block, block, now, divisor);
        kernels->narrow[datatype](result + done * sizeof(uint16_t), block, now);
    }
}

/* ---- the interface ---- */

static void assert_valid(enum pccl_datatype datatype, enum pccl_reduction reduction)
{
    PCCL_ASSERT((unsigned)datatype < PCCL_DATATYPES && (unsigned)reduction < PCCL_REDUCTIONS);
}

void pccl_combine(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduction reduction,
                  void *result, const void *a, const void *b, size_t count)
{
    assert_valid(datatype, reduction);
    uint64_t mode = pccl_float_mode_begin();
    if (kernels->combine[datatype][reduction] != NULL) {
        kernels->combine[datatype][reduction](result, a, b, count);
    } else {
        const void *const parts[] = {a, b};
        fold_all(&(struct fold){kernels, datatype, reduction, parts, 2, 0}, count, result);
    }
    pccl_float_mode_end(mode);
}

void pccl_finish(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduction reduction,
                 uint32_t ranks, void *result, const void *source, size_t count)
{
    assert_valid(datatype, reduction);
    PCCL_ASSERT(ranks > 0);
    if (reduction != PCCL_AVG) {
        if (result != source && count > 0) {
            memcpy(result, source, count * pccl_datatype_bytes(datatype));
        }
        return;
    }
    uint64_t mode = pccl_float_mode_begin();
    if (is_half(datatype)) {
        divide_halves(kernels, datatype, ranks, result, source, count);
    } else {
        kernels->divide[datatype](result, source, count, ranks);
    }
    pccl_float_mode_end(mode);
}

void pccl_copy_away(const struct pccl_kernels *kernels, void *to, const void *from, size_t bytes)
{
    kernels->copy_away(to, from, bytes);
}

void pccl_copied_away(const struct pccl_kernels *kernels) { kernels->copied_away(); }

void pccl_combine_all(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduction reduction,
                      const void *const *parts, uint32_t part_count, size_t count, void *result)
{
    assert_valid(datatype, reduction);
    PCCL_ASSERT(part_count > 0);
    uint32_t divisor = reduction == PCCL_AVG ? part_count : 0;
    uint64_t mode = pccl_float_mode_begin();
    fold_all(&(struct fold){kernels, datatype, reduction, parts, part_count, divisor}, count, result);
    pccl_float_mode_end(mode);
}

void pccl_digest_128(const struct pccl_kernels *kernels, const void *bytes, size_t length, uint64_t halves[2])
{
    kernels->digest(bytes, length, halves);
}
