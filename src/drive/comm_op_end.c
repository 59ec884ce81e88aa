/* Operations after their launch: awaiting them, ending them, and functions on all operations of a communicator. */
#include "drive/communicator.h"
#include "drive/comm_op.h"
#include "drive/comm_callers.h"
#include "drive/comm_contribution.h"
#include "drive/comm_jobs.h"
#include "drive/comm_machine.h"
#include "drive/comm_telemetry.h"
#include "drive/comm_wait.h"

#include "net/heap.h"
#include "peer/queries.h"
#include "wire/choice.h"

#include <string.h>

/* Time for which a caller that polls with short awaits is considered to be waiting. */
enum { WAIT_EXPIRY_MS = 500 };

static void cancel_wait_expiry(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    if (operation->wait_expires_us)
        comm->operations.expiring_waits--;
    operation->wait_expires_us = 0;
}

void pccl_comm_op_release(struct pccl_comm_op *operation, bool succeeded)
{
    if (operation->composed)
        operation->composed->end(operation, succeeded);
    pccl_release(pccl_heap(), operation->arrivals.from, operation->members->count * sizeof *operation->arrivals.from);
    if (operation->buffers.result.list)
        pccl_contribution_drop_result(operation);
    pccl_comm_feedback_end(operation->feedback, succeeded);
    pccl_comm_members_drop(operation->members);
    if (operation->detached)
        pccl_peer_op_free(pccl_heap(), operation->op);
    pccl_release(pccl_heap(), operation, sizeof *operation);
}

/* ---- ending an operation ---- */

static enum pccl_status status_of(enum pccl_class class)
{
    switch (class) {
    case PCCL_CLASS_NONE: return PCCL_OK;
    case PCCL_CLASS_PEER_LOST: return PCCL_PEER_LOST;
    case PCCL_CLASS_MISMATCH: return PCCL_MISMATCH;
    case PCCL_CLASS_ABORTED: return PCCL_ABORTED;
    case PCCL_CLASS_DEADLINE: return PCCL_TIMEOUT;
    case PCCL_CLASS_MEMBERS_CHANGED: return PCCL_MEMBERS_CHANGED;
    case PCCL_CLASS_INTERNAL:
    case PCCL_CLASS_COUNT: break;
    }
    return PCCL_INTERNAL;
}

/* Returns the status of an operation that is over, with the reason for a failure. */
static enum pccl_status outcome_of(const struct pccl_comm_op *operation, const struct pccl_text **reason)
{
    const struct pccl_peer_op *op = operation->op;
    *reason = &operation->reason;
    if (operation->status != PCCL_OK || !op)
        return operation->status;
    *reason = &op->reason;
    return op->lost_by != PCCL_OK ? op->lost_by : status_of(op->class);
}

static void note_departed(const struct pccl_communicator *comm, const struct pccl_comm_op *operation,
                          struct pccl_departed *departed)
{
    const struct pccl_peer_op *op = operation->op;
    if (operation->detached)
        *departed = operation->departed;
    else if (op)
        pccl_peer_departed(comm->peer, &op->known, &op->attributes.epoch, departed);
}

/* Describes the choice of an automatic codec. */
static void describe_choice(const struct pccl_peer_op *op, pcclOperationInfo_t *info)
{
    struct pccl_text words;
    info->why[0] = '\0';
    if (!op || !pccl_choice_is_automatic(&op->descriptor))
        return;
    pccl_text_clear(&words);
    if (op->tiny)
        pccl_text_add(&words, "small: sent through the master, unquantized");
    else
        pccl_choice_describe(&words, &op->descriptor, &op->choice);
    const size_t length = pccl_min_u64(words.length, sizeof info->why - 1);
    memcpy(info->why, words.bytes, length);
    info->why[length] = '\0';
}

static void describe(const struct pccl_comm_op *operation, pcclOperationInfo_t *info)
{
    const struct pccl_peer_op *op = operation->op;
    info->tag = operation->tag;
    info->sequence = op ? op->instance.use : 0;
    info->tx_bytes = operation->traffic.sent_bytes;
    info->rx_bytes = operation->traffic.received_bytes;
    info->world = op ? op->world : 1;
    info->rank = operation->members->rank;
    info->codec = op && !op->tiny ? (pcclQuantizationAlgorithm_t)op->descriptor.codec : pcclQuantNone;
    describe_choice(op, info);
    if (!info->participants)
        return;
    for (uint32_t i = 0; i < operation->members->count && i < info->participants_max; i++) {
        pccl_id_write(&operation->members->ids[i], info->participants[i].digits, PCCL_PEER_ID_SIZE - 1);
        info->participants[i].digits[PCCL_PEER_ID_SIZE - 1] = '\0';
    }
}

enum pccl_status pccl_comm_op_end(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                  pcclOperationInfo_t *info, struct pccl_why *why)
{
    struct pccl_peer_op *op = operation->op;
    const struct pccl_text *reason;
    const enum pccl_status status = outcome_of(operation, &reason);
    PCCL_ASSERT(operation->over);
    if (status != PCCL_OK) {
        why->reason = *reason;
        why->details = pccl_comm_op_details(operation);
        note_departed(comm, operation, &why->details.departed);
        pccl_comm_telemetry_failed(comm);
    } else {
        if (op && op->tiny && operation->result_bytes)
            pccl_contribution_take_result(operation, op);
        if (info)
            describe(operation, info);
    }
    if (op && !operation->detached)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_RELEASE, .op = op});
    pccl_comm_op_job_leave(comm, operation);
    cancel_wait_expiry(comm, operation);
    pccl_table_remove(&comm->operations.by_tag, &operation->by_tag);
    pccl_comm_op_release(operation, status == PCCL_OK);
    return status;
}

static void report_awaited(struct pccl_communicator *comm, const struct pccl_comm_op *operation, bool blocked)
{
    pccl_comm_step(comm,
                   &(struct pccl_peer_event){.kind = PCCL_PEER_OP_AWAIT, .op = operation->op, .blocked = blocked});
}

void pccl_comm_op_announce_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    operation->awaited = true;
    const bool polls = operation->wait_expires_us != 0;
    if (polls)
        cancel_wait_expiry(comm, operation); /* for the state machine, this thread is still waiting */
    else if (!operation->decided)
        report_awaited(comm, operation, true);
    if (operation->decided || operation->blocks)
        return;
    operation->blocks = true;
    pccl_comm_time_block(&comm->time, polls ? pccl_now_us() : comm->stepped_us);
}

static void show(struct pccl_communicator *comm, struct pccl_comm_op *operation)
{
    if (operation->composed)
        operation->composed->show(comm, operation);
}

bool pccl_comm_op_wait(struct pccl_communicator *comm, struct pccl_comm_op *operation, uint64_t deadline_us)
{
    operation->awaited = true;
    show(comm, operation);
    if (operation->over)
        return true;
    operation->waiter = pccl_caller_waiter();
    pccl_comm_op_announce_wait(comm, operation);
    while (pccl_comm_wait_until(comm, operation->waiter, deadline_us)) {
        show(comm, operation);
        if (operation->over) {
            operation->waiter->fired = false; /* the waiter may have been signaled during a callback */
            return true;
        }
    }
    operation->waiter = NULL;
    operation->awaited = false;
    if (!operation->decided) {
        const uint64_t now_us = pccl_now_us();
        pccl_comm_op_unblock(comm, operation, now_us);
        operation->wait_expires_us = now_us + WAIT_EXPIRY_MS * UINT64_C(1000);
        comm->operations.expiring_waits++;
    }
    return false;
}

enum pccl_status pccl_comm_op_await(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                    pcclOperationInfo_t *info, struct pccl_why *why)
{
    bool over = pccl_comm_op_wait(comm, operation, UINT64_MAX);
    PCCL_ASSERT(over);
    return pccl_comm_op_end(comm, operation, info, why);
}

/* ---- all operations of a communicator ---- */

static struct pccl_comm_op *operation_of(struct pccl_table_node *node)
{
    return node ? PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag) : NULL;
}

void pccl_comm_ops_expire_waits(struct pccl_communicator *comm)
{
    if (!comm->operations.expiring_waits)
        return;
    uint64_t now_us = pccl_now_us();
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = operation_of(node);
        if (!operation->wait_expires_us || operation->wait_expires_us > now_us)
            continue;
        cancel_wait_expiry(comm, operation);
        if (!operation->decided)
            report_awaited(comm, operation, false);
    }
}

void pccl_comm_ops_detach(struct pccl_communicator *comm)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = operation_of(node);
        if (!operation->op || operation->detached)
            continue;
        PCCL_ASSERT(operation->over);
        note_departed(comm, operation, &operation->departed);
        pccl_peer_op_detach(comm->peer, operation->op);
        operation->detached = true;
    }
}

void pccl_comm_ops_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node)) {
        struct pccl_comm_op *operation = operation_of(node);
        if (operation->waiter != waiter)
            continue;
        operation->waiter = NULL;
        operation->awaited = false;
    }
}

void pccl_comm_ops_free(struct pccl_communicator *comm)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&comm->operations.by_tag))) {
        pccl_table_remove(&comm->operations.by_tag, node);
        pccl_comm_op_release(operation_of(node), false);
    }
    pccl_table_fini(&comm->operations.by_tag);
    pccl_comm_members_drop(comm->operations.members);
    comm->operations.members = NULL;
}

void pccl_comm_op_abort(struct pccl_communicator *comm, const struct pccl_comm_op *operation, enum pccl_class class,
                        const struct pccl_text *reason)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_OP_ABORT, .op = operation->op, .class = class, .reason = reason};
    if (!operation->decided)
        pccl_comm_step(comm, &event);
}

void pccl_comm_ops_abort(struct pcclComm_t *handle)
{
    struct pccl_communicator *comm = handle->comm;
    handle->aborts++;
    for (struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag); node;
         node = pccl_table_after(&comm->operations.by_tag, node))
        if (operation_of(node)->handle == handle)
            pccl_comm_op_abort(comm, operation_of(node), PCCL_CLASS_ABORTED, NULL);
}

void pccl_comm_ops_drop(struct pccl_communicator *comm, const struct pcclComm_t *handle)
{
    struct pccl_table_node *node = pccl_table_first(&comm->operations.by_tag);
    struct pccl_why why;
    while (node) {
        struct pccl_comm_op *operation = operation_of(node);
        bool drop = operation->handle == handle;
        if (drop)
            operation->arrivals.show = NULL;
        enum pccl_status unwanted = drop ? pccl_comm_op_await(comm, operation, NULL, &why) : PCCL_OK;
        (void)unwanted;
        /* Other operations may have ended during the wait. */
        node = drop ? pccl_table_first(&comm->operations.by_tag) : pccl_table_after(&comm->operations.by_tag, node);
    }
}
