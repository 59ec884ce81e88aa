#include "drive/communicator.h"
#include "drive/reduction.h"
#include "drive/comm_callers.h"
#include "drive/comm_engine.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"

#include "kernels/codec.h"
#include "net/heap.h"
#include "peer/queries.h"

#include <string.h>

/* A caller that polls with short awaits counts as waiting in between. */
enum { WAIT_EXPIRY_MS = 500 };

/* ---- arguments ---- */

static bool overlap_partly(const void *sendbuf, const void *recvbuf, size_t bytes)
{
    uintptr_t send = (uintptr_t)sendbuf, receive = (uintptr_t)recvbuf;
    return send != receive && send < receive + bytes && receive < send + bytes;
}

static enum pccl_status check_quantization(const pcclReduceDescriptor_t *descriptor, struct pccl_text *reason)
{
    const pcclQuantizationOptions_t *options = &descriptor->quantization_options;
    pccl_text_clear(reason);
    if (options->algorithm != pcclQuantNone)
        (void)pccl_codec_find(
            (enum pccl_codec_kind)options->algorithm, (enum pccl_datatype)descriptor->src_descriptor.datatype,
            (enum pccl_datatype)options->quantized_datatype, (enum pccl_reduce_op)descriptor->op, reason);
    return reason->length ? PCCL_ARGUMENT : PCCL_OK;
}

enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                      const pcclReduceDescriptor_t *descriptor, struct pccl_text *reason)
{
    const char *wrong = NULL;
    if (!sendbuf || !recvbuf || !descriptor)
        wrong = "sendbuf, recvbuf or the descriptor is NULL";
    else if (descriptor->count == 0)
        wrong = "count is 0";
    else if ((unsigned)descriptor->src_descriptor.datatype >= PCCL_DATATYPES)
        wrong = "unknown data type";
    else if ((unsigned)descriptor->op >= PCCL_REDUCE_OPS)
        wrong = "unknown operation";
    else if ((unsigned)descriptor->src_descriptor.distribution_hint > pcclDistributionUniform)
        wrong = "unknown distribution hint";
    else if ((unsigned)descriptor->quantization_options.algorithm > pcclQuantZeroPointScale)
        wrong = "unknown quantization algorithm";
    else if (descriptor->count > SIZE_MAX / 16)
        wrong = "count is larger than any memory";
    else if (overlap_partly(sendbuf, recvbuf,
                            descriptor->count *
                                pccl_datatype_bytes((enum pccl_datatype)descriptor->src_descriptor.datatype)))
        wrong = "sendbuf and recvbuf overlap partly";
    if (!wrong)
        return check_quantization(descriptor, reason);
    pccl_text_format(reason, "%s", wrong);
    return PCCL_ARGUMENT;
}

static _Thread_local struct pccl_label label_of_thread;

void pccl_reduction_label(const struct pccl_label *label) { label_of_thread = *label; }

static struct pccl_descriptor wire_descriptor(const pcclReduceDescriptor_t *descriptor)
{
    bool quantized = descriptor->quantization_options.algorithm != pcclQuantNone;
    return (struct pccl_descriptor){.datatype = (uint8_t)descriptor->src_descriptor.datatype,
                                    .operation = (uint8_t)descriptor->op,
                                    .codec = (uint8_t)descriptor->quantization_options.algorithm,
                                    .codec_datatype =
                                        (uint8_t)(quantized ? descriptor->quantization_options.quantized_datatype : 0),
                                    .count = descriptor->count,
                                    .label = label_of_thread};
}

/* ---- launch ---- */

static void cancel_wait_expiry(struct pcclComm_t *comm, struct pccl_reduction *reduction)
{
    if (reduction->wait_expires_us)
        comm->reductions.expiring_waits--;
    reduction->wait_expires_us = 0;
}

struct pccl_reduction *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag)
{
    struct pccl_table_node *node = pccl_table_find(&comm->reductions.by_tag, tag);
    return node ? PCCL_CONTAINER_OF(node, struct pccl_reduction, by_tag) : NULL;
}

static void explain_refusal(const struct pcclComm_t *comm, enum pccl_status status, uint64_t tag,
                            struct pccl_text *reason)
{
    switch (status) {
    case PCCL_USAGE:
        if (!pccl_comm_is_connected(comm))
            (void)pccl_comm_why_unconnected(comm, reason);
        else
            pccl_text_format(reason, "the topology is being updated by another thread");
        break;
    case PCCL_ARGUMENT:
        pccl_text_format(reason, "the tag %" PRIu64 " is in use: launched and not yet awaited", tag);
        break;
    case PCCL_TOO_FEW_PEERS: pccl_text_format(reason, "this peer is alone in its group"); break;
    case PCCL_LIMIT: pccl_text_format(reason, "too many operations or tags are outstanding"); break;
    default: pccl_text_format(reason, "%s", pccl_status_text(status)); break;
    }
}

/* The reason for a refusal for which the machine gave none. */
static enum pccl_status may_launch(const struct pcclComm_t *comm, uint64_t tag, struct pccl_text *reason)
{
    if (!pccl_comm_is_connected(comm))
        return pccl_comm_why_unconnected(comm, reason);
    if (!pccl_reduction_find(comm, tag))
        return PCCL_OK;
    explain_refusal(comm, PCCL_ARGUMENT, tag, reason);
    return PCCL_ARGUMENT;
}

/* The reduction is not in the table yet. After a failure its job, if any, is not the engine's. */
static enum pccl_status launch(struct pcclComm_t *comm, struct pccl_reduction *reduction, const void *sendbuf,
                               const pcclReduceDescriptor_t *descriptor)
{
    struct pccl_launch launch = {.tag = descriptor->tag,
                                 .descriptor = wire_descriptor(descriptor),
                                 .payload = reduction->tiny ? sendbuf : NULL,
                                 .payload_bytes = reduction->tiny ? (uint32_t)reduction->bytes : 0,
                                 .tiny = reduction->tiny,
                                 .user = reduction};
    if (!reduction->tiny && !pccl_peer_is_alone(comm->peer) &&
        !pccl_reduction_job_make(comm, reduction, sendbuf, &launch.descriptor))
        return PCCL_MEMORY;
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
    enum pccl_status status = pccl_comm_step(comm, &event);
    if (status == PCCL_OK)
        reduction->op = event.op;
    else if (reduction->job && reduction->job->started)
        pccl_reduction_job_await(comm, reduction); /* the machine broke in this step and stopped the job */
    return status;
}

enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                       const pcclReduceDescriptor_t *descriptor, struct pccl_waiter *waiter,
                                       struct pccl_reduction **reduction_out, struct pccl_why *why)
{
    enum pccl_status status = may_launch(comm, descriptor->tag, &why->reason);
    if (status != PCCL_OK)
        return status;
    struct pccl_epoch known = pccl_peer_attributes(comm->peer).epoch;
    struct pccl_reduction *reduction = pccl_allocate(pccl_heap(), sizeof *reduction);
    if (!reduction) {
        explain_refusal(comm, PCCL_MEMORY, descriptor->tag, &why->reason);
        return PCCL_MEMORY;
    }
    reduction->bytes = descriptor->count * pccl_datatype_bytes((enum pccl_datatype)descriptor->src_descriptor.datatype);
    reduction->tiny = reduction->bytes <= pccl_peer_tiny_bytes_max(comm->peer);
    reduction->recvbuf = recvbuf;
    reduction->waiter = waiter;
    status = launch(comm, reduction, sendbuf, descriptor);
    if (status != PCCL_OK) {
        explain_refusal(comm, status, descriptor->tag, &why->reason);
        if (status == PCCL_TOO_FEW_PEERS)
            pccl_peer_departed(comm->peer, &known, NULL, &why->details.departed);
        pccl_reduction_job_leave(comm, reduction);
        pccl_release(pccl_heap(), reduction, sizeof *reduction);
        return status;
    }
    pccl_table_insert(&comm->reductions.by_tag, &reduction->by_tag, descriptor->tag);
    reduction->why.details =
        (struct pccl_details){.launched = true, .tag = descriptor->tag, .sequence = reduction->op->instance.use};
    if (reduction->job && !reduction->job->started) /* decided before it started */
        pccl_reduction_job_leave(comm, reduction);
    if (reduction->op->state == PCCL_OP_DECIDED && !reduction->decided)
        pccl_comm_reduction_decided(comm, reduction, reduction->op->class == PCCL_CLASS_NONE);
    if (comm->params.op_timeout_ms)
        pccl_comm_check_deadline(comm);
    *reduction_out = reduction;
    return PCCL_OK;
}

/* ---- the end ---- */

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

static void keep_outcome(const struct pcclComm_t *comm, struct pccl_reduction *reduction)
{
    const struct pccl_peer_op *op = reduction->op;
    if (!op)
        return;
    PCCL_ASSERT(reduction->over);
    reduction->op = NULL;
    reduction->world = op->world;
    reduction->why.reason = op->reason;
    reduction->status = op->lost_by != PCCL_OK ? op->lost_by : status_of(op->class);
    if (reduction->status != PCCL_OK)
        pccl_peer_departed(comm->peer, &op->known, &op->attributes.epoch, &reduction->why.details.departed);
    if (reduction->tiny && reduction->status == PCCL_OK) {
        memcpy(reduction->recvbuf, op->payload, reduction->bytes);
        reduction->traffic = (struct pccl_traffic){reduction->bytes, reduction->bytes};
    }
}

enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_reduction *reduction, pcclReduceInfo_t *info,
                                    struct pccl_why *why)
{
    struct pccl_peer_op *op = reduction->op;
    keep_outcome(comm, reduction);
    enum pccl_status status = reduction->status;
    if (status != PCCL_OK)
        *why = reduction->why;
    else if (info)
        *info = (pcclReduceInfo_t){.local_world_size = reduction->world,
                                   .tx_bytes = reduction->traffic.sent_bytes,
                                   .rx_bytes = reduction->traffic.received_bytes};
    if (op)
        pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_RELEASE, .op = op});
    pccl_reduction_job_leave(comm, reduction);
    cancel_wait_expiry(comm, reduction);
    pccl_table_remove(&comm->reductions.by_tag, &reduction->by_tag);
    pccl_release(pccl_heap(), reduction, sizeof *reduction);
    return status;
}

static void tell_awaited(struct pcclComm_t *comm, const struct pccl_reduction *reduction, bool blocked)
{
    pccl_comm_step(comm,
                   &(struct pccl_peer_event){.kind = PCCL_PEER_OP_AWAIT, .op = reduction->op, .blocked = blocked});
}

void pccl_reduction_announce_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction)
{
    reduction->awaited = true;
    if (reduction->wait_expires_us)
        cancel_wait_expiry(comm, reduction); /* the machine still counts this thread as waiting */
    else if (!reduction->decided)
        tell_awaited(comm, reduction, true);
}

bool pccl_reduction_wait(struct pcclComm_t *comm, struct pccl_reduction *reduction, uint64_t deadline_us)
{
    if (reduction->over)
        return true;
    reduction->waiter = pccl_caller_waiter();
    pccl_reduction_announce_wait(comm, reduction);
    if (pccl_comm_wait_until(comm, reduction->waiter, deadline_us))
        return true;
    reduction->waiter = NULL;
    reduction->awaited = false;
    if (!reduction->decided) {
        reduction->wait_expires_us = pccl_now_us() + WAIT_EXPIRY_MS * UINT64_C(1000);
        comm->reductions.expiring_waits++;
    }
    return false;
}

enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_reduction *reduction, pcclReduceInfo_t *info,
                                      struct pccl_why *why)
{
    bool over = pccl_reduction_wait(comm, reduction, UINT64_MAX);
    PCCL_ASSERT(over);
    return pccl_reduction_end(comm, reduction, info, why);
}

/* ---- all of a communicator ---- */

static struct pccl_reduction *reduction_of(struct pccl_table_node *node)
{
    return node ? PCCL_CONTAINER_OF(node, struct pccl_reduction, by_tag) : NULL;
}

void pccl_reductions_expire_waits(struct pcclComm_t *comm)
{
    if (!comm->reductions.expiring_waits)
        return;
    uint64_t now_us = pccl_now_us();
    for (struct pccl_table_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node)) {
        struct pccl_reduction *reduction = reduction_of(node);
        if (!reduction->wait_expires_us || reduction->wait_expires_us > now_us)
            continue;
        cancel_wait_expiry(comm, reduction);
        if (!reduction->decided)
            tell_awaited(comm, reduction, false);
    }
}

void pccl_reductions_keep_outcomes(struct pcclComm_t *comm)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node))
        keep_outcome(comm, reduction_of(node));
}

void pccl_reductions_forget_waiter(struct pcclComm_t *comm, const struct pccl_waiter *waiter)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node)) {
        struct pccl_reduction *reduction = reduction_of(node);
        if (reduction->waiter != waiter)
            continue;
        reduction->waiter = NULL;
        reduction->awaited = false;
    }
}

void pccl_reductions_give_up(struct pcclComm_t *comm)
{
    for (struct pccl_table_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node)) {
        struct pccl_reduction *reduction = reduction_of(node);
        if (reduction->op) {
            reduction->op = NULL;
            reduction->status = PCCL_INTERNAL;
            pccl_text_format(&reduction->why.reason, "%s", pccl_status_text(PCCL_INTERNAL));
        }
        if (!reduction->decided)
            pccl_comm_reduction_decided(comm, reduction, false);
    }
}

void pccl_reductions_free(struct pcclComm_t *comm)
{
    struct pccl_table_node *node;
    while ((node = pccl_table_first(&comm->reductions.by_tag))) {
        pccl_table_remove(&comm->reductions.by_tag, node);
        pccl_release(pccl_heap(), reduction_of(node), sizeof(struct pccl_reduction));
    }
    pccl_table_fini(&comm->reductions.by_tag);
}

void pccl_reduction_abort(struct pcclComm_t *comm, const struct pccl_reduction *reduction,
                          const struct pccl_text *reason)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_OP_ABORT, .op = reduction->op, .class = PCCL_CLASS_ABORTED, .reason = reason};
    if (!reduction->decided)
        pccl_comm_step(comm, &event);
}

void pccl_reductions_abort(struct pcclComm_t *comm)
{
    comm->reductions.aborts++;
    for (struct pccl_table_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node))
        pccl_reduction_abort(comm, reduction_of(node), NULL);
}
