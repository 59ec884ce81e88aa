/*
 * kernels/sparse: the answers of the model in sparse_model.py, the same bits from all kernels, the residual, and the
 * bytes that are refused.
 */
#include "unit.h"

#include <stdio.h>

#include "cpu.h"
#include "kernels/sparse.h"
#include "test_codec_cases.h"

enum { CHUNK = PCCL_SPARSE_CHUNK_ELEMENTS, MOST = 2 * CHUNK + 77, BYTES = 8 * MOST };

static float elements[MOST + 1], left[MOST + 1], other_left[MOST + 1], decoded[MOST + 1], other_decoded[MOST + 1];
static uint8_t bytes[BYTES], other_bytes[BYTES];

static const struct pccl_kernels *scalar(void) { return pccl_kernels_for(0); }

static const struct pccl_sparse cases[] = {
    {CHUNK, 512}, {MOST, 64},        {MOST, CHUNK}, {MOST, 1},  {CHUNK - 1, 513}, {CHUNK + 1, 511},
    {1, 1},       {2 * CHUNK, 4095}, {0, 64},       {257, 259}, {MOST, 130},      {99, CHUNK},
};

/* Encodes the elements and writes the residual to `rest`. */
static void encode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, float *rest, uint8_t *to)
{
    memcpy(rest, elements, sparse->count * sizeof *rest);
    assert_true(pccl_sparse_encode(sparse, kernels, rest, to));
}

static void decode(const struct pccl_sparse *sparse, const struct pccl_kernels *kernels, const uint8_t *from, float *to)
{
    memset(to, 0, sparse->count * sizeof *to);
    pccl_sparse_add(sparse, kernels, from, 1, to);
}

static bool is_valid(const struct pccl_sparse *sparse, const uint8_t *from, size_t length, double *square,
                     struct pccl_text *reason)
{
    double other = -1;
    struct pccl_text other_reason;
    const bool valid = pccl_sparse_check(sparse, scalar(), from, length, square, reason);
    for (uint32_t index = 1; kernels_here(index) != NULL; index++) {
        assert_int_equal(pccl_sparse_check(sparse, kernels_here(index), from, length, &other, &other_reason), valid);
        assert_memory_equal(square, &other, sizeof other);
        assert_true(valid || strcmp(reason->bytes, other_reason.bytes) == 0);
    }
    return valid;
}

/* ---- the model's answers ---- */

static size_t from_hex(const char *text, void *to)
{
    size_t count = strlen(text) / 2;
    for (size_t i = 0; i < count; i++) {
        const char digits[] = {text[2 * i], text[2 * i + 1], 0};
        ((uint8_t *)to)[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return count;
}

TEST(known_answers)
{
    static char line[1 << 18], words[4][1 << 16];
    static uint8_t want[BYTES];
    static float want_decoded[MOST], want_left[MOST];
    FILE *file = fopen(SPARSE_ANSWERS, "r");
    size_t lines = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        struct pccl_sparse sparse = {0};
        if (line[0] == '#')
            continue;
        assert_int_equal(
            sscanf(line, "%u %65535s %65535s %65535s %65535s", &sparse.kept, words[0], words[1], words[2], words[3]),
            5);
        sparse.count = from_hex(words[0], elements) / sizeof(float);
        const size_t length = from_hex(words[1], want), size = sparse.count * sizeof(float);
        from_hex(words[2], want_decoded);
        from_hex(words[3], want_left);
        assert_int_equal(pccl_sparse_bytes(&sparse), length);
        for (uint32_t index = 0; kernels_here(index) != NULL; index++) {
            encode(&sparse, kernels_here(index), left, bytes);
            assert_memory_equal(bytes, want, length);
            assert_memory_equal(left, want_left, size);
            decode(&sparse, kernels_here(index), want, decoded);
            for (size_t i = 0; i < sparse.count; i++) /* 0 - 0 is 0 */
                assert_true(decoded[i] == want_decoded[i]);
        }
        lines++;
    }
    assert_int_equal(lines, 9);
    fclose(file);
}

/* ---- the same bits ---- */

TEST(kernels_give_the_same_bits)
{
    for (size_t n = 0; n < PCCL_COUNT_OF(cases); n++)
        for (int data = 0; data < ALL_DATA; data++) {
            const struct pccl_sparse sparse = cases[n];
            const size_t length = pccl_sparse_bytes(&sparse), size = sparse.count * sizeof(float);
            struct pccl_text reason;
            double square;
            fill((enum data)data, PCCL_F32, n, elements, sparse.count);
            bytes[length] = 0xa5;
            left[sparse.count] = decoded[sparse.count] = 17;
            encode(&sparse, scalar(), left, bytes);
            decode(&sparse, scalar(), bytes, decoded);
            assert_int_equal(bytes[length], 0xa5);
            assert_true(left[sparse.count] == 17 && decoded[sparse.count] == 17);
            assert_true(is_valid(&sparse, bytes, length, &square, &reason));
            for (uint32_t index = 1; kernels_here(index) != NULL; index++) {
                encode(&sparse, kernels_here(index), other_left, other_bytes + 1);
                assert_memory_equal(bytes, other_bytes + 1, length);
                assert_memory_equal(left, other_left, size);
                decode(&sparse, kernels_here(index), other_bytes + 1, other_decoded);
                assert_memory_equal(decoded, other_decoded, size);
            }
        }
}

/* ---- elements that are kept, and the residual ---- */

/* Fourteen bits an element, and eight bytes a chunk. */
TEST(sizes)
{
    assert_int_equal(pccl_sparse_bytes(&(struct pccl_sparse){3 * CHUNK, 512}), 3 * (8 + 512 * 14 / 8));
    assert_int_equal(pccl_sparse_bytes(&(struct pccl_sparse){CHUNK / 2 + 1, 64}), 8 + 50 + 9); /* 33 elements */
    assert_int_equal(pccl_sparse_bytes(&(struct pccl_sparse){0, 64}), 0);
}

TEST(the_largest_are_kept_and_the_rest_is_left)
{
    for (size_t n = 0; n < PCCL_COUNT_OF(cases); n++)
        for (int data = 0; data < ALL_DATA; data++) {
            const struct pccl_sparse sparse = cases[n];
            fill((enum data)data, PCCL_F32, n + 1, elements, sparse.count);
            encode(&sparse, scalar(), left, bytes);
            decode(&sparse, scalar(), bytes, decoded);
            for (size_t first = 0; first < sparse.count; first += CHUNK) {
                const size_t end = sparse.count - first < CHUNK ? sparse.count : first + CHUNK;
                const size_t most = ((end - first) * sparse.kept + CHUNK - 1) / CHUNK;
                float least_kept = INFINITY, greatest_left = 0;
                size_t changed = 0;
                for (size_t i = first; i < end; i++) {
                    const float sum = decoded[i] + left[i], size = fabsf(elements[i]);
                    assert_true(fabsf(sum - elements[i]) <=
                                0x1p-22f * fabsf(elements[i]) + 0x1p-23f * fabsf(decoded[i]));
                    assert_true(decoded[i] == 0 || signbit(decoded[i]) == signbit(elements[i]));
                    if (decoded[i] == 0) {
                        greatest_left = fmaxf(greatest_left, size);
                    } else {
                        least_kept = fminf(least_kept, size);
                        changed++;
                    }
                }
                assert_true(changed <= most && greatest_left <= least_kept);
            }
        }
}

TEST(two_magnitudes_are_exact)
{
    const struct pccl_sparse sparse = {CHUNK, 512};
    for (size_t i = 0; i < CHUNK; i++)
        elements[i] = i % 8 != 5 ? 0 : (float)((i % 16 < 8 ? 1e-20 : 123.456) * (i % 32 < 16 ? 1 : -1));
    encode(&sparse, scalar(), left, bytes);
    decode(&sparse, scalar(), bytes, decoded);
    assert_memory_equal(decoded, elements, sizeof(float) * CHUNK);
    for (size_t i = 0; i < CHUNK; i++)
        assert_true(left[i] == 0);
    struct pccl_text reason;
    double square;
    assert_true(is_valid(&sparse, bytes, pccl_sparse_bytes(&sparse), &square, &reason));
    assert_true(fabs(square / (256.0 * 123.456 * 123.456) - 1) < 1e-6);
}

TEST(sums_have_a_factor)
{
    const struct pccl_sparse sparse = {MOST, 300};
    fill(BELL, PCCL_F32, 4, elements, MOST);
    encode(&sparse, scalar(), left, bytes);
    decode(&sparse, scalar(), bytes, decoded);
    for (size_t i = 0; i < MOST; i++)
        other_decoded[i] = (float)i;
    pccl_sparse_add(&sparse, scalar(), bytes, 0.3f, other_decoded);
    for (size_t i = 0; i < MOST; i++)
        assert_true(other_decoded[i] == (float)i + decoded[i] * 0.3f);
}

TEST(what_is_not_finite_is_refused)
{
    static const float special[] = {NAN, INFINITY, -INFINITY};
    const struct pccl_sparse sparse = {MOST, 64};
    for (size_t at = 0; at < MOST; at += 499) {
        fill(UNIFORM, PCCL_F32, at, elements, MOST);
        elements[at] = special[at % 3];
        memcpy(left, elements, sizeof left);
        memset(bytes, 0xa5, sizeof bytes);
        for (uint32_t index = 0; kernels_here(index) != NULL; index++)
            assert_false(pccl_sparse_encode(&sparse, kernels_here(index), left, bytes));
        assert_memory_equal(left, elements, sizeof left);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(bytes[i], 0xa5);
    }
}

/* ---- bytes that no encoder writes ---- */

static void put(uint8_t *to, float lower, float upper, unsigned first, unsigned second, unsigned third)
{
    const float levels[] = {lower, upper};
    memset(to, 0, 14);
    memcpy(to, levels, sizeof levels);
    to[8] = (uint8_t)first;
    to[9] = (uint8_t)(first >> 8 | second << 4);
    to[10] = (uint8_t)(second >> 4);
    to[11] = (uint8_t)third;
    to[12] = (uint8_t)(third >> 8);
}

TEST(bytes_that_no_encoder_makes_are_refused)
{
    static const struct {
        float lower, upper;
        unsigned first, second, third;
        const char *reason;
    } refusals[] = {
        {-1, 1, 0, 1, 2, "chunk 0: invalid levels: expected two ascending magnitudes"},
        {0, -1, 0, 1, 2, "chunk 0: invalid levels: expected two ascending magnitudes"},
        {2, 1, 0, 1, 2, "chunk 0: invalid levels: expected two ascending magnitudes"},
        {0, INFINITY, 0, 1, 2, "chunk 0: invalid levels: expected two ascending magnitudes"},
        {NAN, NAN, 0, 1, 2, "chunk 0: invalid levels: expected two ascending magnitudes"},
        {1, 2, 5, 5, 7, "chunk 0: invalid index 5 after 5: expected ascending indices"},
        {1, 2, 5, 3, 7, "chunk 0: invalid index 3 after 5: expected ascending indices"},
        {1, 2, 5, 6, 10, "chunk 0: invalid index 10: the chunk has 10 elements"},
        {1, 2, 5, 6, 4095, "chunk 0: invalid index 4095: the chunk has 10 elements"},
        {1, 2, 5, 6, 9 | 1 << 12, "chunk 0: unused bits are not 0"},
    };
    const struct pccl_sparse sparse = {10, 1000}; /* 3 are kept */
    struct pccl_text reason;
    double square;
    assert_int_equal(pccl_sparse_bytes(&sparse), 14);
    for (size_t i = 0; i < PCCL_COUNT_OF(refusals); i++) {
        put(bytes, refusals[i].lower, refusals[i].upper, refusals[i].first, refusals[i].second, refusals[i].third);
        assert_false(is_valid(&sparse, bytes, 14, &square, &reason));
        assert_string_equal(reason.bytes, refusals[i].reason);
    }
    put(bytes, 1, 2, 0, 1, 9);
    bytes[13] = 0x3f;
    assert_true(is_valid(&sparse, bytes, 14, &square, &reason));
    assert_true(square == 12);
    bytes[13] = 0x7f;
    assert_false(is_valid(&sparse, bytes, 14, &square, &reason));
    assert_false(is_valid(&sparse, bytes, 13, &square, &reason));
    assert_string_equal(reason.bytes, "wrong length: 13 bytes for 10 elements with 1000 of 4096 kept, expected 14");
}

/* Up to three bits of encoded bytes change. */
TEST(changed_bytes_are_refused_or_decode)
{
    struct pccl_prng prng;
    size_t valid = 0;
    enum { ROUNDS = 5000 };
    pccl_prng_seed(&prng, 3);
    for (size_t round = 0; round < ROUNDS; round++) {
        const struct pccl_sparse sparse = {1 + pccl_prng_below(&prng, 60), 1 + (uint32_t)pccl_prng_below(&prng, CHUNK)};
        const size_t length = pccl_sparse_bytes(&sparse);
        struct pccl_text reason;
        double square;
        fill(BELL, PCCL_F32, round, elements, sparse.count);
        encode(&sparse, scalar(), left, bytes);
        for (size_t flips = round % 4; flips > 0; flips--)
            bytes[pccl_prng_below(&prng, length)] ^= (uint8_t)(1U << pccl_prng_below(&prng, 8));
        if (!is_valid(&sparse, bytes, length, &square, &reason)) {
            assert_true(round % 4 > 0 && reason.length > 0);
            continue;
        }
        valid++;
        decode(&sparse, scalar(), bytes, decoded);
        for (size_t i = 0; i < sparse.count; i++)
            assert_true(isfinite(decoded[i]));
    }
    assert_in_range(valid, ROUNDS / 3, ROUNDS * 9 / 10);
}

int main(void)
{
    int failed = unit_run(NULL, NULL);
    return failed != 0 || !all_variants_were_run();
}
