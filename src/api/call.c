/* The frame of every public call: whether it may run, its guard, and how it fails. */
#include "api/api.h"
#include "drive/comm_broken.h"
#include "drive/comm_callers.h"
#include "drive/comm_machine.h"
#include "drive/guard.h"
#include "net/fork.h"
#include "peer/queries.h"

/* ---- the process ---- */

static uv_once_t init_once = UV_ONCE_INIT;
static atomic_bool initialized;

static void init_process(void *unused)
{
    (void)unused;
    pccl_params_init_process();
    atomic_store(&initialized, true);
}

/* The guard is inside: a thread that left a uv_once in the middle would lock all others out. */
static void initialize(void)
{
    pccl_guard_install();
    (void)pccl_guard_run(init_process, NULL);
}

void pccl_api_initialize(void) { uv_once(&init_once, initialize); }

bool pccl_api_initialized(void) { return atomic_load(&initialized); }

void pccl_api_enter(struct pccl_guard *guard)
{
    pccl_guard_install(); /* pcclInit may not have been called */
    pccl_guard_push(guard);
}

pcclResult_t pccl_api_leave(const struct pccl_guard *guard, pcclResult_t result)
{
    pccl_guard_pop(guard);
    return result;
}

/* ---- a communicator ---- */

pcclResult_t pccl_api_fail_with(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                                const char *reason)
{
    return pccl_errors_fail(comm ? comm->key : 0, family, comm && comm->extended_results, status, "%s", reason);
}

pcclResult_t pccl_api_fail(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                           const struct pccl_text *reason)
{
    return pccl_api_fail_with(comm, family, status, reason->length ? reason->bytes : pccl_status_text(status));
}

pcclResult_t pccl_api_fail_why(const pcclComm_t *comm, enum pccl_family family, enum pccl_status status,
                               const struct pccl_why *why)
{
    return pccl_errors_fail_why(comm->key, family, comm->extended_results, status, why);
}

pcclResult_t pccl_api_check(const pcclComm_t *comm, enum pccl_family family)
{
    if (!pccl_api_initialized())
        return pccl_api_fail_with(NULL, family, PCCL_NOT_INITIALIZED, "pcclInit has not been called");
    if (!comm)
        return pccl_api_fail_with(NULL, family, PCCL_ARGUMENT, "comm is NULL");
    if (comm->generation != pccl_fork_generation())
        return pccl_api_fail_with(comm, family, PCCL_USAGE,
                                  "this communicator belongs to the parent process; after a fork it cannot be used");
    return pcclSuccess;
}

pcclResult_t pccl_api_begin(struct pccl_caller *caller, pcclComm_t *comm, enum pccl_family family, bool whole)
{
    struct pccl_text reason;
    pcclResult_t result = pccl_api_check(comm, family);
    if (result != pcclSuccess)
        return result;
    if (whole && comm->group)
        return pccl_api_fail_with(comm, family, PCCL_USAGE, "a group cannot do this; its communicator can");
    enum pccl_status status = pccl_handle_enter(comm, &reason);
    if (status != PCCL_OK)
        return pccl_api_fail(comm, family, status, &reason);
    pccl_caller_begin(caller, comm->comm);
    return pcclSuccess;
}

pcclResult_t pccl_api_end(const struct pccl_caller *caller, pcclComm_t *handle, pcclResult_t result)
{
    pccl_comm_sight_after_call(handle->comm);
    pccl_caller_end(caller);
    pccl_handle_leave(handle);
    return result;
}

pcclResult_t pccl_api_broken(struct pccl_caller *caller, pcclComm_t *comm, enum pccl_family family)
{
    pccl_caller_broke(caller);
    pcclResult_t result =
        pccl_api_fail_with(comm, family, PCCL_INTERNAL,
                           "internal error in this call; the communicator can only be destroyed, and what was to be "
                           "reduced or synchronized may be partly overwritten");
    pccl_handle_leave(comm);
    return result;
}

static const char *name_of(enum pccl_call call)
{
    switch (call) {
    case PCCL_CALL_UPDATE: return "pcclUpdateTopology";
    case PCCL_CALL_OPTIMIZE: return "pcclOptimizeTopology";
    case PCCL_CALL_SYNC: return "pcclSynchronizeSharedState";
    default: return "pcclArePeersPending";
    }
}

enum pccl_status pccl_api_may_call(const struct pccl_communicator *comm, struct pccl_text *reason)
{
    if (!pccl_comm_is_connected(comm))
        return pccl_comm_why_unconnected(comm, reason);
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        enum pccl_call call = pccl_call_of_round(kind);
        if (!comm->calls[call].outstanding)
            continue;
        pccl_text_format(reason, "joint call refused: %s of another thread is outstanding, or was interrupted",
                         name_of(call));
        return PCCL_USAGE;
    }
    return PCCL_OK;
}

void pccl_api_explain_call(const struct pccl_communicator *comm, enum pccl_call call, enum pccl_status status,
                           struct pccl_why *why)
{
    const struct pccl_call_slot *slot = &comm->calls[call];
    pccl_text_clear(&why->reason);
    if (comm->peer && slot->done)
        why->reason = *pccl_peer_last_reason(comm->peer);
    if (!why->reason.length)
        pccl_text_format(&why->reason, "%s", pccl_status_text(status));
    why->details.departed = slot->departed;
}

enum pccl_status pccl_api_check_quiet(struct pccl_communicator *comm, uint32_t *world, struct pccl_text *reason)
{
    pccl_comm_enter(comm);
    enum pccl_status status = pccl_api_may_call(comm, reason);
    if (status == PCCL_OK && comm->operations.by_tag.count) {
        pccl_text_format(reason, "%u operations are launched and not yet awaited", comm->operations.by_tag.count);
        status = PCCL_PENDING_OPS;
    } else if (status == PCCL_OK) {
        *world = pccl_peer_attributes(comm->peer).world;
    }
    pccl_comm_leave(comm);
    return status;
}
