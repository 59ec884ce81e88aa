/* net/alarm: when it rings, and that a suspended process reads its input first. */
#include "unit.h"
#include "net/alarm.h"

enum { LONG_US = (PCCL_STILL_MS + 50) * 1000 };

struct world {
    uv_loop_t loop;
    struct pccl_alarm alarm;
    uv_async_t news; /* signals the news that arrived since the last one */
    uint64_t again_us;
    uint32_t rings, heard, heard_before;
    uint64_t rang_us;
};

static void on_ring(struct pccl_alarm *alarm)
{
    struct world *world = alarm->timer.data;
    world->rings++;
    world->rang_us = pccl_now_us();
    world->heard_before = world->heard;
    uv_close((uv_handle_t *)&world->news, NULL);
}

static void on_news(uv_async_t *news)
{
    struct world *world = news->data;
    world->heard++;
    if (world->again_us)
        pccl_alarm_set(&world->alarm, world->again_us);
}

static void begin(struct world *world)
{
    *world = (struct world){0};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(uv_async_init(&world->loop, &world->news, on_news), 0);
    world->news.data = world;
    pccl_alarm_init(&world->alarm, &world->loop, on_ring, world);
}

/* Runs until nothing is left to wait for. */
static void end(struct world *world)
{
    (void)uv_run(&world->loop, UV_RUN_DEFAULT);
    pccl_alarm_close(&world->alarm, NULL);
    (void)uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static void stand_still(uint64_t us)
{
    uint64_t until_us = pccl_now_us() + us;
    while (pccl_now_us() < until_us)
        continue;
}

TEST(it_rings_once_and_never_early)
{
    for (uint32_t us = 0; us < 5000; us += 50) {
        struct world world;
        begin(&world);
        uint64_t due_us = pccl_now_us() + us;
        pccl_alarm_set(&world.alarm, due_us);
        assert_true(pccl_alarm_is_set(&world.alarm));
        stand_still(us / 2); /* the loop's time, in whole milliseconds, moves on by one more than has passed */
        end(&world);
        assert_int_equal(world.rings, 1);
        assert_true(world.rang_us >= due_us);
    }
}

TEST(the_last_time_counts)
{
    struct world world;
    begin(&world);
    pccl_alarm_set(&world.alarm, pccl_now_us() + 3600 * UINT64_C(1000000));
    pccl_alarm_set(&world.alarm, 0); /* long ago: now */
    end(&world);
    assert_int_equal(world.rings, 1);
}

TEST(never_is_never)
{
    struct world world;
    begin(&world);
    pccl_alarm_set(&world.alarm, pccl_now_us());
    pccl_alarm_set(&world.alarm, UINT64_MAX);
    assert_false(pccl_alarm_is_set(&world.alarm));
    uv_close((uv_handle_t *)&world.news, NULL);
    end(&world);
    assert_int_equal(world.rings, 0);
}

TEST(who_stood_still_listens_first)
{
    struct world world;
    begin(&world);
    pccl_alarm_set(&world.alarm, pccl_now_us());
    assert_int_equal(uv_async_send(&world.news), 0);
    stand_still(LONG_US);
    end(&world);
    assert_int_equal(world.rings, 1);
    assert_int_equal(world.heard_before, 1);
}

TEST(what_is_heard_then_may_set_it_anew)
{
    struct world world;
    begin(&world);
    pccl_alarm_set(&world.alarm, pccl_now_us());
    world.again_us = pccl_now_us() + 2 * LONG_US;
    assert_int_equal(uv_async_send(&world.news), 0);
    stand_still(LONG_US);
    end(&world);
    assert_int_equal(world.rings, 1);
    assert_true(world.rang_us >= world.again_us);
}

static void on_other(uv_timer_t *other)
{
    stand_still(5000); /* several of the loop's milliseconds */
    uv_update_time(other->loop);
    uv_close((uv_handle_t *)other, NULL);
}

/* Other timers of the turn may take long. */
TEST(input_is_read_before_it_rings)
{
    struct world world;
    uv_timer_t other;
    begin(&world);
    assert_int_equal(uv_timer_init(&world.loop, &other), 0);
    assert_int_equal(uv_timer_start(&other, on_other, PCCL_STILL_MS / 2, 0), 0); /* due later, so it is called later */
    assert_int_equal(uv_async_send(&world.news), 0);
    pccl_alarm_set(&world.alarm, pccl_now_us());
    stand_still(LONG_US);
    end(&world);
    assert_true(world.rings == 1 && world.heard_before == 1);
}
