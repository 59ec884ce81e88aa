#include "kernels/reduce.h"

#include "kernels/float_mode.h"

#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "every step is rounded to its type, or machines would disagree (x86: -mfpmath=sse)");

size_t pccl_datatype_bytes(enum pccl_datatype datatype)
{
    static const uint8_t bytes[PCCL_DATATYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return (unsigned)datatype < PCCL_DATATYPES ? bytes[datatype] : 0;
}

const char *pccl_datatype_name(enum pccl_datatype datatype)
{
    static const char *const names[PCCL_DATATYPES] = {"u8",  "i8",  "i16", "u16",  "u32", "i32",
                                                      "u64", "i64", "f16", "bf16", "f32", "f64"};
    return (unsigned)datatype < PCCL_DATATYPES ? names[datatype] : "?";
}

const char *pccl_reduce_op_name(enum pccl_reduce_op reduction)
{
    static const char *const names[PCCL_REDUCE_OPS] = {"sum", "avg", "prod", "max", "min"};
    return (unsigned)reduction < PCCL_REDUCE_OPS ? names[reduction] : "?";
}

/* ---- 16-bit floats ---- */

static uint32_t bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float pccl_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        uint32_t quiet = fraction != 0 ? 0x400000 : 0;
        return f32_of_bits(sign | 0x7f800000 | quiet | fraction << 13);
    }
    if (exponent == 0) { /* subnormal or zero: a multiple of 2^-24, exact in f32 */
        return f32_of_bits(sign | bits_of_f32((float)fraction * 0x1p-24f));
    }
    return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t pccl_f32_to_f16(float value)
{
    uint32_t bits = bits_of_f32(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    uint32_t half = 0; /* below 2^-25 all is zero */
    if (rest > 0x7f800000) {
        half = 0x7e00 | ((rest >> 13) & 0x3ff); /* a quiet NaN with what fits of its payload */
    } else if (rest >= 0x47800000) {            /* 2^16 and more */
        half = 0x7c00;
    } else if (rest >= 0x38800000) { /* 2^-14 and more: normal; rounding may carry into the exponent, up to infinity */
        half = rest - (112u << 23);
        half = (half + 0xfff + ((half >> 13) & 1)) >> 13;
    } else if (rest >= 0x33000000) { /* 2^-25 and more: subnormal */
        uint32_t fraction = (rest & 0x7fffff) | 0x800000;
        uint32_t shift = 126 - (rest >> 23);
        uint32_t lost = fraction & ((1u << shift) - 1);
        uint32_t tie = 1u << (shift - 1);
        half = fraction >> shift;
        half += lost > tie || (lost == tie && (half & 1) != 0);
    }
    return (uint16_t)(sign | half);
}

float pccl_bf16_to_f32(uint16_t bits) { return f32_of_bits((uint32_t)bits << 16); }

uint16_t pccl_f32_to_bf16(float value)
{
    uint32_t bits = bits_of_f32(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, and never rounded into an infinity */
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/*
 * ---- minimum and maximum in the IEEE total order, except that NaN always wins; and one NaN for
 * all results, as which one an addition returns differs between processors ----
 */

#define DEFINE_FLOAT_STEPS(type, bits_type, nan_bits)                                                                  \
    static type one_nan_##type(type value)                                                                             \
    {                                                                                                                  \
        bits_type bits = nan_bits;                                                                                     \
        if (value != value)                                                                                            \
            memcpy(&value, &bits, sizeof value);                                                                       \
        return value;                                                                                                  \
    }                                                                                                                  \
    static type min_##type(type a, type b)                                                                             \
    {                                                                                                                  \
        bits_type x, y;                                                                                                \
        memcpy(&x, &a, sizeof x);                                                                                      \
        memcpy(&y, &b, sizeof y);                                                                                      \
        bits_type chosen = a < b ? x : a > b ? y : a == b ? x | y : nan_bits; /* x | y: -0 if there is one */          \
        memcpy(&a, &chosen, sizeof a);                                                                                 \
        return a;                                                                                                      \
    }                                                                                                                  \
    static type max_##type(type a, type b)                                                                             \
    {                                                                                                                  \
        bits_type x, y;                                                                                                \
        memcpy(&x, &a, sizeof x);                                                                                      \
        memcpy(&y, &b, sizeof y);                                                                                      \
        bits_type chosen = a > b ? x : a < b ? y : a == b ? x & y : nan_bits; /* x & y: +0 if there is one */          \
        memcpy(&a, &chosen, sizeof a);                                                                                 \
        return a;                                                                                                      \
    }

DEFINE_FLOAT_STEPS(float, uint32_t, UINT32_C(0x7fc00000))
DEFINE_FLOAT_STEPS(double, uint64_t, UINT64_C(0x7ff8000000000000))

/* ---- folds ---- */

/*
 * One fold: `element` is what memory holds, `value` what it is computed in. Expressions: load of
 * `bits`, step from `a` and `b`, finish of `a`. Every part's element is read before the result's is
 * written, so the result may be a part.
 */
#define DEFINE_FOLD(name, element, value, load, step, finish)                                                          \
    static void name(const void *const *parts, uint32_t part_count, size_t count, void *result)                        \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            element bits;                                                                                              \
            memcpy(&bits, (const char *)parts[0] + i * sizeof bits, sizeof bits);                                      \
            value a = load;                                                                                            \
            for (uint32_t part = 1; part < part_count; part++) {                                                       \
                memcpy(&bits, (const char *)parts[part] + i * sizeof bits, sizeof bits);                               \
                value b = load;                                                                                        \
                a = step;                                                                                              \
            }                                                                                                          \
            bits = finish;                                                                                             \
            memcpy((char *)result + i * sizeof bits, &bits, sizeof bits);                                              \
        }                                                                                                              \
    }

/*
 * `wide` has 64 bits and the signedness of the type. Sums and products wrap because they are
 * unsigned.
 */
#define DEFINE_INTEGER_FOLDS(name, type, wide)                                                                         \
    DEFINE_FOLD(sum_##name, type, type, bits, (type)((uint64_t)a + (uint64_t)b), a)                                    \
    DEFINE_FOLD(avg_##name, type, type, bits, (type)((uint64_t)a + (uint64_t)b), (type)((wide)a / (wide)part_count))   \
    DEFINE_FOLD(prod_##name, type, type, bits, (type)((uint64_t)a * (uint64_t)b), a)                                   \
    DEFINE_FOLD(max_##name, type, type, bits, a > b ? a : b, a)                                                        \
    DEFINE_FOLD(min_##name, type, type, bits, a < b ? a : b, a)

#define DEFINE_FLOAT_FOLDS(name, element, value, load, round)                                                          \
    DEFINE_FOLD(sum_##name, element, value, load(bits), a + b, round(one_nan_##value(a)))                              \
    DEFINE_FOLD(avg_##name, element, value, load(bits), a + b, round(one_nan_##value(a / (value)part_count)))          \
    DEFINE_FOLD(prod_##name, element, value, load(bits), a *b, round(one_nan_##value(a)))                              \
    DEFINE_FOLD(max_##name, element, value, load(bits), max_##value(a, b), round(one_nan_##value(a)))                  \
    DEFINE_FOLD(min_##name, element, value, load(bits), min_##value(a, b), round(one_nan_##value(a)))

#define AS_IT_IS(x) (x)

DEFINE_INTEGER_FOLDS(u8, uint8_t, uint64_t)
DEFINE_INTEGER_FOLDS(i8, int8_t, int64_t)
DEFINE_INTEGER_FOLDS(i16, int16_t, int64_t)
DEFINE_INTEGER_FOLDS(u16, uint16_t, uint64_t)
DEFINE_INTEGER_FOLDS(u32, uint32_t, uint64_t)
DEFINE_INTEGER_FOLDS(i32, int32_t, int64_t)
DEFINE_INTEGER_FOLDS(u64, uint64_t, uint64_t)
DEFINE_INTEGER_FOLDS(i64, int64_t, int64_t)
DEFINE_FLOAT_FOLDS(f16, uint16_t, float, pccl_f16_to_f32, pccl_f32_to_f16)
DEFINE_FLOAT_FOLDS(bf16, uint16_t, float, pccl_bf16_to_f32, pccl_f32_to_bf16)
DEFINE_FLOAT_FOLDS(f32, float, float, AS_IT_IS, AS_IT_IS)
DEFINE_FLOAT_FOLDS(f64, double, double, AS_IT_IS, AS_IT_IS)

/* In the order of enum pccl_reduce_op. */
#define FOLDS(name)                                                                                                    \
    {                                                                                                                  \
        sum_##name, avg_##name, prod_##name, max_##name, min_##name                                                    \
    }

static void (*const folds[PCCL_DATATYPES][PCCL_REDUCE_OPS])(const void *const *parts, uint32_t part_count, size_t count,
                                                            void *result) = {
    [PCCL_U8] = FOLDS(u8),   [PCCL_I8] = FOLDS(i8),     [PCCL_I16] = FOLDS(i16), [PCCL_U16] = FOLDS(u16),
    [PCCL_U32] = FOLDS(u32), [PCCL_I32] = FOLDS(i32),   [PCCL_U64] = FOLDS(u64), [PCCL_I64] = FOLDS(i64),
    [PCCL_F16] = FOLDS(f16), [PCCL_BF16] = FOLDS(bf16), [PCCL_F32] = FOLDS(f32), [PCCL_F64] = FOLDS(f64),
};

void pccl_reduce_all(enum pccl_datatype datatype, enum pccl_reduce_op reduction, const void *const *parts,
                     uint32_t part_count, size_t count, void *result)
{
    PCCL_ASSERT((unsigned)datatype < PCCL_DATATYPES && (unsigned)reduction < PCCL_REDUCE_OPS && part_count > 0);
    uint64_t mode = pccl_float_mode_begin();
    folds[datatype][reduction](parts, part_count, count, result);
    pccl_float_mode_end(mode);
}
