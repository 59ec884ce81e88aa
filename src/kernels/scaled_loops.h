/*
 * The loops of the scaled codecs over one block, for each format; part of kernels/loops.h. Counts
 * are multiples of PCCL_SCALED_BLOCK_MIN. All formats are small floats that differ in three numbers
 * (int4 has only subnormals), so one text has them all.
 *
 * Peers must agree on every bit: plain operations in the order written, none fused.
 */
#ifndef PCCL_KERNELS_SCALED_LOOPS_H
#define PCCL_KERNELS_SCALED_LOOPS_H

#include "kernels/variant.h"

#include <string.h>

#if defined(__GNUC__)
#define SCALED_INLINED static inline __attribute__((always_inline))
#else
#define SCALED_INLINED static inline
#endif

/* Constant wherever it is used, so that each format has loops of its own. */
struct scaled_shape {
    int32_t code_bits, mantissa_bits;
    int32_t lowest;      /* exponent of the smallest normal number, biased as in f32 */
    uint32_t not_finite; /* magnitudes from here on are none; of four bits, the negative zero is NaN */
    float top;           /* the largest number */
};

#define SCALED_SHAPE_e4m3                                                                                              \
    {                                                                                                                  \
        8, 3, 127 - 6, 0x7f, 448                                                                                       \
    }
#define SCALED_SHAPE_e5m2                                                                                              \
    {                                                                                                                  \
        8, 2, 127 - 14, 0x7c, 57344                                                                                    \
    }
#define SCALED_SHAPE_int4                                                                                              \
    {                                                                                                                  \
        4, 3, 127 + 3, 8, 7                                                                                            \
    }
#define SCALED_SHAPE_e3m0                                                                                              \
    {                                                                                                                  \
        4, 0, 127, 8, 64                                                                                               \
    }
#define SCALED_SHAPE_e2m1                                                                                              \
    {                                                                                                                  \
        4, 1, 127, 8, 6                                                                                                \
    }

SCALED_INLINED float scaled_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

SCALED_INLINED uint32_t scaled_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The bits of the lesser of two numbers, which are not negative. Choices between floats do not vectorize. */
SCALED_INLINED uint32_t scaled_least(float a, float b)
{
    int32_t x = (int32_t)scaled_bits(a), y = (int32_t)scaled_bits(b);
    return (uint32_t)(x < y ? x : y);
}

SCALED_INLINED uint32_t scaled_mask(bool chosen) { return (uint32_t) - (int32_t)chosen; }

SCALED_INLINED uint32_t scaled_load(const uint8_t *values, size_t index)
{
    uint32_t bits;
    memcpy(&bits, values + index * sizeof bits, sizeof bits);
    return bits;
}

/* The magnitude's bits, which are in the order of the numbers, infinity and NaN above them. */
static uint32_t scaled_largest(const uint8_t *values, size_t count)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)(scaled_load(values, i) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    return (uint32_t)largest;
}

/*
 * An odd multiple of 2^-17 between -1/2 and 1/2, times 2^17; so what needs no rounding is never
 * moved. The counter and two keys are mixed as in lowbias32.
 */
SCALED_INLINED float scaled_noise(uint32_t index, const struct pccl_scaling *by)
{
    uint32_t x = index + by->keys[0];
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x ^= by->keys[1];
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    return (float)((int32_t)(x >> 15 | 1) - 65536);
}

/*
 * The step between neighbors is a power of two that depends on the number's exponent. Added to
 * 1.5 * 2^23 steps, the number is rounded to a whole number of them, which the lowest bits are.
 */
SCALED_INLINED uint32_t scaled_code(uint32_t bits, uint32_t index, struct scaled_shape shape, bool noisy,
                                    const struct pccl_scaling *by)
{
    const int32_t low = shape.lowest << 23, mantissa_bits = shape.mantissa_bits;
    float number = scaled_float(scaled_least(scaled_float(bits & 0x7fffffff) * by->inverse, shape.top));
    int32_t exponent = (int32_t)(scaled_bits(number) & 0x7f800000);
    exponent = mantissa_bits < shape.code_bits - 1 && exponent > low ? exponent : low; /* int4: known beforehand */
    if (noisy)
        number += scaled_noise(index, by) * scaled_float((uint32_t)(exponent - ((mantissa_bits + 17) << 23)));
    uint32_t rounder = (uint32_t)(exponent + (((23 - mantissa_bits) << 23) | 0x400000));
    uint32_t steps = scaled_bits(number + scaled_float(rounder)) - rounder;
    uint32_t magnitude = steps + ((uint32_t)(exponent - low) >> (23 - mantissa_bits));
    uint32_t sign = bits >> 31 << (shape.code_bits - 1);
    if (shape.code_bits == 4)
        sign &= scaled_mask(magnitude != 0);
    return magnitude | sign;
}

SCALED_INLINED uint32_t scaled_value(uint32_t code, struct scaled_shape shape, const struct pccl_unscaling *by)
{
    const uint32_t low = (uint32_t)shape.lowest << 23, nan = 0x7fc00000;
    uint32_t magnitude = code & ((UINT32_C(1) << (shape.code_bits - 1)) - 1);
    uint32_t sign = code >> (shape.code_bits - 1) << 31;
    uint32_t shifted = magnitude << (23 - shape.mantissa_bits);
    uint32_t normal = low - (UINT32_C(1) << 23) + shifted;
    uint32_t subnormal = scaled_bits(scaled_float(low + shifted) - scaled_float(low));
    uint32_t is_normal = scaled_mask(magnitude >> shape.mantissa_bits != 0);
    float number = scaled_float((normal & is_normal) | (subnormal & ~is_normal));
    uint32_t bits = scaled_least(number * by->step, by->top) | sign;
    if (shape.code_bits == 4)
        return bits ^ ((bits ^ nan) & scaled_mask(code == 8));
    uint32_t special = nan;
    if (shape.not_finite < 0x7f)
        special ^= (nan ^ (sign | 0x7f800000)) & scaled_mask(magnitude == shape.not_finite);
    return bits ^ ((bits ^ special) & scaled_mask(magnitude >= shape.not_finite));
}

/* Of four bits, a byte has an element of the first half of the block and one of the second. */
SCALED_INLINED void scaled_encode(const uint8_t *restrict values, size_t count, struct scaled_shape shape, bool noisy,
                                  const struct pccl_scaling *scaling, uint8_t *restrict codes)
{
    const struct pccl_scaling by = *scaling;
    const size_t bytes = shape.code_bits == 8 ? count : count / 2;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t code = scaled_code(scaled_load(values, i), by.first + (uint32_t)i, shape, noisy, &by);
        if (shape.code_bits == 4)
            code |= scaled_code(scaled_load(values, bytes + i), by.first + (uint32_t)(bytes + i), shape, noisy, &by)
                    << 4;
        codes[i] = (uint8_t)code;
    }
}

SCALED_INLINED void scaled_decode(const uint8_t *restrict codes, size_t count, struct scaled_shape shape,
                                  const struct pccl_unscaling *unscaling, uint8_t *restrict values)
{
    const struct pccl_unscaling by = *unscaling;
    const size_t bytes = shape.code_bits == 8 ? count : count / 2;
    for (size_t i = 0; i < bytes; i++) {
        uint32_t mask = shape.code_bits == 8 ? 0xff : 0xf;
        uint32_t low = scaled_value(codes[i] & mask, shape, &by);
        memcpy(values + i * sizeof low, &low, sizeof low);
        if (shape.code_bits == 4) {
            uint32_t high = scaled_value((uint32_t)codes[i] >> 4, shape, &by);
            memcpy(values + (bytes + i) * sizeof high, &high, sizeof high);
        }
    }
}

#define DEFINE_SCALED(format)                                                                                          \
    static void encode_##format(const uint8_t *restrict values, size_t count, const struct pccl_scaling *by,           \
                                uint8_t *restrict codes)                                                               \
    {                                                                                                                  \
        scaled_encode(values, count, (struct scaled_shape)SCALED_SHAPE_##format, false, by, codes);                    \
    }                                                                                                                  \
    static void encode_noisy_##format(const uint8_t *restrict values, size_t count, const struct pccl_scaling *by,     \
                                      uint8_t *restrict codes)                                                         \
    {                                                                                                                  \
        scaled_encode(values, count, (struct scaled_shape)SCALED_SHAPE_##format, true, by, codes);                     \
    }                                                                                                                  \
    static void decode_##format(const uint8_t *restrict codes, size_t count, const struct pccl_unscaling *by,          \
                                uint8_t *restrict values)                                                              \
    {                                                                                                                  \
        scaled_decode(codes, count, (struct scaled_shape)SCALED_SHAPE_##format, by, values);                           \
    }

DEFINE_SCALED(e4m3)
DEFINE_SCALED(e5m2)
DEFINE_SCALED(int4)
DEFINE_SCALED(e3m0)
DEFINE_SCALED(e2m1)

#define SCALED_ROW(format)                                                                                             \
    {                                                                                                                  \
        {encode_##format, encode_noisy_##format}, decode_##format                                                      \
    }
/* In the order of enum pccl_scaled_format. */
#define SCALED_ROWS                                                                                                    \
    {                                                                                                                  \
        SCALED_ROW(e4m3), SCALED_ROW(e5m2), SCALED_ROW(int4), SCALED_ROW(e3m0), SCALED_ROW(e2m1)                       \
    }

#endif
