/*
 * Public functions that launch operations: pcclStart and pcclPerform, the functions of one kind each, which fill in
 * their struct, and the reductions of PCCL 1.0.
 */
#include "api/list.h"
#include "drive/comm_blobs.h"
#include "drive/comm_machine.h"
#include "drive/comm_op.h"

static pcclResult_t perform(pcclOperation_t *operation, pcclComm_t *comm, pcclOperationInfo_t *info_out)
{
    struct pccl_why why;
    struct pccl_op_args args;
    struct pccl_comm_op *launched;
    pcclOperationInfo_t info;
    pccl_why_clear(&why);
    enum pccl_status status = pccl_api_op_args(operation, &args, &why.reason);
    if (status == PCCL_OK)
        status = pccl_api_info_begin(info_out, &info, &why.reason);
    if (status == PCCL_OK) {
        pccl_comm_enter(comm->comm);
        status = pccl_comm_op_launch(comm, &args, NULL, &launched, &why);
        if (status == PCCL_OK)
            status = pccl_comm_op_await(comm->comm, launched, &info, &why);
        pccl_comm_leave(comm->comm);
    }
    if (status == PCCL_OK)
        pccl_api_info_end(&info, info_out);
    pccl_api_op_args_free(&args);
    return pccl_api_operation_result(comm, status, &why);
}

static pcclResult_t start(pcclOperation_t *operation, pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why;
    struct pccl_op_args args;
    struct pccl_comm_op *launched;
    pccl_why_clear(&why);
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args(operation, &args, &why.reason);
    if (status == PCCL_OK) {
        pccl_comm_enter(comm->comm);
        status = pccl_comm_op_launch(comm, &args, NULL, &launched, &why);
        if (status == PCCL_OK)
            *handle = (pcclAsyncReduceOp_t){.comm = comm, .tag = launched->name};
        pccl_comm_leave(comm->comm);
    }
    pccl_api_op_args_free(&args);
    return pccl_api_operation_result(comm, status, &why);
}

static pcclResult_t perform_for(pcclOperation_t *operation, pcclComm_t *comm, uint32_t timeout_ms,
                                pcclAsyncReduceOp_t *handle)
{
    struct pccl_why why;
    struct pccl_op_args args;
    pccl_why_clear(&why);
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_op_args(operation, &args, &why.reason);
    pcclResult_t result = status == PCCL_OK ? pccl_api_operation_for(comm, &args, timeout_ms, handle)
                                            : pccl_api_operation_result(comm, status, &why);
    pccl_api_op_args_free(&args);
    return result;
}

/* ---- any operation ---- */

static enum pccl_status read_operation(const pcclOperation_t *given, pcclOperation_t *operation,
                                       struct pccl_text *reason)
{
    if (!given)
        return pccl_api_refuse(reason, "operation is NULL");
    enum pccl_status status = pccl_api_struct_read(given, operation, sizeof *operation, "PCCL_OPERATION_INIT", reason);
    if (status == PCCL_OK && operation->info)
        return pccl_api_refuse(reason, "only an operation of a list has its info as a member");
    return status;
}

static pcclResult_t perform_given(const pcclOperation_t *given, pcclComm_t *comm, pcclOperationInfo_t *info)
{
    struct pccl_text reason;
    pcclOperation_t operation;
    enum pccl_status status = read_operation(given, &operation, &reason);
    return status == PCCL_OK ? perform(&operation, comm, info)
                             : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &reason);
}

pcclResult_t pcclPerform(const pcclOperation_t *operation, const pcclComm_t *comm_const, pcclOperationInfo_t *info)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, perform_given(operation, comm, info));
}

static pcclResult_t start_given(const pcclOperation_t *given, pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    struct pccl_text reason;
    pcclOperation_t operation;
    enum pccl_status status = read_operation(given, &operation, &reason);
    return status == PCCL_OK ? start(&operation, comm, handle)
                             : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &reason);
}

pcclResult_t pcclStart(const pcclOperation_t *operation, const pcclComm_t *comm_const, pcclAsyncReduceOp_t *handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, start_given(operation, comm, handle_out));
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

/* ---- functions of one kind each ---- */

/* Parameters that several functions have, and the members of pcclOperation_t that they set. */
#define ELEMENTS const void *sendbuf, void *recvbuf, size_t count, pcclDataType_t datatype,
#define SET_ELEMENTS .sendbuf = sendbuf, .recvbuf = recvbuf, .count = count, .datatype = datatype
#define BLOBS , pcclBlobs_t *blobs
#define DATA const void *data, size_t length,
#define SET_DATA .sendbuf = data, .count = length, .blobs = blobs
#define PARTS const pcclPart_t *parts, size_t count,
#define SET_PARTS .sendbuf = parts, .count = count, .blobs = blobs
#define TENSORS const pcclCoalescedTensor_t *tensors, size_t count,

/* Each with Async: name, kind, parameters before the options, parameters behind comm, and members that they set. */
#define OPERATIONS(X)                                                                                                  \
    X(pcclAllReduceWithOptions, AllReduce, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                  \
    X(pcclAllReduceCoalesced, Coalesced, (TENSORS), (), (.sendbuf = tensors, .count = count))                          \
    X(pcclBroadcast, Broadcast, (void *buffer, size_t count, pcclDataType_t datatype, uint32_t root, ), (),            \
      (.recvbuf = buffer, .count = count, .datatype = datatype, .root = root))                                         \
    X(pcclAllGather, AllGather, (ELEMENTS), (), (SET_ELEMENTS))                                                        \
    X(pcclReduceScatter, ReduceScatter, (ELEMENTS pcclRedOp_t op, ), (), (SET_ELEMENTS, .op = op))                     \
    X(pcclReduce, Reduce, (ELEMENTS pcclRedOp_t op, uint32_t root, ), (), (SET_ELEMENTS, .op = op, .root = root))      \
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
#define DEFINE(name, kind, given, behind, members, first, call)                                                        \
    pcclResult_t name(UNWRAP given const pcclCollectiveOptions_t *options, const pcclComm_t *comm_const UNWRAP behind) \
    {                                                                                                                  \
        pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;                                                        \
        pcclOperation_t operation = {                                                                                  \
            .size = sizeof operation, .collective = pcclCollective##kind, .options = options, UNWRAP members};         \
        first;                                                                                                         \
        PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, call);                                                                 \
    }
#define DEFINE_PAIR(name, kind, given, behind, members)                                                                \
    DEFINE(name, kind, given, (UNWRAP behind, pcclOperationInfo_t * info), members, , perform(&operation, comm, info)) \
    DEFINE(name##Async, kind, given, (UNWRAP behind, pcclAsyncReduceOp_t * handle), members, ,                         \
           start(&operation, comm, handle))
OPERATIONS(DEFINE_PAIR)

static void forget(pcclAsyncReduceOp_t *handle)
{
    if (handle)
        *handle = (pcclAsyncReduceOp_t){0};
}

DEFINE(pcclAllReduceWithOptionsFor, AllReduce, (ELEMENTS pcclRedOp_t op, ),
       (, uint32_t timeout_ms, pcclAsyncReduceOp_t *handle), (SET_ELEMENTS, .op = op), forget(handle),
       perform_for(&operation, comm, timeout_ms, handle))

/* ---- reductions of PCCL 1.0 ---- */

static pcclResult_t all_reduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                               pcclComm_t *comm, pcclReduceInfo_t *info_out)
{
    struct pccl_text reason;
    pcclCollectiveOptions_t options;
    pcclOperation_t operation;
    pcclOperationInfo_t info = PCCL_OPERATION_INFO_INIT;
    enum pccl_status status = pccl_api_reduction(sendbuf, recvbuf, descriptor, &options, &operation, &reason);
    if (status != PCCL_OK)
        return pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &reason);
    pcclResult_t result = perform(&operation, comm, &info);
    if (result == pcclSuccess)
        pccl_api_reduce_info(&info, info_out);
    return result;
}

pcclResult_t pcclAllReduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                           const pcclComm_t *comm_const, pcclReduceInfo_t *reduce_info_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, all_reduce(sendbuf, recvbuf, descriptor, comm, reduce_info_out));
}

static pcclResult_t start_all_reduce(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                     pcclComm_t *comm, pcclAsyncReduceOp_t *handle)
{
    struct pccl_text reason;
    pcclCollectiveOptions_t options;
    pcclOperation_t operation;
    if (!handle)
        return pccl_api_fail_with(comm, PCCL_FAMILY_REDUCE, PCCL_ARGUMENT, "the handle is NULL");
    enum pccl_status status = pccl_api_reduction(sendbuf, recvbuf, descriptor, &options, &operation, &reason);
    return status == PCCL_OK ? start(&operation, comm, handle)
                             : pccl_api_fail(comm, PCCL_FAMILY_REDUCE, status, &reason);
}

pcclResult_t pcclAllReduceAsync(const void *sendbuf, void *recvbuf, const pcclReduceDescriptor_t *descriptor,
                                const pcclComm_t *comm_const, pcclAsyncReduceOp_t *reduce_handle_out)
{
    pcclComm_t *comm = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(comm, PCCL_FAMILY_REDUCE, start_all_reduce(sendbuf, recvbuf, descriptor, comm, reduce_handle_out));
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
