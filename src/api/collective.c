/* Public functions of collectives with options. */
#include "api/api.h"

static pcclResult_t carry_out(const struct pccl_asked *asked, pcclComm_t *comm, pcclOperationInfo_t *info_out)
{
    struct pccl_why why = {0};
    struct pccl_op_args args = {0};
    pcclOperationInfo_t info;
    enum pccl_status status = pccl_api_info_begin(info_out, &info, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_op_args(asked, &args, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_operation(comm, &args, &info, &why);
    if (status == PCCL_OK)
        pccl_api_info_end(&info, info_out);
    pccl_api_op_args_free(&args);
    return pccl_api_operation_result(comm, status, &why);
}

static pcclResult_t launch(const struct pccl_asked *asked, pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why = {0};
    struct pccl_op_args args = {0};
    uint64_t name = 0;
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args(asked, &args, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_launch(comm, &args, &name, &why);
    if (status == PCCL_OK)
        *handle = (pcclAsyncReduceOp_t){.comm = comm, .tag = name};
    pccl_api_op_args_free(&args);
    return pccl_api_operation_result(comm, status, &why);
}

static pcclResult_t carry_out_for(const struct pccl_asked *asked, pcclComm_t *comm, uint32_t timeout_ms,
                                  pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why = {0};
    struct pccl_op_args args = {0};
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args(asked, &args, &why.reason);
    pcclResult_t result = status == PCCL_OK ? pccl_api_operation_for(comm, &args, timeout_ms, handle)
                                            : pccl_api_operation_result(comm, status, &why);
    pccl_api_op_args_free(&args);
    return result;
}

static struct pccl_asked from_to(enum pccl_collective collective, const void *sendbuf, void *recvbuf, size_t count,
                                 pcclDataType_t datatype, const pcclCollectiveOptions_t *options)
{
    return (struct pccl_asked){.collective = collective,
                               .input = sendbuf,
                               .result = recvbuf,
                               .count = count,
                               .datatype = datatype,
                               .options = options};
}

pcclResult_t pcclAllReduceWithOptions(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                      pcclRedOp_t op, const pcclCollectiveOptions_t *options,
                                      const pcclComm_t *comm_const, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_REDUCE, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllReduceWithOptionsAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                           pcclRedOp_t op, const pcclCollectiveOptions_t *options,
                                           const pcclComm_t *comm_const, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_REDUCE, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclAllReduceWithOptionsFor(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                         pcclRedOp_t op, const pcclCollectiveOptions_t *options,
                                         const pcclComm_t *comm_const, uint32_t timeout_ms,
                                         pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_REDUCE, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    if (handle_out)
        *handle_out = (pcclAsyncReduceOp_t){0};
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out_for(&asked, comm, timeout_ms, handle_out));
}

static struct pccl_asked coalesced(const pcclCoalescedTensor_t *tensors, size_t count,
                                   const pcclCollectiveOptions_t *options)
{
    return from_to(PCCL_COALESCED, tensors, NULL, count, pcclUint8, options);
}

pcclResult_t pcclAllReduceCoalesced(const pcclCoalescedTensor_t *tensors, size_t count,
                                    const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                                    pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = coalesced(tensors, count, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllReduceCoalescedAsync(const pcclCoalescedTensor_t *tensors, size_t count,
                                         const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                                         pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = coalesced(tensors, count, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclBroadcast(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                           const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                           pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_BROADCAST, buffer, buffer, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclBroadcastAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t root,
                                const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                                pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_BROADCAST, buffer, buffer, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclAllGather(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                           const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                           pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_GATHER, sendbuf, recvbuf, count, datatype, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllGatherAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                                pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_GATHER, sendbuf, recvbuf, count, datatype, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclReduceScatter(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                               pcclRedOp_t op, const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                               pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_REDUCE_SCATTER, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclReduceScatterAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                                    pcclRedOp_t op, const pcclCollectiveOptions_t *options,
                                    const pcclComm_t *comm_const, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_REDUCE_SCATTER, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclReduce(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, pcclRedOp_t op,
                        uint32_t root, const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                        pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_REDUCE, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclReduceAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, pcclRedOp_t op,
                             uint32_t root, const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                             pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_REDUCE, sendbuf, recvbuf, count, datatype, options);
    asked.op = op;
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclGather(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, uint32_t root,
                        const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_GATHER, sendbuf, recvbuf, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclGatherAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, uint32_t root,
                             const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                             pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_GATHER, sendbuf, recvbuf, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclScatter(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, uint32_t root,
                         const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                         pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_SCATTER, sendbuf, recvbuf, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclScatterAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype, uint32_t root,
                              const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                              pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_SCATTER, sendbuf, recvbuf, count, datatype, options);
    asked.root = root;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclAllToAll(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                          const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                          pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_TO_ALL, sendbuf, recvbuf, count, datatype, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllToAllAsync(const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
                               const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                               pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = from_to(PCCL_ALL_TO_ALL, sendbuf, recvbuf, count, datatype, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

/* Between this peer and the one of this rank. */
static struct pccl_asked transfer(const void *buffer, bool sends, size_t count, pcclDataType_t datatype, uint32_t peer,
                                  const pcclCollectiveOptions_t *options)
{
    return (struct pccl_asked){.collective = PCCL_SEND,
                               .input = buffer,
                               .result = (void *)(uintptr_t)buffer, /* of a send it is only read */
                               .count = count,
                               .datatype = datatype,
                               .root = peer,
                               .sends = sends,
                               .options = options};
}

pcclResult_t pcclSend(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                      const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = transfer(buffer, true, count, datatype, peer, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclSendAsync(const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                           const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                           pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = transfer(buffer, true, count, datatype, peer, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclRecv(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                      const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = transfer(buffer, false, count, datatype, peer, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclRecvAsync(void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer,
                           const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                           pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = transfer(buffer, false, count, datatype, peer, options);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

/* data: a blob of so many bytes, or so many parts. */
static struct pccl_asked of_blobs(enum pccl_collective collective, const void *data, size_t count, uint32_t root,
                                  const pcclCollectiveOptions_t *options, pcclBlobs_t *blobs)
{
    return (struct pccl_asked){
        .collective = collective, .input = data, .result = blobs, .count = count, .root = root, .options = options};
}

pcclResult_t pcclAllGatherV(const void *data, size_t length, const pcclCollectiveOptions_t *options,
                            const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_ALL_GATHER_V, data, length, 0, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllGatherVAsync(const void *data, size_t length, const pcclCollectiveOptions_t *options,
                                 const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_ALL_GATHER_V, data, length, 0, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclGatherV(const void *data, size_t length, uint32_t root, const pcclCollectiveOptions_t *options,
                         const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_GATHER_V, data, length, root, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclGatherVAsync(const void *data, size_t length, uint32_t root, const pcclCollectiveOptions_t *options,
                              const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_GATHER_V, data, length, root, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclScatterV(const pcclPart_t *parts, size_t count, uint32_t root, const pcclCollectiveOptions_t *options,
                          const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_SCATTER_V, parts, count, root, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclScatterVAsync(const pcclPart_t *parts, size_t count, uint32_t root,
                               const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const, pcclBlobs_t *blobs,
                               pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_SCATTER_V, parts, count, root, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclAllToAllV(const pcclPart_t *parts, size_t count, const pcclCollectiveOptions_t *options,
                           const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_ALL_TO_ALL_V, parts, count, 0, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclAllToAllVAsync(const pcclPart_t *parts, size_t count, const pcclCollectiveOptions_t *options,
                                const pcclComm_t *comm_const, pcclBlobs_t *blobs, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = of_blobs(PCCL_ALL_TO_ALL_V, parts, count, 0, options, blobs);
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}

pcclResult_t pcclFreeBlobs(pcclBlobs_t *blobs)
{
    if (!blobs)
        return pcclSuccess;
    pccl_comm_blobs_free(blobs->blobs);
    blobs->count = blobs->bytes = 0;
    blobs->blobs = NULL;
    return pcclSuccess;
}

pcclResult_t pcclBarrier(const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                         pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = {.collective = PCCL_BARRIER, .options = options};
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, carry_out(&asked, comm, info));
}

pcclResult_t pcclBarrierAsync(const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const,
                              pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    struct pccl_asked asked = {.collective = PCCL_BARRIER, .options = options};
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(&asked, comm, handle_out));
}
