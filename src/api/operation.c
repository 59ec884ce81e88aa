/*
 * Public functions that launch operations: pcclStart and pcclPerform, a function for each collective that fills in
 * their struct, and the reductions of PCCL 1.0.
 */
#include "api/list.h"
#include "drive/comm_blobs.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

static enum pccl_status perform(struct pccl_api_call *call, pcclOperation_t *operation, pcclOperationInfo_t *info_out)
{
    struct pccl_op_args args;
    struct pccl_comm_op *launched;
    pcclOperationInfo_t info;
    enum pccl_status status = pccl_api_op_args(operation, &args, &call->why.reason);
    if (status == PCCL_OK)
        status = pccl_api_info_begin(info_out, &info, &call->why.reason);
    if (status == PCCL_OK) {
        pccl_comm_enter(call->comm);
        pccl_comm_drive_next(call->comm);
        status = pccl_comm_op_launch(call->handle, &args, NULL, &launched, &call->why);
        if (status == PCCL_OK)
            status = pccl_comm_op_await(call->comm, launched, &info, &call->why);
        pccl_comm_drive_over(call->comm);
        pccl_comm_leave(call->comm);
    }
    if (status == PCCL_OK)
        pccl_api_info_end(&info, info_out);
    pccl_api_op_args_free(&args);
    return status;
}

/* Launches an operation. If `timeout_ms` is not NULL, also awaits it for at most that time. */
static enum pccl_status launch(struct pccl_api_call *call, pcclOperation_t *operation, const uint32_t *timeout_ms,
                               pcclAsyncReduceOp_t *handle)
{
    struct pccl_op_args args;
    struct pccl_comm_op *launched;
    if (!handle)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args(operation, &args, &call->why.reason);
    if (status == PCCL_OK) {
        pccl_comm_enter(call->comm);
        if (timeout_ms)
            pccl_comm_drive_next(call->comm);
        status = pccl_comm_op_launch(call->handle, &args, NULL, &launched, &call->why);
        if (status == PCCL_OK)
            *handle = (pcclAsyncReduceOp_t){.comm = call->handle, .tag = launched->name};
        if (status == PCCL_OK && timeout_ms)
            status = pccl_api_end_within(call, launched, *timeout_ms, NULL);
        pccl_comm_drive_over(call->comm);
        pccl_comm_leave(call->comm);
    }
    pccl_api_op_args_free(&args);
    return status;
}

static enum pccl_status start(struct pccl_api_call *call, pcclOperation_t *operation, pcclAsyncReduceOp_t *handle)
{
    return launch(call, operation, NULL, handle);
}

/* ---- any operation ---- */

static enum pccl_status read_operation(const pcclOperation_t *given, pcclOperation_t *operation,
                                       struct pccl_text *reason)
{
    if (!given)
        return pccl_fail(reason, PCCL_ARGUMENT, "operation is NULL");
    enum pccl_status status = pccl_api_struct_read(given, operation, sizeof *operation, "PCCL_OPERATION_INIT", reason);
    if (status == PCCL_OK && operation->info)
        return pccl_fail(reason, PCCL_ARGUMENT, "info in the struct is only for operations of pcclRunOperations");
    return status;
}

static enum pccl_status perform_given(struct pccl_api_call *call, const pcclOperation_t *given,
                                      pcclOperationInfo_t *info)
{
    pcclOperation_t operation;
    enum pccl_status status = read_operation(given, &operation, &call->why.reason);
    return status == PCCL_OK ? perform(call, &operation, info) : status;
}

pcclResult_t pcclPerform(const pcclOperation_t *operation, const pcclComm_t *comm, pcclOperationInfo_t *info)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, perform_given(call, operation, info));
}

static enum pccl_status start_given(struct pccl_api_call *call, const pcclOperation_t *given,
                                    pcclAsyncReduceOp_t *handle)
{
    pcclOperation_t operation;
    enum pccl_status status = read_operation(given, &operation, &call->why.reason);
    return status == PCCL_OK ? start(call, &operation, handle) : status;
}

pcclResult_t pcclStart(const pcclOperation_t *operation, const pcclComm_t *comm, pcclAsyncReduceOp_t *handle_out)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, start_given(call, operation, handle_out));
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

/* ---- one function per collective ---- */

/* Parameters shared by several functions, and the fields of pcclOperation_t that they set. */
#define ELEMENTS const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
#define SET_ELEMENTS .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count, .datatype = datatype
#define BLOBS , pcclBlobs_t *blobs
#define DATA const void *data, size_t length,
#define SET_DATA .sendbuf = data, .count = length, .blobs = blobs
#define PARTS const pcclPart_t *parts, size_t count,
#define SET_PARTS .sendbuf = parts, .count = count, .blobs = blobs
#define TENSORS const pcclCoalescedTensor_t *tensors, size_t count,

/*
 * Table of functions, each with an Async variant: name, kind, parameters before the options, parameters after comm, and
 * the fields that the parameters set.
 */
#define OPERATIONS(X)                                                                                                  \
    X(pcclAllReduceWithOptions, AllReduce, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                  \
    X(pcclAllReduceCoalesced, Coalesced, (TENSORS), (), (.sendbuf = tensors, .count = count))                          \
    X(pcclBroadcast, Broadcast, (void *buffer, size_t count, pcclDataType_t datatype, uint32_t root, ), (),            \
      (.recvbuf = buffer, .count = count, .datatype = datatype, .root = root))                                         \
    X(pcclAllGather, AllGather, (ELEMENTS), (), (SET_ELEMENTS))                                                        \
    X(pcclReduceScatter, ReduceScatter, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                     \
    X(pcclReduce, Reduce, (ELEMENTS pcclRedOp_t op, uint32_t root, ), (), (SET_ELEMENTS, .op = op, .root = root))      \
    X(pcclExclusiveScan, ExclusiveScan, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                     \
    X(pcclInclusiveScan, InclusiveScan, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                     \
    X(pcclGather, Gather, (ELEMENTS uint32_t root, ), (), (SET_ELEMENTS, .root = root))                                \
    X(pcclScatter, Scatter, (ELEMENTS uint32_t root, ), (), (SET_ELEMENTS, .root = root))                              \
    X(pcclAllToAll, AllToAll, (ELEMENTS), (), (SET_ELEMENTS))                                                          \
    X(pcclSend, Send, (const void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer, ), (),                \
      (.sendbuf = buffer, .count = count, .datatype = datatype, .root = peer))                                         \
    X(pcclRecv, Recv, (void *buffer, size_t count, pcclDataType_t datatype, uint32_t peer, ), (),                      \
      (.recvbuf = buffer, .count = count, .datatype = datatype, .root = peer))                                         \
    X(pcclBarrier, Barrier, (), (), ())                                                                                \
    X(pcclAllGatherV, AllGatherV, (DATA), (BLOBS), (SET_DATA))                                                         \
    X(pcclGatherV, GatherV, (DATA uint32_t root, ), (BLOBS), (SET_DATA, .root = root))                                 \
    X(pcclScatterV, ScatterV, (PARTS uint32_t root, ), (BLOBS), (SET_PARTS, .root = root))                             \
    X(pcclAllToAllV, AllToAllV, (PARTS), (BLOBS), (SET_PARTS))

#define UNWRAP(...) __VA_ARGS__
#define DEFINE(name, kind, given, behind, members, first, body)                                                        \
    pcclResult_t name(UNWRAP given const pcclCollectiveOptions_t *options, const pcclComm_t *comm UNWRAP behind)       \
    {                                                                                                                  \
        pcclOperation_t operation = {                                                                                  \
            .size = sizeof operation, .collective = pcclCollective##kind, .options = options, UNWRAP members};         \
        first;                                                                                                         \
        PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, body);                                                            \
    }
#define DEFINE_PAIR(name, kind, given, behind, members)                                                                \
    DEFINE(name, kind, given, (UNWRAP behind, pcclOperationInfo_t * info), members, , perform(call, &operation, info)) \
    DEFINE(name##Async, kind, given, (UNWRAP behind, pcclAsyncReduceOp_t * handle), members, ,                         \
           start(call, &operation, handle))
OPERATIONS(DEFINE_PAIR)

static void forget(pcclAsyncReduceOp_t *handle)
{
    if (handle)
        *handle = (pcclAsyncReduceOp_t){0};
}

DEFINE(pcclAllReduceWithOptionsFor, AllReduce, (ELEMENTS pcclRedOp_t op, ),
       (, uint32_t timeout_ms, pcclAsyncReduceOp_t *handle), (SET_ELEMENTS, .op = op), forget(handle),
       launch(call, &operation, &timeout_ms, handle))

/* ---- reductions of PCCL 1.0 ---- */

static enum pccl_status all_reduce(struct pccl_api_call *call, const void *sendbuf, void *recvbuf,
                                   const pcclReduceDescriptor_t *descriptor, pcclReduceInfo_t *info_out)
{
    pcclCollectiveOptions_t options;
    pcclOperation_t operation;
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status = pccl_api_reduction(sendbuf, recvbuf, descriptor, &options, &operation, &call->why.reason);
    if (status == PCCL_OK)
        status = perform(call, &operation, &info);
    if (status == PCCL_OK)
        pccl_api_reduce_info(&info, info_out);
    return status;
}

pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                           const pcclComm_t *comm, pcclReduceInfo_t *reduce_info_out)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, all_reduce(call, sendbuf, recvbuf, descriptor, reduce_info_out));
}

static enum pccl_status start_all_reduce(struct pccl_api_call *call, const void *sendbuf, void *recvbuf,
                                         const pcclReduceDescriptor_t *descriptor, pcclAsyncReduceOp_t *handle)
{
    pcclCollectiveOptions_t options;
    pcclOperation_t operation;
    if (!handle)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_reduction(sendbuf, recvbuf, descriptor, &options, &operation, &call->why.reason);
    return status == PCCL_OK ? start(call, &operation, handle) : status;
}

pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                const pcclComm_t *comm, pcclAsyncReduceOp_t *reduce_handle_out)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE,
                  start_all_reduce(call, sendbuf, recvbuf, descriptor, reduce_handle_out));
}

static enum pccl_status run_list(struct pccl_api_list *list, const pcclReduceOpDescriptor_t *descriptors,
                                 struct pccl_why *why)
{
    for (size_t i = 0; i < list->count; i++) {
        const pcclReduceOpDescriptor_t *given = &descriptors[i];
        pcclCollectiveOptions_t options;
        pcclOperation_t op;
        enum pccl_status status =
            pccl_api_reduction(given->sendbuf, given->recvbuf, &given->descriptor, &options, &op, &why->reason);
        if (status == PCCL_OK)
            status = pccl_api_op_args(&op, &list->entries[i].args, &why->reason);
        if (status != PCCL_OK) {
            pccl_api_list_name_entry(i, &why->reason);
            return status;
        }
    }
    enum pccl_status status = pccl_api_list_begin(list, why);
    if (status != PCCL_OK)
        return status;
    bool rebuild_due = pccl_api_list_continue(list);
    PCCL_ASSERT(!rebuild_due);
    return pccl_api_list_end(list, why);
}

static enum pccl_status reduce_list(struct pccl_api_call *call, const pcclReduceOpDescriptor_t *descriptors,
                                    size_t count, pcclReduceInfo_t *info_out, int max_in_flight)
{
    const char *wrong = !descriptors         ? "descriptors is NULL"
                        : count == 0         ? "the list is empty"
                        : max_in_flight <= 0 ? "max_in_flight is less than 1"
                                             : NULL;
    if (wrong)
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "%s", wrong);
    struct pccl_api_list list;
    enum pccl_status status = pccl_api_list_init(&list, call->handle, count, &call->why.reason);
    list.max_in_flight = (uint32_t)max_in_flight;
    if (status == PCCL_OK)
        status = run_list(&list, descriptors, &call->why);
    if (info_out && (status == PCCL_OK || status == PCCL_TOO_FEW_PEERS))
        *info_out = list.sum;
    pccl_api_list_fini(&list);
    return status;
}

pcclResult_t pcclAllReduceMultipleWithRetry(const pcclReduceOpDescriptor_t *descriptors, size_t count,
                                            const pcclComm_t *comm, pcclReduceInfo_t *reduce_info_out,
                                            int max_in_flight)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_REDUCE, reduce_list(call, descriptors, count, reduce_info_out, max_in_flight));
}
