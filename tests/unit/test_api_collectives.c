/*
 * Members, groups, and errors of collectives through the public functions, with three peers in this process.
 * unit/api_matrix checks the results.
 */
#include "api_world.h"

#include <stdlib.h>

enum { LARGE = 20011 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int update(void **state)
{
    update_all(*state); /* the numbers of launches start again */
    return 0;
}
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static int32_t value(int peer, size_t index) { return (int32_t)(1000000 * (peer + 1) + (int)(index % 99991)); }

static int32_t *numbers(size_t count, int peer)
{
    int32_t *made = malloc((count + 1) * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++)
        made[i] = value(peer, i);
    made[count] = -7; /* belongs to no peer */
    return made;
}

static bool are_numbers(const int32_t *numbers, size_t count, int peer)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] != value(peer, i))
            return false;
    }
    return true;
}

/* By the number of the peer in the world: peers are admitted in this order. */
struct launched {
    pcclAsyncReduceOp_t handles[PEERS];
    int32_t *input[PEERS], *result[PEERS];
};

static void release(struct world *world, struct launched *launched)
{
    for (int i = 0; i < world->count; i++) {
        free(launched->input[i]);
        free(launched->result[i]);
    }
}

/* ---- waits ---- */

struct barrier {
    pcclComm_t *comm;
    pcclResult_t result;
    pcclOperationInfo_t info;
};

static void barrier_thread(void *argument)
{
    struct barrier *barrier = argument;
    barrier->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    barrier->result = pcclBarrier(NULL, barrier->comm, &barrier->info);
}

GROUP(start_three, end_world)

WORLD_TEST_IN(a_barrier_waits_for_all, update, NULL)
{
    struct barrier barriers[PEERS];
    uv_thread_t threads[PEERS];
    pcclAsyncReduceOp_t handles[PEERS];
    bool done = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pcclBarrierAsync(NULL, world->peers[i], &handles[i]), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&handles[0], 50, NULL), pcclTimeout); /* the third peer has not launched */
    words_say(world->peers[0], "still running");
    assert_int_equal(pcclTestAsyncReduce(&handles[1], &done), pcclSuccess);
    assert_false(done);
    assert_int_equal(pcclBarrierAsync(NULL, world->peers[2], &handles[2]), pcclSuccess);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), pcclSuccess);
    for (int i = 0; i < PEERS; i++) {
        barriers[i].comm = world->peers[i];
        assert_int_equal(uv_thread_create(&threads[i], barrier_thread, &barriers[i]), 0);
    }
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(barriers[i].result, pcclSuccess);
        assert_true(barriers[i].info.world == PEERS && barriers[i].info.sequence == 1);
        assert_true(barriers[i].info.tx_bytes == 0 && barriers[i].info.rx_bytes == 0);
    }
}

/* ---- members ---- */

WORLD_TEST(members_are_in_the_order_of_their_admission)
{
    pcclPeerId_t ids[PEERS];
    size_t count = 99;
    uint32_t rank = 99;
    for (int i = 0; i < PEERS; i++) {
        char own[PCCL_PEER_ID_SIZE];
        assert_int_equal(pcclGetMembers(world->peers[i], ids, PEERS, &count, &rank), pcclSuccess);
        assert_true(count == PEERS && rank == (uint32_t)i);
        assert_int_equal(pcclGetPeerId(world->peers[i], own, sizeof own), pcclSuccess);
        assert_string_equal(ids[i].digits, own);
    }
    assert_int_equal(pcclGetMembers(world->peers[0], NULL, 0, &count, NULL), pcclSuccess);
    assert_int_equal(count, PEERS);
    count = 0;
    assert_int_equal(pcclGetMembers(world->peers[0], ids, 2, &count, NULL), pcclInvalidArgument);
    words_say(world->peers[0], "3 members, max is 2");
    assert_int_equal(count, PEERS);
    assert_int_equal(pcclGetMembers(world->peers[0], ids, PEERS, NULL, NULL), pcclInvalidArgument);
    assert_int_equal(pcclGetMembers(world->peers[0], NULL, 1, &count, NULL), pcclInvalidArgument);
    assert_int_equal(pcclGetMembers(NULL, ids, PEERS, &count, NULL), pcclInvalidArgument);
}

static void members_of(pcclComm_t *comm, pcclPeerId_t *ids)
{
    size_t count;
    assert_int_equal(pcclGetMembers(comm, ids, PEERS, &count, NULL), pcclSuccess);
    assert_int_equal(count, PEERS);
}

/* One peer passes a list that differs from the members': all get the failure, and the next operation works. */
WORLD_TEST_IN(a_wrong_list_fails_for_all, update, NULL)
{
    for (int wrong = 0, large = 0; large < 2; large += wrong, wrong = !wrong) {
        const size_t count = large ? LARGE : 3;
        struct launched launched = {0};
        pcclPeerId_t ids[PEERS];
        members_of(world->peers[1], ids);
        const pcclPeerId_t others[2][PEERS] = {{ids[1], ids[0], ids[2]}, {ids[0], ids[1]}}; /* order; number */
        pcclCollectiveOptions_t options = tagged(8), plain = tagged(8);
        options.members = others[wrong];
        options.member_count = wrong == 0 ? 3 : 2;
        for (int i = 0; i < PEERS; i++) {
            launched.input[i] = numbers(count, i);
            launched.result[i] = numbers(PEERS * count, i);
            assert_int_equal(pcclAllGatherAsync(launched.input[i], launched.result[i], count, pcclInt32,
                                                i == 1 ? &options : &plain, world->peers[i], &launched.handles[i]),
                             pcclSuccess);
        }
        for (int i = 0; i < PEERS; i++) {
            assert_int_equal(pcclAwaitOperation(&launched.handles[i], UINT32_MAX, NULL), pcclMembersChanged);
            assert_true(strlen(pcclGetLastError(world->peers[i])) > 20);
            assert_true(are_numbers(launched.input[i], count, i));
        }
        release(world, &launched);
        a_barrier_waits_for_all(world);
        update_all(world);
    }
}

WORLD_TEST(a_barrier_counts_on_a_list_if_one_is_given)
{
    pcclAsyncReduceOp_t handles[PEERS];
    pcclPeerId_t ids[PEERS];
    members_of(world->peers[0], ids);
    pcclCollectiveOptions_t options = tagged(1), plain = tagged(1);
    options.members = ids;
    for (uint32_t count = 2; count <= 3; count++) {
        options.member_count = count;
        for (int i = 0; i < PEERS; i++)
            assert_int_equal(pcclBarrierAsync(i == 0 ? &options : &plain, world->peers[i], &handles[i]), pcclSuccess);
        for (int i = 0; i < PEERS; i++)
            assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), count == 3 ? pcclSuccess : pcclMembersChanged);
    }
}

/* ---- wrong arguments ---- */

static void refuse(struct world *world, pcclResult_t result, const char *words)
{
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    assert_int_equal(result, pcclInvalidArgument);
    words_say(world->peers[0], words);
    assert_int_equal(pcclGetLastFailure(world->peers[0], &failure), pcclSuccess);
    assert_false(failure.launched);
}

WORLD_TEST_IN(an_all_reduce_is_awaited_for_a_limited_time, update, NULL)
{
    pcclAsyncReduceOp_t handles[PEERS];
    pcclCollectiveOptions_t options = tagged(5);
    int32_t given[PEERS] = {1, 20, 300}, got[PEERS] = {0};
    for (int i = 0; i < 2; i++) { /* the third peer has not launched */
        assert_int_equal(pcclAllReduceWithOptionsFor(&given[i], &got[i], 1, pcclInt32, pcclSum, &options,
                                                     world->peers[i], 20, &handles[i]),
                         pcclTimeout);
        words_say(world->peers[i], "still running");
        assert_true(handles[i].comm == world->peers[i]);
    }
    assert_int_equal(pcclAllReduceWithOptionsFor(&given[0], &got[0], 1, pcclInt32, pcclSum, &options, world->peers[0],
                                                 20, &handles[2]),
                     pcclInvalidArgument);
    words_say(world->peers[0], "tag 5 is in use");
    assert_null(handles[2].comm);
    assert_int_equal(pcclAllReduceWithOptionsFor(&given[2], &got[2], 1, pcclInt32, pcclSum, &options, world->peers[2],
                                                 UINT32_MAX, &handles[2]),
                     pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&handles[2], 0, NULL), pcclInvalidArgument); /* it is over */
    for (int i = 0; i < 2; i++)
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclSuccess);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(got[i], 321);
    refuse(world,
           pcclAllReduceWithOptionsFor(NULL, &got[0], 1, pcclInt32, pcclSum, &options, world->peers[0], 0, &handles[0]),
           "NULL");
    assert_null(handles[0].comm);
    refuse(world,
           pcclAllReduceWithOptionsFor(&given[0], &got[0], 1, pcclInt32, pcclSum, &options, world->peers[0], 0, NULL),
           "the handle is NULL");
    handles[0].comm = world->peers[0];
    assert_int_equal(
        pcclAllReduceWithOptionsFor(&given[0], &got[0], 1, pcclInt32, pcclSum, &options, NULL, 0, &handles[0]),
        pcclInvalidArgument);
    assert_null(handles[0].comm);
}

WORLD_TEST(wrong_buffers_are_explained)
{
    pcclComm_t *comm = world->peers[0];
    static int32_t x[40];
    const pcclDataType_t none = (pcclDataType_t)15;
    refuse(world, pcclBroadcast(NULL, 1, pcclInt32, 0, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclBroadcast(x, 0, pcclInt32, 0, NULL, comm, NULL), "count is 0");
    refuse(world, pcclBroadcast(x, 1, none, 0, NULL, comm, NULL), "unknown data type");
    refuse(world, pcclBroadcast(x, 1, pcclInt32, 3, NULL, comm, NULL), "invalid root rank 3: the group has 3 members");
    refuse(world, pcclAllGather(x, NULL, 1, pcclInt32, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclAllGather(x, x + 1, 5, pcclInt32, NULL, comm, NULL), "overlap");
    refuse(world, pcclAllGather(x + 5, x, 5, pcclInt32, NULL, comm, NULL), "not rank 0's part");
    refuse(world, pcclAllGather(x, x + 20, SIZE_MAX / 20, pcclUint8, NULL, comm, NULL), "too large");
    refuse(world, pcclReduceScatter(x, x + 5, 5, pcclInt32, pcclSum, NULL, comm, NULL), "not rank 0's part");
    refuse(world, pcclReduceScatter(x, x + 20, 5, pcclInt32, (pcclRedOp_t)9, NULL, comm, NULL), "unknown operation");
    refuse(world, pcclReduceScatterAsync(x, x, 5, pcclInt32, pcclSum, NULL, comm, NULL), "the handle is NULL");
    refuse(world, pcclExclusiveScan(x, NULL, 5, pcclInt32, pcclSum, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclInclusiveScan(x, x + 1, 5, pcclInt32, pcclSum, NULL, comm, NULL), "partly overlap");
    refuse(world, pcclExclusiveScan(x, x, 5, pcclInt32, pcclAvg, NULL, comm, NULL), "an average cannot be scanned");
    refuse(world, pcclReduce(x, NULL, 5, pcclInt32, pcclSum, 0, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclReduce(NULL, x, 5, pcclInt32, pcclSum, 1, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclReduce(x, x + 1, 5, pcclInt32, pcclSum, 0, NULL, comm, NULL), "partly overlap");
    refuse(world, pcclReduce(x, x, 5, pcclInt32, pcclSum, 3, NULL, comm, NULL), "invalid root rank 3");
    refuse(world, pcclGather(x, x + 1, 5, pcclInt32, 0, NULL, comm, NULL), "not rank 0's part");
    refuse(world, pcclGather(x, NULL, 5, pcclInt32, 0, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclScatter(NULL, x, 5, pcclInt32, 0, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclScatter(NULL, NULL, 5, pcclInt32, 1, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclScatter(x, x + 5, 5, pcclInt32, 0, NULL, comm, NULL), "not rank 0's part");
    refuse(world, pcclAllToAll(x, x, 5, pcclInt32, NULL, comm, NULL), "of an all-to-all overlap");
    refuse(world, pcclAllToAll(x, NULL, 5, pcclInt32, NULL, comm, NULL), "a buffer is NULL");
    refuse(world, pcclAllToAllAsync(x, x + 20, 5, pcclInt32, NULL, comm, NULL), "the handle is NULL");
    refuse(world, pcclBarrierAsync(NULL, comm, NULL), "the handle is NULL");
}

static void refuse_reduction(struct world *world, pcclDataType_t datatype, pcclRedOp_t op, double factor,
                             const char *words)
{
    static double x[4], y[4];
    pcclCollectiveOptions_t options = tagged(0);
    options.factor = factor;
    refuse(world, pcclAllReduceWithOptions(x, y, 4, datatype, op, &options, world->peers[0], NULL), words);
}

WORLD_TEST(reductions_that_do_not_fit_are_explained)
{
    refuse_reduction(world, pcclFloat, pcclAnd, 1, "and, or and xor require integers or bool, not floats");
    refuse_reduction(world, pcclFloat8E4M3FN, pcclXor, 1, "not floats");
    refuse_reduction(world, pcclBool, pcclAvg, 1, "average of bool is not supported");
    refuse_reduction(world, pcclInt32, pcclPremulSum, 2, "a premultiplied sum requires floats");
    refuse_reduction(world, pcclBool, pcclPremulSum, 2, "a premultiplied sum requires floats");
    refuse_reduction(world, pcclFloat, pcclSum, 2, "only a premultiplied sum can have a factor");
    float x = 1, y = 0;
    pcclAsyncReduceOp_t handle;
    pcclReduceDescriptor_t descriptor = {.count = 1, .op = pcclPremulSum, .src_descriptor = {.datatype = pcclFloat}};
    refuse(world, pcclAllReduceAsync(&x, &y, &descriptor, world->peers[0], &handle),
           "needs a factor: use pcclAllReduceWithOptions");
}

WORLD_TEST_IN(wrong_options_are_explained, update, NULL)
{
    pcclComm_t *comm = world->peers[0];
    int32_t x[4] = {0};
    struct {
        pcclCollectiveOptions_t known;
        uint64_t unknown;
    } later = {.known.size = sizeof later};
    pcclPeerId_t ids[PEERS + 1];
    members_of(comm, ids);
    pcclCollectiveOptions_t options = {0};
    refuse(world, pcclBarrier(&options, comm, NULL), "PCCL_COLLECTIVE_OPTIONS_INIT");
    options = tagged(4);
    options.quantization = (pcclQuantizationOptions_t){pcclUint8, pcclQuantMinMax};
    refuse(world, pcclBarrier(&options, comm, NULL), "this operation has no elements to quantize");
    refuse(world, pcclBroadcast(x, 4, pcclInt32, 0, &options, comm, NULL), "");
    refuse(world, pcclReduceScatter(x, x, 1, pcclInt32, pcclSum, &options, comm, NULL), "");
    options = tagged(4);
    options.label = "a label of more than thirty-two bytes";
    refuse(world, pcclBarrier(&options, comm, NULL), "at most 32 bytes");
    options = tagged(4);
    options.members = ids;
    refuse(world, pcclBarrier(&options, comm, NULL), "the member list is empty");
    options.member_count = 2;
    ids[1].digits[3] = 'X';
    refuse(world, pcclBarrier(&options, comm, NULL), "entry 1 of the member list is not an id");
    ids[1] = ids[2];
    options.member_count = 3;
    refuse(world, pcclBarrier(&options, comm, NULL), "duplicate peer");
    ids[0] = ids[1]; /* there three times, also where it belongs */
    refuse(world, pcclBarrier(&options, comm, NULL), "duplicate peer");
    options.members = ids + 1;
    options.member_count = 1;
    refuse(world, pcclBroadcast(x, 1, pcclInt32, 0, &options, comm, NULL), "this peer is not in the member list");
    later.unknown = 1; /* of a program that was built with a later version */
    refuse(world, pcclBarrier(&later.known, comm, NULL), "members that this version of the library does not know");
    pcclOperationInfo_t info = {0};
    refuse(world, pcclBarrier(NULL, comm, &info), "PCCL_OPERATION_INFO_INIT");
    assert_int_equal(pcclBarrier(NULL, NULL, NULL), pcclInvalidArgument);
    a_barrier_waits_for_all(world); /* nothing was launched */
}

WORLD_TEST_IN(wrong_counts_are_explained, update, NULL)
{
    pcclComm_t *comm = world->peers[0];
    static const size_t given[] = {4, 0, 5, 1}, vast[] = {SIZE_MAX, 2, 8};
    int32_t x[20] = {0}, *y = x + 10;
    pcclCollectiveOptions_t options = tagged(4);
    options.counts = given;
    refuse(world, pcclReduceScatter(x, y, 9, pcclInt32, pcclSum, &options, comm, NULL), "counts is empty");
    options.counts_length = 3;
    refuse(world, pcclReduceScatter(x, y, 8, pcclInt32, pcclSum, &options, comm, NULL), "do not add up to 8");
    refuse(world, pcclReduceScatter(x, NULL, 9, pcclInt32, pcclSum, &options, comm, NULL), "a buffer is NULL");
    refuse(world, pcclReduceScatter(x, x + 1, 9, pcclInt32, pcclSum, &options, comm, NULL), "not rank 0's part");
    refuse(world, pcclAllGather(x, y, 9, pcclInt32, &options, comm, NULL), "only a reduce-scatter takes counts");
    options.counts_length = 4;
    refuse(world, pcclReduceScatter(x, y, 10, pcclInt32, pcclSum, &options, comm, NULL),
           "4 entries, but the group has 3");
    options.counts_length = UINT32_MAX;
    refuse(world, pcclReduceScatter(x, y, 9, pcclInt32, pcclSum, &options, comm, NULL),
           "counts has more entries than a group can have members");
    options.counts = vast; /* 9, if they were added without care */
    options.counts_length = 3;
    refuse(world, pcclReduceScatter(x, y, 9, pcclInt32, pcclSum, &options, comm, NULL), "do not add up to 9");
    a_barrier_waits_for_all(world); /* nothing was launched */
}

WORLD_TEST(a_tag_and_a_handle_are_used_once)
{
    pcclAsyncReduceOp_t handles[PEERS], other;
    pcclCollectiveOptions_t options = tagged(11);
    pcclOperationInfo_t info = {0};
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclBarrierAsync(&options, world->peers[i], &handles[i]), pcclSuccess);
    refuse(world, pcclBarrierAsync(&options, world->peers[0], &other), "tag 11 is in use");
    refuse(world, pcclAwaitOperation(&handles[0], 0, &info), "PCCL_OPERATION_INFO_INIT");
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclSuccess);
    refuse(world, pcclAwaitOperation(&handles[0], 0, NULL), "no operation with tag 11");
    assert_int_equal(pcclAwaitOperation(NULL, 0, NULL), pcclInvalidArgument);
}

/* Arguments that differ on the third peer. counts: it passes a last share that is one element shorter. */
static const struct difference {
    pcclCollective_t kind, other_kind;
    uint32_t root, other_root;
    size_t less;
    pcclDataType_t other_type;
    pcclRedOp_t other_op;
    bool counts;
} differences[] = {
    {pcclCollectiveBroadcast, pcclCollectiveBroadcast, 0, 1, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveBroadcast, pcclCollectiveAllGather, 0, 0, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveAllGather, pcclCollectiveAllGather, 0, 0, 1, pcclInt32, pcclSum, false},
    {pcclCollectiveReduceScatter, pcclCollectiveReduceScatter, 0, 0, 0, pcclInt32, pcclSum, true},
    {pcclCollectiveReduce, pcclCollectiveReduce, 0, 2, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveGather, pcclCollectiveGather, 0, 2, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveScatter, pcclCollectiveScatter, 0, 0, 1, pcclInt32, pcclSum, false},
    {pcclCollectiveScatter, pcclCollectiveAllToAll, 1, 0, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveReduceScatter, pcclCollectiveReduceScatter, 0, 0, 0, pcclUint32, pcclSum, false},
    {pcclCollectiveInclusiveScan, pcclCollectiveExclusiveScan, 0, 0, 0, pcclInt32, pcclSum, false},
    {pcclCollectiveAllReduce, pcclCollectiveAllReduce, 0, 0, 0, pcclInt32, pcclMax, false},
    {pcclCollectiveAllReduce, pcclCollectiveAllReduce, 0, 0, 0, pcclFloat, pcclPremulSum, false},
};

static pcclResult_t launch_difference(const struct world *world, const struct difference *difference, int peer,
                                      int32_t *x, int32_t *y, size_t count, pcclAsyncReduceOp_t *handle)
{
    const bool other = peer == 2;
    const size_t shares[PEERS] = {count, other, count - other};
    pcclCollectiveOptions_t options = tagged(0);
    pcclOperation_t operation = PCCL_OPERATION_INIT;
    operation.collective = other ? difference->other_kind : difference->kind;
    operation.sendbuf = operation.collective == pcclCollectiveBroadcast ? NULL : x;
    operation.recvbuf = operation.collective == pcclCollectiveBroadcast ? x : y;
    operation.count = difference->counts ? 2 * count : other ? count - difference->less : count;
    operation.datatype = other || difference->other_type == pcclFloat ? difference->other_type : pcclInt32;
    operation.op = other ? difference->other_op : pcclSum;
    operation.root = other ? difference->other_root : difference->root;
    operation.options = &options;
    options.factor = operation.op == pcclPremulSum ? 3 : 1;
    options.counts = difference->counts ? shares : NULL;
    options.counts_length = difference->counts ? PEERS : 0;
    return pcclStart(&operation, world->peers[peer], handle);
}

/* The arguments of peers are compared; all get a reason, nothing is lost, and the next operation works. */
WORLD_TEST_IN(peers_that_differ_are_told, update, NULL)
{
    static int32_t x[PEERS][PEERS * LARGE], y[PEERS][PEERS * LARGE];
    for (size_t which = 0; which < 2 * sizeof differences / sizeof *differences; which++) {
        const struct difference *difference = &differences[which / 2];
        const size_t count = which % 2 ? LARGE : 3;
        pcclAsyncReduceOp_t handles[PEERS];
        for (int i = 0; i < PEERS; i++) {
            for (size_t k = 0; k < PEERS * count; k++)
                x[i][k] = value(i, k);
            assert_int_equal(launch_difference(world, difference, i, x[i], y[i], count, &handles[i]), pcclSuccess);
        }
        for (int i = 0; i < PEERS; i++) {
            const bool receives = difference->kind == pcclCollectiveBroadcast && i != 0;
            assert_int_equal(pcclAwaitAsyncReduce(&handles[i], NULL), i == 2 ? pcclPeerMismatch : pcclInvalidUsage);
            assert_true(strlen(pcclGetLastError(world->peers[i])) > 20);
            for (size_t k = 0; !receives && k < PEERS * count; k++) /* else it is unspecified */
                assert_int_equal(x[i][k], value(i, k));
        }
        update_all(world);
        a_barrier_waits_for_all(world);
        update_all(world);
    }
}

/* ---- alone ---- */

WORLD_TEST(an_unconnected_communicator_says_so)
{
    pcclComm_t *comm = create(world, "0");
    int32_t x[3] = {0};
    size_t count;
    pcclAsyncReduceOp_t handle = {comm, 0};
    pcclCollectiveOptions_t options = tagged(0);
    options.alone_ok = true;
    assert_int_equal(pcclGetMembers(comm, NULL, 0, &count, NULL), pcclInvalidUsage);
    assert_int_equal(pcclBroadcast(x, 3, pcclInt32, 0, &options, comm, NULL), pcclInvalidUsage);
    assert_int_equal(pcclBarrier(NULL, comm, NULL), pcclInvalidUsage);
    assert_int_equal(pcclAwaitOperation(&handle, 0, NULL), pcclInvalidUsage);
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
}

/* ---- groups ---- */

static void refused_group(struct world *world, const pcclPeerId_t *ids, uint32_t count,
                          const pcclGroupOptions_t *options, const char *words)
{
    pcclComm_t *group = NULL;
    assert_int_equal(pcclCreateGroup(world->peers[0], ids, count, options, &group), pcclInvalidArgument);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), words));
    assert_null(group);
}

WORLD_TEST(founding_a_group_refuses_bad_arguments)
{
    struct {
        pcclGroupOptions_t known;
        uint64_t later;
    } larger = {.known = PCCL_GROUP_OPTIONS_INIT};
    pcclGroupOptions_t options = {0};
    pcclPeerId_t ids[PEERS], wrong[2] = {{"x"}, {"y"}};
    pcclComm_t *group = NULL;
    size_t count;
    assert_int_equal(pcclGetMembers(world->peers[0], ids, PEERS, &count, NULL), pcclSuccess);
    refused_group(world, NULL, 2, NULL, "ids or group_out is NULL");
    refused_group(world, ids, 0, NULL, "the list is empty");
    refused_group(world, ids, UINT32_MAX, NULL, "more entries than a group can have members");
    refused_group(world, wrong, 2, NULL, "hexadecimal");
    refused_group(world, ids, 2, &options, "PCCL_GROUP_OPTIONS_INIT");
    larger.known.size = sizeof larger;
    larger.later = 1;
    refused_group(world, ids, 2, &larger.known, "members that this version of the library does not know");
    options = larger.known;
    options.size = sizeof options;
    options.label = "a label that is longer than any may be";
    refused_group(world, ids, 2, &options, "32 bytes");
    refused_group(world, ids + 1, 2, NULL, "this peer is not in the member list");
    refused_group(world, (const pcclPeerId_t[]){ids[0], ids[0]}, 2, NULL, "duplicate peer");
    wrong[0] = wrong[1] = ids[0];
    wrong[1].digits[0] = wrong[1].digits[0] == 'f' ? '0' : 'f';
    assert_int_equal(pcclCreateGroup(world->peers[0], wrong, 2, NULL, &group), pcclMembersChanged);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), "not a current member: peer"));
    assert_int_equal(pcclCreateGroup(world->peers[0], ids, 2, NULL, NULL), pcclInvalidArgument);
    assert_int_equal(pcclCreateGroup(NULL, ids, 2, NULL, &group), pcclInvalidArgument);
}

GROUP(start_one, end_world)

WORLD_TEST(alone_it_succeeds_only_if_that_is_wanted)
{
    pcclComm_t *comm = world->peers[0];
    int32_t x[] = {1, 2, 3}, y[] = {0, 0, 0};
    pcclPeerId_t ids[2];
    pcclAsyncReduceOp_t handle;
    pcclCollectiveOptions_t options = tagged(5);
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    size_t count;
    assert_int_equal(pcclBroadcast(x, 3, pcclInt32, 0, &options, comm, &info), pcclTooFewPeers);
    assert_int_equal(pcclAllGather(x, y, 3, pcclInt32, NULL, comm, &info), pcclTooFewPeers);
    assert_int_equal(pcclBarrier(NULL, comm, &info), pcclTooFewPeers);
    options.alone_ok = true;
    assert_int_equal(pcclReduceScatterAsync(x, y, 3, pcclInt32, pcclAvg, &options, comm, &handle), pcclSuccess);
    refuse(world, pcclBarrier(&options, comm, &info), "tag 5 is in use");
    assert_int_equal(pcclAwaitOperation(&handle, 0, &info), pcclSuccess);
    assert_true(info.world == 1 && info.rank == 0 && info.tag == 5 && info.tx_bytes == 0 && info.rx_bytes == 0);
    assert_int_equal(pcclGetMembers(comm, ids, 1, &count, NULL), pcclSuccess);
    options.members = ids;
    options.member_count = 2; /* it counts on one that is not there */
    ids[1] = ids[0];
    ids[1].digits[0] = ids[1].digits[0] == '0' ? '1' : '0';
    assert_int_equal(pcclBroadcast(x, 3, pcclInt32, 0, &options, comm, &info), pcclMembersChanged);
    words_say(comm, "the only one left");
}

WORLD_TEST(a_group_of_one_outlives_its_communicator)
{
    pcclPeerId_t own;
    pcclComm_t *group, *inner;
    size_t count;
    int size;
    assert_int_equal(pcclGetMembers(world->peers[0], &own, 1, &count, NULL), pcclSuccess);
    assert_int_equal(pcclCreateGroup(world->peers[0], &own, 1, NULL, &group), pcclSuccess);
    assert_int_equal(pcclGetAttribute(group, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &size), pcclSuccess);
    assert_int_equal(size, 1);
    assert_int_equal(pcclBarrier(NULL, group, NULL), pcclTooFewPeers);
    assert_int_equal(pcclCreateGroup(group, &own, 1, NULL, &inner), pcclInvalidUsage);
    assert_int_equal(pcclConnect(group), pcclInvalidUsage);
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.alone_ok = true;
    assert_int_equal(pcclBarrier(&options, group, NULL), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(world->peers[0]), pcclSuccess);
    world->count = 0;
    assert_int_equal(pcclBarrier(&options, group, NULL), pcclInvalidUsage);
    assert_non_null(strstr(pcclGetLastError(group), "destroyed"));
    assert_int_equal(pcclDestroyCommunicator(group), pcclSuccess);
}
