/* Public functions of reductions, and of all handles: launch, await, poll, abort, and the list with retries. */
#include "api/list.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

pcclResult_t pccl_api_operation_result(const pcclComm_t *comm, enum pccl_status status, const struct pccl_why *why)
{
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail_why(comm, PCCL_FAMILY_REDUCE, status, why);
}

/* ---- launch ---- */

enum pccl_status pccl_api_operation(pcclComm_t *comm, const struct pccl_op_args *args, pcclOperationInfo_t *info,
                                    struct pccl_why *why)
{
    struct pccl_comm_op *operation;
    pccl_comm_enter(comm->comm);
    enum pccl_status status = pccl_comm_op_launch(comm, args, NULL, &operation, why);
    if (status == PCCL_OK)
        status = pccl_comm_op_await(comm->comm, operation, info, why);
    pccl_comm_leave(comm->comm);
    return status;
}

enum pccl_status pccl_api_launch(pcclComm_t *comm, const struct pccl_op_args *args, uint64_t *name,
                                 struct pccl_why *why)
{
    struct pccl_comm_op *operation;
    pccl_comm_enter(comm->comm);
    enum pccl_status status = pccl_comm_op_launch(comm, args, NULL, &operation, why);
    if (status == PCCL_OK)
        *name = operation->name;
    pccl_comm_leave(comm->comm);
    return status;
}

static pcclResult_t launch(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                           pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why = {0};
    struct pccl_op_args args;
    uint64_t name = 0;
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args_reduction(sendbuf, recvbuf, descriptor, &args, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_launch(comm, &args, &name, &why);
    if (status == PCCL_OK)
        *handle = (pcclAsyncReduceOp_t){.comm = comm, .tag = name};
    return pccl_api_operation_result(comm, status, &why);
}

pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                const pcclComm_t *comm_const, pcclAsyncReduceOp_t *reduce_handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, launch(sendbuf, recvbuf, descriptor, comm, reduce_handle_out));
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

static void reduce_info(const pcclOperationInfo_t *info, pcclReduceInfo_t *info_out)
{
    if (info_out)
        *info_out =
            (pcclReduceInfo_t){.local_world_size = info->world, .tx_bytes = info->tx_bytes, .rx_bytes = info->rx_bytes};
}

static pcclResult_t await(const pcclAsyncReduceOp_t *handle, pcclReduceInfo_t *info_out)
{
    struct pccl_why why = {0};
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status;
    pccl_comm_enter(handle->comm->comm);
    struct pccl_comm_op *operation = find_to_await(handle, &status, &why.reason);
    if (operation)
        status = pccl_comm_op_await(handle->comm->comm, operation, &info, &why);
    pccl_comm_leave(handle->comm->comm);
    if (status == PCCL_OK)
        reduce_info(&info, info_out);
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
    struct pccl_why why = {0};
    enum pccl_status status;
    bool ended = true;
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
    struct pccl_why why = {0};
    struct pccl_comm_op *operation;
    bool ended = true;
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
        reduce_info(&info, info_out);
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
    struct pccl_why why = {0};
    enum pccl_status status;
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
    struct pccl_why why = {0};
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(comm->comm);
    if (pccl_comm_is_connected(comm->comm))
        pccl_comm_ops_abort(comm);
    else
        status = pccl_comm_why_unconnected(comm->comm, &why.reason);
    pccl_comm_leave(comm->comm);
    return pccl_api_operation_result(comm, status, &why);
}

pcclResult_t pcclAbortOperations(pcclComm_t *comm) { PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, abort_all(comm)); }

/* ---- blocking ---- */

static pcclResult_t all_reduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                               pcclComm_t *comm, pcclReduceInfo_t *info_out)
{
    struct pccl_why why = {0};
    struct pccl_op_args args;
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status = pccl_api_op_args_reduction(sendbuf, recvbuf, descriptor, &args, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_operation(comm, &args, &info, &why);
    if (status == PCCL_OK)
        reduce_info(&info, info_out);
    return pccl_api_operation_result(comm, status, &why);
}

pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                           const pcclComm_t *comm_const, pcclReduceInfo_t *reduce_info_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, all_reduce(sendbuf, recvbuf, descriptor, comm, reduce_info_out));
}

static enum pccl_status run_list(struct pccl_api_list *list, const pcclReduceOpDescriptor_t *descriptors,
                                 struct pccl_why *why)
{
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceOpDescriptor_t *op = &descriptors[i];
        enum pccl_status status =
            pccl_api_op_args_reduction(op->sendbuf, op->recvbuf, &op->descriptor, &list->entries[i].args, &why->reason);
        if (status != PCCL_OK) {
            pccl_api_list_name_entry(i, &why->reason);
            return status;
        }
    }
    enum pccl_status status = pccl_api_list_begin(list, why);
    if (status != PCCL_OK)
        return status;
    bool rebuild_due = pccl_api_list_go_on(list);
    PCCL_ASSERT(!rebuild_due);
    return pccl_api_list_end(list, why);
}

static pcclResult_t reduce_list(const pcclReduceOpDescriptor_t *descriptors, size_t count, pcclComm_t *comm,
                                pcclReduceInfo_t *info_out, int max_in_flight)
{
    const char *wrong = !descriptors         ? "descriptors is NULL"
                        : count == 0         ? "the list is empty"
                        : max_in_flight <= 0 ? "max_in_flight is less than 1"
                                             : NULL;
    if (wrong)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, wrong);
    struct pccl_why why = {0};
    struct pccl_api_list list;
    enum pccl_status status = pccl_api_list_init(&list, comm, count, &why.reason);
    list.max_in_flight = (uint32_t)max_in_flight;
    if (status == PCCL_OK)
        status = run_list(&list, descriptors, &why);
    if (info_out && (status == PCCL_OK || status == PCCL_TOO_FEW_PEERS))
        *info_out = list.sum;
    pccl_api_list_fini(&list);
    return pccl_api_operation_result(comm, status, &why);
}

pcclResult_t pcclAllReduceMultipleWithRetry(const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                            const pcclComm_t *comm_const, pcclReduceInfo_t *reduce_info_out,
                                            int max_in_flight)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, reduce_list(descriptors, count, comm, reduce_info_out, max_in_flight));
}
