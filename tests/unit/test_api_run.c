/* Lists of operations of all kinds through the public functions: three peers here, of which some leave. */
#include "api_world.h"

#include <stdlib.h>

enum { ENTRIES = 9, SMALL = 5, LARGE = 4099, FIRST_TAG = 10 };

static int start_three(void **state) { return start_world(state, 3, "8192"); }
static int start_one(void **state) { return start_world(state, 1, "8192"); }

static const pcclCollective_t collectives[ENTRIES] = {
    pcclCollectiveBroadcast,     pcclCollectiveAllReduce, pcclCollectiveAllGather,
    pcclCollectiveReduceScatter, pcclCollectiveBarrier,   pcclCollectiveAllGatherV,
    pcclCollectiveAllGather,     pcclCollectiveAllReduce, pcclCollectiveReduceScatter};

enum conduct { REBUILDS, HAS_NO_REBUILD, FAILS, CHANGES_THE_TAG, KEEPS_OLD_MEMBERS, ABORTS, CLOSES };

/*
 * The input of one peer, and its expected result. Each element of a peer's input is its number plus one, and its blob
 * has that many elements more than the arrays of the others.
 */
struct list {
    pcclComm_t *comm;
    int peer;
    enum conduct conduct;
    uint32_t max_in_flight;
    size_t count;
    bool alone_ok;
    pcclOperation_t entries[ENTRIES];
    pcclCollectiveOptions_t options[ENTRIES];
    pcclOperationInfo_t infos[ENTRIES];
    pcclPeerId_t participants[ENTRIES][PEERS];
    int32_t *input[ENTRIES], *output[ENTRIES];
    pcclBlobs_t blobs;
    int rebuilds;
    uint32_t world; /* world of the last rebuild */
    bool told_right;
    pcclResult_t result;
    char words[512];
    pcclFailure_t failure;
};

static int32_t *filled(size_t count, int32_t value)
{
    int32_t *made = malloc((count + 1) * sizeof *made);
    assert_non_null(made);
    for (size_t i = 0; i < count; i++)
        made[i] = value;
    return made;
}

static bool are_all(const int32_t *numbers, size_t count, int32_t value)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] != value)
            return false;
    }
    return true;
}

static size_t count_of(const struct list *list, size_t index)
{
    return collectives[index] == pcclCollectiveBarrier ? 0 : index < 4 ? SMALL : list->count;
}

/* Bytes of the blob that this peer contributes. */
static size_t blob_bytes(const struct list *list, int peer) { return (list->count + (size_t)peer) * sizeof(int32_t); }

static void arrange(struct list *list, size_t index, uint32_t world)
{
    size_t count = count_of(list, index);
    pcclOperation_t *entry = &list->entries[index];
    bool scatters = collectives[index] == pcclCollectiveReduceScatter;
    bool gathers = collectives[index] == pcclCollectiveAllGather;
    free(list->input[index]);
    free(list->output[index]);
    list->input[index] = filled(scatters ? world * count : count + PEERS, list->peer + 1);
    list->output[index] = filled(gathers ? world * count : count, list->peer + 1);
    list->options[index] = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    list->options[index].tag = FIRST_TAG + index;
    list->options[index].alone_ok = list->alone_ok;
    list->infos[index] = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    list->infos[index].participants = list->participants[index];
    list->infos[index].participants_max = PEERS;
    *entry = (pcclOperation_t)PCCL_OPERATION_INIT;
    entry->collective = collectives[index];
    entry->sendbuf = entry->collective == pcclCollectiveBroadcast ? NULL : list->input[index];
    entry->recvbuf = list->output[index];
    entry->count = count;
    entry->datatype = pcclInt32;
    entry->options = &list->options[index];
    entry->info = &list->infos[index];
    if (entry->collective != pcclCollectiveAllGatherV)
        return;
    (void)pcclFreeBlobs(&list->blobs);
    list->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    entry->recvbuf = NULL;
    entry->count = blob_bytes(list, list->peer);
    entry->datatype = pcclUint8;
    entry->blobs = &list->blobs;
}

static bool rebuild(const pcclRebuild_t *given, void *user_data)
{
    struct list *list = user_data;
    char own[PCCL_PEER_ID_SIZE];
    pcclPeerId_t members[PEERS];
    size_t count = 0;
    uint32_t rank = 0;
    list->rebuilds++;
    list->world = given->member_count;
    list->told_right = given->size == sizeof *given && given->operations == list->entries &&
                       pcclGetPeerId(list->comm, own, sizeof own) == pcclSuccess &&
                       strcmp(own, given->members[given->rank].digits) == 0 &&
                       pcclGetMembers(list->comm, members, PEERS, &count, &rank) == pcclSuccess &&
                       count == given->member_count && rank == given->rank;
    for (size_t i = 0; i < given->entry_count; i++) {
        size_t index = given->entries[i];
        bool depends = collectives[index] != pcclCollectiveAllReduce && collectives[index] != pcclCollectiveBarrier &&
                       collectives[index] != pcclCollectiveAllGatherV;
        if (list->infos[index].world > 0 || !depends)
            list->told_right = false;
        arrange(list, index, given->member_count);
        list->options[index].tag += list->conduct == CHANGES_THE_TAG ? 100 : 0;
        if (list->conduct == KEEPS_OLD_MEMBERS) {
            list->options[index].members = &given->members[given->rank];
            list->options[index].member_count = 1;
        }
    }
    if (list->conduct == ABORTS)
        (void)pcclAbortOperations(list->comm);
    if (list->conduct == CLOSES)
        (void)pcclCloseCommunicator(list->comm);
    return list->conduct != FAILS;
}

static void list_thread(void *argument)
{
    struct list *list = argument;
    pcclRunOptions_t options = PCCL_RUN_OPTIONS_INIT;
    options.max_in_flight = list->max_in_flight;
    options.rebuild = list->conduct == HAS_NO_REBUILD ? NULL : rebuild;
    options.user_data = list;
    list->result = pcclRunOperations(list->entries, ENTRIES, &options, list->comm);
    list->failure = (pcclFailure_t)PCCL_FAILURE_INIT;
    (void)pcclGetLastFailure(list->comm, &list->failure);
    (void)snprintf(list->words, sizeof list->words, "%s", pcclGetLastError(list->comm));
}

static void list_says(const struct list *list, const char *part)
{
    if (!strstr(list->words, part))
        fail_msg("'%s' is not in '%s'", part, list->words);
}

static struct list make_list(struct world *world, int peer, size_t count, uint32_t max_in_flight)
{
    struct list list = {
        .comm = world->peers[peer], .peer = peer, .count = count, .max_in_flight = max_in_flight, .told_right = true};
    return list;
}

static void begin(struct list *list, uint32_t world, uv_thread_t *thread)
{
    for (size_t i = 0; i < ENTRIES; i++)
        arrange(list, i, world);
    assert_int_equal(uv_thread_create(thread, list_thread, list), 0);
}

static void release(struct list *list)
{
    (void)pcclFreeBlobs(&list->blobs);
    for (size_t i = 0; i < ENTRIES; i++) {
        free(list->input[i]);
        free(list->output[i]);
    }
}

static void check_blobs(const struct list *list, uint32_t world)
{
    assert_int_equal(list->blobs.count, world);
    for (uint32_t k = 0; k < world; k++) {
        const pcclBlob_t *blob = &list->blobs.blobs[k];
        assert_int_equal(blob->length, blob_bytes(list, (int)k));
        assert_true(are_all(blob->data, blob->length / sizeof(int32_t), (int32_t)k + 1));
    }
}

/* Peers 0 to world - 1 took part. */
static void check_entry(const struct list *list, size_t index)
{
    const pcclOperationInfo_t *info = &list->infos[index];
    size_t count = count_of(list, index);
    int32_t sum = (int32_t)(info->world * (info->world + 1) / 2);
    const int32_t *output = list->output[index];
    assert_true(info->size == sizeof *info && info->tag == FIRST_TAG + index && info->rank == (uint32_t)list->peer);
    switch (collectives[index]) {
    case pcclCollectiveBroadcast: assert_true(are_all(output, count, 1)); break;
    case pcclCollectiveAllGatherV: check_blobs(list, info->world); break;
    case pcclCollectiveAllGather:
        for (uint32_t k = 0; k < info->world; k++)
            assert_true(are_all(output + k * count, count, (int32_t)k + 1));
        break;
    default: assert_true(are_all(output, count, sum)); break;
    }
}

/* The first `steps` steps were done by three peers, the rest by `world` peers. */
static void check_success(const struct list *list, size_t steps, uint32_t world)
{
    assert_int_equal(list->result, pcclSuccess);
    assert_true(list->told_right);
    for (size_t i = 0; i < ENTRIES; i++) {
        assert_int_equal(list->infos[i].world, i < steps ? 3 : world);
        check_entry(list, i);
    }
}

static void check_inputs(const struct list *list)
{
    for (size_t i = 0; i < ENTRIES; i++)
        assert_true(are_all(list->input[i], count_of(list, i), list->peer + 1));
}

static void all_run(struct world *world)
{
    struct list lists[PEERS];
    uv_thread_t threads[PEERS];
    for (int i = 0; i < world->count; i++) {
        lists[i] = make_list(world, i, LARGE, 1 + 4 * (uint32_t)i);
        begin(&lists[i], (uint32_t)world->count, &threads[i]);
    }
    for (int i = 0; i < world->count; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(lists[i].rebuilds, 0);
        check_success(&lists[i], 0, (uint32_t)world->count);
        release(&lists[i]);
    }
}

/* ---- all are there ---- */

GROUP(start_three, end_world)

WORLD_TEST(every_kind_in_one_list)
{
    for (int round = 0; round < 5; round++)
        all_run(world);
}

static void refuse(pcclComm_t *comm, pcclOperation_t *entries, size_t count, const pcclRunOptions_t *options,
                   const char *words)
{
    assert_int_equal(pcclRunOperations(entries, count, options, comm), pcclInvalidArgument);
    if (comm)
        words_say(comm, words);
}

/* A struct of a later version, whose last member this version does not know. */
struct later {
    pcclOperation_t known;
    uint64_t unknown;
};

WORLD_TEST(what_is_wrong_is_explained)
{
    pcclComm_t *comm = world->peers[0];
    struct list list = make_list(world, 0, SMALL, 4);
    pcclOperation_t *entries = list.entries;
    pcclRunOptions_t none = PCCL_RUN_OPTIONS_INIT, small = PCCL_RUN_OPTIONS_INIT;
    for (size_t i = 0; i < ENTRIES; i++)
        arrange(&list, i, PEERS);
    none.max_in_flight = 0;
    small.size--;
    refuse(comm, NULL, 1, NULL, "operations is NULL");
    refuse(NULL, entries, 1, NULL, "");
    refuse(comm, entries, 0, NULL, "the list is empty");
    refuse(comm, entries, 1, &none, "max_in_flight");
    refuse(comm, entries, 1, &small, "PCCL_RUN_OPTIONS_INIT");
#define WRONG(index, member, value, words)                                                                             \
    do {                                                                                                               \
        entries[index].member = value;                                                                                 \
        refuse(comm, entries, ENTRIES, NULL, words);                                                                   \
        arrange(&list, index, PEERS);                                                                                  \
    } while (0)
    WRONG(0, size, 8, "entry 0: the size of the struct is not set: initialize it with PCCL_OPERATION_INIT");
    WRONG(2, size, 8, "entry 2: the size of the struct is not set");
    WRONG(2, size, sizeof(struct later), "entry 2: ");
    WRONG(3, collective, (pcclCollective_t)99, "entry 3: unknown collective");
    WRONG(0, sendbuf, list.input[1], "entry 0: a broadcast takes a single buffer");
    WRONG(0, root, PEERS, "entry 0: invalid root rank 3");
    WRONG(1, sendbuf, list.output[1] + 1, "entry 1: sendbuf and recvbuf partly overlap");
    WRONG(2, sendbuf, list.output[2] + 1, "entry 2: sendbuf and recvbuf overlap");
    WRONG(2, recvbuf, NULL, "entry 2: a buffer is NULL");
    WRONG(3, op, (pcclRedOp_t)77, "entry 3: unknown operation");
    WRONG(3, count, 0, "entry 3: count is 0");
    WRONG(5, blobs, NULL, "entry 5: a buffer is NULL");
    WRONG(6, blobs, &list.blobs, "entry 6: this operation returns no blobs");
    WRONG(7, options, &list.options[6], "entry 7: duplicate tag 16");
    list.blobs.size = 1;
    refuse(comm, entries, ENTRIES, NULL,
           "entry 5: the size of the blobs is not set: initialize it with PCCL_BLOBS_INIT");
    arrange(&list, 5, PEERS);
    list.options[7].size = 1;
    refuse(comm, entries, ENTRIES, NULL,
           "entry 7: the size of the struct is not set: initialize it with PCCL_COLLECTIVE_OPTIONS_INIT");
    arrange(&list, 7, PEERS);
    list.infos[7].size = 1;
    refuse(comm, entries, ENTRIES, NULL, "entry 7: the size of the info is not set");
    arrange(&list, 7, PEERS);
    struct later later[2] = {{entries[0], 0}, {entries[2], 1}};
    later[0].known.size = later[1].known.size = sizeof *later;
    refuse(comm, &later[0].known, 2, NULL,
           "entry 1: the struct has members that this version of the library does not know");
    pcclAsyncReduceOp_t handle;
    assert_int_equal(pcclBarrierAsync(&list.options[4], comm, &handle), pcclSuccess);
    refuse(comm, entries, ENTRIES, NULL, "entry 4: tag 14 is in use");
    for (int i = 1; i < PEERS; i++)
        assert_int_equal(pcclBarrierAsync(&list.options[4], world->peers[i], &(pcclAsyncReduceOp_t){0}), pcclSuccess);
    for (int i = 0; i < PEERS; i++) {
        handle.comm = world->peers[i];
        assert_int_equal(pcclAwaitOperation(&handle, UINT32_MAX, NULL), pcclSuccess);
    }
    for (size_t i = 0; i < ENTRIES; i++)
        assert_int_equal(list.infos[i].world, 0);
    check_inputs(&list);
    release(&list);
    all_run(world); /* nothing was launched */
}

WORLD_TEST(a_list_with_a_mismatch_ends_for_all)
{
    struct list lists[PEERS];
    uv_thread_t threads[PEERS];
    for (int i = 0; i < PEERS; i++) {
        lists[i] = make_list(world, i, LARGE, 1 + 7 * (uint32_t)(i % 2));
        for (size_t k = 0; k < ENTRIES; k++)
            arrange(&lists[i], k, PEERS);
        lists[i].entries[3].op = i == 0 ? pcclMax : pcclSum;
        assert_int_equal(uv_thread_create(&threads[i], list_thread, &lists[i]), 0);
    }
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(uv_thread_join(&threads[i]), 0);
        assert_int_equal(lists[i].result, i == 2 ? pcclPeerMismatch : pcclInvalidUsage);
        assert_int_equal(lists[i].infos[3].world, 0);
        check_inputs(&lists[i]);
        release(&lists[i]);
    }
    update_all(world);
    all_run(world);
}

/* ---- one peer leaves ---- */

/* Two peers are in the list, with one entry in flight and with many; the third leaves after `steps` steps of it. */
static void leave(struct world *world, struct list lists[2], size_t steps, const enum conduct conduct[2], size_t count)
{
    uv_thread_t threads[2];
    struct list third = make_list(world, 2, count, 1);
    for (int i = 0; i < 2; i++) {
        lists[i] = make_list(world, i, count, i == 0 ? 1 : ENTRIES);
        lists[i].conduct = conduct[i];
        begin(&lists[i], 3, &threads[i]);
    }
    for (size_t i = 0; i < ENTRIES; i++)
        arrange(&third, i, 3);
    if (steps > 0)
        assert_int_equal(pcclRunOperations(third.entries, steps, NULL, third.comm), pcclSuccess);
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
    for (int i = 0; i < 2; i++)
        assert_int_equal(uv_thread_join(&threads[i]), 0);
    release(&third);
}

WORLD_TEST(the_others_rebuild_and_finish)
{
    for (size_t steps = 0; steps < ENTRIES; steps++) {
        struct list lists[2];
        leave(world, lists, steps, (const enum conduct[]){REBUILDS, REBUILDS}, steps % 2 ? LARGE : SMALL);
        for (int i = 0; i < 2; i++) {
            check_success(&lists[i], steps, 2);
            assert_true(lists[i].rebuilds == 1 && lists[i].world == 2);
            release(&lists[i]);
        }
        all_run(world);
        join(world, "1");
    }
}

/* The two that have remained work, then a third peer joins. */
static void join_again(struct world *world)
{
    update_all(world);
    all_run(world);
    join(world, "1");
}

WORLD_TEST(without_rebuild_the_members_have_changed)
{
    for (size_t steps = 0; steps < ENTRIES; steps += 3) {
        struct list lists[2];
        leave(world, lists, steps, (const enum conduct[]){HAS_NO_REBUILD, HAS_NO_REBUILD}, LARGE);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(lists[i].result, pcclMembersChanged);
            list_says(&lists[i], "expected different members; not a current member");
            assert_int_equal(lists[i].failure.peer_count, 1);
            for (size_t k = 0; k < ENTRIES; k++)
                assert_true(k >= steps || lists[i].infos[k].world == 3);
            check_inputs(&lists[i]);
            release(&lists[i]);
        }
        join_again(world);
    }
}

/* The rebuild fails at one of the two: all get the failure, and no peer waits for the absent one. */
WORLD_TEST(who_cannot_rebuild_ends_the_list_for_all)
{
    static const struct {
        enum conduct conduct;
        pcclResult_t own;
        const char *words, *others;
    } cases[] = {
        {FAILS, pcclRankConnectionLost, "could not rebuild it for the 2 remaining members",
         "could not rebuild it for the 2"},
        {CHANGES_THE_TAG, pcclInvalidArgument, "entry 0: rebuild returned a different operation, or a different tag",
         "a different tag"},
        {KEEPS_OLD_MEMBERS, pcclInvalidArgument, "entry 0: rebuild used a different member list",
         "a different member list"},
        {ABORTS, pcclRankConnectionLost, "aborted", "aborted"},
    };
    for (size_t c = 0; c < 2 * sizeof cases / sizeof *cases; c++) {
        struct list lists[2];
        int wrong = (int)(c % 2);
        enum conduct conduct[2] = {REBUILDS, REBUILDS};
        conduct[wrong] = cases[c / 2].conduct;
        leave(world, lists, 0, conduct, LARGE);
        assert_int_equal(lists[wrong].result, cases[c / 2].own);
        list_says(&lists[wrong], cases[c / 2].words);
        assert_int_equal(lists[!wrong].result, pcclRankConnectionLost);
        list_says(&lists[!wrong], cases[c / 2].others);
        for (int i = 0; i < 2; i++) {
            check_inputs(&lists[i]);
            release(&lists[i]);
        }
        join_again(world);
    }
}

/* A peer closes its communicator while it rebuilds: its list ends, and the other peer's too, which is then alone. */
WORLD_TEST(who_closes_its_communicator_ends_its_list)
{
    struct list lists[2];
    leave(world, lists, 0, (const enum conduct[]){REBUILDS, CLOSES}, LARGE);
    assert_int_equal(lists[1].result, pcclRankConnectionLost);
    assert_int_equal(lists[0].result, pcclTooFewPeers);
    for (int i = 0; i < 2; i++) {
        check_inputs(&lists[i]);
        release(&lists[i]);
    }
    assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
}

/* ---- alone ---- */

GROUP(start_one, end_world)

WORLD_TEST(who_is_left_alone_finishes_alone_if_that_is_wanted)
{
    for (int round = 0; round < 2; round++) {
        uv_thread_t thread;
        struct list list = make_list(world, 0, LARGE, 1 + 7 * (uint32_t)round);
        list.alone_ok = true;
        join(world, "0");
        begin(&list, 2, &thread);
        assert_int_equal(pcclDestroyCommunicator(world->peers[--world->count]), pcclSuccess);
        assert_int_equal(uv_thread_join(&thread), 0);
        check_success(&list, 0, 1);
        assert_true(list.rebuilds == 1 && list.world == 1);
        release(&list);
    }
}

WORLD_TEST(an_unconnected_communicator_says_so)
{
    pcclComm_t *comm = create(world, "0");
    pcclOperation_t entry = PCCL_OPERATION_INIT;
    entry.collective = pcclCollectiveBarrier;
    assert_int_equal(pcclRunOperations(&entry, 1, NULL, comm), pcclInvalidUsage);
    words_say(comm, "not connected");
    assert_int_equal(pcclDestroyCommunicator(comm), pcclSuccess);
    assert_int_equal(pcclRunOperations(&entry, 1, NULL, world->peers[0]), pcclTooFewPeers);
}
