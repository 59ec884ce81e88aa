/* pcclGetProgress, pcclSetProgressCallback. */
#include "api/api.h"
#include "drive/comm_lock.h"
#include "drive/comm_progress.h"

static pcclResult_t get_progress(const pcclComm_t *handle, pcclProgress_t *progress)
{
    /* A caller of a later version has members that we do not know. */
    if (!progress || progress->size < sizeof *progress || progress->size > PCCL_API_STRUCT_MAX)
        return pccl_api_fail_with(handle, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetProgress: progress is NULL, or its size is not set; use PCCL_PROGRESS_INIT");
    pccl_comm_enter(handle->comm);
    pccl_comm_progress(handle->comm, progress);
    pccl_comm_leave(handle->comm);
    return pcclSuccess;
}

pcclResult_t pcclGetProgress(const pcclComm_t *comm_const, pcclProgress_t *progress)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(handle, PCCL_FAMILY_GENERAL, get_progress(handle, progress));
}

static pcclResult_t set_callback(const pcclComm_t *handle, pcclProgressCallback_t callback, void *user_data)
{
    struct pccl_comm_waiting *waiting = &handle->comm->waiting;
    pccl_comm_enter(handle->comm);
    waiting->on_progress = callback;
    waiting->on_progress_data = user_data;
    waiting->progress_due_us = 0;
    pccl_comm_leave(handle->comm);
    return pcclSuccess;
}

pcclResult_t pcclSetProgressCallback(const pcclComm_t *comm, pcclProgressCallback_t callback, void *user_data)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm;
    PCCL_API_CALL(handle, PCCL_FAMILY_GENERAL, set_callback(handle, callback, user_data));
}
