/* kernels/reduce: the conversions over all bit patterns, and the folds against plain computations. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/prng.h"
#include "kernels/reduce.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of a 16-bit float from its definition. */
static double meaning(uint16_t bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    double fraction = bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

struct format {
    int exponent_bits, fraction_bits;
    float (*widen)(uint16_t bits);
    uint16_t (*narrow)(float value);
};
static const struct format formats[] = {
    {5, 10, pccl_f16_to_f32, pccl_f32_to_f16},
    {8, 7, pccl_bf16_to_f32, pccl_f32_to_bf16},
};

TEST(widening_is_exact_for_all_values)
{
    for (size_t f = 0; f < PCCL_COUNT_OF(formats); f++) {
        const struct format *format = &formats[f];
        for (uint32_t bits = 0; bits < 65536; bits++) {
            double expected = meaning((uint16_t)bits, format->exponent_bits, format->fraction_bits);
            float got = format->widen((uint16_t)bits);
            if (isnan(expected)) {
                assert_true(isnan(got));
            } else {
                assert_true((double)got == expected && !signbit(got) == !(bits & 0x8000));
            }
        }
    }
}

TEST(narrowing_takes_all_values_back)
{
    for (size_t f = 0; f < PCCL_COUNT_OF(formats); f++) {
        const struct format *format = &formats[f];
        uint16_t quiet = (uint16_t)(1 << (format->fraction_bits - 1));
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t back = format->narrow(format->widen((uint16_t)bits));
            bool nan = isnan(meaning((uint16_t)bits, format->exponent_bits, format->fraction_bits));
            assert_int_equal(back, nan ? bits | quiet : bits);
        }
    }
}

/* Between each two neighbors: the middle is rounded to the even one, its f32 neighbors to the nearer one. */
TEST(narrowing_rounds_to_nearest_even)
{
    for (size_t f = 0; f < PCCL_COUNT_OF(formats); f++) {
        const struct format *format = &formats[f];
        uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
        for (uint32_t low = 0; low < infinity; low++) {
            uint32_t high = low + 1;
            double below = meaning((uint16_t)low, format->exponent_bits, format->fraction_bits);
            /* The first value that does not fit rounds as if the format had one exponent more. */
            double above = high < infinity
                               ? meaning((uint16_t)high, format->exponent_bits, format->fraction_bits)
                               : 2 * below - meaning((uint16_t)(low - 1), format->exponent_bits, format->fraction_bits);
            float middle = (float)((below + above) / 2);
            assert_true((double)middle == (below + above) / 2);
            uint32_t even = low % 2 == 0 ? low : high;
            assert_int_equal(format->narrow(middle), even);
            assert_int_equal(format->narrow(-middle), even | 0x8000);
            assert_int_equal(format->narrow(float_of(bits_of(middle) - 1)), low);
            assert_int_equal(format->narrow(float_of(bits_of(middle) + 1)), high);
        }
    }
}

TEST(narrowing_of_extremes)
{
    assert_int_equal(pccl_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(pccl_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(pccl_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(pccl_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(pccl_f32_to_f16(0x1p-24f), 0x0001);
    assert_int_equal(pccl_f32_to_f16(0x1p-25f), 0x0000);
    assert_int_equal(pccl_f32_to_f16(-1e-30f), 0x8000);
    assert_int_equal(pccl_f32_to_bf16(3.4028235e38f), 0x7f80);
    assert_int_equal(pccl_f32_to_bf16(-INFINITY), 0xff80);
    /* A NaN whose payload is in the bits that are cut off must stay a NaN, not turn into an infinity. */
    assert_int_equal(pccl_f32_to_f16(float_of(0x7f800001)), 0x7e00);
    assert_int_equal(pccl_f32_to_bf16(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(pccl_f32_to_bf16(float_of(0xffffffff)), 0xffff);
}

TEST(names_and_sizes)
{
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1};
    static const char *const names[] = {"u8",  "i8",   "i16", "u16", "u32",  "i32",      "u64",   "i64",
                                        "f16", "bf16", "f32", "f64", "bool", "f8e4m3fn", "f8e5m2"};
    static const char *const reductions[] = {
        "sum", "avg", "prod", "max", "min", "and", "or", "xor", "premultiplied sum"};
    for (int i = 0; i < PCCL_DATATYPES; i++) {
        assert_int_equal(pccl_datatype_bytes((enum pccl_datatype)i), sizes[i]);
        assert_string_equal(pccl_datatype_name((enum pccl_datatype)i), names[i]);
    }
    for (int i = 0; i < PCCL_REDUCE_OPS; i++)
        assert_string_equal(pccl_reduce_op_name((enum pccl_reduce_op)i), reductions[i]);
    assert_int_equal(pccl_datatype_bytes(PCCL_DATATYPES), 0);
    assert_string_equal(pccl_datatype_name(PCCL_DATATYPES), "?");
    assert_string_equal(pccl_reduce_op_name(PCCL_REDUCE_OPS), "?");
}

/* ---- floats of 8 bits and bools ---- */

/* The value from the definition of the format; of e4m3fn only the last code is no number. */
static double meaning_of_f8(enum pccl_datatype type, uint8_t bits)
{
    const uint16_t sign = (uint16_t)(bits & 0x80) << 8;
    if (type == PCCL_F8_E5M2)
        return meaning((uint16_t)(bits << 8), 5, 10); /* half of a binary16 */
    if ((bits & 0x7f) == 0x7f)
        return (double)NAN;
    if ((bits & 0x78) == 0x78) /* one more exponent */
        return ldexp(sign != 0 ? -8 - (bits & 7) : 8 + (bits & 7), 5);
    return meaning((uint16_t)(sign | (bits & 0x7f)), 4, 3);
}

static float widen_f8(enum pccl_datatype type, uint8_t bits)
{
    return type == PCCL_F8_E5M2 ? pccl_f8_e5m2_to_f32(bits) : pccl_f8_e4m3fn_to_f32(bits);
}

static uint8_t narrow_f8(enum pccl_datatype type, float value)
{
    return type == PCCL_F8_E5M2 ? pccl_f32_to_f8_e5m2(value) : pccl_f32_to_f8_e4m3fn(value);
}

TEST(floats_of_8_bits_are_converted)
{
    for (enum pccl_datatype type = PCCL_F8_E4M3FN; type <= PCCL_F8_E5M2; type++) {
        const uint32_t beyond = type == PCCL_F8_E5M2 ? 0x7c : 0x7f;   /* no larger numbers exist */
        const uint32_t greatest = type == PCCL_F8_E5M2 ? 0x7c : 0x7e; /* too large values become this */
        for (uint32_t bits = 0; bits < 256; bits++) {
            double expected = meaning_of_f8(type, (uint8_t)bits);
            float got = widen_f8(type, (uint8_t)bits);
            assert_true(isnan(expected) ? isnan(got) : (double)got == expected && !signbit(got) == !(bits & 0x80));
            assert_int_equal(narrow_f8(type, got), isnan(got) ? 0x7f : bits);
        }
        for (uint32_t low = 0; low < beyond; low++) { /* as of 16 bits */
            double below = meaning_of_f8(type, (uint8_t)low);
            double above = low + 1 < beyond ? meaning_of_f8(type, (uint8_t)(low + 1))
                                            : 2 * below - meaning_of_f8(type, (uint8_t)(low - 1));
            float middle = (float)((below + above) / 2);
            assert_int_equal(narrow_f8(type, middle), low + low % 2);
            assert_int_equal(narrow_f8(type, float_of(bits_of(middle) - 1)), low);
            assert_int_equal(narrow_f8(type, float_of(bits_of(middle) + 1)), low + 1 < beyond ? low + 1 : greatest);
        }
        assert_int_equal(narrow_f8(type, INFINITY), greatest);
        assert_int_equal(narrow_f8(type, -INFINITY), greatest | 0x80);
        assert_int_equal(narrow_f8(type, -1e30f), greatest | 0x80);
        assert_int_equal(narrow_f8(type, -0x1p-149f), 0x80);
    }
}

/* In e4m3fn 288 + 288 is too large, and their average is not. */
TEST(averages_of_8_bits_are_rounded_once)
{
    const uint8_t large = pccl_f32_to_f8_e4m3fn(288), one = 0x38, sixteen = pccl_f32_to_f8_e4m3fn(16);
    const void *two[] = {&large, &large}, *four[] = {&sixteen, &one, &one, &one};
    uint8_t out = 0;
    pccl_reduce_all(PCCL_F8_E4M3FN, PCCL_AVG, two, 2, 1, &out);
    assert_int_equal(out, large);
    pccl_reduce_all(PCCL_F8_E4M3FN, PCCL_SUM, two, 2, 1, &out);
    assert_int_equal(out, 0x7e); /* 448 */
    pccl_reduce_all(PCCL_F8_E4M3FN, PCCL_SUM, four, 4, 1, &out);
    assert_true(pccl_f8_e4m3fn_to_f32(out) == 20); /* 19 to the even one; rounded in between it would stay 16 */
}

TEST(bools_are_true_or_false)
{
    for (uint32_t pair = 0; pair < 65536; pair++) {
        const uint8_t a = (uint8_t)pair, b = (uint8_t)(pair >> 8);
        const bool and = a != 0 && b != 0, or = a != 0 || b != 0, xor = (a != 0) != (b != 0);
        const int expected[PCCL_REDUCE_OPS] = { or, -1, and, or, and, and, or, xor, -1};
        const void *parts[] = {&a, &b};
        for (int op = 0; op < PCCL_REDUCE_OPS; op++) {
            uint8_t out = 0xee;
            assert_int_equal(pccl_reduction_misfit(PCCL_BOOL, (enum pccl_reduce_op)op) != NULL, expected[op] < 0);
            if (expected[op] < 0)
                continue;
            pccl_reduce_all(PCCL_BOOL, (enum pccl_reduce_op)op, parts, 2, 1, &out);
            assert_int_equal(out, expected[op]);
        }
    }
}

TEST(reductions_fit_types)
{
    for (int type = 0; type < PCCL_DATATYPES; type++) {
        const bool is_float = pccl_datatype_is_float((enum pccl_datatype)type);
        const bool fits[PCCL_REDUCE_OPS] = {true,      type != PCCL_BOOL, true,      true,    true,
                                            !is_float, !is_float,         !is_float, is_float};
        assert_int_equal(is_float, (type >= PCCL_F16 && type <= PCCL_F64) || type >= PCCL_F8_E4M3FN);
        for (int op = 0; op < PCCL_REDUCE_OPS; op++)
            assert_int_equal(pccl_reduction_misfit((enum pccl_datatype)type, (enum pccl_reduce_op)op) == NULL,
                             fits[op]);
    }
}

/* ---- integers: each type against arithmetic in 128 bits, cut to the type ---- */

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static bool is_signed(enum pccl_datatype type)
{
    return type == PCCL_I8 || type == PCCL_I16 || type == PCCL_I32 || type == PCCL_I64;
}

static wide cut(wide value, enum pccl_datatype type)
{
    int bits = (int)pccl_datatype_bytes(type) * 8;
    wide modulus = (wide)1 << bits;
    wide rest = value & (modulus - 1);
    return is_signed(type) && rest >= modulus / 2 ? rest - modulus : rest;
}

static wide load(const uint8_t *from, enum pccl_datatype type)
{
    uint64_t bits = 0;
    memcpy(&bits, from, pccl_datatype_bytes(type)); /* little-endian test machines */
    return cut((wide)bits, type);
}

static wide expected_integer(enum pccl_datatype type, enum pccl_reduce_op reduction, const wide *values, uint32_t count)
{
    wide result = values[0];
    for (uint32_t i = 1; i < count; i++) {
        switch (reduction) {
        case PCCL_SUM:
        case PCCL_AVG: result = cut(result + values[i], type); break;
        case PCCL_PROD: result = cut((wide)((unsigned_wide)result * (unsigned_wide)values[i]), type); break;
        case PCCL_MAX: result = values[i] > result ? values[i] : result; break;
        case PCCL_MIN: result = values[i] < result ? values[i] : result; break;
        case PCCL_AND: result &= values[i]; break;
        case PCCL_OR: result |= values[i]; break;
        case PCCL_XOR: result ^= values[i]; break;
        case PCCL_PREMUL_SUM:
        case PCCL_REDUCE_OPS: break;
        }
    }
    return reduction == PCCL_AVG ? result / (wide)count : result; /* C truncates toward zero */
}

static const enum pccl_datatype integers[] = {PCCL_U8,  PCCL_I8,  PCCL_I16, PCCL_U16,
                                              PCCL_U32, PCCL_I32, PCCL_U64, PCCL_I64};
enum { PARTS_MAX = 5, ELEMENTS = 257 };

/* Unaligned: each part begins at an odd address. */
struct parts {
    uint8_t bytes[PARTS_MAX][ELEMENTS * 8 + 8];
    const void *pointers[PARTS_MAX];
};

static void fill(struct parts *parts, struct pccl_prng *prng)
{
    for (int part = 0; part < PARTS_MAX; part++) {
        for (size_t i = 0; i < sizeof parts->bytes[part]; i++)
            parts->bytes[part][i] = (uint8_t)pccl_prng_u64(prng);
        parts->pointers[part] = parts->bytes[part] + 1 + part % 2 * 2;
    }
}

TEST(integers_wrap_and_divide_at_the_end)
{
    struct pccl_prng prng = unit_prng(1);
    static struct parts parts;
    static uint8_t result[ELEMENTS * 8 + 8];
    for (size_t t = 0; t < PCCL_COUNT_OF(integers); t++) {
        size_t size = pccl_datatype_bytes(integers[t]);
        for (int op = 0; op < PCCL_PREMUL_SUM; op++) {
            for (uint32_t count = 1; count <= PARTS_MAX; count++) {
                fill(&parts, &prng);
                memset(result, 0xa5, sizeof result);
                pccl_reduce_all(integers[t], (enum pccl_reduce_op)op, parts.pointers, count, ELEMENTS, result + 1);
                for (size_t i = 0; i < ELEMENTS; i++) {
                    wide values[PARTS_MAX];
                    for (uint32_t part = 0; part < count; part++)
                        values[part] = load((const uint8_t *)parts.pointers[part] + i * size, integers[t]);
                    wide expected = expected_integer(integers[t], (enum pccl_reduce_op)op, values, count);
                    assert_true(load(result + 1 + i * size, integers[t]) == expected);
                }
                assert_int_equal(result[0], 0xa5);
                assert_int_equal(result[1 + ELEMENTS * size], 0xa5);
            }
        }
    }
}

TEST(average_of_integers_truncates_toward_zero)
{
    int8_t a = -3, b = -4, out = 0;
    const void *parts[] = {&a, &b};
    pccl_reduce_all(PCCL_I8, PCCL_AVG, parts, 2, 1, &out);
    assert_int_equal(out, -3); /* -3.5 */
    /* The sum wraps before it is divided. */
    a = 100, b = 100;
    pccl_reduce_all(PCCL_I8, PCCL_AVG, parts, 2, 1, &out);
    assert_int_equal(out, -28);
    int64_t least = INT64_MIN, one = 1, wide_out = 0;
    const void *wide_parts[] = {&least, &one};
    pccl_reduce_all(PCCL_I64, PCCL_AVG, wide_parts, 2, 1, &wide_out);
    assert_true(wide_out == (INT64_MIN + 1) / 2);
}

/* More parts than the type can count: the divisor must not be cut to the type. */
TEST(average_over_more_parts_than_the_type_holds)
{
    enum { COUNT = 300 };
    int8_t two = 2, out = 0;
    const void *parts[COUNT];
    for (int i = 0; i < COUNT; i++)
        parts[i] = &two;
    pccl_reduce_all(PCCL_I8, PCCL_AVG, parts, COUNT, 1, &out);
    assert_int_equal(out, 600 % 256 / COUNT); /* 88 / 300 */
    uint8_t small = 255, small_out = 1;
    for (int i = 0; i < COUNT; i++)
        parts[i] = &small;
    pccl_reduce_all(PCCL_U8, PCCL_AVG, parts, 256, 1, &small_out);
    assert_int_equal(small_out, 0);
}

/* ---- floats ---- */

static float reduce_f32(enum pccl_reduce_op reduction, const float *values, uint32_t count)
{
    const void *parts[8];
    float out = 0;
    for (uint32_t i = 0; i < count; i++)
        parts[i] = &values[i];
    pccl_reduce_all(PCCL_F32, reduction, parts, count, 1, &out);
    return out;
}

TEST(floats_fold_from_left_to_right)
{
    const float values[] = {1e8f, -1e8f, 1.0f};
    const float turned[] = {1.0f, 1e8f, -1e8f};
    assert_true(reduce_f32(PCCL_SUM, values, 3) == 1.0f);
    assert_true(reduce_f32(PCCL_SUM, turned, 3) == 0.0f);
    const float factors[] = {1e30f, 1e30f, 1e-30f};
    assert_true(isinf(reduce_f32(PCCL_PROD, factors, 3)));
    const float thirds[] = {1.0f, 1.0f, 0.0f};
    assert_true(reduce_f32(PCCL_AVG, thirds, 3) == 2.0f / 3.0f); /* a division, no multiplication by a reciprocal */
    const double wide_values[] = {1e17, -1e17, 1.0};
    const void *parts[] = {&wide_values[0], &wide_values[1], &wide_values[2]};
    double out = 0;
    pccl_reduce_all(PCCL_F64, PCCL_SUM, parts, 3, 1, &out);
    assert_true(out == 1.0);
    pccl_reduce_all(PCCL_F64, PCCL_AVG, parts, 3, 1, &out);
    assert_true(out == 1.0 / 3.0);
}

TEST(float_arrays_match_plain_arithmetic)
{
    struct pccl_prng prng = unit_prng(2);
    float values[3][ELEMENTS], out[ELEMENTS];
    const void *parts[] = {values[0], values[1], values[2]};
    for (int i = 0; i < ELEMENTS * 3; i++)
        values[i / ELEMENTS][i % ELEMENTS] = (float)(int32_t)pccl_prng_u64(&prng) / 1000.0f;
    for (int op = 0; op < PCCL_AND; op++) {
        pccl_reduce_all(PCCL_F32, (enum pccl_reduce_op)op, parts, 3, ELEMENTS, out);
        for (int i = 0; i < ELEMENTS; i++) {
            float a = values[0][i], b = values[1][i], c = values[2][i];
            const float expected[] = {(a + b) + c, ((a + b) + c) / 3.0f, (a * b) * c, fmaxf(fmaxf(a, b), c),
                                      fminf(fminf(a, b), c)};
            assert_true(bits_of(out[i]) == bits_of(expected[op]));
        }
    }
}

/* If each partial sum were rounded to 16 bits, the small parts would be lost. */
TEST(half_floats_are_rounded_once)
{
    const uint16_t f16[] = {0x6800 /* 2048 */, 0x3c00 /* 1 */, 0x3c00, 0x3c00};
    const uint16_t bf16[] = {0x4380 /* 256 */, 0x3f80 /* 1 */, 0x3f80, 0x3f80};
    const void *parts[4];
    uint16_t out = 0;
    for (int i = 0; i < 4; i++)
        parts[i] = &f16[i];
    pccl_reduce_all(PCCL_F16, PCCL_SUM, parts, 4, 1, &out);
    assert_true(pccl_f16_to_f32(out) == 2052.0f); /* 2051 to the nearest multiple of 2 with an even last bit */
    for (int i = 0; i < 4; i++)
        parts[i] = &bf16[i];
    pccl_reduce_all(PCCL_BF16, PCCL_SUM, parts, 4, 1, &out);
    assert_true(pccl_bf16_to_f32(out) == 260.0f);
    pccl_reduce_all(PCCL_BF16, PCCL_AVG, parts, 2, 1, &out);
    assert_true(pccl_bf16_to_f32(out) == 128.0f); /* 128.5, not the half of 258 */
}

TEST(half_float_products_may_pass_through_large_values)
{
    const uint16_t values[] = {0x7bff /* 65504 */, 0x4000 /* 2 */, 0x3800 /* 0.5 */};
    const void *parts[] = {&values[0], &values[1], &values[2]};
    uint16_t out = 0;
    pccl_reduce_all(PCCL_F16, PCCL_PROD, parts, 3, 1, &out);
    assert_int_equal(out, 0x7bff);
    pccl_reduce_all(PCCL_F16, PCCL_PROD, parts, 2, 1, &out);
    assert_int_equal(out, 0x7c00);
}

/* ---- NaN and zeros in each float type: given as bit patterns ---- */

struct specials {
    enum pccl_datatype type;
    uint64_t plus_zero, minus_zero, one, quiet, other_nan, signaling, infinity;
};
static const struct specials specials[] = {
    {PCCL_F16, 0, 0x8000, 0x3c00, 0x7e00, 0xfe01, 0x7c01, 0x7c00},
    {PCCL_BF16, 0, 0x8000, 0x3f80, 0x7fc0, 0xffc1, 0x7f81, 0x7f80},
    {PCCL_F32, 0, 0x80000000, 0x3f800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x7f800000},
    {PCCL_F64, 0, UINT64_C(1) << 63, UINT64_C(0x3ff0000000000000), UINT64_C(0x7ff8000000000000),
     UINT64_C(0xfff8000000000001), UINT64_C(0x7ff0000000000001), UINT64_C(0x7ff0000000000000)},
    {PCCL_F8_E5M2, 0, 0x80, 0x3c, 0x7f, 0xfe, 0x7d, 0x7c},
    {PCCL_F8_E4M3FN, 0, 0x80, 0x38, 0x7f, 0xff, 0x7f, 0x7f}, /* without an infinity */
};

static uint64_t reduce_bits(enum pccl_datatype type, enum pccl_reduce_op reduction, uint64_t a, uint64_t b, uint64_t c)
{
    const void *parts[] = {&a, &b, &c};
    uint64_t out = 0;
    pccl_reduce_all(type, reduction, parts, 3, 1, &out);
    return out;
}

TEST(minimum_and_maximum_of_nan_and_zeros)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(specials); i++) {
        const struct specials *s = &specials[i];
        const uint64_t nans[] = {s->quiet, s->other_nan, s->signaling};
        for (size_t n = 0; n < PCCL_COUNT_OF(nans); n++) {
            for (int op = PCCL_MAX; op <= PCCL_MIN; op++) {
                enum pccl_reduce_op reduction = (enum pccl_reduce_op)op;
                assert_true(reduce_bits(s->type, reduction, nans[n], s->one, s->plus_zero) == s->quiet);
                assert_true(reduce_bits(s->type, reduction, s->one, nans[n], s->plus_zero) == s->quiet);
                assert_true(reduce_bits(s->type, reduction, s->one, s->plus_zero, nans[n]) == s->quiet);
                assert_true(reduce_bits(s->type, reduction, nans[n], nans[(n + 1) % 3], nans[n]) == s->quiet);
            }
        }
        uint64_t p = s->plus_zero, m = s->minus_zero;
        assert_true(reduce_bits(s->type, PCCL_MIN, p, m, p) == m && reduce_bits(s->type, PCCL_MIN, m, p, p) == m);
        assert_true(reduce_bits(s->type, PCCL_MAX, m, p, m) == p && reduce_bits(s->type, PCCL_MAX, p, m, m) == p);
        assert_true(reduce_bits(s->type, PCCL_MIN, p, p, p) == p && reduce_bits(s->type, PCCL_MAX, m, m, m) == m);
        assert_true(reduce_bits(s->type, PCCL_MAX, m, s->one, p) == s->one);
    }
}

/* Processors pass on different NaNs, and create different ones; the result is always the same. */
TEST(results_that_are_nan_are_one_nan)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(specials); i++) {
        const struct specials *s = &specials[i];
        const uint64_t nans[] = {s->quiet, s->other_nan, s->signaling};
        const uint64_t minus_infinity = s->infinity | s->minus_zero;
        for (int op = 0; op < PCCL_REDUCE_OPS; op++) {
            enum pccl_reduce_op reduction = (enum pccl_reduce_op)op;
            if (pccl_reduction_misfit(s->type, reduction) != NULL)
                continue;
            for (size_t n = 0; n < PCCL_COUNT_OF(nans); n++) {
                assert_true(reduce_bits(s->type, reduction, nans[n], s->one, s->one) == s->quiet);
                assert_true(reduce_bits(s->type, reduction, s->one, nans[n], nans[(n + 1) % 3]) == s->quiet);
                assert_true(reduce_bits(s->type, reduction, s->one, s->one, nans[n]) == s->quiet);
                const void *alone[] = {&nans[n]};
                uint64_t out = 0;
                pccl_reduce_all(s->type, reduction, alone, 1, 1, &out);
                assert_true(out == s->quiet);
            }
        }
        assert_true(reduce_bits(s->type, PCCL_SUM, s->one, s->infinity, minus_infinity) == s->quiet);
        assert_true(reduce_bits(s->type, PCCL_AVG, s->infinity, minus_infinity, s->one) == s->quiet);
        assert_true(reduce_bits(s->type, PCCL_PROD, s->minus_zero, s->infinity, s->one) == s->quiet);
    }
}

/* A fold with the identity gives the other element, as a fold of that element alone does; a sum may make -0 +0. */
TEST(identities_change_nothing)
{
    struct pccl_prng prng = unit_prng(4);
    for (int type = 0; type < PCCL_DATATYPES; type++)
        for (int op = 0; op < PCCL_REDUCE_OPS; op++) {
            const enum pccl_datatype datatype = (enum pccl_datatype)type;
            const enum pccl_reduce_op reduction = (enum pccl_reduce_op)op;
            if (reduction == PCCL_AVG || pccl_reduction_misfit(datatype, reduction) != NULL)
                continue;
            const bool adds = pccl_reduce_op_adds(reduction) && pccl_datatype_is_float(datatype);
            for (unsigned i = 0; i < 2000; i++) {
                uint64_t identity[2] = {0}, value = pccl_prng_u64(&prng), alone = 0, both = 0;
                pccl_fill_identity(datatype, reduction, 1, identity);
                assert_int_equal(identity[1], 0);
                const void *parts[] = {&value, identity};
                pccl_reduce_all(datatype, reduction, parts, 1, 1, &alone);
                pccl_reduce_all(datatype, reduction, parts, 2, 1, &both);
                if (alone != both && !(adds && both == 0))
                    fail_msg("type %d, reduction %d: %llx becomes %llx", type, op, (unsigned long long)alone,
                             (unsigned long long)both);
            }
        }
}

/* ---- shapes ---- */

TEST(result_may_be_any_part)
{
    struct pccl_prng prng = unit_prng(3);
    static struct parts parts, kept;
    static uint8_t apart[ELEMENTS * 8];
    for (int type = 0; type < PCCL_DATATYPES; type++) {
        size_t length = ELEMENTS * pccl_datatype_bytes((enum pccl_datatype)type);
        for (int op = 0; op < PCCL_REDUCE_OPS; op++) {
            if (pccl_reduction_misfit((enum pccl_datatype)type, (enum pccl_reduce_op)op) != NULL)
                continue;
            fill(&kept, &prng);
            pccl_reduce_all((enum pccl_datatype)type, (enum pccl_reduce_op)op, kept.pointers, PARTS_MAX, ELEMENTS,
                            apart);
            for (int target = 0; target < PARTS_MAX; target++) {
                memcpy(parts.bytes, kept.bytes, sizeof parts.bytes);
                for (int part = 0; part < PARTS_MAX; part++)
                    parts.pointers[part] = parts.bytes[part] + 1 + part % 2 * 2;
                uint8_t *result = parts.bytes[target] + 1 + target % 2 * 2;
                pccl_reduce_all((enum pccl_datatype)type, (enum pccl_reduce_op)op, parts.pointers, PARTS_MAX, ELEMENTS,
                                result);
                assert_memory_equal(result, apart, length);
            }
        }
    }
}

TEST(nothing_is_written_for_no_elements)
{
    uint64_t value = 7, out = 9;
    const void *parts[] = {&value, &value};
    for (int type = 0; type < PCCL_DATATYPES; type++)
        pccl_reduce_all((enum pccl_datatype)type, PCCL_SUM, parts, 2, 0, &out);
    assert_int_equal(out, 9);
}
