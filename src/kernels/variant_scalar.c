/*
 * Variant for all processors: the loops, compiled with the base instruction set only. Converts f16 with the reference
 * functions, one element at a time.
 */
#include "kernels/reduce.h"

#include <string.h>

enum { LANES = 4 };

static void widen_f16(float *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)from + i * sizeof half, sizeof half);
        to[i] = pccl_f16_to_f32(half);
    }
}

static void narrow_f16(void *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half = pccl_f32_to_f16(from[i]);
        memcpy((char *)to + i * sizeof half, &half, sizeof half);
    }
}

static void copy_streaming(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

static void copied_streaming(void) {}

#include "kernels/digest.h"
#include "kernels/loops.h"
#include "kernels/sha256.h"

DEFINE_VARIANT(scalar, 0)
