/* Codecs computed in double, for elements of type f64. */
#include <stdint.h>

#define VALUE double
#define VALUE_BITS uint64_t
#define ENCODE pccl_codec_encode_f64
#define DECODE pccl_codec_decode_f64
#define EACH_PACKED(X, name, target) X(name, target, uint8_t) X(name, target, uint16_t) X(name, target, uint32_t)

#define QUIET_NAN UINT64_C(0x7ff8000000000000)
#define INFINITY_BITS UINT64_C(0x7ff0000000000000)
#define SMALLEST 0x1p-1074
#define ROUNDER 0x1.8p52
#define WIDER (1 + 0x1p-50)
#define FINEST 0x1p48
#define RANGE_HUGE 0x1p1022
#define RANGE_TINY 0x1p-900
#define UNIT_TINY 0x1p512

#include "kernels/codec_block.h"
