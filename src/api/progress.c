/* pcclGetProgress, pcclSetProgressCallback. */
#include "api/api.h"
#include "drive/comm_lock.h"
#include "drive/comm_progress.h"

static enum pccl_status get_progress(struct pccl_api_call *call, pcclProgress_t *progress)
{
    /* Callers of a later version pass a larger struct. */
    if (!progress || progress->size < sizeof *progress || progress->size > PCCL_API_STRUCT_MAX)
        return pccl_fail(
            &call->why.reason, PCCL_ARGUMENT,
            "pcclGetProgress: progress is NULL, or its size is not set: initialize it with PCCL_PROGRESS_INIT");
    pccl_comm_enter(call->comm);
    pccl_comm_progress(call->comm, progress);
    pccl_comm_leave(call->comm);
    return PCCL_OK;
}

pcclResult_t pcclGetProgress(const pcclComm_t *comm, pcclProgress_t *progress)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_progress(call, progress));
}

static enum pccl_status set_callback(struct pccl_communicator *comm, pcclProgressCallback_t callback, void *user_data)
{
    struct pccl_comm_waiting *waiting = &comm->waiting;
    pccl_comm_enter(comm);
    waiting->on_progress = callback;
    waiting->on_progress_data = user_data;
    waiting->progress_due_us = 0;
    pccl_comm_leave(comm);
    return PCCL_OK;
}

pcclResult_t pcclSetProgressCallback(const pcclComm_t *comm, pcclProgressCallback_t callback, void *user_data)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, set_callback(call->comm, callback, user_data));
}
