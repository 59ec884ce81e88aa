/*
 * Selects the variant for a processor, and divides folds into blocks for its kernels. All special instructions are in
 * the variants.
 */
#include "kernels/kernels.h"

#include "kernels/float_mode.h"
#include "kernels/prefetch.h"
#include "kernels/variant.h"

#include <string.h>

/* From slow to fast, beginning with scalar. */
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

/* ---- blocks, small enough that the result and two operands stay in the L1 cache ---- */

enum { BLOCK_BYTES = 8192, BLOCK_FLOATS = 1024 };

/* A fold of several parts, which is computed block by block. divisor: 0 if there is no division. */
struct fold {
    const struct pccl_kernels *kernels;
    enum pccl_datatype datatype;
    enum pccl_reduce_op reduction;
    const void *const *parts;
    uint32_t part_count;
    uint32_t divisor;
};

static const char *part_at(const struct fold *fold, uint32_t part, size_t offset_bytes)
{
    return (const char *)fold->parts[part] + offset_bytes;
}

/*
 * Returns the reduction for a step. The fold of a single part uses the maximum of each element and itself, which is the
 * element or the canonical quiet NaN.
 */
static enum pccl_reduce_op step_of(const struct fold *fold)
{
    return fold->part_count > 1 ? fold->reduction : PCCL_MAX;
}
static uint32_t second_of(const struct fold *fold) { return fold->part_count > 1 ? 1 : 0; }

/*
 * Folds a block. Only the last step writes to the result, because it may be the memory of any part; earlier steps write
 * to a temporary block.
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

/* Folds a block of narrow floats, computed in f32. */
static void step_narrow_block(const struct pccl_kernels *kernels, const struct pccl_step *step, char *result,
                              const void *folded, const void *part, size_t count)
{
    _Alignas(PCCL_CACHE_LINE) float left[BLOCK_FLOATS];
    _Alignas(PCCL_CACHE_LINE) float right[BLOCK_FLOATS];
    const bool rounds = step->to != PCCL_F32;
    void *to = rounds ? (void *)left : result;
    if (step->from != PCCL_F32) {
        kernels->widen[step->datatype](left, folded, count);
        folded = left;
    }
    kernels->widen[step->datatype](right, part, count);
    kernels->combine[PCCL_F32][step->reduction](to, folded, right, count);
    if (step->ranks != 0 && step->reduction == PCCL_AVG) {
        kernels->divide[PCCL_F32](to, to, count, step->ranks);
    }
    if (rounds) {
        kernels->narrow[step->datatype](result, left, count);
    }
}

static void fold_narrow_block(const struct fold *fold, size_t offset_bytes, size_t count, char *result)
{
    _Alignas(PCCL_CACHE_LINE) float block[BLOCK_FLOATS];
    const uint32_t first = second_of(fold), last = fold->part_count - 1;
    const void *folded = part_at(fold, 0, offset_bytes);
    for (uint32_t part = first; part <= last; part++) {
        struct pccl_step step = {.datatype = fold->datatype,
                                 .from = part == first ? fold->datatype : PCCL_F32,
                                 .to = part == last ? fold->datatype : PCCL_F32,
                                 .reduction = step_of(fold),
                                 .ranks = part == last ? fold->divisor : 0};
        char *to = part == last ? result : (char *)block;
        step_narrow_block(fold->kernels, &step, to, folded, part_at(fold, part, offset_bytes), count);
        folded = block;
    }
}

/* Returns true for float types that are computed in f32. */
static bool is_narrow(enum pccl_datatype datatype)
{
    return pccl_datatype_is_float(datatype) && datatype != PCCL_F32 && datatype != PCCL_F64;
}

static void fold_all(const struct fold *fold, size_t count, void *result)
{
    const size_t size = pccl_datatype_bytes(fold->datatype);
    const size_t block = is_narrow(fold->datatype) ? BLOCK_FLOATS : BLOCK_BYTES / size;
    for (size_t done = 0; done < count; done += block) {
        size_t now = count - done < block ? count - done : block;
        (is_narrow(fold->datatype) ? fold_narrow_block : fold_block)(fold, done * size, now,
                                                                     (char *)result + done * size);
    }
}

static void step_narrow(const struct pccl_kernels *kernels, const struct pccl_step *step, char *result,
                        const char *folded, const char *part, size_t count)
{
    const size_t size = pccl_datatype_bytes(step->datatype);
    const size_t from_size = pccl_datatype_bytes(step->from), to_size = pccl_datatype_bytes(step->to);
    for (size_t done = 0; done < count; done += BLOCK_FLOATS) {
        size_t now = count - done < BLOCK_FLOATS ? count - done : BLOCK_FLOATS;
        if (done + now < count)
            pccl_prefetch(part + (done + now) * size, now * size);
        step_narrow_block(kernels, step, result + done * to_size, folded + done * from_size, part + done * size, now);
        if (step->copy != NULL)
            kernels->copy_streaming((char *)step->copy + done * to_size, result + done * to_size, now * to_size);
    }
}

/* ---- the interface ---- */

static void assert_valid(enum pccl_datatype datatype, enum pccl_reduce_op reduction)
{
    PCCL_ASSERT((unsigned)datatype < PCCL_DATATYPES && (unsigned)reduction < PCCL_REDUCE_OPS);
}

static void assert_fits(enum pccl_datatype datatype, enum pccl_reduce_op reduction)
{
    PCCL_ASSERT(pccl_reduction_misfit(datatype, reduction) == NULL);
}

enum pccl_datatype pccl_folded_type(enum pccl_datatype datatype, enum pccl_reduce_op reduction)
{
    return is_narrow(datatype) && reduction != PCCL_MAX && reduction != PCCL_MIN ? PCCL_F32 : datatype;
}

void pccl_combine_step(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result,
                       const void *folded, const void *part, size_t count)
{
    const enum pccl_datatype datatype = step->datatype;
    assert_valid(datatype, step->reduction);
    const bool divides = step->ranks != 0 && step->reduction == PCCL_AVG;
    const bool alike = step->from == datatype && step->to == datatype && !(divides && is_narrow(datatype));
    uint64_t mode = pccl_float_mode_begin();
    if (alike && kernels->combine[datatype][step->reduction] != NULL) {
        kernels->step(kernels, step, result, folded, part, count);
    } else {
        assert_fits(datatype, step->reduction);
        step_narrow(kernels, step, result, folded, part, count);
    }
    pccl_float_mode_end(mode);
}

void pccl_combine(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                  void *result, const void *a, const void *b, size_t count)
{
    const struct pccl_step step = {.datatype = datatype, .from = datatype, .to = datatype, .reduction = reduction};
    pccl_combine_step(kernels, &step, result, a, b, count);
}

static void scale_narrow(const struct pccl_kernels *kernels, enum pccl_datatype datatype, char *result,
                         const char *source, size_t count, double factor)
{
    _Alignas(PCCL_CACHE_LINE) float block[BLOCK_FLOATS];
    const size_t size = pccl_datatype_bytes(datatype);
    for (size_t done = 0; done < count; done += BLOCK_FLOATS) {
        size_t now = count - done < BLOCK_FLOATS ? count - done : BLOCK_FLOATS;
        kernels->widen[datatype](block, source + done * size, now);
        kernels->scale[PCCL_F32](block, block, now, factor);
        kernels->narrow[datatype](result + done * size, block, now);
    }
}

void pccl_scale(const struct pccl_kernels *kernels, enum pccl_datatype datatype, void *result, const void *source,
                size_t count, double factor)
{
    assert_valid(datatype, PCCL_PREMUL_SUM);
    assert_fits(datatype, PCCL_PREMUL_SUM);
    uint64_t mode = pccl_float_mode_begin();
    if (is_narrow(datatype))
        scale_narrow(kernels, datatype, result, source, count, factor);
    else
        kernels->scale[datatype](result, source, count, factor);
    pccl_float_mode_end(mode);
}

void pccl_copy_streaming(const struct pccl_kernels *kernels, void *to, const void *from, size_t bytes)
{
    kernels->copy_streaming(to, from, bytes);
}

void pccl_copied_streaming(const struct pccl_kernels *kernels) { kernels->copied_streaming(); }

void pccl_combine_all(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                      const void *const *parts, uint32_t part_count, size_t count, void *result)
{
    assert_valid(datatype, reduction);
    assert_fits(datatype, reduction);
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
