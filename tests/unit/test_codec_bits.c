/*
 * kernels/codec: the same bits everywhere, on all kernels, at all addresses, in any mode of float
 * arithmetic; and the golden bits that every machine must produce. Any bytes decode.
 */
#include "unit.h"

#include <fenv.h>
#include <stdio.h>

#include "cpu.h"
#include "test_codec_cases.h"

enum { BLOCK = PCCL_CODEC_BLOCK, COUNT = 2 * BLOCK + 77 };

static uint8_t elements[COUNT * 8], bytes[COUNT * 5], other_bytes[COUNT * 5];
static uint8_t decoded[COUNT * 8], other_decoded[COUNT * 8];

static const struct pccl_kernels *scalar(void) { return pccl_kernels_for(0); }

static uint64_t fold(uint64_t hash, const uint8_t *data, size_t count) /* FNV-1a */
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Bytes as an untrusted peer may send them: some heads are valid, some nearly. */
static void strange_bytes(const struct codec_case *c, uint64_t seed, uint8_t *to)
{
    struct pccl_prng prng = unit_prng(seed);
    const struct pccl_codec *codec = codec_of(c);
    size_t all = pccl_codec_bytes(codec, COUNT), whole = pccl_codec_bytes(codec, BLOCK);
    for (size_t i = 0; i < all; i++)
        to[i] = (uint8_t)pccl_prng_u64(&prng);
    bool is_double = c->datatype == PCCL_F64;
    for (size_t block = 0; block < all; block += whole) {
        to[block] = (uint8_t)pccl_prng_below(&prng, 3);
        for (size_t field = 0; field < 2; field++) {
            static const double values[] = {0,       1,     -1,     1e-310, 3e-45, 3.4e38,
                                            -3.4e38, 1e300, -1e308, 255,    NAN,   INFINITY};
            uint64_t choice = pccl_prng_below(&prng, 2 * PCCL_COUNT_OF(values));
            if (choice < PCCL_COUNT_OF(values))
                put_element(is_double ? PCCL_F64 : PCCL_F32, to + block + 1, field, values[choice]);
        }
    }
}

TEST(kernels_give_the_same_bits)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (int data = 0; data < ALL_DATA; data++)
            for (uint32_t index = 1; kernels_here(index) != NULL; index++) {
                const struct codec_case *c = &codec_cases[k];
                const struct pccl_codec *codec = codec_of(c);
                size_t count_bytes = pccl_codec_bytes(codec, COUNT), size = COUNT * pccl_datatype_bytes(c->datatype);
                fill((enum data)data, c->datatype, k, elements, COUNT);
                if (data % 2 == 1)
                    put_element(c->datatype, elements, 100, data % 4 == 1 ? NAN : -INFINITY);
                pccl_codec_encode(codec, scalar(), elements, COUNT, bytes);
                pccl_codec_encode(codec, kernels_here(index), elements, COUNT, other_bytes);
                assert_memory_equal(bytes, other_bytes, count_bytes);
                pccl_codec_decode(codec, scalar(), bytes, COUNT, decoded);
                pccl_codec_decode(codec, kernels_here(index), bytes, COUNT, other_decoded);
                assert_memory_equal(decoded, other_decoded, size);
            }
}

TEST(any_bytes_decode_alike)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (uint64_t seed = 0; seed < 300; seed++) {
            const struct codec_case *c = &codec_cases[k];
            const struct pccl_codec *codec = codec_of(c);
            size_t size = COUNT * pccl_datatype_bytes(c->datatype);
            strange_bytes(c, seed, bytes);
            pccl_codec_decode(codec, scalar(), bytes, COUNT, decoded);
            for (uint32_t index = 0; kernels_here(index) != NULL; index++) {
                memset(other_decoded, (int)seed, size);
                pccl_codec_decode(codec, kernels_here(index), bytes, COUNT, other_decoded);
                assert_memory_equal(decoded, other_decoded, size);
                memset(other_decoded, (int)seed, size);
                pccl_codec_decode_streaming(codec, kernels_here(index), bytes, COUNT, other_decoded);
                assert_memory_equal(decoded, other_decoded, size);
            }
        }
}

TEST(heads_that_make_no_sense_decode_to_nan)
{
    static const struct {
        double first, second;
        uint8_t mode;
        bool for_min_max_only;
    } heads[] = {{0, 1, 2, false},        {0, 1, 255, false},       {NAN, 1, 0, false}, {0, NAN, 0, false},
                 {INFINITY, 1, 0, false}, {0, -INFINITY, 1, false}, {2, 1, 0, true}};
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (size_t i = 0; i < PCCL_COUNT_OF(heads); i++) {
            const struct codec_case *c = &codec_cases[k];
            if (heads[i].for_min_max_only && c->kind != PCCL_CODEC_MIN_MAX)
                continue;
            enum pccl_datatype field = c->datatype == PCCL_F64 ? PCCL_F64 : PCCL_F32;
            memset(bytes, 0, sizeof bytes);
            bytes[0] = heads[i].mode;
            put_element(field, bytes + 1, 0, heads[i].first);
            put_element(field, bytes + 1, 1, heads[i].second);
            pccl_codec_decode(codec_of(c), scalar(), bytes, BLOCK, decoded);
            for (size_t e = 0; e < BLOCK; e++)
                assert_true(isnan(get_element(c->datatype, decoded, e)));
        }
}

TEST(addresses_make_no_difference)
{
    static uint8_t moved_elements[sizeof elements + 8], moved_bytes[sizeof bytes + 8];
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (size_t offset = 1; offset < 8; offset++) {
            const struct codec_case *c = &codec_cases[k];
            const struct pccl_codec *codec = codec_of(c);
            size_t count_bytes = pccl_codec_bytes(codec, COUNT), size = COUNT * pccl_datatype_bytes(c->datatype);
            for (uint32_t index = 0; kernels_here(index) != NULL; index++) {
                fill(BELL, c->datatype, offset, elements, COUNT);
                memcpy(moved_elements + offset, elements, size);
                pccl_codec_encode(codec, kernels_here(index), elements, COUNT, bytes);
                pccl_codec_encode(codec, kernels_here(index), moved_elements + offset, COUNT, moved_bytes + 8 - offset);
                assert_memory_equal(bytes, moved_bytes + 8 - offset, count_bytes);
                pccl_codec_decode(codec, kernels_here(index), bytes, COUNT, decoded);
                pccl_codec_decode(codec, kernels_here(index), moved_bytes + 8 - offset, COUNT, moved_elements + offset);
                assert_memory_equal(moved_elements + offset, decoded, size);
                pccl_codec_decode_streaming(codec, kernels_here(index), moved_bytes + 8 - offset, COUNT,
                                            moved_elements + offset);
                assert_memory_equal(decoded, moved_elements + offset, size);
            }
        }
}

/* Sets the rounding, and flushes subnormals if this processor can do that. Returns the mode for `reset_mode`. */
static unsigned change_mode(int rounding)
{
    unsigned mode = 0;
#if defined(__x86_64__)
    mode = __builtin_ia32_stmxcsr();
#endif
    fesetround(rounding);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
    return mode;
}

static void reset_mode(const fenv_t *standard, unsigned mode)
{
    fesetenv(standard);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(mode); /* which fesetenv of MinGW leaves as it was */
#else
    (void)mode;
#endif
}

TEST(modes_of_float_arithmetic_make_no_difference)
{
#if !defined(__x86_64__) && !defined(__aarch64__)
    skip(); /* kernels/float_mode.h does nothing there */
#endif
    static const int roundings[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static const enum data kinds[] = {UNIFORM, HUGE_RANGE, SUBNORMAL, SMALL, HUGE_AND_SUBNORMAL};
    fenv_t standard;
    fegetenv(&standard);
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++)
        for (size_t d = 0; d < PCCL_COUNT_OF(kinds); d++)
            for (size_t r = 0; r < PCCL_COUNT_OF(roundings); r++) {
                const struct codec_case *c = &codec_cases[k];
                const struct pccl_codec *codec = codec_of(c);
                fill(kinds[d], c->datatype, k, elements, COUNT);
                pccl_codec_encode(codec, scalar(), elements, COUNT, bytes);
                pccl_codec_decode(codec, scalar(), bytes, COUNT, decoded);
                unsigned mode = change_mode(roundings[r]);
                pccl_codec_encode(codec, scalar(), elements, COUNT, other_bytes);
                pccl_codec_decode(codec, scalar(), bytes, COUNT, other_decoded);
                int rounding = fegetround();
                reset_mode(&standard, mode);
                assert_int_equal(rounding, roundings[r]);
                assert_memory_equal(bytes, other_bytes, pccl_codec_bytes(codec, COUNT));
                assert_memory_equal(decoded, other_decoded, COUNT * pccl_datatype_bytes(c->datatype));
            }
}

/* The order decides which zero is the smallest one; the bytes must be the same. */
TEST(zeros_of_both_signs_give_the_same_bytes)
{
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        const struct pccl_codec *codec = codec_of(c);
        fill(POSITIVE, c->datatype, k, elements, BLOCK);
        put_element(c->datatype, elements, 3, 0.0);
        put_element(c->datatype, elements, 900, -0.0);
        pccl_codec_encode(codec, scalar(), elements, BLOCK, bytes);
        put_element(c->datatype, elements, 3, -0.0);
        put_element(c->datatype, elements, 900, 0.0);
        pccl_codec_encode(codec, scalar(), elements, BLOCK, other_bytes);
        assert_memory_equal(bytes, other_bytes, pccl_codec_bytes(codec, BLOCK));
    }
}

/*
 * The bits themselves, found once: another compiler, other flags or another processor must find them too. They change
 * with the definition of a codec only, and then peers of both versions cannot work together.
 */
TEST(the_bits_are_the_known_ones)
{
    static const struct {
        uint64_t encoded, decoded;
    } known[PCCL_COUNT_OF(codec_cases)] = {{UINT64_C(0x7157cec7df408bbe), UINT64_C(0xfdf3cb79e8aefd38)},
                                           {UINT64_C(0xa1ded005f6816b74), UINT64_C(0x5de20036305a0907)},
                                           {UINT64_C(0x93c5f26a249bc7f8), UINT64_C(0x692ff5de87cd932d)},
                                           {UINT64_C(0x71aa72c97f4263a5), UINT64_C(0x484b34c4ab3dad13)},
                                           {UINT64_C(0xb4538e21f8d50207), UINT64_C(0x90ae6e2fb2f12032)},
                                           {UINT64_C(0x361a9c87a5970b94), UINT64_C(0xf0b7353df2356f83)},
                                           {UINT64_C(0x2070bb5167015442), UINT64_C(0xab20eb6f7468c55b)},
                                           {UINT64_C(0x426ae73faa228e86), UINT64_C(0xf1db30492b7fb48b)},
                                           {UINT64_C(0xfcfa479b45e52180), UINT64_C(0xb31ea2ef596542f4)},
                                           {UINT64_C(0x0295bd1e9e17bc85), UINT64_C(0x3d993bfaf9e169f8)},
                                           {UINT64_C(0x0bfc173072fdb1d3), UINT64_C(0x21e454ca39952079)},
                                           {UINT64_C(0x34f09b6103f5fc65), UINT64_C(0xf850eec07b4c6d48)},
                                           {UINT64_C(0x851374f6dc72a028), UINT64_C(0x16286e57f43c9000)},
                                           {UINT64_C(0x52b1ddf4afe78799), UINT64_C(0x63989a87d7a4e290)}};
    for (size_t k = 0; k < PCCL_COUNT_OF(codec_cases); k++) {
        const struct codec_case *c = &codec_cases[k];
        const struct pccl_codec *codec = codec_of(c);
        uint64_t encoded_hash = UINT64_C(0xcbf29ce484222325), decoded_hash = encoded_hash;
        for (int data = 0; data < ALL_DATA; data++) {
            fill((enum data)data, c->datatype, 1 + k, elements, COUNT);
            put_element(c->datatype, elements, 1, INFINITY);
            pccl_codec_encode(codec, scalar(), elements, COUNT, bytes);
            encoded_hash = fold(encoded_hash, bytes, pccl_codec_bytes(codec, COUNT));
        }
        for (uint64_t seed = 0; seed < 20; seed++) {
            strange_bytes(c, 1000 + seed, bytes);
            pccl_codec_decode(codec, scalar(), bytes, COUNT, decoded);
            decoded_hash = fold(decoded_hash, decoded, COUNT * pccl_datatype_bytes(c->datatype));
        }
        if (encoded_hash != known[k].encoded || decoded_hash != known[k].decoded)
            fail_msg("%s %s as %s: {UINT64_C(0x%016llx), UINT64_C(0x%016llx)}", pccl_codec_kind_name(c->kind),
                     pccl_datatype_name(c->datatype), pccl_datatype_name(c->packed), (unsigned long long)encoded_hash,
                     (unsigned long long)decoded_hash);
    }
}

TEST(no_variant_is_left_out) { assert_true(all_variants_were_run()); }
