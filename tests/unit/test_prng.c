/* core/prng: known numbers, equal seeds, and even draws below a bound. */
#include "unit.h"
#include "core/prng.h"
#include "core/table.h"

/*
 * The first output for the state {1, 2, 3, 4}, by hand: rotl(2 * 5, 7) * 9 = 11520; the second:
 * state[1] = 0.
 */
TEST(test_known_numbers)
{
    struct pccl_prng prng = {{1, 2, 3, 4}};
    assert_int_equal(pccl_prng_u64(&prng), 11520);
    assert_int_equal(pccl_prng_u64(&prng), 0);
    assert_int_equal(pccl_prng_u64(&prng), 1509978240);
    /* splitmix64 of 0, as published */
    assert_true(pccl_prng_mix(0) == UINT64_C(0xe220a8397b1dcdaf));
}

TEST(test_same_seed_same_numbers)
{
    struct pccl_prng a, b, c;
    pccl_prng_seed(&a, 7);
    pccl_prng_seed(&b, 7);
    pccl_prng_seed(&c, 8);
    int equal_to_other_seed = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t value = pccl_prng_u64(&a);
        assert_true(value == pccl_prng_u64(&b));
        equal_to_other_seed += value == pccl_prng_u64(&c);
    }
    assert_int_equal(equal_to_other_seed, 0);
    struct pccl_id x = pccl_prng_id(&a), y = pccl_prng_id(&b);
    assert_true(pccl_id_equal(&x, &y));
}

TEST(test_below_is_within_and_even)
{
    struct pccl_prng prng = unit_prng(3);
    uint32_t seen[7] = {0};
    for (int i = 0; i < 70000; i++)
        seen[pccl_prng_below(&prng, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pccl_prng_below(&prng, 1), 0);
        assert_true(pccl_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
    }
    /* A bound of 3 * 2^62 does not divide 2^64: without rejection the lowest third would be drawn half the time. */
    uint32_t low = 0;
    for (int i = 0; i < 30000; i++)
        low += pccl_prng_below(&prng, UINT64_C(3) << 62) < UINT64_C(1) << 62;
    assert_in_range(low, 9500, 10500);
}

TEST(test_chance)
{
    struct pccl_prng prng = unit_prng(4);
    uint32_t hits = 0;
    for (int i = 0; i < 100000; i++) {
        assert_false(pccl_prng_chance(&prng, 0));
        assert_true(pccl_prng_chance(&prng, 1000000));
        hits += pccl_prng_chance(&prng, 250000);
    }
    assert_in_range(hits, 24000, 26000);
}
