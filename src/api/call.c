/* Frame of every public call: checks that the call is allowed, sets its guard, and reports its result. */
#include "api/api.h"
#include "drive/comm_broken.h"
#include "drive/comm_callers.h"
#include "drive/comm_machine.h"
#include "drive/guard.h"
#include "os/fork.h"
#include "peer/queries.h"

/* ---- process-wide initialization ---- */

static uv_once_t init_once = UV_ONCE_INIT;
static atomic_bool initialized;

static void init_process(void *unused)
{
    (void)unused;
    pccl_params_init_process();
    atomic_store(&initialized, true);
}

/*
 * Initializes the process. The guard is inside uv_once, because a thread that leaves uv_once early would block all
 * others.
 */
static void initialize(void)
{
    pccl_guard_install();
    (void)pccl_guard_run(init_process, NULL);
}

void pccl_api_initialize(void) { uv_once(&init_once, initialize); }

bool pccl_api_initialized(void) { return atomic_load(&initialized); }

/* ---- a call ---- */

void pccl_api_init(struct pccl_api_call *call, enum pccl_family family)
{
    call->handle = NULL;
    call->comm = NULL;
    call->family = family;
    call->key = 0;
    call->extended = false;
    call->inner = pcclSuccess;
    pccl_why_clear(&call->why);
}

static enum pccl_status check(struct pccl_api_call *call, enum pccl_api_subject subject, const pcclComm_t *handle)
{
    struct pccl_text *reason = &call->why.reason;
    if (subject == PCCL_API_PROCESS)
        return PCCL_OK;
    if (!pccl_api_initialized())
        return pccl_fail(reason, PCCL_NOT_INITIALIZED, "pcclInit has not been called");
    if (subject == PCCL_API_CREATION)
        return PCCL_OK;
    if (!handle)
        return pccl_fail(reason, PCCL_ARGUMENT,
                         subject == PCCL_API_OPERATION ? "the handle or its communicator is NULL" : "comm is NULL");
    call->handle = (pcclComm_t *)(uintptr_t)handle;
    call->key = handle->key;
    call->extended = handle->extended_results;
    if (subject == PCCL_API_DESTRUCTION)
        return PCCL_OK;
    if (handle->generation != pccl_fork_generation())
        return pccl_fail(reason, PCCL_USAGE,
                         "this communicator belongs to the parent process and cannot be used after a fork");
    if (subject == PCCL_API_COMMUNICATOR && handle->group)
        return pccl_fail(reason, PCCL_USAGE, "not supported on a group; call it on the group's communicator");
    return pccl_handle_enter(call->handle, reason);
}

enum pccl_status pccl_api_begin(struct pccl_api_call *call, enum pccl_api_subject subject, const pcclComm_t *handle,
                                enum pccl_family family)
{
    pccl_api_init(call, family);
    enum pccl_status status = check(call, subject, handle);
    if (status != PCCL_OK)
        return status;
    if (!call->handle || subject == PCCL_API_DESTRUCTION) {
        pccl_guard_install(); /* an application may make this call before pcclInit */
        pccl_guard_push(&call->caller.guard);
    } else {
        call->comm = call->handle->comm;
        pccl_caller_begin(&call->caller, call->comm);
    }
    return PCCL_OK;
}

pcclResult_t pccl_api_result(const struct pccl_api_call *call, enum pccl_status status)
{
    return status == PCCL_OK || call->inner != pcclSuccess
               ? call->inner
               : pccl_errors_fail(call->key, call->family, call->extended, status, &call->why);
}

pcclResult_t pccl_api_end(struct pccl_api_call *call, enum pccl_status status)
{
    pcclResult_t result = pccl_api_result(call, status);
    if (!call->comm) {
        pccl_guard_pop(&call->caller.guard);
        return result;
    }
    pccl_comm_telemetry_after_call(call->comm);
    pccl_caller_end(&call->caller);
    pccl_handle_leave(call->handle);
    return result;
}

pcclResult_t pccl_api_broken(struct pccl_api_call *call)
{
    call->inner = pcclSuccess;
    pccl_why_clear(&call->why);
    if (!call->comm) /* the call's objects are leaked */
        return pccl_api_result(call, PCCL_INTERNAL);
    pccl_caller_broke(&call->caller);
    pcclResult_t result =
        pccl_api_result(call, pccl_fail(&call->why.reason, PCCL_INTERNAL,
                                        "internal error in this call; the communicator can only be destroyed, and "
                                        "buffers or tensors in use may be partly overwritten"));
    pccl_handle_leave(call->handle);
    return result;
}

void pccl_api_run_inside(struct pccl_communicator *comm, void (*body)(void *argument), void *argument)
{
    struct pccl_caller caller;
    pccl_caller_begin(&caller, comm);
    if (setjmp(caller.guard.place) == 0) {
        body(argument);
        pccl_caller_end(&caller);
    } else {
        pccl_caller_broke(&caller);
    }
}

/* ---- joint calls ---- */

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
        return pccl_fail(reason, PCCL_USAGE,
                         "joint call refused: another thread's %s is outstanding or was interrupted", name_of(call));
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
        status = pccl_fail(reason, PCCL_PENDING_OPS, "%u operations have been launched but not yet awaited",
                           comm->operations.by_tag.count);
    } else if (status == PCCL_OK) {
        *world = pccl_peer_attributes(comm->peer).world;
    }
    pccl_comm_leave(comm);
    return status;
}
