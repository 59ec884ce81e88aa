/* The simulator's command line. */
#include "scenario.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct sim world;
static bool mute_uses, mute_state;
static uint64_t hash_seed; /* seed of all tables' hashes, on which results may not depend */

static void on_assert(const char *file, int line, const char *expression)
{
    if (world.jump != NULL)
        sim_fail(&world, "ASSERT %s:%d: %s", file, line, expression);
    fprintf(stderr, "%s:%d: %s\n", file, line, expression);
    abort();
}

static void add(struct sim_totals *to, const struct sim_totals *from)
{
    uint64_t *sums = (uint64_t *)(void *)to;
    const uint64_t *parts = (const uint64_t *)(const void *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *sums; i++)
        sums[i] += parts[i];
}

/* Runs a seed. Returns false for a violation, which is in world.failure. */
static bool run_one(uint64_t seed, bool trace, const struct sim_scenario *scenario)
{
    jmp_buf jump;
    sim_init(&world, seed, trace, mute_uses);
    world.mute_state = mute_state;
    world.hash_seed = sim_mix(seed, hash_seed);
    if (setjmp(jump) != 0) {
        world.jump = NULL;
        return false;
    }
    world.jump = &jump;
    if (scenario != NULL)
        scenario->run(&world);
    else
        sim_run_seed(&world);
    sim_fini(&world);
    world.jump = NULL;
    world.totals.seeds = 1;
    return true;
}

static void report(const struct sim_totals *t, double seconds)
{
    printf("%llu seeds in %.1f s (%.0f/s): %llu events, %llu machine steps\n", (unsigned long long)t->seeds, seconds,
           (double)t->seeds / seconds, (unsigned long long)t->events, (unsigned long long)t->steps);
    printf("  decided at peers: %llu commits (%llu tiny), %llu aborts (lost %llu, mismatch %llu, aborted %llu, "
           "deadline %llu, internal %llu, members changed %llu)\n",
           (unsigned long long)t->commits, (unsigned long long)t->tiny_commits, (unsigned long long)t->aborts,
           (unsigned long long)t->classes[PCCL_CLASS_PEER_LOST], (unsigned long long)t->classes[PCCL_CLASS_MISMATCH],
           (unsigned long long)t->classes[PCCL_CLASS_ABORTED], (unsigned long long)t->classes[PCCL_CLASS_DEADLINE],
           (unsigned long long)t->classes[PCCL_CLASS_INTERNAL],
           (unsigned long long)t->classes[PCCL_CLASS_MEMBERS_CHANGED]);
    printf("  commits of all-reduce %llu, broadcast %llu, all-gather %llu, reduce-scatter %llu, barrier %llu, reduce "
           "%llu, gather %llu, scatter %llu, all-to-all %llu; of blobs: all-gather %llu, gather %llu, scatter %llu, "
           "all-to-all %llu; coalesced %llu; scans %llu, %llu\n",
           (unsigned long long)t->collectives[PCCL_ALL_REDUCE], (unsigned long long)t->collectives[PCCL_BROADCAST],
           (unsigned long long)t->collectives[PCCL_ALL_GATHER], (unsigned long long)t->collectives[PCCL_REDUCE_SCATTER],
           (unsigned long long)t->collectives[PCCL_BARRIER], (unsigned long long)t->collectives[PCCL_REDUCE],
           (unsigned long long)t->collectives[PCCL_GATHER], (unsigned long long)t->collectives[PCCL_SCATTER],
           (unsigned long long)t->collectives[PCCL_ALL_TO_ALL], (unsigned long long)t->collectives[PCCL_ALL_GATHER_V],
           (unsigned long long)t->collectives[PCCL_GATHER_V], (unsigned long long)t->collectives[PCCL_SCATTER_V],
           (unsigned long long)t->collectives[PCCL_ALL_TO_ALL_V], (unsigned long long)t->collectives[PCCL_COALESCED],
           (unsigned long long)t->collectives[PCCL_EXCLUSIVE_SCAN],
           (unsigned long long)t->collectives[PCCL_INCLUSIVE_SCAN]);
    printf(
        "  %llu joins, %llu kills, %llu drains, %llu returned as newcomers, %llu departures, %llu updates returned\n",
        (unsigned long long)t->joins, (unsigned long long)t->kills, (unsigned long long)t->drains,
        (unsigned long long)t->expulsions, (unsigned long long)t->departures, (unsigned long long)t->updates);
    printf(
        "  %llu synchronizations returned, %llu failed for all or one; %llu elections; %llu transfers, %llu in vain; "
        "%llu removed for their state\n",
        (unsigned long long)t->syncs, (unsigned long long)t->syncs_failed, (unsigned long long)t->elections,
        (unsigned long long)t->fetches, (unsigned long long)t->fetches_failed, (unsigned long long)t->state_refusals);
    printf("  %llu optimizations returned, %llu without a ring, %llu given up; %llu tests, %llu in vain; %llu "
           "searches; %llu "
           "rings adopted; %llu pictures\n",
           (unsigned long long)t->optimizations, (unsigned long long)t->no_rings,
           (unsigned long long)t->optimizations_withdrawn, (unsigned long long)t->tests,
           (unsigned long long)t->tests_failed, (unsigned long long)t->searches, (unsigned long long)t->adoptions,
           (unsigned long long)t->reports);
    printf("  %llu foundings launched, %llu subgroups founded at peers, %llu commits in them, %llu ends\n",
           (unsigned long long)t->foundings, (unsigned long long)t->founded, (unsigned long long)t->subgroup_commits,
           (unsigned long long)t->subgroups_ended);
    printf("  %llu sends ended well at one of the two ends, %llu were received from anybody\n",
           (unsigned long long)t->pair_commits, (unsigned long long)t->chosen);
    printf("  %llu rings planned anew, %llu operations begun again at peers; %llu views with hubs whose links stand\n",
           (unsigned long long)t->replans, (unsigned long long)t->restarts, (unsigned long long)t->hub_views);
    printf("  %llu master crashes, %llu stops, %llu resets, %llu at one end only, %llu failed handshakes\n",
           (unsigned long long)t->crashes, (unsigned long long)t->stops, (unsigned long long)t->resets,
           (unsigned long long)t->half_resets, (unsigned long long)t->handshakes_failed);
}

static bool replay_is_equal(uint64_t seed, uint64_t hash)
{
    hash_seed++;
    if (!run_one(seed, false, NULL))
        return false;
    if (world.totals.hash == hash)
        return true;
    snprintf(world.failure, sizeof world.failure, "seed %llu: two runs differ (%016llx, %016llx)",
             (unsigned long long)seed, (unsigned long long)hash, (unsigned long long)world.totals.hash);
    return false;
}

static int run_seeds(uint64_t first, uint64_t count, bool twice, bool keep_going, bool trace)
{
    struct sim_totals totals = {0};
    uint64_t failed = 0;
    clock_t began = clock();
    for (uint64_t seed = first; seed < first + count; seed++) {
        bool ok = run_one(seed, trace, NULL);
        if (ok)
            add(&totals, &world.totals);
        if (ok && twice)
            ok = replay_is_equal(seed, world.totals.hash);
        if (ok)
            continue;
        failed++;
        printf("FAILED %s\n", world.failure);
        fflush(stdout);
        if (!keep_going)
            break;
    }
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    report(&totals, seconds > 0 ? seconds : 1);
    if (failed > 0)
        printf("%llu failed; replay one with: sim --seed N --trace\n", (unsigned long long)failed);
    return failed > 0 ? 1 : 0;
}

static int run_scenario(const struct sim_scenario *scenario, bool trace)
{
    bool ok = run_one(1, trace, scenario);
    printf("%s %s%s%s\n", ok ? "ok    " : "FAILED", scenario->name, ok ? "" : ": ", ok ? "" : world.failure);
    fflush(stdout);
    return ok ? 0 : 1;
}

/* Runs the scenario of this name, or one in `every` of all, beginning at number `first`. */
static int run_scenarios(const char *name, uint64_t first, uint64_t every, bool trace)
{
    bool all = strcmp(name, "all") == 0;
    int failed = 0, found = 0;
    for (uint32_t i = 0; i < sim_scenario_count; i++)
        if (all ? (i + first) % every == 0 : strcmp(name, sim_scenarios[i].name) == 0) {
            found++;
            failed += run_scenario(&sim_scenarios[i], trace);
        }
    if (found == 0)
        fprintf(stderr, "no scenario is called %s; see sim --list\n", name);
    return failed > 0 || found == 0;
}

/* Lets allocation `at` and the next length - 1 of the directed run fail, for every `at` or once in `every`. */
static int run_oom(uint64_t first, uint64_t every, uint64_t length, bool keep_going, bool trace)
{
    enum { FAILED_MAX = 100 };
    volatile uint64_t at = first, failed = 0, made = first;
    for (; at <= made; at += every) {
        jmp_buf jump;
        sim_init(&world, 1, trace, false);
        if (setjmp(jump) == 0) {
            world.jump = &jump;
            made = sim_run_oom(&world, at, length);
            sim_fini(&world);
        } else {
            failed++;
            made = at + every;
            printf("FAILED from allocation %llu on, %llu: %s\n", (unsigned long long)at, (unsigned long long)length,
                   world.failure);
            fflush(stdout);
        }
        world.jump = NULL;
        if (trace || (failed > 0 && !keep_going) || failed == FAILED_MAX)
            break;
    }
    printf("%llu allocations; from each on %llu failed: %llu bad runs\n", (unsigned long long)at,
           (unsigned long long)length, (unsigned long long)failed);
    return failed > 0 ? 1 : 0;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: sim --seed N [--trace]                 one random run\n"
            "       sim --seeds COUNT [--first N] [--twice] [--keep-going]\n"
            "       sim --scenario NAME|all [--first K] [--every N] [--trace]\n"
            "       sim --oom LENGTH [--first K] [--every N] [--trace] [--keep-going]\n"
            "                                              LENGTH allocations fail, from each K, or each Nth, on\n"
            "       sim --list\n"
            "--mute-uses, --mute-state: the checker of use numbers, or of states, says nothing (for the audit)\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 0, oom = 0, every = 1;
    bool trace = false, twice = false, keep_going = false, list = false;
    const char *scenario = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--trace") == 0)
            trace = true;
        else if (strcmp(argv[i], "--twice") == 0)
            twice = true;
        else if (strcmp(argv[i], "--keep-going") == 0)
            keep_going = true;
        else if (strcmp(argv[i], "--mute-uses") == 0)
            mute_uses = true;
        else if (strcmp(argv[i], "--mute-state") == 0)
            mute_state = true;
        else if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (strcmp(argv[i], "--seed") == 0 && value != NULL)
            first = strtoull(argv[++i], NULL, 10), count = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && value != NULL)
            count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--first") == 0 && value != NULL)
            first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--oom") == 0 && value != NULL)
            oom = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--every") == 0 && value != NULL && strtoull(value, NULL, 10) > 0)
            every = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--scenario") == 0 && value != NULL)
            scenario = argv[++i];
        else
            return usage();
    }
    pccl_set_assert_handler(on_assert);
    if (list) {
        for (uint32_t i = 0; i < sim_scenario_count; i++)
            puts(sim_scenarios[i].name);
        return 0;
    }
    if (scenario != NULL)
        return run_scenarios(scenario, first, every, trace);
    if (oom > 0)
        return run_oom(first, every, oom, keep_going, trace);
    return count > 0 ? run_seeds(first, count, twice, keep_going, trace) : usage();
}
