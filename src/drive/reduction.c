#include "drive/reduction.h"

#include "drive/api.h"
#include "kernels/reduce.h"
#include "net/heap.h"

#include <string.h>

/* ---- arguments ---- */

static bool overlap_partly(const void *sendbuf, const void *recvbuf, size_t bytes)
{
    uintptr_t send = (uintptr_t)sendbuf, receive = (uintptr_t)recvbuf;
    return send != receive && send < receive + bytes && receive < send + bytes;
}

enum pccl_status pccl_reduction_check(const void *sendbuf, const void *recvbuf,
                                      const pcclReduceDescriptor_t *descriptor, struct pccl_text *words)
{
    const char *wrong = NULL;
    if (!sendbuf || !recvbuf || !descriptor)
        wrong = "sendbuf, recvbuf or the descriptor is NULL";
    else if (descriptor->count == 0)
        wrong = "count is 0";
    else if ((unsigned)descriptor->src_descriptor.datatype >= PCCL_DATATYPES)
        wrong = "unknown data type";
    else if ((unsigned)descriptor->op >= PCCL_REDUCTIONS)
        wrong = "unknown operation";
    else if ((unsigned)descriptor->src_descriptor.distribution_hint > pcclDistributionUniform)
        wrong = "unknown distribution hint";
    else if ((unsigned)descriptor->quantization_options.algorithm > pcclQuantZeroPointScale)
        wrong = "unknown quantization algorithm";
    else if (descriptor->quantization_options.algorithm != pcclQuantNone &&
             (unsigned)descriptor->quantization_options.quantized_datatype >= PCCL_DATATYPES)
        wrong = "unknown quantized data type";
    else if (descriptor->count > SIZE_MAX / 16)
        wrong = "count is larger than any memory";
    else if (overlap_partly(sendbuf, recvbuf,
                            descriptor->count *
                                pccl_datatype_bytes((enum pccl_datatype)descriptor->src_descriptor.datatype)))
        wrong = "sendbuf and recvbuf overlap partly";
    if (!wrong)
        return PCCL_OK;
    pccl_text_format(words, "%s", wrong);
    return PCCL_ARGUMENT;
}

static struct pccl_descriptor wire_descriptor(const pcclReduceDescriptor_t *descriptor)
{
    bool quantized = descriptor->quantization_options.algorithm != pcclQuantNone;
    return (struct pccl_descriptor){.datatype = (uint8_t)descriptor->src_descriptor.datatype,
                                    .operation = (uint8_t)descriptor->op,
                                    .codec = (uint8_t)descriptor->quantization_options.algorithm,
                                    .codec_datatype =
                                        (uint8_t)(quantized ? descriptor->quantization_options.quantized_datatype : 0),
                                    .count = descriptor->count};
}

/* ---- launch ---- */

struct pccl_comm_op *pccl_reduction_find(const struct pcclComm_t *comm, uint64_t tag)
{
    struct pccl_node *node = pccl_table_find(&comm->reductions, tag);
    return node ? PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag) : NULL;
}

static void explain_refusal(const struct pcclComm_t *comm, enum pccl_status status, uint64_t tag,
                            struct pccl_text *words)
{
    switch (status) {
    case PCCL_USAGE:
        if (!pccl_api_connected(comm))
            (void)pccl_api_unconnected(comm, words);
        else
            pccl_text_format(words, "the topology is being updated by another thread");
        break;
    case PCCL_ARGUMENT: pccl_text_format(words, "the tag %u is in use: launched and not yet awaited", tag); break;
    case PCCL_TOO_FEW_PEERS: pccl_text_format(words, "this peer is alone in its group"); break;
    case PCCL_LIMIT: pccl_text_format(words, "too many operations or tags are outstanding"); break;
    default: pccl_text_format(words, "%s", pccl_status_text(status)); break;
    }
}

/* What the machine would not say in words. */
static enum pccl_status may_launch(const struct pcclComm_t *comm, uint64_t tag, size_t bytes, struct pccl_text *words)
{
    if (!pccl_api_connected(comm))
        return pccl_api_unconnected(comm, words);
    if (pccl_reduction_find(comm, tag)) {
        explain_refusal(comm, PCCL_ARGUMENT, tag, words);
        return PCCL_ARGUMENT;
    }
    uint32_t most = pccl_peer_tiny_bytes_max(comm->peer);
    if (bytes > most) {
        pccl_text_format(words, "a payload of %u bytes: this version carries at most %u (the master's tiny_bytes_max)",
                         (uint64_t)bytes, (uint64_t)most);
        return PCCL_ARGUMENT;
    }
    return PCCL_OK;
}

enum pccl_status pccl_reduction_launch(struct pcclComm_t *comm, const void *sendbuf, void *recvbuf,
                                       const pcclReduceDescriptor_t *descriptor, struct pccl_waiter *waiter,
                                       struct pccl_comm_op **reduction_out, struct pccl_text *words)
{
    size_t bytes = descriptor->count * pccl_datatype_bytes((enum pccl_datatype)descriptor->src_descriptor.datatype);
    enum pccl_status status = may_launch(comm, descriptor->tag, bytes, words);
    if (status != PCCL_OK)
        return status;
    struct pccl_comm_op *reduction = pccl_allocate(pccl_heap(), sizeof *reduction);
    if (!reduction) {
        explain_refusal(comm, PCCL_MEMORY, descriptor->tag, words);
        return PCCL_MEMORY;
    }
    reduction->recvbuf = recvbuf;
    reduction->bytes = (uint32_t)bytes;
    reduction->waiter = waiter;
    struct pccl_launch launch = {.tag = descriptor->tag,
                                 .descriptor = wire_descriptor(descriptor),
                                 .payload = sendbuf,
                                 .payload_bytes = (uint32_t)bytes,
                                 .tiny = true,
                                 .user = reduction};
    status = pccl_comm_launch(comm, &launch, &reduction->op);
    if (status != PCCL_OK) {
        explain_refusal(comm, status, descriptor->tag, words);
        pccl_release(pccl_heap(), reduction, sizeof *reduction);
        return status;
    }
    pccl_table_insert(&comm->reductions, &reduction->by_tag, descriptor->tag);
    if (reduction->op->state == PCCL_OP_DECIDED && !reduction->decided)
        pccl_comm_reduction_decided(comm, reduction);
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
    case PCCL_CLASS_INTERNAL:
    case PCCL_CLASS_COUNT: break;
    }
    return PCCL_INTERNAL;
}

static enum pccl_status take_outcome(struct pccl_comm_op *reduction, pcclReduceInfo_t *info, struct pccl_text *words)
{
    const struct pccl_op *op = reduction->op;
    if (!op) {
        *words = reduction->words;
        return reduction->status;
    }
    enum pccl_status status = status_of(op->class);
    if (status != PCCL_OK) {
        *words = op->words;
        return op->lost_by != PCCL_OK ? op->lost_by : status;
    }
    memcpy(reduction->recvbuf, op->payload, reduction->bytes);
    if (info)
        *info = (pcclReduceInfo_t){
            .local_world_size = op->world, .tx_bytes = reduction->bytes, .rx_bytes = reduction->bytes};
    return PCCL_OK;
}

enum pccl_status pccl_reduction_end(struct pcclComm_t *comm, struct pccl_comm_op *reduction, pcclReduceInfo_t *info,
                                    struct pccl_text *words)
{
    enum pccl_status status = take_outcome(reduction, info, words);
    if (reduction->op)
        pccl_comm_op_release(comm, reduction->op);
    pccl_table_remove(&comm->reductions, &reduction->by_tag);
    pccl_release(pccl_heap(), reduction, sizeof *reduction);
    return status;
}

enum pccl_status pccl_reduction_await(struct pcclComm_t *comm, struct pccl_comm_op *reduction, pcclReduceInfo_t *info,
                                      struct pccl_text *words)
{
    struct pccl_waiter waiter = {0};
    reduction->awaited = true;
    if (!reduction->decided) {
        reduction->waiter = &waiter;
        pccl_comm_op_awaited(comm, reduction->op);
        pccl_comm_wait(comm, &waiter);
    }
    return pccl_reduction_end(comm, reduction, info, words);
}
