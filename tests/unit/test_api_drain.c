/* pcclDrain: in handlers of signals, in the middle of calls, when there is no run, and at the wrong object. */
#include "api_world.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

static pcclComm_t *handled; /* by the handler of signals */

static void on_signal(int number) { (void)pcclDrain(handled); }

static void handle_signals(pcclComm_t *comm)
{
    const struct sigaction action = {.sa_handler = on_signal};
    handled = comm;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static bool is_waiting(pcclComm_t *comm)
{
    char text[512];
    assert_int_equal(pcclDescribeWaits(comm, text, sizeof text), pcclSuccess);
    return text[0] != '\0';
}

static int world_now(pcclComm_t *comm)
{
    int count = 0;
    (void)pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE_NOW, &count);
    return count;
}

static int nobody(void **state) { return start_world(state, 0, "8192"); }
static int one(void **state) { return start_world(state, 1, "8192"); }
static int two(void **state) { return start_world(state, 2, "8192"); }
static int three(void **state) { return start_world(state, 3, "8192"); }

WORLD_TEST_IN(a_handler_in_the_middle_of_an_update, three, end_world)
{
    struct call last = {.comm = world->peers[2]}, others[2];
    uv_thread_t thread, other_threads[2];
    handle_signals(world->peers[2]);
    assert_int_equal(uv_thread_create(&thread, update_thread, &last), 0);
    while (!is_waiting(world->peers[2])) /* for two seconds, after which it asks which peer it waits for */
        (void)sched_yield();
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
    for (int i = 0; i < 2; i++) {
        others[i] = (struct call){.comm = world->peers[i]};
        assert_int_equal(uv_thread_create(&other_threads[i], update_thread, &others[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uv_thread_join(&other_threads[i]), 0);
        assert_int_equal(others[i].result, pcclSuccess);
    }
    assert_int_equal(uv_thread_join(&thread), 0);
    /* If the update was decided before the request arrived, this peer leaves with the next one. */
    if (last.result == pcclSuccess) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(uv_thread_create(&other_threads[i], update_thread, &others[i]), 0);
        last.result = pcclUpdateTopology(world->peers[2]);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(uv_thread_join(&other_threads[i]), 0);
            assert_int_equal(others[i].result, pcclSuccess);
        }
    }
    assert_int_equal(last.result, pcclDrained);
    assert_int_equal(world_of(world->peers[0]), 2);
    assert_int_equal(pcclUpdateTopology(world->peers[2]), pcclDrained); /* and so does each later call */
    words_say(world->peers[2], "it requested its drain");
    assert_int_equal(pcclConnect(world->peers[2]), pcclDrained);
    words_say(world->peers[2], "cannot connect again");
}

/* Without extended results each call has the code of PCCL 1.0, and the precise one beside it. */
WORLD_TEST_IN(codes, two, end_world)
{
    struct call other = {.comm = world->peers[1]};
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, update_thread, &other), 0);
    assert_int_equal(pcclDrain(world->peers[0]), pcclSuccess);
    assert_int_equal(pcclUpdateTopology(world->peers[0]),
                     pcclUpdateTopologyFailed); /* this one, as it has asked first */
    assert_int_equal(pcclGetLastFailure(world->peers[0], &failure), pcclSuccess);
    assert_int_equal(failure.precise, pcclDrained);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(other.result, pcclSuccess);
    assert_int_equal(pcclUpdateTopology(world->peers[0]), pcclInvalidUsage);
    assert_int_equal(pcclConnect(world->peers[0]), pcclMasterConnectionFailed);
    while (world_now(world->peers[1]) != 1)
        (void)sched_yield();
}

WORLD_TEST_IN(no_update_comes, nobody, end_world)
{
    pcclOptions_t *options;
    pcclComm_t *comm;
    assert_int_equal(pcclCreateOptions(&options), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "drain_ms", "50"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "port", "0"), pcclSuccess);
    assert_int_equal(pcclSetOption(options, "extended_results", "1"), pcclSuccess);
    assert_int_equal(pcclCreateCommunicatorWithOptions(world->address, options, &comm), pcclSuccess);
    assert_int_equal(pcclDestroyOptions(options), pcclSuccess);
    assert_int_equal(pcclConnect(comm), pcclSuccess);
    assert_int_equal(pcclDrain(comm), pcclSuccess);
    while (world_now(comm) == 1)
        (void)sched_yield();
    assert_int_equal(pcclUpdateTopology(comm), pcclDrained);
    words_say(comm, "no topology update within drain_ms (50 ms)");
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

static void connect_and_wait(void *argument)
{
    struct call *call = argument;
    call->result = pcclConnect(call->comm);
}

/* Before connect, repeatedly, during connect, and on a closed communicator, a group and NULL. */
WORLD_TEST_IN(wrong_moments, one, end_world)
{
    pcclComm_t *comm = create(world, "1");
    pcclLoop_t *loop = NULL;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    assert_int_equal(pcclDrain(NULL), pcclInvalidArgument);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pcclDrain(comm), pcclSuccess);
    assert_int_equal(pcclConnect(comm), pcclDrained);
    words_say(comm, "cannot connect again");
    assert_int_equal(pcclLoopBegin(comm, NULL, NULL, &loop), pcclSuccess);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclDrained);
        words_say(comm, "before it joined the run");
    }
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);

    struct call newcomer = {.comm = create(world, "1")}; /* no member admits it */
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, connect_and_wait, &newcomer), 0);
    char id[PCCL_PEER_ID_SIZE];
    while (pcclGetPeerId(newcomer.comm, id, sizeof id) != pcclSuccess)
        (void)sched_yield();
    assert_int_equal(pcclDrain(newcomer.comm), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(newcomer.result, pcclDrained);
    assert_int_equal(pcclCloseCommunicator(newcomer.comm), pcclSuccess);
    assert_int_equal(pcclDrain(newcomer.comm), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(newcomer.comm), pcclSuccess);

    pcclComm_t *group = NULL;
    char own[1][PCCL_PEER_ID_SIZE];
    pcclPeerId_t member;
    assert_int_equal(pcclGetPeerId(world->peers[0], own[0], sizeof own[0]), pcclSuccess);
    memcpy(member.digits, own[0], sizeof member.digits);
    assert_int_equal(pcclCreateGroup(world->peers[0], &member, 1, NULL, &group), pcclSuccess);
    assert_int_equal(pcclDrain(group), pcclInvalidUsage);
    words_say(group, "not supported on a group");
    assert_int_equal(pcclDestroyCommunicator(group), pcclSuccess);
}

struct program {
    pcclComm_t *comm;
    uint64_t steps, raises_at;
    pcclResult_t result;
};

/* A loop whose program requests its drain in the middle of a step, in a signal handler or not, and does no more. */
static void run_program(void *argument)
{
    struct program *program = argument;
    const pcclReduceDescriptor_t sum = {.count = 3, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    pcclLoop_t *loop = NULL;
    float x[3] = {1, 1, 1};
    options.min_peers = program->raises_at == 6 ? 1 : 2;
    pcclResult_t result = pcclLoopBegin(program->comm, NULL, &options, &loop);
    while (result == pcclSuccess && (result = pcclLoopNext(loop, result, &step)) == pcclSuccess) {
        if (step.number == program->raises_at && program->raises_at == 3)
            (void)pthread_kill(pthread_self(), SIGUSR1);
        if (step.number == program->raises_at && program->raises_at == 6)
            (void)pcclDrain(program->comm);
        result = step.world > 1 ? pcclAllReduce(x, x, &sum, program->comm, NULL) : pcclSuccess;
        program->steps = step.number + (result == pcclSuccess);
    }
    program->result = result;
    (void)pcclLoopEnd(loop);
}

WORLD_TEST_IN(a_loop_ends_behind_its_step, two, end_world)
{
    struct program programs[2] = {{.comm = world->peers[0], .raises_at = 3}, {.comm = world->peers[1], .raises_at = 6}};
    uv_thread_t threads[2];
    handle_signals(programs[0].comm);
    for (int i = 0; i < 2; i++)
        assert_int_equal(uv_thread_create(&threads[i], run_program, &programs[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(programs[i].result, pcclDrained);
        assert_int_equal(programs[i].steps, programs[i].raises_at + 1);
    }
}
