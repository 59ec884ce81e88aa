/*
 * The verbs of all collectives. The id of a peer determines its contribution, so the list of
 * participants is enough to check every element:
 *
 *   members                  {"members":[ids],"rank":R}
 *   group SLOT ID,ID,...     founds a group of these members and puts it into the slot, to be used
 *                            as a communicator; options label=TEXT, timeout=MS
 *   collect KIND TAG COUNT   makes one collective; options root=RANK, members=ID,ID,..., alone,
 *                            inplace, launched (as for reduce), quantized, max=BYTES of blobs, and
 *                            wrong: contributes other data than it should.
 *                            {"intact":...,"right":...,"peers":N,"rank":R,"sequence":S,"digest":D}
 *   run SEED OPS COUNT MAX   makes a list of OPS collectives of all kinds, drawn by the seed, with
 *                            MAX in flight; options rebuild, rebuild=fails.
 *                            {"intact":...,"right":...,"rebuilt":TIMES,"ops":[...] as below}
 *   mixed SEED OPS COUNT     until stopped: steps of up to OPS collectives of all kinds, of up to
 *                            COUNT elements for each member. Seed and step determine a step. All
 *                            are launched, all awaited, and failed ones are launched again, among
 *                            the members at that time. Option listed: all in one call. Events:
 *     failed   number of failures in this round, and whether their inputs are unchanged
 *     step     {"ops":[[kind,world,digest of participants and of common results],...],"right":...}
 */
#include "../support/collectives_reference.h"
#include "loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The kinds up to LAST_QUANTIZED add nothing, so their quantized results can be checked here. */
enum kind {
    BROADCAST,
    GATHER,
    ROOT_GATHER,
    ROOT_SCATTER,
    ALL_TO_ALL,
    SCATTER,
    ROOT_SUM,
    BARRIER,
    BLOBS,
    ROOT_BLOBS,
    BLOBS_GIVEN,
    BLOBS_FOR_ALL,
    ALL_REDUCE,
    EXCLUSIVE_SCAN,
    INCLUSIVE_SCAN,
    KINDS,
    LAST_QUANTIZED = ALL_TO_ALL
};
static const struct {
    const char *name;
    pcclCollective_t collective;
} kinds[KINDS] = {[BROADCAST] = {"broadcast", pcclCollectiveBroadcast},
                  [GATHER] = {"gather", pcclCollectiveAllGather},
                  [ROOT_GATHER] = {"root_gather", pcclCollectiveGather},
                  [ROOT_SCATTER] = {"root_scatter", pcclCollectiveScatter},
                  [ALL_TO_ALL] = {"all_to_all", pcclCollectiveAllToAll},
                  [SCATTER] = {"scatter", pcclCollectiveReduceScatter},
                  [ROOT_SUM] = {"root_sum", pcclCollectiveReduce},
                  [BARRIER] = {"barrier", pcclCollectiveBarrier},
                  [BLOBS] = {"blobs", pcclCollectiveAllGatherV},
                  [ALL_REDUCE] = {"reduce", pcclCollectiveAllReduce},
                  [ROOT_BLOBS] = {"root_blobs", pcclCollectiveGatherV},
                  [BLOBS_GIVEN] = {"blobs_given", pcclCollectiveScatterV},
                  [BLOBS_FOR_ALL] = {"blobs_for_all", pcclCollectiveAllToAllV},
                  [EXCLUSIVE_SCAN] = {"exclusive_scan", pcclCollectiveExclusiveScan},
                  [INCLUSIVE_SCAN] = {"inclusive_scan", pcclCollectiveInclusiveScan}};

enum { MEMBERS_MAX = 80, OPS_MAX = 8, FIRST_TAG = 2000 };

struct collective {
    enum kind kind;
    uint64_t tag, salt;
    size_t count;
    uint32_t root, drawn;
    bool in_place, alone_ok, listed, done, in_flight; /* listed: the operation lists its members, whatever its kind */
    bool quantized;                                   /* the elements are floats */
    uint64_t digest;                                  /* of a result that all members share */
    uint64_t max_bytes;
    pcclPeerId_t members[MEMBERS_MAX];
    uint32_t world, rank; /* as this peer expects */
    uint32_t *input, *result;
    pcclBlobs_t blobs;
    pcclPart_t parts[MEMBERS_MAX];
    uint32_t arrived; /* blobs: number seen on arrival */
    bool strange;     /* ... of which some were wrong */
    pcclAsyncReduceOp_t handle;
    pcclPeerId_t participants[MEMBERS_MAX];
    pcclOperationInfo_t info;
};

/* ---- elements ---- */

static uint32_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(x >> 32);
}

/* Returns a base for the elements of a peer; the first digits of ids are random, so bases differ. */
static uint64_t base_of(const pcclPeerId_t *id, uint64_t salt)
{
    char digits[9];
    memcpy(digits, id->digits, 8);
    digits[8] = 0;
    return ((uint64_t)mix(salt + 1) << 32) + strtoul(digits, NULL, 16) * UINT64_C(0x9E3779B9);
}

/* Returns an element; for quantized kinds, a float between 0 and 1. */
static uint32_t element_of(const struct collective *op, uint64_t number)
{
    uint32_t bits = mix(number);
    float real = (float)bits * 0x1p-32f;
    if (op->quantized)
        memcpy(&bits, &real, sizeof bits);
    return bits;
}

static void fill(const struct collective *op, uint32_t *elements, size_t count, const pcclPeerId_t *id)
{
    uint64_t base = base_of(id, op->salt);
    for (size_t i = 0; i < count; i++)
        elements[i] = element_of(op, base + i);
}

/* Returns true if two floats differ by at most half a step between two codes, plus rounding errors. */
static bool is_near(uint32_t found, uint32_t expected)
{
    float real, exact;
    memcpy(&real, &found, sizeof real);
    memcpy(&exact, &expected, sizeof exact);
    return fabsf(real - exact) < 0.5f / 255 + 1e-5f;
}

/* Checks elements of a peer. received: they may be the result of quantization. */
static bool is_filled(const struct collective *op, const uint32_t *elements, size_t first, size_t count,
                      const pcclPeerId_t *id, bool received)
{
    uint64_t base = base_of(id, op->salt);
    for (size_t i = 0; i < count; i++) {
        uint32_t expected = element_of(op, base + first + i);
        if (elements[i] != expected && !(received && op->quantized && is_near(elements[i], expected)))
            return false;
    }
    return true;
}

/*
 * Returns the number of elements of this peer's blob, which others do not know before: some, or, with odd tags, perhaps
 * none.
 */
static size_t blob_count(const struct collective *op, const pcclPeerId_t *id)
{
    uint32_t draw = mix(base_of(id, op->salt + 1));
    return op->count * (op->tag % 2 != 0 ? draw % 4 : 1 + draw % 3);
}

static bool is_of_blobs(const struct collective *op) { return op->kind >= BLOBS && op->kind <= BLOBS_FOR_ALL; }

static bool is_for_each(const struct collective *op) { return op->kind == BLOBS_GIVEN || op->kind == BLOBS_FOR_ALL; }

/* Returns the number of elements that this peer has for the member of this rank. */
static size_t part_count(const struct collective *op, const pcclPeerId_t *id, uint32_t rank)
{
    uint32_t draw = mix(base_of(id, op->salt + 1) + rank);
    return op->count * (op->tag % 2 != 0 ? draw % 4 : 1 + draw % 3);
}

/* Returns the number of elements before the part for the member of this rank. */
static size_t part_first(const struct collective *op, const pcclPeerId_t *id, uint32_t rank)
{
    size_t first = 0;
    for (uint32_t k = 0; k < rank; k++)
        first += part_count(op, id, k);
    return first;
}

/* Returns the number of elements that this peer contributes. */
static size_t inputs(const struct collective *op)
{
    const pcclPeerId_t *own = &op->members[op->rank];
    switch (op->kind) {
    case ROOT_BLOBS:
    case BLOBS: return blob_count(op, own);
    case BLOBS_GIVEN: return op->rank == op->root ? part_first(op, own, op->world) : 0;
    case BLOBS_FOR_ALL: return part_first(op, own, op->world);
    case BROADCAST: return op->count; /* in the buffer of the result */
    default:
        return elements_of_rank(row_of(kinds[op->kind].collective), false, op->world, op->root, op->count, op->rank);
    }
}

/* Returns the number of elements that this peer receives in a separate buffer. */
static size_t results(const struct collective *op)
{
    const struct collective_row *row = row_of(kinds[op->kind].collective);
    return row == NULL ? 0 : elements_of_rank(row, true, op->world, op->root, op->count, op->rank);
}

/* Checks a blob that this peer receives from another one. */
static bool is_blob(const struct collective *op, const pcclBlob_t *blob, const pcclPeerId_t *from)
{
    bool for_each = is_for_each(op);
    size_t count = for_each ? part_count(op, from, op->rank) : blob_count(op, from);
    return strcmp(blob->peer.digits, from->digits) == 0 && blob->length == count * sizeof(uint32_t) &&
           is_filled(op, blob->data, for_each ? part_first(op, from, op->rank) : 0, count, from, true);
}

static bool are_blobs(const struct collective *op)
{
    size_t bytes = 0;
    uint32_t first = op->kind == BLOBS_GIVEN ? op->root : 0;
    uint32_t count = op->kind == BLOBS_GIVEN ? 1 : op->kind == ROOT_BLOBS && op->rank != op->root ? 0 : op->info.world;
    bool right = op->blobs.count == count && !op->strange;
    for (uint32_t k = 0; k < count && right; k++) {
        const pcclBlob_t *blob = &op->blobs.blobs[k];
        right = is_blob(op, blob, &op->participants[first + k]) &&
                (const char *)blob->data == (const char *)op->blobs.blobs[0].data + bytes;
        bytes += blob->length;
    }
    return right && op->blobs.bytes == bytes;
}

/* Checks a part on arrival: from a member that this peer expects, or from any if it expects none. */
static void see_arrival(const pcclBlob_t *part, void *user_data)
{
    struct collective *op = user_data;
    op->strange = op->strange || !is_blob(op, part, &part->peer);
    op->arrived++;
}

static bool are_elements(const struct collective *op, size_t count)
{
    const pcclOperationInfo_t *info = &op->info;
    uint64_t bases[MEMBERS_MAX];
    for (uint32_t k = 0; k < info->world; k++)
        bases[k] = base_of(&op->participants[k], op->salt);
    for (size_t i = 0; i < count; i++) {
        const struct source source = source_of(kinds[op->kind].collective, info->world, op->root, op->count, info->rank,
                                               info->rank * op->count, i);
        uint32_t expected = 0;
        for (uint32_t k = 0; k < source.ranks; k++)
            expected += element_of(op, bases[source.first + k] + source.at);
        if (op->result[i] != expected && !(op->quantized && is_near(op->result[i], expected)))
            return false;
    }
    return true;
}

static bool is_right(const struct collective *op)
{
    const pcclOperationInfo_t *info = &op->info;
    bool right = info->tag == op->tag && info->world >= 1 && info->rank < info->world &&
                 strcmp(op->participants[info->rank].digits, op->members[op->rank].digits) == 0;
    return right && (is_of_blobs(op) ? are_blobs(op) : are_elements(op, results(op)));
}

/* ---- one operation ---- */

static uint32_t *allocate(size_t count)
{
    uint32_t *made = malloc((count + 1) * sizeof *made);
    if (made == NULL)
        exit(3);
    return made;
}

/* In place: the smaller buffer is this peer's part of the larger one, or the only one. */
static bool shares_buffer(const struct collective *op)
{
    bool has_two = inputs(op) > 0 && results(op) > 0;
    return op->kind == BROADCAST || (op->in_place && has_two && op->kind != ALL_TO_ALL);
}

static bool gathers(const struct collective *op) { return op->kind == GATHER || op->kind == ROOT_GATHER; }

static void make_buffers(struct collective *op)
{
    size_t own = op->rank * op->count;
    bool shared = shares_buffer(op), scatters = op->kind == SCATTER || op->kind == ROOT_SCATTER;
    op->result = shared && !gathers(op) ? NULL : allocate(results(op));
    op->input = shared && gathers(op) ? op->result + own : allocate(inputs(op));
    if (op->result == NULL)
        op->result = op->input + (scatters ? own : 0);
    fill(op, op->input, inputs(op), &op->members[op->rank]);
    for (uint32_t k = 0; is_for_each(op) && inputs(op) > 0 && k < op->world; k++) {
        const pcclPeerId_t *own_id = &op->members[op->rank];
        op->parts[k].data = op->input + part_first(op, own_id, k);
        op->parts[k].length = part_count(op, own_id, k) * sizeof *op->input;
    }
}

static void free_buffers(struct collective *op)
{
    bool shared = shares_buffer(op);
    (void)pcclFreeBlobs(&op->blobs);
    if (!shared || !gathers(op))
        free(op->input);
    if (!shared || gathers(op))
        free(op->result);
    op->input = op->result = NULL;
}

/* Returns true if the whole input is unchanged, except where the result has overwritten it. */
static bool is_intact(const struct collective *op, bool success)
{
    const pcclPeerId_t *own = &op->members[op->rank];
    bool overwritten = success && shares_buffer(op);
    if (op->kind == BROADCAST)
        return op->rank != op->root || is_filled(op, op->input, 0, op->count, own, success);
    if (overwritten && (op->kind >= ALL_REDUCE || op->kind == ROOT_SUM))
        return true;
    if (!overwritten || op->kind != SCATTER)
        return is_filled(op, op->input, 0, inputs(op), own, overwritten && op->kind == GATHER);
    for (uint32_t k = 0; k < op->world; k++)
        if (k != op->rank && !is_filled(op, op->input + k * op->count, k * op->count, op->count, own, false))
            return false;
    return true;
}

static bool count_on_members(struct collective *op, pcclComm_t *comm)
{
    size_t count;
    bool known = pcclGetMembers(comm, op->members, MEMBERS_MAX, &count, &op->rank) == pcclSuccess;
    op->world = known ? (uint32_t)count : 0;
    return known;
}

static pcclResult_t launch(struct collective *op, pcclComm_t *comm)
{
    pcclCollectiveOptions_t options = PCCL_COLLECTIVE_OPTIONS_INIT;
    options.tag = op->tag;
    options.alone_ok = op->alone_ok;
    if (op->kind != BLOBS || op->listed) {
        options.members = op->members;
        options.member_count = op->world;
    }
    if (is_of_blobs(op)) {
        options.max_bytes = op->max_bytes;
        options.on_arrival = see_arrival;
        options.user_data = op;
        op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
        op->arrived = 0;
        op->strange = false;
    }
    options.quantization.algorithm = op->quantized ? pcclQuantMinMax : pcclQuantNone; /* 8 bits */
    pcclDataType_t type = op->quantized ? pcclFloat : pcclUint32;
    switch (op->kind) {
    case BROADCAST: return pcclBroadcastAsync(op->result, op->count, type, op->root, &options, comm, &op->handle);
    case GATHER: return pcclAllGatherAsync(op->input, op->result, op->count, type, &options, comm, &op->handle);
    case SCATTER:
        return pcclReduceScatterAsync(op->input, op->result, op->count, pcclUint32, pcclSum, &options, comm,
                                      &op->handle);
    case ROOT_SUM:
        return pcclReduceAsync(op->input, op->result, op->count, type, pcclSum, op->root, &options, comm, &op->handle);
    case ROOT_GATHER:
        return pcclGatherAsync(op->input, op->result, op->count, type, op->root, &options, comm, &op->handle);
    case ROOT_SCATTER:
        return pcclScatterAsync(op->input, op->result, op->count, type, op->root, &options, comm, &op->handle);
    case ALL_TO_ALL: return pcclAllToAllAsync(op->input, op->result, op->count, type, &options, comm, &op->handle);
    case EXCLUSIVE_SCAN:
        return pcclExclusiveScanAsync(op->input, op->result, op->count, type, pcclSum, &options, comm, &op->handle);
    case INCLUSIVE_SCAN:
        return pcclInclusiveScanAsync(op->input, op->result, op->count, type, pcclSum, &options, comm, &op->handle);
    case BARRIER: return pcclBarrierAsync(&options, comm, &op->handle);
    case BLOBS:
        return pcclAllGatherVAsync(op->input, inputs(op) * sizeof *op->input, &options, comm, &op->blobs, &op->handle);
    case ROOT_BLOBS:
        return pcclGatherVAsync(op->input, inputs(op) * sizeof *op->input, op->root, &options, comm, &op->blobs,
                                &op->handle);
    case BLOBS_GIVEN: return pcclScatterVAsync(op->parts, op->world, op->root, &options, comm, &op->blobs, &op->handle);
    case BLOBS_FOR_ALL: return pcclAllToAllVAsync(op->parts, op->world, &options, comm, &op->blobs, &op->handle);
    default: {
        pcclReduceDescriptor_t descriptor = {
            .count = op->count, .tag = op->tag, .src_descriptor = {pcclUint32, pcclDistributionNone}};
        return pcclAllReduceAsync(op->input, op->result, &descriptor, comm, &op->handle);
    }
    }
}

static void note_result(struct collective *op)
{
    if (op->kind == BROADCAST || op->kind == GATHER || op->kind == ALL_REDUCE)
        op->digest = values_digest(op->result, results(op) * sizeof *op->result, 0);
}

static pcclResult_t await(struct collective *op)
{
    op->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    op->info.participants = op->participants;
    op->info.participants_max = MEMBERS_MAX;
    pcclResult_t result = pcclAwaitOperation(&op->handle, UINT32_MAX, &op->info);
    op->strange = op->strange || (result == pcclSuccess && op->arrived != op->blobs.count);
    if (result == pcclSuccess)
        note_result(op);
    return result;
}

/* ---- verbs ---- */

void do_members(struct command *command)
{
    pcclPeerId_t ids[MEMBERS_MAX];
    size_t count = 0;
    uint32_t rank = 0;
    struct line line;
    pcclResult_t result = pcclGetMembers(command->slot->comm, ids, MEMBERS_MAX, &count, &rank);
    answer(command, &line, result);
    add(&line, ",\"rank\":%u,\"members\":[", rank);
    for (size_t i = 0; i < count && result == pcclSuccess; i++)
        add(&line, "%s\"%s\"", i > 0 ? "," : "", ids[i].digits);
    add(&line, "]");
    end_line(&line);
}

static uint32_t read_ids(const char *list, pcclPeerId_t *ids)
{
    uint32_t count = 0;
    for (; list != NULL && count < MEMBERS_MAX && strlen(list) >= PCCL_PEER_ID_SIZE - 1; count++) {
        memcpy(ids[count].digits, list, PCCL_PEER_ID_SIZE - 1);
        ids[count].digits[PCCL_PEER_ID_SIZE - 1] = 0;
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return count;
}

void do_group(struct command *command)
{
    pcclPeerId_t ids[MEMBERS_MAX];
    struct slot *target = slot_of(number(command, 0));
    pcclGroupOptions_t options = PCCL_GROUP_OPTIONS_INIT;
    uint32_t count = read_ids(word(command, 1), ids);
    if (option(command, "timeout") != NULL)
        options.timeout_ms = (uint32_t)strtoul(option(command, "timeout"), NULL, 10);
    options.label = option(command, "label");
    begin(command);
    answer_only(command, pcclCreateGroup(command->slot->comm, ids, count, &options, &target->comm));
}

/* Takes the members from the option, if there is one. */
static void count_on_given(struct collective *op, const char *list)
{
    pcclPeerId_t own = op->members[op->rank];
    for (op->world = 0; list != NULL && op->world < MEMBERS_MAX && strlen(list) >= PCCL_PEER_ID_SIZE - 1; op->world++) {
        memcpy(op->members[op->world].digits, list, PCCL_PEER_ID_SIZE - 1);
        op->members[op->world].digits[PCCL_PEER_ID_SIZE - 1] = 0;
        if (strcmp(op->members[op->world].digits, own.digits) == 0)
            op->rank = op->world;
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
}

static enum kind kind_of(const struct command *command, const char *name)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (strcmp(kinds[kind].name, name) == 0)
            return (enum kind)kind;
    bad_command(command, "no such collective");
}

void do_collect(struct command *command)
{
    const char *root = option(command, "root"), *list = option(command, "members"), *max = option(command, "max");
    struct collective op = {.kind = kind_of(command, word(command, 0)),
                            .tag = number(command, 1),
                            .count = number(command, 2),
                            .root = root != NULL ? (uint32_t)strtoul(root, NULL, 10) : 0,
                            .in_place = option(command, "inplace") != NULL,
                            .alone_ok = option(command, "alone") != NULL,
                            .listed = list != NULL,
                            .max_bytes = max != NULL ? strtoull(max, NULL, 10) : 0,
                            .quantized = option(command, "quantized") != NULL};
    op.salt = op.tag;
    if (!count_on_members(&op, command->slot->comm))
        op.world = 1; /* unconnected: the launch reports it */
    if (list != NULL)
        count_on_given(&op, list);
    make_buffers(&op);
    if (option(command, "wrong") != NULL && inputs(&op) > 0)
        op.input[op.count - 1]++;
    if (option(command, "launched") == NULL)
        begin(command);
    pcclResult_t result = launch(&op, command->slot->comm);
    if (option(command, "launched") != NULL)
        begin(command);
    if (result == pcclSuccess)
        result = await(&op);
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"intact\":%s", is_intact(&op, result == pcclSuccess) ? "true" : "false");
    if (result == pcclSuccess)
        add(&line, ",\"right\":%s,\"peers\":%u,\"rank\":%u,\"sequence\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"",
            is_right(&op) ? "true" : "false", op.info.world, op.info.rank, op.info.sequence, op.digest);
    end_line(&line);
    free_buffers(&op);
}

/* ---- lists ---- */

static void prepare(struct collective *op, uint64_t index, uint64_t draw, uint64_t count_max)
{
    uint32_t sizes = mix(draw + (UINT64_C(1) << 40));
    memset(op, 0, sizeof *op);
    op->kind = (enum kind)(mix(draw) % KINDS);
    op->tag = FIRST_TAG + index;
    op->salt = draw;
    op->count = 1 + sizes % (sizes & 1 << 20 ? count_max : 200); /* many small ones pass through the master */
    op->drawn = mix(draw + 7);
    op->quantized = op->kind <= LAST_QUANTIZED && (mix(draw + 9) & 1) != 0;
}

/* Makes an operation expect the current members. */
static void arrange(struct collective *op, const struct collective *now)
{
    memcpy(op->members, now->members, sizeof op->members);
    op->world = now->world;
    op->rank = now->rank;
    op->root = op->drawn % now->world;
    op->in_place = (mix(op->salt + now->rank) & 1) != 0; /* differs between peers */
    make_buffers(op);
}

struct list {
    struct collective ops[OPS_MAX];
    pcclOperation_t entries[OPS_MAX];
    pcclCollectiveOptions_t options[OPS_MAX];
    uint64_t count, rebuilt;
    bool fails, intact;
};

static void enter(struct list *list, uint64_t index)
{
    struct collective *op = &list->ops[index];
    pcclOperation_t *entry = &list->entries[index];
    list->options[index] = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    list->options[index].tag = op->tag;
    list->options[index].quantization.algorithm = op->quantized ? pcclQuantMinMax : pcclQuantNone;
    op->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    op->info.participants = op->participants;
    op->info.participants_max = MEMBERS_MAX;
    *entry = (pcclOperation_t)PCCL_OPERATION_INIT;
    entry->collective = kinds[op->kind].collective;
    entry->sendbuf = op->kind == BROADCAST ? NULL : op->input;
    entry->recvbuf = op->result;
    entry->count = op->count;
    entry->datatype = op->quantized ? pcclFloat : pcclUint32;
    entry->root = op->root;
    entry->options = &list->options[index];
    entry->info = &op->info;
    if (!is_of_blobs(op))
        return;
    list->options[index].max_bytes = op->max_bytes;
    op->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    entry->recvbuf = NULL;
    entry->count = is_for_each(op) ? op->world : inputs(op) * sizeof *op->input;
    if (is_for_each(op))
        entry->sendbuf = op->parts;
    entry->blobs = &op->blobs;
}

static bool rebuild_list(const pcclRebuild_t *rebuild, void *user_data)
{
    struct list *list = user_data;
    struct collective now = {.world = rebuild->member_count, .rank = rebuild->rank};
    memcpy(now.members, rebuild->members, now.world * sizeof *now.members);
    list->rebuilt++;
    for (size_t i = 0; i < rebuild->entry_count && !list->fails; i++) {
        struct collective *op = &list->ops[rebuild->entries[i]];
        list->intact = is_intact(op, false) && list->intact;
        free_buffers(op);
        arrange(op, &now);
        enter(list, rebuild->entries[i]);
    }
    return !list->fails;
}

/* Runs a list. max_in_flight 0: a value that differs between peers. */
static pcclResult_t run_list(struct list *list, pcclComm_t *comm, uint32_t max_in_flight, bool rebuilds)
{
    struct collective now = {0};
    pcclRunOptions_t options = PCCL_RUN_OPTIONS_INIT;
    if (!count_on_members(&now, comm))
        now.world = 1; /* unconnected: the call reports it */
    for (uint64_t i = 0; i < list->count; i++) {
        arrange(&list->ops[i], &now);
        enter(list, i);
    }
    options.max_in_flight = max_in_flight != 0 ? max_in_flight : 1 + mix(list->ops[0].salt + now.rank) % OPS_MAX;
    options.rebuild = rebuilds ? rebuild_list : NULL;
    options.user_data = list;
    return pcclRunOperations(list->entries, list->count, &options, comm);
}

/* Returns true if all successful operations are right and the inputs of all others are unchanged. */
static bool end_list(struct list *list)
{
    bool right = true;
    for (uint64_t i = 0; i < list->count; i++) {
        struct collective *op = &list->ops[i];
        op->done = op->info.world > 0;
        list->intact = is_intact(op, op->done) && list->intact;
        right = (!op->done || is_right(op)) && right;
        if (op->done)
            note_result(op);
        free_buffers(op);
    }
    return right;
}

static void add_operations(struct line *line, const struct collective *ops, uint64_t count)
{
    add(line, ",\"ops\":[");
    for (uint64_t i = 0; i < count; i++)
        add(line, "%s[\"%s\",%u,\"%016" PRIx64 "\"]", i > 0 ? "," : "", kinds[ops[i].kind].name, ops[i].info.world,
            values_digest(ops[i].participants, ops[i].info.world * sizeof *ops[i].participants, ops[i].digest));
    add(line, "]");
}

void do_run(struct command *command)
{
    struct list *list = calloc(1, sizeof *list);
    const char *rebuilds = option(command, "rebuild");
    uint64_t seed = number(command, 0), count_max = number(command, 2);
    if (list == NULL)
        exit(3);
    list->count = number(command, 1);
    if (list->count < 1 || list->count > OPS_MAX)
        bad_command(command, "out of range");
    list->intact = true;
    list->fails = rebuilds != NULL && strcmp(rebuilds, "fails") == 0;
    for (uint64_t i = 0; i < list->count; i++) {
        prepare(&list->ops[i], i, seed * OPS_MAX + i, count_max);
        list->ops[i].kind = (enum kind)((seed + i) % KINDS); /* all kinds in turn */
        list->ops[i].quantized = list->ops[i].kind <= LAST_QUANTIZED && (i & 1) != 0;
    }
    begin(command);
    pcclResult_t result = run_list(list, command->slot->comm, (uint32_t)number(command, 3), rebuilds != NULL);
    bool right = end_list(list);
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"intact\":%s,\"right\":%s,\"rebuilt\":%" PRIu64, list->intact ? "true" : "false",
        right ? "true" : "false", list->rebuilt);
    add_operations(&line, list->ops, list->count);
    end_line(&line);
    free(list);
}

/* ---- many of them, while peers come and go ---- */

struct mixed {
    struct loop loop; /* must be the first member */
    uint64_t seed, ops_max, count_max, count;
    struct collective ops[OPS_MAX];
    struct list list;
};

/*
 * Launches the missing operations. The member list is the one of the last call that returned, equal for all
 * participants; otherwise the launch fails.
 */
static pcclResult_t launch_missing(struct mixed *mixed)
{
    pcclResult_t result = pcclSuccess;
    struct collective now = {0};
    if (!count_on_members(&now, mixed->loop.comm))
        return pcclInvalidUsage;
    for (uint64_t i = 0; i < mixed->count && result == pcclSuccess; i++) {
        struct collective *op = &mixed->ops[i];
        if (op->done)
            continue;
        arrange(op, &now);
        result = launch(op, mixed->loop.comm);
        op->in_flight = result == pcclSuccess;
        if (!op->in_flight)
            free_buffers(op);
    }
    return result;
}

/* Returns success, or a failure that a retry does not fix. */
static pcclResult_t await_launched(struct mixed *mixed, bool *right)
{
    pcclResult_t result = pcclSuccess;
    uint64_t failed = 0, changed = 0, at_us = 0;
    bool intact = true;
    for (uint64_t i = 0; i < mixed->count; i++) {
        struct collective *op = &mixed->ops[i];
        if (!op->in_flight)
            continue;
        pcclResult_t awaited = await(op);
        op->in_flight = false;
        op->done = awaited == pcclSuccess;
        intact = is_intact(op, op->done) && intact;
        if (op->done)
            *right = is_right(op) && *right;
        free_buffers(op);
        if (op->done)
            continue;
        if (failed++ == 0)
            at_us = now_us();
        changed += awaited == pcclMembersChanged;
        if (awaited != pcclRankConnectionLost && awaited != pcclMembersChanged)
            result = awaited;
    }
    if (failed > 0) {
        struct line line;
        begin_line(&line);
        add(&line,
            "{\"id\":%s,\"event\":\"failed\",\"step\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"changed\":%" PRIu64
            ",\"intact\":%s,\"at\":%" PRIu64,
            mixed->loop.command->id, mixed->loop.step, failed, changed, intact ? "true" : "false", at_us);
        add_text(&line, "words", pcclGetLastError(mixed->loop.comm));
        end_line(&line);
    }
    *right = *right && intact;
    return result;
}

static void report_step(const struct mixed *mixed, const struct collective *ops, bool right)
{
    struct line line;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"step\",\"step\":%" PRIu64 ",\"at\":%" PRIu64 ",\"right\":%s",
        mixed->loop.command->id, mixed->loop.step, now_us(), right ? "true" : "false");
    add_operations(&line, ops, mixed->count);
    end_line(&line);
}

static bool all_done(const struct mixed *mixed)
{
    for (uint64_t i = 0; i < mixed->count; i++)
        if (!mixed->ops[i].done)
            return false;
    return true;
}

/* Makes a step by one call, which retries broken operations. */
static pcclResult_t make_listed_step(struct mixed *mixed)
{
    struct list *list = &mixed->list;
    list->count = mixed->count;
    list->intact = true;
    memcpy(list->ops, mixed->ops, sizeof list->ops);
    pcclResult_t result = run_list(list, mixed->loop.comm, 0, true);
    bool right = end_list(list);
    if (result == pcclSuccess)
        report_step(mixed, list->ops, right && list->intact);
    return result;
}

static pcclResult_t make_step(struct loop *loop)
{
    struct mixed *mixed = (struct mixed *)loop;
    pcclResult_t result = pcclSuccess;
    bool right = true;
    mixed->count = 1 + mix(mixed->seed + loop->step) % mixed->ops_max;
    for (uint64_t i = 0; i < mixed->count; i++)
        prepare(&mixed->ops[i], i, mixed->seed * 1000003 + loop->step * OPS_MAX + i, mixed->count_max);
    if (option(loop->command, "listed") != NULL)
        return make_listed_step(mixed);
    while (result == pcclSuccess && !all_done(mixed)) {
        pcclResult_t launched = launch_missing(mixed);
        result = await_launched(mixed, &right);
        if (launched != pcclSuccess)
            result = launched;
    }
    if (result == pcclSuccess)
        report_step(mixed, mixed->ops, right);
    return result;
}

void do_mixed(struct command *command)
{
    struct mixed *mixed = calloc(1, sizeof *mixed);
    if (mixed == NULL)
        exit(3);
    mixed->loop = (struct loop){
        .command = command, .comm = command->slot->comm, .joined = true, .fresh = true, .make = make_step};
    mixed->seed = number(command, 0);
    mixed->ops_max = number(command, 1);
    mixed->count_max = number(command, 2);
    if (mixed->ops_max < 1 || mixed->ops_max > OPS_MAX)
        bad_command(command, "out of range");
    run_loop(&mixed->loop);
    free(mixed);
}
