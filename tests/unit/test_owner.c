/*
 * data/owner: hand-overs between the thread and drivers, one by one, and by several threads at random. Each request is
 * seen by an owner in time, and there is one owner.
 */
#include "unit.h"
#include "core/prng.h"
#include "data/owner.h"
#include "net/clock.h"

#include <sched.h>
#include <stdlib.h>
#include <stdatomic.h>

static bool has_input(void *argument);
static void parks_now(void *argument) { (void)argument; }
static const struct pccl_owner_calls calls_of_thread = {NULL, parks_now, has_input};

enum { HANG_US = 60000000 };

static struct fixture {
    struct pccl_owner owner;
    uv_thread_t thread;
    atomic_bool has_input, is_busy, ends;
    atomic_uint returns, timeouts,
        asked; /* returns to the loop; of these after 2 ms without a wake-up; calls of has_input */
    uv_sem_t may_park, has_returned;
} f;

static bool has_input(void *argument)
{
    (void)argument;
    atomic_fetch_add(&f.asked, 1);
    return atomic_load(&f.has_input);
}

/* The engine's thread: parks each time that the test allows it. */
static void parks(void *argument)
{
    (void)argument;
    for (;;) {
        uv_sem_wait(&f.may_park);
        if (atomic_load(&f.ends))
            return;
        enum pccl_owner_return returns = pccl_owner_park(&f.owner, atomic_load(&f.is_busy), &calls_of_thread);
        (void)pccl_owner_take_requests(&f.owner);
        atomic_fetch_add(&f.timeouts, returns == PCCL_OWNER_TIMED_OUT || returns == PCCL_OWNER_RESCUES);
        atomic_fetch_add(&f.returns, 1);
        uv_sem_post(&f.has_returned);
        if (returns == PCCL_OWNER_ENDS)
            return;
    }
}

static uint64_t rescues(struct pccl_owner *owner)
{
    uint64_t drives, count;
    pccl_owner_counts(owner, &drives, &count);
    return count;
}

static int set_up(void **state)
{
    (void)state;
    memset(&f, 0, sizeof f);
    assert_int_equal(pccl_owner_init(&f.owner), 0);
    assert_int_equal(uv_sem_init(&f.may_park, 0), 0);
    assert_int_equal(uv_sem_init(&f.has_returned, 0), 0);
    assert_int_equal(uv_thread_create(&f.thread, parks, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atomic_store(&f.ends, true);
    uv_sem_post(&f.may_park);
    (void)uv_thread_join(&f.thread);
    assert_int_equal(rescues(&f.owner), 0);
    uv_sem_destroy(&f.may_park);
    uv_sem_destroy(&f.has_returned);
    pccl_owner_fini(&f.owner);
    return 0;
}

#define OWNER_TEST(name) TEST_IN(name, set_up, tear_down)

/* Waits until the thread has parked, and takes the loop before it returns by itself. */
static void drive_parked(void)
{
    uint64_t end_us = pccl_now_us() + HANG_US;
    do {
        assert_true(pccl_now_us() < end_us);
        assert_true(pccl_owner_ask(&f.owner));
        uv_sem_post(&f.may_park);
        while (!pccl_owner_begin(&f.owner, false))
            if (uv_sem_trywait(&f.has_returned) == 0) /* too late: it owns the loop again */
                break;
        pccl_owner_release(&f.owner);
    } while (!pccl_owner_is_driver(&f.owner));
}

/* Waits until the thread owns the loop again. */
static void until_it_returns(void) { uv_sem_wait(&f.has_returned); }

OWNER_TEST(a_thread_that_is_not_invited_keeps_the_loop)
{
    bool promised = false;
    uv_sem_post(&f.may_park);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), 0);
    assert_false(pccl_owner_begin(&f.owner, false));
    assert_true(pccl_owner_request(&f.owner, PCCL_OWNER_PROMISED, &promised)); /* the loop must be woken */
    assert_false(promised);
}

OWNER_TEST(a_thread_with_requests_keeps_the_loop)
{
    assert_true(pccl_owner_ask(&f.owner));
    assert_true(pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL));
    uv_sem_post(&f.may_park);
    until_it_returns(); /* at once: it has not seen the request */
    assert_int_equal(atomic_load(&f.timeouts), 0);
    assert_false(pccl_owner_begin(&f.owner, false));
    pccl_owner_release(&f.owner);
}

OWNER_TEST(a_busy_thread_parks_only_for_a_driver_that_still_wants_the_loop)
{
    atomic_store(&f.is_busy, true);
    assert_true(pccl_owner_ask(&f.owner));
    pccl_owner_release(&f.owner); /* it has gone */
    uv_sem_post(&f.may_park);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), 0);
    drive_parked();
    pccl_owner_leave(&f.owner, true);
    until_it_returns();
}

OWNER_TEST(a_driver_that_goes_wakes_the_thread_that_has_parked_for_it)
{
    assert_true(pccl_owner_ask(&f.owner));
    uv_sem_post(&f.may_park);
    uint64_t end_us = pccl_now_us() + HANG_US;
    while (pccl_owner_ask(&f.owner)) { /* until it has parked, or is back after 2 ms */
        pccl_owner_release(&f.owner);
        assert_true(pccl_now_us() < end_us);
        if (uv_sem_trywait(&f.has_returned) == 0)
            uv_sem_post(&f.may_park);
    }
    pccl_owner_release(&f.owner);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), 0); /* it knew of the promise, or was woken */
}

/* Between its wake-up and its return, the thread loses the loop to a driver, which carries out the request. */
OWNER_TEST(a_driver_may_take_the_loop_before_the_woken_thread)
{
    uint64_t turn, end_us = pccl_now_us() + HANG_US;
    for (;;) {
        drive_parked();
        pccl_owner_leave(&f.owner, false);
        if (!pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL) && pccl_owner_begin(&f.owner, false))
            break;
        assert_true(pccl_now_us() < end_us);
        until_it_returns();
    }
    uint32_t timeouts = atomic_load(&f.timeouts);
    assert_false(pccl_owner_begin_wait(&f.owner, &turn)); /* it sees the request */
    (void)pccl_owner_take_requests(&f.owner);
    pccl_owner_leave(&f.owner, false);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), timeouts + 1); /* not woken: the request was carried out */
}

OWNER_TEST(a_driver_sees_its_own_requests_before_it_sleeps)
{
    uint64_t turn;
    drive_parked();
    assert_true(pccl_owner_begin_wait(&f.owner, &turn));
    assert_true(pccl_owner_end_wait(&f.owner, turn));
    assert_false(pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL)); /* no system call */
    assert_false(pccl_owner_begin_wait(&f.owner, &turn));
    (void)pccl_owner_take_requests(&f.owner);
    assert_true(pccl_owner_begin_wait(&f.owner, &turn));
    assert_true(pccl_owner_end_wait(&f.owner, turn));
    assert_false(pccl_owner_begin(&f.owner, false)); /* one driver */
    pccl_owner_leave(&f.owner, false);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), 1);
}

/* Leaves in each way that must wake the thread: it returns because it was woken. */
OWNER_TEST(work_that_a_driver_leaves_wakes_the_thread)
{
    for (int way = 0; way < 2; way++) {
        drive_parked();
        uint32_t timeouts = atomic_load(&f.timeouts);
        if (way == 1)
            assert_false(pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL));
        pccl_owner_leave(&f.owner, way == 0);
        until_it_returns();
        assert_int_equal(atomic_load(&f.timeouts), timeouts);
    }
}

OWNER_TEST(work_that_can_wait_is_found_after_2_ms)
{
    drive_parked();
    uint32_t timeouts = atomic_load(&f.timeouts);
    uint64_t left_us = pccl_now_us();
    assert_false(pccl_owner_request(&f.owner, PCCL_OWNER_LATE, NULL));
    pccl_owner_leave(&f.owner, false);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), timeouts + 1);
    assert_true(pccl_now_us() - left_us >= 2000);
}

static void request_soon(void *argument)
{
    bool *wakes = argument;
    *wakes = pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL);
}

OWNER_TEST(another_thread_wakes_the_driver_and_the_thread_follows_it)
{
    bool wakes = false;
    uint64_t turn;
    uv_thread_t other;
    drive_parked();
    uint32_t timeouts = atomic_load(&f.timeouts);
    assert_true(pccl_owner_begin_wait(&f.owner, &turn));
    assert_int_equal(uv_thread_create(&other, request_soon, &wakes), 0);
    (void)uv_thread_join(&other);
    assert_true(wakes);
    assert_true(pccl_owner_end_wait(&f.owner, turn));
    pccl_owner_leave(&f.owner, false); /* it has not checked the inbox */
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), timeouts);
}

OWNER_TEST(a_promise_keeps_the_thread_asleep_until_it_is_withdrawn)
{
    bool promised = false;
    drive_parked();
    uint32_t timeouts = atomic_load(&f.timeouts);
    pccl_owner_leave(&f.owner, false);
    if (pccl_owner_request(&f.owner, PCCL_OWNER_PROMISED, &promised)) {
        assert_false(promised); /* this thread was not scheduled for 2 ms, and the engine's one has returned */
        until_it_returns();
        return;
    }
    assert_true(promised);
    pccl_owner_release(&f.owner);
    until_it_returns();
    assert_int_equal(atomic_load(&f.timeouts), timeouts); /* also if it was late: the promise is known */
}

/* A driver whose thread has ended sleeps forever: the thread takes a loop that has input. */
OWNER_TEST(a_driver_that_does_not_return_loses_the_loop)
{
    uint64_t turn;
    drive_parked();
    assert_true(pccl_owner_begin_wait(&f.owner, &turn));
    while (atomic_load(&f.asked) < 2) /* without input it keeps the loop */
        sched_yield();
    assert_int_equal(uv_sem_trywait(&f.has_returned), UV_EAGAIN);
    atomic_store(&f.has_input, true);
    until_it_returns();
    assert_false(pccl_owner_end_wait(&f.owner, turn));
    assert_false(pccl_owner_is_driver(&f.owner));
    pccl_owner_leave(&f.owner, true); /* no effect */
    assert_false(pccl_owner_begin(&f.owner, false));
}

/* One that steps is in the loop, and keeps it. */
OWNER_TEST(a_driver_that_steps_keeps_the_loop)
{
    uint64_t turn;
    drive_parked();
    atomic_store(&f.has_input, true);
    uint64_t end_us = pccl_now_us() + 500000;
    while (pccl_now_us() < end_us) {
        assert_true(pccl_owner_begin_wait(&f.owner, &turn)); /* short waits */
        assert_true(pccl_owner_end_wait(&f.owner, turn));
        sched_yield();
    }
    assert_int_equal(atomic_load(&f.asked), 0);
    pccl_owner_leave(&f.owner, true);
    until_it_returns();
}

OWNER_TEST(the_end_of_the_loop_ends_the_thread)
{
    drive_parked();
    pccl_owner_end(&f.owner);
    until_it_returns();
    assert_false(pccl_owner_begin(&f.owner, false));
    assert_false(pccl_owner_request(&f.owner, PCCL_OWNER_SOON, NULL));
    assert_false(pccl_owner_ask(&f.owner));
}

/* ---- at random ---- */

enum { CALLERS = 3, ROUNDS = 3000 };

static struct {
    struct pccl_owner owner;
    uv_sem_t wake;               /* wake-up of the loop */
    uint64_t inside;             /* owners inside; only the owner writes it */
    atomic_uint requested, done; /* requests, and those that an owner has taken */
    atomic_uint pending;
    atomic_bool stop;
} r;

/* Checks that the owner is alone, and takes all requests. */
static void work_inside(void)
{
    if (r.inside++ != 0)
        abort();
    (void)pccl_owner_take_requests(&r.owner);
    atomic_fetch_add(&r.done, atomic_exchange(&r.pending, 0));
    r.inside--;
}

static bool nothing(void *argument)
{
    (void)argument;
    return false;
}

static void engine(void *unused)
{
    const struct pccl_owner_calls calls = {NULL, parks_now, nothing};
    (void)unused;
    while (!atomic_load(&r.stop)) {
        uv_sem_wait(&r.wake);
        work_inside();
        if (pccl_owner_park(&r.owner, atomic_load(&r.pending) > 0, &calls) == PCCL_OWNER_RESCUES)
            pccl_owner_count_rescue(&r.owner);
        work_inside();
    }
}

static void ask(enum pccl_owner_haste haste, bool *promised)
{
    atomic_fetch_add(&r.requested, 1);
    atomic_fetch_add(&r.pending, 1);
    if (pccl_owner_request(&r.owner, haste, promised))
        uv_sem_post(&r.wake);
}

static void await_done(uint32_t count)
{
    uint64_t end_us = pccl_now_us() + HANG_US;
    while (atomic_load(&r.done) < count) {
        if (pccl_now_us() > end_us)
            abort();
        sched_yield();
    }
}

static void drive_a_while(struct pccl_prng *prng)
{
    uint64_t turn;
    for (uint64_t i = pccl_prng_u64(prng) % 4; i > 0; i--) {
        work_inside();
        if (pccl_owner_begin_wait(&r.owner, &turn) && !pccl_owner_end_wait(&r.owner, turn))
            abort(); /* it was short */
    }
    work_inside();
    pccl_owner_leave(&r.owner, false);
}

static void calls(void *argument)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, (uint64_t)(uintptr_t)argument);
    for (int i = 0; i < ROUNDS; i++) {
        bool promised = false, drives = pccl_prng_u64(&prng) % 2;
        ask(drives ? PCCL_OWNER_PROMISED : PCCL_OWNER_SOON, &promised);
        if (promised && pccl_prng_u64(&prng) % 8 == 0) {
            pccl_owner_release(&r.owner);
        } else if (drives && pccl_owner_begin(&r.owner, promised)) {
            drive_a_while(&prng);
        }
        if (pccl_prng_u64(&prng) % 4 == 0)
            await_done(atomic_load(&r.requested));
        if (drives && pccl_owner_ask(&r.owner)) {
            uv_sem_post(&r.wake);
            if (pccl_prng_u64(&prng) % 2 && pccl_owner_begin(&r.owner, false))
                drive_a_while(&prng);
            pccl_owner_release(&r.owner);
        }
    }
}

TEST(no_request_is_forgotten_and_one_thread_is_inside)
{
    uv_thread_t thread, callers[CALLERS];
    memset(&r, 0, sizeof r);
    assert_int_equal(pccl_owner_init(&r.owner), 0);
    assert_int_equal(uv_sem_init(&r.wake, 0), 0);
    assert_int_equal(uv_thread_create(&thread, engine, NULL), 0);
    for (uintptr_t i = 0; i < CALLERS; i++)
        assert_int_equal(uv_thread_create(&callers[i], calls, (void *)(i + 1)), 0);
    for (int i = 0; i < CALLERS; i++)
        (void)uv_thread_join(&callers[i]);
    await_done(atomic_load(&r.requested));
    assert_int_equal(rescues(&r.owner), 0);
    atomic_store(&r.stop, true);
    uv_sem_post(&r.wake);
    (void)uv_thread_join(&thread);
    uv_sem_destroy(&r.wake);
    pccl_owner_fini(&r.owner);
}
