/* Variant for x86-64 processors with AVX-512 (F, BW, DQ, VL) and F16C. */
#include "kernels/variant.h"

#if PCCL_KERNELS_X86
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif

enum { LANES = 16 };

static void widen_f16(float *to, const void *from, size_t count)
{
    const char *halves = from;
    for (; count >= LANES; count -= LANES, to += LANES, halves += LANES * 2) {
        _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)halves)));
    }
    pccl_kernels_scalar.widen[PCCL_F16](to, halves, count);
}

static void narrow_f16(void *to, const float *from, size_t count)
{
    char *halves = to;
    for (; count >= LANES; count -= LANES, from += LANES, halves += LANES * 2) {
        _mm256_storeu_si256((void *)halves, _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
    }
    pccl_kernels_scalar.narrow[PCCL_F16](halves, from, count);
}

/* Writes whole vectors to aligned addresses. Other threads see them in order only after a fence. */
static void copy_streaming(void *to, const void *from, size_t bytes)
{
    char *target = to;
    const char *source = from;
    size_t ragged = (size_t)(-(uintptr_t)target) % sizeof(__m512i);
    if (bytes > ragged) {
        memcpy(target, source, ragged);
        target += ragged, source += ragged, bytes -= ragged;
        for (; bytes >= sizeof(__m512i); bytes -= sizeof(__m512i)) {
            _mm512_stream_si512((void *)target, _mm512_loadu_si512((const void *)source));
            target += sizeof(__m512i), source += sizeof(__m512i);
        }
    }
    memcpy(target, source, bytes);
}

static void copied_streaming(void) { _mm_sfence(); }

/*
 * Looks up two values for each byte: one for the first half of `values`, one for the second. `bytes` must be at least
 * 8.
 */
#define HAS_LOOK_UP
static void look_up(const uint8_t *codes, size_t bytes, const uint32_t table[16], uint8_t *values)
{
    const __m256 low = _mm256_loadu_ps((const void *)table), high = _mm256_loadu_ps((const void *)(table + 8));
    for (size_t i = 0; i < bytes; i += 8) {
        __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(codes + i)));
        for (size_t half = 0; half < 2; half++, code = _mm256_srli_epi32(code, 4))
            _mm256_storeu_ps((void *)(values + (half * bytes + i) * sizeof *table),
                             _mm256_permutex2var_ps(low, code, high));
    }
}

#define XXH_VECTOR XXH_AVX2 /* wider vectors are no faster here */
#include "kernels/digest.h"
#include "kernels/scaled_x86.h"

#include "kernels/loops.h"
#include "kernels/sha256.h"

DEFINE_VARIANT(avx512, PCCL_CPU_AVX512)

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
