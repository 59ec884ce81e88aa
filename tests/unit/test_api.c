/*
 * The public functions in one process: reports of failures, lists of PCCL 1.0, waits, and the ends of masters.
 * Codes of arguments and states are in unit/api_codes, results in unit/api_matrix.
 */
#include "api_world.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

/* ---- shared by the tests ---- */

static int init(void **state) { return pcclInit(); }

static int start_two(void **state) { return start_world(state, 2, "8192"); }

static pcclReduceDescriptor_t floats(size_t count, pcclRedOp_t op, uint64_t tag)
{
    return (pcclReduceDescriptor_t){.count = count, .op = op, .tag = tag, .src_descriptor = {.datatype = pcclFloat}};
}

static pcclFailure_t failure_of(const pcclComm_t *comm)
{
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    assert_int_equal(pcclGetLastFailure(comm, &failure), pcclSuccess);
    assert_int_equal(failure.size, sizeof failure);
    for (uint32_t i = 0; i < PCCL_FAILURE_PEERS_MAX; i++)
        assert_int_equal(strlen(failure.peers[i]), i < failure.peer_count ? 32 : 0);
    return failure;
}

/* Checks a call that was refused: nothing was launched, and the failure names no peer. */
static void is_refusal(const pcclComm_t *comm, pcclResult_t result)
{
    pcclFailure_t failure = failure_of(comm);
    assert_int_equal(failure.result, result);
    assert_true(!failure.launched && failure.tag == 0 && failure.sequence == 0 && failure.peer_count == 0);
}

/* Reads the ids of the first members of the group from the topology. */
static void read_ids(const pcclComm_t *comm, char ids[][PCCL_PEER_ID_SIZE], int count)
{
    char text[4096];
    assert_int_equal(pcclGetTopology(comm, text, sizeof text, NULL), pcclSuccess);
    const char *line = text;
    for (int i = 0; i < count; i++) {
        unsigned number;
        line = strstr(line, "\npeer ");
        assert_non_null(line);
        assert_int_equal(sscanf(line, " peer %u %32s", &number, ids[i]), 2);
        line++;
    }
}

/* ---- without a network ---- */

static void ask_without_a_failure(void *argument)
{
    is_refusal(argument, pcclSuccess);
    is_refusal(NULL, pcclSuccess);
}

GROUP(init, NULL)

TEST(the_last_failure_is_known_by_thread_and_communicator)
{
    pcclComm_t *comm, *other;
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    struct {
        pcclFailure_t known;
        uint64_t unknown;
    } later = {.known.size = sizeof later, .unknown = 77};
    uv_thread_t thread;
    assert_int_equal(pcclCreateCommunicatorWithOptions("127.0.0.1:1", NULL, &comm), pcclSuccess);
    assert_int_equal(pcclCreateCommunicatorWithOptions("127.0.0.1:1", NULL, &other), pcclSuccess);
    is_refusal(comm, pcclSuccess);
    assert_int_equal(pcclUpdateTopology(comm), pcclInvalidUsage);
    is_refusal(comm, pcclInvalidUsage);
    is_refusal(other, pcclSuccess);
    assert_int_equal(pcclArePeersPending(comm, NULL), pcclInvalidArgument);
    is_refusal(comm, pcclInvalidArgument);
    words_say(comm, "pending_out is NULL"); /* asking changes nothing */
    assert_int_equal(uv_thread_create(&thread, ask_without_a_failure, comm), 0);
    assert_int_equal(uv_thread_join(&thread), 0);
    /* Failures of the function itself are reported as for calls without a communicator. */
    assert_int_equal(pcclGetLastFailure(comm, NULL), pcclInvalidArgument);
    words_say(NULL, "failure_out is NULL");
    words_say(comm, "pending_out is NULL");
    failure.size = 0;
    assert_int_equal(pcclGetLastFailure(comm, &failure), pcclInvalidArgument);
    words_say(NULL, "PCCL_FAILURE_INIT");
    failure.size = sizeof failure - 8;
    assert_int_equal(pcclGetLastFailure(NULL, &failure), pcclInvalidArgument);
    is_refusal(NULL, pcclInvalidArgument);
    /* A program built with a later version. */
    assert_int_equal(pcclGetLastFailure(comm, &later.known), pcclSuccess);
    assert_int_equal(later.known.result, pcclInvalidArgument);
    assert_true(later.known.size == sizeof later && later.unknown == 0);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(other), pcclSuccess);
}

/* Returns a port that is free now: the system chose it for a listener that was closed. */
static uint16_t free_port(void)
{
    pcclMasterInstance_t *master;
    uint16_t port;
    assert_int_equal(pcclCreateMasterWithOptions("127.0.0.1:0", NULL, &master), pcclSuccess);
    assert_int_equal(pcclRunMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterGetPort(master, &port), pcclSuccess);
    assert_int_equal(pcclInterruptMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
    return port;
}

TEST(connecting_without_a_master_fails_and_may_be_repeated)
{
    pcclComm_t *comm;
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
    assert_int_equal(pcclCreateCommunicatorWithOptions(address, NULL, &comm), pcclSuccess);
    assert_int_equal(pcclConnect(comm), pcclMasterConnectionFailed);
    words_say(comm, address);
    pcclMasterInstance_t *master;
    assert_int_equal(pcclConnect(comm), pcclMasterConnectionFailed);
    assert_int_equal(pcclCreateMasterWithOptions(address, NULL, &master), pcclSuccess);
    assert_int_equal(pcclRunMaster(master), pcclSuccess);
    assert_int_equal(pcclConnect(comm), pcclSuccess);
    assert_int_equal(world_of(comm), 1);
    assert_int_equal(pcclInterruptMaster(master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(master), pcclSuccess);
    assert_int_equal(pcclUpdateTopology(comm) == pcclSuccess, false); /* the master has sent good-bye */
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(master), pcclSuccess);
}

static pcclMasterInstance_t *interrupted;
static pthread_t told;

static void be_held_up(uint64_t ms)
{
    uint64_t end_ns = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < end_ns)
        continue;
}

int __real_uv_async_send(uv_async_t *async);
int __wrap_uv_async_send(uv_async_t *async);

/* Takes the place of libuv's function: interrupting the master takes time here, so that the next signal arrives during
 * it. */
int __wrap_uv_async_send(uv_async_t *async)
{
    if (interrupted)
        be_held_up(2);
    return __real_uv_async_send(async);
}

static void on_signal(int number) { (void)pcclInterruptMaster(interrupted); }

static void send_signals(void *argument)
{
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pthread_kill(told, i % 2 == 0 ? SIGUSR1 : SIGUSR2), 0);
        be_held_up(1);
    }
}

GROUP(start_two, end_world)

/* Programs end their master in a signal handler, and a second signal may arrive while the handler runs. */
TEST(a_master_is_interrupted_by_signals_within_signals)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    uv_thread_t sender;
    assert_int_equal(pcclCreateMasterWithOptions("localhost:0", NULL, &interrupted), pcclSuccess);
    assert_int_equal(pcclRunMaster(interrupted), pcclSuccess);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(sigaction(SIGUSR2, &action, NULL), 0);
    told = pthread_self();
    assert_int_equal(uv_thread_create(&sender, send_signals, NULL), 0);
    assert_int_equal(uv_thread_join(&sender), 0);
    assert_int_equal(pcclMasterAwaitTermination(interrupted), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(interrupted), pcclSuccess);
    interrupted = NULL;
    (void)signal(SIGUSR1, SIG_DFL);
    (void)signal(SIGUSR2, SIG_DFL);
}

/* ---- two peers ---- */

WORLD_TEST(different_arguments_fail_for_both_and_restore_the_input)
{
    float x = 4, y = 5, result = 0;
    pcclAsyncReduceOp_t handles[2];
    pcclReduceDescriptor_t sum = floats(1, pcclSum, 3), product = floats(1, pcclProd, 3);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handles[0]), pcclSuccess);
    assert_int_equal(pcclAllReduceAsync(&y, &result, &product, world->peers[1], &handles[1]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclInvalidUsage);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[1], NULL), pcclInvalidUsage);
    words_say(world->peers[0], "sum");
    words_say(world->peers[0], "prod");
    pcclFailure_t first = failure_of(world->peers[0]), second = failure_of(world->peers[1]);
    assert_true(first.result == pcclInvalidUsage && first.launched && first.tag == 3 && first.peer_count == 0);
    assert_true(second.launched && second.tag == 3 && second.sequence == first.sequence && second.peer_count == 0);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handles[0]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 0, NULL), pcclTimeout);
    assert_true(failure_of(world->peers[0]).launched && failure_of(world->peers[0]).sequence == first.sequence + 1);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handles[1]), pcclInvalidArgument);
    is_refusal(world->peers[0], pcclInvalidArgument);
    assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclRankConnectionLost);
    first = failure_of(world->peers[0]);
    assert_int_equal(pcclAllReduce(&y, &y, &product, world->peers[1], NULL), pcclRankConnectionLost);
    second = failure_of(world->peers[1]); /* the launch that the other peer aborted */
    assert_true(first.sequence == second.sequence && first.peer_count == 0 && second.peer_count == 0);
    assert_true(x == 4 && y == 5);
    assert_int_equal(world_of(world->peers[0]), 2);
}

struct list_call {
    pcclComm_t *comm;
    pcclReduceOpDescriptor_t *list;
    size_t count;
    int max_in_flight;
    pcclReduceInfo_t info;
    pcclResult_t result;
};

static void run_list(void *argument)
{
    struct list_call *call = argument;
    call->result =
        pcclAllReduceMultipleWithRetry(call->list, call->count, call->comm, &call->info, call->max_in_flight);
}

WORLD_TEST(a_list_is_done_with_any_number_in_flight)
{
    enum { ENTRIES = 40 };
    static double x[2][ENTRIES];
    static pcclReduceOpDescriptor_t list[2][ENTRIES];
    struct list_call calls[2];
    uv_thread_t thread;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < ENTRIES; k++) {
            x[i][k] = k + i;
            list[i][k] = (pcclReduceOpDescriptor_t){
                &x[i][k],
                &x[i][k],
                {.count = 1, .op = pcclAvg, .tag = 1000 + (uint64_t)k, .src_descriptor = {.datatype = pcclDouble}}};
        }
        calls[i] = (struct list_call){
            .comm = world->peers[i], .list = list[i], .count = ENTRIES, .max_in_flight = i == 0 ? 1 : 7};
    }
    assert_int_equal(uv_thread_create(&thread, run_list, &calls[1]), 0);
    run_list(&calls[0]);
    assert_int_equal(uv_thread_join(&thread), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i].result, pcclSuccess);
        assert_int_equal(calls[i].info.local_world_size, 2);
        assert_int_equal(calls[i].info.tx_bytes, ENTRIES * sizeof(double));
        for (int k = 0; k < ENTRIES; k++)
            assert_true(x[i][k] == k + 0.5);
    }
}

WORLD_TEST(a_list_with_a_mismatch_ends_and_leaves_nothing_behind)
{
    float x[2][2] = {{1, 2}, {1, 2}};
    pcclReduceOpDescriptor_t list[2][2];
    struct list_call calls[2];
    uv_thread_t thread;
    for (int i = 0; i < 2; i++) {
        list[i][0] = (pcclReduceOpDescriptor_t){&x[i][0], &x[i][0], floats(1, i == 0 ? pcclSum : pcclMin, 50)};
        list[i][1] = (pcclReduceOpDescriptor_t){&x[i][1], &x[i][1], floats(1, pcclSum, 51)};
        calls[i] = (struct list_call){.comm = world->peers[i], .list = list[i], .count = 2, .max_in_flight = 2};
    }
    assert_int_equal(uv_thread_create(&thread, run_list, &calls[1]), 0);
    run_list(&calls[0]);
    assert_int_equal(uv_thread_join(&thread), 0);
    for (int i = 0; i < 2; i++) {
        pcclAsyncReduceOp_t handle = {world->peers[i], 51};
        assert_int_equal(calls[i].result, pcclInvalidUsage);
        assert_int_equal(pcclAwaitAsyncReduce(&handle, NULL), pcclInvalidArgument);
    }
}

struct pending_call {
    pcclComm_t *comm;
    bool pending;
    pcclResult_t result;
};

static void ask_pending(void *argument)
{
    struct pending_call *call = argument;
    call->result = pcclArePeersPending(call->comm, &call->pending);
}

WORLD_TEST(pending_is_answered_while_a_reduction_runs)
{
    float x = 1, y = 2;
    pcclAsyncReduceOp_t handles[2];
    pcclReduceDescriptor_t sum = floats(1, pcclSum, 9);
    struct pending_call calls[2] = {{.comm = world->peers[0], .pending = true},
                                    {.comm = world->peers[1], .pending = true}};
    uv_thread_t thread;
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handles[0]), pcclSuccess);
    assert_int_equal(uv_thread_create(&thread, ask_pending, &calls[1]), 0);
    ask_pending(&calls[0]);
    assert_int_equal(uv_thread_join(&thread), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(calls[i].result, pcclSuccess);
        assert_false(calls[i].pending);
    }
    assert_int_equal(pcclAllReduceAsync(&y, &y, &sum, world->peers[1], &handles[1]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[1], NULL), pcclSuccess);
    assert_true(x == 3 && y == 3);
}

static void optimize(void *argument)
{
    struct pending_call *call = argument;
    call->result = pcclOptimizeTopology(call->comm);
}

WORLD_TEST(both_optimize_and_are_told_of_the_links)
{
    struct pending_call other = {.comm = world->peers[1]};
    uv_thread_t thread;
    char text[2048] = "x";
    size_t needed = 0, again = 0;
    assert_int_equal(uv_thread_create(&thread, optimize, &other), 0);
    assert_int_equal(pcclOptimizeTopology(world->peers[0]), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(other.result, pcclSuccess);
    assert_int_equal(pcclGetTopology(world->peers[0], NULL, 0, &needed), pcclSuccess);
    assert_true(needed > 100 && needed < sizeof text);
    assert_int_equal(pcclGetTopology(world->peers[0], text, 10, &again), pcclInvalidArgument);
    words_say(world->peers[0], "bytes");
    assert_string_equal(text, "x");
    assert_true(again > 100);
    assert_int_equal(pcclGetTopology(world->peers[0], text, sizeof text, NULL), pcclSuccess);
    assert_non_null(strstr(text, "pccl topology 1\n"));
    assert_non_null(strstr(text, "way 0 1 rate "));
    assert_non_null(strstr(text, "way 1 0 rate "));
    assert_int_equal(world_of(world->peers[0]), 2);
}

struct watched {
    pcclComm_t *comm;
    uv_sem_t told;
    pcclProgress_t first;
    pcclResult_t asked;
    pcclResult_t result;
};

static void see_progress(const pcclProgress_t *progress, void *user_data)
{
    struct watched *watched = user_data;
    pcclProgress_t again = PCCL_PROGRESS_INIT;
    if (watched->first.call == pcclProgressNone) {
        watched->first = *progress;
        watched->asked = pcclGetProgress(watched->comm, &again);
    }
    uv_sem_post(&watched->told);
}

static void reduce_watched(void *argument)
{
    struct watched *watched = argument;
    float x = 1;
    pcclReduceDescriptor_t sum = floats(1, pcclSum, 11);
    watched->result = pcclAllReduce(&x, &x, &sum, watched->comm, NULL);
}

WORLD_TEST(who_waits_tells_how_far_it_is)
{
    struct watched watched = {.comm = world->peers[0], .first = PCCL_PROGRESS_INIT, .asked = pcclInternalError};
    uv_thread_t thread;
    assert_int_equal(uv_sem_init(&watched.told, 0), 0);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], see_progress, &watched), pcclSuccess);
    assert_int_equal(uv_thread_create(&thread, reduce_watched, &watched), 0);
    uv_sem_wait(&watched.told);
    uv_sem_wait(&watched.told);
    float x = 2;
    pcclReduceDescriptor_t sum = floats(1, pcclSum, 11);
    assert_int_equal(pcclAllReduce(&x, &x, &sum, world->peers[1], NULL), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(watched.result, pcclSuccess);
    assert_int_equal(watched.first.call, pcclProgressOperation);
    assert_true(watched.first.elapsed_ms >= 2000);
    assert_int_equal(watched.asked, pcclSuccess);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], NULL, NULL), pcclSuccess);
    uv_sem_destroy(&watched.told);
}

/* A callback is not called from within itself, however long it waits. */
struct waits_within {
    pcclAsyncReduceOp_t handle;
    pcclResult_t result;
    unsigned depth, deepest, told;
    uv_sem_t done;
};

static void wait_within(const pcclProgress_t *progress, void *user_data)
{
    struct waits_within *within = user_data;
    assert_int_equal(progress->call, pcclProgressOperation);
    within->depth++;
    within->deepest = within->depth > within->deepest ? within->depth : within->deepest;
    if (within->told++ == 0) {
        within->result = pcclAwaitAsyncReduceFor(&within->handle, 2500, NULL);
        uv_sem_post(&within->done);
    }
    within->depth--;
}

WORLD_TEST(who_waits_while_it_tells_is_not_told_again)
{
    struct waits_within within = {.result = pcclInternalError};
    struct watched watched = {.comm = world->peers[0]};
    uv_thread_t thread;
    float x = 1, y = 2;
    pcclReduceDescriptor_t sums[] = {floats(1, pcclSum, 11), floats(1, pcclSum, 12)};
    assert_int_equal(uv_sem_init(&within.done, 0), 0);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sums[1], world->peers[0], &within.handle), pcclSuccess);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], wait_within, &within), pcclSuccess);
    assert_int_equal(uv_thread_create(&thread, reduce_watched, &watched), 0);
    uv_sem_wait(&within.done);
    assert_int_equal(within.result, pcclTimeout);
    assert_int_equal(pcclAllReduce(&y, &y, &sums[1], world->peers[1], NULL), pcclSuccess);
    assert_int_equal(pcclAllReduce(&y, &y, &sums[0], world->peers[1], NULL), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(pcclAwaitAsyncReduce(&within.handle, NULL), pcclSuccess);
    assert_int_equal(within.deepest, 1);
    assert_int_equal(pcclSetProgressCallback(world->peers[0], NULL, NULL), pcclSuccess);
    uv_sem_destroy(&within.done);
}

WORLD_TEST(a_reduction_that_nobody_awaits_ends_with_its_communicator)
{
    pcclComm_t *comm;
    float x = 1;
    pcclReduceDescriptor_t sum = floats(1, pcclSum, 123);
    pcclAsyncReduceOp_t handle;
    /* Peer 1 leaves while its launch is outstanding; peer 0 gets the failure and then is alone. */
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[1], &handle), pcclSuccess);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handle), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handle, NULL), pcclSuccess);
    sum.tag = 124;
    char ids[2][PCCL_PEER_ID_SIZE];
    read_ids(world->peers[0], ids, 2);
    assert_int_equal(pcclAllReduceAsync(&x, &x, &sum, world->peers[0], &handle), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(world->peers[1]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handle, NULL), pcclRankConnectionLost);
    pcclFailure_t failure = failure_of(world->peers[0]);
    assert_true(failure.launched && failure.tag == 124 && failure.sequence == 0);
    assert_int_equal(failure.peer_count, 1);
    char left[1][PCCL_PEER_ID_SIZE]; /* the peers that are left */
    read_ids(world->peers[0], left, 1);
    assert_string_equal(failure.peers[0], strcmp(left[0], ids[0]) == 0 ? ids[1] : ids[0]);
    assert_int_equal(world_of(world->peers[0]), 1);
    assert_int_equal(pcclAllReduce(&x, &x, &sum, world->peers[0], NULL), pcclTooFewPeers);
    is_refusal(world->peers[0], pcclTooFewPeers); /* the peer that left was named before */
    pcclReduceOpDescriptor_t list = {&x, &x, sum};
    pcclReduceInfo_t info = {0};
    assert_int_equal(pcclAllReduceMultipleWithRetry(&list, 1, world->peers[0], &info, 1), pcclTooFewPeers);
    assert_int_equal(info.local_world_size, 1);
    assert_int_equal(pcclOptimizeTopology(world->peers[0]), pcclInvalidUsage);
    assert_int_equal(pcclCreateCommunicatorWithOptions(world->address, NULL, &comm), pcclSuccess);
    world->peers[1] = comm; /* for the end of the world */
}
