/*
 * Collectives of blobs through the public functions: three peers, and a group of two of them; parts that go through the
 * master and parts that do not; launched by functions and as structs; and callers that see parts as they arrive.
 */
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

/* The peers that carry out an operation, by rank. */
struct team {
    pcclComm_t *comms[PEERS];
    int world;
};

struct operation {
    const struct team *team;
    pcclCollective_t kind;
    int peer, root;
    size_t lengths[PEERS][PEERS]; /* lengths by sender and receiver */
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

/* The length that one peer has for another; a blob has the same length for all. */
static size_t length_of(const struct operation *op, int from, int to)
{
    const bool for_each = op->kind == pcclCollectiveScatterV || op->kind == pcclCollectiveAllToAllV;
    return op->lengths[from][for_each ? to : 0];
}

static void make_parts(struct operation *op)
{
    for (int to = 0; to < op->team->world; to++) {
        const size_t length = length_of(op, op->peer, to);
        const bool alike = op->kind == pcclCollectiveGatherV || op->kind == pcclCollectiveAllGatherV;
        uint8_t *data = length > 0 ? malloc(length) : NULL;
        for (size_t i = 0; i < length; i++)
            data[i] = byte(op->peer, alike ? 0 : to, length, i);
        op->parts[to] = (pcclPart_t){data, length};
    }
}

static bool is_in_parts(const struct operation *op)
{
    return op->kind == pcclCollectiveScatterV || op->kind == pcclCollectiveAllToAllV;
}

static pcclOperation_t entry_of(struct operation *op, const pcclCollectiveOptions_t *options)
{
    pcclOperation_t entry = PCCL_OPERATION_INIT;
    entry.collective = op->kind;
    entry.sendbuf = is_in_parts(op) ? (const void *)op->parts : op->parts->data;
    entry.count = is_in_parts(op) ? (size_t)op->team->world : op->parts->length;
    entry.root = (uint32_t)op->root;
    entry.blobs = &op->blobs;
    entry.options = options;
    return entry;
}

static pcclResult_t launch_by_function(struct operation *op, const pcclCollectiveOptions_t *options)
{
    const pcclPart_t *own = op->parts;
    const pcclComm_t *comm = op->team->comms[op->peer];
    const uint32_t root = (uint32_t)op->root;
    const size_t world = (size_t)op->team->world;
    switch (op->kind) {
    case pcclCollectiveGatherV:
        return pcclGatherVAsync(own->data, own->length, root, options, comm, &op->blobs, &op->handle);
    case pcclCollectiveScatterV:
        return pcclScatterVAsync(op->peer == op->root ? own : NULL, world, root, options, comm, &op->blobs,
                                 &op->handle);
    case pcclCollectiveAllToAllV: return pcclAllToAllVAsync(own, world, options, comm, &op->blobs, &op->handle);
    default: return pcclAllGatherVAsync(own->data, own->length, options, comm, &op->blobs, &op->handle);
    }
}

static void launch(struct operation *op, const pcclCollectiveOptions_t *options)
{
    op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    const pcclOperation_t entry = entry_of(op, options);
    if (op->peer % 2 == (op->kind == pcclCollectiveGatherV))
        assert_int_equal(launch_by_function(op, options), pcclSuccess);
    else
        assert_int_equal(pcclStart(&entry, op->team->comms[op->peer], &op->handle), pcclSuccess);
}

static void is_blob(const struct operation *op, int from, const pcclBlob_t *blob)
{
    char id[PCCL_PEER_ID_SIZE];
    const size_t length = length_of(op, from, op->peer);
    const bool alike = op->kind == pcclCollectiveGatherV || op->kind == pcclCollectiveAllGatherV;
    assert_int_equal(pcclGetPeerId(op->team->comms[from], id, sizeof id), pcclSuccess);
    assert_string_equal(blob->peer.digits, id);
    assert_int_equal(blob->length, length);
    assert_non_null(blob->data);
    for (size_t i = 0; i < length; i++)
        if (((const uint8_t *)blob->data)[i] != byte(from, alike ? 0 : op->peer, length, i))
            fail_msg("byte %zu of the blob of %d at %d", i, from, op->peer);
}

/* Checks the blobs, one after another, in the order of ranks. */
static void are_blobs(const struct operation *op)
{
    size_t count = 0, bytes = 0;
    for (int from = 0; from < op->team->world; from++) {
        if (!comes(op, from, op->peer))
            continue;
        assert_ptr_equal(op->blobs.blobs[count].data, (const uint8_t *)op->blobs.blobs[0].data + bytes);
        is_blob(op, from, &op->blobs.blobs[count++]);
        bytes += length_of(op, from, op->peer);
    }
    assert_int_equal(op->blobs.count, count);
    assert_int_equal(op->blobs.bytes, bytes);
    assert_int_equal(op->blobs.blobs != NULL, count > 0);
}

/* Checks that each part was seen once, at its place among the blobs. */
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
    assert_true(op->blobs.blobs == NULL && op->blobs.count == 0);
    assert_int_equal(pcclFreeBlobs(&op->blobs), pcclSuccess); /* no blobs are left */
    for (int i = 0; i < op->team->world; i++)
        free((void *)(uintptr_t)op->parts[i].data);
}

static struct operation operation_of(const struct team *team, uint64_t tag, int peer)
{
    static const size_t some[] = {0, 1, 12, 300, 2000, LARGE, 0};
    static const pcclCollective_t kinds[KINDS] = {pcclCollectiveAllToAllV, pcclCollectiveGatherV,
                                                  pcclCollectiveScatterV, pcclCollectiveAllGatherV};
    struct operation op = {.team = team, .kind = kinds[tag % KINDS], .peer = peer};
    op.root = (int)(tag / KINDS % (uint64_t)team->world);
    for (uint64_t i = 0; i < PEERS * PEERS; i++)
        op.lengths[i / PEERS][i % PEERS] = tag < 2 * KINDS ? some[tag / KINDS] : some[(tag + i * (tag / 3)) % 7];
    make_parts(&op);
    op.seen.thread = uv_thread_self();
    return op;
}

static void await(struct operation *op, uint64_t tag)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    pcclReduceInfo_t reduced;
    pcclResult_t result = pcclTimeout;
    if (tag % 5 == 0) { /* by the function of PCCL 1.0 */
        assert_int_equal(pcclAwaitAsyncReduce(&op->handle, &reduced), pcclSuccess);
        assert_int_equal(reduced.local_world_size, op->team->world);
        return;
    }
    while (result == pcclTimeout)
        result = pcclAwaitOperation(&op->handle, tag % 2 ? UINT32_MAX : 1, &info);
    assert_int_equal(result, pcclSuccess);
    assert_true(info.tag == tag && info.world == (uint32_t)op->team->world && info.rank == (uint32_t)op->peer);
}

/*
 * Runs TAGS tags at the same time. Some callers look at parts as they arrive; others await the operation again and
 * again.
 */
static void blobs_come(const struct team *team)
{
    static struct operation ops[TAGS][PEERS];
    for (uint64_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < team->world; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[tag][i] = operation_of(team, tag, i);
            options.tag = tag;
            options.on_arrival = tag % 3 ? see : NULL;
            options.user_data = &ops[tag][i].seen;
            launch(&ops[tag][i], &options);
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < team->world; i++) {
            await(&ops[tag][i], tag);
            are_blobs(&ops[tag][i]);
            if (tag % 3)
                were_seen(&ops[tag][i]);
        }
    for (size_t tag = 0; tag < TAGS; tag++)
        for (int i = 0; i < team->world; i++)
            end(&ops[tag][i]);
}

static struct team team_of_all(const struct world *world)
{
    struct team team = {.world = world->count};
    memcpy(team.comms, world->peers, sizeof team.comms);
    return team;
}

GROUP(start_three, end_world)

WORLD_TEST(blobs_of_all_lengths_come)
{
    const struct team team = team_of_all(world);
    blobs_come(&team);
}

/* ---- provisionally ---- */

/* One peer aborts after all the others have seen something: the parts they saw stay in place until they free them. */
WORLD_TEST(what_was_seen_before_an_abort_stays)
{
    const struct team team = team_of_all(world);
    struct operation ops[PEERS];
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[i] = (struct operation){.team = &team, .kind = pcclCollectiveAllToAllV, .peer = i};
            ops[i].lengths[0][1] = 100 * (size_t)LARGE; /* an empty part is seen at once */
            make_parts(&ops[i]);
            ops[i].seen.thread = uv_thread_self();
            options.on_arrival = see;
            options.user_data = &ops[i].seen;
            launch(&ops[i], &options);
        }
        while (ops[2].seen.count < PEERS) /* the first of its parts arrives with the lengths */
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
    blobs_of_all_lengths_come(world);
}

/* A caller aborts before the others have launched, or while the blobs move. */
WORLD_TEST(an_abort_ends_it_for_all)
{
    uint8_t *data = calloc(8, LARGE);
    assert_non_null(data);
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
    blobs_of_all_lengths_come(world);
}

/* ---- refused arguments ---- */

static void refuse(pcclResult_t result, const pcclComm_t *comm, const char *words)
{
    assert_int_equal(result, pcclInvalidArgument);
    words_say(comm, words);
}

WORLD_TEST(wrong_arguments_are_explained)
{
    const pcclComm_t *comm = world->peers[0];
    const pcclPart_t parts[PEERS] = {{"a", 1}, {NULL, 0}, {"abc", 3}}, missing[PEERS] = {{"a", 1}, {NULL, 1}, {"a", 1}};
    const pcclPart_t huge[PEERS] = {{"a", SIZE_MAX / 2}, {NULL, 0}, {NULL, 0}};
    const size_t counts[PEERS] = {0};
    pcclBlobs_t blobs = PCCL_BLOBS_INIT, unset = {0};
    pcclOperation_t entry = PCCL_OPERATION_INIT;
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    refuse(pcclAllToAllV(parts, 2, NULL, comm, &blobs, NULL), comm, "2 parts for 3 members");
    refuse(pcclAllToAllV(parts, 5000, NULL, comm, &blobs, NULL), comm, "a group can have at most");
    refuse(pcclAllToAllV(NULL, 3, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    refuse(pcclAllToAllV(NULL, 0, NULL, comm, &blobs, NULL), comm, "0 parts for 3 members");
    refuse(pcclAllToAllV(missing, 3, NULL, comm, &blobs, NULL), comm, "part 1 has a length but no data: data is NULL");
    refuse(pcclAllToAllV(huge, 3, NULL, comm, &blobs, NULL), comm, "part 0 is too large");
    refuse(pcclScatterV(NULL, 0, 0, NULL, comm, &blobs, NULL), comm, "0 parts for 3 members");
    refuse(pcclScatterV(parts, 3, 3, NULL, comm, &blobs, NULL), comm, "invalid root rank 3: the group has 3 members");
    refuse(pcclGatherV("a", 1, 3, NULL, comm, &blobs, NULL), comm, "invalid root rank 3: the group has 3 members");
    refuse(pcclGatherV(NULL, 1, 0, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    refuse(pcclAllGatherV(NULL, 1, NULL, comm, &blobs, NULL), comm, "a buffer is NULL");
    refuse(pcclAllGatherV("abc", 3, NULL, comm, NULL, NULL), comm, "a buffer is NULL");
    refuse(pcclAllGatherV("abc", 3, NULL, comm, &unset, NULL), comm, "PCCL_BLOBS_INIT");
    refuse(pcclAllGatherVAsync("abc", 3, NULL, comm, &blobs, NULL), comm, "the handle is NULL");
    options.max_bytes = 5;
    refuse(pcclBarrier(&options, comm, NULL), comm, "only an operation that returns blobs takes max_bytes");
    options.counts = counts;
    options.counts_length = PEERS;
    refuse(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), comm, "only a reduce-scatter takes counts");
    options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    options.quantization.algorithm = pcclQuantMinMax;
    refuse(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), comm, "this operation has no elements to quantize");
    assert_int_equal(pcclFreeBlobs(NULL), pcclSuccess);
    options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    options.on_arrival = see;
    refuse(pcclBarrier(&options, comm, NULL), comm, "only an operation that returns blobs takes on_arrival");
    entry.collective = pcclCollectiveAllToAllV;
    entry.sendbuf = parts;
    entry.count = 3;
    entry.blobs = &blobs;
    entry.options = &options;
    refuse(pcclRunOperations(&entry, 1, NULL, comm), comm, "entry 0: on_arrival is not supported in a list");
    blobs_of_all_lengths_come(world); /* nothing was launched */
}

/* No member may get more than this limit, and all learn which member would. */
WORLD_TEST(what_one_cannot_have_nobody_gets)
{
    const struct team team = team_of_all(world);
    char words[200], source[200], id[PCCL_PEER_ID_SIZE];
    for (size_t length = 10; length <= LARGE; length += LARGE - 10) {
        struct operation ops[PEERS];
        for (int i = 0; i < PEERS; i++) {
            pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
            ops[i] = (struct operation){.team = &team, .kind = pcclCollectiveAllToAllV, .peer = i};
            for (int k = 0; k < PEERS * PEERS; k++)
                ops[i].lengths[k / PEERS][k % PEERS] = length + (k == 7);
            make_parts(&ops[i]);
            options.max_bytes = 3 * length;
            launch(&ops[i], &options);
        }
        assert_int_equal(pcclGetPeerId(world->peers[1], id, sizeof id), pcclSuccess);
        (void)snprintf(words, sizeof words, "the blobs for peer %.8s", id);
        assert_int_equal(pcclGetPeerId(world->peers[2], id, sizeof id), pcclSuccess);
        (void)snprintf(source, sizeof source, "the longest is peer %.8s", id);
        for (int i = 0; i < PEERS; i++) {
            assert_int_equal(pcclAwaitOperation(&ops[i].handle, UINT32_MAX, NULL),
                             i == 2 ? pcclPeerMismatch : pcclInvalidUsage); /* it asks for the precise result */
            words_say(world->peers[i], words);
            words_say(world->peers[i], "more than max_bytes");
            words_say(world->peers[i], source);
            end(&ops[i]);
        }
    }
}

/* All peers pass these lengths and limits, and fail with this result and these words. */
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
        bool precise = i == 2 && result == pcclInvalidUsage; /* it asks for the precise result */
        assert_int_equal(pcclAwaitOperation(&handles[i], UINT32_MAX, NULL), precise ? pcclPeerMismatch : result);
        words_say(world->peers[i], words);
        assert_null(blobs[i].blobs);
    }
}

/* The numbers of these lengths are read, but no memory: no machine has so much. */
WORLD_TEST(what_all_cannot_have_nobody_gets)
{
    static const uint64_t given[PEERS] = {0}, ten[PEERS] = {10, 10, 10}, other[PEERS] = {10, 11, 10};
    static const uint64_t any[PEERS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    static const size_t small[PEERS] = {3, 4, 4}, fits[PEERS] = {3, 4, 3};
    static const size_t huge[PEERS] = {1, (size_t)1 << 60, 0}, beyond[PEERS] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    fails_for_all(world, small, ten, pcclInvalidUsage, "the blobs have 11 bytes in total, more than max_bytes (10)");
    fails_for_all(world, fits, other, pcclInvalidUsage, "all-gather of blobs of at most 11 bytes in all");
    fails_for_all(world, huge, given, pcclInvalidUsage, "more than max_bytes (268435456)");
    fails_for_all(world, beyond, given, pcclInvalidUsage, "the blobs have 18446744073709551615 bytes in total");
    fails_for_all(world, huge, any, pcclInternalError, "out of memory for a result of 1152921504606846977 bytes");
    fails_for_all(world, beyond, any, pcclInternalError, "out of memory for a result of 18446744073709551615 bytes");
    blobs_of_all_lengths_come(world);
}

/* ---- lists ---- */

struct list {
    const struct team *team;
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
        options[i] = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
        options[i].tag = (uint64_t)i;
        list->ops[i].blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
        entries[i] = entry_of(&list->ops[i], &options[i]);
    }
    list->result = pcclRunOperations(entries, KINDS, NULL, list->team->comms[list->peer]);
}

WORLD_TEST(lists_have_them)
{
    const struct team team = team_of_all(world);
    for (uint64_t first = 0; first < TAGS; first += KINDS) {
        static struct list lists[PEERS];
        uv_thread_t threads[PEERS];
        for (int i = 0; i < PEERS; i++) {
            lists[i] = (struct list){.team = &team, .peer = i};
            for (uint64_t k = 0; k < KINDS; k++)
                lists[i].ops[k] = operation_of(&team, first + k, i);
            assert_int_equal(uv_thread_create(&threads[i], run_list, &lists[i]), 0);
        }
        for (int i = 0; i < PEERS; i++)
            assert_int_equal(uv_thread_join(&threads[i]), 0);
        for (int i = 0; i < PEERS; i++)
            for (int k = 0; k < KINDS; k++) {
                assert_int_equal(lists[i].result, pcclSuccess);
                are_blobs(&lists[i].ops[k]);
                end(&lists[i].ops[k]);
            }
    }
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

/* Creates a group of all peers except the first. */
static struct team found(const struct world *world)
{
    struct founding foundings[PEERS];
    struct team team = {.world = PEERS - 1};
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
        team.comms[i - 1] = foundings[i].group;
        assert_non_null(foundings[i].group);
    }
    return team;
}

WORLD_TEST(a_group_has_the_blobs_of_its_members)
{
    const struct team team = found(world);
    blobs_come(&team);
    for (int i = 0; i < team.world; i++)
        assert_int_equal(pcclDestroyCommunicator(team.comms[i]), pcclSuccess);
}

/* The peer has announced the length of its blob, and never moves the blob: that ends the group, and nothing else. */
WORLD_TEST(who_closes_a_group_between_the_steps_stays_in_the_run)
{
    for (int turn = 0; turn < 10; turn++) {
        const struct team team = found(world);
        const pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        struct operation ops[PEERS];
        for (int i = team.world - 1; i >= 0; i--) {
            ops[i] = (struct operation){.team = &team, .kind = pcclCollectiveAllGatherV, .peer = i};
            ops[i].lengths[i][0] = LARGE;
            make_parts(&ops[i]);
            launch(&ops[i], &options);
        }
        assert_int_equal(pcclDestroyCommunicator(team.comms[0]), pcclSuccess);
        pcclResult_t result = pcclAwaitOperation(&ops[1].handle, UINT32_MAX, NULL);
        assert_true(result == pcclRankConnectionLost || result == pcclSuccess);
        assert_int_equal(pcclDestroyCommunicator(team.comms[1]), pcclSuccess);
        for (int i = 0; i < team.world; i++)
            end(&ops[i]);
    }
    blobs_of_all_lengths_come(world);
}

/* ---- alone ---- */

GROUP(start_one, end_world)

WORLD_TEST(alone_it_has_its_own_part)
{
    const pcclComm_t *comm = world->peers[0];
    const pcclPart_t part = {"abc", 3};
    char id[PCCL_PEER_ID_SIZE];
    assert_int_equal(pcclGetPeerId(comm, id, sizeof id), pcclSuccess);
    for (int kind = 0; kind < 5; kind++) {
        struct seen seen = {.thread = uv_thread_self()};
        pcclBlobs_t blobs = PCCL_BLOBS_INIT;
        pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
        const size_t length = kind == 4 ? 0 : 3;
        assert_int_equal(pcclAllToAllV(&part, 1, NULL, comm, &blobs, NULL), pcclTooFewPeers);
        assert_int_equal(pcclAllGatherV("abc", 3, NULL, comm, &blobs, NULL), pcclTooFewPeers);
        options.alone_ok = true;
        options.on_arrival = see;
        options.user_data = &seen;
        assert_int_equal(kind == 0   ? pcclAllToAllV(&part, 1, &options, comm, &blobs, NULL)
                         : kind == 1 ? pcclScatterV(&part, 1, 0, &options, comm, &blobs, NULL)
                         : kind == 2 ? pcclGatherV("abc", 3, 0, &options, comm, &blobs, NULL)
                                     : pcclAllGatherV(kind == 4 ? NULL : "abc", length, &options, comm, &blobs, NULL),
                         pcclSuccess);
        assert_true(blobs.count == 1 && blobs.bytes == length && seen.count == 1 && !seen.elsewhere);
        assert_true(blobs.blobs[0].data != NULL && memcmp(blobs.blobs[0].data, "abc", length) == 0);
        assert_string_equal(blobs.blobs[0].peer.digits, id);
        assert_ptr_equal(seen.parts[0].data, blobs.blobs[0].data);
        assert_int_equal(pcclFreeBlobs(&blobs), pcclSuccess);
        options.max_bytes = 2;
        assert_int_equal(pcclAllGatherV("abc", 3, &options, comm, &blobs, NULL), pcclInvalidUsage);
        assert_null(blobs.blobs);
    }
}

GROUP(start_three_of_lengths, end_world)
AGAIN(blobs_of_all_lengths_come)
AGAIN(a_group_has_the_blobs_of_its_members)
AGAIN(who_closes_a_group_between_the_steps_stays_in_the_run)
