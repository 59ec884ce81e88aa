/* pcclDumpFlightRecorder, pcclWriteFlightRecorder and pcclGetVerdicts. */
#include "api/api.h"
#include "drive/comm_telemetry.h"
#include "drive/communicator.h"
#include "net/heap.h"
#include "peer/queries.h"
#include "pccl_collectives.h"
#include "wire/describe.h"

#include <stdio.h>

static enum pccl_status dump(struct pccl_api_call *call, char *text, size_t size, size_t *needed)
{
    char *made = NULL;
    size_t bytes = 0;
    if ((!text && size > 0) || (!text && !needed))
        return pccl_fail(
            &call->why.reason, PCCL_ARGUMENT,
            "pcclDumpFlightRecorder: text is NULL although size is not 0, or both text and needed are NULL");
    call->extended = true;
    enum pccl_status status = pccl_comm_telemetry_text(call->comm, &made, &bytes);
    if (status == PCCL_OK)
        status = pccl_api_hand_out(made, bytes - 1, text, size, needed, &call->why.reason);
    pccl_release(pccl_heap(), made, bytes);
    return status;
}

pcclResult_t pcclDumpFlightRecorder(const pcclComm_t *comm, char *text, size_t size, size_t *needed)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, dump(call, text, size, needed));
}

static enum pccl_status write_file(struct pccl_api_call *call, const char *file)
{
    if (!file || file[0] == '\0')
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclWriteFlightRecorder: file is NULL or empty");
    call->extended = true;
    return pccl_comm_telemetry_write(call->comm, file, &call->why.reason);
}

pcclResult_t pcclWriteFlightRecorder(const pcclComm_t *comm, const char *file)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, write_file(call, file));
}

static void write_verdict(const struct pccl_peer_verdict *known, uint64_t now_us, pcclVerdict_t *verdict)
{
    *verdict = (pcclVerdict_t){.verdict_class = known->class,
                               .for_ms = (uint32_t)((now_us - pccl_min_u64(now_us, known->since_us)) / 1000),
                               .number = known->number};
    pccl_id_write(&known->peer, verdict->peer.digits, PCCL_PEER_ID_SIZE - 1);
    if (!pccl_id_is_zero(&known->other))
        pccl_id_write(&known->other, verdict->other.digits, PCCL_PEER_ID_SIZE - 1);
    (void)snprintf(verdict->name, sizeof verdict->name, "%s", pccl_verdict_name(known->class));
    (void)snprintf(verdict->evidence, sizeof verdict->evidence, "%s", known->evidence.bytes);
    (void)snprintf(verdict->action, sizeof verdict->action, "%s", known->action.bytes);
}

static enum pccl_status get_verdicts(struct pccl_api_call *call, pcclVerdict_t *verdicts, size_t max, size_t *count)
{
    struct pccl_communicator *comm = call->comm;
    uint32_t known_count = 0;
    if (!count || (!verdicts && max > 0))
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT,
                         "pcclGetVerdicts: count is NULL, or verdicts is NULL although max is not 0");
    uint64_t now_us = pccl_now_us();
    pccl_comm_enter(comm);
    const struct pccl_peer_verdict *known = comm->peer ? pccl_peer_verdicts(comm->peer, &known_count) : NULL;
    for (uint32_t i = 0; i < known_count && i < max; i++)
        write_verdict(&known[i], now_us, &verdicts[i]);
    pccl_comm_leave(comm);
    *count = known_count;
    return PCCL_OK;
}

pcclResult_t pcclGetVerdicts(const pcclComm_t *comm, pcclVerdict_t *verdicts, size_t max, size_t *count)
{
    PCCL_API_CALL(ANY, comm, PCCL_FAMILY_GENERAL, get_verdicts(call, verdicts, max, count));
}
