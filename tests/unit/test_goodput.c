/* master/goodput: the use of the members' time, with planted lateness, and with reports that cannot be true. */
#include "unit.h"

#include "master/goodput.h"
#include "master/state.h"
#include "net/heap.h"

enum { MEMBERS = 4, A_SECOND_US = 1000000, LAST = 2 };

struct run {
    struct pccl_master master;
    struct pccl_peer_group group;
    struct pccl_remote remotes[MEMBERS], *all[MEMBERS];
    struct pccl_hash_key hash;
    struct pccl_times times[MEMBERS];
    uint64_t key;
};

static void begin(struct run *run)
{
    memset(run, 0, sizeof *run);
    run->master.memory = *pccl_heap();
    run->master.now_us = A_SECOND_US;
    run->master.remotes = run->all;
    run->master.remote_count = run->group.ring_count = MEMBERS;
    pccl_hash_key_init(&run->master.hash, 1);
    pccl_table_init(&run->master.by_id, pccl_heap(), &run->master.hash);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct pccl_remote *remote = run->all[i] = &run->remotes[i];
        remote->id = (struct pccl_id){{(uint8_t)(i + 1)}};
        remote->group = &run->group;
        remote->joined_us = run->master.now_us;
        pccl_table_insert(&run->master.by_id, &remote->by_id, pccl_id_hash(&run->master.hash, &remote->id));
    }
}

static void end(struct run *run)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        pccl_goodput_forget(&run->master, &run->remotes[i]);
    pccl_goodput_drop(&run->master, &run->group);
    pccl_table_fini(&run->master.by_id);
}

/*
 * One second of a member with `count` rounds, of which it reports at most 8. Each takes `took_us`, during the last
 * `blocked_us` of which the program waited.
 */
static void report(struct run *run, uint32_t i, uint32_t count, uint32_t took_us, uint32_t blocked_us)
{
    struct pccl_seen_round rounds[PCCL_TELEMETRY_ROUNDS_MAX];
    uint32_t sent = (uint32_t)pccl_min_u64(count, PCCL_TELEMETRY_ROUNDS_MAX);
    for (uint32_t k = 0; k < sent; k++)
        rounds[k] = (struct pccl_seen_round){run->key + k, took_us, blocked_us};
    run->times[i].lived_us += A_SECOND_US;
    run->times[i].operating_us += (uint64_t)count * blocked_us;
    run->times[i].rounds_us += (uint64_t)count * blocked_us;
    struct pccl_msg_sight telemetry = {
        .window_ms = 1000, .times = run->times[i], .rounds = rounds, .rounds_count = sent};
    pccl_goodput_take(&run->master, &run->remotes[i], &telemetry);
}

/* Lets a second pass in which LAST enters each round late. */
static void pass(struct run *run, uint32_t count, uint32_t late_us, uint32_t moving_us)
{
    run->master.now_us += A_SECOND_US;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        uint32_t took_us = moving_us + (i == LAST ? 0 : late_us);
        report(run, i, count, took_us, took_us);
    }
    run->key += PCCL_TELEMETRY_ROUNDS_MAX;
}

static void is_near(uint64_t value, uint64_t wanted) { assert_true(value + 100 >= wanted && value <= wanted + 100); }

TEST(waits_are_divided_and_named)
{
    static struct run run;
    begin(&run);
    for (uint32_t n = 0; n < 10; n++)
        pass(&run, 3, 100000, 50000);
    pccl_goodput_settle(&run.master);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct pccl_goodput *goodput = run.remotes[i].goodput;
        is_near(goodput->whole[PCCL_TIME_WAITING], i == LAST ? 0 : 3000000);
        is_near(goodput->whole[PCCL_TIME_MOVING], 1500000);
        is_near(goodput->whole[PCCL_TIME_COMPUTING], i == LAST ? 8500000 : 5500000);
        const struct pccl_id *by = pccl_goodput_delayed_by(goodput);
        assert_true(i == LAST ? by == NULL : by != NULL && pccl_id_equal(by, &run.remotes[LAST].id));
    }
    is_near(run.master.tally.time_us[PCCL_TIME_WAITING], 9000000);
    is_near(run.remotes[LAST].goodput->delayed_us, 9000000);
    end(&run);
}

/* The waits of a second with more rounds than a report contains are estimated from the reported ones. */
TEST(many_rounds_are_scaled)
{
    static struct run run;
    begin(&run);
    for (uint32_t n = 0; n < 10; n++)
        pass(&run, 40, 15000, 5000);
    pccl_goodput_settle(&run.master);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_WAITING], 6000000);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_MOVING], 2000000);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_COMPUTING], 2000000);
    end(&run);
}

/* A program that computes while an operation waits for others loses no time. */
TEST(overlapped_waits_do_not_count)
{
    static struct run run;
    begin(&run);
    run.master.now_us += A_SECOND_US;
    report(&run, LAST, 1, 100000, 100000);
    report(&run, 0, 1, 600000, 300000); /* the last member entered 500 ms later, 200 ms after the begin of the await */
    report(&run, 1, 1, 600000, 50000);
    report(&run, 3, 1, 600000, 0);
    pccl_goodput_settle(&run.master);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_WAITING], 200000);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_MOVING], 100000);
    is_near(run.remotes[1].goodput->whole[PCCL_TIME_WAITING], 0);
    is_near(run.remotes[1].goodput->whole[PCCL_TIME_MOVING], 50000);
    is_near(run.remotes[3].goodput->whole[PCCL_TIME_COMPUTING], A_SECOND_US);
    end(&run);
}

/* A round that too few members report is not divided, but its time is not lost. */
TEST(lone_rounds_count_as_moving)
{
    static struct run run;
    begin(&run);
    run.master.now_us += A_SECOND_US;
    run.group.ring_count = 5;
    report(&run, 0, 1, 400000, 400000);
    report(&run, LAST, 1, 100000, 100000);
    pccl_goodput_settle(&run.master);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_MOVING], 0);
    run.master.now_us += PCCL_GOODPUT_SETTLED_US;
    pccl_goodput_settle(&run.master);
    is_near(run.remotes[0].goodput->whole[PCCL_TIME_MOVING], 400000);
    end(&run);
}

/* A member with impossible sums gets at most the time that has passed; the figures of the others do not change. */
TEST(impossible_sums_are_limited)
{
    static struct run sound, run;
    for (struct run *each = &sound; each != NULL; each = each == &sound ? &run : NULL) {
        begin(each);
        struct pccl_prng prng = unit_prng(7);
        for (uint32_t n = 0; n < 50; n++) {
            pass(each, 3, 100000, 50000);
            for (uint32_t k = 0; each == &run && k < 40; k++) {
                struct pccl_seen_round rounds[PCCL_TELEMETRY_ROUNDS_MAX];
                for (uint32_t i = 0; i < PCCL_TELEMETRY_ROUNDS_MAX; i++)
                    rounds[i] = (struct pccl_seen_round){pccl_prng_u64(&prng), UINT32_MAX, UINT32_MAX};
                struct pccl_msg_sight lie = {.window_ms = 1,
                                             .times = {.lived_us = pccl_prng_u64(&prng),
                                                       .operating_us = pccl_prng_u64(&prng),
                                                       .rounds_us = UINT64_MAX,
                                                       .lost_us = pccl_prng_u64(&prng) >> k,
                                                       .joint_us = pccl_prng_u64(&prng) >> k},
                                             .rounds = rounds,
                                             .rounds_count = PCCL_TELEMETRY_ROUNDS_MAX};
                pccl_goodput_take(&each->master, &each->remotes[3], &lie);
            }
        }
        each->master.now_us += PCCL_GOODPUT_SETTLED_US;
        pccl_goodput_settle(&each->master);
    }
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t use = 0; use < PCCL_TIME_USES; use++)
            is_near(run.remotes[i].goodput->whole[use], sound.remotes[i].goodput->whole[use]);
    uint64_t passed_us = run.master.now_us - A_SECOND_US + PCCL_GOODPUT_TOLERANCE_US;
    assert_true(pccl_tally_sum(run.remotes[3].goodput->whole, PCCL_TIME_USES) <= passed_us);
    assert_true(pccl_tally_sum(run.master.tally.time_us, PCCL_TIME_USES) <= MEMBERS * passed_us);
    end(&sound);
    end(&run);
}

/* After a restart a member's own figures contain the time before; the run's begin again. */
TEST(sums_before_a_restart_belong_to_the_member)
{
    static struct run run;
    begin(&run);
    run.remotes[0].joined_us = 0;
    run.master.now_us += A_SECOND_US;
    struct pccl_msg_sight first = {.window_ms = 1000,
                                   .times = {.lived_us = 100 * (uint64_t)A_SECOND_US,
                                             .operating_us = 20 * (uint64_t)A_SECOND_US,
                                             .lost_us = 10 * (uint64_t)A_SECOND_US}};
    pccl_goodput_take(&run.master, &run.remotes[0], &first);
    const struct pccl_goodput *goodput = run.remotes[0].goodput;
    is_near(goodput->whole[PCCL_TIME_COMPUTING], 70 * (uint64_t)A_SECOND_US);
    is_near(goodput->whole[PCCL_TIME_MOVING], 20 * (uint64_t)A_SECOND_US);
    is_near(goodput->whole[PCCL_TIME_LOST], 10 * (uint64_t)A_SECOND_US);
    assert_int_equal(pccl_tally_sum(run.master.tally.time_us, PCCL_TIME_USES), 0);
    run.master.now_us += A_SECOND_US;
    first.times.lived_us += A_SECOND_US;
    pccl_goodput_take(&run.master, &run.remotes[0], &first);
    is_near(run.master.tally.time_us[PCCL_TIME_COMPUTING], A_SECOND_US);
    first.times.lived_us = 5; /* a sum that falls adds nothing */
    pccl_goodput_take(&run.master, &run.remotes[0], &first);
    is_near(pccl_tally_sum(run.master.tally.time_us, PCCL_TIME_USES), A_SECOND_US);
    end(&run);
}
