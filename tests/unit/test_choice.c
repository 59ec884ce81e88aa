/* Which codec an automatic one is: on paths whose rate changes, with noise, and for whatever peers say. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/prng.h"
#include "wire/choice.h"
#include "wire/packing.h"

enum { GIGABIT = 125000000, PEERS = 4, RTT_US = 2000, COUNT = 1 << 20 };

static struct pccl_descriptor all_reduce(uint32_t budget_ms)
{
    return (struct pccl_descriptor){
        .datatype = PCCL_F32, .count = COUNT, .budget_ms = budget_ms, .codec_block = PCCL_SCALED_BLOCK_MAX};
}

/* Bytes of all elements at a level, as the kernels pack them. */
static uint64_t bytes_at(const struct pccl_descriptor *asked, enum pccl_level level)
{
    struct pccl_descriptor one = *asked;
    struct pccl_packing packing;
    struct pccl_text reason;
    pccl_choice_apply(level, asked, &one);
    pccl_text_clear(&reason);
    assert_true(pccl_packing_find(&one, PCCL_F32, &packing, &reason));
    return pccl_packing_packs(&packing) ? pccl_packing_bytes(&packing, COUNT) : COUNT * sizeof(float);
}

/* What it takes in a ring of PEERS; noise in thousandths. */
static uint32_t takes_us(const struct pccl_descriptor *asked, const struct pccl_choice *choice, uint64_t rate,
                         int64_t noise)
{
    const uint64_t bytes = bytes_at(asked, (enum pccl_level)choice->level) * 2 * (PEERS - 1) / PEERS;
    const int64_t transfer_us = (int64_t)(bytes * 1000000 / rate);
    return (uint32_t)(RTT_US + transfer_us * (1000 + noise) / 1000);
}

static struct pccl_choice first(const struct pccl_descriptor *asked, uint64_t rate)
{
    return pccl_choice_first(asked, PEERS, &(struct pccl_cost){.rtt_us = RTT_US, .rate = rate});
}

static void the_first_use_goes_by_the_cost(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(80); /* 4 MiB, 6 MiB to be sent: 50 ms at 1 Gbit/s */
    assert_int_equal(first(&asked, GIGABIT).level, PCCL_LEVEL_EXACT);
    assert_int_equal(first(&asked, GIGABIT / 2).level, PCCL_LEVEL_16);
    assert_int_equal(first(&asked, GIGABIT / 4).level, PCCL_LEVEL_8);
    assert_int_equal(first(&asked, GIGABIT / 6).level, PCCL_LEVEL_4);
    assert_int_equal(first(&asked, 1).level, PCCL_LEVEL_4);
    const struct pccl_choice unknown = first(&asked, 0);
    assert_int_equal(unknown.level, PCCL_LEVEL_EXACT);
    assert_int_equal(unknown.why, PCCL_CHOICE_FIRST);
    struct pccl_descriptor part = asked;
    part.collective = PCCL_REDUCE_SCATTER;
    assert_int_equal(first(&part, GIGABIT).level, PCCL_LEVEL_16); /* of four times the elements, half of the way */
    struct pccl_descriptor endless = asked;
    endless.count = UINT64_MAX;
    assert_int_equal(first(&endless, UINT64_MAX).level, PCCL_LEVEL_4);
}

/* 1 Gbit/s, 50 Mbit/s, and back: within three uses what fits is chosen, and the budget met. */
static void it_follows_the_rate_within_three_uses(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(150);
    const uint64_t rates[] = {GIGABIT, GIGABIT / 20, GIGABIT};
    const enum pccl_level levels[] = {PCCL_LEVEL_EXACT, PCCL_LEVEL_4, PCCL_LEVEL_EXACT};
    struct pccl_choice choice = first(&asked, GIGABIT);
    for (size_t i = 0; i < PCCL_COUNT_OF(rates); i++) {
        for (int use = 0; use < 3; use++)
            choice = pccl_choice_next(&asked, &choice, takes_us(&asked, &choice, rates[i], 0));
        assert_int_equal(choice.level, levels[i]);
        for (int use = 0; use < 10; use++) {
            const uint32_t took_us = takes_us(&asked, &choice, rates[i], 0);
            assert_true(took_us <= 150000);
            choice = pccl_choice_next(&asked, &choice, took_us);
            assert_int_equal(choice.level, levels[i]);
        }
    }
}

static int64_t noise(struct pccl_prng *prng, uint64_t thousandths)
{
    return (int64_t)pccl_prng_below(prng, 2 * thousandths + 1) - (int64_t)thousandths;
}

/*
 * At whatever rate, 200 uses with 10 % of noise: the level changes in the first uses at most, and once
 * later, where the rate is so near to what a level needs that noise decides; 9 in 10 meet the budget if
 * four bits can.
 */
static void noise_does_not_make_it_flap(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(100);
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 19);
    for (uint64_t rate = GIGABIT / 40; rate < 2 * GIGABIT; rate += rate / 50) {
        struct pccl_choice choice = first(&asked, 0);
        uint32_t changes = 0, late = 0, missed = 0;
        const bool can_meet = takes_us(&asked, &(struct pccl_choice){.level = PCCL_LEVEL_4}, rate, 100) <= 100000;
        for (uint32_t use = 0; use < 200; use++) {
            const uint32_t took_us = takes_us(&asked, &choice, rate, noise(&prng, 100));
            const struct pccl_choice next = pccl_choice_next(&asked, &choice, took_us);
            changes += next.level != choice.level;
            late += next.level != choice.level && use >= 3;
            missed += took_us > 100000;
            choice = next;
        }
        assert_true(changes <= 2 && late <= 1);
        assert_true(!can_meet || missed <= 20);
    }
}

/* A rate that alternates so that each rise is a mistake: rises become rare. */
static void whoever_falls_again_becomes_patient(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(100);
    struct pccl_choice choice = first(&asked, 0);
    uint32_t rises = 0;
    for (uint32_t use = 0; use < 1000; use++) {
        const uint64_t rate = choice.level == PCCL_LEVEL_EXACT ? GIGABIT / 4 : 2 * GIGABIT;
        choice = pccl_choice_next(&asked, &choice, takes_us(&asked, &choice, rate, 0));
        rises += choice.why == PCCL_CHOICE_RAISED;
    }
    assert_true(rises >= 3 && rises <= 25); /* after 2, 4, ... 64, and then after each 64 */
}

/* It need not be true, and must not be anything but a choice. */
static void whatever_is_said_something_is_chosen(void **state)
{
    (void)state;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, 20);
    for (int i = 0; i < 200000; i++) {
        struct pccl_descriptor asked = all_reduce(1 + (uint32_t)pccl_prng_below(&prng, PCCL_BUDGET_MS_MAX));
        asked.count = pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64);
        struct pccl_choice said = {.why = PCCL_CHOICE_KEPT,
                                   .level = (uint8_t)pccl_prng_below(&prng, PCCL_LEVELS),
                                   .fits = (uint8_t)pccl_prng_u64(&prng),
                                   .patience = (uint8_t)pccl_prng_u64(&prng),
                                   .steady = (uint8_t)pccl_prng_u64(&prng),
                                   .rtt_us = (uint32_t)pccl_prng_u64(&prng)};
        const struct pccl_choice next =
            pccl_choice_next(&asked, &said, (uint32_t)(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64)));
        assert_true(next.level < PCCL_LEVELS && next.why >= PCCL_CHOICE_KEPT && next.why <= PCCL_CHOICE_RAISED);
        assert_int_equal(next.level > said.level, next.why == PCCL_CHOICE_LOWERED);
        assert_int_equal(next.level < said.level, next.why == PCCL_CHOICE_RAISED);
    }
}

/* As nobody knows how long it took: all stays. And nothing is faster than any link. */
static void what_is_unknown_or_impossible_counts_for_nothing(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(100);
    struct pccl_choice choice = {.why = PCCL_CHOICE_RAISED, .level = PCCL_LEVEL_8, .fits = 1, .patience = 2};
    const struct pccl_choice next = pccl_choice_next(&asked, &choice, PCCL_TOOK_UNKNOWN);
    assert_int_equal(next.why, PCCL_CHOICE_KEPT);
    assert_int_equal(next.level, PCCL_LEVEL_8);
    assert_int_equal(next.fits, 1);
    assert_int_equal(next.took_us, 0);
    assert_true(pccl_choice_next(&asked, &choice, 0).took_us >= 100); /* 1 MiB and more at 10 GB/s */
}

/* 16 bits of 16 are no level of their own. */
static void halves_have_three_levels(void **state)
{
    (void)state;
    struct pccl_descriptor asked = all_reduce(100);
    asked.datatype = PCCL_BF16;
    struct pccl_choice choice = first(&asked, 0);
    choice.rtt_us = 0;
    choice = pccl_choice_next(&asked, &choice, 150000);
    assert_int_equal(choice.level, PCCL_LEVEL_8);
    for (int i = 0; i < 2; i++)
        choice = pccl_choice_next(&asked, &choice, 30000);
    assert_int_equal(choice.level, PCCL_LEVEL_EXACT);
}

static void a_level_is_a_codec_and_words(void **state)
{
    (void)state;
    const struct pccl_descriptor asked = all_reduce(50);
    struct pccl_descriptor made = asked;
    struct pccl_text words;
    for (unsigned level = 0; level < PCCL_LEVELS; level++) {
        pccl_choice_apply((enum pccl_level)level, &asked, &made);
        for (unsigned other = 0; other < PCCL_LEVELS; other++)
            assert_int_equal(pccl_choice_is_applied((enum pccl_level)other, &made), other == level);
    }
    pccl_text_clear(&words);
    const struct pccl_choice lowered = {
        .why = PCCL_CHOICE_LOWERED, .level = PCCL_LEVEL_8, .took_us = 180000, .expected_us = 46321};
    pccl_choice_describe(&words, &asked, &lowered);
    assert_string_equal(words.bytes, "lowered: budget 50 ms, the use before took 180.0 ms, expected 46.3 ms");
    pccl_text_clear(&words);
    const struct pccl_choice unknown = {.why = PCCL_CHOICE_FIRST};
    pccl_choice_describe(&words, &asked, &unknown);
    assert_string_equal(words.bytes, "first use: budget 50 ms, no rate of the links is known");
}

static void it_fits_sums_of_floats(void **state)
{
    (void)state;
    const struct pccl_descriptor sum = all_reduce(50);
    struct pccl_descriptor other = sum;
    assert_null(pccl_choice_misfit(&sum));
    other.operation = PCCL_MAX;
    assert_non_null(strstr(pccl_choice_misfit(&other), "sums and averages"));
    other = sum;
    other.datatype = PCCL_F64;
    assert_non_null(strstr(pccl_choice_misfit(&other), "bfloat16"));
    other = sum;
    other.collective = PCCL_REDUCE;
    assert_non_null(strstr(pccl_choice_misfit(&other), "all-reduces"));
    other.collective = PCCL_REDUCE_SCATTER;
    assert_null(pccl_choice_misfit(&other));
    other.counts.bytes[0] = 1;
    assert_non_null(strstr(pccl_choice_misfit(&other), "equal shares"));
    other.collective = PCCL_COALESCED;
    other.datatype = PCCL_U8;
    assert_null(pccl_choice_misfit(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_use_goes_by_the_cost),
        cmocka_unit_test(it_follows_the_rate_within_three_uses),
        cmocka_unit_test(noise_does_not_make_it_flap),
        cmocka_unit_test(whoever_falls_again_becomes_patient),
        cmocka_unit_test(whatever_is_said_something_is_chosen),
        cmocka_unit_test(what_is_unknown_or_impossible_counts_for_nothing),
        cmocka_unit_test(halves_have_three_levels),
        cmocka_unit_test(a_level_is_a_codec_and_words),
        cmocka_unit_test(it_fits_sums_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
