/*
 * Element-wise arithmetic on bulk data, with a variant for each kind of processor. All variants compute the same bits
 * as the scalar one, so peers with different processors agree. Pure; the caller detects the processor's features.
 * Elements need not be aligned. kernels/reduce.h defines the semantics.
 */
#ifndef PCCL_KERNELS_KERNELS_H
#define PCCL_KERNELS_KERNELS_H

#include "kernels/reduce.h"

/* Processor features that select a variant. */
enum pccl_cpu_feature {
    PCCL_CPU_AVX2 = 1 << 0,   /* including F16C */
    PCCL_CPU_AVX512 = 1 << 1, /* F, BW, DQ and VL, including AVX2 and F16C */
    PCCL_CPU_NEON = 1 << 2,
};

struct pccl_kernels; /* functions of a variant; constant */

/* Returns the fastest variant that these features (a set of enum pccl_cpu_feature) support. Never NULL. */
const struct pccl_kernels *pccl_kernels_for(uint32_t features);
/* "scalar", "avx2", "avx512", "neon" */
const char *pccl_kernels_name(const struct pccl_kernels *kernels);
/*
 * Returns a variant of this build by its index, beginning with scalar; NULL after the last one. For tests; the
 * processor may lack the features.
 */
const struct pccl_kernels *pccl_kernels_variant(uint32_t index, uint32_t *features);

/*
 * Computes result[i] = a[i] op b[i]. AVG adds, because the division follows at the end. result may be a or b, but must
 * not overlap them otherwise. Narrow floats (of 8 and 16 bits) are combined in f32 and rounded once. For this and the
 * functions below: the reduction must fit the type; elements need no alignment; a NaN result is the canonical quiet NaN
 * of kernels/reduce.h; the thread's float mode has no effect and is preserved.
 */
void pccl_combine(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                  void *result, const void *a, const void *b, size_t count);
/*
 * One step of a fold over successive parts: the sum so far op the next part. At the end, AVG divides by the number of
 * ranks (integers truncate toward zero). Parts consist of elements. The sum before and after the step consists of
 * elements or, for narrow floats, of f32, which is rounded when it is converted to elements.
 */
struct pccl_step {
    enum pccl_datatype datatype; /* type of the elements */
    enum pccl_datatype from, to; /* types of the sum before and after: datatype, or f32 for narrow floats */
    enum pccl_reduce_op reduction;
    uint32_t ranks; /* divisor at the end of an AVG; 0: not the end */
    void *copy;     /* if not NULL, receives a copy of the result, written as by pccl_copy_streaming */
};
/*
 * Returns the type of intermediate results: f32 for narrow floats, so that only the final result is rounded. MAX and
 * MIN keep the type, because they do not round.
 */
enum pccl_datatype pccl_folded_type(enum pccl_datatype datatype, enum pccl_reduce_op reduction);
/*
 * Performs a step. result may be `folded`, unless its elements are longer, or `part` if it has the same type. There
 * must be no other overlap. Works in blocks, which are divided and copied while they are in the L1 cache.
 */
void pccl_combine_step(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result,
                       const void *folded, const void *part, size_t count);
/*
 * Folds and divides when all parts are available, like pccl_reduce_all: from the left, for narrow floats in f32 with
 * one rounding at the end. result may be parts[k]. part_count > 0. Works in blocks that stay in the L1 cache, so that
 * memory is read once for each part and written once for the result.
 */
void pccl_combine_all(const struct pccl_kernels *kernels, enum pccl_datatype datatype, enum pccl_reduce_op reduction,
                      const void *const *parts, uint32_t part_count, size_t count, void *result);

/*
 * Computes a contribution to a premultiplied sum: result[i] = source[i] * factor, rounded to the type of the elements,
 * which are floats. Types narrower than f64 are multiplied in f32, with the factor converted to f32. result may be
 * source.
 */
void pccl_scale(const struct pccl_kernels *kernels, enum pccl_datatype datatype, void *result, const void *source,
                size_t count, double factor);

/*
 * Copies bytes that exceed the caches and will not be read soon. If the processor supports it, they bypass the caches,
 * so that memory is not read first and the caches keep their content. Other threads may read the copy after
 * pccl_copied_streaming, which waits for the stores to reach memory. Call it once after many copies.
 */
void pccl_copy_streaming(const struct pccl_kernels *kernels, void *to, const void *from, size_t bytes);
void pccl_copied_streaming(const struct pccl_kernels *kernels);

/* Computes the 128-bit XXH3 of these bytes, low half first. All variants return the same value. */
void pccl_digest_128(const struct pccl_kernels *kernels, const void *bytes, size_t length, uint64_t halves[2]);

enum {
    PCCL_SHA256_BYTES = 32,
    PCCL_SHA256_LANES = 16,
    PCCL_SHA256_STRIPE = PCCL_SHA256_LANES * 64, /* one block per lane */
};

/* SHA-256 of bytes that are added piece by piece. Intended for small amounts of data. */
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
 * Computes a hash for large amounts of data that is as hard to forge as SHA-256. Lane i of 16 is the SHA-256 of the
 * 32-bit words i, i + 16, i + 32... of all whole stripes of 1,024 bytes. The hash is the SHA-256 of the lanes' hashes
 * (if there are stripes), the bytes after the last stripe, and the length in bytes (64 bits, big-endian).
 */
void pccl_bulk_hash(const struct pccl_kernels *kernels, const void *bytes, size_t length,
                    uint8_t hash[PCCL_SHA256_BYTES]);

#endif
