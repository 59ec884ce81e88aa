/* pcclOptimizeTopology, pcclGetTopology, and pcclReportTraining. */
#include "api/api.h"
#include "drive/comm_engine.h"
#include "drive/comm_links.h"
#include "drive/comm_broken.h"
#include "drive/comm_machine.h"
#include "drive/comm_topology.h"
#include "net/heap.h"
#include "peer/queries.h"

#include <string.h>

/* The master waits for a report little longer than the test lasts (PROTOCOL 10.3): nobody is dialed for longer. */
enum { DIAL_MS_MAX = 2500 };

/* ---- optimizing ---- */

static void on_broken(void *comm) { pccl_comm_break_call(comm, PCCL_CALL_OPTIMIZE); }

/* Under the lock: memory and a loop, which takes no time to speak of. */
static enum pccl_status make_measurer(struct pccl_communicator *comm, struct pccl_measurer **measurer,
                                      struct pccl_text *reason)
{
    struct pccl_measure_config config = {
        .self = comm->id,
        .lineage = *pccl_peer_lineage(comm->peer),
        .keys = comm->keys,
        .local = comm->local,
        .streams_long = pccl_comm_pool_size(comm, PCCL_LONG_PATH_RTT_US),
        .streams_short = pccl_comm_pool_size(comm, 0),
        .dial_ms = (uint32_t)pccl_min_u64(comm->params.connect_timeout_ms, DIAL_MS_MAX),
        .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
    };
    struct pccl_measure_events events = {
        .context = comm, .measured = pccl_comm_on_measured, .log = {comm, pccl_comm_on_log}, .broken = on_broken};
    return pccl_measurer_create(&config, &events, measurer, reason);
}

static enum pccl_status run_measurer(struct pccl_communicator *comm, struct pccl_measurer **measurer,
                                     struct pccl_why *why)
{
    enum pccl_status status = pccl_api_may_call(comm, &why->reason);
    if (status != PCCL_OK)
        return status;
    enum pccl_status made = make_measurer(comm, measurer, &why->reason);
    const struct pccl_text unable = why->reason;
    pccl_comm_measure(comm);
    status = pccl_comm_optimize(comm, *measurer, made != PCCL_OK ? &unable : NULL);
    if (status != PCCL_OK)
        pccl_api_explain_call(comm, PCCL_CALL_OPTIMIZE, status, why);
    return made != PCCL_OK && status == PCCL_NO_RING ? made : status;
}

static pcclResult_t optimize(struct pccl_communicator *comm)
{
    struct pccl_why why = {0};
    struct pccl_measurer *measurer = NULL;
    uint32_t world = 0;
    enum pccl_status status = pccl_api_check_quiet(comm, &world, &why.reason);
    if (status != PCCL_OK)
        return pccl_api_fail_why(&comm->handle, PCCL_FAMILY_OPTIMIZE, status, &why);
    if (world <= 1)
        return pccl_api_fail_with(&comm->handle, PCCL_FAMILY_OPTIMIZE, PCCL_USAGE,
                                  "this peer is alone: there is nothing to optimize");
    pccl_comm_enter(comm);
    status = run_measurer(comm, &measurer, &why);
    pccl_comm_leave(comm);
    if (measurer)
        pccl_measurer_destroy(measurer);
    return status == PCCL_OK ? pcclSuccess : pccl_api_fail_why(&comm->handle, PCCL_FAMILY_OPTIMIZE, status, &why);
}

pcclResult_t pcclOptimizeTopology(const pcclComm_t *comm_const)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_WHOLE_CALL(handle, PCCL_FAMILY_OPTIMIZE, optimize(handle->comm));
}

/* ---- what the caller tells ---- */

static pcclResult_t report(struct pccl_communicator *comm, uint64_t step, double loss)
{
    struct pccl_text reason;
    struct pccl_peer_event event = {.kind = PCCL_PEER_TRAINING, .training = {.step = step}};
    memcpy(&event.training.loss, &loss, sizeof loss);
    pccl_comm_enter(comm);
    enum pccl_status status =
        pccl_comm_is_connected(comm) ? pccl_comm_step(comm, &event) : pccl_comm_why_unconnected(comm, &reason);
    pccl_comm_flush(comm);
    pccl_comm_leave(comm);
    if (status == PCCL_OK)
        return pcclSuccess;
    return pccl_errors_fail(comm->handle.key, PCCL_FAMILY_GENERAL, true, status, "%s", reason.bytes);
}

pcclResult_t pcclReportTraining(const pcclComm_t *comm_const, uint64_t step, double loss)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_WHOLE_CALL(handle, PCCL_FAMILY_GENERAL, report(handle->comm, step, loss));
}

/* ---- what is known of the links ---- */

static enum pccl_status ask_master(struct pccl_communicator *comm, char **report, size_t *length,
                                   struct pccl_text *reason)
{
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(comm);
    if (pccl_comm_is_connected(comm))
        status = pccl_comm_describe(comm, report, length);
    if (status == PCCL_TIMEOUT)
        pccl_text_format(reason, "the master has not answered by the deadline");
    else if (!pccl_comm_is_connected(comm))
        status = pccl_comm_why_unconnected(comm, reason);
    else if (status == PCCL_USAGE)
        pccl_text_format(reason, "such a call of another thread is outstanding");
    else
        pccl_text_format(reason, "%s", pccl_status_text(status));
    pccl_comm_leave(comm);
    return status;
}

/* What the master has sent goes to the caller. */
static enum pccl_status hand_out(const char *report, size_t length, char *text, size_t size, size_t *needed,
                                 struct pccl_text *reason)
{
    if (length > 0)
        return pccl_api_hand_out(report, length, text, size, needed, reason);
    pccl_text_format(reason, "the master cannot describe this group: it is too large, or memory is short there");
    return PCCL_USAGE;
}

static pcclResult_t get_topology(struct pccl_communicator *comm, char *text, size_t size, size_t *needed)
{
    struct pccl_text reason;
    char *report = NULL;
    size_t length = 0;
    if ((!text && size > 0) || (!text && !needed))
        return pccl_api_fail_with(&comm->handle, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT,
                                  "pcclGetTopology: text is NULL although size is not 0");
    enum pccl_status status = ask_master(comm, &report, &length, &reason);
    if (status == PCCL_OK)
        status = hand_out(report, length, text, size, needed, &reason);
    if (report)
        pccl_release(pccl_heap(), report, length + 1);
    if (status == PCCL_OK)
        return pcclSuccess;
    return pccl_errors_fail(comm->handle.key, PCCL_FAMILY_GENERAL, true, status, "%s", reason.bytes);
}

pcclResult_t pcclGetTopology(const pcclComm_t *comm_const, char *text, size_t size, size_t *needed)
{
    pcclComm_t *handle = (pcclComm_t *)(uintptr_t)comm_const;
    PCCL_API_WHOLE_CALL(handle, PCCL_FAMILY_GENERAL, get_topology(handle->comm, text, size, needed));
}
