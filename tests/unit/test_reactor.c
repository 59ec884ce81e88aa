/*
 * net/reactor: no wake-up is lost, a suspended process reads before it judges by time, and every
 * order of beginning and ending works.
 */
#include "unit.h"
#include "loopback.h"
#include "net/alarm.h"
#include "net/dialer.h"
#include "net/guard.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "os/resolve.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    WAKES = 20000,
    STILL_US = 300 * 1000,
    HANG_US = LOOPBACK_HANG_MS * 1000,
    FILES_MAX = 64, /* far more than a loop needs, or this program has open */
};

struct world {
    struct pccl_reactor reactor;
    bool by_turns; /* the other thread waits until its news was received */
    uv_sem_t heard_of;
    atomic_uint sent;
    uint32_t woken, wakes_left, ticks, heard, heard_before, polls;
    uint64_t due_us, ticked_us, again_us, polling_us;
    uv_poll_t poll;
    int ends[2];
};

static struct world *world_of(struct pccl_reactor *reactor)
{
    return PCCL_CONTAINER_OF(reactor, struct world, reactor);
}

static void stand_still(uint64_t us)
{
    uint64_t until_us = pccl_now_us() + us;
    while (pccl_now_us() < until_us)
        continue;
}

static int count_files(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    assert_int_equal(closedir(folder), 0);
    return count;
}

static void open_world(struct world *world, const struct pccl_reactor_events *events)
{
    *world = (struct world){0};
    assert_int_equal(pccl_reactor_open(&world->reactor, events), 0);
}

static void hangs(struct pccl_reactor *reactor) { fail_msg("nothing happened"); }

/* ---- waking ---- */

static void send_wakes(void *argument)
{
    struct world *world = argument;
    for (uint32_t i = 0; i < WAKES; i++) {
        atomic_fetch_add(&world->sent, 1);
        pccl_reactor_wake(&world->reactor);
        if (world->by_turns)
            uv_sem_wait(&world->heard_of);
    }
}

static void see_what_was_sent(struct pccl_reactor *reactor)
{
    struct world *world = world_of(reactor);
    uint32_t sent = atomic_load(&world->sent);
    if (world->by_turns && sent > world->woken)
        uv_sem_post(&world->heard_of);
    world->woken = sent;
    if (sent == WAKES)
        pccl_reactor_stop(reactor);
}

/* Everything sent before the last wake-up is seen; otherwise the loop would sleep until the test hangs. */
static void wake_from_another_thread(bool by_turns)
{
    static const struct pccl_reactor_events events = {.woken = see_what_was_sent, .ticked = hangs};
    struct world world;
    uv_thread_t thread;
    open_world(&world, &events);
    world.by_turns = by_turns;
    assert_int_equal(uv_sem_init(&world.heard_of, 0), 0);
    pccl_reactor_set_due(&world.reactor, pccl_now_us() + HANG_US);
    assert_int_equal(uv_thread_create(&thread, send_wakes, &world), 0);
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(world.woken, WAKES);
    pccl_reactor_close(&world.reactor);
    uv_sem_destroy(&world.heard_of);
}

TEST(no_wake_of_another_thread_is_lost) { wake_from_another_thread(false); }

TEST(each_wakes_a_loop_that_sleeps) { wake_from_another_thread(true); }

static void wake_again(struct pccl_reactor *reactor)
{
    struct world *world = world_of(reactor);
    world->woken++;
    if (world->wakes_left-- > 0)
        pccl_reactor_wake(reactor);
    else
        pccl_reactor_stop(reactor);
}

TEST(many_wakes_are_one_and_those_from_inside_come_again)
{
    static const struct pccl_reactor_events events = {.woken = wake_again, .ticked = hangs};
    struct world world;
    open_world(&world, &events);
    world.wakes_left = 2;
    pccl_reactor_set_due(&world.reactor, pccl_now_us() + HANG_US);
    for (int i = 0; i < 10; i++)
        pccl_reactor_wake(&world.reactor); /* before it runs */
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.woken, 3);
    pccl_reactor_close(&world.reactor);
}

/* ---- time ---- */

static void note_tick(struct pccl_reactor *reactor)
{
    struct world *world = world_of(reactor);
    world->ticks++;
    world->ticked_us = pccl_now_us();
    world->heard_before = world->heard;
    pccl_reactor_stop(reactor);
}

static const struct pccl_reactor_events ticking = {.ticked = note_tick};

TEST(it_ticks_once_and_never_early)
{
    for (uint32_t us = 0; us < 5000; us += 50) {
        struct world world;
        open_world(&world, &ticking);
        uint64_t due_us = pccl_now_us() + us;
        pccl_reactor_set_due(&world.reactor, due_us);
        stand_still(us / 2); /* the loop's time, in whole milliseconds, moves on by one more than has passed */
        assert_true(pccl_reactor_run(&world.reactor));
        assert_int_equal(world.ticks, 1);
        assert_true(world.ticked_us >= due_us);
        assert_int_equal(world.reactor.due_us, UINT64_MAX);
        pccl_reactor_close(&world.reactor);
    }
}

TEST(the_last_time_counts)
{
    struct world world;
    open_world(&world, &ticking);
    pccl_reactor_set_due(&world.reactor, pccl_now_us() + HANG_US);
    pccl_reactor_set_due(&world.reactor, 0); /* long ago: now */
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.ticks, 1);
    pccl_reactor_close(&world.reactor);
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    struct world *world = poll->data;
    char byte;
    assert_int_equal(status, 0);
    assert_true(events & UV_READABLE);
    assert_int_equal(read(world->ends[0], &byte, 1), 1);
    world->heard++;
    if (world->again_us)
        pccl_reactor_set_due(&world->reactor, world->again_us);
}

static void watch_input(struct world *world)
{
    assert_int_equal(pipe(world->ends), 0);
    assert_int_equal(uv_poll_init(&world->reactor.loop, &world->poll, world->ends[0]), 0);
    world->poll.data = world;
    assert_int_equal(uv_poll_start(&world->poll, UV_READABLE, on_input), 0);
}

static void close_input(struct world *world)
{
    uv_close((uv_handle_t *)&world->poll, NULL);
    pccl_reactor_close(&world->reactor);
    (void)close(world->ends[0]);
    (void)close(world->ends[1]);
}

/* The process was suspended until long after the time, and input arrived during the suspension. */
static void stand_still_past_due(struct world *world)
{
    open_world(world, &ticking);
    watch_input(world);
    pccl_reactor_set_due(&world->reactor, pccl_now_us() + 1000);
    assert_int_equal(write(world->ends[1], "", 1), 1);
    stand_still(STILL_US);
}

TEST(who_stood_still_reads_before_the_tick)
{
    struct world world;
    stand_still_past_due(&world);
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.ticks, 1);
    assert_int_equal(world.heard_before, 1);
    close_input(&world);
}

TEST(what_is_read_then_may_set_the_time_anew)
{
    struct world world;
    stand_still_past_due(&world);
    world.again_us = pccl_now_us() + STILL_US;
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.ticks, 1);
    assert_true(world.ticked_us >= world.again_us);
    close_input(&world);
}

static void note_polling(struct pccl_reactor *reactor) { world_of(reactor)->polling_us = pccl_now_us(); }

static void note_polled(struct pccl_reactor *reactor, uint64_t received_us)
{
    struct world *world = world_of(reactor);
    assert_true(received_us >= world->polling_us && received_us <= pccl_now_us());
    if (++world->polls == 100)
        pccl_reactor_stop(reactor);
    else
        pccl_reactor_hurry(reactor);
}

/* Nothing else would end these waits. */
TEST(who_is_in_a_hurry_does_not_wait)
{
    static const struct pccl_reactor_events events = {.polling = note_polling, .polled = note_polled, .ticked = hangs};
    struct world world;
    open_world(&world, &events);
    pccl_reactor_set_due(&world.reactor, pccl_now_us() + HANG_US);
    pccl_reactor_hurry(&world.reactor);
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.polls, 100);
    pccl_reactor_close(&world.reactor);
}

static void count_polls(struct pccl_reactor *reactor, uint64_t received_us) { world_of(reactor)->polls++; }

/* A loop that never waits again would turn thousands of times. */
TEST(who_was_in_a_hurry_once_waits_again)
{
    static const struct pccl_reactor_events events = {.polled = count_polls, .ticked = note_tick};
    struct world world;
    open_world(&world, &events);
    pccl_reactor_hurry(&world.reactor);
    pccl_reactor_set_due(&world.reactor, pccl_now_us() + STILL_US);
    assert_true(pccl_reactor_run(&world.reactor));
    assert_true(world.polls < 10);
    pccl_reactor_close(&world.reactor);
}

/* ---- the end ---- */

struct tenants {
    struct world world;
    struct pccl_channel channel;
    struct pccl_alarm alarm;
    struct pccl_listener listener;
    uv_work_t work;
    bool channel_released, alarm_closed, worked;
};

static void on_visit(struct pccl_channel *channel, int ready) { fail(); }

static void on_released(struct pccl_channel *channel)
{
    PCCL_CONTAINER_OF(channel, struct tenants, channel)->channel_released = true;
}

static void on_alarm(struct pccl_alarm *alarm) { fail(); }

static void on_alarm_closed(uv_handle_t *alarm)
{
    struct tenants *tenants = alarm->data;
    tenants->alarm_closed = true;
}

static void work_slowly(uv_work_t *work) { stand_still(STILL_US / 10); }

static void on_worked(uv_work_t *work, int status) { PCCL_CONTAINER_OF(work, struct tenants, work)->worked = true; }

static void on_accepted(void *owner, struct pccl_connection *connection) { fail(); }

static void on_dialed(void *context, struct pccl_connection *connection, enum pccl_link_end how,
                      const struct pccl_text *reason)
{
    fail();
}

static void on_resolved(void *context, const struct pccl_address *addresses, uint32_t count,
                        const struct pccl_text *reason)
{
    fail();
}

static void open_channel(struct tenants *tenants, int *bare)
{
    static const struct pccl_channel_events events = {.visit = on_visit, .released = on_released};
    uv_os_sock_t ours;
    loopback_pair(&ours, bare);
    pccl_channel_init(&tenants->channel, pccl_heap(), ours, &events);
    assert_true(pccl_channel_open(&tenants->channel, &tenants->world.reactor.loop));
    pccl_channel_watch(&tenants->channel, UV_READABLE);
    pccl_channel_limit(&tenants->channel, LOOPBACK_HANG_MS);
}

static void open_listener(struct tenants *tenants, const struct pccl_hash_key *hash)
{
    static const struct pccl_connection_events events = {0};
    struct pccl_text reason;
    struct pccl_address address;
    assert_true(pccl_resolve_numeric(&(struct pccl_host){.name = "127.0.0.1"}, &address));
    tenants->listener = (struct pccl_listener){.loop = &tenants->world.reactor.loop,
                                               .memory = pccl_heap(),
                                               .hash = hash,
                                               .strangers_max = 4,
                                               .events = &events,
                                               .accepted = on_accepted};
    assert_int_equal(pccl_listener_open(&tenants->listener, &address, 1, 0, 1, &reason), 0);
}

static struct pccl_dialer *dial(struct tenants *tenants)
{
    struct pccl_address address;
    struct pccl_host host = {.name = "127.0.0.1", .port = tenants->listener.port};
    assert_true(pccl_resolve_numeric(&host, &address));
    struct pccl_dial dial = {.addresses = &address,
                             .count = 1,
                             .stagger_ms = LOOPBACK_HANG_MS,
                             .timeout_ms = LOOPBACK_HANG_MS,
                             .done = on_dialed};
    return pccl_dialer_start(&tenants->world.reactor.loop, pccl_heap(), &dial);
}

/* For any content of the loop: its owner closes it, and it is released before pccl_reactor_close returns. */
TEST(it_closes_when_handles_of_every_kind_were_open)
{
    struct tenants tenants = {0};
    struct pccl_hash_key hash;
    struct pccl_resolve resolve = {.hosts = &(struct pccl_host){.name = "localhost"}, .count = 1, .done = on_resolved};
    int before = count_files(), bare;
    uv_loop_t *loop = &tenants.world.reactor.loop;
    open_world(&tenants.world, &ticking);
    open_channel(&tenants, &bare);
    pccl_hash_key_init(&hash, 1);
    open_listener(&tenants, &hash);
    struct pccl_dialer *dialer = dial(&tenants);
    struct pccl_resolver *resolver = pccl_resolver_start(loop, pccl_heap(), &resolve);
    assert_true(dialer && resolver);
    pccl_alarm_init(&tenants.alarm, loop, on_alarm, &tenants);
    pccl_alarm_set(&tenants.alarm, pccl_now_us() + HANG_US);
    assert_int_equal(uv_queue_work(loop, &tenants.work, work_slowly, on_worked), 0);
    pccl_reactor_set_due(&tenants.world.reactor, pccl_now_us() + HANG_US);
    pccl_reactor_wake(&tenants.world.reactor);

    pccl_channel_close(&tenants.channel);
    pccl_listener_close(&tenants.listener);
    pccl_dialer_cancel(dialer);
    (void)pccl_resolver_cancel(resolver);
    pccl_alarm_close(&tenants.alarm, on_alarm_closed);
    pccl_reactor_close(&tenants.world.reactor);
    assert_true(tenants.channel_released && tenants.alarm_closed && tenants.worked);
    assert_int_equal(tenants.world.ticks, 0);
    pccl_channel_fini(&tenants.channel);
    (void)close(bare);
    assert_int_equal(count_files(), before);
}

static void end_it(struct pccl_reactor *reactor)
{
    world_of(reactor)->woken++;
    pccl_reactor_set_due(reactor, pccl_now_us()); /* of no effect */
    pccl_reactor_end(reactor);
}

static void note_last(uv_timer_t *timer)
{
    struct world *world = timer->data;
    world->heard++;
    uv_close((uv_handle_t *)timer, NULL);
}

/* A last message may still be in flight. */
TEST(it_ends_with_the_last_that_others_have_in_it)
{
    static const struct pccl_reactor_events events = {.woken = end_it, .ticked = note_tick};
    struct world world;
    uv_timer_t last;
    open_world(&world, &events);
    assert_int_equal(uv_timer_init(&world.reactor.loop, &last), 0);
    last.data = &world;
    assert_int_equal(uv_timer_start(&last, note_last, 20, 0), 0);
    pccl_reactor_wake(&world.reactor);
    assert_true(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.woken, 1);
    assert_int_equal(world.heard, 1);
    assert_int_equal(world.ticks, 0);
    pccl_reactor_close(&world.reactor);
}

static void stop_it(struct pccl_reactor *reactor)
{
    world_of(reactor)->woken++;
    pccl_reactor_set_due(reactor, 0);
    pccl_reactor_stop(reactor);
}

TEST(who_stops_it_is_not_told_the_time)
{
    static const struct pccl_reactor_events events = {.woken = stop_it, .ticked = note_tick};
    struct world world;
    open_world(&world, &events);
    for (uint32_t i = 1; i < 3; i++) { /* its content stays, and it may continue */
        pccl_reactor_wake(&world.reactor);
        assert_true(pccl_reactor_run(&world.reactor));
        assert_int_equal(world.woken, i);
        assert_int_equal(world.ticks, 0);
    }
    pccl_reactor_close(&world.reactor);
}

static void break_it(struct pccl_reactor *reactor) { pccl_guard_leave(); }

TEST(a_broken_loop_is_left_in_the_middle)
{
    static const struct pccl_reactor_events events = {.woken = break_it, .polled = note_polled};
    static struct world world; /* it stays behind */
    open_world(&world, &events);
    pccl_reactor_wake(&world.reactor);
    assert_false(pccl_reactor_run(&world.reactor));
    assert_int_equal(world.polls, 0);
}

/* ---- the beginning ---- */

static int open_and_close(void)
{
    struct pccl_reactor reactor;
    int error = pccl_reactor_open(&reactor, &ticking);
    if (error == 0)
        pccl_reactor_close(&reactor);
    return error;
}

/* Opens a reactor with only this number of free descriptors. */
static int open_with(int free_files)
{
    struct rlimit before, few;
    int files[FILES_MAX], count = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = FILES_MAX;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((files[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    while (free_files-- > 0)
        assert_int_equal(close(files[--count]), 0);
    int error = open_and_close();
    while (count > 0)
        assert_int_equal(close(files[--count]), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    return error;
}

/* libuv creates its objects of the process with its first loop, and cannot handle a failure of that. */
TEST(the_first_loop_of_a_process_may_fail)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int needed = 0, error;
        while ((error = open_with(needed)) == UV_EMFILE)
            needed++;
        _exit(error == 0 && needed >= 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(each_descriptor_that_is_missing_is_told)
{
    int needed = 0;
    assert_int_equal(open_and_close(), 0);
    int before = count_files();
    while (open_with(needed) != 0) {
        assert_int_equal(open_with(needed), UV_EMFILE);
        assert_int_equal(count_files(), before);
        needed++;
    }
    assert_true(needed >= 2); /* to wait, and to be woken */
    assert_int_equal(count_files(), before);
}

static bool no_memory, no_wake;

static void *allocate_zeroed(size_t count, size_t bytes) { return no_memory ? NULL : calloc(count, bytes); }

int __real_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback);
int __wrap_uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb callback)
{
    bool is_ours = async != &loop->wq_async; /* libuv, linked statically, calls this, too */
    return no_wake && is_ours ? UV_ENOMEM : __real_uv_async_init(loop, async, callback);
}

/* Provides libuv's allocations. If libuv ends the process for lack of memory, the test cannot prevent it. */
TEST(want_of_memory_is_told)
{
    assert_int_equal(open_and_close(), 0);
    int before = count_files();
    no_memory = true;
    int error = open_and_close();
    no_memory = false;
    assert_int_equal(error, UV_ENOMEM);
    assert_int_equal(count_files(), before);
}

TEST(a_loop_that_cannot_be_woken_is_none)
{
    assert_int_equal(open_and_close(), 0);
    int before = count_files();
    no_wake = true;
    int error = open_and_close();
    no_wake = false;
    assert_int_equal(error, UV_ENOMEM);
    assert_int_equal(count_files(), before);
    assert_int_equal(open_and_close(), 0);
}

int main(void)
{
    if (uv_replace_allocator(malloc, realloc, allocate_zeroed, free) != 0)
        return 1;
    return unit_run(NULL, NULL);
}
