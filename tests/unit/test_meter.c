/* topology/meter: against simulated paths. */
#include "unit.h"
#include "core/prng.h"
#include "topology/meter.h"

enum { STEP_US = 100, SEGMENT = 1448, KB = 1000, MB = 1000000, MS = 1000, BEGUN_US = 5000000 };
#define GB UINT64_C(1000000000)

enum sender { AT_ONCE, SLOW_START, PACED_SLOW_START, BBR };

/*
 * A bottleneck with a token bucket, and a sender in front of it. Windowed senders send their first window at once
 * (SLOW_START) or over half a round trip, and double it each round trip until the queue has overflowed; then they keep
 * the queue full. BBR doubles its rate until it sees no growth, and then cycles through the eight phases of its
 * probing.
 */
struct path {
    const char *name;
    uint64_t rate;
    uint64_t line;  /* rate while there are tokens; 0: as fast as the bottleneck */
    uint64_t burst; /* bytes of tokens in the bucket at the start */
    uint64_t queue; /* bytes that fit into it; 0: twice the bytes in flight */
    enum sender sender;
    uint32_t rtt_us;
    uint32_t relay_us;              /* interval at which bytes that have passed are handed on */
    uint32_t dip_every_us, dip_us;  /* interval and duration of a dip to half the rate */
    uint32_t stall_us, stall_at_us; /* stall during which no byte passes */
    uint32_t scatter;               /* percent by which the rate of each 5 ms differs at most */
    uint32_t sample_us, jitter_us;  /* interval of reports, and the most by which one is late */
    /* The expected result of the meter. */
    uint32_t limit_ms, settled_ms; /* settled_ms 0: must not settle */
    uint32_t error;                /* percent */
    bool idle_rtt_unknown;
};

struct run {
    const struct path *path;
    struct pccl_prng prng;
    uint64_t now_us, bytes, handed, window, unsent, queued, tokens, pace;
    bool filled;
    uint64_t factor; /* percent, for scatter */
};

static uint64_t under_way(const struct path *path) { return path->rate * path->rtt_us / 1000000 + 4 * SEGMENT; }

static uint64_t queue_of(const struct path *path) { return path->queue != 0 ? path->queue : 2 * under_way(path); }

/* Adds the bytes that the sender puts into the queue in this step. */
static void send_windowed(struct run *run)
{
    const struct path *path = run->path;
    uint64_t round = run->now_us / path->rtt_us, before = (run->now_us - STEP_US) / path->rtt_us;
    if (run->filled) { /* from now on one byte is added for each that leaves */
        run->queued = pccl_max_u64(run->queued, queue_of(path) / 2);
        return;
    }
    if (run->now_us == STEP_US || round != before) {
        run->window = run->window == 0 ? 10 * SEGMENT : run->window * 2;
        run->unsent = run->window;
    }
    uint64_t half = pccl_max_u64(path->rtt_us / 2 / STEP_US, 1);
    uint64_t now = path->sender == SLOW_START ? run->unsent : pccl_min_u64(run->unsent, run->window / half + 1);
    run->unsent -= now;
    run->queued += now;
    if (run->queued > queue_of(path)) {
        run->queued = queue_of(path);
        run->filled = true;
    }
}

static void send_bbr(struct run *run)
{
    static const uint32_t percent[] = {125, 75, 100, 100, 100, 100, 100, 100};
    const struct path *path = run->path;
    uint64_t round = run->now_us / path->rtt_us;
    if (run->pace == 0)
        run->pace = UINT64_C(10) * SEGMENT * 1000000 / path->rtt_us;
    if (!run->filled && round != (run->now_us - STEP_US) / path->rtt_us) {
        run->filled = run->pace > 4 * path->rate;
        run->pace = run->filled ? path->rate : run->pace * 2;
    }
    uint64_t pace = run->filled ? run->pace * percent[round % 8] / 100 : run->pace;
    run->queued = pccl_min_u64(run->queued + pace * STEP_US / 1000000, queue_of(path));
}

static uint64_t rate_now(struct run *run)
{
    const struct path *path = run->path;
    if (path->stall_us != 0 && run->now_us >= path->stall_at_us && run->now_us < path->stall_at_us + path->stall_us)
        return 0;
    if (run->now_us % (5 * MS) == 0 && path->scatter > 0)
        run->factor = 100 - path->scatter + pccl_prng_below(&run->prng, 2 * path->scatter + 1);
    bool is_dip = path->dip_us != 0 && run->now_us % path->dip_every_us > path->dip_every_us - path->dip_us;
    return path->rate * run->factor / 100 / (is_dip ? 2 : 1);
}

static void step(struct run *run)
{
    const struct path *path = run->path;
    run->now_us += STEP_US;
    uint64_t rate = rate_now(run), gets = rate * STEP_US / 1000000;
    if (path->line > 0 && rate > 0) {
        uint64_t more = pccl_min_u64(run->tokens, path->line * STEP_US / 1000000);
        run->tokens -= more;
        gets += more;
    }
    switch (path->sender) {
    case AT_ONCE: run->queued = gets; break;
    case SLOW_START:
    case PACED_SLOW_START: send_windowed(run); break;
    case BBR: send_bbr(run); break;
    }
    gets = pccl_min_u64(gets, run->queued);
    run->queued -= gets;
    run->bytes += gets;
    if (path->relay_us == 0 || run->now_us % path->relay_us == 0)
        run->handed = run->bytes;
}

struct result {
    uint64_t rate, done_ms;
    bool settled;
};

static struct result measure(const struct path *path, uint64_t seed)
{
    struct run run = {.path = path, .tokens = path->burst, .factor = 100};
    struct pccl_meter meter;
    uint64_t sample_us = path->sample_us, late_us = 0, seen = 0, limit_us = UINT64_C(1000) * path->limit_ms;
    pccl_prng_seed(&run.prng, seed);
    pccl_meter_begin(&meter, BEGUN_US, path->idle_rtt_unknown ? 0 : path->rtt_us, limit_us);
    while (!pccl_meter_is_done(&meter, BEGUN_US + run.now_us)) {
        assert_true(run.now_us < limit_us);
        step(&run);
        if (run.now_us == sample_us)
            seen = run.handed; /* reported now; the report arrives a bit later */
        if (run.now_us == sample_us + late_us) {
            pccl_meter_add(&meter, BEGUN_US + run.now_us, seen);
            sample_us += path->sample_us;
            late_us = path->jitter_us == 0 ? 0 : pccl_prng_below(&run.prng, path->jitter_us / STEP_US) * STEP_US;
        }
    }
    return (struct result){pccl_meter_rate(&meter), run.now_us / 1000, meter.settled != 0};
}

static void check(const struct path *paths, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        const struct path *path = &paths[i];
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct result result = measure(path, seed);
            uint64_t off = result.rate > path->rate ? result.rate - path->rate : path->rate - result.rate;
            uint64_t within_ms = path->settled_ms != 0 ? path->settled_ms : path->limit_ms;
            if (off > path->rate * path->error / 100 || result.done_ms > within_ms ||
                result.settled != (path->settled_ms != 0)) {
                print_error("%s, seed %u: %u of %u KB/s after %u ms%s\n", path->name, (unsigned)seed,
                            (unsigned)(result.rate / KB), (unsigned)(path->rate / KB), (unsigned)result.done_ms,
                            result.settled ? "" : ", not settled");
                bad++;
            }
        }
    }
    assert_int_equal(bad, 0);
}

#define NEAR .rtt_us = 50, .sample_us = 4 * MS, .limit_ms = 1000
#define FAR .rtt_us = 50 * MS, .sample_us = 5 * MS, .limit_ms = 2000

TEST(near_paths_settle_soon)
{
    static const struct path paths[] = {
        {"loopback, 5 GB/s", 5 * GB, .sender = AT_ONCE, NEAR, .settled_ms = 60, .error = 2},
        {"loopback, scattering by 10 %", 3 * GB, .sender = AT_ONCE, NEAR, .scatter = 10, .settled_ms = 200,
         .error = 10},
        {"loopback, scattering by 40 %", 3 * GB, .sender = AT_ONCE, NEAR, .scatter = 40, .settled_ms = 700,
         .error = 20},
        {"reports late by up to 2 ms", 3 * GB, .sender = AT_ONCE, NEAR, .jitter_us = 2 * MS, .settled_ms = 160,
         .error = 10},
        {"LAN, 1 Gbit/s", 125 * MB, .sender = SLOW_START, .rtt_us = 300, .sample_us = 3 * MS, .limit_ms = 1000,
         .settled_ms = 65, .error = 2},
        {"LAN, 10 Gbit/s, windows", 1250 * MB, .sender = PACED_SLOW_START, .rtt_us = 1000, .sample_us = 3 * MS,
         .limit_ms = 1000, .settled_ms = 80, .error = 2},
        {"a bucket of 8 ms", 50 * MB, .sender = AT_ONCE, NEAR, .line = GB, .burst = 8 * MB, .settled_ms = 80,
         .error = 3},
        {"a bucket of 25 ms", 50 * MB, .sender = AT_ONCE, NEAR, .line = GB, .burst = 25 * MB, .settled_ms = 100,
         .error = 3},
        {"a relay that hands on each 5 ms", 50 * MB, .sender = AT_ONCE, NEAR, .relay_us = 5 * MS, .settled_ms = 250,
         .error = 10},
        {"a relay that hands on each 20 ms", 50 * MB, .sender = AT_ONCE, NEAR, .relay_us = 20 * MS, .settled_ms = 500,
         .error = 10},
        {"a relay that hands on each 30 ms", 50 * MB, .sender = AT_ONCE, NEAR, .relay_us = 30 * MS, .settled_ms = 500,
         .error = 10},
        {"a relay that hands on each 37 ms", 50 * MB, .sender = AT_ONCE, NEAR, .relay_us = 37 * MS, .settled_ms = 500,
         .error = 10},
        {"1280 kbit/s", 160 * KB, .sender = AT_ONCE, NEAR, .settled_ms = 60, .error = 2},
    };
    check(paths, PCCL_COUNT_OF(paths));
}

TEST(far_paths_settle_when_they_are_up)
{
    static const struct path paths[] = {
        {"40 Mbit/s", 5 * MB, .sender = SLOW_START, FAR, .settled_ms = 600, .error = 5},
        {"200 Mbit/s", 25 * MB, .sender = SLOW_START, FAR, .settled_ms = 750, .error = 5},
        {"1 Gbit/s", 125 * MB, .sender = SLOW_START, FAR, .settled_ms = 850, .error = 5},
        {"40 Mbit/s, paced", 5 * MB, .sender = PACED_SLOW_START, FAR, .settled_ms = 600, .error = 5},
        {"200 Mbit/s, paced", 25 * MB, .sender = PACED_SLOW_START, FAR, .settled_ms = 750, .error = 5},
        {"1 Gbit/s, paced", 125 * MB, .sender = PACED_SLOW_START, FAR, .settled_ms = 850, .error = 5},
        {"40 Mbit/s, BBR", 5 * MB, .sender = BBR, FAR, .settled_ms = 700, .error = 10},
        {"200 Mbit/s, BBR", 25 * MB, .sender = BBR, FAR, .settled_ms = 900, .error = 10},
        {"1 Gbit/s, BBR", 125 * MB, .sender = BBR, FAR, .settled_ms = 1100, .error = 10},
        {"1 Gbit/s, BBR, small queue", 125 * MB, .sender = BBR, FAR, .queue = 500 * KB, .settled_ms = 1100,
         .error = 10},
        {"a bucket of 1 MB", 5 * MB, .sender = SLOW_START, FAR, .line = GB, .burst = MB, .settled_ms = 900,
         .error = 10},
        {"a bucket of 4 MB", 25 * MB, .sender = SLOW_START, FAR, .line = GB, .burst = 4 * MB, .settled_ms = 900,
         .error = 10},
        {"a bucket of 2 MB, BBR", 25 * MB, .sender = BBR, FAR, .line = GB, .burst = 2 * MB, .settled_ms = 1100,
         .error = 10},
        {"a relay that hands on each 20 ms", 5 * MB, .sender = SLOW_START, FAR, .relay_us = 20 * MS, .settled_ms = 900,
         .error = 10},
        {"reports late by up to 20 ms", 25 * MB, .sender = SLOW_START, .rtt_us = 50 * MS, .sample_us = 25 * MS,
         .limit_ms = 2000, .jitter_us = 20 * MS, .settled_ms = 1500, .error = 10},
        {"200 ms, 100 Mbit/s", 12500 * KB, .sender = SLOW_START, .rtt_us = 200 * MS, .sample_us = 10 * MS,
         .limit_ms = 6000, .settled_ms = 3000, .error = 5},
        {"unknown round trip", 25 * MB, .sender = PACED_SLOW_START, FAR, .idle_rtt_unknown = true, .settled_ms = 1100,
         .error = 5},
        {"unknown round trip of 200 ms", 25 * MB, .sender = PACED_SLOW_START, .rtt_us = 200 * MS, .sample_us = 10 * MS,
         .limit_ms = 5000, .idle_rtt_unknown = true, .settled_ms = 3500, .error = 10},
    };
    check(paths, PCCL_COUNT_OF(paths));
}

TEST(dips_and_stalls)
{
    static const struct path paths[] = {
        {"near, a dip of 15 ms each 100 ms", 500 * MB, .sender = AT_ONCE, NEAR, .dip_every_us = 100 * MS,
         .dip_us = 15 * MS, .settled_ms = 200, .error = 10},
        {"far, a dip of a round trip each 400 ms", 25 * MB, .sender = SLOW_START, FAR, .dip_every_us = 400 * MS,
         .dip_us = 50 * MS, .settled_ms = 1200, .error = 10},
        {"far, many short dips", 25 * MB, .sender = SLOW_START, FAR, .dip_every_us = 120 * MS, .dip_us = 15 * MS,
         .settled_ms = 1200, .error = 12},
        {"near, a stall at once", 500 * MB, .sender = AT_ONCE, NEAR, .stall_at_us = 0, .stall_us = 200 * MS,
         .settled_ms = 300, .error = 10},
        {"near, a stall after 20 ms", 500 * MB, .sender = AT_ONCE, NEAR, .stall_at_us = 20 * MS, .stall_us = 250 * MS,
         .settled_ms = 450, .error = 10},
        {"near, a stall for most of the time", 500 * MB, .sender = AT_ONCE, NEAR, .stall_at_us = 20 * MS,
         .stall_us = 900 * MS, .settled_ms = 1000, .error = 10},
        {"far, a stall in the slow start", 25 * MB, .sender = SLOW_START, FAR, .stall_at_us = 220 * MS,
         .stall_us = 300 * MS, .settled_ms = 1200, .error = 10},
        {"far, a stall when the queue overflows", 25 * MB, .sender = SLOW_START, FAR, .stall_at_us = 480 * MS,
         .stall_us = 250 * MS, .settled_ms = 1300, .error = 10},
        {"far, little scatter", 25 * MB, .sender = PACED_SLOW_START, FAR, .scatter = 20, .settled_ms = 1000,
         .error = 10},
        {"far, much scatter", 25 * MB, .sender = PACED_SLOW_START, FAR, .scatter = 60, .settled_ms = 1500, .error = 15},
    };
    check(paths, PCCL_COUNT_OF(paths));
}

/* Its rate never becomes steady: the later part decides. */
TEST(the_limit_ends_it)
{
    static const struct path paths[] = {
        {"too far to settle", 125 * MB, .sender = SLOW_START, .rtt_us = 200 * MS, .sample_us = 5 * MS, .limit_ms = 3000,
         .error = 10},
        {"less than four windows", 50 * MB, .sender = AT_ONCE, .rtt_us = 50, .sample_us = 4 * MS, .limit_ms = 25,
         .error = 10},
        {"less than a window", 50 * MB, .sender = AT_ONCE, .rtt_us = 50, .sample_us = 2 * MS, .limit_ms = 7,
         .error = 10},
        {"less than a round trip", 50 * MB, .sender = AT_ONCE, .rtt_us = 500 * MS, .sample_us = 5 * MS, .limit_ms = 300,
         .error = 10},
        {"two samples", 50 * MB, .sender = AT_ONCE, .rtt_us = 50, .sample_us = 200 * MS, .limit_ms = 450, .error = 10},
        {"one sample", 50 * MB, .sender = AT_ONCE, .rtt_us = 50, .sample_us = 300 * MS, .limit_ms = 450, .error = 10},
        {"a stall at last", 50 * MB, .sender = AT_ONCE, .rtt_us = 30 * MS, .sample_us = 4 * MS, .limit_ms = 100,
         .stall_at_us = 88 * MS, .stall_us = 50 * MS, .error = 10},
    };
    check(paths, PCCL_COUNT_OF(paths));
}

TEST(growth_is_not_taken_for_the_rate)
{
    static const struct path path = {"", 125 * MB, .sender = SLOW_START, FAR};
    for (uint32_t limit_ms = 60; limit_ms <= 420; limit_ms += 20) { /* it is up after about 450 ms */
        struct path cut = path;
        cut.limit_ms = limit_ms;
        struct result result = measure(&cut, 1);
        assert_false(result.settled);
        assert_int_equal(result.done_ms, limit_ms);
        uint64_t round = (limit_ms * MS - 10 * MS) / path.rtt_us, window = (10 * SEGMENT) << round;
        uint64_t latest = window * 1000000 / path.rtt_us;
        assert_in_range(result.rate, limit_ms < 300 ? 1 : latest / 2, latest * 3 / 2);
    }
}

TEST(nothing_arrives)
{
    struct pccl_meter meter;
    pccl_meter_begin(&meter, BEGUN_US, 100, 500 * MS);
    assert_int_equal(pccl_meter_rate(&meter), 0);
    for (uint64_t us = 0; us < 500 * MS; us += MS) {
        pccl_meter_add(&meter, BEGUN_US + us, 0);
        assert_false(pccl_meter_is_done(&meter, BEGUN_US + us));
    }
    assert_false(pccl_meter_is_done(&meter, BEGUN_US + 500 * MS - 1));
    assert_true(pccl_meter_is_done(&meter, BEGUN_US + 500 * MS));
    assert_int_equal(pccl_meter_rate(&meter), 0);
}

/* It was fast, and then it stopped: its figure is neither the old one nor 0. */
TEST(what_has_stopped_is_slow)
{
    struct pccl_meter meter;
    pccl_meter_begin(&meter, BEGUN_US, 100, 1000 * MS);
    for (uint64_t us = 0; us <= 20 * MS; us += 4 * MS)
        pccl_meter_add(&meter, BEGUN_US + us, us * 1000);
    assert_in_range(pccl_meter_rate(&meter), 900 * MB, 1100 * MB);
    for (uint64_t us = 24 * MS; us < 1000 * MS; us += 4 * MS) {
        pccl_meter_add(&meter, BEGUN_US + us, 20 * MB);
        assert_false(pccl_meter_is_done(&meter, BEGUN_US + us));
    }
    assert_in_range(pccl_meter_rate(&meter), 19 * MB, 21 * MB);

    pccl_meter_begin(&meter, BEGUN_US, 100, 1000 * MS);
    pccl_meter_add(&meter, BEGUN_US + 4 * MS, 1);
    pccl_meter_add(&meter, BEGUN_US + 1000 * MS * MS, 1);
    assert_int_equal(pccl_meter_rate(&meter), 1); /* less than a byte per second */
}

/* This process is suspended: a sample after a long time, or all delayed samples, at the same moment or one by one. */
TEST(standing_still_does_no_harm)
{
    for (uint32_t how = 0; how < 3; how++) {
        for (uint64_t at_us = 0; at_us < 60 * MS; at_us += 4 * MS) {
            struct pccl_meter meter;
            pccl_meter_begin(&meter, BEGUN_US, 100, 2000 * MS);
            uint64_t us = 0;
            for (uint64_t sent_us = 4 * MS; !pccl_meter_is_done(&meter, BEGUN_US + us); sent_us += 4 * MS) {
                bool held = sent_us > at_us && sent_us < at_us + 300 * MS;
                us = held ? at_us + 300 * MS + how * (sent_us - at_us) / 100 : pccl_max_u64(us, sent_us);
                if (!held || how > 0)
                    pccl_meter_add(&meter, BEGUN_US + us, sent_us * 100);
            }
            assert_true(us < 500 * MS);
            assert_in_range(pccl_meter_rate(&meter), 92 * MB, 108 * MB);
        }
    }
}

TEST(large_numbers)
{
    struct pccl_meter meter;
    const uint64_t gone = UINT64_C(10000000000000); /* 10^13, at 10^10 a second */
    pccl_meter_begin(&meter, BEGUN_US, 100, 10000 * MS);
    uint64_t us = 0;
    for (; !pccl_meter_is_done(&meter, BEGUN_US + us); us += 4 * MS)
        pccl_meter_add(&meter, BEGUN_US + us, gone + us * 10000);
    assert_true(us < 60 * MS);
    assert_int_equal(pccl_meter_rate(&meter), 10 * GB);

    pccl_meter_begin(&meter, 0, 100, UINT64_MAX);
    pccl_meter_add(&meter, 1000000000, gone);
    assert_int_equal(pccl_meter_rate(&meter), 10 * GB);
    pccl_meter_begin(&meter, 0, 100, UINT64_MAX);
    pccl_meter_add(&meter, 1, UINT64_MAX);
    assert_int_equal(pccl_meter_rate(&meter), UINT64_MAX);
    pccl_meter_begin(&meter, 0, UINT32_MAX, UINT64_MAX);
    pccl_meter_add(&meter, UINT64_MAX, UINT64_MAX);
    assert_in_range(pccl_meter_rate(&meter), 999999, 1000001);
    assert_true(pccl_meter_is_done(&meter, UINT64_MAX));
}

TEST(time_and_bytes_never_go_back)
{
    struct pccl_meter meter;
    pccl_meter_begin(&meter, BEGUN_US, 100, 500 * MS);
    pccl_meter_add(&meter, 0, 0);
    assert_false(pccl_meter_is_done(&meter, 0));
    pccl_meter_add(&meter, 0, MB); /* at once */
    pccl_meter_add(&meter, BEGUN_US, 2 * MB);
    assert_true(pccl_meter_rate(&meter) > 0);
    for (uint64_t us = 4 * MS; us <= 40 * MS; us += 4 * MS) {
        pccl_meter_add(&meter, BEGUN_US + us, 2 * MB + us * 100);
        pccl_meter_add(&meter, BEGUN_US + us / 2, us);
    }
    assert_in_range(pccl_meter_rate(&meter), 99 * MB, 101 * MB);
}

/* Four windows within 9 %, but each faster than the one before, or slower: the figure is not settled yet. */
TEST(a_trend_is_not_settled)
{
    static const uint32_t percent[][5] = {{100, 103, 106, 109, 112}, {112, 109, 106, 103, 100}};
    for (size_t i = 0; i < PCCL_COUNT_OF(percent); i++) {
        struct pccl_meter meter;
        uint64_t bytes = 1;
        pccl_meter_begin(&meter, BEGUN_US, 100, 500 * MS);
        for (uint64_t k = 0; k < 5; k++, bytes += percent[i][k - 1] * MB / 100) {
            pccl_meter_add(&meter, BEGUN_US + k * 10 * MS, bytes);
            assert_false(pccl_meter_is_done(&meter, BEGUN_US + k * 10 * MS));
        }
        pccl_meter_add(&meter, BEGUN_US + 50 * MS, bytes);
        assert_false(pccl_meter_is_done(&meter, BEGUN_US + 50 * MS));
        pccl_meter_add(&meter, BEGUN_US + 60 * MS, bytes + 106 * MB / 100);
        assert_true(pccl_meter_is_done(&meter, BEGUN_US + 60 * MS));
        assert_in_range(pccl_meter_rate(&meter), 103 * MB, 110 * MB);
    }
}

/* Bytes that arrive late, with the sample that ends a window, belong to that window, not to the next one. */
TEST(samples_of_the_same_moment_are_one)
{
    struct pccl_meter meter;
    pccl_meter_begin(&meter, BEGUN_US, 100, 500 * MS);
    pccl_meter_add(&meter, BEGUN_US + 4 * MS, 1);
    pccl_meter_add(&meter, BEGUN_US + 4 * MS, 100 * MB);
    pccl_meter_add(&meter, BEGUN_US + 24 * MS, 101 * MB);
    pccl_meter_add(&meter, BEGUN_US + 24 * MS, 102 * MB);
    assert_int_equal(pccl_meter_rate(&meter), 100 * MB);
}

/* Once settled, its figure does not change, for any later samples. */
TEST(settled_is_settled)
{
    struct pccl_meter meter;
    uint64_t us = 0;
    pccl_meter_begin(&meter, BEGUN_US, 100, 2000 * MS);
    for (; !pccl_meter_is_done(&meter, BEGUN_US + us); us += 4 * MS)
        pccl_meter_add(&meter, BEGUN_US + us, 1 + us * 100);
    for (; us < 2000 * MS; us += 4 * MS) {
        pccl_meter_add(&meter, BEGUN_US + us, 1 + us * 200);
        assert_true(pccl_meter_is_done(&meter, BEGUN_US + us));
    }
    assert_in_range(pccl_meter_rate(&meter), 99 * MB, 101 * MB);
}

/* For any samples, it keeps within its bounds: the sanitizers check the rest. */
TEST(anything_may_be_told)
{
    struct pccl_prng prng = unit_prng(21);
    uint32_t settled = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        struct pccl_meter meter;
        uint64_t begun = pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64), now = begun, bytes = 0;
        uint64_t limit = pccl_prng_u64(&prng) >> pccl_prng_below(&prng, 64);
        pccl_meter_begin(&meter, begun, (uint32_t)(pccl_prng_u64(&prng) >> (32 + pccl_prng_below(&prng, 32))), limit);
        uint32_t far = 20 + (uint32_t)pccl_prng_below(&prng, 44), much = (uint32_t)pccl_prng_below(&prng, 64);
        for (uint32_t i = 0; i < 300; i++) {
            now += pccl_prng_u64(&prng) >> far >> pccl_prng_below(&prng, 20); /* may wrap around */
            bytes += pccl_prng_u64(&prng) >> much;
            pccl_meter_add(&meter, now, bytes);
            assert_in_range(meter.mark_count, 0, PCCL_METER_WINDOWS);
            assert_true(bytes == 0 || meter.last.bytes > 0);
            assert_int_equal(pccl_meter_rate(&meter) > 0, meter.last.bytes > 0);
            assert_true(now < begun || now - begun < limit || pccl_meter_is_done(&meter, now));
        }
        settled += meter.settled != 0;
    }
    assert_in_range(settled, 50, 2900);
}
