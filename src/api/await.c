/* Public functions of handles: await, poll and abort operations. */
#include "api/api.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

/* ---- handles ---- */

/* Returns a copy of the handle. NULL becomes a handle without a communicator. */
static pcclAsyncReduceOp_t copy_of(const pcclAsyncReduceOp_t *handle)
{
    return handle ? *handle : (pcclAsyncReduceOp_t){0};
}

/* Returns the operation of a handle, or NULL with a status and a reason. Caller holds the lock. */
static struct pccl_comm_op *find(struct pccl_api_call *call, uint64_t tag, enum pccl_status *status)
{
    struct pccl_comm_op *operation = pccl_comm_op_find(call->handle, tag);
    if (operation)
        *status = PCCL_OK;
    else if (pccl_comm_is_connected(call->comm))
        *status = pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                            "no operation with tag %" PRIu64 " is outstanding; was it already awaited?", tag);
    else
        *status = pccl_comm_why_unconnected(call->comm, &call->why.reason);
    return operation;
}

enum pccl_status pccl_api_end_within(struct pccl_api_call *call, struct pccl_comm_op *operation, uint32_t timeout_ms,
                                     pcclOperationInfo_t *info)
{
    uint64_t deadline_us = timeout_ms == UINT32_MAX ? UINT64_MAX : pccl_now_us() + timeout_ms * UINT64_C(1000);
    const uint64_t tag = operation->name;
    if (pccl_comm_op_wait(call->comm, operation, deadline_us)) {
        enum pccl_status status = pccl_comm_op_end(call->comm, operation, info, &call->why);
        call->extended = call->extended && status != PCCL_TIMEOUT; /* TIMEOUT is the operation's deadline, not ours */
        return status;
    }
    call->why.details = pccl_comm_op_details(operation);
    call->extended = true;
    return pccl_fail(&call->why.reason, PCCL_TIMEOUT, "the operation with tag %" PRIu64 " is still running after %u ms",
                     tag, timeout_ms);
}

/* Awaits an operation, without a limit if `timeout_ms` is NULL. Only one thread may await it at a time. */
static enum pccl_status await(struct pccl_api_call *call, uint64_t tag, const uint32_t *timeout_ms,
                              pcclOperationInfo_t *info)
{
    enum pccl_status status;
    pccl_comm_enter(call->comm);
    struct pccl_comm_op *operation = find(call, tag, &status);
    if (operation && operation->awaited) {
        status = pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                           "another thread is already awaiting the operation with tag %" PRIu64, tag);
    } else if (operation) {
        pccl_comm_drive_for(call->comm, operation);
        status = timeout_ms ? pccl_api_end_within(call, operation, *timeout_ms, info)
                            : pccl_comm_op_await(call->comm, operation, info, &call->why);
        pccl_comm_drive_over(call->comm);
    }
    pccl_comm_leave(call->comm);
    return status;
}

static enum pccl_status await_reduction(struct pccl_api_call *call, uint64_t tag, const uint32_t *timeout_ms,
                                        pcclReduceInfo_t *info_out)
{
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status = await(call, tag, timeout_ms, &info);
    if (status == PCCL_OK)
        pccl_api_reduce_info(&info, info_out);
    return status;
}

pcclResult_t pcclAwaitAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, pcclReduceInfo_t *reduce_info_out)
{
    const pcclAsyncReduceOp_t handle = copy_of(reduce_handle);
    PCCL_API_CALL(OPERATION, handle.comm, PCCL_FAMILY_REDUCE, await_reduction(call, handle.tag, NULL, reduce_info_out));
}

pcclResult_t pcclAwaitAsyncReduceFor(const pcclAsyncReduceOp_t *reduce_handle, uint32_t timeout_ms,
                                     pcclReduceInfo_t *reduce_info_out)
{
    const pcclAsyncReduceOp_t handle = copy_of(reduce_handle);
    PCCL_API_CALL(OPERATION, handle.comm, PCCL_FAMILY_REDUCE,
                  await_reduction(call, handle.tag, &timeout_ms, reduce_info_out));
}

static enum pccl_status await_operation(struct pccl_api_call *call, uint64_t tag, uint32_t timeout_ms,
                                        pcclOperationInfo_t *info_out)
{
    pcclOperationInfo_t info;
    enum pccl_status status = pccl_api_info_begin(info_out, &info, &call->why.reason);
    if (status == PCCL_OK)
        status = await(call, tag, &timeout_ms, &info);
    if (status == PCCL_OK)
        pccl_api_info_end(&info, info_out);
    return status;
}

pcclResult_t pcclAwaitOperation(const pcclAsyncReduceOp_t *handle_in, uint32_t timeout_ms, pcclOperationInfo_t *info)
{
    const pcclAsyncReduceOp_t handle = copy_of(handle_in);
    PCCL_API_CALL(OPERATION, handle.comm, PCCL_FAMILY_REDUCE, await_operation(call, handle.tag, timeout_ms, info));
}

static enum pccl_status test(struct pccl_api_call *call, uint64_t tag, bool *done)
{
    enum pccl_status status;
    if (!done)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclTestAsyncReduce: done_out is NULL");
    pccl_comm_enter(call->comm);
    const struct pccl_comm_op *operation = find(call, tag, &status);
    if (operation)
        *done = operation->over;
    pccl_comm_leave(call->comm);
    return status;
}

pcclResult_t pcclTestAsyncReduce(const pcclAsyncReduceOp_t *reduce_handle, bool *done_out)
{
    const pcclAsyncReduceOp_t handle = copy_of(reduce_handle);
    PCCL_API_CALL(OPERATION, handle.comm, PCCL_FAMILY_REDUCE, test(call, handle.tag, done_out));
}

/* ---- all operations of a communicator ---- */

static enum pccl_status abort_all(struct pccl_api_call *call)
{
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(call->comm);
    if (pccl_comm_is_connected(call->comm))
        pccl_comm_ops_abort(call->handle);
    else
        status = pccl_comm_why_unconnected(call->comm, &call->why.reason);
    pccl_comm_leave(call->comm);
    return status;
}

pcclResult_t pcclAbortOperations(pcclComm_t *comm) { PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, abort_all(call)); }
