/* Codecs computed in float, for elements of type f32, f16 and bf16. */
#include <stdint.h>

#define VALUE float
#define VALUE_BITS uint32_t
#define ENCODE pccl_codec_encode_f32
#define DECODE pccl_codec_decode_f32
#define EACH_PACKED(X, name, target) X(name, target, uint8_t) X(name, target, uint16_t)

#define QUIET_NAN UINT32_C(0x7fc00000)
#define INFINITY_BITS UINT32_C(0x7f800000)
#define SMALLEST 0x1p-149f
#define ROUNDER 0x1.8p23f
#define WIDER (1 + 0x1p-21f)
#define FINEST 0x1p20f
#define RANGE_HUGE 0x1p126f
#define RANGE_TINY 0x1p-100f
#define UNIT_TINY 0x1p64f

#include "kernels/codec_block.h"
