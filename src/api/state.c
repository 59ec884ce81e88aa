/* pcclSynchronizeSharedState: checks its arguments, runs it and reports its result. */
#include "api/api.h"
#include "drive/comm_links.h"
#include "drive/comm_engine.h"
#include "drive/comm_broken.h"
#include "drive/comm_machine.h"
#include "drive/comm_sync.h"
#include "drive/comm_topology.h"
#include "os/cpu.h"
#include "kernels/kernels.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "state/lines.h"
#include "sync/synchronizer.h"

#include <stdlib.h>
#include <string.h>

/* ---- arguments ---- */

static const char *what_is_wrong(const pcclTensorInfo_t *tensor)
{
    if (!tensor->name || !tensor->name[0])
        return "the name is missing";
    if (!tensor->data && tensor->count > 0)
        return "it has elements but its data is NULL";
    if ((unsigned)tensor->datatype >= PCCL_DATATYPES)
        return "it has an unknown data type";
    if (tensor->count > (uint64_t)INT64_MAX / pccl_datatype_bytes((enum pccl_datatype)tensor->datatype))
        return "it has too many elements";
    if (tensor->device_type != pcclDeviceCpu && tensor->device_type != pcclDeviceCuda)
        return "it is on an unknown device";
    return NULL;
}

/* Finds the device of a tensor, and checks that the tensor's memory is on it. */
static enum pccl_status take_device(const pcclTensorInfo_t *info, struct pccl_sync_tensor *tensor,
                                    struct pccl_text *reason)
{
    struct pccl_text why;
    if (info->device_type == pcclDeviceCpu || info->count == 0)
        return PCCL_OK;
    enum pccl_status status = pccl_device_cuda(&tensor->device, &why);
    if (status == PCCL_OK)
        status = pccl_device_check(tensor->device, tensor->data, tensor->bytes, &why);
    if (status == PCCL_OK)
        return PCCL_OK;
    return pccl_fail(reason, PCCL_ARGUMENT, "tensor '%s' is declared as CUDA device memory: %s", info->name, why.bytes);
}

static enum pccl_status take_tensors(const pcclSharedState_t *state, struct pccl_sync_tensor *tensors,
                                     struct pccl_text *reason)
{
    for (size_t i = 0; i < state->count; i++) {
        const pcclTensorInfo_t *info = &state->infos[i];
        const char *wrong = what_is_wrong(info);
        if (wrong)
            return pccl_fail(reason, PCCL_ARGUMENT, "tensor %zu, '%s': %s", i, info->name ? info->name : "", wrong);
        tensors[i] = (struct pccl_sync_tensor){
            .name = info->name,
            .data = info->data,
            .count = info->count,
            .bytes = info->count * pccl_datatype_bytes((enum pccl_datatype)info->datatype),
            .datatype = (uint8_t)info->datatype,
            .unequal = info->allow_content_inequality,
        };
        enum pccl_status status = take_device(info, &tensors[i], reason);
        if (status != PCCL_OK)
            return status;
    }
    return PCCL_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pccl_status check_names(const struct pccl_sync_tensor *tensors, size_t count, struct pccl_text *reason)
{
    size_t bytes = count * sizeof(const char *);
    const char **names = pccl_allocate(pccl_heap(), bytes + 1);
    enum pccl_status status = PCCL_OK;
    if (!names)
        return PCCL_MEMORY;
    for (size_t i = 0; i < count; i++)
        names[i] = tensors[i].name;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count && status == PCCL_OK; i++) {
        if (strcmp(names[i - 1], names[i]) != 0)
            continue;
        status = pccl_fail(reason, PCCL_ARGUMENT, "duplicate tensor name '%s'", names[i]);
    }
    pccl_release(pccl_heap(), names, bytes + 1);
    return status;
}

static enum pccl_status check_state(const pcclSharedState_t *state, pcclSharedStateSyncStrategy_t strategy,
                                    struct pccl_text *reason)
{
    pccl_text_clear(reason);
    if (!state)
        pccl_text_format(reason, "shared_state is NULL");
    else if (!state->infos && state->count > 0)
        pccl_text_format(reason, "infos is NULL");
    else if ((unsigned)strategy > PCCL_SHARED_STATE_SYNC_STRATEGY_SEND_ONLY)
        pccl_text_format(reason, "unknown strategy");
    else if (state->revision == UINT64_MAX)
        pccl_text_format(reason, "the revision has reached its maximum and cannot be incremented");
    else if (state->count > PCCL_TENSORS_MAX)
        pccl_text_format(reason, "too many tensors: %zu, at most %u are allowed", state->count, PCCL_TENSORS_MAX);
    return reason->length ? PCCL_ARGUMENT : PCCL_OK;
}

/* ---- the call ---- */

/* Explains a failure, and names the tensors that are partly overwritten. */
static void explain(const struct pccl_communicator *comm, enum pccl_status status, struct pccl_worker *synchronizer,
                    struct pccl_why *why)
{
    struct pccl_text torn;
    pccl_api_explain_call(comm, PCCL_CALL_SYNC, status, why);
    pccl_text_clear(&torn);
    if (synchronizer)
        pccl_synchronizer_torn(synchronizer, &torn);
    if (torn.length)
        pccl_text_append(&why->reason, "; partly overwritten: %s", torn.bytes);
}

static enum pccl_status run_synchronizer(struct pccl_communicator *comm, struct pccl_worker *synchronizer,
                                         pcclSharedState_t *state, pcclSharedStateSyncStrategy_t strategy,
                                         struct pccl_why *why)
{
    const struct pccl_state *mine = pccl_synchronizer_state(synchronizer);
    struct pccl_tensor_lines lines;
    pccl_tensor_lines_init(&lines, mine);
    struct pccl_sync_vote vote = {.revision = state->revision,
                                  .strategy = (uint8_t)strategy,
                                  .unequal = mine->unequal,
                                  .structure = mine->structure,
                                  .content = mine->content,
                                  .shapes = mine->shapes,
                                  .shape_count = mine->tensor_count,
                                  .lines = lines.lines,
                                  .line_count = lines.count};
    pccl_comm_enter(comm);
    enum pccl_status status = pccl_api_may_call(comm, &why->reason);
    if (status == PCCL_OK) {
        pccl_comm_measure(comm);
        status = pccl_comm_synchronize(comm, synchronizer, &vote, NULL);
        if (status == PCCL_OK)
            state->revision = comm->calls[PCCL_CALL_SYNC].revision;
        else
            explain(comm, status, synchronizer, why);
    }
    pccl_comm_leave(comm);
    pccl_tensor_lines_fini(&lines, mine);
    return status;
}

/*
 * Fails the call for all members because this peer lacks memory or file descriptors. Returns the status for this peer.
 */
static enum pccl_status say_unable(struct pccl_communicator *comm, enum pccl_status lacks, struct pccl_why *why)
{
    struct pccl_text unable = why->reason;
    if (!unable.length)
        pccl_text_format(&unable, "%s", pccl_status_text(lacks));
    pccl_comm_enter(comm);
    enum pccl_status status = pccl_api_may_call(comm, &why->reason);
    if (status == PCCL_OK) {
        status = pccl_comm_synchronize(comm, NULL, NULL, &unable);
        explain(comm, status, NULL, why);
    }
    pccl_comm_leave(comm);
    return status == PCCL_STATE ? lacks : status;
}

static bool is_shortage(enum pccl_status status) { return status == PCCL_MEMORY || status == PCCL_SYSTEM; }

static void on_broken(void *comm, struct pccl_worker *worker) { pccl_comm_break_call(comm, PCCL_CALL_SYNC, worker); }

static enum pccl_status with_tensors(struct pccl_communicator *comm, struct pccl_sync_tensor *tensors,
                                     pcclSharedState_t *state, pcclSharedStateSyncStrategy_t strategy,
                                     pcclSharedStateSyncInfo_t *info, struct pccl_why *why)
{
    struct pccl_worker *synchronizer;
    struct pccl_sync_config config = {.kernels = pccl_kernels_for(pccl_cpu_features()),
                                      .tensors = tensors,
                                      .tensor_count = (uint32_t)state->count,
                                      .worker = pccl_comm_worker_config(comm, on_broken, pccl_comm_want_back),
                                      .touching = pccl_comm_on_touching,
                                      .proven = pccl_comm_on_proven,
                                      .fetched = pccl_comm_on_fetched};
    uint32_t world;
    enum pccl_status status = take_tensors(state, tensors, &why->reason);
    if (status == PCCL_OK)
        status = check_names(tensors, state->count, &why->reason);
    if (status == PCCL_OK) /* checked first, because computing the digests takes long */
        status = pccl_api_check_quiet(comm, &world, &why->reason);
    if (status == PCCL_OK)
        status = pccl_synchronizer_create(&config, &synchronizer, &why->reason);
    if (status == PCCL_INTERNAL)
        on_broken(comm, NULL);
    if (status != PCCL_OK)
        return is_shortage(status) ? say_unable(comm, status, why) : status;
    status = run_synchronizer(comm, synchronizer, state, strategy, why);
    pccl_synchronizer_traffic(synchronizer, &info->tx_bytes, &info->rx_bytes);
    pccl_worker_destroy(synchronizer);
    return status;
}

static enum pccl_status synchronize(struct pccl_api_call *call, pcclSharedState_t *state,
                                    pcclSharedStateSyncStrategy_t strategy, pcclSharedStateSyncInfo_t *info_out)
{
    enum pccl_status status = check_state(state, strategy, &call->why.reason);
    if (status != PCCL_OK)
        return status;
    size_t bytes = state->count * sizeof(struct pccl_sync_tensor);
    struct pccl_sync_tensor *tensors = pccl_allocate(pccl_heap(), bytes + 1);
    pcclSharedStateSyncInfo_t info = {0};
    status = tensors ? with_tensors(call->comm, tensors, state, strategy, &info, &call->why)
                     : say_unable(call->comm, PCCL_MEMORY, &call->why);
    pccl_release(pccl_heap(), tensors, bytes + 1);
    if (status == PCCL_OK && info_out)
        *info_out = info;
    return status;
}

pcclResult_t pcclSynchronizeSharedState(const pcclComm_t *comm, pcclSharedState_t *shared_state,
                                        pcclSharedStateSyncStrategy_t strategy,
                                        pcclSharedStateSyncInfo_t *sync_info_out)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_SYNC, synchronize(call, shared_state, strategy, sync_info_out));
}
