/* The list of reductions with retries: PROTOCOL 8. */
#include "api/api.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"
#include "drive/comm_op.h"
#include "net/heap.h"
#include "peer/queries.h"

#include <string.h>

struct entry {
    struct pccl_table_node by_tag;
    struct pccl_comm_op *operation; /* NULL: not in flight */
};

struct list {
    pcclComm_t *handle;
    struct pccl_communicator *comm; /* its own */
    const pcclReduceOpDescriptor_t *descriptors;
    size_t count;
    struct entry *entries;
    struct pccl_table by_tag;
    size_t next; /* the first that was never launched */
    uint32_t in_flight, max_in_flight;
    struct pccl_waiter *waiter;
    enum pccl_status status; /* why no more is launched; OK: go on */
    struct pccl_why why;
    pcclReduceInfo_t sum;
    /* of the communicator, when the list began: */
    uint32_t aborts;
    struct pccl_id id;
    struct pccl_epoch known; /* of its attributes */
};

/*
 * What is in flight is given up, for other peers may have stopped before they launched it. Some of what we see is given
 * up because of that, so it is no reason if there is a better one.
 */
static void stop(struct list *list, enum pccl_status status, const struct pccl_why *why)
{
    bool first = list->status == PCCL_OK;
    struct pccl_text given_up;
    if (!first && list->status != PCCL_ABORTED)
        return;
    list->status = status;
    list->why = *why;
    if (!first)
        return;
    pccl_text_format(&given_up, "its list of reductions has failed: %s", why->reason.bytes);
    for (size_t i = 0; i < list->count; i++) {
        const struct pccl_comm_op *operation = list->entries[i].operation;
        if (operation)
            pccl_comm_op_abort(list->comm, operation, &given_up);
    }
}

static bool is_aborted(const struct list *list) { return list->handle->aborts != list->aborts; }

/* false: not now, too much is remembered of operations that are over; one of ours in flight will make room. */
static bool launch(struct list *list, size_t index)
{
    const pcclReduceOpDescriptor_t *op = &list->descriptors[index];
    struct pccl_why why = {0};
    struct pccl_request request;
    struct entry *entry = &list->entries[index];
    enum pccl_status status =
        pccl_api_request_reduction(op->sendbuf, op->recvbuf, &op->descriptor, &request, &why.reason);
    if (status == PCCL_OK)
        status = pccl_comm_op_launch(list->handle, &request, list->waiter, &entry->operation, &why);
    if (status == PCCL_OK) {
        list->in_flight++;
        pccl_comm_op_announce_wait(list->comm, entry->operation);
        if (is_aborted(list))
            pccl_comm_op_abort(list->comm, entry->operation, NULL);
        return true;
    }
    entry->operation = NULL;
    if (status == PCCL_LIMIT && list->in_flight > 0)
        return false;
    /* Thrown out of the run between two launches: the same as if it had happened during one. */
    if (status == PCCL_USAGE && !pccl_comm_is_connected(list->comm))
        status = PCCL_PEER_LOST;
    stop(list, status, &why);
    return true;
}

/*
 * A list that was aborted launches nothing more, unless all that was in flight has succeeded all the same: then one
 * entry, which is aborted at once, so that the other peers hear of it instead of going on alone.
 */
static bool may_launch(const struct list *list)
{
    return list->status == PCCL_OK && (list->in_flight == 0 || !is_aborted(list));
}

/* Entries that are to be launched again come before all that never were: the lowest unfinished are in flight. */
static void launch_more(struct list *list, size_t *again, size_t *again_count)
{
    while (may_launch(list) && *again_count > 0) {
        if (!launch(list, again[*again_count - 1]))
            return;
        --*again_count;
    }
    while (may_launch(list) && list->in_flight < list->max_in_flight && list->next < list->count) {
        if (!launch(list, list->next))
            return;
        list->next++;
    }
}

/* As decided, so that all who are told have the same number; 0 is none yet. */
static uint32_t least(uint32_t before, uint32_t world) { return before == 0 || world < before ? world : before; }

/* true: it is to be launched again. */
static bool finish(struct list *list, struct pccl_comm_op *operation, size_t *index)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    struct pccl_why why;
    struct pccl_table_node *node = pccl_table_find(&list->by_tag, operation->why.details.tag);
    struct entry *entry = PCCL_CONTAINER_OF(node, struct entry, by_tag);
    *index = (size_t)(entry - list->entries);
    enum pccl_status status = pccl_comm_op_end(list->comm, operation, &info, &why);
    entry->operation = NULL;
    list->in_flight--;
    if (status == PCCL_OK) {
        list->sum.tx_bytes += info.tx_bytes;
        list->sum.rx_bytes += info.rx_bytes;
        list->sum.local_world_size = least(list->sum.local_world_size, info.world);
        return false;
    }
    if (status == PCCL_PEER_LOST && pccl_comm_is_connected(list->comm))
        return true;
    stop(list, status, &why);
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
        if (!list->waiter->over)
            pccl_comm_wait(list->comm, list->waiter);
        while (list->waiter->over) {
            struct pccl_comm_op *over = list->waiter->over;
            list->waiter->over = over->next_over;
            if (finish(list, over, &again[again_count]))
                again_count++;
        }
        list->waiter->fired = false;
    }
}

static enum pccl_status check_entries(struct list *list, struct pccl_text *message)
{
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceOpDescriptor_t *op = &list->descriptors[i];
        struct pccl_text reason;
        struct pccl_request request;
        enum pccl_status status =
            pccl_api_request_reduction(op->sendbuf, op->recvbuf, &op->descriptor, &request, &reason);
        if (status == PCCL_OK && pccl_table_find(&list->by_tag, op->descriptor.tag)) {
            pccl_text_format(&reason, "the tag %" PRIu64 " is used twice", op->descriptor.tag);
            status = PCCL_ARGUMENT;
        }
        if (status != PCCL_OK) {
            pccl_text_format(message, "entry %zu: %s", i, reason.bytes);
            return status;
        }
        pccl_table_insert(&list->by_tag, &list->entries[i].by_tag, op->descriptor.tag);
    }
    return PCCL_OK;
}

/* What would be refused later, one by one: nothing has been launched yet. Under the lock. */
static enum pccl_status check_state(const struct list *list, struct pccl_text *reason)
{
    if (!pccl_comm_is_connected(list->comm))
        return pccl_comm_why_unconnected(list->comm, reason);
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceDescriptor_t *descriptor = &list->descriptors[i].descriptor;
        if (pccl_comm_op_find(list->handle, descriptor->tag)) {
            pccl_text_format(reason, "entry %zu: the tag %" PRIu64 " is in use: launched and not yet awaited", i,
                             descriptor->tag);
            return PCCL_ARGUMENT;
        }
    }
    return PCCL_OK;
}

static void remember_begin(struct list *list)
{
    list->aborts = list->handle->aborts;
    list->id = list->comm->id;
    list->known = pccl_peer_attributes(list->comm->peer).epoch;
}

/* For the caller the list is one operation: who was lost to an entry that was repeated is lost to it. */
static void explain(const struct list *list, struct pccl_why *why)
{
    *why = list->why;
    const struct pccl_peer *machine = list->comm->peer;
    if (machine && pccl_id_equal(&list->comm->id, &list->id)) /* else another thread has connected anew */
        pccl_peer_departed(machine, &list->known, NULL, &why->details.departed);
}

static uint32_t world_now(const pcclComm_t *handle)
{
    if (handle->group)
        return handle->group->count;
    return handle->comm->peer ? pccl_peer_attributes(handle->comm->peer).group_world : 0;
}

enum pccl_status pccl_api_reduce_list(pcclComm_t *handle, const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                      uint32_t max_in_flight, pcclReduceInfo_t *info, struct pccl_why *why)
{
    struct pccl_communicator *comm = handle->comm;
    struct list list = {.handle = handle,
                        .comm = comm,
                        .descriptors = descriptors,
                        .count = count,
                        .waiter = pccl_caller_waiter(),
                        .max_in_flight = max_in_flight};
    enum pccl_status status = PCCL_MEMORY;
    size_t *again = NULL;
    pccl_text_format(&why->reason, "out of memory for a list of %zu reductions", count);
    if (count > UINT32_MAX)
        return status;
    pccl_table_init(&list.by_tag, pccl_heap(), &comm->hash);
    list.entries = pccl_allocate(pccl_heap(), count * sizeof *list.entries);
    again = pccl_allocate(pccl_heap(), count * sizeof *again);
    if (!list.entries || !again)
        goto out;
    status = check_entries(&list, &why->reason);
    if (status != PCCL_OK)
        goto out;
    pccl_comm_enter(comm);
    status = check_state(&list, &why->reason);
    if (status == PCCL_OK) {
        remember_begin(&list);
        run(&list, again);
        status = list.status;
        if (status != PCCL_OK)
            explain(&list, why);
        if (status != PCCL_OK || count == 0)
            list.sum.local_world_size = world_now(handle);
        *info = list.sum;
    }
    pccl_comm_leave(comm);
out:
    pccl_table_fini(&list.by_tag);
    pccl_release(pccl_heap(), list.entries, count * sizeof *list.entries);
    pccl_release(pccl_heap(), again, count * sizeof *again);
    return status;
}
