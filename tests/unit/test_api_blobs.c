/*
 * The all-gather of blobs through the public functions: three peers here, with blobs that go through
 * the master and such that do not.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_world.h"

#include <stdlib.h>

enum { LARGE = 300001, TAGS = 40 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_three_of_lengths(void **state) { return start_world(state, 3, "0"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static uint8_t byte(int peer, size_t length, size_t at) { return (uint8_t)(31 * peer + 7 * length + at + at / 251); }

static uint8_t *bytes(int peer, size_t length)
{
    uint8_t *made = malloc(length + 1);
    assert_non_null(made);
    for (size_t i = 0; i < length; i++)
        made[i] = byte(peer, length, i);
    return made;
}

/* Of the peers of the world from this one on, in the order of their admission, one behind the other. */
static void are_blobs(const struct world *world, int first, const pcclBlobs_t *blobs, const size_t lengths[PEERS])
{
    char id[PCCL_PEER_ID_SIZE];
    size_t before = 0;
    assert_int_equal(blobs->count, PEERS - first);
    for (int i = first; i < PEERS; i++) {
        const pcclBlob_t *blob = &blobs->blobs[i - first];
        assert_int_equal(pcclGetPeerId(world->peers[i], id, sizeof id), pcclSuccess);
        assert_string_equal(blob->peer.digits, id);
        assert_int_equal(blob->length, lengths[i]);
        assert_ptr_equal(blob->data, (const uint8_t *)blobs->blobs[0].data + before);
        for (size_t k = 0; k < lengths[i]; k++)
            if (((const uint8_t *)blob->data)[k] != byte(i, lengths[i], k))
                fail_msg("byte %zu of blob %d", k, i);
        before += lengths[i];
    }
    assert_int_equal(blobs->bytes, before);
}

/* Of so many tags in flight at once, their lengths follow from the tag; every await gives the blobs. */
static void blobs_of_all_lengths_come_to_all(void **state)
{
    struct world *world = *state;
    static const size_t some[] = {0, 1, 12, 2718, 2719, 5000, 0, LARGE};
    pcclAsyncReduceOp_t handles[TAGS][PEERS];
    pcclBlobs_t blobs[TAGS][PEERS];
    uint8_t *given[TAGS][PEERS];
    size_t lengths[TAGS][PEERS];
    for (uint64_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            options.tag = tag;
            size_t length = lengths[tag][i] = tag < 8 ? some[tag] : some[(tag * (uint64_t)(i + 1) + tag / 8) % 8];
            given[tag][i] = length > 0 || tag % 2 ? bytes(i, length) : NULL;
            blobs[tag][i] = (pcclBlobs_t)PCCL_BLOBS_INIT;
            assert_int_equal(
                pcclAllGatherVAsync(given[tag][i], length, &options, world->peers[i], &blobs[tag][i], &handles[tag][i]),
                pcclSuccess);
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++) {
            pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
            pcclReduceInfo_t reduced;
            if (tag % 2) {
                assert_int_equal(pcclAwaitOperation(&handles[tag][i], UINT32_MAX, &info), pcclSuccess);
                assert_true(info.tag == tag && info.world == PEERS && info.rank == (uint32_t)i);
            } else {
                assert_int_equal(pcclAwaitAsyncReduce(&handles[tag][i], &reduced), pcclSuccess);
                assert_int_equal(reduced.local_world_size, PEERS);
            }
            are_blobs(world, 0, &blobs[tag][i], lengths[tag]);
            assert_int_equal(pcclFreeBlobs(&blobs[tag][i]), pcclSuccess);
            assert_true(blobs[tag][i].blobs == NULL && blobs[tag][i].count == 0);
            assert_int_equal(pcclFreeBlobs(&blobs[tag][i]), pcclSuccess); /* there are none */
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++)
            free(given[tag][i]);
}

/* All pass these, and fail with this result and these words. */
static void fails_for_all(struct world *world, const size_t lengths[PEERS], const uint64_t most[PEERS],
                          pcclResult_t result, const char *words)
{
    static const uint8_t data[64];
    pcclAsyncReduceOp_t handles[PEERS];
    pcclBlobs_t blobs[PEERS];
    for (int i = 0; i < PEERS; i++) {
        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        options.max_bytes = most[i];
        blobs[i] = (pcclBlobs_t)PCCL_BLOBS_INIT;
        assert_int_equal(pcclAllGatherVAsync(data, lengths[i], &options, world->peers[i], &blobs[i], &handles[i]),
                         pcclSuccess);
    }
    for (int i = 0; i < PEERS; i++) {
        bool precise = i == 2 && result == pcclInvalidUsage; /* it wants to know it precisely */
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), precise ? pcclPeerMismatch : result);
        words_say(world->peers[i], words);
        assert_null(blobs[i].blobs);
    }
}

/* What it says of a length is all that is read of it: nothing has so much memory. */
static void what_all_cannot_have_nobody_gets(void **state)
{
    struct world *world = *state;
    static const uint64_t given[PEERS] = {0}, ten[PEERS] = {10, 10, 10}, other[PEERS] = {10, 11, 10};
    static const uint64_t any[PEERS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    static const size_t small[PEERS] = {3, 4, 4}, fits[PEERS] = {3, 4, 3};
    static const size_t huge[PEERS] = {1, (size_t)1 << 60, 0}, beyond[PEERS] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    fails_for_all(world, small, ten, pcclInvalidUsage,
                  "the blobs of all are 11 bytes long, more than the 10 that max_bytes permits");
    fails_for_all(world, fits, other, pcclInvalidUsage, "all-gather of blobs of at most 11 bytes in all");
    fails_for_all(world, huge, given, pcclInvalidUsage, "more than the 268435456 that max_bytes permits");
    fails_for_all(world, beyond, given, pcclInvalidUsage, "the blobs of all are 18446744073709551615 bytes long");
    fails_for_all(world, huge, any, pcclInternalError, "out of memory for a result of 1152921504606846977 bytes");
    fails_for_all(world, beyond, any, pcclInternalError, "out of memory for a result of 18446744073709551615 bytes");
    blobs_of_all_lengths_come_to_all(state);
}

static void refuse(pcclResult_t result, const pcclComm_t *comm, const char *words)
{
    assert_int_equal(result, pcclInvalidArgument);
    words_say(comm, words);
}

static void wrong_arguments_are_explained(void **state)
{
    struct world *world = *state;
    pcclComm_t *comm = world->peers[0];
    const uint8_t data[3] = {0};
    const size_t counts[PEERS] = {0};
    pcclAsyncReduceOp_t handle;
    pcclBlobs_t blobs = PCCL_BLOBS_INIT, unset = {0};
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    refuse(pcclAllGatherV(NULL, 1, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    refuse(pcclAllGatherV(data, 3, NULL, comm, NULL, NULL), comm, "a buffer is NULL");
    refuse(pcclAllGatherV(data, 3, NULL, comm, &unset, NULL), comm, "PCCL_BLOBS_INIT");
    refuse(pcclAllGatherVAsync(data, 3, NULL, comm, &blobs, NULL), comm, "the handle is NULL");
    options.max_bytes = 5;
    refuse(pcclBarrier(&options, comm, NULL), comm, "only an operation that gives blobs is given max_bytes");
    options.counts = counts;
    options.counts_length = PEERS;
    refuse(pcclAllGatherVAsync(data, 3, &options, comm, &blobs, &handle), comm,
           "only a reduce-scatter is given counts");
    options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    options.quantization.algorithm = pcclQuantMinMax;
    refuse(pcclAllGatherV(data, 3, &options, comm, &blobs, NULL), comm, "there is nothing here that can be quantized");
    assert_int_equal(pcclFreeBlobs(NULL), pcclSuccess);
    blobs_of_all_lengths_come_to_all(state); /* nothing was launched */
}

/* A caller gives up, when others have not come yet, or while the blobs move. */
static void an_abort_ends_it_for_all(void **state)
{
    struct world *world = *state;
    uint8_t *data = bytes(0, 8 * LARGE);
    for (int turn = 0; turn < 8; turn++) {
        pcclAsyncReduceOp_t handles[PEERS];
        pcclBlobs_t blobs[PEERS];
        for (int i = 0; i < PEERS; i++) {
            blobs[i] = (pcclBlobs_t)PCCL_BLOBS_INIT;
            if (turn == 0 && i == 2)
                assert_int_equal(pcclAbortOperations(world->peers[1]), pcclSuccess);
            assert_int_equal(pcclAllGatherVAsync(data, 8 * LARGE, NULL, world->peers[i], &blobs[i], &handles[i]),
                             pcclSuccess);
        }
        if (turn > 0)
            assert_int_equal(pcclAbortOperations(world->peers[turn % PEERS]), pcclSuccess);
        pcclResult_t first = pcclAwaitOperation(&handles[0], UINT32_MAX, NULL);
        assert_true(first == pcclRankConnectionLost || (turn > 0 && first == pcclSuccess));
        for (int i = 1; i < PEERS; i++)
            assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL),
                             i == 2 && first != pcclSuccess ? pcclAborted : first);
        for (int i = 0; i < PEERS; i++) {
            assert_int_equal(blobs[i].blobs != NULL, first == pcclSuccess);
            assert_int_equal(pcclFreeBlobs(&blobs[i]), pcclSuccess);
        }
    }
    free(data);
    blobs_of_all_lengths_come_to_all(state);
}

/* ---- in a group ---- */

struct founding {
    pcclComm_t *comm, *group;
    const pcclPeerId_t *ids;
};

static void found_thread(void *argument)
{
    struct founding *founding = argument;
    (void)pcclCreateGroup(founding->comm, founding->ids, PEERS - 1, NULL, &founding->group);
}

/* Of all but the first. */
static void found(struct world *world, pcclComm_t *groups[PEERS])
{
    struct founding foundings[PEERS];
    pcclPeerId_t ids[PEERS];
    uv_thread_t threads[PEERS];
    size_t count;
    assert_int_equal(pcclGetMembers(world->peers[0], ids, PEERS, &count, NULL), pcclSuccess);
    for (int i = 1; i < PEERS; i++) {
        foundings[i] = (struct founding){.comm = world->peers[i], .ids = ids + 1};
        assert_int_equal(uv_thread_create(&threads[i], found_thread, &foundings[i]), 0);
    }
    for (int i = 1; i < PEERS; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        groups[i] = foundings[i].group;
        assert_non_null(groups[i]);
    }
}

static void launch(pcclComm_t *comm, uint64_t tag, const uint8_t *data, size_t length, pcclBlobs_t *blobs,
                   pcclAsyncReduceOp_t *handle)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = tag;
    *blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    assert_int_equal(pcclAllGatherVAsync(data, length, &options, comm, blobs, handle), pcclSuccess);
}

/* Beside those of all peers, with the same tags. */
static void a_group_has_the_blobs_of_its_members(void **state)
{
    struct world *world = *state;
    static const size_t some[] = {0, 1, 12, 2718, 5000, LARGE};
    enum { SOME = sizeof some / sizeof *some };
    pcclComm_t *groups[PEERS];
    found(world, groups);
    for (uint64_t tag = 0; tag < SOME; tag++) {
        size_t lengths[PEERS];
        uint8_t *given[PEERS];
        pcclBlobs_t blobs[2][PEERS];
        pcclAsyncReduceOp_t handles[2][PEERS];
        for (int i = 0; i < PEERS; i++) {
            lengths[i] = some[(tag + (uint64_t)i) % SOME];
            given[i] = bytes(i, lengths[i]);
            launch(world->peers[i], tag, given[i], lengths[i], &blobs[0][i], &handles[0][i]);
            if (i > 0)
                launch(groups[i], tag, given[i], lengths[i], &blobs[1][i], &handles[1][i]);
        }
        for (int of = 1; of >= 0; of--)
            for (int i = of; i < PEERS; i++) {
                pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
                assert_int_equal(pcclAwaitOperation(&handles[of][i], UINT32_MAX, &info), pcclSuccess);
                assert_true(info.world == (uint32_t)(PEERS - of) && info.rank == (uint32_t)(i - of));
                are_blobs(world, of, &blobs[of][i], lengths);
                assert_int_equal(pcclFreeBlobs(&blobs[of][i]), pcclSuccess);
            }
        for (int i = 0; i < PEERS; i++)
            free(given[i]);
    }
    for (int i = 1; i < PEERS; i++)
        assert_int_equal(pcclDestroyCommunicator(groups[i]), pcclSuccess);
}

/* It has told how long its blob is, and does not move it any more: that ends the group, and nothing else. */
static void who_closes_a_group_between_the_steps_stays_in_the_run(void **state)
{
    struct world *world = *state;
    uint8_t *data = bytes(0, LARGE);
    for (int turn = 0; turn < 10; turn++) {
        pcclComm_t *groups[PEERS];
        pcclBlobs_t blobs[PEERS];
        pcclAsyncReduceOp_t handles[PEERS];
        found(world, groups);
        for (int i = PEERS - 1; i > 0; i--)
            launch(groups[i], 0, data, LARGE, &blobs[i], &handles[i]);
        assert_int_equal(pcclDestroyCommunicator(groups[1]), pcclSuccess);
        pcclResult_t result = pcclAwaitOperation(&handles[2], UINT32_MAX, NULL);
        assert_true(result == pcclRankConnectionLost || result == pcclSuccess);
        assert_int_equal(pcclDestroyCommunicator(groups[2]), pcclSuccess);
        for (int i = 1; i < PEERS; i++)
            assert_int_equal(pcclFreeBlobs(&blobs[i]), pcclSuccess);
    }
    free(data);
    blobs_of_all_lengths_come_to_all(state);
}

/* ---- alone ---- */

static void alone_it_gives_the_own_blob_if_that_is_wanted(void **state)
{
    struct world *world = *state;
    pcclComm_t *comm = world->peers[0];
    char id[PCCL_PEER_ID_SIZE];
    pcclBlobs_t blobs = PCCL_BLOBS_INIT;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    assert_int_equal(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), pcclTooFewPeers);
    options.alone_ok = true;
    assert_int_equal(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), pcclSuccess);
    assert_int_equal(pcclGetPeerId(comm, id, sizeof id), pcclSuccess);
    assert_true(blobs.count == 1 && blobs.bytes == 3 && blobs.blobs[0].length == 3);
    assert_string_equal(blobs.blobs[0].peer.digits, id);
    assert_memory_equal(blobs.blobs[0].data, "abc", 3);
    assert_int_equal(pcclFreeBlobs(&blobs), pcclSuccess);
    assert_int_equal(pcclAllGatherV(NULL, 0, &options, comm, &blobs, NULL), pcclSuccess);
    assert_true(blobs.count == 1 && blobs.blobs[0].length == 0 && blobs.blobs[0].data != NULL);
    assert_int_equal(pcclFreeBlobs(&blobs), pcclSuccess);
    options.max_bytes = 2;
    assert_int_equal(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), pcclInvalidUsage);
    assert_null(blobs.blobs);
}

int main(void)
{
    const struct CMUnitTest three[] = {
        cmocka_unit_test(blobs_of_all_lengths_come_to_all),
        cmocka_unit_test(what_all_cannot_have_nobody_gets),
        cmocka_unit_test(wrong_arguments_are_explained),
        cmocka_unit_test(an_abort_ends_it_for_all),
        cmocka_unit_test(a_group_has_the_blobs_of_its_members),
        cmocka_unit_test(who_closes_a_group_between_the_steps_stays_in_the_run),
    };
    const struct CMUnitTest lengths[] = {
        cmocka_unit_test(blobs_of_all_lengths_come_to_all),
        cmocka_unit_test(a_group_has_the_blobs_of_its_members),
        cmocka_unit_test(who_closes_a_group_between_the_steps_stays_in_the_run),
    };
    const struct CMUnitTest one[] = {cmocka_unit_test(alone_it_gives_the_own_blob_if_that_is_wanted)};
    int failed = cmocka_run_group_tests_name("three peers", three, start_three, end_world);
    failed += cmocka_run_group_tests_name("nothing is tiny", lengths, start_three_of_lengths, end_world);
    return failed + cmocka_run_group_tests_name("one peer", one, start_one, end_world);
}
