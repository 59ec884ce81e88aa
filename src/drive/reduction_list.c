/* The list of reductions with retries: PROTOCOL 8. */
#include "drive/api.h"
#include "drive/reduction.h"
#include "kernels/reduce.h"
#include "net/heap.h"

#include <string.h>

struct entry {
    struct pccl_node by_tag;
    struct pccl_comm_op *reduction; /* NULL: not in flight */
};

struct list {
    struct pcclComm_t *comm;
    const pcclReduceOpDescriptor_t *descriptors;
    size_t count;
    struct entry *entries;
    struct pccl_table by_tag;
    size_t next; /* the first that was never launched */
    uint32_t in_flight, max_in_flight;
    struct pccl_waiter waiter;
    enum pccl_status status; /* why no more is launched; OK: go on */
    struct pccl_text words;
    pcclReduceInfo_t sum;
};

static void stop(struct list *list, enum pccl_status status, const struct pccl_text *words)
{
    if (list->status != PCCL_OK)
        return;
    list->status = status;
    list->words = *words;
}

/* false: not now, too much is remembered of operations that are over; one of ours in flight will make room. */
static bool launch(struct list *list, size_t index)
{
    const pcclReduceOpDescriptor_t *op = &list->descriptors[index];
    struct pccl_text words;
    struct entry *entry = &list->entries[index];
    enum pccl_status status = pccl_reduction_launch(list->comm, op->sendbuf, op->recvbuf, &op->descriptor,
                                                    &list->waiter, &entry->reduction, &words);
    if (status == PCCL_OK) {
        list->in_flight++;
        entry->reduction->awaited = true;
        if (!entry->reduction->decided)
            pccl_comm_op_awaited(list->comm, entry->reduction->op);
        return true;
    }
    entry->reduction = NULL;
    if (status == PCCL_LIMIT && list->in_flight > 0)
        return false;
    /* Thrown out of the run between two launches: the same as if it had happened during one. */
    if (status == PCCL_USAGE && !pccl_api_connected(list->comm))
        status = PCCL_PEER_LOST;
    stop(list, status, &words);
    return true;
}

/* Entries that are to be launched again come before all that never were: the lowest unfinished are in flight. */
static void launch_more(struct list *list, size_t *again, size_t *again_count)
{
    while (list->status == PCCL_OK && *again_count > 0) {
        if (!launch(list, again[*again_count - 1]))
            return;
        --*again_count;
    }
    while (list->status == PCCL_OK && list->in_flight < list->max_in_flight && list->next < list->count) {
        if (!launch(list, list->next))
            return;
        list->next++;
    }
}

/* true: it is to be launched again. */
static bool finish(struct list *list, struct pccl_comm_op *reduction, size_t *index)
{
    pcclReduceInfo_t info;
    struct pccl_text words;
    struct pccl_node *node = pccl_table_find(&list->by_tag, reduction->by_tag.key);
    struct entry *entry = PCCL_CONTAINER_OF(node, struct entry, by_tag);
    *index = (size_t)(entry - list->entries);
    enum pccl_status status = pccl_reduction_end(list->comm, reduction, &info, &words);
    entry->reduction = NULL;
    list->in_flight--;
    if (status == PCCL_OK) {
        list->sum.tx_bytes += info.tx_bytes;
        list->sum.rx_bytes += info.rx_bytes;
        return false;
    }
    if (status == PCCL_PEER_LOST && pccl_api_connected(list->comm))
        return true;
    stop(list, status, &words);
    return false;
}

/* Launches and waits until everything has succeeded, or until nothing is in flight after a failure that no retry mends.
 */
static void run(struct list *list, size_t *again)
{
    size_t again_count = 0;
    for (;;) {
        launch_more(list, again, &again_count);
        if (list->in_flight == 0)
            return;
        if (!list->waiter.decided)
            pccl_comm_wait(list->comm, &list->waiter);
        while (list->waiter.decided) {
            struct pccl_comm_op *decided = list->waiter.decided;
            list->waiter.decided = decided->next_decided;
            if (finish(list, decided, &again[again_count]))
                again_count++;
        }
        list->waiter.fired = false;
    }
}

static enum pccl_status check_entries(struct list *list, struct pccl_text *words)
{
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceOpDescriptor_t *op = &list->descriptors[i];
        struct pccl_text reason;
        enum pccl_status status = pccl_reduction_check(op->sendbuf, op->recvbuf, &op->descriptor, &reason);
        if (status == PCCL_OK && pccl_table_find(&list->by_tag, op->descriptor.tag)) {
            pccl_text_format(&reason, "the tag %u is used twice", op->descriptor.tag);
            status = PCCL_ARGUMENT;
        }
        if (status != PCCL_OK) {
            pccl_text_format(words, "entry %u: %t", (uint64_t)i, &reason);
            return status;
        }
        pccl_table_insert(&list->by_tag, &list->entries[i].by_tag, op->descriptor.tag);
    }
    return PCCL_OK;
}

/* What would be refused later, one by one: nothing has been launched yet. Under the lock. */
static enum pccl_status check_state(const struct list *list, struct pccl_text *words)
{
    const struct pcclComm_t *comm = list->comm;
    if (!pccl_api_connected(comm))
        return pccl_api_unconnected(comm, words);
    uint32_t most = pccl_peer_tiny_bytes_max(comm->peer);
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceDescriptor_t *descriptor = &list->descriptors[i].descriptor;
        size_t bytes = descriptor->count * pccl_datatype_bytes((enum pccl_datatype)descriptor->src_descriptor.datatype);
        if (pccl_reduction_find(comm, descriptor->tag)) {
            pccl_text_format(words, "entry %u: the tag %u is in use: launched and not yet awaited", (uint64_t)i,
                             descriptor->tag);
            return PCCL_ARGUMENT;
        }
        if (bytes > most) {
            pccl_text_format(words, "entry %u: a payload of %u bytes: this version carries at most %u", (uint64_t)i,
                             (uint64_t)bytes, (uint64_t)most);
            return PCCL_ARGUMENT;
        }
    }
    return PCCL_OK;
}

enum pccl_status pccl_reduction_list(struct pcclComm_t *comm, const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                     uint32_t max_in_flight, pcclReduceInfo_t *info, struct pccl_text *words)
{
    struct list list = {.comm = comm, .descriptors = descriptors, .count = count, .max_in_flight = max_in_flight};
    enum pccl_status status = PCCL_MEMORY;
    size_t *again = NULL;
    pccl_text_format(words, "out of memory for a list of %u reductions", (uint64_t)count);
    if (count > UINT32_MAX)
        return status;
    pccl_table_init(&list.by_tag, pccl_heap());
    list.entries = pccl_allocate(pccl_heap(), count * sizeof *list.entries);
    again = pccl_allocate(pccl_heap(), count * sizeof *again);
    if (!list.entries || !again)
        goto out;
    status = check_entries(&list, words);
    if (status != PCCL_OK)
        goto out;
    pccl_comm_enter(comm);
    status = check_state(&list, words);
    if (status == PCCL_OK) {
        run(&list, again);
        status = list.status;
        *words = list.words;
        list.sum.local_world_size = comm->peer ? pccl_peer_attributes(comm->peer).group_world : 0;
        *info = list.sum;
    }
    pccl_comm_leave(comm);
out:
    pccl_table_fini(&list.by_tag);
    pccl_release(pccl_heap(), list.entries, count * sizeof *list.entries);
    pccl_release(pccl_heap(), again, count * sizeof *again);
    return status;
}
