/* pcclDumpFlightRecorder and pcclWriteFlightRecorder. */
#include "api/api.h"
#include "drive/comm_sight.h"
#include "net/heap.h"
#include "pccl_collectives.h"

static pcclResult_t dump(const pcclComm_t *handle, char *text, size_t size, size_t *needed)
{
    struct pccl_text reason;
    char *made = NULL;
    size_t bytes = 0;
    if ((!text && size > 0) || (!text && !needed))
        return pccl_api_fail_with(handle, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclDumpFlightRecorder: text is NULL although size is not 0, or needed is NULL too");
    enum pccl_status status = pccl_comm_sight_text(handle->comm, &made, &bytes);
    pccl_text_format(&reason, "%s", pccl_status_text(status));
    if (status == PCCL_OK)
        status = pccl_api_hand_out(made, bytes - 1, text, size, needed, &reason);
    pccl_release(pccl_heap(), made, bytes);
    return status == PCCL_OK ? pcclSuccess
                             : pccl_errors_fail(handle->key, PCCL_FAMILY_GENERAL, true, status, "%s", reason.bytes);
}

pcclResult_t pcclDumpFlightRecorder(const pcclComm_t *comm_const, char *text, size_t size, size_t *needed)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(handle, PCCL_FAMILY_GENERAL, dump(handle, text, size, needed));
}

static pcclResult_t write_file(const pcclComm_t *handle, const char *file)
{
    struct pccl_text reason;
    if (!file || file[0] == '\0')
        return pccl_api_fail_with(handle, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclWriteFlightRecorder: file is NULL or empty");
    enum pccl_status status = pccl_comm_sight_write(handle->comm, file, &reason);
    return status == PCCL_OK ? pcclSuccess
                             : pccl_errors_fail(handle->key, PCCL_FAMILY_GENERAL, true, status, "%s", reason.bytes);
}

pcclResult_t pcclWriteFlightRecorder(const pcclComm_t *comm_const, const char *file)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(handle, PCCL_FAMILY_GENERAL, write_file(handle, file));
}
