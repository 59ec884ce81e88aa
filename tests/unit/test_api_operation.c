/*
 * pcclStart and pcclPerform: operations as structs, by three peers here; refused and ignored members. Results are in
 * unit/api_matrix and unit/api_blobs.
 */
#include "api_world.h"

#include <stdlib.h>

enum { COUNT = 2, ROOM = PEERS * COUNT, ROOT = 1, KINDS = pcclCollectiveRecv + 1, UNTOUCHED = -1, LARGE = 20011 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

/* ---- the arguments of a kind ---- */

/* The arguments of one peer: all its elements are its number plus one, also in blobs and parts. */
struct given {
    int32_t input[ROOM], output[ROOM];
    pcclCoalescedTensor_t tensor;
    pcclPart_t parts[PEERS];
    pcclBlobs_t blobs;
    pcclCollectiveOptions_t options;
    pcclOperation_t operation;
    pcclAsyncReduceOp_t handle;
};

static bool gives_blobs(pcclCollective_t kind)
{
    return kind == pcclCollectiveAllGatherV || kind == pcclCollectiveGatherV || kind == pcclCollectiveScatterV ||
           kind == pcclCollectiveAllToAllV;
}

static bool is_in_parts(pcclCollective_t kind)
{
    return kind == pcclCollectiveScatterV || kind == pcclCollectiveAllToAllV;
}

static void arrange(struct given *given, pcclCollective_t kind, int peer)
{
    pcclOperation_t *operation = &given->operation;
    for (int i = 0; i < ROOM; i++) {
        given->input[i] = peer + 1;
        given->output[i] = UNTOUCHED;
    }
    for (int i = 0; i < PEERS; i++)
        given->parts[i] = (pcclPart_t){given->input, COUNT * sizeof *given->input};
    given->tensor = (pcclCoalescedTensor_t){given->input, given->output, COUNT, pcclInt32, pcclSum};
    given->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    given->options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    given->options.tag = 7;
    given->handle = (pcclAsyncReduceOp_t){0};
    *operation = (pcclOperation_t)PCCL_OPERATION_INIT;
    operation->collective = kind;
    operation->sendbuf = given->input;
    operation->recvbuf = given->output;
    operation->count = COUNT;
    operation->datatype = pcclInt32;
    operation->root = ROOT;
    operation->options = &given->options;
    if (kind == pcclCollectiveBroadcast) {
        operation->sendbuf = NULL;
    } else if (kind == pcclCollectiveCoalesced) {
        operation->sendbuf = &given->tensor;
        operation->recvbuf = NULL;
        operation->count = 1;
    } else if (kind == pcclCollectiveRecv) {
        operation->root = 0;
    } else if (gives_blobs(kind)) {
        operation->blobs = &given->blobs;
        operation->sendbuf = is_in_parts(kind) ? (const void *)given->parts : given->input;
        operation->count = is_in_parts(kind) ? PEERS : COUNT * sizeof *given->input;
    }
}

/* The element that a peer finds at this place of its result. */
static int32_t expected(pcclCollective_t kind, int place)
{
    if (kind == pcclCollectiveAllGather)
        return place / COUNT + 1;
    return kind == pcclCollectiveRecv && place < COUNT ? 1 : UNTOUCHED;
}

static void check_blobs(pcclBlobs_t *blobs)
{
    assert_int_equal(blobs->count, PEERS);
    for (size_t i = 0; i < blobs->count; i++) {
        int32_t elements[COUNT];
        assert_int_equal(blobs->blobs[i].length, sizeof elements);
        memcpy(elements, blobs->blobs[i].data, sizeof elements);
        assert_int_equal(elements[COUNT - 1], (int)i + 1);
    }
    assert_int_equal(pcclFreeBlobs(blobs), pcclSuccess);
}

static void check(const struct world *world, struct given *given, pcclCollective_t kind, int peer)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    assert_ptr_equal(given->handle.comm, world->peers[peer]);
    assert_int_equal(pcclAwaitOperation(&given->handle, UINT32_MAX, &info), pcclSuccess);
    assert_int_equal(info.tag, 7);
    for (int i = 0; i < ROOM; i++) {
        if (given->output[i] != expected(kind, i))
            fail_msg("kind %d, peer %d: element %d is %d", (int)kind, peer, i, given->output[i]);
        assert_int_equal(given->input[i], peer + 1);
    }
    if (gives_blobs(kind))
        check_blobs(&given->blobs);
}

/* After the launch only the buffers of an operation are read. */
static void start(const struct world *world, struct given *given, int peer)
{
    assert_int_equal(pcclStart(&given->operation, world->peers[peer], &given->handle), pcclSuccess);
    memset(&given->operation, 0xff, sizeof given->operation);
    memset(&given->options, 0xff, sizeof given->options);
    memset(&given->tensor, 0xff, sizeof given->tensor);
    memset(given->parts, 0xff, sizeof given->parts);
}

GROUP(start_three, end_world)

WORLD_TEST(a_send_meets_a_receive)
{
    struct given sent, got;
    arrange(&sent, pcclCollectiveSend, 0);
    arrange(&got, pcclCollectiveRecv, ROOT);
    got.operation.sendbuf = &got; /* ignored, as below */
    sent.operation.recvbuf = &sent;
    start(world, &got, ROOT);
    start(world, &sent, 0);
    for (int i = 0; i < 2; i++) {
        struct given *given = i ? &got : &sent;
        assert_int_equal(pcclAwaitOperation(&given->handle, UINT32_MAX, NULL), pcclSuccess);
        for (int k = 0; k < ROOM; k++)
            assert_int_equal(given->output[k], expected(i ? pcclCollectiveRecv : pcclCollectiveSend, k));
    }
    assert_int_equal(sent.input[0], 1);
}

struct performed {
    const pcclComm_t *comm;
    struct given given;
    pcclOperationInfo_t info;
    pcclPeerId_t participants[PEERS];
    int seen;
    pcclResult_t result;
};

static void see(const pcclBlob_t *part, void *user_data)
{
    struct performed *performed = user_data;
    performed->seen += part->length == COUNT * sizeof(int32_t);
}

static void perform_thread(void *argument)
{
    struct performed *performed = argument;
    performed->result = pcclPerform(&performed->given.operation, performed->comm, &performed->info);
}

WORLD_TEST(performing_waits_and_tells_what_became_of_it)
{
    struct performed performed[PEERS] = {0};
    uv_thread_t threads[PEERS];
    for (int i = 0; i < PEERS; i++) {
        arrange(&performed[i].given, pcclCollectiveAllToAllV, i);
        performed[i].comm = world->peers[i];
        performed[i].given.options.on_arrival = see;
        performed[i].given.options.user_data = &performed[i];
        performed[i].info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
        performed[i].info.participants = performed[i].participants;
        performed[i].info.participants_max = PEERS;
        assert_int_equal(uv_thread_create(&threads[i], perform_thread, &performed[i]), 0);
    }
    for (int i = 0; i < PEERS; i++) {
        char own[PCCL_PEER_ID_SIZE];
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(performed[i].result, pcclSuccess);
        assert_int_equal(performed[i].seen, PEERS);
        assert_int_equal(performed[i].info.world, PEERS);
        assert_int_equal(performed[i].info.rank, i);
        assert_int_equal(pcclGetPeerId(world->peers[i], own, sizeof own), pcclSuccess);
        assert_string_equal(performed[i].participants[i].digits, own);
        check_blobs(&performed[i].given.blobs);
    }
}

WORLD_TEST(members_that_a_kind_does_not_use_are_ignored)
{
    struct given given[PEERS];
    const pcclCollective_t kinds[] = {pcclCollectiveBarrier, pcclCollectiveAllGatherV, pcclCollectiveAllGather};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < PEERS; i++) {
            arrange(&given[i], kinds[k], i);
            given[i].operation.op = (pcclRedOp_t)99;
            given[i].operation.root = 99;
            if (kinds[k] != pcclCollectiveAllGather) {
                given[i].operation.datatype = (pcclDataType_t)99;
                given[i].operation.recvbuf = &given[i];
            }
            start(world, &given[i], i);
        }
        for (int i = 0; i < PEERS; i++)
            check(world, &given[i], kinds[k], i);
    }
}

/* ---- wrong use ---- */

static void refuse(const struct world *world, const pcclOperation_t *operation, const char *words)
{
    pcclAsyncReduceOp_t handle = {.tag = 99};
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    pcclComm_t *comm = world->peers[0];
    assert_int_equal(pcclStart(operation, comm, &handle), pcclInvalidArgument);
    words_say(comm, words);
    assert_true(handle.comm == NULL && handle.tag == 99);
    assert_int_equal(pcclPerform(operation, comm, &info), pcclInvalidArgument);
    words_say(comm, words);
    assert_int_equal(info.world, 0);
}

WORLD_TEST(what_is_wrong_is_explained)
{
    struct given given;
    pcclOperation_t *operation = &given.operation;
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    refuse(world, NULL, "operation is NULL");
#define WRONG(kind, member, value, words)                                                                              \
    do {                                                                                                               \
        arrange(&given, pcclCollective##kind, 0);                                                                      \
        given.member = value;                                                                                          \
        refuse(world, operation, words);                                                                               \
    } while (0)
    WRONG(AllReduce, operation.size, 0, "the size of the struct is not set: initialize it with PCCL_OPERATION_INIT");
    WRONG(AllReduce, operation.size, sizeof *operation - 1, "PCCL_OPERATION_INIT");
    WRONG(AllReduce, operation.size, SIZE_MAX, "PCCL_OPERATION_INIT");
    WRONG(AllReduce, options.size, 0, "PCCL_COLLECTIVE_OPTIONS_INIT");
    WRONG(AllReduce, operation.collective, (pcclCollective_t)(pcclCollectiveInclusiveScan + 1), "unknown collective");
    WRONG(AllReduce, operation.collective, (pcclCollective_t)-1, "unknown collective");
    WRONG(AllReduce, operation.datatype, (pcclDataType_t)99, "unknown data type");
    WRONG(AllReduce, operation.op, (pcclRedOp_t)99, "unknown operation");
    WRONG(AllReduce, operation.count, 0, "count is 0");
    WRONG(AllReduce, operation.count, SIZE_MAX, "count is too large");
    WRONG(AllReduce, operation.sendbuf, NULL, "a buffer is NULL");
    WRONG(AllReduce, operation.recvbuf, NULL, "a buffer is NULL");
    WRONG(AllReduce, operation.recvbuf, given.input + 1, "overlap");
    WRONG(AllReduce, operation.info, &info, "info in the struct is only for operations of pcclRunOperations");
    WRONG(AllReduce, operation.blobs, &given.blobs, "this operation returns no blobs");
    WRONG(Barrier, operation.blobs, &given.blobs, "this operation returns no blobs");
    WRONG(AllReduce, options.max_bytes, 1, "max_bytes");
    WRONG(AllReduce, options.on_arrival, see, "on_arrival");
    WRONG(AllReduce, options.factor, 2, "factor");
    WRONG(Broadcast, operation.sendbuf, given.input, "a broadcast takes a single buffer, recvbuf");
    WRONG(Broadcast, operation.recvbuf, NULL, "a buffer is NULL");
    WRONG(Broadcast, operation.root, PEERS, "invalid root rank 3");
    WRONG(Coalesced, operation.recvbuf, given.output, "not recvbuf");
    WRONG(Coalesced, operation.sendbuf, NULL, "the tensor list is NULL");
    WRONG(Coalesced, tensor.count, 0, "tensor 0: count is 0");
    WRONG(AllGatherV, operation.blobs, NULL, "a buffer is NULL");
    WRONG(AllGatherV, blobs.size, 0, "PCCL_BLOBS_INIT");
    WRONG(AllToAllV, operation.count, PEERS + 1, "parts");
    WRONG(Send, operation.sendbuf, NULL, "a buffer is NULL");
    WRONG(Send, operation.root, 0, "");
    WRONG(Recv, operation.recvbuf, NULL, "a buffer is NULL");
    WRONG(Recv, operation.root, PEERS, "");
    pcclAsyncReduceOp_t handle = {0};
    pcclComm_t *comm = world->peers[0];
    arrange(&given, pcclCollectiveAllReduce, 0);
    assert_int_equal(pcclStart(operation, comm, NULL), pcclInvalidArgument);
    words_say(comm, "the handle is NULL");
    assert_int_equal(pcclStart(operation, NULL, &handle), pcclInvalidArgument);
    assert_int_equal(pcclPerform(operation, NULL, NULL), pcclInvalidArgument);
    info.size = 1;
    assert_int_equal(pcclPerform(operation, comm, &info), pcclInvalidArgument);
    words_say(comm, "PCCL_OPERATION_INFO_INIT");
    members_that_a_kind_does_not_use_are_ignored(world); /* nothing was launched with this tag */
}

WORLD_TEST(a_refusal_leaves_blobs_as_they_are)
{
    struct given given;
    pcclOperationInfo_t info = {.size = 1};
    const size_t counts[] = {1};
    arrange(&given, pcclCollectiveAllGatherV, 0);
    given.blobs.count = 7;
    given.options.label = "a label that is longer than 32 bytes";
    refuse(world, &given.operation, "invalid label");
    given.options.label = NULL;
    assert_int_equal(pcclPerform(&given.operation, world->peers[0], &info), pcclInvalidArgument);
    assert_int_equal(given.blobs.count, 7);
    given.options.counts = counts;
    given.operation.blobs = NULL;
    refuse(world, &given.operation, "a buffer is NULL");
}

/* A struct of a later version, with a member that this one does not know. */
struct later {
    pcclOperation_t known;
    uint64_t unknown;
};

/* ---- failures ---- */

/* The other peers fail with unchanged send buffers, and can start the same struct again. */
WORLD_TEST(when_a_peer_leaves_the_others_can_start_again)
{
    static float values[PEERS][LARGE];
    pcclOperation_t operations[PEERS];
    pcclAsyncReduceOp_t handles[PEERS];
    for (int i = 0; i < PEERS - 1; i++) {
        for (int k = 0; k < LARGE; k++)
            values[i][k] = (float)(i + 1);
        operations[i] = (pcclOperation_t)PCCL_OPERATION_INIT;
        operations[i].sendbuf = operations[i].recvbuf = values[i];
        operations[i].count = LARGE;
        operations[i].datatype = pcclFloat;
        assert_int_equal(pcclStart(&operations[i], world->peers[i], &handles[i]), pcclSuccess);
    }
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclRankConnectionLost);
        assert_true(values[i][0] == (float)(i + 1) && values[i][LARGE - 1] == (float)(i + 1));
    }
    for (int i = 0; i < world->count; i++)
        assert_int_equal(pcclStart(&operations[i], world->peers[i], &handles[i]), pcclSuccess);
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclSuccess);
        assert_true(values[i][0] == 3 && values[i][LARGE - 1] == 3);
    }
}

/* A new master at the same port; the old one says goodbye, so that its peers leave at once. */
static void replace_master(struct world *world)
{
    assert_int_equal(pcclInterruptMaster(world->master), pcclSuccess);
    assert_int_equal(pcclMasterAwaitTermination(world->master), pcclSuccess);
    assert_int_equal(pcclDestroyMaster(world->master), pcclSuccess);
    assert_int_equal(pcclCreateMasterWithOptions(world->address, NULL, &world->master), pcclSuccess);
    assert_int_equal(pcclRunMaster(world->master), pcclSuccess);
}

WORLD_TEST(a_list_has_no_sends)
{
    struct given given;
    for (int kind = pcclCollectiveSend; kind < KINDS; kind++) {
        arrange(&given, (pcclCollective_t)kind, 0);
        assert_int_equal(pcclRunOperations(&given.operation, 1, NULL, world->peers[0]), pcclInvalidArgument);
        words_say(world->peers[0], "entry 0: a send or receive cannot be part of a list");
    }
}

GROUP(start_three, end_world)

WORLD_TEST(outcomes_are_kept_when_a_peer_connects_again)
{
    struct given ended[PEERS], barriers[PEERS], undecided;
    for (int i = 0; i < PEERS; i++) {
        arrange(&ended[i], pcclCollectiveAllGather, i);
        arrange(&barriers[i], pcclCollectiveBarrier, i);
        barriers[i].options.tag = 8;
        start(world, &ended[i], i);
        start(world, &barriers[i], i);
    }
    arrange(&undecided, pcclCollectiveAllGather, 0);
    undecided.options.tag = 9;
    start(world, &undecided, 0);
    for (int i = 0; i < PEERS; i++) /* outcomes arrive in the order of the launches */
        assert_int_equal(pcclAwaitOperation(&barriers[i].handle, UINT32_MAX, NULL), pcclSuccess);
    replace_master(world);
    struct call connecting = {.comm = world->peers[0]};
    do
        connect_thread(&connecting);
    while (connecting.result == pcclInvalidUsage); /* it has not left yet */
    assert_int_equal(connecting.result, pcclSuccess);
    check(world, &ended[0], pcclCollectiveAllGather, 0);
    assert_int_not_equal(pcclAwaitOperation(&undecided.handle, UINT32_MAX, NULL), pcclSuccess);
    words_say(world->peers[0], "the master");
    check(world, &ended[1], pcclCollectiveAllGather, 1);
}

GROUP(start_one, end_world)

WORLD_TEST(a_later_struct_is_understood_or_refused)
{
    struct given given;
    struct later later = {.unknown = 1};
    arrange(&given, pcclCollectiveAllReduce, 0);
    given.options.alone_ok = true;
    later.known = given.operation;
    later.known.size = sizeof later;
    refuse(world, &later.known, "members that this version of the library does not know");
    later.unknown = 0;
    assert_int_equal(pcclPerform(&later.known, world->peers[0], NULL), pcclSuccess);
    assert_int_equal(given.output[COUNT - 1], 1);
}

WORLD_TEST(alone_or_unconnected_a_peer_is_told)
{
    struct given given;
    pcclComm_t *unconnected = create(world, "0");
    arrange(&given, pcclCollectiveAllReduce, 0);
    assert_int_equal(pcclStart(&given.operation, unconnected, &given.handle), pcclInvalidUsage);
    assert_int_equal(pcclPerform(&given.operation, unconnected, NULL), pcclInvalidUsage);
    assert_int_equal(pcclDestroyCommunicator(unconnected), pcclSuccess);
    assert_int_equal(pcclStart(&given.operation, world->peers[0], &given.handle), pcclTooFewPeers);
    assert_int_equal(pcclPerform(&given.operation, world->peers[0], NULL), pcclTooFewPeers);
    assert_null(given.handle.comm);
}
