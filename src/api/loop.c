/* pcclLoopBegin, pcclLoopNext and pcclLoopEnd, made of the functions that a loop by hand calls. */
#include "api/api.h"
#include "drive/comm_callers.h"
#include "drive/comm_machine.h"
#include "log/logger.h"
#include "net/heap.h"
#include "pccl_loop.h"

#include <string.h>

enum {
    REMOVALS_MAX = 3,           /* in synchronizations, one after another: the program is wrong */
    ATTEMPT_PAUSE_US = 1000000, /* between two attempts to get into the run */
    PEERS_PAUSE_US = 100000,    /* between two updates that wait for min_peers */
    SLICE_US = 50000,           /* of a pause, before it sees that the communicator was closed */
    SAY_AFTER_US = 2000000,     /* that peers are waited for */
};

struct pcclLoop_t {
    pcclComm_t *comm;
    pcclSharedState_t *given; /* NULL: none */
    pcclLoopOptions_t options;
    uint64_t steps;    /* that the run has completed: the last tensor of the state */
    uint64_t revision; /* of the last synchronization, or what the caller brought */
    uint32_t removals; /* in synchronizations since the last that succeeded */
    bool is_admitted;  /* the call that admits this peer or others was made, and the synchronization comes next */
    bool is_new;       /* this peer has not begun a step since it was admitted */
    bool is_in_step;   /* its outcome is not known yet */
    bool has_said;     /* in this call, that peers are waited for */
};

static uint64_t from_now(uint64_t us) { return pccl_now_us() + us; }

static pcclResult_t fail(const pcclLoop_t *loop, enum pccl_status status, const char *words)
{
    return pccl_errors_fail(loop->comm->key, PCCL_FAMILY_GENERAL, true, status, "pcclLoopNext: %s", words);
}

/* false: the communicator is being closed. */
static bool pause_until(const pcclLoop_t *loop, uint64_t end_us)
{
    struct pccl_communicator *comm = loop->comm->comm;
    pccl_comm_enter(comm);
    bool is_woken = false; /* nobody does, but then the pause is over */
    while (!comm->leaving && !is_woken && pccl_now_us() < end_us)
        is_woken = pccl_comm_wait_until(comm, pccl_caller_waiter(), pccl_min_u64(end_us, from_now(SLICE_US)));
    bool leaving = comm->leaving;
    pccl_comm_leave(comm);
    return !leaving;
}

/* Whether this peer is not in the run, but may get in: the communicator is not being closed. */
static bool is_out_of_run(struct pccl_communicator *comm)
{
    pccl_comm_enter(comm);
    bool is_out = !pccl_comm_is_connected(comm) && !comm->leaving;
    pccl_comm_leave(comm);
    return is_out;
}

static bool is_out(const pcclLoop_t *loop) { return is_out_of_run(loop->comm->comm); }

/* ---- getting in ---- */

/* Whether the same attempt may succeed later. */
static bool may_come_in(const pcclLoop_t *loop)
{
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

static pcclResult_t get_in(pcclLoop_t *loop)
{
    const uint64_t end_us = from_now((uint64_t)loop->options.connect_ms * 1000);
    bool said = false;
    for (;;) {
        pcclResult_t result = pcclConnect(loop->comm);
        if (result == pcclSuccess || !may_come_in(loop) || pccl_now_us() >= end_us)
            return result;
        if (!said)
            pccl_logger_print(PCCL_LOG_WARN, "peer", "loop: not in the run yet, and trying for %u ms: %s",
                              loop->options.connect_ms, pcclGetLastError(loop->comm));
        said = true;
        if (!pause_until(loop, pccl_min_u64(end_us, from_now(ATTEMPT_PAUSE_US))))
            return result;
    }
}

/* ---- the beginning of a step ---- */

/* Are there min_peers? If not, pauses. Fails when they have been waited for too long. */
static pcclResult_t count_peers(pcclLoop_t *loop, uint64_t begun_us, bool *is_enough)
{
    const pcclLoopOptions_t *options = &loop->options;
    int count = 0;
    pcclResult_t result = pcclGetAttribute(loop->comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &count);
    *is_enough = result == pcclSuccess && (uint32_t)count >= options->min_peers;
    if (result != pcclSuccess || *is_enough)
        return result;
    uint64_t waited_us = pccl_now_us() - begun_us;
    if (options->wait_ms > 0 && waited_us >= (uint64_t)options->wait_ms * 1000) {
        struct pccl_text words;
        pccl_text_format(&words, "%u of min_peers=%u are in the run after wait_ms=%u", (uint32_t)count,
                         options->min_peers, options->wait_ms);
        return fail(loop, PCCL_TIMEOUT, words.bytes);
    }
    if (waited_us >= SAY_AFTER_US && !loop->has_said) {
        loop->has_said = true;
        pccl_logger_print(PCCL_LOG_WARN, "peer", "loop: waits for peers: %u of min_peers=%u are in the run",
                          (uint32_t)count, options->min_peers);
    }
    (void)pause_until(loop, from_now(PEERS_PAUSE_US)); /* closed: the next call says so */
    return pcclSuccess;
}

static pcclResult_t synchronize(pcclLoop_t *loop, pcclSharedStateSyncInfo_t *info)
{
    const pcclSharedState_t *given = loop->given;
    const size_t count = given ? given->count : 0;
    if (count > 0 && !given->infos)
        return fail(loop, PCCL_ARGUMENT, "state: infos is NULL");
    if (count >= SIZE_MAX / sizeof(pcclTensorInfo_t) - 1)
        return fail(loop, PCCL_ARGUMENT, "state: there are too many tensors");
    const size_t bytes = (count + 1) * sizeof(pcclTensorInfo_t);
    pcclTensorInfo_t *infos = pccl_allocate(pccl_heap(), bytes);
    if (!infos) /* the others wait for this peer until it leaves */
        return fail(loop, PCCL_MEMORY, "out of memory for a list of tensors");
    if (count > 0)
        memcpy(infos, given->infos, bytes - sizeof *infos);
    infos[count] = (pcclTensorInfo_t){"pccl.loop.steps", &loop->steps, 1, pcclUint64, pcclDeviceCpu, false};
    pcclSharedState_t state = {loop->revision + !loop->is_new, count + 1, infos};
    pcclResult_t result =
        pcclSynchronizeSharedState(loop->comm, &state, PCCL_SHARED_STATE_SYNC_STRATEGY_ENFORCE_POPULAR, info);
    pccl_release(pccl_heap(), infos, bytes);
    if (result != pcclSuccess)
        return result;
    loop->revision = state.revision;
    if (loop->given)
        loop->given->revision = state.revision;
    return pcclSuccess;
}

/* Admits, counts and synchronizes once. is_begun: the step has begun; if not, and nothing failed, once more. */
static pcclResult_t try_to_begin(pcclLoop_t *loop, uint64_t begun_us, pcclSharedStateSyncInfo_t *info, bool *is_begun)
{
    pcclResult_t result = pcclSuccess;
    bool is_enough = false;
    *is_begun = false;
    if (is_out(loop)) {
        loop->is_new = true;
        result = get_in(loop);
        if (result != pcclSuccess)
            return result;
    } else if (!loop->is_admitted) {
        result = pcclUpdateTopology(loop->comm);
    }
    loop->is_admitted = false;
    if (result == pcclSuccess)
        result = count_peers(loop, begun_us, &is_enough);
    if (result == pcclSuccess && is_enough) {
        result = synchronize(loop, info);
        *is_begun = result == pcclSuccess;
        loop->removals = *is_begun ? 0 : loop->removals + 1;
    }
    /* A peer that is out by now gets in anew, unless that has not helped. */
    return result != pcclSuccess && is_out(loop) && loop->removals < REMOVALS_MAX ? pcclSuccess : result;
}

/* Whether the step is to be begun again, and not the program's end. */
static bool is_loss(const pcclLoop_t *loop, pcclResult_t outcome)
{
    switch (outcome) {
    case pcclTooFewPeers:
    case pcclRankConnectionLost:
    case pcclTimeout:
    case pcclAborted:
    case pcclExpelled:
    case pcclMasterLost:
    case pcclMembersChanged: return true;
    case pcclInvalidUsage: return is_out(loop);
    default: return false;
    }
}

static pcclResult_t describe(const pcclLoop_t *loop, pcclLoopStep_t *known)
{
    size_t count;
    pcclResult_t result = pcclGetMembers(loop->comm, NULL, 0, &count, &known->rank);
    known->world = (uint32_t)count;
    known->number = loop->steps;
    known->revision = loop->revision;
    return result;
}

static pcclResult_t next(pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step)
{
    pcclLoopStep_t known = PCCL_LOOP_STEP_INIT;
    pcclSharedStateSyncInfo_t info = {0};
    const uint64_t begun_us = pccl_now_us();
    if (!step)
        return fail(loop, PCCL_ARGUMENT, "step is NULL");
    if (step->size < sizeof known || step->size > PCCL_API_STRUCT_MAX)
        return fail(loop, PCCL_ARGUMENT, "the size of the step is not set; use PCCL_LOOP_STEP_INIT");
    if (loop->is_in_step && outcome != pcclSuccess && !is_loss(loop, outcome))
        return outcome;
    const bool is_repeated = loop->is_in_step && outcome != pcclSuccess;
    loop->steps += loop->is_in_step && !is_repeated;
    loop->is_in_step = loop->has_said = false;
    const uint64_t steps = loop->steps;
    pcclResult_t result = pcclSuccess;
    for (bool is_begun = false; result == pcclSuccess && !is_begun;)
        result = try_to_begin(loop, begun_us, &info, &is_begun);
    if (result == pcclSuccess)
        result = describe(loop, &known);
    if (result != pcclSuccess)
        return result;
    known.tx_bytes = info.tx_bytes;
    known.rx_bytes = info.rx_bytes;
    known.again = is_repeated && loop->steps == steps;
    known.joined = loop->is_new;
    known.diverged = !loop->is_new && info.rx_bytes > 0;
    loop->is_new = false;
    loop->is_in_step = true;
    if (known.diverged)
        pccl_logger_print(PCCL_LOG_WARN, "peer",
                          "loop: this peer held something else than the others, and has what most hold now: it has "
                          "computed differently, or the step has changed the state before its last operation");
    const size_t size = step->size;
    memset(step, 0, size); /* also members that we do not know */
    *step = known;
    step->size = size;
    return pcclSuccess;
}

pcclResult_t pcclLoopNext(pcclLoop_t *loop, pcclResult_t outcome, pcclLoopStep_t *step)
{
    if (!loop)
        return pccl_api_fail_with(NULL, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT, "pcclLoopNext: loop is NULL");
    PCCL_API_WHOLE_CALL(loop->comm, PCCL_FAMILY_GENERAL, next(loop, outcome, step));
}

/* ---- the loop itself ---- */

static pcclResult_t begin(pcclComm_t *comm, pcclSharedState_t *state, const pcclLoopOptions_t *given, pcclLoop_t **out)
{
    struct pccl_text reason;
    pcclLoopOptions_t options = PCCL_LOOP_OPTIONS_INIT;
    enum pccl_status status = PCCL_OK;
    if (!out)
        return pccl_api_fail_with(comm, PCCL_FAMILY_GENERAL, PCCL_ARGUMENT, "pcclLoopBegin: loop_out is NULL");
    if (given)
        status = pccl_api_struct_read(given, &options, sizeof options, "PCCL_LOOP_OPTIONS_INIT", &reason);
    if (status == PCCL_OK && options.min_peers == 0)
        status = pccl_api_refuse(&reason, "pcclLoopBegin: min_peers is 0, and a step has one peer at least");
    pcclLoop_t *loop = status == PCCL_OK ? pccl_allocate(pccl_heap(), sizeof *loop) : NULL;
    if (status != PCCL_OK)
        return pccl_errors_fail(comm->key, PCCL_FAMILY_GENERAL, true, status, "%s", reason.bytes);
    if (!loop)
        return pccl_errors_fail(comm->key, PCCL_FAMILY_GENERAL, true, PCCL_MEMORY, "pcclLoopBegin: out of memory");
    *loop = (struct pcclLoop_t){.comm = comm,
                                .given = state,
                                .options = options,
                                .steps = options.first_step,
                                .revision = state ? state->revision : 0,
                                .is_admitted = !is_out_of_run(comm->comm),
                                .is_new = true};
    *out = loop;
    return pcclSuccess;
}

pcclResult_t pcclLoopBegin(pcclComm_t *comm, pcclSharedState_t *state, const pcclLoopOptions_t *options,
                           pcclLoop_t **loop_out)
{
    PCCL_API_WHOLE_CALL(comm, PCCL_FAMILY_GENERAL, begin(comm, state, options, loop_out));
}

pcclResult_t pcclLoopEnd(pcclLoop_t *loop)
{
    if (loop)
        pccl_release(pccl_heap(), loop, sizeof *loop);
    return pcclSuccess;
}
