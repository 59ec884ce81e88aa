/*
 * Loops of one variant. Included once by each variant_<name>.c, which first defines widen_f16, narrow_f16 and
 * copy_streaming, and selects the compiler's instruction set with a pragma. The loops are written so that the compiler
 * vectorizes them: no branches, no calls, and every choice is between two computed values.
 *
 * A NaN result is written as bits, not as a float: processors differ in the NaN that an addition returns, and compilers
 * may treat all NaNs as equal.
 */
#ifndef PCCL_KERNELS_LOOPS_H
#define PCCL_KERNELS_LOOPS_H

#include "kernels/prefetch.h"
#include "kernels/scaled_loops.h"
#include "kernels/sparse_loops.h"
#include "kernels/variant.h"

#include <string.h>

/*
 * The result may be one of the operands, which is unknown at compile time. The compiler's run-time check would send
 * this common case to a scalar loop. These pragmas declare that element i of the result depends only on the elements i
 * of the operands.
 */
#if defined(__clang__)
#define ELEMENTS_ARE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* sanitizers insert branches, which prevent vectorization */
#elif defined(__GNUC__)
#define ELEMENTS_ARE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define ELEMENTS_ARE_INDEPENDENT
#endif

/* Access element i without alignment. The compiler turns each copy into a plain move. */
#define LOAD(to, from, i) memcpy(&(to), (const char *)(from) + (i) * sizeof(to), sizeof(to))
#define STORE(to, i, from) memcpy((char *)(to) + (i) * sizeof(from), &(from), sizeof(from))

/* `step` is an expression of a and b. */
#define DEFINE_COMBINE(name, type, result_type, step)                                                                  \
    static void name(void *result, const void *left, const void *right, size_t count)                                  \
    {                                                                                                                  \
        ELEMENTS_ARE_INDEPENDENT                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type a, b;                                                                                                 \
            LOAD(a, left, i);                                                                                          \
            LOAD(b, right, i);                                                                                         \
            result_type combined = step;                                                                               \
            STORE(result, i, combined);                                                                                \
        }                                                                                                              \
    }

/* `quotient` is an expression of a and d, which is the divisor as `divisor_type`. */
#define DEFINE_DIVIDE(name, type, divisor_type, result_type, quotient)                                                 \
    static void name(void *result, const void *source, size_t count, uint32_t divisor)                                 \
    {                                                                                                                  \
        const divisor_type d = (divisor_type)divisor;                                                                  \
        ELEMENTS_ARE_INDEPENDENT                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type a;                                                                                                    \
            LOAD(a, source, i);                                                                                        \
            result_type divided = quotient;                                                                            \
            STORE(result, i, divided);                                                                                 \
        }                                                                                                              \
    }

/* `product` is an expression of a and f, which is the factor as `type`. */
#define DEFINE_SCALE(name, type, result_type, product)                                                                 \
    static void name(void *result, const void *source, size_t count, double factor)                                    \
    {                                                                                                                  \
        const type f = (type)factor;                                                                                   \
        ELEMENTS_ARE_INDEPENDENT                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type a;                                                                                                    \
            LOAD(a, source, i);                                                                                        \
            result_type scaled = product;                                                                              \
            STORE(result, i, scaled);                                                                                  \
        }                                                                                                              \
    }

/* ---- integers; computed as unsigned 32-bit or 64-bit integers, which wrap ---- */

#define DEFINE_INTEGER_ARITHMETIC(name, type, wide)                                                                    \
    DEFINE_COMBINE(sum_##name, type, type, (type)((wide)a + (wide)b))                                                  \
    DEFINE_COMBINE(prod_##name, type, type, (type)((wide)a * (wide)b))                                                 \
    DEFINE_COMBINE(and_##name, type, type, (type)(a & b))                                                              \
    DEFINE_COMBINE(or_##name, type, type, (type)(a | b))                                                               \
    DEFINE_COMBINE(xor_##name, type, type, (type)(a ^ b))

#define DEFINE_INTEGER_ORDER(name, type)                                                                               \
    DEFINE_COMBINE(max_##name, type, type, a > b ? a : b)                                                              \
    DEFINE_COMBINE(min_##name, type, type, a < b ? a : b)

/* Signed and unsigned integers have the same sums, products and bits. */
DEFINE_INTEGER_ARITHMETIC(u8, uint8_t, uint32_t)
DEFINE_INTEGER_ARITHMETIC(u16, uint16_t, uint32_t)
DEFINE_INTEGER_ARITHMETIC(u32, uint32_t, uint32_t)
DEFINE_INTEGER_ARITHMETIC(u64, uint64_t, uint64_t)
DEFINE_INTEGER_ORDER(u8, uint8_t)
DEFINE_INTEGER_ORDER(i8, int8_t)
DEFINE_INTEGER_ORDER(u16, uint16_t)
DEFINE_INTEGER_ORDER(i16, int16_t)
DEFINE_INTEGER_ORDER(u32, uint32_t)
DEFINE_INTEGER_ORDER(i32, int32_t)
DEFINE_INTEGER_ORDER(u64, uint64_t)
DEFINE_INTEGER_ORDER(i64, int64_t)

/* A bool is true unless it is 0. As a result it is 0 or 1. */
DEFINE_COMBINE(and_bool, uint8_t, uint8_t, (uint8_t)((a != 0) & (b != 0)))
DEFINE_COMBINE(or_bool, uint8_t, uint8_t, (uint8_t)((a | b) != 0))
DEFINE_COMBINE(xor_bool, uint8_t, uint8_t, (uint8_t)((a != 0) ^ (b != 0)))

/*
 * Divides in floats, because no processor divides vectors of integers. The quotient, truncated toward zero, is exact:
 * if it is not an integer, it is at least 1/d below the next one, and its rounding error is smaller than that while |a|
 * < 2^24 in f32, or 2^53 in f64. (A divisor that f32 cannot represent exactly is much larger than any a.)
 */
DEFINE_DIVIDE(divide_u8, uint8_t, float, uint8_t, (uint8_t)(int32_t)((float)a / d))
DEFINE_DIVIDE(divide_i8, int8_t, float, int8_t, (int8_t)(int32_t)((float)a / d))
DEFINE_DIVIDE(divide_u16, uint16_t, float, uint16_t, (uint16_t)(int32_t)((float)a / d))
DEFINE_DIVIDE(divide_i16, int16_t, float, int16_t, (int16_t)(int32_t)((float)a / d))
DEFINE_DIVIDE(divide_u32, uint32_t, double, uint32_t, (uint32_t)((double)a / d))
DEFINE_DIVIDE(divide_i32, int32_t, double, int32_t, (int32_t)((double)a / d))
DEFINE_DIVIDE(divide_u64, uint64_t, uint64_t, uint64_t, a / d)
DEFINE_DIVIDE(divide_i64, int64_t, int64_t, int64_t, a / d)

/* ---- floats ---- */

/*
 * Minimum: both comparisons select the same operand, unless the operands are equal. In that case each comparison
 * selects a different operand, and x | y is -0 if either operand is -0, and equal to both otherwise. Maximum is
 * analogous.
 */
#define DEFINE_FLOAT(name, type, bits_type, nan_bits)                                                                  \
    static inline bits_type bits_of_##name(type value)                                                                 \
    {                                                                                                                  \
        bits_type bits;                                                                                                \
        memcpy(&bits, &value, sizeof bits);                                                                            \
        return bits;                                                                                                   \
    }                                                                                                                  \
    static inline bits_type one_nan_##name(type value) { return value == value ? bits_of_##name(value) : (nan_bits); } \
    static inline bits_type greater_##name(type a, type b)                                                             \
    {                                                                                                                  \
        type greater = a > b ? a : b, other = b > a ? b : a;                                                           \
        bits_type bits = bits_of_##name(greater) & bits_of_##name(other);                                              \
        return __builtin_isunordered(a, b) ? (nan_bits) : bits;                                                        \
    }                                                                                                                  \
    static inline bits_type lesser_##name(type a, type b)                                                              \
    {                                                                                                                  \
        type lesser = a < b ? a : b, other = b < a ? b : a;                                                            \
        bits_type bits = bits_of_##name(lesser) | bits_of_##name(other);                                               \
        return __builtin_isunordered(a, b) ? (nan_bits) : bits;                                                        \
    }                                                                                                                  \
    DEFINE_COMBINE(sum_##name, type, bits_type, one_nan_##name(a + b))                                                 \
    DEFINE_COMBINE(prod_##name, type, bits_type, one_nan_##name(a *b))                                                 \
    DEFINE_COMBINE(max_##name, type, bits_type, greater_##name(a, b))                                                  \
    DEFINE_COMBINE(min_##name, type, bits_type, lesser_##name(a, b))                                                   \
    DEFINE_DIVIDE(divide_##name, type, type, bits_type, one_nan_##name(a / d))                                         \
    DEFINE_SCALE(scale_##name, type, bits_type, one_nan_##name(a *f))

DEFINE_FLOAT(f32, float, uint32_t, UINT32_C(0x7fc00000))
DEFINE_FLOAT(f64, double, uint64_t, UINT64_C(0x7ff8000000000000))

/* ---- bf16: the upper half of an f32 ---- */

static inline float f32_of_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounds to nearest, ties to even. Correct for all numbers and for the canonical quiet NaN. */
static inline uint16_t rounded_to_bf16(uint32_t bits) { return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); }

static void widen_bf16(float *to, const void *from, size_t count)
{
    ELEMENTS_ARE_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        LOAD(half, from, i);
        to[i] = f32_of_bf16(half);
    }
}

static void narrow_bf16(void *to, const float *from, size_t count)
{
    ELEMENTS_ARE_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of_f32(from[i]);
        uint16_t quiet = (uint16_t)(bits >> 16 | 0x40);
        uint16_t half = from[i] == from[i] ? rounded_to_bf16(bits) : quiet;
        STORE(to, i, half);
    }
}

/* Conversions of bf16 are so simple that, unlike f16, operands are combined without storing f32 in between. */
#define DEFINE_BF16(name, bits)                                                                                        \
    static inline uint16_t name##_of_bf16(float a, float b) { return rounded_to_bf16(bits); }                          \
    DEFINE_COMBINE(name##_bf16, uint16_t, uint16_t, name##_of_bf16(f32_of_bf16(a), f32_of_bf16(b)))

DEFINE_BF16(sum, one_nan_f32(a + b))
DEFINE_BF16(prod, one_nan_f32(a *b))
DEFINE_BF16(max, greater_f32(a, b))
DEFINE_BF16(min, lesser_f32(a, b))

/*
 * ---- floats of 8 bits, with `fraction_bits` bits of fraction; f32 has exponents larger by `rebias`. The numbers from
 * `top` on are infinity, if there is one, and NaN; larger values become `greatest` ----
 *
 * A small f32 is rounded to a multiple of the least subnormal by adding `ruler`, whose last bit equals that. Both
 * results are computed for each number, and the valid one is chosen.
 */

#define F8_NAN 0x7f
/*
 * Selects with a mask. With a branch, compilers would compute only the chosen value, and would not vectorize the loop.
 */
static inline uint32_t choose(int32_t which, uint32_t yes, uint32_t no) { return no ^ ((yes ^ no) & -(uint32_t)which); }

#define DEFINE_F8(name, fraction_bits, rebias, top, least, ruler, infinity, greatest)                                  \
    static void widen_##name(float *to, const void *from, size_t count)                                                \
    {                                                                                                                  \
        ELEMENTS_ARE_INDEPENDENT                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            uint8_t byte;                                                                                              \
            LOAD(byte, from, i);                                                                                       \
            const int32_t rest = byte & 0x7f;                                                                          \
            const uint32_t sign = (uint32_t)(byte & 0x80) << 24;                                                       \
            const uint32_t normal = ((uint32_t)rest << (23 - (fraction_bits))) + ((uint32_t)(rebias) << 23);           \
            const uint32_t subnormal = bits_of_f32((float)rest * (least));                                             \
            const uint32_t number = choose(rest < 1 << (fraction_bits), subnormal, normal);                            \
            const uint32_t beyond = choose(rest == (top), infinity, UINT32_C(0x7fc00000));                             \
            const uint32_t bits = sign | choose(rest < (top), number, beyond);                                         \
            STORE(to, i, bits);                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void narrow_##name(void *to, const float *from, size_t count)                                               \
    {                                                                                                                  \
        enum { SHIFT = 23 - (fraction_bits), HALF = (1 << (SHIFT - 1)) - 1 };                                          \
        ELEMENTS_ARE_INDEPENDENT                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                           \
            int32_t bits;                                                                                              \
            float magnitude;                                                                                           \
            LOAD(bits, from, i);                                                                                       \
            const int32_t rest = bits & 0x7fffffff;                                                                    \
            const uint32_t sign = (uint32_t)bits >> 24 & 0x80;                                                         \
            memcpy(&magnitude, &rest, sizeof magnitude);                                                               \
            const int32_t odd = rest >> SHIFT & 1;                                                                     \
            const int32_t normal = (rest - ((rebias) << 23) + HALF + odd) >> SHIFT;                                    \
            const uint32_t subnormal = bits_of_f32(magnitude + (ruler)) - bits_of_f32(ruler);                          \
            const uint32_t number = choose(rest < ((rebias) + 1) << 23, subnormal, (uint32_t)normal);                  \
            const uint32_t beyond = choose(rest > 0x7f800000, F8_NAN, sign | (greatest));                              \
            const uint8_t byte = (uint8_t)choose((int32_t)number < (top), sign | number, beyond);                      \
            STORE(to, i, byte);                                                                                        \
        }                                                                                                              \
    }

DEFINE_F8(f8_e4m3fn, 3, 120, 0x7f, 0x1p-9f, 0x1p14f, UINT32_C(0x7fc00000), 0x7e)
DEFINE_F8(f8_e5m2, 2, 112, 0x7c, 0x1p-16f, 0x1p7f, UINT32_C(0x7f800000), 0x7c)

/* ---- a step of a fold, in blocks ---- */

enum { STEP_BYTES = 4096 }; /* size of a block, which stays in the L1 cache with its operands */

static void step_in_blocks(const struct pccl_kernels *kernels, const struct pccl_step *step, void *result,
                           const void *folded, const void *part, size_t count)
{
    const size_t size = pccl_datatype_bytes(step->datatype), block = STEP_BYTES / size;
    for (size_t done = 0, now; done < count; done += now) {
        const size_t at = done * size;
        now = count - done < block ? count - done : block;
        char *to = (char *)result + at;
        const char *from = (const char *)part + at;
        if (done + now < count)
            pccl_prefetch(from + STEP_BYTES, STEP_BYTES);
        kernels->combine[step->datatype][step->reduction](to, (const char *)folded + at, from, now);
        if (step->ranks != 0 && step->reduction == PCCL_AVG)
            kernels->divide[step->datatype](to, to, now, step->ranks);
        if (step->copy != NULL)
            copy_streaming((char *)step->copy + at, to, now * size);
    }
}

/*
 * ---- the table, in the order of enum pccl_reduce_op. An average is a sum until the end, and a premultiplied sum is a
 * sum of scaled elements. NULL: does not fit the type ----
 */

#define COMBINE_ROW(arithmetic, order)                                                                                 \
    {                                                                                                                  \
        sum_##arithmetic, sum_##arithmetic, prod_##arithmetic, max_##order, min_##order, and_##arithmetic,             \
            or_##arithmetic, xor_##arithmetic, NULL                                                                    \
    }
#define COMBINE_FLOATS(name)                                                                                           \
    {                                                                                                                  \
        sum_##name, sum_##name, prod_##name, max_##name, min_##name, NULL, NULL, NULL, sum_##name                      \
    }
#define COMBINE_BOOLS                                                                                                  \
    {                                                                                                                  \
        or_bool, NULL, and_bool, or_bool, and_bool, and_bool, or_bool, xor_bool, NULL                                  \
    }

#define DEFINE_VARIANT(variant, needs)                                                                                 \
    const struct pccl_kernels pccl_kernels_##variant = {                                                               \
        .name = #variant,                                                                                              \
        .features = (needs),                                                                                           \
        .combine = {[PCCL_U8] = COMBINE_ROW(u8, u8),                                                                   \
                    [PCCL_I8] = COMBINE_ROW(u8, i8),                                                                   \
                    [PCCL_I16] = COMBINE_ROW(u16, i16),                                                                \
                    [PCCL_U16] = COMBINE_ROW(u16, u16),                                                                \
                    [PCCL_U32] = COMBINE_ROW(u32, u32),                                                                \
                    [PCCL_I32] = COMBINE_ROW(u32, i32),                                                                \
                    [PCCL_U64] = COMBINE_ROW(u64, u64),                                                                \
                    [PCCL_I64] = COMBINE_ROW(u64, i64),                                                                \
                    [PCCL_BF16] = COMBINE_FLOATS(bf16),                                                                \
                    [PCCL_F32] = COMBINE_FLOATS(f32),                                                                  \
                    [PCCL_F64] = COMBINE_FLOATS(f64),                                                                  \
                    [PCCL_BOOL] = COMBINE_BOOLS},                                                                      \
        .step = step_in_blocks,                                                                                        \
        .divide = {[PCCL_U8] = divide_u8,                                                                              \
                   [PCCL_I8] = divide_i8,                                                                              \
                   [PCCL_I16] = divide_i16,                                                                            \
                   [PCCL_U16] = divide_u16,                                                                            \
                   [PCCL_U32] = divide_u32,                                                                            \
                   [PCCL_I32] = divide_i32,                                                                            \
                   [PCCL_U64] = divide_u64,                                                                            \
                   [PCCL_I64] = divide_i64,                                                                            \
                   [PCCL_F32] = divide_f32,                                                                            \
                   [PCCL_F64] = divide_f64},                                                                           \
        .scale = {[PCCL_F32] = scale_f32, [PCCL_F64] = scale_f64},                                                     \
        .widen = {[PCCL_F16] = widen_f16,                                                                              \
                  [PCCL_BF16] = widen_bf16,                                                                            \
                  [PCCL_F8_E4M3FN] = widen_f8_e4m3fn,                                                                  \
                  [PCCL_F8_E5M2] = widen_f8_e5m2},                                                                     \
        .narrow = {[PCCL_F16] = narrow_f16,                                                                            \
                   [PCCL_BF16] = narrow_bf16,                                                                          \
                   [PCCL_F8_E4M3FN] = narrow_f8_e4m3fn,                                                                \
                   [PCCL_F8_E5M2] = narrow_f8_e5m2},                                                                   \
        .digest = digest,                                                                                              \
        .sha256 = sha256,                                                                                              \
        .scaled_largest = scaled_largest,                                                                              \
        .scaled = SCALED_ROWS,                                                                                         \
        .sparse = SPARSE_LOOPS,                                                                                        \
        .copy_streaming = copy_streaming,                                                                              \
        .copied_streaming = copied_streaming,                                                                          \
    };

#endif
