/* Public functions of handles: await, poll and abort operations. */
#include "api/api.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

pcclResult_t pccl_api_operation_result(const pcclComm_t *comm, enum pccl_status status, const struct pccl_why *why)
{
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail_why(comm, PCCL_FAMILY_REDUCE, status, why);
}

/* ---- handles ---- */

static pcclResult_t check_handle(const pcclAsyncReduceOp_t *handle)
{
    if (!pccl_api_initialized())
        return pccl_api_fail_with(NULL, PCCL_FAMILY_REDUCE, PCCL_NOT_INITIALIZED, "pcclInit has not been called");
    if (!handle || !handle->comm)
        return pccl_api_fail_with(NULL, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle or its communicator is NULL");
    return pcclSuccess;
}

/* The operation a handle names. Under the lock. NULL: *status and the reason say why there is none. */
static struct pccl_comm_op *find(const pcclAsyncReduceOp_t *handle, enum pccl_status *status, struct pccl_text *reason)
{
    struct pccl_comm_op *operation = pccl_comm_op_find(handle->comm, handle->tag);
    *status = PCCL_ARGUMENT;
    if (operation)
        return operation;
    if (pccl_comm_is_connected(handle->comm->comm))
        pccl_text_format(reason, "no operation with tag %" PRIu64 " is launched; was it already awaited?", handle->tag);
    else
        *status = pccl_comm_why_unconnected(handle->comm->comm, reason);
    return NULL;
}

/* The same for a thread that will await it: one at a time. */
static struct pccl_comm_op *find_to_await(const pcclAsyncReduceOp_t *handle, enum pccl_status *status,
                                          struct pccl_text *reason)
{
    struct pccl_comm_op *operation = find(handle, status, reason);
    if (!operation || !operation->awaited)
        return operation;
    pccl_text_format(reason, "the operation with tag %" PRIu64 " is being awaited by another thread", handle->tag);
    return NULL;
}

static pcclResult_t await(const pcclAsyncReduceOp_t *handle, pcclReduceInfo_t *info_out)
{
    struct pccl_why why;
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status;
    pccl_why_clear(&why);
    pccl_comm_enter(handle->comm->comm);
    struct pccl_comm_op *operation = find_to_await(handle, &status, &why.reason);
    if (operation)
        status = pccl_comm_op_await(handle->comm->comm, operation, &info, &why);
    pccl_comm_leave(handle->comm->comm);
    if (status == PCCL_OK)
        pccl_api_reduce_info(&info, info_out);
    return pccl_api_operation_result(handle->comm, status, &why);
}

pcclResult_t pcclAwaitAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, pcclReduceInfo_t *reduce_info_out)
{
    pcclResult_t result = check_handle(reduce_handle);
    if (result != pcclSuccess)
        return result;
    const pcclAsyncReduceOp_t handle = *reduce_handle;
    PCCL_API_CALL(handle.comm, PCCL_FAMILY_REDUCE, await(&handle, reduce_info_out));
}

/* Waits, and ends it unless it is still under way then, which a reason says. Under the lock. */
static bool end_within(struct pccl_comm_op *operation, const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                       pcclOperationInfo_t *info, enum pccl_status *status, struct pccl_why *why)
{
    uint64_t deadline_us = timeout_ms == UINT32_MAX ? UINT64_MAX : pccl_now_us() + timeout_ms * UINT64_C(1000);
    if (pccl_comm_op_wait(handle->comm->comm, operation, deadline_us)) {
        *status = pccl_comm_op_end(handle->comm->comm, operation, info, why);
        return true;
    }
    why->details = operation->why.details;
    pccl_text_format(&why->reason, "the operation with tag %" PRIu64 " is still under way after %u ms", handle->tag,
                     timeout_ms);
    return false;
}

/* pcclTimeout has one meaning here; that the operation's own deadline passed is said like any other failure. */
static pcclResult_t result_within(const pcclComm_t *comm, bool ended, enum pccl_status status,
                                  const struct pccl_why *why)
{
    if (!ended)
        return pccl_errors_fail_why(comm->key, PCCL_FAMILY_REDUCE, true, PCCL_TIMEOUT, why);
    bool extended = comm->extended_results && status != PCCL_TIMEOUT;
    return status == PCCL_OK ? pcclSuccess : pccl_errors_fail_why(comm->key, PCCL_FAMILY_REDUCE, extended, status, why);
}

static pcclResult_t await_for(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms, pcclOperationInfo_t *info)
{
    struct pccl_why why;
    enum pccl_status status;
    bool ended = true;
    pccl_why_clear(&why);
    pccl_comm_enter(handle->comm->comm);
    struct pccl_comm_op *operation = find_to_await(handle, &status, &why.reason);
    if (operation)
        ended = end_within(operation, handle, timeout_ms, info, &status, &why);
    pccl_comm_leave(handle->comm->comm);
    return result_within(handle->comm, ended, status, &why);
}

pcclResult_t pccl_api_operation_for(pcclComm_t *comm, const struct pccl_op_args *args, uint32_t timeout_ms,
                                    pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why;
    struct pccl_comm_op *operation;
    bool ended = true;
    pccl_why_clear(&why);
    pccl_comm_enter(comm->comm);
    enum pccl_status status = pccl_comm_op_launch(comm, args, NULL, &operation, &why);
    bool launched = status == PCCL_OK;
    if (launched) {
        *handle = (pcclAsyncReduceOp_t){.comm = comm, .tag = operation->name};
        ended = end_within(operation, handle, timeout_ms, NULL, &status, &why);
    }
    pccl_comm_leave(comm->comm);
    return launched ? result_within(comm, ended, status, &why) : pccl_api_operation_result(comm, status, &why);
}

static pcclResult_t await_reduction_for(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                                        pcclReduceInfo_t *info_out)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    pcclResult_t result = await_for(handle, timeout_ms, &info);
    if (result == pcclSuccess)
        pccl_api_reduce_info(&info, info_out);
    return result;
}

pcclResult_t pcclAwaitAsyncReduceFor(const pcclAsyncReduceOp_t *reduce_handle, uint32_t timeout_ms,
                                     pcclReduceInfo_t *reduce_info_out)
{
    pcclResult_t result = check_handle(reduce_handle);
    if (result != pcclSuccess)
        return result;
    const pcclAsyncReduceOp_t handle = *reduce_handle;
    PCCL_API_CALL(handle.comm, PCCL_FAMILY_REDUCE, await_reduction_for(&handle, timeout_ms, reduce_info_out));
}

static pcclResult_t await_operation(const pcclAsyncReduceOp_t *handle, uint32_t timeout_ms,
                                    pcclOperationInfo_t *info_out)
{
    struct pccl_text reason;
    pcclOperationInfo_t info;
    enum pccl_status status = pccl_api_info_begin(info_out, &info, &reason);
    if (status != PCCL_OK)
        return pccl_api_fail(handle->comm, PCCL_FAMILY_REDUCE, status, &reason);
    pcclResult_t result = await_for(handle, timeout_ms, &info);
    if (result == pcclSuccess)
        pccl_api_info_end(&info, info_out);
    return result;
}

pcclResult_t pcclAwaitOperation(const pcclAsyncReduceOp_t *handle_in, uint32_t timeout_ms, pcclOperationInfo_t *info)
{
    pcclResult_t result = check_handle(handle_in);
    if (result != pcclSuccess)
        return result;
    const pcclAsyncReduceOp_t handle = *handle_in;
    PCCL_API_CALL(handle.comm, PCCL_FAMILY_REDUCE, await_operation(&handle, timeout_ms, info));
}

static pcclResult_t test(const pcclAsyncReduceOp_t *handle, bool *done)
{
    struct pccl_why why;
    enum pccl_status status;
    pccl_why_clear(&why);
    if (!done)
        return pccl_api_fail_with(handle->comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT,
                                  "pcclTestAsyncReduce: done_out is NULL");
    pccl_comm_enter(handle->comm->comm);
    const struct pccl_comm_op *operation = find(handle, &status, &why.reason);
    if (operation) {
        status = PCCL_OK;
        *done = operation->over;
    }
    pccl_comm_leave(handle->comm->comm);
    return pccl_api_operation_result(handle->comm, status, &why);
}

pcclResult_t pcclTestAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, bool *done_out)
{
    pcclResult_t result = check_handle(reduce_handle);
    if (result != pcclSuccess)
        return result;
    const pcclAsyncReduceOp_t handle = *reduce_handle;
    PCCL_API_CALL(handle.comm, PCCL_FAMILY_REDUCE, test(&handle, done_out));
}

/* ---- all of a communicator ---- */

static pcclResult_t abort_all(pcclComm_t *comm)
{
    struct pccl_why why;
    enum pccl_status status = PCCL_OK;
    pccl_why_clear(&why);
    pccl_comm_enter(comm->comm);
    if (pccl_comm_is_connected(comm->comm))
        pccl_comm_ops_abort(comm);
    else
        status = pccl_comm_why_unconnected(comm->comm, &why.reason);
    pccl_comm_leave(comm->comm);
    return pccl_api_operation_result(comm, status, &why);
}

pcclResult_t pcclAbortOperations(pcclComm_t *comm) { PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, abort_all(comm)); }
