/*
 * kernels/scaled: the answers of the model in scaled_model.py, the same bits from all kernels, the error of results,
 * and that any bytes decode.
 */
#include "unit.h"

#include <stdio.h>

#include "cpu.h"
#include "kernels/codec_error.h"
#include "kernels/scaled.h"
#include "test_codec_cases.h"

enum { COUNT = 3 * PCCL_SCALED_BLOCK_MAX + 77, BYTES = COUNT * 2 };

static uint8_t elements[COUNT * 8], decoded[COUNT * 8], other_decoded[COUNT * 8];
static uint8_t bytes[BYTES], other_bytes[BYTES];

static const enum pccl_datatype datatypes[] = {PCCL_F32, PCCL_F16, PCCL_BF16};
enum { CASES = 3 * PCCL_SCALED_FORMATS * PCCL_SCALED_SCALES * PCCL_SCALED_ROUNDINGS * 5 };

/* Returns the codec of number `n`, of all codecs. */
static struct pccl_scaled codec_number(size_t n)
{
    struct pccl_scaled codec = {.datatype = datatypes[n % 3]};
    codec.format = (enum pccl_scaled_format)(n / 3 % PCCL_SCALED_FORMATS);
    n /= (size_t)3 * PCCL_SCALED_FORMATS;
    codec.scale = (enum pccl_scaled_scale)(n % PCCL_SCALED_SCALES);
    codec.rounding = (enum pccl_scaled_rounding)(n / PCCL_SCALED_SCALES % PCCL_SCALED_ROUNDINGS);
    codec.block = 16U << (n / PCCL_SCALED_SCALES / PCCL_SCALED_ROUNDINGS);
    return codec;
}

static const struct pccl_kernels *scalar(void) { return pccl_kernels_for(0); }

static void round_trip(const struct pccl_scaled *codec, size_t count, uint64_t seed)
{
    pccl_scaled_encode(codec, scalar(), elements, count, 0, seed, bytes);
    pccl_scaled_decode(codec, scalar(), bytes, count, decoded);
}

TEST(codecs_are_checked)
{
    static const struct {
        unsigned datatype, format, scale, rounding, block;
        const char *reason;
    } refusals[] = {
        {PCCL_F64, 0, 0, 0, 16, "e4m3 packs f16, bf16 and f32, not f64"},
        {PCCL_U8, 2, 0, 0, 16, "int4 packs f16, bf16 and f32, not u8"},
        {PCCL_DATATYPES, 0, 0, 0, 16, "unknown data type: 15"},
        {PCCL_F8_E4M3FN, 0, 0, 0, 16, "e4m3 packs f16, bf16 and f32, not f8e4m3fn"},
        {PCCL_F32, 5, 0, 0, 16, "unknown format: 5"},
        {PCCL_F32, 0, 3, 0, 16, "unknown scale: 3"},
        {PCCL_F32, 0, 0, 2, 16, "unknown rounding: 2"},
        {PCCL_F32, 0, 0, 0, 8, "invalid block size 8: expected 16, 32, 64, 128 or 256 elements"},
        {PCCL_F32, 0, 0, 0, 48, "invalid block size 48: expected 16, 32, 64, 128 or 256 elements"},
        {PCCL_F32, 0, 0, 0, 512, "invalid block size 512: expected 16, 32, 64, 128 or 256 elements"},
    };
    struct pccl_text reason;
    for (size_t i = 0; i < PCCL_COUNT_OF(refusals); i++) {
        struct pccl_scaled codec = {(enum pccl_datatype)refusals[i].datatype,
                                    (enum pccl_scaled_format)refusals[i].format,
                                    (enum pccl_scaled_scale)refusals[i].scale,
                                    (enum pccl_scaled_rounding)refusals[i].rounding, refusals[i].block};
        assert_false(pccl_scaled_is_valid(&codec, &reason));
        assert_string_equal(reason.bytes, refusals[i].reason);
    }
    for (size_t n = 0; n < CASES; n++) {
        struct pccl_scaled codec = codec_number(n);
        assert_true(pccl_scaled_is_valid(&codec, &reason));
    }
    assert_string_equal(pccl_scaled_format_name(PCCL_SCALED_FORMATS), "?");
}

/* ---- the model's answers ---- */

static size_t from_hex(const char *text, uint8_t *to)
{
    size_t count = strlen(text) / 2;
    for (size_t i = 0; i < count; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], 0};
        to[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return count;
}

TEST(known_answers)
{
    static const char *const scales[] = {"f32", "bf16", "power"};
    static char line[8192], raw[2048], packed[2048], unpacked[2048];
    static uint8_t want[1024], want_decoded[1024];
    FILE *file = fopen(SCALED_ANSWERS, "r");
    size_t lines = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char format[8], scale[8], rounding[16];
        unsigned long long first, seed;
        struct pccl_scaled codec = {.datatype = PCCL_F32};
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%7s %7s %15s %u %llu %llu %2047s %2047s %2047s", format, scale, rounding,
                                &codec.block, &first, &seed, raw, packed, unpacked),
                         9);
        while (strcmp(pccl_scaled_format_name(codec.format), format) != 0)
            codec.format++;
        while (strcmp(scales[codec.scale], scale) != 0)
            codec.scale++;
        codec.rounding = rounding[0] == 's' ? PCCL_SCALED_STOCHASTIC : PCCL_SCALED_NEAREST;
        size_t count = from_hex(raw, elements) / sizeof(float), length = from_hex(packed, want);
        assert_int_equal(pccl_scaled_bytes(&codec, count), length);
        from_hex(unpacked, want_decoded);
        for (uint32_t index = 0; kernels_here(index) != NULL; index++) {
            pccl_scaled_encode(&codec, kernels_here(index), elements, count, first, seed, bytes);
            if (memcmp(bytes, want, length) != 0)
                fail_msg("%s, line %zu: other bytes for %s %s %s", pccl_kernels_name(kernels_here(index)), lines + 2,
                         format, scale, rounding);
            pccl_scaled_decode(&codec, kernels_here(index), want, count, decoded);
            if (memcmp(decoded, want_decoded, count * sizeof(float)) != 0)
                fail_msg("%s, line %zu: other elements for %s %s %s", pccl_kernels_name(kernels_here(index)), lines + 2,
                         format, scale, rounding);
        }
        lines++;
    }
    assert_true(lines >= 270);
    fclose(file);
}

/* ---- the same bits ---- */

TEST(kernels_give_the_same_bits)
{
    for (size_t n = 0; n < CASES; n++)
        for (int data = 0; data < ALL_DATA; data++) {
            struct pccl_scaled codec = codec_number(n);
            size_t length = pccl_scaled_bytes(&codec, COUNT), size = COUNT * pccl_datatype_bytes(codec.datatype);
            fill((enum data)data, codec.datatype, n, elements, COUNT);
            put_element(codec.datatype, elements, 100, data % 4 == 1 ? NAN : -INFINITY);
            bytes[length] = decoded[size] = 0xa5;
            round_trip(&codec, COUNT, n);
            assert_int_equal(bytes[length], 0xa5);
            assert_int_equal(decoded[size], 0xa5);
            for (uint32_t index = 1; kernels_here(index) != NULL; index++) {
                pccl_scaled_encode(&codec, kernels_here(index), elements, COUNT, 0, n, other_bytes + 1);
                assert_memory_equal(bytes, other_bytes + 1, length);
                pccl_scaled_decode(&codec, kernels_here(index), other_bytes + 1, COUNT, other_decoded + 3);
                assert_memory_equal(decoded, other_decoded + 3, size);
            }
        }
}

TEST(any_bytes_decode_alike)
{
    struct pccl_prng prng = unit_prng(3);
    for (size_t n = 0; n < CASES; n++)
        for (int round = 0; round < 10; round++) {
            struct pccl_scaled codec = codec_number(n);
            for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (uint8_t)pccl_prng_u64(&prng);
            pccl_scaled_decode(&codec, scalar(), bytes, COUNT, decoded);
            for (uint32_t index = 1; kernels_here(index) != NULL; index++) {
                pccl_scaled_decode(&codec, kernels_here(index), bytes, COUNT, other_decoded);
                assert_memory_equal(decoded, other_decoded, COUNT * pccl_datatype_bytes(codec.datatype));
            }
        }
}

TEST(scales_that_make_no_sense_decode_to_nan)
{
    static const uint32_t heads[] = {0x7f800000, 0x7fc00000, 0xff800000, 0x80000000, 0xbf800000};
    for (size_t n = 0; n < CASES; n++)
        for (size_t i = 0; i < PCCL_COUNT_OF(heads); i++) {
            struct pccl_scaled codec = codec_number(n);
            static const size_t skipped[] = {0, 2, 3};
            if (codec.scale == PCCL_SCALED_POWER && i > 0)
                continue;
            uint32_t head = codec.scale == PCCL_SCALED_POWER ? 0xff000000 : heads[i];
            memset(bytes, 0, sizeof bytes);
            memcpy(bytes, (uint8_t *)&head + skipped[codec.scale], 4 - skipped[codec.scale]);
            pccl_scaled_decode(&codec, scalar(), bytes, codec.block, decoded);
            for (size_t e = 0; e < codec.block; e++)
                assert_true(isnan(get_element(codec.datatype, decoded, e)));
        }
}

TEST(pieces_give_the_bytes_of_the_whole)
{
    for (size_t n = 0; n < CASES; n++) {
        struct pccl_scaled codec = codec_number(n);
        size_t begin = (size_t)2 * codec.block, head = pccl_scaled_bytes(&codec, begin);
        size_t element_bytes = pccl_datatype_bytes(codec.datatype);
        fill(BELL, codec.datatype, n, elements, COUNT);
        round_trip(&codec, COUNT, 5);
        pccl_scaled_encode(&codec, scalar(), elements + begin * element_bytes, COUNT - begin, begin, 5, other_bytes);
        assert_memory_equal(bytes + head, other_bytes, pccl_scaled_bytes(&codec, COUNT - begin));
        pccl_scaled_decode(&codec, scalar(), other_bytes, COUNT - begin, other_decoded);
        assert_memory_equal(decoded + begin * element_bytes, other_decoded, (COUNT - begin) * element_bytes);
    }
}

/* ---- error of results ---- */

/* Half a step beside a number, and the largest one, in units of the largest number of the format. */
static const struct {
    double top, share, least;
} steps[PCCL_SCALED_FORMATS] = {
    {448, 0x1p-4, 0x1p-10}, {57344, 0x1p-3, 0x1p-17}, {7, 0, 0.5}, {64, 0.5, 0.5}, {6, 0x1p-2, 0.25}};

TEST(errors_stay_within_the_bound)
{
    for (size_t n = 0; n < CASES; n++)
        for (int data = 0; data < ALL_DATA; data++) {
            struct pccl_scaled codec = codec_number(n);
            struct float_format format = format_of(codec.datatype);
            fill((enum data)data, codec.datatype, n + 1, elements, COUNT);
            round_trip(&codec, COUNT, n);
            number largest = 0;
            for (size_t i = 0; i < COUNT; i++) {
                number value = get_element(codec.datatype, elements, i);
                for (size_t e = i, end = i % codec.block == 0 ? i + codec.block : i; e < COUNT && e < end; e++)
                    largest = e == i ? fabsl(value) : fmaxl(largest, fabsl(get_element(codec.datatype, elements, e)));
                number wider = codec.scale == PCCL_SCALED_POWER ? 2 : codec.scale == PCCL_SCALED_BF16 ? 1.0079L : 1;
                number bound = fmaxl(fabsl(value) * steps[codec.format].share,
                                     steps[codec.format].least * largest * wider / steps[codec.format].top);
                bound *= codec.rounding == PCCL_SCALED_STOCHASTIC ? 2 : 1;
                bound = bound * 1.00001L + largest * (codec.scale == PCCL_SCALED_BF16 ? 0x1p-8L : 0x1p-22L) +
                        (number)format.half_ulp * fabsl(value) + 2 * (number)format.smallest +
                        (codec.scale == PCCL_SCALED_POWER  ? steps[codec.format].top * 0x1p-126L
                         : codec.scale == PCCL_SCALED_BF16 ? 0x1p-133L
                                                           : 0) +
                        steps[codec.format].top * 0x1p-149L;
                number got = get_element(codec.datatype, decoded, i);
                if (!(fabsl(got - value) <= bound))
                    fail_msg("%s of %s, scale %d, rounding %d, blocks of %u, data %d: %.9Lg became %.9Lg of %.9Lg",
                             pccl_scaled_format_name(codec.format), pccl_datatype_name(codec.datatype),
                             (int)codec.scale, (int)codec.rounding, codec.block, data, value, got, largest);
            }
        }
}

TEST(constants_and_zeros_are_exact)
{
    static const double constants[] = {0, 1, -1, 0.1, -3.7e-5, 1e-40, -1e-44, 3.4e38, 65504, -7};
    for (size_t n = 0; n < CASES; n++)
        for (size_t i = 0; i < PCCL_COUNT_OF(constants); i++) {
            struct pccl_scaled codec = codec_number(n);
            if (codec.scale != PCCL_SCALED_F32 || fabs(constants[i]) > format_of(codec.datatype).max)
                continue;
            if (constants[i] != 0 && fabs(constants[i]) < 1e-33)
                continue; /* the step is a subnormal of few digits; there the bound holds */
            for (size_t e = 0; e < COUNT; e++)
                put_element(codec.datatype, elements, e, e % 5 == 0 ? 0 : constants[i]);
            round_trip(&codec, COUNT, n);
            for (size_t e = 0; e < COUNT; e++) /* four bits have one zero */
                if (get_element(codec.datatype, elements, e) != get_element(codec.datatype, decoded, e))
                    fail_msg("%s of %s, rounding %d, blocks of %u: %g", pccl_scaled_format_name(codec.format),
                             pccl_datatype_name(codec.datatype), (int)codec.rounding, codec.block, constants[i]);
        }
}

/* Values that are not finite appear at their place, and change nothing else. */
TEST(special_values_are_seen)
{
    static const double special[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < CASES; n++)
        for (size_t at = n % 7; at < COUNT; at += 29) {
            struct pccl_scaled codec = codec_number(n);
            size_t size = pccl_datatype_bytes(codec.datatype);
            fill(UNIFORM, codec.datatype, n, elements, COUNT);
            put_element(codec.datatype, elements, at, 0);
            round_trip(&codec, COUNT, n);
            memcpy(other_decoded, decoded, COUNT * size);
            double value = special[at % 3];
            put_element(codec.datatype, elements, at, value);
            round_trip(&codec, COUNT, n);
            double got = get_element(codec.datatype, decoded, at);
            assert_true(codec.format == PCCL_SCALED_E5M2 && !isnan(value) ? got == value : isnan(got));
            memcpy(decoded + at * size, other_decoded + at * size, size);
            assert_memory_equal(decoded, other_decoded, COUNT * size);
        }
}

TEST(stochastic_rounding_is_not_biased)
{
    enum { ROUNDS = 4000 };
    for (int format = 0; format < PCCL_SCALED_FORMATS; format++)
        for (int scale = 0; scale < PCCL_SCALED_SCALES; scale++) {
            struct pccl_scaled codec = {PCCL_F32, (enum pccl_scaled_format)format, (enum pccl_scaled_scale)scale,
                                        PCCL_SCALED_STOCHASTIC, 64};
            double sum = 0, squares = 0;
            fill(UNIFORM, PCCL_F32, 9, elements, 64);
            for (uint64_t seed = 0; seed < ROUNDS; seed++) {
                round_trip(&codec, 64, seed);
                for (size_t i = 0; i < 64; i++) {
                    double error = get_element(PCCL_F32, decoded, i) - get_element(PCCL_F32, elements, i);
                    sum += error;
                    squares += error * error;
                }
            }
            assert_true(squares > 0);
            assert_true(fabs(sum) < 4 * sqrt(squares)); /* four standard errors of the sum */
        }
}

/* ---- the error of a codec ---- */

TEST(the_error_is_told)
{
    struct pccl_codec_error error = {0};
    static const float were[] = {1, -4, 2, 0}, are[] = {1.5f, -4, 1, 0};
    static const double more[] = {8, INFINITY, 3}, came[] = {8, 5, NAN};
    pccl_codec_error_add(&error, PCCL_F32, were, are, 4);
    assert_true(error.largest == 4 && error.largest_error == 1);
    assert_true(error.squares == 21 && error.squares_of_error == 1.25);
    pccl_codec_error_add(&error, PCCL_F64, more, came, 3);
    assert_true(error.largest == 8 && error.largest_error == 1 && error.squares == 85);
    assert_int_equal(error.not_finite, 2);
}

int main(void)
{
    int failed = unit_run(NULL, NULL);
    return failed != 0 || !all_variants_were_run();
}
