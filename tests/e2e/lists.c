/*
 * A verb that sets the members of a pcclOperation_t that its kind does not use:
 *
 *   unused VALUE ELEMENTS    a list with an entry of each kind that has such members, which hold VALUE. Each
 *                            blob and tensor has ELEMENTS elements of 4 bytes. {"right":...,"done":ENTRIES}
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBERS_MAX = 16, FIRST_TAG = 3000 };

static const pcclCollective_t kinds[] = {
    pcclCollectiveCoalesced,     pcclCollectiveBroadcast, pcclCollectiveBarrier,   pcclCollectiveAllGatherV,
    pcclCollectiveGatherV,       pcclCollectiveScatterV,  pcclCollectiveAllToAllV, pcclCollectiveAllGather,
    pcclCollectiveAllReduce,     pcclCollectiveAllToAll,  pcclCollectiveGather,    pcclCollectiveScatter,
    pcclCollectiveInclusiveScan,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct entry {
    pcclOperation_t *given;
    pcclCollectiveOptions_t options;
    pcclOperationInfo_t info;
    pcclBlobs_t blobs;
    pcclCoalescedTensor_t tensors[2];
    pcclPart_t parts[MEMBERS_MAX];
    uint32_t *input, *result;
};

struct members {
    uint32_t world, rank;
};

static bool is_one_of(pcclCollective_t kind, const pcclCollective_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == kind)
            return true;
    return false;
}

static bool has_blobs(pcclCollective_t kind)
{
    static const pcclCollective_t list[] = {pcclCollectiveAllGatherV, pcclCollectiveGatherV, pcclCollectiveScatterV,
                                            pcclCollectiveAllToAllV};
    return is_one_of(kind, list, sizeof list / sizeof *list);
}

static bool has_root(pcclCollective_t kind)
{
    static const pcclCollective_t list[] = {pcclCollectiveBroadcast, pcclCollectiveGather, pcclCollectiveScatter,
                                            pcclCollectiveGatherV, pcclCollectiveScatterV};
    return is_one_of(kind, list, sizeof list / sizeof *list);
}

/* Makes elements that all have this value, a peer's rank plus one. */
static uint32_t *filled(size_t count, uint32_t value)
{
    uint32_t *made = malloc(count * sizeof *made);
    if (made == NULL)
        exit(3);
    for (size_t i = 0; i < count; i++)
        made[i] = value;
    return made;
}

static bool are_all(const uint32_t *elements, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++)
        if (elements[i] != value)
            return false;
    return true;
}

static void arrange_blobs(struct entry *entry, const struct members *members, size_t elements, unsigned value)
{
    pcclOperation_t *given = entry->given;
    const bool in_parts = given->collective == pcclCollectiveScatterV || given->collective == pcclCollectiveAllToAllV;
    given->recvbuf = NULL;
    given->blobs = &entry->blobs;
    entry->blobs = (pcclBlobs_t)PCCL_BLOBS_INIT;
    given->count = elements * sizeof *entry->input;
    if (!in_parts)
        return;
    for (uint32_t i = 0; i < members->world; i++)
        entry->parts[i] = (pcclPart_t){entry->input, elements * sizeof *entry->input};
    given->sendbuf = entry->parts;
    given->count = members->world;
    if (given->collective == pcclCollectiveScatterV && members->rank != 0 && value != 0) {
        given->sendbuf = (const void *)(uintptr_t)value; /* used only at the root */
        given->count = SIZE_MAX - value;
    }
}

static void arrange(struct entry *entry, size_t index, const struct members *members, size_t elements, unsigned value)
{
    pcclOperation_t *given = entry->given;
    const pcclCollective_t kind = kinds[index];
    entry->input = filled(members->world * elements, members->rank + 1);
    entry->result = filled(members->world * elements, kind == pcclCollectiveBroadcast ? members->rank + 1 : 0);
    entry->info = (pcclOperationInfo_t)PCCL_OPERATION_INFO_INIT;
    entry->options = (pcclCollectiveOptions_t)PCCL_COLLECTIVE_OPTIONS_INIT;
    entry->options.tag = FIRST_TAG + index;
    entry->options.quantization.quantized_datatype = (pcclDataType_t)value;
    entry->options.member_count = value;
    entry->options.counts_length = value;
    entry->options.user_data = (void *)(uintptr_t)value;
    *given = (pcclOperation_t)PCCL_OPERATION_INIT;
    given->collective = kind;
    given->sendbuf = kind == pcclCollectiveBroadcast ? NULL : entry->input;
    given->recvbuf = entry->result;
    given->count = elements;
    given->datatype = pcclUint32;
    const bool sums = kind == pcclCollectiveAllReduce || kind == pcclCollectiveInclusiveScan;
    given->op = sums ? pcclSum : (pcclRedOp_t)value;
    given->root = has_root(kind) ? 0 : value;
    given->options = &entry->options;
    given->info = &entry->info;
    if (has_blobs(kind) || kind == pcclCollectiveCoalesced || kind == pcclCollectiveBarrier)
        given->datatype = (pcclDataType_t)value;
    if (kind == pcclCollectiveBarrier) {
        given->sendbuf = given->recvbuf = NULL;
        given->count = value;
    }
    if (has_blobs(kind))
        arrange_blobs(entry, members, elements, value);
    if (kind != pcclCollectiveCoalesced)
        return;
    entry->tensors[0] = (pcclCoalescedTensor_t){entry->input, entry->result, elements - 1, pcclUint32, pcclSum};
    entry->tensors[1] =
        (pcclCoalescedTensor_t){entry->input + elements - 1, entry->result + elements - 1, 1, pcclUint32, pcclMax};
    given->sendbuf = entry->tensors;
    given->recvbuf = NULL;
    given->count = 2;
}

static bool are_right_blobs(const struct entry *entry, const struct members *members, size_t elements)
{
    const pcclCollective_t kind = entry->given->collective;
    const size_t count = kind == pcclCollectiveScatterV                        ? 1
                         : kind == pcclCollectiveGatherV && members->rank != 0 ? 0
                                                                               : members->world;
    if (entry->blobs.count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const pcclBlob_t *blob = &entry->blobs.blobs[i];
        if (blob->length != elements * sizeof(uint32_t) || !are_all(blob->data, elements, (uint32_t)i + 1))
            return false;
    }
    return true;
}

static bool is_right(const struct entry *entry, const struct members *members, size_t elements)
{
    const uint32_t world = members->world, sum = world * (world + 1) / 2;
    bool right = true;
    switch (entry->given->collective) {
    case pcclCollectiveCoalesced:
        return are_all(entry->result, elements - 1, sum) && entry->result[elements - 1] == world;
    case pcclCollectiveAllReduce: return are_all(entry->result, elements, sum);
    case pcclCollectiveInclusiveScan:
        return are_all(entry->result, elements, (members->rank + 1) * (members->rank + 2) / 2);
    case pcclCollectiveBroadcast:
    case pcclCollectiveScatter: return are_all(entry->result, elements, 1);
    case pcclCollectiveBarrier: return true;
    case pcclCollectiveAllGather:
    case pcclCollectiveAllToAll:
    case pcclCollectiveGather:
        for (uint32_t i = 0; i < world && (entry->given->collective != pcclCollectiveGather || members->rank == 0); i++)
            right = right && are_all(entry->result + i * elements, elements, i + 1);
        return right;
    default: return are_right_blobs(entry, members, elements);
    }
}

void do_unused(struct command *command)
{
    pcclPeerId_t ids[MEMBERS_MAX];
    pcclOperation_t list[KINDS];
    struct entry entries[KINDS];
    struct members members = {1, 0};
    size_t world = 1, elements = number(command, 1);
    unsigned value = (unsigned)number(command, 0);
    uint32_t done = 0;
    bool right = true;
    if (pcclGetMembers(command->slot->comm, ids, MEMBERS_MAX, &world, &members.rank) == pcclSuccess)
        members.world = (uint32_t)world;
    for (size_t i = 0; i < KINDS; i++) {
        entries[i] = (struct entry){.given = &list[i]};
        arrange(&entries[i], i, &members, elements, value);
    }
    begin(command);
    pcclResult_t result = pcclRunOperations(list, KINDS, NULL, command->slot->comm);
    for (size_t i = 0; i < KINDS; i++) {
        const bool succeeded = entries[i].info.world > 0;
        done += succeeded;
        right = right && (!succeeded || is_right(&entries[i], &members, elements));
        (void)pcclFreeBlobs(&entries[i].blobs);
        free(entries[i].input);
        free(entries[i].result);
    }
    struct line line;
    answer(command, &line, result);
    add(&line, ",\"right\":%s,\"done\":%u", right ? "true" : "false", done);
    end_line(&line);
}
