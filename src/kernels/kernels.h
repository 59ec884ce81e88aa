/*
 * Element-wise arithmetic on bulk data, in one variant for each kind of processor. All variants give the same bits as
 * the scalar one, so peers with different processors agree. Pure; the driver detects the processor's features. Elements
 * need no alignment. The semantics are in kernels/reduce.h.
 */
#ifndef PCCL_KERNELS_KERNELS_H
#define PCCL_KERNELS_KERNELS_H

#include "kernels/reduce.h"

/* Processor features that select a variant. */
enum pccl_cpu_feature {
    PCCL_CPU_AVX2 = 1 << 0,   /* with F16C */
    PCCL_CPU_AVX512 = 1 << 1, /* F, BW, DQ, VL; and AVX2, F16C */
    PCCL_CPU_NEON = 1 << 2,
};

struct pccl_kernels; /* functions of one variant; constant */

/* Returns the fastest variant within these features (a set of enum pccl_cpu_feature). Never NULL. */
const struct pccl_kernels *pccl_kernels_for(uint32_t features);
/* "scalar", "avx2", "avx512", "neon" */
const char *pccl_kernels_name(const struct pccl_kernels *kernels);
/*
 * Returns every variant of this build, scalar first; NULL beyond the last. For tests; the processor may lack its
 * features.
 */
const struct pccl_kernels *pccl_kernels_variant(uint32_t index, uint32_t *features);

/*
 * Combines: result[i] = a[i] op b[i]; AVG adds, the division is at the end. result may be a or b, and must not overlap
 * them otherwise. Narrow floats, of 8 and 16 bits, are combined in f32 and rounded once. Here and below: the reduction
 * fits the type; elements need no alignment; a result that is NaN is the canonical quiet NaN of kernels/reduce.h; the
 * thread's float mode has no effect and is preserved.
 */
void pccl_combine(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                  void *result, const void *a, const void *b, size_t count);
/*
 * One step of a fold with successive parts: the sum so far op the next part; at the end AVG divides by the number of
 * ranks (integers truncate toward zero). Parts are elements. The sum so far, before and after, has elements or, for
 * narrow floats, f32: it is rounded when it becomes elements.
 */
struct pccl_step {
    enum pccl_datatype datatype; /* of the elements */
    enum pccl_datatype from, to; /* of the sum before and after: datatype; or f32, for narrow floats */
    enum pccl_reduce_op reduction;
    uint32_t ranks; /* 0: not the end */
    void *copy;     /* receives a copy of the result, written as by pccl_copy_streaming; NULL: none */
};
/*
 * Returns the type of intermediate sums, in which nothing is rounded: f32 for narrow floats, except under MAX and MIN,
 * which do not round.
 */
enum pccl_datatype pccl_folded_type(enum pccl_datatype datatype, enum pccl_reduce_op reduction);
/*
 * Carries out a step. result may be `folded`, unless it is longer; and part, if it has the same type. No other overlap.
 * Works in blocks, which are divided and copied while they are in the first cache.
 */
void pccl_combine_step(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result,
                       const void *folded, const void *part, size_t count);
/*
 * Folds and divides for an owner that has all parts, like pccl_reduce_all: from the left, for narrow floats in f32 with
 * one rounding at the end. result may be parts[k]. part_count > 0. Works in blocks that stay in the first cache, so
 * each part is read once from memory and the result is written once.
 */
void pccl_combine_all(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                      const void *const *parts, uint32_t part_count, size_t count, void *result);

/*
 * Computes a contribution to a premultiplied sum: result[i] = source[i] * factor, rounded to the type of the elements,
 * which are floats. Types narrower than f64 are multiplied in f32, by the factor as an f32. result may be source.
 */
void pccl_scale(const struct pccl_kernels *kernels, enum pccl_datatype datatype, void *result, const void *source,
                size_t count, double factor);

/*
 * Copies bytes that are not read soon and that exceed the caches. They are written past the caches if the processor
 * can, so that memory is not read first and the caches keep their content. Other threads may read them after
 * pccl_copied_streaming, which waits for memory; call it once after many copies.
 */
void pccl_copy_streaming(const struct pccl_kernels *kernels, void *to, const void *from, size_t bytes);
void pccl_copied_streaming(const struct pccl_kernels *kernels);

/* Computes XXH3 with 128 bits of these bytes: its low and its high half. The same from all variants. */
void pccl_digest_128(const struct pccl_kernels *kernels, const void *bytes, size_t length, uint64_t halves[2]);

enum {
    PCCL_SHA256_BYTES = 32,
    PCCL_SHA256_LANES = 16,
    PCCL_SHA256_STRIPE = PCCL_SHA256_LANES * 64, /* a block of each lane */
};

/* SHA-256 of bytes that are added piece by piece; for small amounts. */
struct pccl_sha256 {
    const struct pccl_kernels *kernels;
    uint64_t length;
    uint32_t state[8][PCCL_SHA256_LANES];
    uint8_t stripe[PCCL_SHA256_STRIPE];
};
void pccl_sha256_begin(struct pccl_sha256 *sha, const struct pccl_kernels *kernels);
void pccl_sha256_add(struct pccl_sha256 *sha, const void *bytes, size_t length);
void pccl_sha256_end(struct pccl_sha256 *sha, uint8_t hash[PCCL_SHA256_BYTES]);
/*
 * Computes a hash for large amounts that is as hard to forge as SHA-256. Lane i of 16 is the SHA-256 of the 32-bit
 * words i, i + 16, i + 32... of all whole stripes of 1,024 bytes; the hash is the SHA-256 of the lanes' hashes (if
 * there is a stripe), the bytes behind the last stripe, and the length in bytes (64 bits, big-endian).
 */
void pccl_bulk_hash(const struct pccl_kernels *kernels, const void *bytes, size_t length,
                    uint8_t hash[PCCL_SHA256_BYTES]);

#endif
