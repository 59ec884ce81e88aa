/*
 * Sends and receives through the public functions: up to three peers, with payloads that go through the master and
 * payloads that do not.
 */
#include "api_world.h"

#include <stdlib.h>

enum { LARGE = 300007, FLIGHT = 5, WINDOW = 4096 };
static const size_t counts[] = {1, 2048, 2049, 65537, LARGE};

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static int32_t value(size_t which, size_t index) { return (int32_t)(1000000 * (which + 1) + index % 99991); }

static int32_t *numbers(size_t count, size_t which)
{
    int32_t *made = malloc((count + 1) * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i <= count; i++)
        made[i] = value(which, i);
    return made;
}

static void must_be(const int32_t *found, size_t count, size_t which)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(found[i], value(which, i));
}

static pcclAsyncReduceOp_t launch_send(struct world *world, uint32_t from, uint32_t to, const int32_t *buffer,
                                       size_t count)
{
    pcclAsyncReduceOp_t handle;
    assert_int_equal(pcclSendAsync(buffer, count, pcclInt32, to, NULL, world->peers[from], &handle), pcclSuccess);
    return handle;
}

static pcclAsyncReduceOp_t launch_receive(struct world *world, uint32_t at, uint32_t from, int32_t *buffer,
                                          size_t count)
{
    pcclAsyncReduceOp_t handle;
    assert_int_equal(pcclRecvAsync(buffer, count, pcclInt32, from, NULL, world->peers[at], &handle), pcclSuccess);
    return handle;
}

/* Checks that the operation ends with this result, and its peer in these words. */
static void must_fail(const pcclAsyncReduceOp_t *handle, pcclResult_t result, const char *words)
{
    assert_int_equal(pcclAwaitOperation(handle, UINT32_MAX, NULL), result);
    if (!strstr(pcclGetLastError(handle->comm), words))
        fail_msg("expected '%s' in '%s'", words, pcclGetLastError(handle->comm));
}

static const char *short_id(const struct world *world, int peer)
{
    static char id[PCCL_PEER_ID_SIZE];
    assert_int_equal(pcclGetPeerId(world->peers[peer], id, sizeof id), pcclSuccess);
    id[8] = '\0';
    return id;
}

/* ---- arrivals ---- */

GROUP(start_three, end_world)

/* Several of one tag in both directions, awaited in another order than launched, of every length. */
WORLD_TEST(sends_meet_receives_in_the_order_of_launches)
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        pcclAsyncReduceOp_t out[2][FLIGHT], in[2][FLIGHT];
        int32_t *sent[2][FLIGHT], *got[2][FLIGHT];
        for (uint32_t i = 0; i < FLIGHT; i++)
            for (uint32_t who = 0; who < 2; who++) {
                sent[who][i] = numbers(counts[c], who * FLIGHT + i);
                got[who][i] = numbers(counts[c], 77);
                out[who][i] = launch_send(world, who, 1 - who, sent[who][i], counts[c]);
                in[who][i] = launch_receive(world, who, 1 - who, got[who][i], counts[c]);
            }
        for (uint32_t i = FLIGHT; i-- > 0;)
            for (uint32_t who = 0; who < 2; who++) {
                pcclPeerId_t ids[PEERS];
                pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
                info.participants = ids;
                info.participants_max = PEERS;
                assert_int_equal(pcclAwaitOperation(&in[who][i], UINT32_MAX, &info), pcclSuccess);
                assert_true(info.tag == 0 && info.world == 2 && info.rank == 1 && info.rx_bytes >= 4 * counts[c]);
                assert_memory_equal(ids[0].digits, short_id(world, 1 - (int)who), 8);
                assert_memory_equal(ids[1].digits, short_id(world, (int)who), 8);
                assert_int_equal(pcclAwaitOperation(&out[who][i], UINT32_MAX, &info), pcclSuccess);
                assert_true(info.rank == 0 && info.sequence == c * FLIGHT + i);
                must_be(got[who][i], counts[c], (1 - who) * FLIGHT + i);
                must_be(sent[who][i], counts[c] + 1, who * FLIGHT + i);
                assert_int_equal(got[who][i][counts[c]], value(77, counts[c]));
            }
        for (uint32_t i = 0; i < 2 * FLIGHT; i++) {
            free(sent[i % 2][i / 2]);
            free(got[i % 2][i / 2]);
        }
    }
}

/* Other tags, and other operations of the same tag, are apart. */
WORLD_TEST(tags_are_apart)
{
    int32_t a = 1, b = 2, x = 0, y = 0;
    pcclAsyncReduceOp_t handles[4];
    pcclCollectiveOptions_t one = tagged(1), other = tagged(2);
    assert_int_equal(pcclSendAsync(&a, 1, pcclInt32, 1, &one, world->peers[0], &handles[0]), pcclSuccess);
    assert_int_equal(pcclSendAsync(&b, 1, pcclInt32, 1, &other, world->peers[0], &handles[1]), pcclSuccess);
    assert_int_equal(pcclRecvAsync(&y, 1, pcclInt32, 0, &other, world->peers[1], &handles[2]), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&handles[2], UINT32_MAX, NULL), pcclSuccess);
    pcclAsyncReduceOp_t barriers[PEERS];
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclBarrierAsync(&one, world->peers[i], &barriers[i]), pcclSuccess);
    for (int i = 0; i < PEERS; i++)
        assert_int_equal(pcclAwaitOperation(&barriers[i], UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclRecv(&x, 1, pcclInt32, 0, &one, world->peers[1], NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&handles[0], UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&handles[1], UINT32_MAX, NULL), pcclSuccess);
    assert_true(x == 1 && y == 2);
    assert_int_equal(pcclAwaitOperation(&handles[1], UINT32_MAX, NULL), pcclInvalidArgument);
}

/* The most sends that may be held wait for a peer that does not receive; one more is refused, and then all arrive. */
WORLD_TEST(a_window_of_sends_waits_for_the_receiver)
{
    static pcclAsyncReduceOp_t handles[WINDOW];
    static int32_t sent[WINDOW];
    pcclAsyncReduceOp_t more;
    for (uint32_t i = 0; i < WINDOW; i++) {
        sent[i] = (int32_t)i;
        handles[i] = launch_send(world, 1, 2, &sent[i], 1);
    }
    assert_int_equal(pcclSendAsync(sent, 1, pcclInt32, 2, NULL, world->peers[1], &more), pcclInvalidUsage);
    assert_non_null(strstr(pcclGetLastError(world->peers[1]), "too many operations"));
    for (int32_t i = 0, got; i < WINDOW; i++) {
        assert_int_equal(pcclRecv(&got, 1, pcclInt32, 1, NULL, world->peers[2], NULL), pcclSuccess);
        assert_int_equal(got, i);
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), pcclSuccess);
}

/* ---- receives from any peer ---- */

/* Receives the send number `which` of `from`. Returns false if it met one that was aborted. */
static bool received(struct world *world, uint32_t at, uint32_t from, size_t count, size_t which)
{
    static int32_t got[LARGE];
    pcclPeerId_t ids[2];
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    info.participants = ids;
    info.participants_max = 2;
    pcclResult_t result = pcclRecv(got, count, pcclInt32, PCCL_ANY_PEER, NULL, world->peers[at], &info);
    if (result == pcclAborted)
        return false;
    assert_int_equal(result, pcclSuccess);
    assert_true(info.world == 2 && info.rank == 1 && info.rx_bytes >= 4 * count);
    assert_memory_equal(ids[0].digits, short_id(world, (int)from), 8);
    assert_memory_equal(ids[1].digits, short_id(world, (int)at), 8);
    must_be(got, count, which);
    return true;
}

/* The senders take turns, no matter how much each has sent before, and the sends of one peer arrive in order. */
WORLD_TEST(whoever_sends_is_received)
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        pcclAsyncReduceOp_t out[FLIGHT];
        int32_t *sent[FLIGHT];
        for (uint32_t i = 0; i < FLIGHT; i++) {
            sent[i] = numbers(counts[c], i);
            out[i] = launch_send(world, i < FLIGHT - 1 ? 0 : 1, 2, sent[i], counts[c]);
        }
        uint32_t seen[2] = {0};
        for (uint32_t i = 0; i < FLIGHT; i++) { /* the send of peer 1, launched last, arrives in turn 2 at the latest */
            int32_t *got = numbers(counts[c], 77);
            pcclPeerId_t ids[2];
            pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
            info.participants = ids;
            info.participants_max = 2;
            assert_int_equal(pcclRecv(got, counts[c], pcclInt32, PCCL_ANY_PEER, NULL, world->peers[2], &info),
                             pcclSuccess);
            uint32_t from = memcmp(ids[0].digits, short_id(world, 0), 8) == 0 ? 0 : 1;
            must_be(got, counts[c], from == 0 ? seen[0] : FLIGHT - 1);
            seen[from]++;
            free(got);
        }
        assert_true(seen[0] == FLIGHT - 1 && seen[1] == 1);
        for (uint32_t i = 0; i < FLIGHT; i++) {
            assert_int_equal(pcclAwaitOperation(&out[i], UINT32_MAX, NULL), pcclSuccess);
            free(sent[i]);
        }
    }
}

/* Several receives are open before any peer has sent; a receive that names its peer is independent of them. */
WORLD_TEST(open_receives_wait_for_whoever_comes)
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        pcclAsyncReduceOp_t in[FLIGHT], out[FLIGHT];
        int32_t *sent[FLIGHT], *got[FLIGHT];
        for (uint32_t i = 0; i < FLIGHT; i++) {
            got[i] = numbers(counts[c], 77);
            in[i] = launch_receive(world, 2, i == 2 ? 1 : PCCL_ANY_PEER, got[i], counts[c]);
        }
        for (uint32_t i = 0; i < FLIGHT; i++) {
            sent[i] = numbers(counts[c], i);
            out[i] = launch_send(world, i % 2, 2, sent[i], counts[c]);
        }
        uint32_t seen = 0;
        for (uint32_t i = 0; i < FLIGHT; i++) {
            assert_int_equal(pcclAwaitOperation(&in[i], UINT32_MAX, NULL), pcclSuccess);
            uint32_t which = (uint32_t)(got[i][0] / 1000000 - 1);
            assert_true(which < FLIGHT && (seen & 1U << which) == 0 && (i != 2 || which == 1));
            must_be(got[i], counts[c], which);
            seen |= 1U << which;
        }
        for (uint32_t i = 0; i < FLIGHT; i++) {
            assert_int_equal(pcclAwaitOperation(&out[i], UINT32_MAX, NULL), pcclSuccess);
            free(sent[i]);
            free(got[i]);
        }
    }
}

/*
 * A receive without a matching send is aborted alone. A send that its source has aborted is skipped, or, if the
 * receiver has not learned of its end, met once (PROTOCOL 16.6): then the outcome reports it.
 */
WORLD_TEST(what_is_given_up_meets_nobody)
{
    const size_t lengths[] = {1, LARGE};
    for (size_t i = 0; i < 2; i++) {
        int32_t *first = numbers(lengths[i], 1), *second = numbers(lengths[i], 2);
        pcclAsyncReduceOp_t open = launch_receive(world, 2, PCCL_ANY_PEER, first, lengths[i]);
        assert_int_equal(pcclAbortOperations(world->peers[2]), pcclSuccess);
        must_fail(&open, pcclAborted, "its caller aborted the operation");
        pcclAsyncReduceOp_t lost = launch_send(world, 0, 2, first, lengths[i]);
        assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess);
        must_fail(&lost, pcclRankConnectionLost, "");
        pcclAsyncReduceOp_t out = launch_send(world, 0, 2, second, lengths[i]);
        assert_true(received(world, 2, 0, lengths[i], 2) || received(world, 2, 0, lengths[i], 2));
        assert_int_equal(pcclAwaitOperation(&out, UINT32_MAX, NULL), pcclSuccess);
        free(first);
        free(second);
    }
}

/* A send that does not match the receive fails at both ends with the difference as the reason. */
WORLD_TEST(what_does_not_fit_is_told)
{
    static int32_t sent[LARGE], got[LARGE];
    const size_t rows[][2] = {{5, 6}, {5, LARGE}, {LARGE, 5}, {LARGE, LARGE - 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pcclAsyncReduceOp_t in = launch_receive(world, 2, PCCL_ANY_PEER, got, rows[i][1]);
        pcclAsyncReduceOp_t out = launch_send(world, 1, 2, sent, rows[i][0]);
        must_fail(&out, pcclInvalidUsage, "");
        must_fail(&in, pcclPeerMismatch, "");
    }
    assert_int_equal(pcclSend(sent, 1, pcclInt32, PCCL_ANY_PEER, NULL, world->peers[0], NULL), pcclInvalidArgument);
}

/* ---- sends that do not arrive ---- */

WORLD_TEST(the_two_ends_must_agree)
{
    static int32_t sent[LARGE], got[LARGE];
    const struct {
        size_t sent, wanted;
        pcclDataType_t wanted_type;
        const char *words;
    } rows[] = {{5, 6, pcclInt32, "receive of 6 i32"}, {5, 5, pcclUint32, "receive of 5 u32"},
                {5, LARGE, pcclInt32, "but peer"},     {LARGE, 5, pcclInt32, "receive of 5 i32 from"},
                {LARGE, LARGE - 1, pcclInt32, ""},     {LARGE, LARGE, pcclUint32, ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pcclAsyncReduceOp_t in, out = launch_send(world, 0, 2, sent, rows[i].sent);
        assert_int_equal(pcclRecvAsync(got, rows[i].wanted, rows[i].wanted_type, 0, NULL, world->peers[2], &in),
                         pcclSuccess);
        must_fail(&out, pcclInvalidUsage, rows[i].words);
        must_fail(&in, pcclPeerMismatch, rows[i].words);
    }
    pcclAsyncReduceOp_t out = launch_send(world, 0, 2, sent, 1), in = launch_receive(world, 2, 0, got, 1);
    assert_int_equal(pcclAwaitOperation(&out, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&in, UINT32_MAX, NULL), pcclSuccess);
}

WORLD_TEST(bad_arguments_are_explained)
{
    int32_t x[4] = {0};
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    const struct {
        const void *buffer;
        size_t count;
        uint32_t peer;
        const char *words;
    } rows[] = {{NULL, 4, 1, "a buffer is NULL"},
                {x, 0, 1, "count is 0"},
                {x, SIZE_MAX / 8, 1, "count is too large"},
                {x, 4, 0, "rank 0 is this peer"},
                {x, 4, 3, "invalid rank 3 of the other peer: the group has 3 members"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(pcclSend(rows[i].buffer, rows[i].count, pcclInt32, rows[i].peer, NULL, world->peers[0], NULL),
                         pcclInvalidArgument);
        if (!strstr(pcclGetLastError(world->peers[0]), rows[i].words))
            fail_msg("expected '%s' in '%s'", rows[i].words, pcclGetLastError(world->peers[0]));
    }
    pcclPeerId_t others[2] = {{"00000000000000000000000000000000"}, {"ffffffffffffffffffffffffffffffff"}};
    options.members = others;
    options.member_count = 2;
    assert_int_equal(pcclRecv(x, 4, pcclInt32, 0, &options, world->peers[0], NULL), pcclInvalidArgument);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), "an empty id"));
    assert_int_equal(pcclRecv(x, 4, pcclInt32, 1, &options, world->peers[0], NULL), pcclRankConnectionLost);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), "is no longer a member of the group"));
    options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    options.quantization.algorithm = pcclQuantMinMax;
    assert_int_equal(pcclRecv(x, 4, pcclFloat, 1, &options, world->peers[0], NULL), pcclInvalidArgument);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), "cannot be quantized"));
    assert_int_equal(pcclSendAsync(x, 4, pcclInt32, 1, NULL, world->peers[0], NULL), pcclInvalidArgument);
}

WORLD_TEST(an_abort_ends_it_at_both_ends)
{
    static int32_t sent[LARGE], got[LARGE];
    const size_t lengths[] = {1, LARGE};
    for (size_t i = 0; i < 2; i++) {
        pcclAsyncReduceOp_t first = launch_send(world, 0, 1, sent, lengths[i]),
                            second = launch_send(world, 0, 1, sent, lengths[i]);
        assert_int_equal(pcclAbortOperations(world->peers[0]), pcclSuccess);
        must_fail(&first, pcclRankConnectionLost, "");
        must_fail(&second, pcclRankConnectionLost, "");
        pcclAsyncReduceOp_t late = launch_receive(world, 1, 0, got, lengths[i]),
                            last = launch_receive(world, 1, 0, got, lengths[i]);
        must_fail(&late, pcclRankConnectionLost, short_id(world, 0));
        must_fail(&last, pcclRankConnectionLost, short_id(world, 0));
    }
    pcclAsyncReduceOp_t out = launch_send(world, 0, 1, sent, 1), in = launch_receive(world, 1, 0, got, 1);
    assert_int_equal(pcclAwaitOperation(&out, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&in, UINT32_MAX, NULL), pcclSuccess);
}

/* ---- groups ---- */

struct founding {
    pcclComm_t *comm, *group;
    const pcclPeerId_t *ids;
    pcclResult_t result;
};

static void found(void *argument)
{
    struct founding *founding = argument;
    founding->result = pcclCreateGroup(founding->comm, founding->ids, 2, NULL, &founding->group);
}

/* Ranks and tags belong to the group; waiting operations end when it is closed. */
WORLD_TEST(a_group_sends_by_its_own_ranks)
{
    pcclPeerId_t ids[PEERS];
    size_t count;
    int32_t x = 5, y = 0;
    assert_int_equal(pcclGetMembers(world->peers[1], ids, PEERS, &count, NULL), pcclSuccess);
    struct founding members[2] = {{.comm = world->peers[1], .ids = ids + 1}, {.comm = world->peers[2], .ids = ids + 1}};
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, found, &members[1]), 0);
    found(&members[0]);
    assert_int_equal(uv_thread_join(&thread), 0);
    assert_true(members[0].result == pcclSuccess && members[1].result == pcclSuccess);
    pcclAsyncReduceOp_t out, in, open;
    assert_int_equal(pcclSendAsync(&x, 1, pcclInt32, 1, NULL, members[0].group, &out), pcclSuccess);
    assert_int_equal(pcclRecvAsync(&y, 1, pcclInt32, 0, NULL, members[1].group, &in), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&out, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&in, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(y, 5);
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.members = ids;
    options.member_count = PEERS;
    assert_int_equal(pcclSend(&x, 1, pcclInt32, 0, &options, members[0].group, NULL), pcclInvalidArgument);
    assert_non_null(
        strstr(pcclGetLastError(members[0].group), "is not a member of the group, whose membership is fixed"));
    pcclAsyncReduceOp_t from_outside = launch_send(world, 1, 2, &x, 1); /* nothing else is received in it */
    assert_int_equal(pcclRecvAsync(&y, 1, pcclInt32, PCCL_ANY_PEER, NULL, members[1].group, &in), pcclSuccess);
    x = 6;
    assert_int_equal(pcclSend(&x, 1, pcclInt32, 1, NULL, members[0].group, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&in, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(y, 6);
    assert_int_equal(pcclRecv(&y, 1, pcclInt32, PCCL_ANY_PEER, NULL, world->peers[2], NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&from_outside, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(y, 5);
    assert_int_equal(pcclSendAsync(&x, 1, pcclInt32, 1, NULL, members[0].group, &open), pcclSuccess);
    assert_int_equal(pcclCloseCommunicator(members[0].group), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(members[0].group), pcclSuccess);
    assert_int_equal(pcclRecv(&y, 1, pcclInt32, 0, NULL, members[1].group, NULL), pcclRankConnectionLost);
    assert_non_null(strstr(pcclGetLastError(members[1].group), "closed the subgroup"));
    x = 7; /* beside it the same tag has another count */
    assert_int_equal(pcclSendAsync(&x, 1, pcclInt32, 2, NULL, world->peers[1], &open), pcclSuccess);
    assert_int_equal(pcclRecv(&y, 1, pcclInt32, 1, NULL, world->peers[2], NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&open, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(y, 7);
    assert_int_equal(pcclDestroyCommunicator(members[1].group), pcclSuccess);
}

/* ---- peers that have left ---- */

/*
 * A peer leaves in each phase: before the other end has launched, and in the middle; when a third peer leaves, the two
 * others continue. It is the last test of its group, since it leaves two peers.
 */
WORLD_TEST(whoever_is_left_is_told_who_is_gone)
{
    static int32_t sent[LARGE], got[2][LARGE];
    pcclAsyncReduceOp_t waits = launch_send(world, 0, 2, sent, 1), bulk = launch_receive(world, 1, 2, got[0], LARGE);
    pcclAsyncReduceOp_t out = launch_send(world, 0, 1, sent, LARGE), tiny = launch_send(world, 0, 1, sent, 1);
    char gone[9];
    memcpy(gone, short_id(world, 2), sizeof gone);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    must_fail(&waits, pcclRankConnectionLost, gone);
    must_fail(&bulk, pcclRankConnectionLost, gone);
    int32_t y = 7;
    pcclAsyncReduceOp_t in = launch_receive(world, 1, 0, got[1], LARGE), last = launch_receive(world, 1, 0, &y, 1);
    assert_int_equal(pcclAwaitOperation(&in, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&last, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&out, UINT32_MAX, NULL), pcclSuccess);
    assert_int_equal(pcclAwaitOperation(&tiny, UINT32_MAX, NULL), pcclSuccess);
    assert_true(y == 0 && memcmp(got[1], sent, sizeof sent) == 0);
    pcclAsyncReduceOp_t open = launch_receive(world, 0, PCCL_ANY_PEER, &y, 1);
    memcpy(gone, short_id(world, 1), sizeof gone);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    must_fail(&open, pcclRankConnectionLost, gone);
}

GROUP(start_one, end_world)

WORLD_TEST(alone_there_is_nobody_to_send_to)
{
    int32_t x = 0;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.alone_ok = true;
    assert_int_equal(pcclSend(&x, 1, pcclInt32, 1, &options, world->peers[0], NULL), pcclTooFewPeers);
    assert_non_null(strstr(pcclGetLastError(world->peers[0]), "this peer is alone in its group"));
    assert_int_equal(pcclRecv(&x, 1, pcclInt32, 0, NULL, world->peers[0], NULL), pcclTooFewPeers);
    assert_int_equal(pcclRecv(&x, 1, pcclInt32, PCCL_ANY_PEER, NULL, world->peers[0], NULL), pcclTooFewPeers);
}
