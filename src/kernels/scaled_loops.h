/*
 * Loops of the scaled codecs over one block, for each format. Part of kernels/loops.h. Counts are multiples of
 * PCCL_SCALED_BLOCK_MIN. All formats are small floats that differ in three numbers (int4 has only subnormals), so they
 * share one source.
 *
 * Peers must agree on every bit, so the code uses only plain operations in the order written, and they must not be
 * fused.
 */
#ifndef PCCL_KERNELS_SCALED_LOOPS_H
#define PCCL_KERNELS_SCALED_LOOPS_H

#include "kernels/bits.h"
#include "kernels/variant.h"

#include <string.h>

#if defined(__GNUC__)
#define SCALED_INLINED static inline __attribute__((always_inline))
#else
#define SCALED_INLINED static inline
#endif

/* gcc does not unroll loops that it has vectorized. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLLED _Pragma("GCC unroll 4")
#else
#define UNROLLED
#endif

#define SCALED_NAN UINT32_C(0x7fc00000)

/* Always a compile-time constant, so that each format gets separate loops. */
struct scaled_shape {
    int32_t code_bits, mantissa_bits;
    int32_t lowest;      /* biased exponent of the smallest normal number, as in f32 */
    uint32_t not_finite; /* first magnitude that is not a number; with four bits, the negative zero is NaN */
    float top;           /* largest number */
};
static const struct scaled_shape shape_e4m3 = {8, 3, 127 - 6, 0x7f, 448}, shape_e5m2 = {8, 2, 127 - 14, 0x7c, 57344},
                                 shape_int4 = {4, 3, 127 + 3, 8, 7}, shape_e3m0 = {4, 0, 127, 8, 64},
                                 shape_e2m1 = {4, 1, 127, 8, 6};

/*
 * Returns the bits of the smaller of two non-negative numbers. Compares as integers, because choices between floats are
 * not vectorized.
 */
SCALED_INLINED uint32_t scaled_least(float a, float b)
{
    int32_t x = (int32_t)pccl_f32_bits(a), y = (int32_t)pccl_f32_bits(b);
    return (uint32_t)(x < y ? x : y);
}

SCALED_INLINED uint32_t scaled_load(const uint8_t *values, size_t index)
{
    uint32_t bits;
    memcpy(&bits, values + index * sizeof bits, sizeof bits);
    return bits;
}

#ifndef HAS_LOOK_UP
/* Looks up two values for each byte: one for the first half of `values`, one for the second. */
static void look_up(const uint8_t *restrict codes, size_t bytes, const uint32_t table[16], uint8_t *restrict values)
{
    for (size_t i = 0; i < bytes; i++) {
        memcpy(values + i * sizeof *table, &table[codes[i] & 0xf], sizeof *table);
        memcpy(values + (bytes + i) * sizeof *table, &table[codes[i] >> 4], sizeof *table);
    }
}
#endif

/*
 * Returns the bits of the largest magnitude. Bits have the same order as the numbers, with infinity and NaN above all
 * others.
 */
static uint32_t scaled_largest(const uint8_t *values, size_t count)
{
    int32_t largest = 0;
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)(scaled_load(values, i) & 0x7fffffff);
        largest = magnitude > largest ? magnitude : largest;
    }
    return (uint32_t)largest;
}

/*
 * Returns 2^17 times a random odd multiple of 2^-17 between -1/2 and 1/2. Because it is odd, numbers that need no
 * rounding never change. The counter is mixed with two keys as in lowbias32.
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
 * Returns the magnitude of a code in the lowest byte; the other bits are undefined.
 *
 * The distance between neighboring numbers is a power of two that depends on the exponent. Adding 2^23 of these steps
 * rounds the number to a whole number of steps and leaves their count, above the next lower power of two, in the lowest
 * bits. The exponent, shifted to the end of the count, yields the steps below that power, except for a constant. The
 * rounder includes this constant, which is possible because it is even. A further 2^19 steps keep the sum above 2^23
 * steps when noise makes it negative.
 */
SCALED_INLINED uint32_t scaled_magnitude(uint32_t bits, uint32_t index, struct scaled_shape shape, bool noisy,
                                         const struct pccl_scaling *by)
{
    const int32_t shift = 23 - shape.mantissa_bits, steps_below = (shape.lowest + shift) << shape.mantissa_bits;
    const bool is_fixed = shape.mantissa_bits == shape.code_bits - 1; /* int4: the exponent is constant */
    const uint32_t above = (uint32_t)((shift << 23) + 0x80000 + (is_fixed ? 0 : -steps_below & 0xff));
    const int32_t least = (int32_t)(((uint32_t)shape.lowest << 23) + above);
    float number = pccl_f32_of(bits & 0x7fffffff) * by->inverse;
    if (noisy) /* without noise, rounding to nearest removes the excess over the largest number */
        number = pccl_f32_of(scaled_least(number, shape.top));
    int32_t rounder = (int32_t)((pccl_f32_bits(number) & 0x7f800000) + above);
    rounder = !is_fixed && rounder > least ? rounder : least;
    if (noisy)
        number += scaled_noise(index, by) *
                  pccl_f32_of((uint32_t)rounder - above - (uint32_t)((shape.mantissa_bits + 17) << 23));
    return pccl_f32_bits(number + pccl_f32_of((uint32_t)rounder)) + (is_fixed ? 0 : (uint32_t)rounder >> shift);
}

/*
 * Returns the number for a code. `bits` are the code's magnitude at the position of an f32's exponent and fraction.
 * Adding `low`, the exponent of the smallest normal number, turns a normal number x into 2 x, and a subnormal one into
 * x + low. Subtracting low is right for the subnormal number and too large for the normal one; halving is right for the
 * normal number and too large for the subnormal one. The smaller of the two results is therefore x.
 */
SCALED_INLINED uint32_t scaled_value(uint32_t bits, struct scaled_shape shape, const struct pccl_unscaling *by)
{
    const uint32_t low = (uint32_t)shape.lowest << 23, halved = bits + low - (UINT32_C(1) << 23);
    float number = pccl_f32_of(scaled_least(pccl_f32_of(bits + low) - pccl_f32_of(low), pccl_f32_of(halved)));
    return scaled_least(number * by->step, by->top);
}

/*
 * Encodes a block. With four bits, each byte has an element of the first half of the block and one of the second. Zero
 * has no sign: adding 7 to a magnitude sets the sign bit only for magnitudes of 1 to 7.
 */
SCALED_INLINED void scaled_encode(const uint8_t *restrict values, size_t count, struct scaled_shape shape, bool noisy,
                                  const struct pccl_scaling *scaling, uint8_t *restrict codes)
{
    const struct pccl_scaling by = *scaling;
    const size_t bytes = shape.code_bits == 8 ? count : count / 2;
    uint32_t words[PCCL_SCALED_BLOCK_MAX]; /* keeps compilers from narrowing each half of a byte separately */
    UNROLLED
    for (size_t i = 0; i < bytes; i++) {
        uint32_t bits = scaled_load(values, i), sign = bits >> 24 & 0x80;
        words[i] = scaled_magnitude(bits, by.first + (uint32_t)i, shape, noisy, &by);
        if (shape.code_bits == 4) {
            uint32_t high = scaled_load(values, bytes + i);
            sign = (sign >> 4) | (high >> 24 & 0x80);
            words[i] += scaled_magnitude(high, by.first + (uint32_t)(bytes + i), shape, noisy, &by) << 4;
            sign &= words[i] + 0x77;
        }
        words[i] += sign;
    }
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (uint8_t)words[i];
}

/* Decodes four-bit codes with a table of the block's values. */
SCALED_INLINED void scaled_decode_four(const uint8_t *restrict codes, size_t count, struct scaled_shape shape,
                                       const struct pccl_unscaling *by, uint8_t *restrict values)
{
    uint32_t table[16];
    for (uint32_t i = 0; i < 8; i++) {
        table[i] = scaled_value(i << (23 - shape.mantissa_bits), shape, by);
        table[8 + i] = table[i] | (i == 0 ? SCALED_NAN : UINT32_C(1) << 31);
    }
    look_up(codes, count / 2, table, values);
}

SCALED_INLINED void scaled_put_special(const uint8_t *codes, size_t count, struct scaled_shape shape, uint8_t *values)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = codes[i] & 0x7f;
        bool is_infinite = magnitude == shape.not_finite && shape.not_finite < 0x7f;
        uint32_t bits = is_infinite ? (uint32_t)(codes[i] & 0x80) << 24 | 0x7f800000 : SCALED_NAN;
        if (magnitude >= shape.not_finite)
            memcpy(values + i * sizeof bits, &bits, sizeof bits);
    }
}

/* Decodes codes as numbers. The results for codes that are not finite are arbitrary. */
SCALED_INLINED void scaled_numbers(const uint8_t *restrict codes, size_t count, struct scaled_shape shape,
                                   const struct pccl_unscaling *by, uint8_t *restrict values)
{
#ifdef HAS_DECODE_F16
    /*
     * The result is exact, because these are powers of two, and the only operation that rounds is the same product.
     * Steps too large for this are rare.
     */
    const float step = by->step * pccl_f32_of((uint32_t)(shape.lowest + 14) << 23);
    if (pccl_f32_bits(step) < 0x7f800000) {
        decode_f16(codes, count, shape.mantissa_bits - 2, step, by->top, values);
        return;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        uint32_t code = (uint32_t)codes[i] << 24, sign = code & UINT32_C(1) << 31;
        uint32_t bits = scaled_value((code ^ sign) >> (shape.mantissa_bits + 1), shape, by) | sign;
        memcpy(values + i * sizeof bits, &bits, sizeof bits);
    }
}

SCALED_INLINED void scaled_decode_eight(const uint8_t *restrict codes, size_t count, struct scaled_shape shape,
                                        const struct pccl_unscaling *unscaling, uint8_t *restrict values)
{
    const struct pccl_unscaling by = *unscaling;
    uint8_t largest = 0;
    UNROLLED
    for (size_t i = 0; i < count; i++) {
        uint8_t magnitude = codes[i] & 0x7f;
        largest = magnitude > largest ? magnitude : largest;
    }
    scaled_numbers(codes, count, shape, &by, values);
    if (largest >= shape.not_finite)
        scaled_put_special(codes, count, shape, values);
}

#define DEFINE_SCALED(format, bits)                                                                                    \
    static void encode_##format(const uint8_t *restrict values, size_t count, const struct pccl_scaling *by,           \
                                uint8_t *restrict codes)                                                               \
    {                                                                                                                  \
        scaled_encode(values, count, shape_##format, false, by, codes);                                                \
    }                                                                                                                  \
    static void encode_noisy_##format(const uint8_t *restrict values, size_t count, const struct pccl_scaling *by,     \
                                      uint8_t *restrict codes)                                                         \
    {                                                                                                                  \
        scaled_encode(values, count, shape_##format, true, by, codes);                                                 \
    }                                                                                                                  \
    static void decode_##format(const uint8_t *restrict codes, size_t count, const struct pccl_unscaling *by,          \
                                uint8_t *restrict values)                                                              \
    {                                                                                                                  \
        scaled_decode_##bits(codes, count, shape_##format, by, values);                                                \
    }

DEFINE_SCALED(e4m3, eight)
DEFINE_SCALED(e5m2, eight)
DEFINE_SCALED(int4, four)
DEFINE_SCALED(e3m0, four)
DEFINE_SCALED(e2m1, four)

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
