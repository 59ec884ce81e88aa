/* The loop of the public functions: invalid calls, effects of outcomes, and its end. python/loop tests faults. */
#include "api_world.h"
#include "descriptors.h"

#include <arpa/inet.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STEPS = 5 };

struct trainer {
    pcclComm_t *comm;
    float weights[4];
    pcclResult_t result;
    uint64_t numbers[STEPS + 1];
    uint32_t seen, again;
    bool is_mistaken, says_closed;
    pcclResult_t mistake;
    const char *words;
};

/* The program of include/pccl_loop.h; fails_at: the number of a step that is not completed at first. */
static void train(struct trainer *trainer, uint64_t fails_at)
{
    pcclTensorInfo_t tensor = {"weights", trainer->weights, 4, pcclFloat, pcclDeviceCpu, false};
    pcclSharedState_t state = {0, 1, &tensor};
    const pcclReduceDescriptor_t sum = {.count = 4, .op = pcclSum, .src_descriptor = {.datatype = pcclFloat}};
    pcclLoop_t *loop = NULL;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    pcclResult_t result = pcclLoopBegin(trainer->comm, &state, NULL, &loop);
    bool has_failed = false;
    while (result == pcclSuccess || result == pcclAborted) {
        float ones[4] = {1, 1, 1, 1};
        result = pcclLoopNext(loop, result, &step);
        if (result != pcclSuccess || step.number == STEPS)
            break;
        trainer->numbers[step.number] = step.revision;
        trainer->seen++;
        trainer->again += step.again;
        if (step.number == fails_at && !has_failed) {
            has_failed = true;
            result = pcclAborted; /* as all peers do here */
            continue;
        }
        result = pcclAllReduce(ones, ones, &sum, trainer->comm, NULL);
        for (int i = 0; result == pcclSuccess && i < 4; i++)
            trainer->weights[i] += ones[i];
    }
    trainer->result = result;
    trainer->words = pcclGetLastError(trainer->comm);
    (void)pcclLoopEnd(loop);
}

static void train_thread(void *argument) { train(argument, UINT64_MAX); }
static void train_with_a_failure(void *argument) { train(argument, 2); }

static void both(const struct world *world, void (*run)(void *), struct trainer *trainers)
{
    uv_thread_t threads[2];
    for (int i = 0; i < 2; i++) {
        trainers[i] = (struct trainer){.comm = create(world, i ? "1" : "0"), .is_mistaken = i == 0};
        assert_int_equal(uv_thread_create(&threads[i], run, &trainers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(uv_thread_join(&threads[i]), 0);
    for (int i = 0; i < 2; i++) {
        if (trainers[i].result != pcclSuccess)
            fail_msg("%d: %s", (int)trainers[i].result, trainers[i].words);
        assert_float_equal(trainers[i].weights[3], 2.0f * STEPS, 0);
        assert_int_equal(pcclDestroyCommunicator(trainers[i].comm), pcclSuccess);
    }
}

static int start(void **state) { return start_world(state, 0, "8192"); }

WORLD_TEST_IN(test_steps, start, end_world)
{
    struct trainer trainers[2];
    both(world, train_thread, trainers);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trainers[i].seen, STEPS);
        assert_int_equal(trainers[i].again, 0);
        for (uint64_t step = 0; step < STEPS; step++)
            assert_int_equal(trainers[i].numbers[step], step);
    }
}

WORLD_TEST_IN(test_a_step_that_is_begun_again, start, end_world)
{
    struct trainer trainers[2];
    both(world, train_with_a_failure, trainers);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trainers[i].seen, STEPS + 1);
        assert_int_equal(trainers[i].again, 1);
        assert_int_equal(trainers[i].numbers[STEPS - 1], STEPS); /* it was synchronized once more */
    }
}

WORLD_TEST_IN(test_arguments, start, end_world)
{
    pcclComm_t *comm = create(world, "1");
    pcclLoop_t *loop = NULL;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    assert_int_equal(pcclLoopBegin(NULL, NULL, NULL, &loop), pcclInvalidArgument);
    assert_int_equal(pcclLoopBegin(comm, NULL, NULL, NULL), pcclInvalidArgument);
    words_say(comm, "loop_out is NULL");
    options.size = 3;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclInvalidArgument);
    words_say(comm, "PCCL_LOOP_OPTIONS_INIT");
    options = (pcclLoopOptions_t)PCCL_LOOP_OPTIONS_INIT;
    options.min_peers = 0;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclInvalidArgument);
    words_say(comm, "invalid min_peers 0");
    options.min_peers = 1;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclSuccess);
    assert_int_equal(pcclLoopNext(NULL, pcclSuccess, &step), pcclInvalidArgument);
    words_say(NULL, "loop is NULL");
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, NULL), pcclInvalidArgument);
    words_say(comm, "step is NULL");
    step.size = 0;
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclInvalidArgument);
    words_say(comm, "PCCL_LOOP_STEP_INIT");
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclLoopEnd(NULL), pcclSuccess);
    pcclSharedState_t wrong = {0, 1, NULL};
    assert_int_equal(pcclLoopBegin(comm, &wrong, &options, &loop), pcclSuccess);
    step.size = sizeof step;
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclInvalidArgument);
    words_say(comm, "infos is NULL");
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

/* A single member; and a struct of a later version, whose additional members become 0. */
WORLD_TEST_IN(test_outcomes, start, end_world)
{
    pcclComm_t *comm = create(world, "1");
    pcclLoop_t *loop = NULL;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    struct {
        pcclLoopStep_t step;
        unsigned char later[8];
    } given = {.step = {.size = sizeof given}, .later = {7}};
    options.min_peers = 1;
    options.first_step = 10;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclSuccess);
    assert_int_equal(pcclLoopNext(loop, pcclInvalidArgument, &given.step), pcclSuccess); /* there was no step yet */
    assert_int_equal(given.step.number, 10);
    assert_true(given.step.joined && !given.step.again);
    assert_int_equal(given.later[0], 0);
    assert_int_equal(given.step.size, sizeof given);
    static const pcclResult_t losses[] = {pcclTooFewPeers, pcclRankConnectionLost, pcclMembersChanged, pcclAborted,
                                          pcclTimeout,     pcclExpelled,           pcclMasterLost};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        assert_int_equal(pcclLoopNext(loop, losses[i], &given.step), pcclSuccess);
        assert_int_equal(given.step.number, 10);
        assert_true(given.step.again && !given.step.joined);
    }
    static const pcclResult_t ends[] = {pcclInvalidUsage, pcclInvalidArgument, pcclPeerMismatch, pcclOutOfMemory,
                                        pcclInternalError};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        assert_int_equal(pcclLoopNext(loop, ends[i], &given.step), ends[i]);
        assert_int_equal(pcclLoopNext(loop, pcclSuccess, &given.step), pcclSuccess); /* does not count the step */
        assert_int_equal(given.step.number, 10);
        assert_true(given.step.again);
    }
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &given.step), pcclSuccess);
    assert_int_equal(given.step.number, 11);
    assert_false(given.step.again);
    assert_int_equal(given.step.world, 1);
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

enum { MISTAKEN = 2 };

/* A step fails: here by an error of this peer's program, which continues, and at the other peer by a loss. */
static void train_with_a_mistake(void *argument)
{
    struct trainer *trainer = argument;
    pcclLoop_t *loop = NULL;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    pcclTensorInfo_t tensor = {"weights", trainer->weights, 4, pcclFloat, pcclDeviceCpu, false};
    pcclSharedState_t state = {0, 1, &tensor};
    trainer->result = pcclLoopBegin(trainer->comm, &state, NULL, &loop);
    pcclResult_t outcome = pcclSuccess;
    while (trainer->result == pcclSuccess) {
        trainer->result = pcclLoopNext(loop, outcome, &step);
        outcome = pcclSuccess;
        if (trainer->result != pcclSuccess || step.number == STEPS)
            break;
        trainer->seen++;
        trainer->again += step.again;
        trainer->numbers[step.number] += step.diverged;
        if (step.number == MISTAKEN && !step.again && trainer->is_mistaken)
            trainer->mistake = pcclLoopNext(loop, pcclInvalidArgument, &step);
        else if (step.number == MISTAKEN && !step.again)
            outcome = pcclRankConnectionLost;
        else
            trainer->weights[3] += 2;
    }
    trainer->words = pcclGetLastError(trainer->comm);
    (void)pcclLoopEnd(loop);
}

WORLD_TEST_IN(test_a_mistake_of_one_of_two, start, end_world)
{
    struct trainer trainers[2];
    both(world, train_with_a_mistake, trainers);
    assert_int_equal(trainers[0].mistake, pcclInvalidArgument);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(trainers[i].seen, STEPS + 1);
        assert_int_equal(trainers[i].again, 1);
        for (uint64_t step = 0; step < STEPS; step++)
            assert_int_equal(trainers[i].numbers[step], 0); /* no peer has diverged */
    }
}

WORLD_TEST_IN(test_too_few_peers, start, end_world)
{
    pcclComm_t *comm = create(world, "0");
    pcclLoop_t *loop = NULL;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    options.wait_ms = 50;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclSuccess);
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclTimeout);
    words_say(comm, "1 of min_peers=2 peers joined within wait_ms=50");
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

TEST_IN(test_nobody_at_the_address, start, end_world)
{
    struct world nowhere = {.count = 0};
    (void)snprintf(nowhere.address, sizeof nowhere.address, "127.0.0.1:1");
    pcclComm_t *comm = create(&nowhere, "0");
    pcclLoop_t *loop = NULL;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    options.connect_ms = 20;
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclSuccess);
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclMasterConnectionFailed);
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

/* Accepts connections and closes them, until the socket is shut down. */
static void turn_away(void *argument)
{
    const int *listener = argument;
    for (int fd = accept(*listener, NULL, NULL); fd >= 0; fd = accept(*listener, NULL, NULL))
        (void)close(fd);
}

/* connect_ms also limits a single attempt, whose own limit is 30 s. */
TEST(test_nobody_answers)
{
    struct world busy = {.count = 0};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = bare_socket();
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, turn_away, &listener), 0);
    (void)snprintf(busy.address, sizeof busy.address, "127.0.0.1:%d", ntohs(address.sin_port));
    pcclComm_t *comm = create(&busy, "0");
    pcclLoop_t *loop = NULL;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    options.connect_ms = 200;
    const uint64_t begun_ns = uv_hrtime();
    assert_int_equal(pcclLoopBegin(comm, NULL, &options, &loop), pcclSuccess);
    assert_int_equal(pcclLoopNext(loop, pcclSuccess, &step), pcclMasterConnectionFailed);
    assert_in_range(uv_hrtime() - begun_ns, 200u * 1000000u, 15u * UINT64_C(1000000000));
    words_say(comm, "closed every connection without an answer");
    assert_int_equal(pcclLoopEnd(loop), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
    assert_int_equal(shutdown(listener, SHUT_RDWR), 0);
    assert_int_equal(uv_thread_join(&thread), 0);
    (void)close(listener);
}

static void next_thread(void *argument)
{
    struct trainer *trainer = argument;
    pcclLoop_t *loop = NULL;
    pcclLoopStep_t step = PCCL_LOOP_STEP_INIT;
    trainer->result = pcclLoopBegin(trainer->comm, NULL, NULL, &loop);
    if (trainer->result == pcclSuccess)
        trainer->result = pcclLoopNext(loop, pcclSuccess, &step);
    (void)pcclLoopEnd(loop);
}

static void wait_until_in_run(const pcclComm_t *comm)
{
    int count = 0;
    while (pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &count) != pcclSuccess)
        (void)sched_yield();
}

/* Closing or destroying the communicator ends a loop that waits for peers. */
WORLD_TEST_IN(test_another_thread_ends_it, start, end_world)
{
    for (int destroys = 0; destroys < 2; destroys++) {
        struct trainer trainer = {.comm = create(world, "0")};
        uv_thread_t thread;
        assert_int_equal(uv_thread_create(&thread, next_thread, &trainer), 0);
        wait_until_in_run(trainer.comm);
        if (!destroys)
            assert_int_equal(pcclCloseCommunicator(trainer.comm), pcclSuccess);
        else
            assert_int_equal(pcclDestroyCommunicator(trainer.comm), pcclSuccess);
        assert_int_equal(uv_thread_join(&thread), 0);
        assert_int_equal(trainer.result, pcclInvalidUsage);
        if (!destroys)
            assert_int_equal(pcclDestroyCommunicator(trainer.comm), pcclSuccess);
    }
}

/* Its texts belong to this thread. */
static void next_and_why_thread(void *argument)
{
    struct trainer *trainer = argument;
    next_thread(trainer);
    trainer->says_closed = strstr(pcclGetLastError(trainer->comm), "the communicator is closed") != NULL;
}

static bool has_failed_to_connect(const pcclComm_t *comm)
{
    int count = 0;
    (void)pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &count);
    return strstr(pcclGetLastError(comm), "cannot reach the master") != NULL;
}

/* Closing the communicator between two attempts to enter the run ends the loop, too. */
TEST_IN(test_another_thread_ends_the_attempts, start, end_world)
{
    struct world nowhere = {.count = 0};
    (void)snprintf(nowhere.address, sizeof nowhere.address, "127.0.0.1:1");
    struct trainer trainer = {.comm = create(&nowhere, "0")};
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, next_and_why_thread, &trainer), 0);
    while (!has_failed_to_connect(trainer.comm))
        (void)sched_yield();
    assert_int_equal(pcclCloseCommunicator(trainer.comm), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(trainer.result, pcclInvalidUsage);
    assert_true(trainer.says_closed);
    assert_int_equal(pcclDestroyCommunicator(trainer.comm), pcclSuccess);
}
