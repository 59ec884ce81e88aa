/* data/pace: against a simulated path. */
#include "unit.h"
#include "data/pace.h"

enum { RTT_US = 50000, STEP_US = 1000, MB = 1000000 };

/*
 * Sends as fast as the bound and the path allow for this time, in steps; bytes that arrive are acknowledged in bursts.
 */
struct path {
    struct pccl_pace pace;
    uint64_t now_us, sent, delivered;
    uint64_t rate, burst_us;
    uint64_t percent; /* share of the bytes allowed that it sends, in percent */
    bool starving;
    bool waits; /* for credit */
};

static struct path path_of(uint64_t rate)
{
    return (struct path){.now_us = 1000000, .rate = rate, .burst_us = STEP_US, .percent = 100};
}

static void run(struct path *path, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        uint64_t rate = path->pace.bound != 0 ? pccl_min_u64(path->pace.bound, path->rate) : path->rate;
        path->now_us += STEP_US;
        pccl_pace_starve(&path->pace, path->now_us, path->starving, path->waits);
        path->sent += rate * STEP_US / 1000000 * path->percent / 100;
        if (path->now_us % path->burst_us == 0)
            path->delivered = path->sent;
        if (pccl_pace_is_due(&path->pace, path->now_us))
            pccl_pace_look(&path->pace, path->now_us, path->delivered, RTT_US,
                           rate * path->percent / 100 >= path->rate * 95 / 100);
    }
}

static void assert_near(uint64_t value, uint64_t wanted, uint64_t percent)
{
    assert_in_range(value, wanted - wanted * percent / 100, wanted + wanted * percent / 100);
}

TEST(no_bound_before_it_is_known)
{
    struct path path = path_of(MB);
    run(&path, 100);
    assert_int_equal(path.pace.bound, 0);
    for (int i = 0; i < 8; i++) { /* as connections begin: twice as fast each time */
        path.rate *= 2;
        run(&path, 100);
        assert_int_equal(path.pace.bound, 0);
    }
    run(&path, 1000);
    assert_near(path.pace.bound, path.rate * 11 / 10, 3);
}

TEST(little_to_send_bounds_nothing)
{
    struct path path = path_of(10 * MB);
    for (int i = 0; i < 2000; i++) {
        path.starving = i % 2 == 0;
        run(&path, 1);
    }
    assert_int_equal(path.pace.bound, 0);
}

/* The root of a broadcast: the line is full, and no more granted bytes are left to send. */
TEST(who_waits_behind_a_queue_is_bounded)
{
    for (int queue = 0; queue < 2; queue++) {
        struct path path = path_of(10 * MB);
        path.waits = true;
        path.percent = queue ? 100 : 90;
        for (int i = 0; i < 2000; i++) {
            path.starving = i % 2 == 0;
            run(&path, 1);
        }
        if (queue)
            assert_near(path.pace.bound, 11 * MB, 3);
        else
            assert_int_equal(path.pace.bound, 0);
    }
}

TEST(bursts_do_not_matter)
{
    struct path path = path_of(100 * MB);
    path.burst_us = 17000;
    run(&path, 3000);
    assert_in_range(path.pace.bound, 100 * MB, 150 * MB);
}

TEST(the_bound_follows_the_path)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    assert_near(path.pace.bound, 110 * MB, 3);
    path.rate = 30 * MB;
    run(&path, 11000);
    assert_near(path.pace.bound, 33 * MB, 3);
    path.rate = 100 * MB;
    run(&path, 4000);
    assert_near(path.pace.bound, 110 * MB, 3);
}

/* A part of the possible load is missing all the time, which alone must not lower the bound. */
TEST(losses_do_not_bring_it_down)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    for (int i = 0; i < 200; i++) {
        path.rate = i % 3 == 0 ? 60 * MB : 100 * MB;
        run(&path, 50);
    }
    assert_in_range(path.pace.bound, 90 * MB, 125 * MB);
}

/* One connection was slow for a while, and others with it: it recovers to the rate of its path. */
TEST(others_do_not_keep_it_down)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    path.rate = 10 * MB;
    run(&path, 11000);
    assert_near(path.pace.bound, 11 * MB, 3);
    path.rate = 100 * MB;
    path.percent = 80;
    run(&path, 4000);
    assert_in_range(path.pace.bound, 100 * MB, 250 * MB);
}

/*
 * Delayed for some seconds, while the round trip is longer for another reason than a queue: the pace remembers the rate
 * of the path.
 */
TEST(it_does_not_sink_at_once)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    path.rate = 10 * MB;
    run(&path, 4000);
    assert_near(path.pace.bound, 75 * MB, 3);
    path.rate = 100 * MB;
    run(&path, 1000);
    assert_near(path.pace.bound, 110 * MB, 3);
}

TEST(pauses_leave_it_as_it_is)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    for (int i = 0; i < 50; i++) {
        pccl_pace_interrupt(&path.pace);
        path.now_us += 300000;
        run(&path, 200);
        assert_near(path.pace.bound, 110 * MB, 3);
    }
    path.delivered = path.sent = 0; /* other connections */
    pccl_pace_interrupt(&path.pace);
    run(&path, 200);
    assert_near(path.pace.bound, 110 * MB, 3);
}

/*
 * Operations of two round trips: granted bytes are sent at once, and the sender looks again only when the first of them
 * is known to be delivered.
 */
TEST(the_first_round_trip_is_no_part_of_a_sample)
{
    struct path path = path_of(100 * MB);
    for (int i = 0; i < 12; i++) {
        pccl_pace_interrupt(&path.pace);
        pccl_pace_look(&path.pace, path.now_us, path.delivered, RTT_US, true);
        path.now_us += RTT_US;
        run(&path, 60);
    }
    assert_near(path.pace.bound, 110 * MB, 3);
}

TEST(a_long_pause_forgets)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    pccl_pace_interrupt(&path.pace);
    path.now_us += 20 * 1000000;
    run(&path, 10);
    assert_int_equal(path.pace.bound, 0);
}

/* Too little load for a measurement: the bound does not stay forever. */
TEST(without_samples_it_is_lifted)
{
    struct path path = path_of(100 * MB);
    run(&path, 1000);
    assert_true(path.pace.bound > 0);
    path.starving = true;
    run(&path, 9000);
    assert_true(path.pace.bound > 0);
    run(&path, 2000);
    assert_int_equal(path.pace.bound, 0);
}
