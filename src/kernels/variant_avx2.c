/* Variant for x86-64 processors with AVX2 and F16C. */
#include "kernels/variant.h"

#if PCCL_KERNELS_X86
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif

enum { LANES = 8 };

static void widen_f16(float *to, const void *from, size_t count)
{
    const char *halves = from;
    for (; count >= LANES; count -= LANES, to += LANES, halves += LANES * 2) {
        _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const void *)halves)));
    }
    pccl_kernels_scalar.widen[PCCL_F16](to, halves, count);
}

static void narrow_f16(void *to, const float *from, size_t count)
{
    char *halves = to;
    for (; count >= LANES; count -= LANES, from += LANES, halves += LANES * 2) {
        _mm_storeu_si128((void *)halves, _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
    }
    pccl_kernels_scalar.narrow[PCCL_F16](halves, from, count);
}

/* Writes whole vectors to aligned addresses. Other threads see them in order only after a fence. */
static void copy_streaming(void *to, const void *from, size_t bytes)
{
    char *target = to;
    const char *source = from;
    size_t ragged = (size_t)(-(uintptr_t)target) % sizeof(__m256i);
    if (bytes > ragged) {
        memcpy(target, source, ragged);
        target += ragged, source += ragged, bytes -= ragged;
        for (; bytes >= sizeof(__m256i); bytes -= sizeof(__m256i)) {
            _mm256_stream_si256((void *)target, _mm256_loadu_si256((const void *)source));
            target += sizeof(__m256i), source += sizeof(__m256i);
        }
    }
    memcpy(target, source, bytes);
}

static void copied_streaming(void) { _mm_sfence(); }

/* Looks up two values for each byte: one for the first half of `values`, one for the second. */
#define HAS_LOOK_UP
static void look_up(const uint8_t *codes, size_t bytes, const uint32_t table[16], uint8_t *values)
{
    const __m256 low = _mm256_loadu_ps((const void *)table), high = _mm256_loadu_ps((const void *)(table + LANES));
    for (size_t i = 0; i < bytes; i += LANES) {
        __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(codes + i)));
        for (size_t half = 0; half < 2; half++, code = _mm256_srli_epi32(code, 4)) {
            __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
            __m256 value =
                _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code), _mm256_permutevar8x32_ps(high, code), is_high);
            _mm256_storeu_ps((void *)(values + (half * bytes + i) * sizeof *table), value);
        }
    }
}

#define XXH_VECTOR XXH_AVX2 /* wider vectors are no faster here */
#include "kernels/digest.h"
#include "kernels/scaled_x86.h"

#include "kernels/loops.h"
#include "kernels/sha256.h"

DEFINE_VARIANT(avx2, PCCL_CPU_AVX2)

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
