/* pcclLoopBegin, pcclLoopNext and pcclLoopEnd, written with the public functions that a manual loop would call. */
#include "api/api.h"
#include "drive/comm_callers.h"
#include "drive/comm_machine.h"
#include "log/logger.h"
#include "net/heap.h"
#include "pccl_loop.h"

#include <string.h>

enum {
    REMOVALS_MAX = 3, /* consecutive removals in synchronizations after which a bug in the program is assumed */
    ATTEMPT_PAUSE_US = 1000000, /* pause between two attempts to join the run */
    PEERS_PAUSE_US = 100000,    /* pause between two updates while waiting for min_peers */
    SLICE_US = 50000,           /* interval at which a pause checks whether the communicator is being closed */
    SAY_AFTER_US = 2000000,     /* delay before waiting for peers is logged */
};

struct pcclLoop_t {
    pcclComm_t *comm;
    pcclSharedState_t *given; /* state passed by the caller; may be NULL */
    pcclLoopOptions_t options;
    uint64_t steps;    /* number of steps that the run has completed; stored as the last tensor of the state */
    uint64_t revision; /* revision of the last synchronization, or the caller's before the first */
    uint32_t removals; /* number of removals in synchronizations since the last success */
    uint64_t begun;    /* number of the last step that this peer has begun */
    bool is_admitted;  /* true if newcomers were admitted and the state must be synchronized next */
    bool is_new;       /* true if this peer has not begun a step since its admission */
    bool has_said;     /* true if waiting for peers was logged in this call */
    /* State of the last step that this peer has begun; COMPLETED before the first step. */
    enum { STEP_COMPLETED, STEP_BEGUN, STEP_FAILED } last;
};

static uint64_t from_now(uint64_t us) { return pccl_now_us() + us; }

static enum pccl_status fail(struct pccl_api_call *call, enum pccl_status status, const char *words)
{
    return pccl_fail(&call->why.reason, status, "pcclLoopNext: %s", words);
}

/* Ends this call with the result of a public call that it made, which has recorded the reason. */
static enum pccl_status end_as(struct pccl_api_call *call, pcclResult_t result)
{
    call->inner = result;
    return result == pcclSuccess ? PCCL_OK : PCCL_INTERNAL;
}

/* Sleeps until `end_us`. Returns false if the communicator is being closed. */
static bool pause_until(const pcclLoop_t *loop, uint64_t end_us)
{
    struct pccl_communicator *comm = loop->comm->comm;
    pccl_comm_enter(comm);
    bool is_woken = false; /* no event is expected for this waiter; any would end the pause */
    while (!comm->leaving && !is_woken && pccl_now_us() < end_us)
        is_woken = pccl_comm_wait_until(comm, pccl_caller_waiter(), pccl_min_u64(end_us, from_now(SLICE_US)));
    bool leaving = comm->leaving;
    pccl_comm_leave(comm);
    return !leaving;
}

/* Returns true if this peer is not in the run and the communicator is not closing. */
static bool is_out_of_run(struct pccl_communicator *comm)
{
    pccl_comm_enter(comm);
    bool is_out = !pccl_comm_is_connected(comm) && !comm->leaving;
    pccl_comm_leave(comm);
    return is_out;
}

static bool is_out(const pcclLoop_t *loop) { return is_out_of_run(loop->comm->comm); }

/* ---- joining ---- */

/* Returns true if the master does not accept this peer's token, for example because it was revoked. */
static bool is_rejected(const pcclLoop_t *loop)
{
    struct pccl_communicator *comm = loop->comm->comm;
    pccl_comm_enter(comm);
    bool rejected = comm->master.is_rejected;
    pccl_comm_leave(comm);
    return rejected;
}

/* Returns true if the last attempt to join failed for a reason that may be temporary. */
static bool may_come_in(const pcclLoop_t *loop)
{
    if (is_rejected(loop))
        return false;
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    (void)pcclGetLastFailure(loop->comm, &failure);
    switch (failure.precise) {
    case pcclMasterConnectionFailed:
    case pcclRefused:
    case pcclExpelled:
    case pcclMasterLost: return true;
    default: return false;
    }
}

static enum pccl_status get_in(struct pccl_api_call *call, pcclLoop_t *loop)
{
    const uint64_t end_us = from_now((uint64_t)loop->options.connect_ms * 1000);
    bool said = false;
    for (;;) {
        const uint64_t now_us = pccl_now_us();
        pcclResult_t result = pccl_api_connect(loop->comm, (uint32_t)((end_us - pccl_min_u64(now_us, end_us)) / 1000));
        if (result == pcclSuccess || !may_come_in(loop) || pccl_now_us() >= end_us)
            return end_as(call, result);
        if (!said)
            pccl_logger_print(PCCL_LOG_WARN, "peer", "loop: not connected yet, retrying for up to %u ms: %s",
                              loop->options.connect_ms, pcclGetLastError(loop->comm));
        said = true;
        if (!pause_until(loop, pccl_min_u64(end_us, from_now(ATTEMPT_PAUSE_US))))
            return fail(call, PCCL_USAGE, PCCL_BEING_DESTROYED);
    }
}

/* ---- beginning a step ---- */

/* Sets *is_enough if the group has min_peers, and pauses otherwise. Fails when wait_ms has passed. */
static enum pccl_status count_peers(struct pccl_api_call *call, pcclLoop_t *loop, uint64_t begun_us, bool *is_enough)
{
    const pcclLoopOptions_t *options = &loop->options;
    int count = 0;
    enum pccl_status status = end_as(call, pcclGetAttribute(loop->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &count));
    *is_enough = status == PCCL_OK && (uint32_t)count >= options->min_peers;
    if (status != PCCL_OK || *is_enough)
        return status;
    uint64_t waited_us = pccl_now_us() - begun_us;
    if (options->wait_ms > 0 && waited_us >= (uint64_t)options->wait_ms * 1000) {
        struct pccl_text words;
        pccl_text_format(&words, "only %u of min_peers=%u peers joined within wait_ms=%u", (uint32_t)count,
                         options->min_peers, options->wait_ms);
        return fail(call, PCCL_TIMEOUT, words.bytes);
    }
    if (waited_us >= SAY_AFTER_US && !loop->has_said) {
        loop->has_said = true;
        pccl_logger_print(PCCL_LOG_WARN, "peer", "loop: waiting for peers: %u of min_peers=%u have joined",
                          (uint32_t)count, options->min_peers);
    }
    (void)pause_until(loop, from_now(PEERS_PAUSE_US)); /* if the communicator was closed, the next call fails */
    return PCCL_OK;
}

static enum pccl_status synchronize(struct pccl_api_call *call, pcclLoop_t *loop, pcclSharedStateSyncInfo_t *info)
{
    const pcclSharedState_t *given = loop->given;
    const size_t count = given ? given->count : 0;
    if (count > 0 && !given->infos)
        return fail(call, PCCL_ARGUMENT, "state: infos is NULL");
    if (count >= SIZE_MAX / sizeof(pcclTensorInfo_t) - 1)
        return fail(call, PCCL_ARGUMENT, "state: too many tensors");
    const size_t bytes = (count + 1) * sizeof(pcclTensorInfo_t);
    pcclTensorInfo_t *infos = pccl_allocate(pccl_heap(), bytes);
    if (!infos) /* the other members wait until this peer leaves */
        return fail(call, PCCL_MEMORY, "state: out of memory for the tensor list");
    if (count > 0)
        memcpy(infos, given->infos, bytes - sizeof *infos);
    infos[count] = (pcclTensorInfo_t){"pccl.loop.steps", &loop->steps, 1, pcclUint64, pcclDeviceCpu, false};
    pcclSharedState_t state = {loop->revision + !loop->is_new, count + 1, infos};
    enum pccl_status status = end_as(
        call, pcclSynchronizeSharedState(loop->comm, &state, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, info));
    pccl_release(pccl_heap(), infos, bytes);
    if (status != PCCL_OK)
        return status;
    loop->revision = state.revision;
    if (loop->given)
        loop->given->revision = state.revision;
    return PCCL_OK;
}

static enum pccl_status describe(struct pccl_api_call *call, const pcclLoop_t *loop,
                                 const pcclSharedStateSyncInfo_t *info, pcclLoopStep_t *known)
{
    size_t count = 0;
    enum pccl_status status = end_as(call, pcclGetMembers(loop->comm, NULL, 0, &count, &known->rank));
    known->world = (uint32_t)count;
    known->number = loop->steps;
    known->revision = loop->revision;
    known->tx_bytes = info->tx_bytes;
    known->rx_bytes = info->rx_bytes;
    known->joined = loop->is_new;
    known->diverged = !loop->is_new && info->rx_bytes > 0;
    return status;
}

/* Returns true, with the reason, if this peer has left the run because of a drain. */
static bool is_drained(const pcclLoop_t *loop, struct pccl_text *reason)
{
    struct pccl_communicator *comm = loop->comm->comm;
    pccl_comm_enter(comm);
    bool is = !pccl_comm_is_connected(comm) &&
              (atomic_load(&comm->drain_asked) || (comm->peer && pccl_peer_why_over(comm->peer) == PCCL_DRAINED));
    if (is && comm->peer)
        *reason = *pccl_peer_last_reason(comm->peer);
    else if (is)
        pccl_text_format(reason, "this peer was drained before it joined the run");
    pccl_comm_leave(comm);
    return is;
}

/* Ends this call with DRAINED in place of the inner call's result. */
static enum pccl_status end_drained(struct pccl_api_call *call)
{
    call->inner = pcclSuccess;
    return PCCL_DRAINED;
}

/*
 * Makes one attempt to begin the step: admits newcomers, checks the number of peers, and synchronizes. If it returns OK
 * without setting *is_begun, the caller must call it again.
 */
static enum pccl_status try_to_begin(struct pccl_api_call *call, pcclLoop_t *loop, uint64_t begun_us,
                                     pcclLoopStep_t *known, bool *is_begun)
{
    enum pccl_status status = PCCL_OK;
    pcclSharedStateSyncInfo_t info = {0};
    bool is_enough = false;
    *is_begun = false;
    if (is_drained(loop, &call->why.reason))
        return PCCL_DRAINED;
    if (is_out(loop)) {
        loop->is_new = true;
        status = get_in(call, loop);
        if (status != PCCL_OK)
            return is_drained(loop, &call->why.reason) ? end_drained(call) : status;
    } else if (!loop->is_admitted) {
        status = end_as(call, pcclUpdateTopology(loop->comm));
    }
    loop->is_admitted = false;
    if (status == PCCL_OK)
        status = count_peers(call, loop, begun_us, &is_enough);
    if (status == PCCL_OK && is_enough) {
        status = synchronize(call, loop, &info);
        loop->removals = status == PCCL_OK ? 0 : loop->removals + 1;
        if (status == PCCL_OK)
            status = describe(call, loop, &info, known);
        *is_begun = status == PCCL_OK;
    }
    /* A peer that is out of the run now joins again, unless its synchronizations fail repeatedly. */
    if (status != PCCL_OK && is_drained(loop, &call->why.reason))
        return end_drained(call);
    return status != PCCL_OK && is_out(loop) && loop->removals < REMOVALS_MAX ? end_as(call, pcclSuccess) : status;
}

/* Returns true if the loop repeats the step after this outcome. The loop returns all other outcomes to the caller. */
static bool is_loss(const pcclLoop_t *loop, pcclResult_t outcome)
{
    switch (outcome) {
    case pcclTooFewPeers:
    case pcclRankConnectionLost:
    case pcclTimeout:
    case pcclAborted:
    case pcclExpelled:
    case pcclMasterLost:
    case pcclDrained:
    case pcclMembersChanged: return true;
    case pcclInvalidUsage: return is_out(loop);
    default: return false;
    }
}

static enum pccl_status next(struct pccl_api_call *call, pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step)
{
    pcclLoopStep_t known = PCCL_LOOP_STEP_INIT;
    const uint64_t begun_us = pccl_now_us();
    call->extended = true;
    if (!step)
        return fail(call, PCCL_ARGUMENT, "step is NULL");
    if (step->size < sizeof known || step->size > PCCL_API_STRUCT_MAX)
        return fail(call, PCCL_ARGUMENT, "the size of the step is not set: initialize it with PCCL_LOOP_STEP_INIT");
    const bool is_in_step = loop->last == STEP_BEGUN;
    if (is_in_step)
        loop->last = outcome == pcclSuccess ? STEP_COMPLETED : STEP_FAILED;
    loop->steps += is_in_step && outcome == pcclSuccess;
    loop->has_said = false;
    if (is_in_step && outcome != pcclSuccess && !is_loss(loop, outcome))
        return end_as(call, outcome);
    enum pccl_status status = PCCL_OK;
    for (bool is_begun = false; status == PCCL_OK && !is_begun;)
        status = try_to_begin(call, loop, begun_us, &known, &is_begun);
    if (status != PCCL_OK)
        return status;
    known.again = loop->last == STEP_FAILED && known.number == loop->begun;
    loop->begun = known.number;
    loop->is_new = false;
    loop->last = STEP_BEGUN;
    if (known.diverged)
        pccl_logger_print(PCCL_LOG_WARN, "peer",
                          "loop: this peer's state differed from the majority's and was replaced: either this "
                          "peer computed differently, or the step changed the state before its last operation");
    const size_t size = step->size;
    memset(step, 0, size); /* includes the fields of later versions */
    *step = known;
    step->size = size;
    return PCCL_OK;
}

static enum pccl_status refuse_null(struct pccl_api_call *call)
{
    return pccl_fail(&call->why.reason, PCCL_ARGUMENT, "pcclLoopNext: loop is NULL");
}

pcclResult_t pcclLoopNext(pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step)
{
    if (!loop)
        PCCL_API_CALL(PROCESS, NULL, PCCL_FAMILY_GENERAL, refuse_null(call));
    PCCL_API_CALL(COMMUNICATOR, loop->comm, PCCL_FAMILY_GENERAL, next(call, loop, outcome, step));
}

/* ---- the loop itself ---- */

static enum pccl_status begin(struct pccl_api_call *call, pcclSharedState_t *state, const pcclLoopOptions_t *given,
                              pcclLoop_t **out)
{
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    struct pccl_text *reason = &call->why.reason;
    enum pccl_status status = PCCL_OK;
    call->extended = true;
    if (!out)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclLoopBegin: loop_out is NULL");
    if (given)
        status = pccl_api_struct_read(given, &options, sizeof options, "PCCL_LOOP_OPTIONS_INIT", reason);
    if (status != PCCL_OK)
        return status;
    if (options.min_peers == 0)
        return pccl_fail(reason, PCCL_ARGUMENT, "pcclLoopBegin: invalid min_peers 0: expected at least 1");
    pcclLoop_t *loop = pccl_allocate(pccl_heap(), sizeof *loop);
    if (!loop)
        return pccl_fail(reason, PCCL_MEMORY, "pcclLoopBegin: out of memory");
    *loop = (struct pcclLoop_t){.comm = call->handle,
                                .given = state,
                                .options = options,
                                .steps = options.first_step,
                                .revision = state ? state->revision : 0,
                                .is_admitted = !is_out_of_run(call->comm),
                                .is_new = true};
    *out = loop;
    return PCCL_OK;
}

pcclResult_t pcclLoopBegin(pcclComm_t *comm, pcclSharedState_t *state, const pcclLoopOptions_t *options,
                           pcclLoop_t **loop_out)
{
    PCCL_API_CALL(COMMUNICATOR, comm, PCCL_FAMILY_GENERAL, begin(call, state, options, loop_out));
}

pcclResult_t pcclLoopEnd(pcclLoop_t *loop)
{
    if (loop)
        pccl_release(pccl_heap(), loop, sizeof *loop);
    return pcclSuccess;
}
