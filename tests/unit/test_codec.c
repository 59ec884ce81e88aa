/* kernels/codec: the supported combinations, and that results are close enough, and exact where they must be. */
#include "unit.h"

#include <stdio.h>

#include "test_codec_cases.h"

enum { BLOCK = PCCL_CODEC_BLOCK, COUNT_MAX = 3 * BLOCK };

static uint8_t elements[COUNT_MAX * 8], decoded[COUNT_MAX * 8], packed_bytes[COUNT_MAX * 5];

static const struct pccl_kernels *scalar(void) { return pccl_kernels_for(0); }

static void round_trip(const struct pccl_codec *codec, size_t count)
{
    pccl_codec_encode(codec, scalar(), elements, count, packed_bytes);
    pccl_codec_decode(codec, scalar(), packed_bytes, count, decoded);
}

/* ---- codecs that exist ---- */

TEST(kinds_have_names)
{
    assert_string_equal(pccl_codec_kind_name(PCCL_CODEC_NONE), "none");
    assert_string_equal(pccl_codec_kind_name(PCCL_CODEC_MIN_MAX), "minmax");
    assert_string_equal(pccl_codec_kind_name(PCCL_CODEC_ZERO_POINT_SCALE), "zeropointscale");
    assert_string_equal(pccl_codec_kind_name(PCCL_CODEC_KINDS), "?");
}

enum answer { PACKED, AS_IT_IS, REFUSED };

static enum answer expected_answer(int kind, int datatype, int packed, int reduction)
{
    static const bool is_float[PCCL_DATATYPES] = {[PCCL_F16] = true, [PCCL_BF16] = true,      [PCCL_F32] = true,
                                                  [PCCL_F64] = true, [PCCL_F8_E4M3FN] = true, [PCCL_F8_E5M2] = true};
    static const bool is_signed[PCCL_DATATYPES] = {
        [PCCL_I8] = true, [PCCL_I16] = true, [PCCL_I32] = true, [PCCL_I64] = true};
    if (kind == PCCL_CODEC_NONE || packed == datatype)
        return AS_IT_IS;
    if (!is_float[datatype] || is_float[packed] || packed == PCCL_BOOL ||
        (kind == PCCL_CODEC_MIN_MAX && is_signed[packed]))
        return REFUSED;
    bool is_bitwise = reduction == PCCL_AND || reduction == PCCL_OR || reduction == PCCL_XOR;
    bool is_sum = reduction == PCCL_SUM || reduction == PCCL_AVG || reduction == PCCL_PREMUL_SUM;
    if (is_bitwise || (kind == PCCL_CODEC_ZERO_POINT_SCALE && !is_sum))
        return REFUSED;
    bool narrower = pccl_datatype_bytes((enum pccl_datatype)packed) < pccl_datatype_bytes((enum pccl_datatype)datatype);
    return narrower ? PACKED : AS_IT_IS;
}

TEST(every_combination_has_its_answer)
{
    size_t found = 0;
    for (int kind = 0; kind < PCCL_CODEC_KINDS; kind++)
        for (int datatype = 0; datatype < PCCL_DATATYPES; datatype++)
            for (int packed = 0; packed < PCCL_DATATYPES; packed++)
                for (int reduction = 0; reduction < PCCL_REDUCE_OPS; reduction++) {
                    struct pccl_text reason = {.length = 3, .bytes = "old"};
                    const struct pccl_codec *codec =
                        pccl_codec_find((enum pccl_codec_kind)kind, (enum pccl_datatype)datatype,
                                        (enum pccl_datatype)packed, (enum pccl_reduce_op)reduction, &reason);
                    enum answer answer = codec != NULL ? PACKED : reason.length == 0 ? AS_IT_IS : REFUSED;
                    assert_int_equal(answer, expected_answer(kind, datatype, packed, reduction));
                    found += codec != NULL;
                    if (answer == PACKED)
                        assert_int_equal(reason.length, 0);
                }
    /* widths below each float: f16 1, bf16 1, f32 2, f64 3; MinMax in 6 reductions, the other in 3 and both signs */
    assert_int_equal(found, 7 * 6 + 7 * 3 * 2);
}

TEST(refusals_say_why)
{
    static const struct {
        int kind, datatype, packed, reduction;
        const char *reason;
    } refusals[] = {
        {1, PCCL_I32, PCCL_U8, PCCL_SUM, "minmax quantizes floats, not i32"},
        {2, PCCL_F32, PCCL_BF16, PCCL_SUM, "zeropointscale packs into integers, not into bf16"},
        {1, PCCL_F32, PCCL_I8, PCCL_SUM, "minmax packs into unsigned integers, not into i8"},
        {2, PCCL_F32, PCCL_U8, PCCL_MAX, "zeropointscale supports only sum and average; use minmax for max"},
        {3, PCCL_F32, PCCL_U8, PCCL_SUM, "unknown quantization: 3"},
        {1, 15, PCCL_U8, PCCL_SUM, "unknown data type: 15"},
        {1, PCCL_BOOL, PCCL_U8, PCCL_SUM, "minmax quantizes floats, not bool"},
        {1, PCCL_F32, PCCL_U8, PCCL_XOR, "and, or and xor require integers or bool, not floats"},
        {1, PCCL_F32, 77, PCCL_SUM, "unknown quantized data type: 77"},
        {1, PCCL_F32, PCCL_U8, 9, "unknown reduction: 9"},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(refusals); i++) {
        struct pccl_text reason;
        assert_null(pccl_codec_find((enum pccl_codec_kind)refusals[i].kind, (enum pccl_datatype)refusals[i].datatype,
                                    (enum pccl_datatype)refusals[i].packed, (enum pccl_reduce_op)refusals[i].reduction,
                                    &reason));
        assert_string_equal(reason.bytes, refusals[i].reason);
    }
    struct pccl_text reason; /* without quantization the packed type is not looked at */
    assert_null(pccl_codec_find(PCCL_CODEC_NONE, PCCL_F32, (enum pccl_datatype)77, PCCL_SUM, &reason));
    assert_int_equal(reason.length, 0);
}

TEST(signed_types_pack_like_the_unsigned)
{
    struct pccl_text reason;
    assert_ptr_equal(pccl_codec_find(PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F32, PCCL_I8, PCCL_AVG, &reason),
                     pccl_codec_find(PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F32, PCCL_U8, PCCL_SUM, &reason));
}

/* ---- bytes ---- */

TEST(exactly_the_bytes_announced_are_written)
{
    static const size_t counts[] = {0, 1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 3000};
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        const struct pccl_codec *codec = codec_of(c);
        size_t head = c->datatype == PCCL_F64 ? 17 : 9;
        size_t element_bytes = pccl_datatype_bytes(c->datatype);
        for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++) {
            size_t count = counts[i], bytes = pccl_codec_bytes(codec, count);
            assert_int_equal(bytes, (count + 1023) / 1024 * head + count * pccl_datatype_bytes(c->packed));
            fill(UNIFORM, c->datatype, i, elements, count);
            uint8_t *packed = malloc(bytes + 1), *out = malloc(count * element_bytes + 1);
            assert_non_null(packed);
            assert_non_null(out);
            packed[bytes] = out[count * element_bytes] = 0xa5;
            pccl_codec_encode(codec, scalar(), elements, count, packed);
            pccl_codec_decode(codec, scalar(), packed, count, out);
            assert_int_equal(packed[bytes], 0xa5);
            assert_int_equal(out[count * element_bytes], 0xa5);
            free(packed);
            free(out);
        }
    }
}

TEST(blocks_are_independent)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        const struct pccl_codec *codec = codec_of(c);
        size_t element_bytes = pccl_datatype_bytes(c->datatype), one = pccl_codec_bytes(codec, BLOCK);
        fill(OUTLIER, c->datatype, k, elements, BLOCK + 5);
        round_trip(codec, BLOCK + 5);
        uint8_t tail[64], tail_decoded[5 * 8];
        pccl_codec_encode(codec, scalar(), elements + BLOCK * element_bytes, 5, tail);
        assert_memory_equal(packed_bytes + one, tail, pccl_codec_bytes(codec, 5));
        pccl_codec_decode(codec, scalar(), packed_bytes + one, 5, tail_decoded);
        assert_memory_equal(decoded + BLOCK * element_bytes, tail_decoded, 5 * element_bytes);
    }
}

/* The layout of docs/CODECS.md, byte by byte. */
TEST(the_layout_is_as_documented)
{
    static const float values[] = {1, 2, 3, 52};
    static const uint8_t min_max[] = {0, 0, 0, 0x80, 0x3f, 0, 0, 0x50, 0x42, 0, 5, 10, 255};
    static const float lattice_values[] = {-2, 0, 1, 252};
    static const uint8_t lattice[] = {0, 0, 0, 0, 0x40, 0, 0, 0x80, 0x3f, 0, 2, 3, 254};
    static const double wide_values[] = {0, 65535};
    static const uint8_t wide[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0xff, 0xef, 0x40, 0, 0, 0xff, 0xff};
    const struct codec_case cases[] = {{PCCL_CODEC_MIN_MAX, PCCL_F32, PCCL_U8},
                                       {PCCL_CODEC_ZERO_POINT_SCALE, PCCL_F32, PCCL_U8},
                                       {PCCL_CODEC_MIN_MAX, PCCL_F64, PCCL_U16}};
    uint8_t bytes[sizeof wide];
    pccl_codec_encode(codec_of(&cases[0]), scalar(), values, 4, bytes);
    assert_memory_equal(bytes, min_max, sizeof min_max);
    pccl_codec_encode(codec_of(&cases[1]), scalar(), lattice_values, 4, bytes);
    assert_memory_equal(bytes, lattice, sizeof lattice);
    pccl_codec_encode(codec_of(&cases[2]), scalar(), wide_values, 2, bytes);
    assert_memory_equal(bytes, wide, sizeof wide);
}

TEST(steps_on_the_grid_are_exact_and_ties_go_to_even)
{
    const struct codec_case c = {PCCL_CODEC_MIN_MAX, PCCL_F32, PCCL_U8};
    float values[BLOCK], out[BLOCK];
    for (size_t i = 0; i < BLOCK; i++)
        values[i] = (float)(i % 511) / 2; /* 0, 0.5 ... 255: the step is 1 */
    pccl_codec_encode(codec_of(&c), scalar(), values, BLOCK, packed_bytes);
    pccl_codec_decode(codec_of(&c), scalar(), packed_bytes, BLOCK, out);
    for (size_t i = 0; i < BLOCK; i++)
        assert_true(out[i] == nearbyintf(values[i]));
}

/* ---- error of codecs ---- */

/*
 * The bound of docs/CODECS.md for one element: half a step, the error of float arithmetic on the range and on the value
 * itself, and half a unit in the last place of the element.
 */
static number bound_of(const struct codec_case *c, number low, number high, number value, unsigned levels)
{
    struct float_format format = format_of(c->datatype);
    bool is_double = c->datatype == PCCL_F64;
    number epsilon = is_double ? 0x1p-53L : 0x1p-24L, finest = is_double ? 0x1p48L : 0x1p20L;
    number range = high - low, largest = fmaxl(fabsl(low), fabsl(high));
    number step = range / (c->kind == PCCL_CODEC_MIN_MAX ? levels : levels - 1);
    if (c->kind == PCCL_CODEC_ZERO_POINT_SCALE && range > 0)
        step = fmaxl(step, largest / finest);
    return step / 2 + 8 * epsilon * range + 4 * epsilon * largest + (number)format.half_ulp * fabsl(value) +
           2 * (number)format.smallest;
}

static void check_close(const struct codec_case *c, size_t begin, size_t end, enum data data)
{
    number low = INFINITY, high = -INFINITY;
    bool special = false;
    for (size_t i = begin; i < end; i++) {
        number value = get_element(c->datatype, elements, i);
        special |= !isfinite(value);
        low = isfinite(value) && value < low ? value : low;
        high = isfinite(value) && value > high ? value : high;
    }
    unsigned levels = (unsigned)((UINT64_C(1) << (8 * pccl_datatype_bytes(c->packed))) - (special ? 4 : 1));
    for (size_t i = begin; i < end; i++) {
        number value = get_element(c->datatype, elements, i), got = get_element(c->datatype, decoded, i);
        if (isnan(value)) {
            assert_true(isnan(got));
        } else if (isinf(value)) {
            assert_true(got == value);
        } else if (!(fabsl(got - value) <= bound_of(c, low, high, value, levels))) {
            fail_msg("%s %s as %s, data %d: %.20Lg became %.20Lg between %.20Lg and %.20Lg",
                     pccl_codec_kind_name(c->kind), pccl_datatype_name(c->datatype), pccl_datatype_name(c->packed),
                     (int)data, value, got, low, high);
        }
        if (c->kind == PCCL_CODEC_MIN_MAX && isfinite(value))
            assert_true(got >= low && got <= high);
    }
}

TEST(errors_stay_within_the_bound)
{
    static const size_t counts[] = {1, 2, 3, 100, 1023, 1024, 1025, 3000};
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (int data = 0; data < ALL_DATA; data++)
            for (size_t i = 0; i < PCCL_COUNT_OF(counts); i++) {
                const struct codec_case *c = &codec_cases[k];
                fill((enum data)data, c->datatype, (uint64_t)data * 100 + i, elements, counts[i]);
                round_trip(codec_of(c), counts[i]);
                for (size_t begin = 0; begin < counts[i]; begin += BLOCK)
                    check_close(c, begin, begin + BLOCK < counts[i] ? begin + BLOCK : counts[i], (enum data)data);
            }
}

/* Blocks of a few numbers of any magnitude: where the choice of scales is most likely to be wrong. */
TEST(errors_stay_within_the_bound_for_odd_ranges)
{
    struct pccl_prng prng = unit_prng(50);
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (int round = 0; round < 3000; round++) {
            const struct codec_case *c = &codec_cases[k];
            double base = sample(ANY_BITS, c->datatype, &prng), spread = unit(&prng) * (round % 3 == 0 ? 1 : 1e-6);
            struct float_format format = format_of(c->datatype);
            for (size_t i = 0; i < 8; i++) {
                double value = base + (unit(&prng) - 0.5) * base * spread * (i % 2 == 0 ? 2 : 0.001);
                value = fmax(fmin(value, format.max), -format.max);
                put_element(c->datatype, elements, i, value);
            }
            round_trip(codec_of(c), 8);
            check_close(c, 0, 8, ALL_DATA);
        }
}

TEST(rounding_is_not_biased)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        if (c->packed != PCCL_U8 || c->datatype == PCCL_F16 || c->datatype == PCCL_BF16)
            continue;
        double sum = 0;
        size_t rounds = 30;
        for (size_t round = 0; round < rounds; round++) {
            fill(UNIFORM, c->datatype, 1000 + round, elements, BLOCK);
            round_trip(codec_of(c), BLOCK);
            for (size_t i = 0; i < BLOCK; i++)
                sum += get_element(c->datatype, decoded, i) - get_element(c->datatype, elements, i);
        }
        double step = 2.0 / 255, count = (double)(rounds * BLOCK);
        assert_true(fabs(sum / count) < 4 * step / sqrt(12 * count)); /* four standard errors; truncation has 350 */
    }
}

/* ---- exactly ---- */

TEST(single_values_are_exact)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        bool half = c->datatype == PCCL_F16 || c->datatype == PCCL_BF16;
        struct pccl_prng prng = unit_prng(k);
        for (uint32_t i = 0; i < (half ? 65536 : 20000); i++) { /* all of them if there are few */
            uint64_t bits = half ? i : pccl_prng_u64(&prng);
            memcpy(elements, &bits, sizeof bits);
            round_trip(codec_of(c), 1);
            double value = get_element(c->datatype, elements, 0), got = get_element(c->datatype, decoded, 0);
            if (isnan(value))
                assert_true(isnan(got));
            else
                assert_true(got == value);
        }
    }
}

TEST(constants_are_exact)
{
    static const double constants[] = {0, -0.0, 1, -1, 42, 43, 0.1, -3.7e-5, 1e-40, -1e-44, 65504, -65504};
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (size_t i = 0; i < PCCL_COUNT_OF(constants); i++) {
            enum pccl_datatype datatype = codec_cases[k].datatype;
            for (size_t e = 0; e < BLOCK + 1; e++)
                put_element(datatype, elements, e, constants[i]);
            round_trip(codec_of(&codec_cases[k]), BLOCK + 1);
            for (size_t e = 0; e < BLOCK + 1; e++)
                assert_true(get_element(datatype, decoded, e) == get_element(datatype, elements, e));
        }
}

TEST(both_ends_and_zeros_are_exact)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (int data = 0; data < ALL_DATA; data++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                const struct codec_case *c = &codec_cases[k];
                if (data == HUGE_AND_SUBNORMAL)
                    continue; /* documented: the smallest of such numbers are decoded as zero */
                fill((enum data)data, c->datatype, seed, elements, BLOCK);
                put_element(c->datatype, elements, 7, 0);
                round_trip(codec_of(c), BLOCK);
                double low = INFINITY, high = -INFINITY;
                for (size_t i = 0; i < BLOCK; i++) {
                    low = fmin(low, get_element(c->datatype, elements, i));
                    high = fmax(high, get_element(c->datatype, elements, i));
                }
                for (size_t i = 0; i < BLOCK; i++) {
                    double value = get_element(c->datatype, elements, i), got = get_element(c->datatype, decoded, i);
                    bool end = value == low || value == high;
                    if (c->kind == PCCL_CODEC_MIN_MAX ? end : value == 0)
                        assert_true(got == value);
                }
            }
}

/* ---- NaN and infinities ---- */

TEST(special_values_stay_what_and_where_they_are)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    static const size_t counts[] = {1, 2, 1000, 1024, 2500};
    struct pccl_prng prng = unit_prng(13);
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (int data = 0; data < ALL_DATA; data++)
            for (size_t n = 0; n < PCCL_COUNT_OF(counts); n++) {
                const struct codec_case *c = &codec_cases[k];
                fill((enum data)data, c->datatype, n, elements, counts[n]);
                uint64_t kinds = 1 + pccl_prng_below(&prng, 3);
                for (size_t i = 0; i < counts[n]; i++)
                    if (pccl_prng_below(&prng, 10) == 0 || i == counts[n] / 2)
                        put_element(c->datatype, elements, i, special[pccl_prng_below(&prng, kinds)]);
                round_trip(codec_of(c), counts[n]);
                for (size_t begin = 0; begin < counts[n]; begin += BLOCK)
                    check_close(c, begin, begin + BLOCK < counts[n] ? begin + BLOCK : counts[n], (enum data)data);
            }
}

TEST(one_special_value_is_found_wherever_it_is)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    const struct codec_case *cases[] = {&codec_cases[0], &codec_cases[2], &codec_cases[7], &codec_cases[9]};
    for (size_t k = 0; k < PCCL_COUNT_OF(cases); k++)
        for (size_t at = 0; at < BLOCK; at++) {
            enum pccl_datatype datatype = cases[k]->datatype;
            fill(UNIFORM, datatype, at, elements, BLOCK);
            put_element(datatype, elements, at, special[at % 3]);
            round_trip(codec_of(cases[k]), BLOCK);
            check_close(cases[k], 0, BLOCK, UNIFORM);
        }
}

/* ---- as a ring uses them ---- */

/* Each rank adds its part to the sum it decoded, and encodes the new sum; the owner decodes its own encoding. */
static void ring_sum(const struct codec_case *c, uint32_t ranks, size_t count,
                     void (*part)(uint32_t rank, size_t count, const struct codec_case *c))
{
    static uint8_t sum[COUNT_MAX * 8];
    const struct pccl_codec *codec = codec_of(c);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        part(rank, count, c);
        if (rank == 0)
            memcpy(sum, elements, count * pccl_datatype_bytes(c->datatype));
        else
            pccl_combine(scalar(), c->datatype, PCCL_SUM, sum, elements, decoded, count);
        pccl_codec_encode(codec, scalar(), sum, count, packed_bytes);
        pccl_codec_decode(codec, scalar(), packed_bytes, count, decoded);
    }
}

static void constant_part(uint32_t rank, size_t count, const struct codec_case *c)
{
    for (size_t i = 0; i < count; i++)
        put_element(c->datatype, elements, i, 42 + rank);
}

TEST(constants_sum_exactly)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (uint32_t ranks = 1; ranks <= 5; ranks++) {
            const struct codec_case *c = &codec_cases[k];
            ring_sum(c, ranks, BLOCK, constant_part);
            uint32_t expected = 42 * ranks + ranks * (ranks - 1) / 2; /* 85 for two; up to 220, exact in bf16 as well */
            for (size_t i = 0; i < BLOCK; i++)
                assert_true(get_element(c->datatype, decoded, i) == (double)expected);
        }
}

static void random_part(uint32_t rank, size_t count, const struct codec_case *c)
{
    fill(UNIFORM, c->datatype, 60 + rank, elements, count);
}

TEST(sums_along_a_ring_stay_close)
{
    enum { RANKS = 8 };
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        struct float_format format = format_of(c->datatype);
        static double exact[COUNT_MAX];
        memset(exact, 0, sizeof exact);
        number bound = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            random_part(rank, COUNT_MAX, c);
            for (size_t i = 0; i < COUNT_MAX; i++)
                exact[i] += get_element(c->datatype, elements, i);
            number limit = rank + 1; /* partial sums are within it, so their range within twice that */
            unsigned levels = (unsigned)((UINT64_C(1) << (8 * pccl_datatype_bytes(c->packed))) - 1);
            bound += bound_of(c, -limit * 1.1L, limit * 1.1L, limit * 1.1L, levels) + 2 * limit * format.half_ulp;
        }
        ring_sum(c, RANKS, COUNT_MAX, random_part);
        for (size_t i = 0; i < COUNT_MAX; i++)
            assert_true(fabsl(get_element(c->datatype, decoded, i) - exact[i]) <= bound);
    }
}

TEST(nan_survives_the_ring)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        fill(UNIFORM, c->datatype, 1, elements, BLOCK);
        put_element(c->datatype, elements, 5, NAN);
        put_element(c->datatype, elements, 6, INFINITY);
        round_trip(codec_of(c), BLOCK);
        fill(UNIFORM, c->datatype, 2, elements, BLOCK);
        pccl_combine(scalar(), c->datatype, PCCL_SUM, elements, elements, decoded, BLOCK);
        round_trip(codec_of(c), BLOCK);
        assert_true(isnan(get_element(c->datatype, decoded, 5)));
        assert_true(get_element(c->datatype, decoded, 6) == (double)INFINITY);
        assert_true(isfinite(get_element(c->datatype, decoded, 7)));
    }
}
