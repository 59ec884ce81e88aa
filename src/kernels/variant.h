/*
 * Functions of a variant of the kernels. Included only by src/kernels; all other code uses kernels/kernels.h. A variant
 * is a file, variant_<name>.c, that selects the instruction set and then includes kernels/loops.h. For targets without
 * such processors the file is empty.
 */
#ifndef PCCL_KERNELS_VARIANT_H
#define PCCL_KERNELS_VARIANT_H

#include "kernels/kernels.h"
#include "kernels/scaled.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define PCCL_KERNELS_X86 1
#else
#define PCCL_KERNELS_X86 0
#endif
#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#define PCCL_KERNELS_NEON 1
#else
#define PCCL_KERNELS_NEON 0
#endif

/* Parameters for one block of a scaled codec: code = round(|value| * inverse); value = |code| * step, at most top. */
struct pccl_scaling {
    float inverse;
    uint32_t first, keys[2]; /* for random numbers: position of the first element, and keys */
};
struct pccl_unscaling {
    float step, top;
};
/* Values are finite floats without alignment. Their number is a multiple of PCCL_SCALED_BLOCK_MIN. */
struct pccl_scaled_loops {
    void (*encode[PCCL_SCALED_ROUNDINGS])(const uint8_t *restrict values, size_t count, const struct pccl_scaling *by,
                                          uint8_t *restrict codes);
    void (*decode)(const uint8_t *restrict codes, size_t count, const struct pccl_unscaling *by,
                   uint8_t *restrict values);
};

/* Functions for one chunk of the sparse codec. Magnitudes are the bits of floats without their signs. */
struct pccl_sparse_loops {
    void (*magnitudes)(const float *values, size_t count, int32_t *magnitudes);
    /* returns the threshold that the `kept` largest magnitudes reach */
    int32_t (*threshold)(const int32_t *magnitudes, size_t count, size_t kept);
    void (*pack)(const uint16_t *indices, size_t pairs, uint8_t *bytes);
    void (*unpack)(const uint8_t *bytes, size_t pairs, uint16_t *indices);
};

struct pccl_kernels {
    const char *name;
    uint32_t features; /* set of enum pccl_cpu_feature, all of which are needed */
    /* result[i] = a[i] op b[i]. NULL for f16 and 8-bit floats, which are combined as f32. result may be a or b. */
    void (*combine[PCCL_DATATYPES][PCCL_REDUCE_OPS])(void *result, const void *a, const void *b, size_t count);
    /* pccl_combine_step, for steps whose types `combine` supports. */
    void (*step)(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result, const void *folded,
                 const void *part, size_t count);
    /* result[i] = source[i] / divisor. NULL for narrow floats. result may be source. divisor > 0 */
    void (*divide[PCCL_DATATYPES])(void *result, const void *source, size_t count, uint32_t divisor);
    /* result[i] = source[i] * factor. Only for f32 and f64. result may be source. */
    void (*scale[PCCL_DATATYPES])(void *result, const void *source, size_t count, double factor);
    /* Conversions like pccl_f16_to_f32 etc., only for narrow floats (of 8 and 16 bits), otherwise NULL. No overlap. */
    void (*widen[PCCL_DATATYPES])(float *to, const void *from, size_t count);
    void (*narrow[PCCL_DATATYPES])(void *to, const float *from, size_t count);
    void (*copy_streaming)(void *to, const void *from, size_t bytes);
    void (*copied_streaming)(void);
    void (*digest)(const void *bytes, size_t length, uint64_t halves[2]);
    /* Block function of SHA-256, for `count` blocks of each lane. */
    void (*sha256)(uint32_t state[8][PCCL_SHA256_LANES], const uint8_t *stripes, size_t count);
    /* Largest magnitude of any values, as the bits of a float. */
    uint32_t (*scaled_largest)(const uint8_t *values, size_t count);
    struct pccl_scaled_loops scaled[PCCL_SCALED_FORMATS];
    struct pccl_sparse_loops sparse;
};

extern const struct pccl_kernels pccl_kernels_scalar;
#if PCCL_KERNELS_X86
extern const struct pccl_kernels pccl_kernels_avx2, pccl_kernels_avx512;
#endif
#if PCCL_KERNELS_NEON
extern const struct pccl_kernels pccl_kernels_neon;
#endif

#endif
