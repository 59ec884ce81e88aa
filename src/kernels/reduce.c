#include "kernels/reduce.h"

#include "kernels/bits.h"
#include "kernels/float_mode.h"

#include <float.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0,
               "every step is rounded to its type, or machines would disagree (x86: -mfpmath=sse)");

enum takes {
    FLOATS = PCCL_FLOAT,
    BITS = PCCL_UNSIGNED | PCCL_SIGNED | PCCL_BOOLEAN,
    NUMBERS = PCCL_UNSIGNED | PCCL_SIGNED | PCCL_FLOAT,
    ALL = NUMBERS | BITS
};

static const struct datatype {
    const char *words;
    uint8_t bytes, kind;
} datatypes[PCCL_DATATYPES] = {
#define ROW(name, words, bytes, kind) {#words, bytes, PCCL_##kind},
    PCCL_DATATYPE_ROWS(ROW)
#undef ROW
};

static const struct reduce_op {
    const char *words;
    bool adds;
    uint8_t takes; /* set of accepted kinds of types */
} reduce_ops[PCCL_REDUCE_OPS] = {
#define ROW(name, words, adds, takes) {words, adds, takes},
    PCCL_REDUCE_OP_ROWS(ROW)
#undef ROW
};

/* Returns the row of a type. For an unknown type, returns one without bytes and kind. */
static struct datatype row_of(enum pccl_datatype datatype)
{
    return (unsigned)datatype < PCCL_DATATYPES ? datatypes[datatype] : (struct datatype){.words = "?"};
}

size_t pccl_datatype_bytes(enum pccl_datatype datatype) { return row_of(datatype).bytes; }
const char *pccl_datatype_name(enum pccl_datatype datatype) { return row_of(datatype).words; }
enum pccl_datatype_kind pccl_datatype_kind(enum pccl_datatype datatype) { return row_of(datatype).kind; }

const char *pccl_reduce_op_name(enum pccl_reduce_op reduction)
{
    return (unsigned)reduction < PCCL_REDUCE_OPS ? reduce_ops[reduction].words : "?";
}

bool pccl_reduce_op_adds(enum pccl_reduce_op reduction)
{
    return (unsigned)reduction < PCCL_REDUCE_OPS && reduce_ops[reduction].adds;
}

const char *pccl_reduction_misfit(enum pccl_datatype datatype, enum pccl_reduce_op reduction)
{
    const uint8_t takes = reduce_ops[reduction].takes;
    if ((takes & datatypes[datatype].kind) != 0)
        return NULL;
    return takes == NUMBERS ? "average of bool is not supported"
           : takes == BITS  ? "and, or and xor require integers or bool, not floats"
                            : "a premultiplied sum requires floats";
}

/* ---- 16-bit floats ---- */

float pccl_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = (bits >> 10) & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        uint32_t quiet = fraction != 0 ? 0x400000 : 0;
        return pccl_f32_of(sign | 0x7f800000 | quiet | fraction << 13);
    }
    if (exponent == 0) { /* subnormal or zero, which is a multiple of 2^-24 and thus exact in f32 */
        return pccl_f32_of(sign | pccl_f32_bits((float)fraction * 0x1p-24f));
    }
    return pccl_f32_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t pccl_f32_to_f16(float value)
{
    uint32_t bits = pccl_f32_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    uint32_t half = 0; /* below 2^-25 the result is zero */
    if (rest > 0x7f800000) {
        half = 0x7e00 | ((rest >> 13) & 0x3ff); /* a quiet NaN with the upper bits of its payload */
    } else if (rest >= 0x47800000) {            /* at least 2^16 */
        half = 0x7c00;
    } else if (rest >= 0x38800000) { /* at least 2^-14, so normal; may carry into the exponent, up to infinity */
        half = rest - (112u << 23);
        half = (half + 0xfff + ((half >> 13) & 1)) >> 13;
    } else if (rest >= 0x33000000) { /* at least 2^-25, so subnormal */
        uint32_t fraction = (rest & 0x7fffff) | 0x800000;
        uint32_t shift = 126 - (rest >> 23);
        uint32_t lost = fraction & ((1u << shift) - 1);
        uint32_t tie = 1u << (shift - 1);
        half = fraction >> shift;
        half += lost > tie || (lost == tie && (half & 1) != 0);
    }
    return (uint16_t)(sign | half);
}

float pccl_bf16_to_f32(uint16_t bits) { return pccl_f32_of((uint32_t)bits << 16); }

uint16_t pccl_f32_to_bf16(float value)
{
    uint32_t bits = pccl_f32_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return (uint16_t)(bits >> 16 | 0x40); /* quiet, and not rounded to infinity */
    }
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/*
 * ---- 8-bit floats: number of fraction bits, and difference to f32's exponent bias. From `top` on, values are
 * infinity, if the type has it, and NaN ----
 */

struct format {
    uint32_t fraction_bits, rebias, top;
    bool has_infinity;
    float least; /* smallest subnormal */
};
static const struct format f8_e4m3fn = {3, 120, 0x7f, false, 0x1p-9f}, f8_e5m2 = {2, 112, 0x7c, true, 0x1p-16f};
enum { F8_NAN = 0x7f };

static float f8_to_f32(const struct format *format, uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80) << 24, rest = bits & 0x7f, shift = 23 - format->fraction_bits;
    if (rest >= format->top)
        return pccl_f32_of(sign | (rest == format->top && format->has_infinity ? 0x7f800000 : 0x7fc00000));
    if (rest >> format->fraction_bits != 0)
        return pccl_f32_of(sign | ((rest << shift) + (format->rebias << 23)));
    return pccl_f32_of(sign | pccl_f32_bits((float)rest * format->least));
}

static uint8_t f32_to_f8(const struct format *format, float value)
{
    uint32_t sign = (pccl_f32_bits(value) >> 24) & 0x80, rest = pccl_f32_bits(value) & 0x7fffffff;
    /* exponent of the smallest normal number */
    uint32_t shift = 23 - format->fraction_bits, least = format->rebias + 1;
    if (rest > 0x7f800000)
        return F8_NAN;
    uint32_t small = rest - (format->rebias << 23);
    if (rest >> 23 < least) {
        shift += least - (rest >> 23);
        small = (rest & 0x7fffff) | 0x800000;
    }
    uint32_t kept = shift < 32 ? small >> shift : 0;
    uint32_t lost = shift < 32 ? small & ((UINT32_C(1) << shift) - 1) : 0, tie = UINT32_C(1) << ((shift - 1) & 31);
    kept += lost > tie || (lost == tie && (kept & 1) != 0);
    if (kept >= format->top)
        return (uint8_t)(sign | (format->has_infinity ? format->top : format->top - 1));
    return (uint8_t)(sign | kept);
}

float pccl_f8_e4m3fn_to_f32(uint8_t bits) { return f8_to_f32(&f8_e4m3fn, bits); }
uint8_t pccl_f32_to_f8_e4m3fn(float value) { return f32_to_f8(&f8_e4m3fn, value); }
float pccl_f8_e5m2_to_f32(uint8_t bits) { return f8_to_f32(&f8_e5m2, bits); }
uint8_t pccl_f32_to_f8_e5m2(float value) { return f32_to_f8(&f8_e5m2, value); }

/*
 * ---- minimum and maximum in the IEEE total order, except that NaN always wins; and one canonical NaN for all results,
 * because processors return different NaNs ----
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
        bits_type chosen = a < b ? x : a > b ? y : a == b ? x | y : nan_bits; /* x | y is -0 if either is */           \
        memcpy(&a, &chosen, sizeof a);                                                                                 \
        return a;                                                                                                      \
    }                                                                                                                  \
    static type max_##type(type a, type b)                                                                             \
    {                                                                                                                  \
        bits_type x, y;                                                                                                \
        memcpy(&x, &a, sizeof x);                                                                                      \
        memcpy(&y, &b, sizeof y);                                                                                      \
        bits_type chosen = a > b ? x : a < b ? y : a == b ? x & y : nan_bits; /* x & y is +0 if either is */           \
        memcpy(&a, &chosen, sizeof a);                                                                                 \
        return a;                                                                                                      \
    }

DEFINE_FLOAT_STEPS(float, uint32_t, UINT32_C(0x7fc00000))
DEFINE_FLOAT_STEPS(double, uint64_t, UINT64_C(0x7ff8000000000000))

/* ---- folds ---- */

/*
 * Defines a fold. `element` is the type in memory, `value` the type of the computation. The others are expressions:
 * load of `bits`, step of `a` and `b`, finish of `a`. The elements of all parts are read before the result is written,
 * so the result may be a part.
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
 * `wide` is a 64-bit type with the signedness of the type. Sums and products are computed in unsigned types so that
 * they wrap.
 */
#define DEFINE_INTEGER_FOLDS(name, type, wide)                                                                         \
    DEFINE_FOLD(sum_##name, type, type, bits, (type)((uint64_t)a + (uint64_t)b), a)                                    \
    DEFINE_FOLD(avg_##name, type, type, bits, (type)((uint64_t)a + (uint64_t)b), (type)((wide)a / (wide)part_count))   \
    DEFINE_FOLD(prod_##name, type, type, bits, (type)((uint64_t)a * (uint64_t)b), a)                                   \
    DEFINE_FOLD(max_##name, type, type, bits, a > b ? a : b, a)                                                        \
    DEFINE_FOLD(min_##name, type, type, bits, a < b ? a : b, a)                                                        \
    DEFINE_FOLD(and_##name, type, type, bits, (type)(a & b), a)                                                        \
    DEFINE_FOLD(or_##name, type, type, bits, (type)(a | b), a)                                                         \
    DEFINE_FOLD(xor_##name, type, type, bits, (type)(a ^ b), a)

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
DEFINE_FLOAT_FOLDS(f8e4m3fn, uint8_t, float, pccl_f8_e4m3fn_to_f32, pccl_f32_to_f8_e4m3fn)
DEFINE_FLOAT_FOLDS(f8e5m2, uint8_t, float, pccl_f8_e5m2_to_f32, pccl_f32_to_f8_e5m2)
DEFINE_FOLD(and_bool, uint8_t, bool, bits != 0, a &&b, a)
DEFINE_FOLD(or_bool, uint8_t, bool, bits != 0, a || b, a)
DEFINE_FOLD(xor_bool, uint8_t, bool, bits != 0, a != b, a)

/* In the order of enum pccl_reduce_op. NULL if the reduction does not fit the type. */
#define UNSIGNED_FOLDS(name)                                                                                           \
    {                                                                                                                  \
        sum_##name, avg_##name, prod_##name, max_##name, min_##name, and_##name, or_##name, xor_##name, NULL           \
    }
#define SIGNED_FOLDS(name) UNSIGNED_FOLDS(name)
#define FLOAT_FOLDS(name)                                                                                              \
    {                                                                                                                  \
        sum_##name, avg_##name, prod_##name, max_##name, min_##name, NULL, NULL, NULL, sum_##name                      \
    }
#define BOOLEAN_FOLDS(name)                                                                                            \
    {                                                                                                                  \
        or_bool, NULL, and_bool, or_bool, and_bool, and_bool, or_bool, xor_bool, NULL                                  \
    }

static void (*const folds[PCCL_DATATYPES][PCCL_REDUCE_OPS])(const void *const *parts, uint32_t part_count, size_t count,
                                                            void *result) = {
#define ROW(name, words, bytes, kind) [PCCL_##name] = kind##_FOLDS(words),
    PCCL_DATATYPE_ROWS(ROW)
#undef ROW
};

void pccl_reduce_all(enum pccl_datatype datatype, enum pccl_reduce_op reduction, const void *const *parts,
                     uint32_t part_count, size_t count, void *result)
{
    PCCL_ASSERT((unsigned)datatype < PCCL_DATATYPES && (unsigned)reduction < PCCL_REDUCE_OPS && part_count > 0);
    PCCL_ASSERT(folds[datatype][reduction] != NULL);
    uint64_t mode = pccl_float_mode_begin();
    folds[datatype][reduction](parts, part_count, count, result);
    pccl_float_mode_end(mode);
}

/* ---- identities ---- */

/* Bits of 1, and of infinity or the greatest number, for each float type. */
static const struct {
    uint64_t one, most;
} floats[PCCL_DATATYPES] = {
    [PCCL_F16] = {0x3c00, 0x7c00},         [PCCL_BF16] = {0x3f80, 0x7f80},
    [PCCL_F32] = {0x3f800000, 0x7f800000}, [PCCL_F64] = {UINT64_C(0x3ff0000000000000), UINT64_C(0x7ff0000000000000)},
    [PCCL_F8_E4M3FN] = {0x38, 0x7e},       [PCCL_F8_E5M2] = {0x3c, 0x7c},
};

/* Returns the bits of the identity element. */
static uint64_t identity_of(enum pccl_datatype datatype, enum pccl_reduce_op reduction)
{
    const enum pccl_datatype_kind kind = pccl_datatype_kind(datatype);
    const uint64_t all = UINT64_MAX >> (64 - 8 * pccl_datatype_bytes(datatype)), top = all - all / 2;
    const bool is_float = kind == PCCL_FLOAT, is_bool = kind == PCCL_BOOLEAN;
    switch (reduction) {
    case PCCL_PROD: return is_float ? floats[datatype].one : 1;
    case PCCL_AND: return is_bool ? 1 : all;
    case PCCL_MAX: return is_float ? top | floats[datatype].most : kind == PCCL_SIGNED ? top : 0;
    case PCCL_MIN: return is_float ? floats[datatype].most : is_bool ? 1 : kind == PCCL_SIGNED ? all - top : all;
    default: return 0;
    }
}

void pccl_fill_identity(enum pccl_datatype datatype, enum pccl_reduce_op reduction, size_t count, void *result)
{
    PCCL_ASSERT(reduction != PCCL_AVG && pccl_reduction_misfit(datatype, reduction) == NULL);
    const uint64_t u64 = identity_of(datatype, reduction);
    const uint32_t u32 = (uint32_t)u64;
    const uint16_t u16 = (uint16_t)u64;
    const uint8_t u8 = (uint8_t)u64;
    const size_t bytes = pccl_datatype_bytes(datatype);
    const void *element = bytes == 8 ? (const void *)&u64 : bytes == 4 ? &u32 : bytes == 2 ? (const void *)&u16 : &u8;
    for (size_t i = 0; i < count; i++)
        memcpy((char *)result + i * bytes, element, bytes);
}
