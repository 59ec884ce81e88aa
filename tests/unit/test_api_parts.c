/*
 * Blobs with a root, and of all for all, through the public functions: three peers here, with parts that
 * go through the master and such that do not; and who sees parts when they come.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_world.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 300001, TAGS = 36, KINDS = 4 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_three_of_lengths(void **state) { return start_world(state, 3, "0"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static uint8_t byte(int from, int to, size_t length, size_t at)
{
    return (uint8_t)(31 * from + 87 * to + 7 * length + at + at / 251);
}

/* ---- operations of all kinds ---- */

struct seen {
    uv_thread_t thread;
    pcclBlob_t parts[PEERS];
    int count;
    bool elsewhere;
};

struct operation {
    pcclCollective_t kind;
    int peer, root;
    size_t lengths[PEERS][PEERS]; /* by who sends and who receives */
    pcclPart_t parts[PEERS];
    pcclBlobs_t blobs;
    pcclAsyncReduceOp_t handle;
    struct seen seen;
};

static void see(const pcclBlob_t *part, void *user_data)
{
    struct seen *seen = user_data;
    const uv_thread_t self = uv_thread_self();
    seen->elsewhere = seen->elsewhere || !uv_thread_equal(&self, &seen->thread);
    if (seen->count < PEERS)
        seen->parts[seen->count] = *part;
    seen->count++;
}

static bool comes(const struct operation *op, int from, int to)
{
    return op->kind == pcclCollectiveScatterV  ? from == op->root
           : op->kind == pcclCollectiveGatherV ? to == op->root
                                               : true;
}

/* What one has for another; for all alike where it is a blob. */
static size_t length_of(const struct operation *op, int from, int to)
{
    const bool for_each = op->kind == pcclCollectiveScatterV || op->kind == pcclCollectiveAllToAllV;
    return op->lengths[from][for_each ? to : 0];
}

static void make_parts(struct operation *op)
{
    for (int to = 0; to < PEERS; to++) {
        const size_t length = length_of(op, op->peer, to);
        const bool alike = op->kind == pcclCollectiveGatherV || op->kind == pcclCollectiveAllGatherV;
        uint8_t *data = length > 0 ? malloc(length) : NULL;
        for (size_t i = 0; i < length; i++)
            data[i] = byte(op->peer, alike ? 0 : to, length, i);
        op->parts[to] = (pcclPart_t){data, length};
    }
}

static pcclResult_t launch(struct operation *op, const pcclComm_t *comm, const pcclCollectiveOptions_t *options)
{
    const pcclPart_t *own = op->parts;
    const uint32_t root = (uint32_t)op->root;
    op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    switch (op->kind) {
    case pcclCollectiveGatherV:
        return pcclGatherVAsync(own->data, own->length, root, options, comm, &op->blobs, &op->handle);
    case pcclCollectiveScatterV:
        return pcclScatterVAsync(op->peer == op->root ? own : NULL, PEERS, root, options, comm, &op->blobs,
                                 &op->handle);
    case pcclCollectiveAllToAllV: return pcclAllToAllVAsync(own, PEERS, options, comm, &op->blobs, &op->handle);
    default: return pcclAllGatherVAsync(own->data, own->length, options, comm, &op->blobs, &op->handle);
    }
}

static void is_blob(const struct world *world, const struct operation *op, int from, const pcclBlob_t *blob)
{
    char id[PCCL_PEER_ID_SIZE];
    const size_t length = length_of(op, from, op->peer);
    const bool alike = op->kind == pcclCollectiveGatherV || op->kind == pcclCollectiveAllGatherV;
    assert_int_equal(pcclGetPeerId(world->peers[from], id, sizeof id), pcclSuccess);
    assert_string_equal(blob->peer.digits, id);
    assert_int_equal(blob->length, length);
    assert_non_null(blob->data);
    for (size_t i = 0; i < length; i++)
        if (((const uint8_t *)blob->data)[i] != byte(from, alike ? 0 : op->peer, length, i))
            fail_msg("byte %zu of the blob of %d at %d", i, from, op->peer);
}

static void are_blobs(const struct world *world, const struct operation *op)
{
    size_t count = 0, bytes = 0;
    for (int from = 0; from < PEERS; from++) {
        if (!comes(op, from, op->peer))
            continue;
        is_blob(world, op, from, &op->blobs.blobs[count++]);
        bytes += length_of(op, from, op->peer);
    }
    assert_int_equal(op->blobs.count, count);
    assert_int_equal(op->blobs.bytes, bytes);
    assert_int_equal(op->blobs.blobs != NULL, count > 0);
}

/* Each part once, as it lies among the blobs. */
static void were_seen(const struct operation *op)
{
    assert_int_equal(op->seen.count, op->blobs.count);
    assert_false(op->seen.elsewhere);
    for (size_t i = 0; i < op->blobs.count; i++) {
        int found = 0;
        for (int k = 0; k < op->seen.count; k++)
            found += op->seen.parts[k].data == op->blobs.blobs[i].data &&
                     strcmp(op->seen.parts[k].peer.digits, op->blobs.blobs[i].peer.digits) == 0 &&
                     op->seen.parts[k].length == op->blobs.blobs[i].length;
        assert_int_equal(found, 1);
    }
}

static void end(struct operation *op)
{
    assert_int_equal(pcclFreeBlobs(&op->blobs), pcclSuccess);
    for (int i = 0; i < PEERS; i++)
        free((void *)(uintptr_t)op->parts[i].data);
}

static struct operation operation_of(uint64_t tag, int peer)
{
    static const size_t some[] = {0, 1, 12, 300, 2000, LARGE, 0};
    static const pcclCollective_t kinds[KINDS] = {pcclCollectiveAllToAllV, pcclCollectiveGatherV,
                                                  pcclCollectiveScatterV, pcclCollectiveAllGatherV};
    struct operation op = {.kind = kinds[tag % KINDS], .peer = peer, .root = (int)(tag / KINDS % PEERS)};
    for (uint64_t i = 0; i < PEERS * PEERS; i++)
        op.lengths[i / PEERS][i % PEERS] = tag < 2 * KINDS ? some[tag / KINDS] : some[(tag + i * (tag / 3)) % 7];
    make_parts(&op);
    op.seen.thread = uv_thread_self();
    return op;
}

/* So many tags in flight at once. Some callers see what comes; others await it again and again. */
static void blobs_of_all_lengths_come(void **state)
{
    struct world *world = *state;
    static struct operation ops[TAGS][PEERS];
    for (uint64_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[tag][i] = operation_of(tag, i);
            options.tag = tag;
            options.on_arrival = tag % 3 ? see : NULL;
            options.user_data = &ops[tag][i].seen;
            assert_int_equal(launch(&ops[tag][i], world->peers[i], &options), pcclSuccess);
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++) {
            struct operation *op = &ops[tag][i];
            pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
            pcclResult_t result = pcclTimeout;
            while (result == pcclTimeout)
                result = pcclAwaitOperation(&op->handle, tag % 2 ? UINT32_MAX : 1, &info);
            assert_int_equal(result, pcclSuccess);
            assert_true(info.tag == tag && info.world == PEERS && info.rank == (uint32_t)i);
            are_blobs(world, op);
            if (tag % 3)
                were_seen(op);
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < PEERS; i++)
            end(&ops[tag][i]);
}

/* ---- provisionally ---- */

/* One gives up when all the others have seen something: what they saw stays where it was until they free it. */
static void what_was_seen_before_an_abort_stays(void **state)
{
    struct world *world = *state;
    struct operation ops[PEERS];
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[i] = (struct operation){.kind = pcclCollectiveAllToAllV, .peer = i};
            ops[i].lengths[0][1] = 100 * (size_t)LARGE; /* what is empty is seen at once */
            make_parts(&ops[i]);
            ops[i].seen.thread = uv_thread_self();
            options.on_arrival = see;
            options.user_data = &ops[i].seen;
            assert_int_equal(launch(&ops[i], world->peers[i], &options), pcclSuccess);
        }
        while (ops[2].seen.count < PEERS) /* the first of its parts comes with the lengths */
            if (pcclAwaitOperation(&ops[2].handle, 1, NULL) != pcclTimeout)
                break;
        assert_int_equal(pcclAbortOperations(world->peers[turn % PEERS]), pcclSuccess);
        pcclResult_t first = pcclAwaitOperation(&ops[0].handle, UINT32_MAX, NULL);
        pcclResult_t second = pcclAwaitOperation(&ops[1].handle, UINT32_MAX, NULL);
        assert_true(first == second && (first == pcclRankConnectionLost || first == pcclSuccess));
        (void)pcclAwaitOperation(&ops[2].handle, UINT32_MAX, NULL);
        assert_int_equal(ops[2].blobs.count, first == pcclSuccess ? PEERS : 0);
        assert_non_null(ops[2].blobs.blobs);
        for (int k = 0; k < ops[2].seen.count; k++)
            assert_int_equal(ops[2].seen.parts[k].length, 0);
        for (int i = 0; i < PEERS; i++)
            end(&ops[i]);
    }
    blobs_of_all_lengths_come(state);
}

/* ---- what is refused ---- */

static void refuse(pcclResult_t result, const pcclComm_t *comm, const char *words)
{
    assert_int_equal(result, pcclInvalidArgument);
    words_say(comm, words);
}

static void wrong_arguments_are_explained(void **state)
{
    struct world *world = *state;
    const pcclComm_t *comm = world->peers[0];
    const pcclPart_t parts[PEERS] = {{"a", 1}, {NULL, 0}, {"abc", 3}}, missing[PEERS] = {{"a", 1}, {NULL, 1}, {"a", 1}};
    const pcclPart_t huge[PEERS] = {{"a", SIZE_MAX / 2}, {NULL, 0}, {NULL, 0}};
    pcclBlobs_t blobs = PCCL_BLOBS_INIT;
    pcclOperation_t entry = PCCL_OPERATION_INIT;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    refuse(pcclAllToAllV(parts, 2, NULL, comm, &blobs, NULL), comm, "there are 2 parts, but 3 members");
    refuse(pcclAllToAllV(parts, 5000, NULL, comm, &blobs, NULL), comm, "more parts than any group has members");
    refuse(pcclAllToAllV(NULL, 3, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    refuse(pcclAllToAllV(NULL, 0, NULL, comm, &blobs, NULL), comm, "there are 0 parts, but 3 members");
    refuse(pcclAllToAllV(missing, 3, NULL, comm, &blobs, NULL), comm, "part 1 has no data");
    refuse(pcclAllToAllV(huge, 3, NULL, comm, &blobs, NULL), comm, "part 0 is larger than any memory");
    refuse(pcclScatterV(NULL, 0, 0, NULL, comm, &blobs, NULL), comm, "there are 0 parts, but 3 members");
    refuse(pcclScatterV(parts, 3, 3, NULL, comm, &blobs, NULL), comm, "the root is rank 3, but there are 3 members");
    refuse(pcclGatherV("a", 1, 3, NULL, comm, &blobs, NULL), comm, "the root is rank 3, but there are 3 members");
    refuse(pcclGatherV(NULL, 1, 0, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    options.on_arrival = see;
    refuse(pcclBarrier(&options, comm, NULL), comm, "only an operation that gives blobs is given on_arrival");
    entry.collective = pcclCollectiveAllToAllV;
    entry.sendbuf = parts;
    entry.count = 3;
    entry.blobs = &blobs;
    entry.options = &options;
    refuse(pcclRunOperations(&entry, 1, NULL, comm), comm, "entry 0: an operation of a list is not given on_arrival");
    blobs_of_all_lengths_come(state); /* nothing was launched */
}

/* No member may get more than this, and all hear who would. */
static void what_one_cannot_have_nobody_gets(void **state)
{
    struct world *world = *state;
    char words[200], source[200], id[PCCL_PEER_ID_SIZE];
    for (size_t length = 10; length <= LARGE; length += LARGE - 10) {
        struct operation ops[PEERS];
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[i] = (struct operation){.kind = pcclCollectiveAllToAllV, .peer = i};
            for (int k = 0; k < PEERS * PEERS; k++)
                ops[i].lengths[k / PEERS][k % PEERS] = length + (k == 7);
            make_parts(&ops[i]);
            options.max_bytes = 3 * length;
            assert_int_equal(launch(&ops[i], world->peers[i], &options), pcclSuccess);
        }
        assert_int_equal(pcclGetPeerId(world->peers[1], id, sizeof id), pcclSuccess);
        (void)snprintf(words, sizeof words, "the blobs for peer %.8s", id);
        assert_int_equal(pcclGetPeerId(world->peers[2], id, sizeof id), pcclSuccess);
        (void)snprintf(source, sizeof source, "the longest is that of peer %.8s", id);
        for (int i = 0; i < PEERS; i++) {
            assert_int_equal(pcclAwaitOperation(&ops[i].handle, UINT32_MAX, NULL),
                             i == 2 ? pcclPeerMismatch : pcclInvalidUsage); /* it wants to know it precisely */
            words_say(world->peers[i], words);
            words_say(world->peers[i], "that max_bytes permits");
            words_say(world->peers[i], source);
            end(&ops[i]);
        }
    }
}

/* ---- lists ---- */

struct list {
    struct world *world;
    int peer;
    struct operation ops[KINDS];
    pcclResult_t result;
};

static void run_list(void *argument)
{
    struct list *list = argument;
    pcclOperation_t entries[KINDS];
    pcclCollectiveOptions_t options[KINDS];
    for (int i = 0; i < KINDS; i++) {
        struct operation *op = &list->ops[i];
        const bool in_parts = op->kind == pcclCollectiveAllToAllV || op->kind == pcclCollectiveScatterV;
        options[i] = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
        options[i].tag = (uint64_t)i;
        op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
        entries[i] = (pcclOperation_t)PCCL_OPERATION_INIT;
        entries[i].collective = op->kind;
        entries[i].sendbuf = in_parts ? (const void *)op->parts : op->parts->data;
        entries[i].count = in_parts ? PEERS : op->parts->length;
        entries[i].root = (uint32_t)op->root;
        entries[i].blobs = &op->blobs;
        entries[i].options = &options[i];
    }
    list->result = pcclRunOperations(entries, KINDS, NULL, list->world->peers[list->peer]);
}

static void lists_have_them(void **state)
{
    struct world *world = *state;
    for (uint64_t first = 0; first < TAGS; first += KINDS) {
        static struct list lists[PEERS];
        uv_thread_t threads[PEERS];
        for (int i = 0; i < PEERS; i++) {
            lists[i] = (struct list){.world = world, .peer = i};
            for (uint64_t k = 0; k < KINDS; k++)
                lists[i].ops[k] = operation_of(first + k, i);
            assert_int_equal(uv_thread_create(&threads[i], run_list, &lists[i]), 0);
        }
        for (int i = 0; i < PEERS; i++)
            assert_int_equal(uv_thread_join(&threads[i]), 0);
        for (int i = 0; i < PEERS; i++)
            for (int k = 0; k < KINDS; k++) {
                assert_int_equal(lists[i].result, pcclSuccess);
                are_blobs(world, &lists[i].ops[k]);
                end(&lists[i].ops[k]);
            }
    }
}

/* ---- alone ---- */

static void alone_it_has_its_own_part(void **state)
{
    struct world *world = *state;
    const pcclComm_t *comm = world->peers[0];
    const pcclPart_t part = {"abc", 3};
    for (int kind = 0; kind < 3; kind++) {
        struct seen seen = {.thread = uv_thread_self()};
        pcclBlobs_t blobs = PCCL_BLOBS_INIT;
        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        assert_int_equal(pcclAllToAllV(&part, 1, NULL, comm, &blobs, NULL), pcclTooFewPeers);
        options.alone_ok = true;
        options.on_arrival = see;
        options.user_data = &seen;
        assert_int_equal(kind == 0   ? pcclAllToAllV(&part, 1, &options, comm, &blobs, NULL)
                         : kind == 1 ? pcclScatterV(&part, 1, 0, &options, comm, &blobs, NULL)
                                     : pcclGatherV("abc", 3, 0, &options, comm, &blobs, NULL),
                         pcclSuccess);
        assert_true(blobs.count == 1 && blobs.bytes == 3 && seen.count == 1 && !seen.elsewhere);
        assert_memory_equal(blobs.blobs[0].data, "abc", 3);
        assert_ptr_equal(seen.parts[0].data, blobs.blobs[0].data);
        assert_int_equal(pcclFreeBlobs(&blobs), pcclSuccess);
    }
}

int main(void)
{
    const struct CMUnitTest three[] = {
        cmocka_unit_test(blobs_of_all_lengths_come),
        cmocka_unit_test(what_was_seen_before_an_abort_stays),
        cmocka_unit_test(wrong_arguments_are_explained),
        cmocka_unit_test(what_one_cannot_have_nobody_gets),
        cmocka_unit_test(lists_have_them),
    };
    const struct CMUnitTest lengths[] = {cmocka_unit_test(blobs_of_all_lengths_come)};
    const struct CMUnitTest one[] = {cmocka_unit_test(alone_it_has_its_own_part)};
    int failed = cmocka_run_group_tests_name("three peers", three, start_three, end_world);
    failed += cmocka_run_group_tests_name("nothing is tiny", lengths, start_three_of_lengths, end_world);
    return failed + cmocka_run_group_tests_name("one peer", one, start_one, end_world);
}
