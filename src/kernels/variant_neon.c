/* Variant for 64-bit ARM processors. These always have Advanced SIMD, so only the f16 conversion differs. */
#include "kernels/variant.h"

#if PCCL_KERNELS_NEON
#include <arm_neon.h>
#include <string.h>

enum { LANES = 4 };

/* Loads bytes, because elements need no alignment. */
static void widen_f16(float *to, const void *from, size_t count)
{
    const uint8_t *halves = from;
    for (; count >= LANES; count -= LANES, to += LANES, halves += LANES * 2) {
        vst1q_f32(to, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves))));
    }
    pccl_kernels_scalar.widen[PCCL_F16](to, halves, count);
}

static void narrow_f16(void *to, const float *from, size_t count)
{
    uint8_t *halves = to;
    for (; count >= LANES; count -= LANES, from += LANES, halves += LANES * 2) {
        vst1_u8(halves, vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(from))));
    }
    pccl_kernels_scalar.narrow[PCCL_F16](halves, from, count);
}

static void copy_streaming(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

static void copied_streaming(void) {}

#include "kernels/digest.h"
#include "kernels/loops.h"
#include "kernels/sha256.h"

DEFINE_VARIANT(neon, PCCL_CPU_NEON)
#endif
