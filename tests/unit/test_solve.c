/*
 * topology/solve: compared with all rings of up to 9 members, and the search for many members with the exact one; rings
 * hidden in noise, sites, gates; no ring; memory that runs out; a caller without time. With any argument: larger runs.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/prng.h"
#include "topology/internal.h"
#include "unit/support.h"

enum {
    MEMBERS_MAX = 1000,
    QUICK_STEPS = 20 * 1000 * 1000,
};

static uint64_t rates[MEMBERS_MAX * MEMBERS_MAX];
static uint32_t rtts_us[MEMBERS_MAX * MEMBERS_MAX];
static uint32_t hidden[MEMBERS_MAX], present[MEMBERS_MAX], ring[MEMBERS_MAX], other[MEMBERS_MAX];
static struct pccl_prng prng;
static struct test_memory memory;
static bool is_long;

static uint64_t below(uint64_t bound) { return pccl_prng_below(&prng, bound); }
static uint64_t *rate(uint32_t count, uint32_t from, uint32_t to) { return &rates[from * count + to]; }
static uint32_t *rtt(uint32_t count, uint32_t from, uint32_t to) { return &rtts_us[from * count + to]; }

static void shuffle(uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}

static struct pccl_ring_problem problem_of(uint32_t count, uint64_t seed)
{
    return (struct pccl_ring_problem){count, rates, rtts_us, NULL, seed, QUICK_STEPS};
}

static void assert_is_ring(const uint32_t *order, uint32_t count)
{
    static uint8_t seen[MEMBERS_MAX];
    memset(seen, 0, sizeof seen);
    assert_int_equal(order[0], 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(order[i] < count);
        assert_int_equal(seen[order[i]]++, 0);
    }
}

/* The invariants of every answer; the ring is in `ring`. */
static struct pccl_ring_answer solve(const struct pccl_ring_problem *problem)
{
    struct pccl_ring_answer answer;
    memset(ring, 0xee, sizeof ring);
    test_memory_init(&memory);
    assert_int_equal(pccl_ring_solve(problem, &memory.memory, NULL, NULL, ring, &answer), PCCL_OK);
    assert_int_equal(memory.live_blocks, 0);
    if (answer.worth.exists) {
        assert_is_ring(ring, problem->count);
        struct pccl_ring_worth worth = pccl_ring_worth(problem, ring);
        assert_int_equal(pccl_ring_worth_compare(&worth, &answer.worth), 0);
        assert_true(worth.exists && worth.slowest == answer.worth.slowest);
    } else {
        assert_int_equal(ring[0], 0xeeeeeeee);
    }
    if (problem->ring != NULL) {
        struct pccl_ring_worth worth = pccl_ring_worth(problem, problem->ring);
        assert_true(pccl_ring_worth_compare(&answer.worth, &worth) >= 0);
    }
    return answer;
}

/* ---- few members ---- */

enum kind { UNIFORM, FEW_RATES, UNREACHABLE, SPARSE, SAME_LATENCY, UNKNOWN, HUGE_FIGURES, KINDS };

static void make(enum kind kind, uint32_t count)
{
    for (uint32_t i = 0; i < count * count; i++) {
        rates[i] = kind == FEW_RATES ? 10 * (1 + below(3)) : 2 + below(1000);
        rtts_us[i] = kind == SAME_LATENCY ? 7 : (uint32_t)below(kind == FEW_RATES ? 5 : 1000);
        if ((kind == UNREACHABLE && below(3) == 0) || (kind == SPARSE && below(count) >= 2))
            rates[i] = PCCL_RATE_NONE;
        if (kind == UNKNOWN && below(2) == 0) {
            rates[i] = PCCL_RATE_UNKNOWN;
            rtts_us[i] = 0;
        }
        if (kind == HUGE_FIGURES) {
            rates[i] = UINT64_MAX - below(3);
            rtts_us[i] = UINT32_MAX - 1 - (uint32_t)below(2);
        }
        if (i % (count + 1) == 0) { /* these values are never read */
            rates[i] = UINT64_MAX;
            rtts_us[i] = 0;
        }
    }
}

/* The best ring that continues order[0 .. depth), by trying all. */
static void try_all(uint32_t count, uint32_t *order, uint32_t depth, uint64_t slowest, uint64_t latency_us,
                    struct pccl_ring_worth *best)
{
    if (slowest == 0 || (best->exists && slowest < best->slowest))
        return;
    if (depth == count) {
        struct pccl_ring_worth worth = {true, pccl_min_u64(slowest, *rate(count, order[count - 1], order[0])),
                                        latency_us + *rtt(count, order[count - 1], order[0])};
        worth.exists = worth.slowest > 0;
        if (worth.exists && (!best->exists || worth.slowest > best->slowest ||
                             (worth.slowest == best->slowest && worth.latency_us < best->latency_us)))
            *best = worth;
        return;
    }
    for (uint32_t i = depth; i < count; i++) {
        uint32_t kept = order[depth];
        order[depth] = order[i];
        order[i] = kept;
        try_all(count, order, depth + 1, pccl_min_u64(slowest, *rate(count, order[depth - 1], order[depth])),
                latency_us + *rtt(count, order[depth - 1], order[depth]), best);
        order[i] = order[depth];
        order[depth] = kept;
    }
}

TEST(as_all_rings_say)
{
    uint32_t none = 0;
    for (uint32_t count = 2; count <= 9; count++) {
        uint32_t rounds = (count < 7 ? 400 : count == 7 ? 120 : count == 8 ? 40 : 8) * (is_long ? 20 : 1);
        for (uint32_t round = 0; round < rounds * KINDS; round++) {
            pccl_prng_seed(&prng, round * 16 + count);
            make((enum kind)(round % KINDS), count);
            shuffle(present, count);
            struct pccl_ring_problem problem = problem_of(count, round);
            if (round / KINDS % 2 == 0)
                problem.ring = present;
            struct pccl_ring_answer answer = solve(&problem);
            for (uint32_t i = 0; i < count; i++)
                other[i] = i;
            struct pccl_ring_worth best = {0};
            try_all(count, other, 1, UINT64_MAX, 0, &best);
            assert_true(answer.proven);
            assert_int_equal(answer.worth.exists, best.exists);
            assert_int_equal(answer.worth.slowest, best.slowest);
            assert_int_equal(answer.worth.latency_us, best.latency_us);
            none += !best.exists;
        }
    }
    assert_true(none > 100);
}

TEST(one_and_two_members)
{
    make(UNIFORM, 2);
    struct pccl_ring_problem problem = problem_of(1, 1);
    struct pccl_ring_answer answer = solve(&problem);
    assert_true(answer.proven && answer.worth.exists);
    assert_true(answer.worth.slowest == UINT64_MAX && answer.worth.latency_us == 0);
    problem = problem_of(2, 1);
    *rate(2, 0, 1) = 50;
    *rate(2, 1, 0) = 20;
    *rtt(2, 0, 1) = 3;
    *rtt(2, 1, 0) = 4;
    answer = solve(&problem);
    assert_true(answer.proven && answer.worth.exists);
    assert_true(answer.worth.slowest == 20 && answer.worth.latency_us == 7);
    *rate(2, 1, 0) = PCCL_RATE_NONE;
    answer = solve(&problem);
    assert_true(answer.proven && !answer.worth.exists);
}

/* The search for many members, for sizes for which the exact one gives the best result. */
TEST(search_as_exact)
{
    uint32_t proven_count = 0, none = 0, all = 0, worse = 0;
    test_memory_init(&memory);
    for (uint32_t count = 4; count <= PCCL_SOLVE_EXACT_MOST; count++) {
        for (uint32_t round = 0; round < (is_long ? 100 : 10) * KINDS; round++) {
            pccl_prng_seed(&prng, round * 16 + count);
            make((enum kind)(round % KINDS), count);
            struct pccl_ring_problem problem = problem_of(count, round);
            struct pccl_solve_work work = {.limit = 300000};
            bool exists = false, exact_exists = false, proven = false;
            assert_int_equal(pccl_solve_exact(&problem, &memory.memory, ring, &exact_exists), PCCL_OK);
            assert_int_equal(pccl_solve_local(&problem, &memory.memory, &work, other, &exists, &proven), PCCL_OK);
            assert_int_equal(exists, exact_exists);
            none += !exists;
            if (exists) {
                struct pccl_ring_worth exact = pccl_ring_worth(&problem, ring),
                                       found = pccl_ring_worth(&problem, other);
                assert_is_ring(ring, count);
                assert_int_equal(found.slowest, exact.slowest);
                all++;
                int difference = pccl_ring_worth_compare(&found, &exact);
                assert_true(difference <= 0);
                worse += difference < 0;
                assert_false(proven && difference < 0);
            }
            proven_count += proven;
        }
    }
    print_message("search: %u rings, latency not the least in %u; %u without a ring; %u proven\n", all, worse, none,
                  proven_count);
    assert_true(none > 0 && proven_count > 0 && worse * 50 <= all);
}

/* ---- hidden rings ---- */

enum { SLOW = 1000 };

/*
 * Makes a ring of paths that carry at least SLOW, with the lowest latency of all paths; about `more` other paths from
 * each member are as fast. One member has one path that is as fast as SLOW, which is therefore the best possible rate.
 */
static uint64_t hide_ring(uint32_t count, uint32_t more)
{
    uint64_t latency_us = 0;
    shuffle(hidden, count);
    for (uint32_t i = 0; i < count * count; i++) {
        rates[i] = below(count) < more ? SLOW + below(SLOW) : below(SLOW);
        rtts_us[i] = 11 + (uint32_t)below(100);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = hidden[i], to = hidden[(i + 1) % count];
        *rate(count, from, to) = SLOW + below(SLOW);
        *rtt(count, from, to) = 1 + (uint32_t)below(10);
        latency_us += *rtt(count, from, to);
    }
    for (uint32_t to = 0; to < count; to++)
        *rate(count, hidden[0], to) = below(SLOW);
    *rate(count, hidden[0], hidden[1]) = SLOW;
    return latency_us;
}

TEST(hidden_rings)
{
    static const uint32_t counts[] = {10, 12, 13, 20, 50, 100, 200}, more[] = {0, 1, 3, 8};
    for (size_t c = 0; c < PCCL_COUNT_OF(counts); c++) {
        uint32_t count = counts[c];
        uint32_t seeds = is_long ? 200 : 20, all = 0, least = 0;
        for (uint32_t seed = 0; seed < seeds; seed++) {
            for (size_t m = 0; m < PCCL_COUNT_OF(more); m++) {
                pccl_prng_seed(&prng, seed * 1000 + count + m * 300);
                uint64_t latency_us = hide_ring(count, more[m]);
                struct pccl_ring_problem problem = problem_of(count, seed);
                struct pccl_ring_answer answer = solve(&problem);
                assert_true(answer.worth.exists);
                assert_int_equal(answer.worth.slowest, SLOW);
                assert_true(answer.worth.latency_us >= latency_us);
                assert_int_equal(answer.proven, answer.worth.latency_us == latency_us);
                least += answer.worth.latency_us == latency_us;
                all++;
            }
        }
        print_message("hidden among %u: %u rings found, %u with the least latency\n", count, all, least);
        assert_true(least * 10 >= all * 9);
    }
}

/* ---- sites ---- */

/* Members in sites of about the same size, numbered at random: fast and near inside, otherwise as `between` returns. */
static void make_sites(uint32_t count, uint32_t sites, uint64_t (*between)(uint32_t from, uint32_t to))
{
    shuffle(hidden, count);
    for (uint32_t a = 0; a < count; a++) {
        for (uint32_t b = 0; b < count; b++) {
            uint32_t from = hidden[a] % sites, to = hidden[b] % sites;
            *rate(count, a, b) = from == to ? 100000 + below(1000) : between(from, to);
            *rtt(count, a, b) = from == to ? 100 : 20000 + 1000 * (from > to ? from - to : to - from);
        }
    }
}
static uint64_t all_slow(uint32_t from, uint32_t to) { return 1000 + (from + to) % 2; }
static uint64_t in_a_row(uint32_t from, uint32_t to) { return from == to + 1 || to == from + 1 ? 5000 : 400; }
static uint64_t one_way(uint32_t from, uint32_t to) { return to == (from + 1) % 5 ? 5000 : 400; }

TEST(sites)
{
    for (uint32_t count = 15; count <= 240; count *= 2) {
        for (uint32_t seed = 0; seed < 5; seed++) {
            pccl_prng_seed(&prng, seed * 1000 + count);
            struct pccl_ring_problem problem = problem_of(count, seed);
            problem.steps /= 10;
            /* Two sites: to the other one and back, over paths of the only rate. */
            make_sites(count, 2, all_slow);
            struct pccl_ring_answer answer = solve(&problem);
            assert_int_equal(answer.worth.slowest, 1001);
            assert_int_equal(answer.worth.latency_us, 2 * 21000 + (count - 2) * 100);
            /* Sites in a row: the ring passes the ones in between twice. */
            make_sites(count, 5, in_a_row);
            answer = solve(&problem);
            assert_int_equal(answer.worth.slowest, 5000);
            assert_int_equal(answer.worth.latency_us, 8 * 21000 + (count - 8) * 100);
            /* Each site leads to the next one only. */
            make_sites(count, 5, one_way);
            answer = solve(&problem);
            assert_int_equal(answer.worth.slowest, 5000);
            assert_int_equal(answer.worth.latency_us, 4 * 21000 + 24000 + (count - 5) * 100);
        }
    }
}

/* Among four members two pairs are slow: the ring avoids both. */
TEST(two_slow_pairs)
{
    for (uint32_t i = 0; i < 16; i++) {
        rates[i] = 400;
        rtts_us[i] = 10;
    }
    *rate(4, 0, 1) = *rate(4, 1, 0) = *rate(4, 2, 3) = *rate(4, 3, 2) = 40;
    static const uint32_t as_it_is[] = {0, 1, 2, 3};
    struct pccl_ring_problem problem = problem_of(4, 1);
    problem.ring = as_it_is;
    assert_int_equal(pccl_ring_worth(&problem, as_it_is).slowest, 40);
    struct pccl_ring_answer answer = solve(&problem);
    assert_true(answer.proven);
    assert_int_equal(answer.worth.slowest, 400);
    assert_int_equal(answer.worth.latency_us, 40);
}

/* If round trips correspond to a grid, the best ring connects neighbors. */
TEST(grid)
{
    enum { WIDE = 10, COUNT = WIDE * WIDE };
    pccl_prng_seed(&prng, 1);
    shuffle(hidden, COUNT);
    for (uint32_t a = 0; a < COUNT; a++) {
        for (uint32_t b = 0; b < COUNT; b++) {
            int x = (int)(hidden[a] % WIDE) - (int)(hidden[b] % WIDE);
            int y = (int)(hidden[a] / WIDE) - (int)(hidden[b] / WIDE);
            *rate(COUNT, a, b) = 1000;
            *rtt(COUNT, a, b) = 100 * (uint32_t)(x * x + y * y);
        }
    }
    struct pccl_ring_problem problem = problem_of(COUNT, 1);
    struct pccl_ring_answer answer = solve(&problem);
    assert_int_equal(answer.worth.latency_us, 100 * COUNT);
    assert_true(answer.proven);
}

/* ---- no ring ---- */

TEST(no_ring)
{
    static const uint32_t counts[] = {3, 8, 12, 13, 40, 300};
    for (size_t c = 0; c < PCCL_COUNT_OF(counts); c++) {
        uint32_t count = counts[c], half = count / 2;
        for (uint32_t seed = 0; seed < 5; seed++) {
            for (int why = 0; why < 5; why++) {
                pccl_prng_seed(&prng, seed);
                make(UNIFORM, count);
                shuffle(hidden, count);
                for (uint32_t i = 0; i < count; i++) {
                    for (uint32_t j = 0; j < count; j++) {
                        bool link = true;
                        if (why == 0) /* one cannot send */
                            link = i != half;
                        if (why == 1) /* one cannot receive */
                            link = j != half;
                        if (why == 2) /* there is no path back */
                            link = i < half || j >= half;
                        if (why == 3) /* more than half of them reach only the others, which are too few */
                            link = (i <= half) != (j <= half);
                        if (why == 4) /* one is the gate between two sites */
                            link = i == half || j == half || (i < half) == (j < half);
                        if (!link)
                            *rate(count, hidden[i], hidden[j]) = PCCL_RATE_NONE;
                    }
                }
                struct pccl_ring_problem problem = problem_of(count, seed);
                struct pccl_ring_answer answer = solve(&problem);
                assert_false(answer.worth.exists);
                assert_true(answer.proven);
            }
        }
    }
}

/* Nothing is claimed without proof: the search ends and reports that it does not know. */
TEST(no_ring_unproven)
{
    enum { COUNT = 60 }; /* three sites that are connected by two members only */
    for (uint32_t a = 0; a < COUNT; a++) {
        for (uint32_t b = 0; b < COUNT; b++) {
            *rate(COUNT, a, b) = a < 2 || b < 2 || a % 3 == b % 3 ? 1000 : PCCL_RATE_NONE;
            *rtt(COUNT, a, b) = 10;
        }
    }
    struct pccl_ring_problem problem = problem_of(COUNT, 1);
    problem.steps = 1000000;
    struct pccl_ring_answer answer = solve(&problem);
    assert_false(answer.worth.exists);
    assert_false(answer.proven);
}

/* ---- options of a search ---- */

TEST(keeps_the_present_ring)
{
    static const uint32_t counts[] = {1, 2, 9, 12, 13, 60};
    for (size_t c = 0; c < PCCL_COUNT_OF(counts); c++) {
        uint32_t count = counts[c];
        for (uint32_t seed = 0; seed < 20; seed++) {
            pccl_prng_seed(&prng, seed);
            for (uint32_t i = 0; i < count * count; i++) {
                rates[i] = 1000; /* all rings are worth the same */
                rtts_us[i] = 5;
            }
            shuffle(present, count);
            struct pccl_ring_problem problem = problem_of(count, seed);
            problem.ring = present;
            struct pccl_ring_answer answer = solve(&problem);
            assert_true(answer.worth.exists && answer.proven);
            uint32_t first = 0;
            while (present[first] != 0)
                first++;
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(ring[i], present[(first + i) % count]);
        }
    }
}

/* The caller may let the answer replace the present ring. */
TEST(answer_in_place)
{
    for (uint32_t count = 5; count <= 40; count += 7) {
        pccl_prng_seed(&prng, count);
        make(UNIFORM, count);
        shuffle(present, count);
        struct pccl_ring_problem problem = problem_of(count, 1);
        problem.ring = present;
        problem.steps = 100000;
        (void)solve(&problem);
        struct pccl_ring_answer answer;
        assert_int_equal(pccl_ring_solve(&problem, &memory.memory, NULL, NULL, present, &answer), PCCL_OK);
        assert_memory_equal(present, ring, count * sizeof *ring);
    }
}

struct patience {
    uint64_t asked, most;
};
static bool go_on(void *context)
{
    struct patience *patience = context;
    return patience->asked++ < patience->most;
}

TEST(caller_without_time)
{
    static const uint32_t counts[] = {8, 13, 64, 200};
    for (size_t c = 0; c < PCCL_COUNT_OF(counts); c++) {
        uint32_t count = counts[c];
        for (int exists = 0; exists < 2; exists++) {
            for (uint64_t most = 0; most < 200; most = most * 2 + 1) {
                pccl_prng_seed(&prng, count);
                (void)hide_ring(count, 8);
                shuffle(present, count);
                for (uint32_t i = 0; i < count && exists != 0; i++)
                    *rate(count, present[i], present[(i + 1) % count]) += 1;
                struct pccl_ring_problem problem = problem_of(count, 1);
                problem.ring = present;
                problem.steps = UINT64_MAX;
                struct pccl_ring_worth now = pccl_ring_worth(&problem, present);
                struct patience patience = {0, most};
                struct pccl_ring_answer answer;
                test_memory_init(&memory);
                assert_int_equal(pccl_ring_solve(&problem, &memory.memory, go_on, &patience, ring, &answer), PCCL_OK);
                assert_true(patience.asked <= most + 1);
                assert_true(pccl_ring_worth_compare(&answer.worth, &now) >= 0);
                assert_false(answer.proven && answer.worth.slowest < SLOW);
                if (count > PCCL_SOLVE_EXACT_MOST && most == 0) {
                    assert_int_equal(patience.asked, 1);
                    assert_false(answer.proven);
                    assert_int_equal(answer.worth.exists, now.exists);
                }
                if (answer.worth.exists)
                    assert_is_ring(ring, count);
            }
        }
    }
}

/* For any limit of steps the answer is a ring; with a higher limit it is better. */
TEST(any_number_of_steps)
{
    pccl_prng_seed(&prng, 3);
    make(UNIFORM, 50);
    shuffle(present, 50);
    struct pccl_ring_problem problem = problem_of(50, 1);
    problem.ring = present;
    problem.steps = 0;
    struct pccl_ring_answer first = solve(&problem), last = first;
    for (uint64_t steps = 1; steps < 3000000; steps = steps * 3 + 1) {
        problem.steps = steps;
        last = solve(&problem);
        assert_true(last.worth.exists);
    }
    assert_true(pccl_ring_worth_compare(&last.worth, &first.worth) > 0);
}

TEST(memory_runs_out)
{
    static const uint32_t counts[] = {1, 2, 12, 13, 50};
    for (size_t c = 0; c < PCCL_COUNT_OF(counts); c++) {
        uint32_t count = counts[c];
        pccl_prng_seed(&prng, 1);
        make(UNIFORM, count);
        shuffle(present, count);
        struct pccl_ring_problem problem = problem_of(count, 1);
        problem.ring = present;
        problem.steps = 10000;
        (void)solve(&problem);
        uint64_t requests = memory.requests;
        assert_true(requests > 0);
        for (uint64_t k = 1; k <= requests; k++) {
            struct pccl_ring_answer answer, untouched;
            memset(&untouched, 0xdd, sizeof untouched);
            memset(&answer, 0xdd, sizeof answer);
            memset(ring, 0xdd, sizeof ring);
            test_memory_init(&memory);
            memory.fail_at = k;
            assert_int_equal(pccl_ring_solve(&problem, &memory.memory, NULL, NULL, ring, &answer), PCCL_MEMORY);
            assert_int_equal(memory.live_blocks, 0);
            assert_int_equal(ring[0], 0xdddddddd);
            assert_memory_equal(&answer, &untouched, sizeof answer);
        }
    }
}

TEST(the_same_again)
{
    uint32_t different = 0;
    for (uint32_t count = 6; count <= 150; count *= 5) {
        pccl_prng_seed(&prng, count);
        make(UNIFORM, count);
        struct pccl_ring_problem problem = problem_of(count, 1);
        problem.steps = 1000000;
        struct pccl_ring_answer first = solve(&problem);
        memcpy(other, ring, sizeof ring);
        struct pccl_ring_answer second = solve(&problem);
        assert_memory_equal(other, ring, sizeof ring);
        assert_int_equal(pccl_ring_worth_compare(&first.worth, &second.worth), 0);
        problem.seed = 2;
        (void)solve(&problem);
        different += memcmp(other, ring, sizeof ring) != 0;
    }
    assert_true(different > 0);
}

/* ---- 1,000 members ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(thousand)
{
    static const char *const names[] = {"random", "sites", "hidden"};
    uint32_t count = MEMBERS_MAX;
    for (int kind = 0; kind < 3; kind++) {
        pccl_prng_seed(&prng, 1);
        if (kind == 0)
            make(UNIFORM, count);
        else if (kind == 1)
            make_sites(count, 5, in_a_row);
        else
            (void)hide_ring(count, 8);
        struct pccl_ring_problem problem = problem_of(count, 1);
        problem.steps = is_long ? UINT64_C(1000000000) : 50000000;
        double begun = seconds();
        struct pccl_ring_answer answer = solve(&problem);
        double took = seconds() - begun;
        print_message("%u members, %s: %.0f ms of a processor for %.0f million steps, slowest %.0f, latency %.0f us, "
                      "%.1f bytes of memory a way\n",
                      count, names[kind], took * 1e3, (double)problem.steps / 1e6, (double)answer.worth.slowest,
                      (double)answer.worth.latency_us, (double)memory.peak_bytes / count / count);
        assert_true(answer.worth.exists);
        assert_true(took < 20);
        assert_true(memory.peak_bytes < 8 * (size_t)count * count);
        if (kind == 1)
            assert_int_equal(answer.worth.slowest, 5000);
        if (kind == 2)
            assert_int_equal(answer.worth.slowest, SLOW);
    }
}

int main(int argc, char **argv)
{
    is_long = argc > 1;
    return unit_run(NULL, NULL);
}
