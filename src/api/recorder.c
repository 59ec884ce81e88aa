/* pcclDumpFlightRecorder, pcclWriteFlightRecorder and pcclGetVerdicts. */
#include "api/api.h"
#include "drive/comm_sight.h"
#include "drive/communicator.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "pccl_collectives.h"
#include "wire/describe.h"

#include <stdio.h>

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

static void write_verdict(const struct pccl_peer_verdict *told, uint64_t now_us, pcclVerdict_t *verdict)
{
    *verdict = (pcclVerdict_t){.verdict_class = told->class,
                               .for_ms = (uint32_t)((now_us - pccl_min_u64(now_us, told->since_us)) / 1000),
                               .number = told->number};
    pccl_id_write(&told->peer, verdict->peer.digits, PCCL_PEER_ID_SIZE - 1);
    if (!pccl_id_is_zero(&told->other))
        pccl_id_write(&told->other, verdict->other.digits, PCCL_PEER_ID_SIZE - 1);
    (void)snprintf(verdict->name, sizeof verdict->name, "%s", pccl_verdict_name(told->class));
    (void)snprintf(verdict->evidence, sizeof verdict->evidence, "%s", told->evidence.bytes);
    (void)snprintf(verdict->action, sizeof verdict->action, "%s", told->action.bytes);
}

static pcclResult_t get_verdicts(const pcclComm_t *handle, pcclVerdict_t *verdicts, size_t max, size_t *count)
{
    uint32_t told_count = 0;
    if (!count || (!verdicts && max > 0))
        return pccl_api_fail_with(handle, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetVerdicts: count is NULL, or verdicts is NULL although max is not 0");
    uint64_t now_us = pccl_now_us();
    pccl_comm_enter(handle->comm);
    const struct pccl_peer_verdict *told =
        handle->comm->peer ? pccl_peer_verdicts(handle->comm->peer, &told_count) : NULL;
    for (uint32_t i = 0; i < told_count && i < max; i++)
        write_verdict(&told[i], now_us, &verdicts[i]);
    pccl_comm_leave(handle->comm);
    *count = told_count;
    return pcclSuccess;
}

pcclResult_t pcclGetVerdicts(const pcclComm_t *comm_const, pcclVerdict_t *verdicts, size_t max, size_t *count)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_CALL(handle, PCCL_FAMILY_GENERAL, get_verdicts(handle, verdicts, max, count));
}
