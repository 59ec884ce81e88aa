/*
 * Callers that drive the engine's loop while they wait, through the public functions: alone, beside other threads and
 * asynchronous operations, with a progress callback, and with a limit. Results are right, and the engine's thread never
 * finds work of which it should have been told.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_world.h"
#include "drive/comm_lock.h"
#include "drive/communicator.h"

#include <sched.h>
#include <stdlib.h>

enum { COUNT = 16384, TIMES = 200, CALLERS = 3, HANG_US = 60000000 };

static int start_two(void **state) { return start_world(state, 2, "8192"); }
static int start_three(void **state) { return start_world(state, 3, "8192"); }

/* A thread of a peer that calls many times. Its assertions are in `wrong`. */
struct caller {
    pcclComm_t *comm;
    int peers, rank;
    uint64_t tag;
    bool async;
    float *elements;
    uint32_t wrong;
};

static pcclResult_t reduce(struct caller *caller)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclAsyncReduceOp_t handle;
    options.tag = caller->tag;
    if (!caller->async)
        return pcclAllReduceWithOptions(caller->elements, caller->elements, COUNT, pcclFloat, pcclSum, &options,
                                        caller->comm, NULL);
    pcclResult_t result = pcclAllReduceWithOptionsAsync(caller->elements, caller->elements, COUNT, pcclFloat, pcclSum,
                                                        &options, caller->comm, &handle);
    return result == pcclSuccess ? pcclAwaitAsyncReduce(&handle, NULL) : result;
}

static void call_often(void *argument)
{
    struct caller *caller = argument;
    float sum = (float)(caller->peers * (caller->peers + 1) / 2);
    for (int i = 0; i < TIMES; i++) {
        for (size_t k = 0; k < COUNT; k++)
            caller->elements[k] = (float)(caller->rank + 1);
        caller->wrong += reduce(caller) != pcclSuccess;
        for (size_t k = 0; k < COUNT; k++)
            caller->wrong += caller->elements[k] != sum;
    }
}

/* Runs callers of each peer; those with a number in `async` do not block in the launch. */
static void run(const struct world *world, int callers, uint32_t async)
{
    static float elements[PEERS * CALLERS][COUNT];
    struct caller all[PEERS * CALLERS];
    uv_thread_t threads[PEERS * CALLERS];
    int count = 0;
    for (int rank = 0; rank < world->count; rank++)
        for (int i = 0; i < callers; i++, count++) {
            all[count] = (struct caller){.comm = world->peers[rank],
                                         .peers = world->count,
                                         .rank = rank,
                                         .tag = (uint64_t)i,
                                         .async = async >> i & 1,
                                         .elements = elements[count]};
            assert_int_equal(uv_thread_create(&threads[count], call_often, &all[count]), 0);
        }
    while (count-- > 0) {
        (void)uv_thread_join(&threads[count]);
        assert_int_equal(all[count].wrong, 0);
    }
}

static void check_owners(const struct world *world, bool drove)
{
    for (int i = 0; i < world->count; i++) {
        uint64_t drives, rescues;
        pccl_engine_counts(world->peers[i]->comm->data.engine, &drives, &rescues);
        assert_int_equal(rescues, 0);
        assert_true(!drove || drives > 0);
    }
}

static void blocking_calls_drive(void **state)
{
    struct world *world = *state;
    run(world, 1, 0);
    check_owners(world, true);
}

static void callers_on_several_threads_share_the_loop(void **state)
{
    struct world *world = *state;
    run(world, CALLERS, 0);
    check_owners(world, false);
}

static void asynchronous_operations_go_on_beside_blocking_ones(void **state)
{
    struct world *world = *state;
    run(world, CALLERS, 5);
    check_owners(world, false);
}

static uint64_t drives_of(const struct caller *caller)
{
    uint64_t drives, rescues;
    pccl_engine_counts(caller->comm->comm->data.engine, &drives, &rescues);
    return drives;
}

static void call_once(void *argument)
{
    struct caller *caller = argument;
    caller->wrong += reduce(caller) != pcclSuccess;
}

static uint64_t launches_of(struct pccl_communicator *comm)
{
    pccl_comm_enter(comm);
    uint64_t launches = comm->telemetry.launches;
    pccl_comm_leave(comm);
    return launches;
}

/*
 * Starts a call that no other peer answers. Returns when it drives, or has launched its operation: on a busy machine
 * the engine's thread may have taken the loop back, so the call only sleeps.
 */
static uv_thread_t call_alone(struct caller *caller)
{
    uv_thread_t thread;
    struct pccl_communicator *comm = caller->comm->comm;
    const uint64_t launches = launches_of(comm), drives = drives_of(caller);
    assert_int_equal(uv_thread_create(&thread, call_once, caller), 0);
    for (uint32_t since = 0; drives_of(caller) <= drives && since<100; since += launches_of(comm)> launches)
        sched_yield();
    return thread;
}

static void an_await_drives_the_only_operation(void **state)
{
    struct world *world = *state;
    static float elements[2][COUNT];
    struct caller early = {.comm = world->peers[0], .async = true, .elements = elements[0]},
                  late = {.comm = world->peers[1], .elements = elements[1]};
    const uint64_t end_us = pccl_now_us() + HANG_US;
    do {
        assert_true(pccl_now_us() < end_us);
        uv_thread_t thread = call_alone(&early);
        call_once(&late);
        (void)uv_thread_join(&thread);
        assert_int_equal(early.wrong + late.wrong, 0);
    } while (drives_of(&early) == 0); /* a busy machine may let the thread do it */
    check_owners(world, false);
}

static void awaits_drive(void **state)
{
    struct world *world = *state;
    run(world, 1, 1);
    check_owners(world, false);
}

static uv_sem_t first_ended;

/* Launches two operations, and then awaits them one after the other. */
static void call_two(void *argument)
{
    struct caller *caller = argument;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclAsyncReduceOp_t handles[2];
    for (options.tag = 0; options.tag < 2; options.tag++) {
        float *elements = caller->elements + options.tag * COUNT;
        caller->wrong += pcclAllReduceWithOptionsAsync(elements, elements, COUNT, pcclFloat, pcclSum, &options,
                                                       caller->comm, &handles[options.tag]) != pcclSuccess;
    }
    for (int i = 0; i < 2; i++) {
        caller->wrong += pcclAwaitAsyncReduce(&handles[i], NULL) != pcclSuccess;
        uv_sem_post(&first_ended);
    }
}

/* The second peer calls the second operation only after the first peer has had time to take the loop for it. */
static void operations_beside_others_stay_with_the_thread(void **state)
{
    struct world *world = *state;
    static float elements[2][2 * COUNT];
    struct caller early = {.comm = world->peers[0], .elements = elements[0]},
                  late = {.comm = world->peers[1], .elements = elements[1]};
    uv_thread_t thread;
    const uint64_t launches = launches_of(early.comm->comm), end_us = pccl_now_us() + HANG_US;
    assert_int_equal(uv_sem_init(&first_ended, 0), 0);
    assert_int_equal(uv_thread_create(&thread, call_two, &early), 0);
    while (launches_of(early.comm->comm) < launches + 2) {
        assert_true(pccl_now_us() < end_us);
        sched_yield();
    }
    call_once(&late);
    uv_sem_wait(&first_ended);
    for (int i = 0; i < 100; i++)
        sched_yield();
    late.tag = 1;
    call_once(&late);
    (void)uv_thread_join(&thread);
    assert_int_equal(early.wrong + late.wrong, 0);
    assert_int_equal(drives_of(&early), 0);
    uv_sem_destroy(&first_ended);
    check_owners(world, false);
}

/* ---- interruptions ---- */

static uv_sem_t told;

static void on_progress(const pcclProgress_t *progress, void *user_data)
{
    (void)progress;
    (void)user_data;
    uv_sem_post(&told);
}

/* The loop is handed over while the callback runs, and the call ends when the other peer calls. */
static void interrupt(struct world *world, bool async)
{
    static float elements[2][COUNT];
    struct caller early = {.comm = world->peers[0], .async = async, .elements = elements[0]},
                  late = {.comm = world->peers[1], .elements = elements[1]};
    uv_thread_t thread;
    run(world, 1, 0); /* the thread is parked now */
    assert_int_equal(uv_sem_init(&told, 0), 0);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], on_progress, NULL), pcclSuccess);
    assert_int_equal(uv_thread_create(&thread, call_once, &early), 0);
    uv_sem_wait(&told);
    call_once(&late);
    (void)uv_thread_join(&thread);
    assert_int_equal(early.wrong + late.wrong, 0);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], NULL, NULL), pcclSuccess);
    uv_sem_destroy(&told);
    check_owners(world, true);
}

static void a_callback_interrupts_a_driver(void **state) { interrupt(*state, false); }

static void a_callback_interrupts_an_await(void **state) { interrupt(*state, true); }

/* Ends the first peer's operation, whose caller no longer waits, by a call of the second peer. */
static void leave_to_thread(struct world *world, const pcclAsyncReduceOp_t *handle)
{
    static float elements[COUNT];
    struct caller late = {.comm = world->peers[1], .elements = elements};
    bool done = false;
    call_once(&late); /* ends without a call of the first peer */
    assert_int_equal(late.wrong, 0);
    while (!done)
        assert_int_equal(pcclTestAsyncReduce(handle, &done), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(handle, NULL), pcclSuccess);
    assert_true(drives_of(&(struct caller){.comm = world->peers[0]}) > 0);
    check_owners(world, false); /* on a busy machine the other peer's thread may do the work of its call */
}

static void an_await_that_ends_early_leaves_its_operation_to_the_thread(void **state)
{
    struct world *world = *state;
    static float elements[COUNT];
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclAsyncReduceOp_t handle;
    assert_int_equal(pcclAllReduceWithOptionsAsync(elements, elements, COUNT, pcclFloat, pcclSum, &options,
                                                   world->peers[0], &handle),
                     pcclSuccess);
    while (drives_of(&(struct caller){.comm = world->peers[0]}) == 0)
        assert_int_not_equal(pcclAwaitAsyncReduceFor(&handle, 20, NULL), pcclSuccess);
    leave_to_thread(world, &handle);
}

static void a_caller_that_goes_leaves_its_operation_to_the_thread(void **state)
{
    struct world *world = *state;
    static float elements[COUNT];
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    pcclAsyncReduceOp_t handle;
    run(world, 1, 0);
    assert_int_not_equal(pcclAllReduceWithOptionsFor(elements, elements, COUNT, pcclFloat, pcclSum, &options,
                                                     world->peers[0], 20, &handle),
                         pcclSuccess);
    leave_to_thread(world, &handle);
}

/* ---- other threads and peers end the wait ---- */

static void abort_a_call(struct world *world, bool async)
{
    static float elements[COUNT];
    struct caller caller = {.comm = world->peers[0], .async = async, .elements = elements};
    run(world, 1, 0);
    uv_thread_t thread = call_alone(&caller);
    assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess);
    (void)uv_thread_join(&thread);
    assert_int_equal(caller.wrong, 1); /* the call has failed */
    check_owners(world, true);
}

static void an_abort_by_another_thread_ends_a_driver(void **state) { abort_a_call(*state, false); }

static void an_abort_by_another_thread_ends_an_await(void **state) { abort_a_call(*state, true); }

/* Destroys the communicator of the second peer during a call of one of the two. */
static void destroy_during_a_call(struct world *world, int calls, bool async)
{
    static float elements[COUNT];
    struct caller caller = {.comm = world->peers[calls], .async = async, .elements = elements};
    run(world, 1, 0);
    uv_thread_t thread = call_alone(&caller);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    (void)uv_thread_join(&thread);
    assert_int_equal(caller.wrong, 1);
    check_owners(world, true);
}

static void the_end_of_another_peer_ends_a_driver(void **state) { destroy_during_a_call(*state, 0, false); }

static void the_end_of_the_communicator_ends_a_driver(void **state) { destroy_during_a_call(*state, 1, false); }

static void the_end_of_another_peer_ends_an_await(void **state) { destroy_during_a_call(*state, 0, true); }

static void the_end_of_the_communicator_ends_an_await(void **state) { destroy_during_a_call(*state, 1, true); }

#define TWO(test) cmocka_unit_test_setup_teardown(test, start_two, end_world)
#define THREE(test) cmocka_unit_test_setup_teardown(test, start_three, end_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TWO(blocking_calls_drive),
        THREE(blocking_calls_drive),
        TWO(callers_on_several_threads_share_the_loop),
        THREE(asynchronous_operations_go_on_beside_blocking_ones),
        TWO(an_await_drives_the_only_operation),
        TWO(awaits_drive),
        THREE(awaits_drive),
        TWO(operations_beside_others_stay_with_the_thread),
        TWO(a_callback_interrupts_a_driver),
        TWO(a_callback_interrupts_an_await),
        TWO(an_await_that_ends_early_leaves_its_operation_to_the_thread),
        TWO(a_caller_that_goes_leaves_its_operation_to_the_thread),
        TWO(an_abort_by_another_thread_ends_a_driver),
        TWO(an_abort_by_another_thread_ends_an_await),
        TWO(the_end_of_another_peer_ends_a_driver),
        TWO(the_end_of_the_communicator_ends_a_driver),
        TWO(the_end_of_another_peer_ends_an_await),
        TWO(the_end_of_the_communicator_ends_an_await),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
