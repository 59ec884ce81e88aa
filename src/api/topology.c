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

/*
 * Time limit for connecting to a peer. The master waits for a report only slightly longer than the test lasts (PROTOCOL
 * 10.3).
 */
enum { DIAL_MS_MAX = 2500 };

/* ---- optimizing ---- */

static void on_broken(void *comm, struct pccl_worker *worker)
{
    pccl_comm_break_call(comm, PCCL_CALL_OPTIMIZE, worker);
}

/* Creates a measurer. Caller holds the lock, which is safe because this only allocates memory and opens a loop. */
static enum pccl_status make_measurer(struct pccl_communicator *comm, struct pccl_worker **measurer,
                                      struct pccl_text *reason)
{
    struct pccl_measure_config config = {
        .worker = pccl_comm_worker_config(comm, on_broken, pccl_comm_want_back),
        .streams_long = pccl_comm_pool_size(comm, PCCL_LONG_PATH_RTT_US),
        .streams_short = pccl_comm_pool_size(comm, 0),
        .dial_ms = (uint32_t)pccl_min_u64(comm->params.connect_timeout_ms, DIAL_MS_MAX),
        .measured = pccl_comm_on_measured,
    };
    config.worker.self = comm->id;
    config.worker.lineage = *pccl_peer_lineage(comm->peer);
    return pccl_measurer_create(&config, measurer, reason);
}

static enum pccl_status run_measurer(struct pccl_api_call *call, struct pccl_worker **measurer)
{
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = pccl_api_may_call(call->comm, reason);
    if (status != PCCL_OK)
        return status;
    enum pccl_status made = make_measurer(call->comm, measurer, reason);
    const struct pccl_text unable = *reason;
    pccl_comm_measure(call->comm);
    status = pccl_comm_optimize(call->comm, *measurer, made != PCCL_OK ? &unable : NULL);
    if (status != PCCL_OK)
        pccl_api_explain_call(call->comm, PCCL_CALL_OPTIMIZE, status, &call->why);
    return made != PCCL_OK && status == PCCL_NO_RING ? made : status;
}

static enum pccl_status optimize(struct pccl_api_call *call)
{
    struct pccl_worker *measurer = NULL;
    uint32_t world = 0;
    enum pccl_status status = pccl_api_check_quiet(call->comm, &world, &call->why.reason);
    if (status != PCCL_OK)
        return status;
    if (world <= 1)
        return pccl_fail(&call->why.reason, PCCL_USAGE, "this peer is alone: nothing to optimize");
    pccl_comm_enter(call->comm);
    status = run_measurer(call, &measurer);
    pccl_comm_leave(call->comm);
    if (measurer)
        pccl_worker_destroy(measurer);
    return status;
}

pcclResult_t pcclOptimizeTopology(const pcclComm_t *comm)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_OPTIMIZE, optimize(call));
}

/* ---- training reports ---- */

static enum pccl_status report(struct pccl_api_call *call, uint64_t step, double loss)
{
    struct pccl_communicator *comm = call->comm;
    struct pccl_peer_event event = {.kind = PCCL_PEER_TRAINING, .training = {.step = step}};
    memcpy(&event.training.loss, &loss, sizeof loss);
    call->extended = true;
    pccl_comm_enter(comm);
    enum pccl_status status = pccl_comm_is_connected(comm) ? pccl_comm_step(comm, &event)
                                                           : pccl_comm_why_unconnected(comm, &call->why.reason);
    pccl_comm_flush(comm);
    pccl_comm_leave(comm);
    return status;
}

pcclResult_t pcclReportTraining(const pcclComm_t *comm, uint64_t step, double loss)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_GENERAL, report(call, step, loss));
}

/* ---- the topology report ---- */

static enum pccl_status ask_master(struct pccl_api_call *call, char **report, size_t *length)
{
    struct pccl_communicator *comm = call->comm;
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = PCCL_OK;
    pccl_comm_enter(comm);
    if (pccl_comm_is_connected(comm))
        status = pccl_comm_describe(comm, report, length);
    if (status == PCCL_TIMEOUT)
        pccl_text_format(reason, "the master did not answer before the deadline");
    else if (!pccl_comm_is_connected(comm))
        status = pccl_comm_why_unconnected(comm, reason);
    else if (status == PCCL_USAGE)
        pccl_text_format(reason, "another thread's call of this function is outstanding");
    pccl_comm_leave(comm);
    return status;
}

static enum pccl_status get_topology(struct pccl_api_call *call, char *text, size_t size, size_t *needed)
{
    char *report = NULL;
    size_t length = 0;
    if ((!text && size > 0) || (!text && !needed))
        return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclGetTopology: text is NULL although size is not 0");
    call->extended = true;
    enum pccl_status status = ask_master(call, &report, &length);
    if (status == PCCL_OK && length > 0)
        status = pccl_api_hand_out(report, length, text, size, needed, &call->why.reason);
    else if (status == PCCL_OK)
        status = pccl_fail(&call->why.reason, PCCL_USAGE,
                           "the master cannot describe this group: it is too large, or the master is out of memory");
    if (report)
        pccl_release(pccl_heap(), report, length + 1);
    return status;
}

pcclResult_t pcclGetTopology(const pcclComm_t *comm, char *text, size_t size, size_t *needed)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_GENERAL, get_topology(call, text, size, needed));
}
