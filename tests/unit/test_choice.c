/* The choice of an automatic codec: on paths whose rate changes, with noise, and for any values that peers report. */
#include "unit.h"

#include <string.h>

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

static struct pccl_descriptor share(uint8_t percent)
{
    struct pccl_descriptor asked = all_reduce(0);
    asked.budget_percent = percent;
    return asked;
}

/* The duration in a ring of PEERS; noise in thousandths. */
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

TEST(the_first_use_goes_by_the_cost)
{
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

/* 1 Gbit/s, 50 Mbit/s, and back: within three uses a fitting codec is chosen, and the budget met. */
TEST(it_follows_the_rate_within_three_uses)
{
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
 * At any rate, 200 uses with 10 % of noise: the level changes at most in the first uses, and once later if the rate is
 * so near to the threshold of a level that noise decides; 9 of 10 uses meet the budget if four bits can.
 */
TEST(noise_does_not_make_it_flap)
{
    const struct pccl_descriptor asked = all_reduce(100);
    struct pccl_prng prng = unit_prng(19);
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
TEST(whoever_falls_again_becomes_patient)
{
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

/* The values need not be true; the result must always be a valid choice. */
TEST(whatever_is_said_something_is_chosen)
{
    struct pccl_prng prng = unit_prng(20);
    for (int i = 0; i < 200000; i++) {
        const uint8_t percent = (uint8_t)(i % 2 * (1 + pccl_prng_below(&prng, PCCL_BUDGET_PERCENT_MAX)));
        struct pccl_descriptor asked = all_reduce(1 + (uint32_t)pccl_prng_below(&prng, PCCL_BUDGET_MS_MAX));
        asked = percent != 0 ? share(percent) : asked;
        asked.count = pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64);
        struct pccl_choice said = {.why = PCCL_CHOICE_KEPT,
                                   .level = (uint8_t)pccl_prng_below(&prng, PCCL_LEVELS),
                                   .fits = (uint8_t)pccl_prng_u64(&prng),
                                   .patience = (uint8_t)pccl_prng_u64(&prng),
                                   .steady = (uint8_t)pccl_prng_u64(&prng),
                                   .rtt_us = (uint32_t)pccl_prng_u64(&prng),
                                   .took_us = (uint32_t)pccl_prng_u64(&prng),
                                   .gap_us = (uint32_t)pccl_prng_u64(&prng),
                                   .gap_1_us = (uint32_t)(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64)),
                                   .gap_2_us = (uint32_t)(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64)),
                                   .gap_3_us = (uint32_t)(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64))};
        const struct pccl_choice next =
            pccl_choice_next(&asked, &said, (uint32_t)(pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64)));
        assert_true(next.level < PCCL_LEVELS && next.why >= PCCL_CHOICE_KEPT && next.why <= PCCL_CHOICE_RAISED);
        assert_int_equal(next.level > said.level, next.why == PCCL_CHOICE_LOWERED);
        assert_int_equal(next.level < said.level, next.why == PCCL_CHOICE_RAISED);
    }
}

/* An unknown duration leaves the choice unchanged. A duration that no link could reach is ignored. */
TEST(what_is_unknown_or_impossible_counts_for_nothing)
{
    const struct pccl_descriptor asked = all_reduce(100);
    struct pccl_choice choice = {.why = PCCL_CHOICE_RAISED, .level = PCCL_LEVEL_8, .fits = 1, .patience = 2};
    const struct pccl_choice next = pccl_choice_next(&asked, &choice, PCCL_TOOK_UNKNOWN);
    assert_int_equal(next.why, PCCL_CHOICE_KEPT);
    assert_int_equal(next.level, PCCL_LEVEL_8);
    assert_int_equal(next.fits, 1);
    assert_int_equal(next.took_us, 0);
    assert_true(pccl_choice_next(&asked, &choice, 0).took_us >= 100); /* 1 MiB and more at 10 GB/s */
}

/* For elements of 16 bits, 16 bits are no separate level. */
TEST(halves_have_three_levels)
{
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

/* ---- a share of the time between uses ---- */

enum { GAP_US = 200000 };

/* A caller that waits for each use, or one whose uses begin at a fixed period, however long they take. */
struct loop {
    const struct pccl_descriptor *asked;
    struct pccl_choice choice;
    uint32_t before_us, period_us; /* 0: GAP_US after the end of each */
};

/* Launches a use that takes the time of this rate, after the gap `gap_us` if it is not 0. Returns the duration. */
static uint32_t one_use(struct loop *loop, uint64_t rate, int64_t thousandths, uint32_t gap_us)
{
    const uint32_t rest_us = loop->period_us > loop->before_us ? loop->period_us - loop->before_us : 1;
    const uint32_t usual_us = loop->period_us != 0 ? rest_us : GAP_US;
    const uint32_t took_us = takes_us(loop->asked, &loop->choice, rate, thousandths);
    loop->choice.gap_us = loop->before_us == 0 ? 0 : gap_us != 0 ? gap_us : usual_us;
    loop->choice = pccl_choice_next(loop->asked, &loop->choice, took_us);
    loop->before_us = took_us;
    return took_us;
}

/* Two uses are exact, however slow the links are known to be. From then on the share is met, by the rate. */
TEST(a_share_follows_the_rate)
{
    const struct pccl_descriptor asked = share(40);
    const uint64_t rates[] = {GIGABIT, GIGABIT / 20, GIGABIT};
    for (uint32_t period_us = 0; period_us <= 400000; period_us += 400000) {
        struct loop loop = {.asked = &asked, .choice = first(&asked, GIGABIT / 20), .period_us = period_us};
        for (size_t i = 0; i < PCCL_COUNT_OF(rates); i++) {
            for (uint32_t use = 0; use < 13; use++) {
                const uint32_t took_us = one_use(&loop, rates[i], 0, 0);
                const uint64_t between_us = period_us != 0 ? period_us : GAP_US + took_us;
                assert_true(use < 3 || took_us * UINT64_C(100) <= 40 * between_us);
            }
            assert_int_equal(loop.choice.level, i == 1 ? PCCL_LEVEL_4 : PCCL_LEVEL_EXACT);
        }
    }
}

TEST(before_the_time_between_uses_is_known_it_is_exact)
{
    const struct pccl_descriptor asked = share(20);
    struct loop loop = {.asked = &asked, .choice = first(&asked, GIGABIT / 20)};
    assert_true(loop.choice.why == PCCL_CHOICE_FIRST && loop.choice.level == PCCL_LEVEL_EXACT);
    one_use(&loop, GIGABIT / 20, 0, 0);
    assert_true(loop.choice.why == PCCL_CHOICE_KEPT && loop.choice.level == PCCL_LEVEL_EXACT);
    one_use(&loop, GIGABIT / 20, 0, 0);
    assert_true(loop.choice.why == PCCL_CHOICE_LOWERED && loop.choice.level == PCCL_LEVEL_4);
}

/* Without a gap every share is exceeded; if all of the time may be used, none is. */
TEST(no_gap_and_all_of_the_time)
{
    for (uint8_t percent = 99; percent <= 100; percent++) {
        const struct pccl_descriptor asked = share(percent);
        struct loop loop = {.asked = &asked, .choice = first(&asked, GIGABIT)};
        for (uint32_t use = 0; use < 20; use++)
            one_use(&loop, GIGABIT, 0, 1);
        assert_int_equal(loop.choice.level, percent == 99 ? PCCL_LEVEL_4 : PCCL_LEVEL_EXACT);
    }
}

/* A single gap that is very long or nearly zero changes nothing. */
TEST(a_pause_changes_nothing)
{
    const struct pccl_descriptor asked = share(20);
    const uint64_t rates[] = {GIGABIT, GIGABIT / 2, GIGABIT / 4, GIGABIT / 6};
    for (size_t i = 0; i < PCCL_COUNT_OF(rates); i++) {
        struct loop loop = {.asked = &asked, .choice = first(&asked, 0)};
        for (uint32_t use = 0; use < 20; use++)
            one_use(&loop, rates[i], 0, 0);
        const uint8_t level = loop.choice.level;
        for (uint32_t use = 0; use < 100; use++) {
            one_use(&loop, rates[i], 0, use % 10 == 3 ? UINT32_MAX : use % 10 == 7 ? 1 : 0);
            assert_int_equal(loop.choice.level, level);
        }
    }
}

/* The same as with milliseconds: 10 % of noise in the rate, and in the time between uses as well. */
TEST(noise_does_not_make_a_share_flap)
{
    const struct pccl_descriptor asked = share(20);
    struct pccl_prng prng = unit_prng(23);
    for (uint64_t rate = GIGABIT / 40; rate < 2 * GIGABIT; rate += rate / 50) {
        struct loop loop = {.asked = &asked, .choice = first(&asked, 0)};
        const uint32_t least_us = takes_us(&asked, &(struct pccl_choice){.level = PCCL_LEVEL_4}, rate, 100);
        const bool can_meet = least_us * UINT64_C(100) <= 20 * (GAP_US * UINT64_C(9) / 10 + least_us);
        uint32_t changes = 0, late = 0, missed = 0;
        for (uint32_t use = 0; use < 200; use++) {
            const uint8_t level = loop.choice.level;
            const uint32_t gap_us = (uint32_t)(GAP_US + GAP_US * noise(&prng, 100) / 1000);
            const uint32_t took_us = one_use(&loop, rate, noise(&prng, 100), gap_us);
            changes += loop.choice.level != level;
            late += loop.choice.level != level && use >= 4;
            missed += took_us * UINT64_C(100) > 20 * ((uint64_t)gap_us + took_us);
        }
        assert_true(changes <= 3 && late <= 2);
        assert_true(!can_meet || missed <= 20);
    }
}

/* The longest gap that a peer reports counts; a gap unknown to one peer is unknown to all. */
TEST(of_all_peers_the_longest_gap_counts)
{
    struct pccl_choice heard = {.gap_us = 5, .gap_1_us = 7, .gap_2_us = 9, .took_us = 3};
    pccl_choice_merge(&heard, &(struct pccl_choice){.gap_us = 6, .gap_1_us = 1, .gap_2_us = 0, .gap_3_us = 4});
    assert_true(heard.gap_us == 6 && heard.gap_1_us == 7 && heard.gap_2_us == 0 && heard.gap_3_us == 0);
    assert_int_equal(heard.took_us, 0);
}

TEST(a_share_has_words)
{
    const struct pccl_descriptor asked = share(20);
    struct pccl_choice choice = {.why = PCCL_CHOICE_FIRST};
    struct pccl_text words;
    pccl_text_clear(&words);
    pccl_choice_describe(&words, &asked, &choice);
    assert_string_equal(words.bytes, "first use: budget 20 % of the time between uses (not known yet)");
    pccl_text_clear(&words);
    choice = (struct pccl_choice){.why = PCCL_CHOICE_LOWERED,
                                  .took_us = 480000,
                                  .expected_us = 120000,
                                  .gap_1_us = 720000,
                                  .gap_2_us = 1000,
                                  .gap_3_us = UINT32_MAX};
    pccl_choice_describe(&words, &asked, &choice);
    assert_string_equal(words.bytes,
                        "lowered: budget 20 % of the time between uses, gap 720.0 ms, the previous use took "
                        "480.0 ms, expected 120.0 ms");
}

TEST(a_level_is_a_codec_and_words)
{
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
    assert_string_equal(words.bytes, "lowered: budget 50 ms, the previous use took 180.0 ms, expected 46.3 ms");
    pccl_text_clear(&words);
    const struct pccl_choice unknown = {.why = PCCL_CHOICE_FIRST};
    pccl_choice_describe(&words, &asked, &unknown);
    assert_string_equal(words.bytes, "first use: budget 50 ms, link rates unknown");
}

TEST(it_fits_sums_of_floats)
{
    const struct pccl_descriptor sum = all_reduce(50);
    struct pccl_descriptor other = sum;
    assert_null(pccl_choice_misfit(&sum));
    other.operation = PCCL_MAX;
    assert_non_null(strstr(pccl_choice_misfit(&other), "a sum or an average"));
    other = sum;
    other.datatype = PCCL_F64;
    assert_non_null(strstr(pccl_choice_misfit(&other), "bfloat16"));
    other = sum;
    other.collective = PCCL_REDUCE;
    assert_non_null(strstr(pccl_choice_misfit(&other), "an all-reduce"));
    other.collective = PCCL_REDUCE_SCATTER;
    assert_null(pccl_choice_misfit(&other));
    other.counts.bytes[0] = 1;
    assert_non_null(strstr(pccl_choice_misfit(&other), "equal shares"));
    other.collective = PCCL_COALESCED;
    other.datatype = PCCL_U8;
    assert_null(pccl_choice_misfit(&other));
}
