/*
 * Launch and completion of peer-to-peer reductions through the public functions, with a master and up to three peers in
 * this process. unit/api_matrix checks the results.
 */
#include "api_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { COUNT = 20011 };

/* ---- shared by the tests ---- */

static int start_two(void **state) { return start_world(state, 2, "8192"); }
static int start_three(void **state) { return start_world(state, 3, "8192"); }
static pcclReduceDescriptor_t describe(size_t count, pcclDataType_t datatype, pcclRedOp_t op, uint64_t tag)
{
    return (pcclReduceDescriptor_t){.count = count, .op = op, .tag = tag, .src_descriptor = {.datatype = datatype}};
}

/* Returns small numbers, whose sums are exact. */
static float contribution(size_t index, int peer)
{
    return (float)((index * 7 + (size_t)peer * 5 + index / 1000) % 3 + 1);
}

static void fill(float *elements, int peer)
{
    for (size_t i = 0; i < COUNT; i++)
        elements[i] = contribution(i, peer);
}

static float shared_x[PEERS][COUNT];

/* Launches tag 7 at these peers. */
static void launch(struct world *world, int from, int to, pcclAsyncReduceOp_t *handles)
{
    pcclReduceDescriptor_t descriptor = describe(COUNT, pcclFloat, pcclSum, 7);
    for (int i = from; i < to; i++) {
        fill(shared_x[i], i);
        assert_int_equal(pcclAllReduceAsync(shared_x[i], shared_x[i], &descriptor, world->peers[i], &handles[i]),
                         pcclSuccess);
    }
}

/* The next sum of all is right. */
static void all_reduce(struct world *world)
{
    pcclAsyncReduceOp_t handles[PEERS];
    launch(world, 0, world->count, handles);
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), pcclSuccess);
    for (size_t k = 0; k < COUNT; k++) {
        float sum = 0;
        for (int i = 0; i < world->count; i++)
            sum += contribution(k, i);
        for (int i = 0; i < world->count; i++)
            assert_true(shared_x[i][k] == sum);
    }
}

GROUP(start_two, end_world)

/* Scenario 13: quantized to 8 bits, constants are exact, and every peer has the same. */
WORLD_TEST(forty_two_and_forty_three_are_eighty_five)
{
    static double x[2][COUNT];
    for (int k = 0; k < 8; k++) {
        const size_t count = k & 4 ? 1000 : COUNT;
        pcclReduceDescriptor_t descriptor = describe(count, k & 2 ? pcclDouble : pcclFloat, pcclSum, (uint64_t)k);
        pcclAsyncReduceOp_t handles[2];
        descriptor.quantization_options =
            (pcclQuantizationOptions_t){pcclUint8, k & 1 ? pcclQuantMinMax : pcclQuantZeroPointScale};
        for (int i = 0; i < 2; i++) {
            for (size_t e = 0; e < count; e++)
                if (k & 2)
                    x[i][e] = 42 + i;
                else
                    ((float *)x[i])[e] = (float)(42 + i);
            assert_int_equal(pcclAllReduceAsync(x[i], x[i], &descriptor, world->peers[i], &handles[i]), pcclSuccess);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), pcclSuccess);
            for (size_t e = 0; e < count; e++)
                assert_true((k & 2 ? x[i][e] : (double)((float *)x[i])[e]) == 85);
        }
    }
}

/* ---- peers that differ ---- */

/* Two peers are named, once each: the one that differs, and another one. */
static void names_two(const struct world *world, const char *words, int odd)
{
    int named = 0;
    for (int i = 0; i < world->count; i++) {
        char id[PCCL_PEER_ID_SIZE];
        assert_int_equal(pcclGetPeerId(world->peers[i], id, sizeof id), pcclSuccess);
        id[8] = '\0';
        const char *first = strstr(words, id);
        named += first != NULL;
        if ((first == NULL && i == odd) || (first != NULL && strstr(first + 1, id) != NULL))
            fail_msg("peer %d, where %d differs, in '%s'", i, odd, words);
    }
    assert_int_equal(named, 2);
}

/* Each peer in turn asks for something else. All fail with a reason that names both requests, and keep their input. */
static void differ(struct world *world, const pcclReduceDescriptor_t *ours, const pcclReduceDescriptor_t *theirs,
                   const char *our_word, const char *their_word)
{
    static float x[PEERS][COUNT], before[COUNT];
    for (int odd = 0; odd < world->count; odd++) {
        pcclAsyncReduceOp_t handles[PEERS];
        for (int i = 0; i < world->count; i++) {
            fill(x[i], 0);
            assert_int_equal(pcclAllReduceAsync(x[i], x[i], i == odd ? theirs : ours, world->peers[i], &handles[i]),
                             pcclSuccess);
        }
        fill(before, 0);
        for (int i = 0; i < world->count; i++) {
            assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), i == 2 ? pcclPeerMismatch : pcclInvalidUsage);
            words_say(world->peers[i], our_word);
            words_say(world->peers[i], their_word);
            names_two(world, pcclGetLastError(world->peers[i]), odd);
            assert_null(strstr(pcclGetLastError(world->peers[i]), "through the master")); /* no caller chooses that */
            assert_memory_equal(x[i], before, sizeof before);
        }
        all_reduce(world);
    }
}

GROUP(start_three, end_world)

WORLD_TEST(peers_that_differ_are_told)
{
    const struct {
        size_t ours, theirs;
        pcclDataType_t type;
        pcclRedOp_t op;
        const char *words[2];
    } cases[] = {
        {COUNT, COUNT - 1, pcclFloat, pcclSum, {"20011", "20010"}},
        {COUNT, COUNT / 2, pcclFloat, pcclSum, {"20011", "10005"}},
        {COUNT, COUNT, pcclInt32, pcclSum, {"f32", "i32"}},
        {COUNT, COUNT / 2, pcclDouble, pcclSum, {"f32", "f64"}},
        {COUNT, COUNT, pcclFloat, pcclProd, {"sum", "prod"}},
        {COUNT, 5, pcclFloat, pcclSum, {"called sum of 20011 f32", "called sum of 5 f32"}}, /* through the master */
        {COUNT, 5, pcclUint8, pcclSum, {"f32", "u8"}},
        {8, 9, pcclFloat, pcclSum, {"8", "9"}}, /* all are */
        {8, 8, pcclUint32, pcclSum, {"f32", "u32"}},
        {8, 4, pcclDouble, pcclSum, {"f32", "f64"}},
        {8, 8, pcclFloat, pcclMax, {"sum", "max"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pcclReduceDescriptor_t ours = describe(cases[i].ours, pcclFloat, pcclSum, i);
        const pcclReduceDescriptor_t theirs = describe(cases[i].theirs, cases[i].type, cases[i].op, i);
        differ(world, &ours, &theirs, cases[i].words[0], cases[i].words[1]);
    }
}

/* In bulk, neighbors compare and name the first difference; through the master, the master compares and names all. */
WORLD_TEST(peers_that_quantize_differently_are_told)
{
    static const pcclQuantizationOptions_t none = {pcclUint8, pcclQuantNone}, u8 = {pcclUint8, pcclQuantMinMax},
                                           u16 = {pcclUint16, pcclQuantMinMax},
                                           zero = {pcclUint8, pcclQuantZeroPointScale};
    const struct {
        pcclQuantizationOptions_t ours, theirs;
        const char *bulk[2], *tiny[2];
    } cases[] = {
        {none, u8, {"none", "minmax"}, {"quantization none", "minmax to u8"}},
        {u8, u16, {"u8", "u16"}, {"minmax to u8", "minmax to u16"}},
        {u16, u8, {"u16", "u8"}, {"minmax to u16", "minmax to u8"}},
        {u8, zero, {"minmax", "zeropointscale"}, {"minmax to u8", "zeropointscale to u8"}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (size_t tiny = 0; tiny < 2; tiny++) {
            pcclReduceDescriptor_t ours = describe(tiny ? 5 : COUNT, pcclFloat, pcclSum, k), theirs = ours;
            const char *const *reason = tiny ? cases[k].tiny : cases[k].bulk;
            ours.quantization_options = cases[k].ours;
            theirs.quantization_options = cases[k].theirs;
            differ(world, &ours, &theirs, reason[0], reason[1]);
        }
}

/* ---- many at once, polling, aborting ---- */

WORLD_TEST(a_hundred_at_once_in_any_order)
{
    enum { TAGS = 100, EACH = 5000 };
    static int32_t x[PEERS][TAGS][EACH];
    static pcclAsyncReduceOp_t handles[PEERS][TAGS];
    static const int strides[PEERS] = {1, 37, 99}; /* coprime to TAGS */
    for (int i = 0; i < world->count; i++) {
        for (int k = 0; k < TAGS; k++) {
            int tag = k * strides[i] % TAGS;
            pcclReduceDescriptor_t descriptor = describe(EACH, pcclInt32, pcclSum, (uint64_t)tag);
            for (int e = 0; e < EACH; e++)
                x[i][tag][e] = (i + 1) * (tag + e);
            assert_int_equal(pcclAllReduceAsync(x[i][tag], x[i][tag], &descriptor, world->peers[i], &handles[i][tag]),
                             pcclSuccess);
        }
    }
    for (int i = 0; i < world->count; i++) {
        for (int k = 0; k < TAGS; k++) {
            int tag = k * strides[(i + 1) % PEERS] % TAGS;
            assert_int_equal(pcclAwaitAsyncReduce(&handles[i][tag], NULL), pcclSuccess);
            for (int e = 0; e < EACH; e++)
                assert_int_equal(x[i][tag][e], 6 * (tag + e));
        }
    }
}

static void check_untouched(int peer)
{
    static float before[COUNT];
    fill(before, peer);
    assert_memory_equal(shared_x[peer], before, sizeof before);
}

WORLD_TEST(a_handle_can_be_polled)
{
    pcclAsyncReduceOp_t handles[PEERS];
    bool done = true;
    launch(world, 0, 1, handles);
    assert_int_equal(pcclTestAsyncReduce(&handles[0], &done), pcclSuccess);
    assert_false(done);
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 0, NULL), pcclTimeout);
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 20, NULL), pcclTimeout);
    words_say(world->peers[0], "tag 7");
    launch(world, 1, world->count, handles);
    for (int i = 1; i < world->count; i++)
        assert_int_equal(pcclAwaitAsyncReduceFor(&handles[i], 60000, NULL), pcclSuccess);
    for (done = false; !done;)
        assert_int_equal(pcclTestAsyncReduce(&handles[0], &done), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 0, NULL), pcclSuccess);
    assert_memory_equal(shared_x[0], shared_x[1], sizeof shared_x[0]);
    assert_int_equal(pcclTestAsyncReduce(&handles[0], &done), pcclInvalidArgument);
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 0, NULL), pcclInvalidArgument);
    assert_int_equal(pcclTestAsyncReduce(&handles[0], NULL), pcclInvalidArgument);
    assert_int_equal(pcclTestAsyncReduce(NULL, &done), pcclInvalidArgument);
    assert_int_equal(pcclAwaitAsyncReduceFor(NULL, 0, NULL), pcclInvalidArgument);
}

WORLD_TEST(what_is_given_up_fails_for_all)
{
    pcclAsyncReduceOp_t handles[PEERS];
    assert_int_equal(pcclAbortOperations(NULL), pcclInvalidArgument);
    assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess); /* nothing there */
    launch(world, 0, 1, handles);
    launch(world, 2, 3, handles);
    assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclRankConnectionLost);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[2], NULL), pcclAborted);
    words_say(world->peers[2], "aborted");
    launch(world, 1, 2, handles); /* it has ended before it began */
    assert_int_equal(pcclAwaitAsyncReduce(&handles[1], NULL), pcclRankConnectionLost);
    for (int i = 0; i < world->count; i++)
        check_untouched(i);
    all_reduce(world);
}

/* ---- threads ---- */

struct awaiting {
    pcclAsyncReduceOp_t handle;
    pcclResult_t result;
};

static void await_thread(void *argument)
{
    struct awaiting *awaiting = argument;
    awaiting->result = pcclAwaitAsyncReduce(&awaiting->handle, NULL);
}

/* Returns when the other thread is in its await. */
static void start_awaiting(uv_thread_t *thread, struct awaiting *awaiting)
{
    assert_int_equal(uv_thread_create(thread, await_thread, awaiting), 0);
    while (pcclAwaitAsyncReduceFor(&awaiting->handle, 0, NULL) == pcclTimeout)
        continue; /* 0: it never waits, so it never delays the other one */
    words_say(awaiting->handle.comm, "another thread");
}

WORLD_TEST(one_thread_awaits_a_handle)
{
    pcclAsyncReduceOp_t handles[PEERS];
    uv_thread_t thread;
    launch(world, 0, 1, handles);
    struct awaiting awaiting = {.handle = handles[0], .result = pcclInternalError};
    start_awaiting(&thread, &awaiting);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclInvalidArgument);
    launch(world, 1, world->count, handles);
    for (int i = 1; i < world->count; i++)
        assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), pcclSuccess);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(awaiting.result, pcclSuccess);
}

enum { ENTRIES = 12 };

struct list {
    pcclComm_t *comm;
    pcclReduceOpDescriptor_t entries[ENTRIES];
    float *x; /* ENTRIES * COUNT */
    int max_in_flight;
    pcclReduceInfo_t info;
    pcclResult_t result;
};

static void make_list(struct list *list, pcclComm_t *comm, int peer, int max_in_flight)
{
    list->comm = comm;
    list->max_in_flight = max_in_flight;
    list->x = malloc(ENTRIES * COUNT * sizeof(float));
    for (int k = 0; k < ENTRIES; k++) {
        float *x = list->x + (size_t)k * COUNT;
        for (int e = 0; e < COUNT; e++)
            x[e] = (float)(1 << peer);
        list->entries[k] = (pcclReduceOpDescriptor_t){x, x, describe(COUNT, pcclFloat, pcclSum, 100 + (uint64_t)k)};
    }
}

static void list_thread(void *argument)
{
    struct list *list = argument;
    list->result = pcclAllReduceMultipleWithRetry(list->entries, ENTRIES, list->comm, &list->info, list->max_in_flight);
}

/* Until the list has its entry `index` in flight. */
static void await_launch(const struct list *list, int index)
{
    const pcclAsyncReduceOp_t handle = {list->comm, 100 + (uint64_t)index};
    bool done;
    while (pcclTestAsyncReduce(&handle, &done) != pcclSuccess)
        continue;
}

static void lists_run(struct world *world, const int *max_in_flight)
{
    struct list lists[PEERS];
    uv_thread_t threads[PEERS];
    for (int i = 0; i < world->count; i++) {
        make_list(&lists[i], world->peers[i], i, max_in_flight[i]);
        assert_int_equal(uv_thread_create(&threads[i], list_thread, &lists[i]), 0);
    }
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(lists[i].result, pcclSuccess);
        assert_int_equal(lists[i].info.local_world_size, world->count);
        for (size_t e = 0; e < ENTRIES * COUNT; e++)
            assert_true(lists[i].x[e] == (float)((1 << world->count) - 1));
        free(lists[i].x);
    }
}

WORLD_TEST(a_list_can_be_given_up)
{
    struct list lists[2];
    uv_thread_t threads[2];
    for (int i = 0; i < 2; i++) {
        make_list(&lists[i], world->peers[i], i, 3);
        assert_int_equal(uv_thread_create(&threads[i], list_thread, &lists[i]), 0);
    }
    await_launch(&lists[0], 2); /* peer 2 does not launch */
    await_launch(&lists[1], 2);
    assert_int_equal(pcclAbortOperations(world->peers[1]), pcclSuccess);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(lists[i].result, pcclRankConnectionLost);
        for (size_t e = 0; e < ENTRIES * COUNT; e++)
            assert_true(lists[i].x[e] == (float)(1 << i));
        free(lists[i].x);
    }
    update_all(world);
    lists_run(world, (const int[]){1, 4, 100});
    lists_run(world, (const int[]){1, 1, 1});
}

/* At any moment at which the list is aborted, no peer is left behind in it, and all get the same result. */
WORLD_TEST(a_list_can_be_given_up_at_any_time)
{
    enum { ROUNDS = 12 };
    for (int round = 0; round < ROUNDS; round++) {
        struct list lists[PEERS];
        uv_thread_t threads[PEERS];
        for (int i = 0; i < world->count; i++) {
            make_list(&lists[i], world->peers[i], i, 1 + (round + i) % 3);
            assert_int_equal(uv_thread_create(&threads[i], list_thread, &lists[i]), 0);
        }
        for (int i = 0; i < round * 100; i++) { /* the longer this takes, the more steps are done */
            const pcclAsyncReduceOp_t handle = {world->peers[0], 0};
            bool done;
            assert_int_equal(pcclTestAsyncReduce(&handle, &done), pcclInvalidArgument);
        }
        assert_int_equal(pcclAbortOperations(world->peers[round % world->count]), pcclSuccess);
        for (int i = 0; i < world->count; i++)
            assert_int_equal(uv_thread_join(&threads[i]), 0);
        for (int i = 0; i < world->count; i++) {
            bool success = lists[0].result == pcclSuccess;
            assert_int_equal(lists[i].result, success ? pcclSuccess : i == 2 ? pcclAborted : pcclRankConnectionLost);
            for (size_t e = 0; e < ENTRIES * COUNT; e++)
                assert_true(lists[i].x[e] == 7 || (!success && lists[i].x[e] == (float)(1 << i)));
            free(lists[i].x);
        }
        update_all(world);
    }
}

/* ---- peers that leave ---- */

WORLD_TEST(one_leaves_and_the_others_finish_their_lists)
{
    struct list lists[2];
    uv_thread_t threads[2];
    for (int i = 0; i < 2; i++) {
        make_list(&lists[i], world->peers[i], i, i == 0 ? 1 : 5);
        assert_int_equal(uv_thread_create(&threads[i], list_thread, &lists[i]), 0);
    }
    struct list third;
    make_list(&third, world->peers[2], 2, 1);
    for (int k = 0; k < 3; k++) /* then it leaves */
        assert_int_equal(pcclAllReduce(third.entries[k].sendbuf, third.entries[k].recvbuf, &third.entries[k].descriptor,
                                       third.comm, NULL),
                         pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(lists[i].result, pcclSuccess);
        assert_int_equal(lists[i].info.local_world_size, 2);
        for (size_t e = 0; e < ENTRIES * COUNT; e++)
            assert_true(lists[i].x[e] == (e < 3 * COUNT ? 7 : 3));
    }
    free(lists[0].x);
    free(lists[1].x);
    free(third.x);
    join(world, "1");
    all_reduce(world);
}

WORLD_TEST(destroying_lets_go_of_the_buffers)
{
    pcclAsyncReduceOp_t handles[PEERS];
    uv_thread_t thread;
    launch(world, 1, 3, handles);
    struct awaiting awaiting = {.handle = handles[1], .result = pcclInternalError};
    start_awaiting(&thread, &awaiting);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    check_untouched(2);
    launch(world, 0, 1, handles);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_int_equal(awaiting.result, pcclRankConnectionLost);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclRankConnectionLost);
    check_untouched(0);
    check_untouched(1);
    join(world, "1");
}

static void poll_until_done(const pcclAsyncReduceOp_t *handle)
{
    bool done = false;
    while (!done)
        assert_int_equal(pcclTestAsyncReduce(handle, &done), pcclSuccess);
}

/* The peer does not await it. */
WORLD_TEST(destroying_keeps_the_result_of_a_success)
{
    pcclAsyncReduceOp_t handles[PEERS];
    launch(world, 0, world->count, handles);
    for (int i = 0; i < world->count; i++)
        poll_until_done(&handles[i]);
    assert_int_equal(pcclCloseCommunicator(world->peers[2]), pcclSuccess);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[2], NULL), pcclInvalidUsage);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), pcclSuccess);
    assert_memory_equal(shared_x[2], shared_x[0], sizeof shared_x[0]);
    while (world_of(world->peers[0]) > world->count)
        update_all(world);
    join(world, "1");
}

struct asking {
    pcclComm_t *comm;
    bool pending;
    pcclResult_t result;
};

static void ask_thread(void *argument)
{
    struct asking *asking = argument;
    asking->result = pcclArePeersPending(asking->comm, &asking->pending);
}

static bool is_pending(struct world *world)
{
    struct asking asking[PEERS];
    uv_thread_t threads[PEERS];
    for (int i = 0; i < world->count; i++) {
        asking[i] = (struct asking){.comm = world->peers[i]};
        assert_int_equal(uv_thread_create(&threads[i], ask_thread, &asking[i]), 0);
    }
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(asking[i].result, pcclSuccess);
    }
    return asking[0].pending;
}

WORLD_TEST(destroying_sends_waiting_threads_out)
{
    pcclAsyncReduceOp_t handles[PEERS];
    uv_thread_t awaiter, connecter;
    launch(world, 2, 3, handles);
    struct awaiting awaiting = {.handle = handles[2], .result = pcclInternalError};
    start_awaiting(&awaiter, &awaiting);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    assert_int_equal(uv_thread_join(&awaiter), 0);
    assert_int_equal(awaiting.result, pcclAborted);
    check_untouched(2);
    struct call connecting = {.comm = create(world, "0")};
    assert_int_equal(uv_thread_create(&connecter, connect_thread, &connecting), 0);
    while (!is_pending(world)) /* then it waits to be admitted */
        continue;
    assert_int_equal(pcclDestroyCommunicator(connecting.comm), pcclSuccess);
    assert_int_equal(uv_thread_join(&connecter), 0);
    assert_int_equal(connecting.result, pcclMasterConnectionFailed);
    join(world, "1");
}

/* ---- another master ---- */

static void run_master(struct world *world)
{
    assert_int_equal(pcclCreateMasterWithOptions(world->address, NULL, &world->master), pcclSuccess);
    assert_int_equal(pcclRunMaster(world->master), pcclSuccess);
}

GROUP(start_two, end_world)

WORLD_TEST(a_new_connection_begins_anew)
{
    pcclAsyncReduceOp_t handles[PEERS];
    bool done;
    launch(world, 0, 1, handles);
    launch(world, 1, 2, handles);
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclSuccess);
    launch(world, 0, 1, handles); /* while the other one has not awaited its own */
    assert_int_equal(pcclAwaitAsyncReduceFor(&handles[0], 0, NULL), pcclTimeout);
    assert_int_equal(pcclInterruptMaster(world->master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(world->master), pcclSuccess);
    while (pcclTestAsyncReduce(&handles[0], &done) == pcclSuccess && !done)
        continue;
    check_untouched(0);
    run_master(world);
    const int peers = world->count;
    for (world->count = 0; world->count < peers; world->count++) {
        struct call call = {.comm = world->peers[world->count]};
        uv_thread_t thread;
        int unused;
        while (pcclGetAttribute(call.comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &unused) == pcclSuccess)
            continue; /* it has not received the old master's good-bye yet */
        assert_int_equal(uv_thread_create(&thread, connect_thread, &call), 0);
        while (world->count > 0 && world_of(world->peers[0]) <= world->count)
            update_all(world);
        assert_int_equal(uv_thread_join(&thread), 0);
        assert_int_equal(call.result, pcclSuccess);
    }
    assert_int_equal(pcclAwaitAsyncReduce(&handles[0], NULL), pcclRankConnectionLost);
    pcclReduceInfo_t info;
    assert_int_equal(pcclAwaitAsyncReduce(&handles[1], &info), pcclSuccess); /* it had completed before */
    assert_int_equal(info.local_world_size, 2);
    assert_true(shared_x[1][0] == contribution(0, 0) + contribution(0, 1));
    all_reduce(world);
}
