/*
 * Unpacks eight-bit codes with F16C: a code's exponent and fraction fit into an f16, which the processor converts in
 * vectors, including subnormals. For variants whose processors support it; included before kernels/loops.h. The plain
 * loop in kernels/scaled_loops.h defines the result.
 */
#ifndef PCCL_KERNELS_SCALED_X86_H
#define PCCL_KERNELS_SCALED_X86_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define HAS_DECODE_F16

/*
 * Stores eight values, clamped to +-top. If value and limit are both zero, the intrinsics return the second operand, so
 * the zero keeps its sign.
 */
static inline void put_halves(__m128i halves, __m256 step, __m256 top, uint8_t *values)
{
    __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(halves), step), lowest = _mm256_sub_ps(_mm256_setzero_ps(), top);
    _mm256_storeu_ps((void *)values, _mm256_max_ps(lowest, _mm256_min_ps(top, value)));
}

/*
 * Returns sign, exponent and fraction in the upper part of 16 bits, with all but the sign shifted down by `down` bits.
 */
static inline __m128i halves_of(__m128i codes, int down)
{
    return down == 0 ? codes
                     : _mm_and_si128(_mm_srai_epi16(codes, down), _mm_set1_epi16((int16_t)(0x7fff >> down | -0x8000)));
}

/* Decodes codes, a multiple of 16, as f16 values whose exponents begin `down` bits below their usual position. */
static inline void decode_f16(const uint8_t *codes, size_t count, int down, float step, float top, uint8_t *values)
{
    const __m256 steps = _mm256_set1_ps(step), tops = _mm256_set1_ps(top);
    const size_t half = 8 * sizeof step;
    for (size_t i = 0; i < count; i += 16, values += 2 * half) {
        __m128i code = _mm_loadu_si128((const void *)(codes + i));
        put_halves(halves_of(_mm_unpacklo_epi8(_mm_setzero_si128(), code), down), steps, tops, values);
        put_halves(halves_of(_mm_unpackhi_epi8(_mm_setzero_si128(), code), down), steps, tops, values + half);
    }
}

#endif
