/* Shared by the tests of the codecs: all codecs, elements as numbers, and data of many kinds. */
#ifndef PCCL_TESTS_CODEC_CASES_H
#define PCCL_TESTS_CODEC_CASES_H

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/prng.h"
#include "kernels/codec.h"

/* The data are the same whatever the compiler. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* Long double holds every sum and difference of interest with bits to spare. */
typedef long double number;

/* Every codec there is, once for each packed type that selects it by its unsigned name. */
struct codec_case {
    enum pccl_codec_kind kind;
    enum pccl_datatype datatype, packed;
};
static const struct codec_case codec_cases[] = {
    {PCCL_CODEC_MIN_MAX, PCCL_F32, PCCL_U8},           {PCCL_CODEC_MIN_MAX, PCCL_F32, PCCL_U16},
    {PCCL_CODEC_MIN_MAX, PCCL_F64, PCCL_U8},           {PCCL_CODEC_MIN_MAX, PCCL_F64, PCCL_U16},
    {PCCL_CODEC_MIN_MAX, PCCL_F64, PCCL_U32},          {PCCL_CODEC_MIN_MAX, PCCL_F16, PCCL_U8},
    {PCCL_CODEC_MIN_MAX, PCCL_BF16, PCCL_U8},          {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F32, PCCL_U8},
    {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F32, PCCL_U16}, {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F64, PCCL_U8},
    {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F64, PCCL_U16}, {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F64, PCCL_U32},
    {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F16, PCCL_U8},  {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_BF16, PCCL_U8},
};

static inline const struct pccl_codec *codec_of(const struct codec_case *c)
{
    struct pccl_text reason;
    return pccl_codec_find(c->kind, c->datatype, c->packed, PCCL_SUM, &reason);
}

/* ---- elements as numbers ---- */

static inline void put_element(enum pccl_datatype datatype, void *elements, size_t index, double value)
{
    char *to = (char *)elements + index * pccl_datatype_bytes(datatype);
    float f = (float)value;
    uint16_t half = datatype == PCCL_F16         ? pccl_f32_to_f16(f)
                    : datatype == PCCL_F8_E4M3FN ? pccl_f32_to_f8_e4m3fn(f)
                    : datatype == PCCL_F8_E5M2   ? pccl_f32_to_f8_e5m2(f)
                                                 : pccl_f32_to_bf16(f);
    if (datatype == PCCL_F64)
        memcpy(to, &value, sizeof value);
    else if (datatype == PCCL_F32)
        memcpy(to, &f, sizeof f);
    else
        memcpy(to, &half, pccl_datatype_bytes(datatype)); /* little-endian machines only */
}

static inline double get_element(enum pccl_datatype datatype, const void *elements, size_t index)
{
    const char *from = (const char *)elements + index * pccl_datatype_bytes(datatype);
    double value;
    float f;
    uint16_t half = 0;
    if (datatype == PCCL_F64) {
        memcpy(&value, from, sizeof value);
    } else if (datatype == PCCL_F32) {
        memcpy(&f, from, sizeof f);
        value = (double)f;
    } else {
        memcpy(&half, from, pccl_datatype_bytes(datatype));
        value = (double)(datatype == PCCL_F16         ? pccl_f16_to_f32(half)
                         : datatype == PCCL_F8_E4M3FN ? pccl_f8_e4m3fn_to_f32((uint8_t)half)
                         : datatype == PCCL_F8_E5M2   ? pccl_f8_e5m2_to_f32((uint8_t)half)
                                                      : pccl_bf16_to_f32(half));
    }
    return value;
}

struct float_format {
    double max, smallest; /* the largest finite, the smallest subnormal */
    double half_ulp;      /* half the distance of neighbors, as a share of the number */
};

static inline struct float_format format_of(enum pccl_datatype datatype)
{
    switch (datatype) {
    case PCCL_F16: return (struct float_format){65504.0, 0x1p-24, 0x1p-11};
    case PCCL_BF16: return (struct float_format){0x1.fep127, 0x1p-133, 0x1p-8};
    case PCCL_F32: return (struct float_format){(double)FLT_MAX, 0x1p-149, 0x1p-24};
    default: return (struct float_format){DBL_MAX, 0x1p-1074, 0x1p-53};
    }
}

/* ---- data ---- */

enum data {
    UNIFORM,
    NEGATIVE,
    POSITIVE,
    BELL,
    SKEWED,
    OUTLIER,
    TINY_RANGE, /* a few neighbors of one number */
    HUGE_RANGE, /* up to both ends of the type */
    HUGE_AND_SUBNORMAL,
    SUBNORMAL,
    SMALL, /* where a step would be subnormal */
    TWO_VALUES,
    SPARSE,
    ANY_BITS, /* finite, of all magnitudes */
    CONSTANT,
    ALL_DATA
};

static inline double unit(struct pccl_prng *prng) { return (double)(pccl_prng_u64(prng) >> 11) * 0x1p-53; }

static inline double sample(enum data data, enum pccl_datatype datatype, struct pccl_prng *prng)
{
    struct float_format format = format_of(datatype);
    double u = unit(prng);
    switch (data) {
    case UNIFORM: return u * 2 - 1;
    case NEGATIVE: return -3 - u;
    case POSITIVE: return 1000 + 100 * u;
    case BELL: return (u + unit(prng) + unit(prng) + unit(prng) - 2) * 1e-3;
    case SKEWED: return u * u * u * u * u * u * 50;
    case OUTLIER: return pccl_prng_below(prng, 100) == 0 ? 10000 * u : u - 0.5;
    case TINY_RANGE: return 7 * (1 + (double)pccl_prng_below(prng, 9) * 2 * format.half_ulp);
    case HUGE_RANGE:
        return pccl_prng_below(prng, 10) == 0 ? (u < 0.5 ? -format.max : format.max)
                                              : (u * format.max - (1 - u) * format.max);
    case HUGE_AND_SUBNORMAL: return pccl_prng_below(prng, 2) == 0 ? format.max * u : format.smallest * 3;
    case SUBNORMAL: return format.smallest * (double)pccl_prng_below(prng, 700) * (u < 0.3 ? -1 : 1);
    case SMALL: return format.smallest * 1e6 * (u - 0.5);
    case TWO_VALUES: return u < 0.5 ? -0.1 : 0.7;
    case SPARSE: return pccl_prng_below(prng, 20) == 0 ? u - 0.3 : 0;
    case CONSTANT: return -42.1;
    default:
        for (;;) {
            uint64_t bits = pccl_prng_u64(prng);
            double value = get_element(datatype, &bits, 0);
            if (isfinite(value))
                return value;
        }
    }
}

static inline void fill(enum data data, enum pccl_datatype datatype, uint64_t seed, void *elements, size_t count)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed);
    for (size_t i = 0; i < count; i++)
        put_element(datatype, elements, i, sample(data, datatype, &prng));
}

#endif
