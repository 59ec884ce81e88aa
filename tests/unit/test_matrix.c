/* topology/matrix: against a plain table, while it grows and when memory runs out. */
#include "unit.h"
#include "core/prng.h"
#include "support.h"
#include "topology/matrix.h"

enum { PLACES = 40 };

static void expect_same(const struct pccl_matrix *matrix, struct pccl_figure (*table)[PLACES], uint32_t places)
{
    for (uint32_t from = 0; from < places; from++) {
        for (uint32_t to = 0; to < places; to++) {
            if (from == to)
                continue;
            const struct pccl_figure *figure = pccl_matrix_at(matrix, from, to), *wanted = &table[from][to];
            assert_non_null(figure);
            assert_int_equal(figure->rate, wanted->rate);
            assert_int_equal(figure->at_us, wanted->at_us);
            assert_int_equal(figure->rtt_us, wanted->rtt_us);
            assert_int_equal(figure->source, wanted->source);
        }
    }
}

TEST(keeps_everything_as_it_grows)
{
    static struct pccl_figure table[PLACES][PLACES];
    struct test_memory memory;
    struct pccl_matrix matrix;
    struct pccl_prng prng;
    memset(table, 0, sizeof table);
    test_memory_init(&memory);
    pccl_prng_seed(&prng, 31);
    pccl_matrix_init(&matrix, &memory.memory);
    assert_null(pccl_matrix_at(&matrix, 0, 1));
    for (uint32_t places = 2; places <= PLACES; places++) {
        assert_true(pccl_matrix_reserve(&matrix, places));
        assert_true(matrix.places >= places);
        for (uint32_t i = 0; i < 4 * places; i++) {
            uint32_t from = (uint32_t)pccl_prng_below(&prng, places), to = (uint32_t)pccl_prng_below(&prng, places);
            if (from == to)
                continue;
            table[from][to] = (struct pccl_figure){
                .rate = pccl_prng_u64(&prng), .at_us = pccl_prng_u64(&prng), .rtt_us = i, .source = i % 3 + 1};
            *pccl_matrix_at(&matrix, from, to) = table[from][to];
        }
        uint32_t gone = (uint32_t)pccl_prng_below(&prng, places);
        pccl_matrix_forget(&matrix, gone);
        for (uint32_t other = 0; other < PLACES; other++)
            table[gone][other] = table[other][gone] = (struct pccl_figure){0};
        expect_same(&matrix, table, places);
    }
    pccl_matrix_fini(&matrix);
    pccl_matrix_fini(&matrix); /* harmless */
    assert_int_equal(memory.live_blocks, 0);
}

TEST(forgets_one_member_only)
{
    struct test_memory memory;
    struct pccl_matrix matrix;
    test_memory_init(&memory);
    pccl_matrix_init(&matrix, &memory.memory);
    assert_true(pccl_matrix_reserve(&matrix, 5));
    for (uint32_t i = 0; i < 5 * 5; i++) {
        if (i / 5 != i % 5)
            *pccl_matrix_at(&matrix, i / 5, i % 5) = (struct pccl_figure){.rate = i, .source = PCCL_FIGURE_TESTED};
    }
    pccl_matrix_forget(&matrix, 4);
    pccl_matrix_forget(&matrix, 4000); /* never reserved */
    for (uint32_t i = 0; i < 5 * 5; i++) {
        bool is_gone = i / 5 == 4 || i % 5 == 4;
        if (i / 5 == i % 5)
            continue;
        assert_int_equal(pccl_matrix_at(&matrix, i / 5, i % 5)->source,
                         is_gone ? PCCL_FIGURE_NONE : PCCL_FIGURE_TESTED);
        assert_int_equal(pccl_matrix_at(&matrix, i / 5, i % 5)->rate, is_gone ? 0 : i);
    }
    pccl_matrix_fini(&matrix);
    assert_int_equal(memory.live_blocks, 0);
}

TEST(out_of_memory_changes_nothing)
{
    struct test_memory memory;
    struct pccl_matrix matrix;
    test_memory_init(&memory);
    pccl_matrix_init(&matrix, &memory.memory);
    memory.fail_at = 1;
    assert_false(pccl_matrix_reserve(&matrix, 3));
    assert_null(pccl_matrix_at(&matrix, 0, 1));
    pccl_matrix_forget(&matrix, 0);
    assert_true(pccl_matrix_reserve(&matrix, 3));
    pccl_matrix_at(&matrix, 2, 1)->rate = 7;
    uint32_t places = matrix.places;
    memory.fail_at = memory.requests + 1;
    assert_false(pccl_matrix_reserve(&matrix, places + 1));
    assert_int_equal(matrix.places, places);
    assert_int_equal(pccl_matrix_at(&matrix, 2, 1)->rate, 7);
    assert_false(pccl_matrix_reserve(&matrix, UINT32_MAX)); /* more bytes than can be counted */
    assert_true(pccl_matrix_reserve(&matrix, places + 1));
    assert_int_equal(pccl_matrix_at(&matrix, 2, 1)->rate, 7);
    assert_null(pccl_matrix_at(&matrix, 0, matrix.places));
    assert_null(pccl_matrix_at(&matrix, matrix.places, 0));
    pccl_matrix_fini(&matrix);
    assert_int_equal(memory.live_blocks, 0);
}

/* Members are added one by one, without a copy of the whole matrix for each. */
TEST(grows_in_few_steps)
{
    struct test_memory memory;
    struct pccl_matrix matrix;
    test_memory_init(&memory);
    pccl_matrix_init(&matrix, &memory.memory);
    for (uint32_t places = 1; places <= 600; places++)
        assert_true(pccl_matrix_reserve(&matrix, places));
    assert_in_range(memory.requests, 1, 25);
    assert_in_range(matrix.places, 600, 750);
    pccl_matrix_fini(&matrix);
    assert_int_equal(memory.live_blocks, 0);
}

TEST(rates_are_rounded_down_by_little)
{
    static const uint64_t cases[][2] = {
        {0, 2},
        {1, 2},
        {2, 2},
        {3, 3},
        {127, 127},
        {128, 128},
        {129, 128},
        {130, 130},
        {255, 254},
        {256, 256},
        {259, 256},
        {260, 260},
        {1000000, 999424},
        {UINT64_MAX, UINT64_C(127) << 57},
    };
    for (size_t i = 0; i < PCCL_COUNT_OF(cases); i++)
        assert_int_equal(pccl_rate_rounded(cases[i][0]), cases[i][1]);
    struct pccl_prng prng = unit_prng(32);
    for (int i = 0; i < 100000; i++) {
        uint64_t rate = pccl_max_u64(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64), 2);
        uint64_t rounded = pccl_rate_rounded(rate);
        assert_true(rounded <= rate && rate - rounded <= rate / 64 && rounded >= 2);
        assert_int_equal(pccl_rate_rounded(rounded), rounded);
        assert_true(pccl_rate_rounded(rate - rate / 32) <= rounded);
    }
    uint32_t steps = 0;
    for (uint64_t rate = 4096; rate < 8192; rate++)
        steps += pccl_rate_rounded(rate) != pccl_rate_rounded(rate - 1);
    assert_int_equal(steps, 64);
}
