/* Public functions of reductions: launch, await, and the list with retries. */
#include "drive/api.h"
#include "drive/reduction.h"

pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                const pcclComm_t *comm_const, pcclAsyncReduceOp_t *reduce_handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_REDUCE);
    if (result != pcclSuccess)
        return result;
    if (!reduce_handle_out)
        return pccl_api_fail_in_words(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    struct pccl_text words;
    struct pccl_comm_op *reduction;
    enum pccl_status status = pccl_reduction_check(sendbuf, recvbuf, descriptor, &words);
    if (status == PCCL_OK) {
        pccl_comm_enter(comm);
        status = pccl_reduction_launch(comm, sendbuf, recvbuf, descriptor, NULL, &reduction, &words);
        pccl_comm_leave(comm);
    }
    if (status != PCCL_OK)
        return pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &words);
    *reduce_handle_out = (pcclAsyncReduceOp_t){.comm = comm, .tag = descriptor->tag};
    return pcclSuccess;
}

pcclResult_t pcclAwaitAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, pcclReduceInfo_t *reduce_info_out)
{
    struct pccl_text words;
    if (pccl_api_initialized() && (!reduce_handle || !reduce_handle->comm))
        return pccl_api_fail_in_words(NULL, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT,
                                      "the handle or its communicator is NULL");
    pcclComm_t *comm = reduce_handle ? reduce_handle->comm : NULL;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_REDUCE);
    if (result != pcclSuccess || !reduce_handle)
        return result;
    enum pccl_status status = PCCL_ARGUMENT;
    pccl_comm_enter(comm);
    struct pccl_comm_op *reduction = pccl_reduction_find(comm, reduce_handle->tag);
    if (reduction && !reduction->awaited) {
        status = pccl_reduction_await(comm, reduction, reduce_info_out, &words);
    } else if (reduction) {
        pccl_text_format(&words, "the reduction with tag %u is being awaited by another thread", reduce_handle->tag);
    } else if (!pccl_api_connected(comm)) {
        status = pccl_api_unconnected(comm, &words);
    } else {
        pccl_text_format(&words, "no reduction with tag %u is launched; was it awaited already?", reduce_handle->tag);
    }
    pccl_comm_leave(comm);
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &words);
}

pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                           const pcclComm_t *comm_const, pcclReduceInfo_t *reduce_info_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_REDUCE);
    if (result != pcclSuccess)
        return result;
    struct pccl_text words;
    struct pccl_comm_op *reduction;
    enum pccl_status status = pccl_reduction_check(sendbuf, recvbuf, descriptor, &words);
    if (status == PCCL_OK) {
        pccl_comm_enter(comm);
        status = pccl_reduction_launch(comm, sendbuf, recvbuf, descriptor, NULL, &reduction, &words);
        if (status == PCCL_OK)
            status = pccl_reduction_await(comm, reduction, reduce_info_out, &words);
        pccl_comm_leave(comm);
    }
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &words);
}

pcclResult_t pcclAllReduceMultipleWithRetry(const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                            const pcclComm_t *comm_const, pcclReduceInfo_t *reduce_info_out,
                                            int max_in_flight)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    pcclResult_t result = pccl_api_check(comm, PCCL_FAMILY_REDUCE);
    if (result != pcclSuccess)
        return result;
    const char *wrong = !descriptors         ? "descriptors is NULL"
                        : count == 0         ? "the list is empty"
                        : max_in_flight <= 0 ? "max_in_flight is less than 1"
                                             : NULL;
    if (wrong)
        return pccl_api_fail_in_words(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, wrong);
    struct pccl_text words;
    pcclReduceInfo_t info;
    enum pccl_status status = pccl_reduction_list(comm, descriptors, count, (uint32_t)max_in_flight, &info, &words);
    if (reduce_info_out && (status == PCCL_OK || status == PCCL_TOO_FEW_PEERS))
        *reduce_info_out = info;
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &words);
}
