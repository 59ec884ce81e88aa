/*
 * Visits to the machine, all of them guarded: when an invariant breaks in one, the machine is given up, everything that
 * waits ends with an internal error, and the communicator can only be destroyed. When one breaks elsewhere, a machine
 * that is whole leaves the run, and the rest is the same.
 */
#include "drive/communicator.h"
#include "drive/comm_machine.h"
#include "net/guard.h"

struct visit {
    struct pcclComm_t *comm;
    enum {
        VISIT_STEP,
        VISIT_CONNECT,
        VISIT_UPDATE,
        VISIT_PENDING,
        VISIT_LAUNCH,
        VISIT_AWAITED,
        VISIT_RELEASE,
        VISIT_DONE,
        VISIT_FAILED,
        VISIT_ABORT,
        VISIT_ANNOUNCED,
        VISIT_MEASURED,
        VISIT_SYNC,
        VISIT_TOUCHED,
        VISIT_PROVEN,
        VISIT_FETCHED,
        VISIT_OPTIMIZE,
        VISIT_WAY_MEASURED,
        VISIT_DESCRIBE,
        VISIT_LEAVE,
        VISIT_FAIL,
        VISIT_JUDGE
    } what;
    uint64_t now_us;
    const struct pccl_peer_event *event;
    const struct pccl_launch *launch;
    struct pccl_op *op;
    bool blocked;
    enum pccl_class class;
    const struct pccl_text *why;
    const struct pccl_id *from;
    const struct pccl_msg_ready *ready;
    uint32_t rtt_us;
    uint64_t rate;
    const struct pccl_msg_link_hello *hello;
    const struct pccl_sync_vote *vote;
    const struct pccl_proof *proof;
    const struct pccl_peer_measurement *measurement;
    bool complete;
    const char *where;
    enum pccl_refusal *refusal;
    struct pccl_text *words;
    enum pccl_status status;
};

static void visit_body(void *argument)
{
    struct visit *visit = argument;
    struct pccl_peer *peer = visit->comm->peer;
    switch (visit->what) {
    case VISIT_STEP: pccl_peer_step(peer, visit->event); break;
    case VISIT_CONNECT: visit->status = pccl_peer_connect(peer, visit->now_us); break;
    case VISIT_UPDATE: visit->status = pccl_peer_update(peer, visit->now_us); break;
    case VISIT_PENDING: visit->status = pccl_peer_pending(peer, visit->now_us); break;
    case VISIT_LAUNCH: visit->status = pccl_peer_launch(peer, visit->now_us, visit->launch, &visit->op); break;
    case VISIT_AWAITED: pccl_peer_op_awaited(peer, visit->now_us, visit->op, visit->blocked); break;
    case VISIT_RELEASE: pccl_peer_op_release(peer, visit->op); break;
    case VISIT_DONE: pccl_peer_op_done(peer, visit->now_us, visit->op); break;
    case VISIT_FAILED: pccl_peer_op_failed(peer, visit->now_us, visit->op, visit->class, visit->why); break;
    case VISIT_ABORT: pccl_peer_op_abort(peer, visit->now_us, visit->op, visit->class, visit->why); break;
    case VISIT_ANNOUNCED: pccl_peer_announced(peer, visit->now_us, visit->from, visit->ready); break;
    case VISIT_MEASURED: pccl_peer_link_measured(peer, visit->now_us, visit->from, visit->rtt_us, visit->rate); break;
    case VISIT_SYNC: visit->status = pccl_peer_sync(peer, visit->now_us, visit->vote); break;
    case VISIT_TOUCHED: pccl_peer_sync_touched(peer); break;
    case VISIT_PROVEN: pccl_peer_sync_proven(peer, visit->now_us, visit->proof); break;
    case VISIT_FETCHED: pccl_peer_sync_done(peer, visit->now_us, visit->complete, visit->why); break;
    case VISIT_OPTIMIZE: visit->status = pccl_peer_optimize(peer, visit->now_us); break;
    case VISIT_WAY_MEASURED: pccl_peer_measured(peer, visit->now_us, visit->measurement); break;
    case VISIT_DESCRIBE: visit->status = pccl_peer_describe(peer, visit->now_us); break;
    case VISIT_LEAVE: pccl_peer_leave(peer, visit->now_us); break;
    case VISIT_FAIL: pccl_peer_fail(peer, visit->now_us, visit->where); break;
    case VISIT_JUDGE: visit->status = pccl_peer_judge_link(peer, visit->hello, visit->refusal, visit->words); break;
    }
}

/* The answer, INTERNAL if the machine broke or had broken before. */
static enum pccl_status visit_machine(struct visit *visit)
{
    struct pcclComm_t *comm = visit->comm;
    if (!comm->peer)
        return PCCL_INTERNAL;
    visit->now_us = pccl_now_us();
    if (pccl_guard_run(visit_body, visit))
        return visit->status;
    comm->hooks->give_up(comm);
    return PCCL_INTERNAL;
}

void pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event)
{
    event->now_us = pccl_now_us();
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_STEP, .event = event});
}

enum pccl_status pccl_comm_ask(struct pcclComm_t *comm, enum pccl_call call)
{
    struct visit visit = {.comm = comm, .what = VISIT_CONNECT};
    if (call == PCCL_CALL_UPDATE)
        visit.what = VISIT_UPDATE;
    else if (call == PCCL_CALL_PENDING)
        visit.what = VISIT_PENDING;
    else if (call == PCCL_CALL_OPTIMIZE)
        visit.what = VISIT_OPTIMIZE;
    return visit_machine(&visit);
}

enum pccl_status pccl_comm_launch(struct pcclComm_t *comm, const struct pccl_launch *launch, struct pccl_op **op)
{
    struct visit visit = {.comm = comm, .what = VISIT_LAUNCH, .launch = launch};
    enum pccl_status status = visit_machine(&visit);
    if (status == PCCL_OK)
        *op = visit.op;
    return status;
}

void pccl_comm_op_awaited(struct pcclComm_t *comm, struct pccl_op *op, bool blocked)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_AWAITED, .op = op, .blocked = blocked});
}

void pccl_comm_op_release(struct pcclComm_t *comm, struct pccl_op *op)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_RELEASE, .op = op});
}

void pccl_comm_op_done(struct pcclComm_t *comm, struct pccl_op *op)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_DONE, .op = op});
}

void pccl_comm_op_failed(struct pcclComm_t *comm, struct pccl_op *op, enum pccl_class class,
                         const struct pccl_text *words)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_FAILED, .op = op, .class = class, .why = words});
}

void pccl_comm_op_abort(struct pcclComm_t *comm, struct pccl_op *op, const struct pccl_text *words)
{
    (void)visit_machine(
        &(struct visit){.comm = comm, .what = VISIT_ABORT, .op = op, .class = PCCL_CLASS_ABORTED, .why = words});
}

void pccl_comm_announced(struct pcclComm_t *comm, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_ANNOUNCED, .from = from, .ready = ready});
}

void pccl_comm_link_measured(struct pcclComm_t *comm, const struct pccl_id *peer, uint32_t rtt_us, uint64_t rate)
{
    (void)visit_machine(
        &(struct visit){.comm = comm, .what = VISIT_MEASURED, .from = peer, .rtt_us = rtt_us, .rate = rate});
}

enum pccl_status pccl_comm_ask_sync(struct pcclComm_t *comm, const struct pccl_sync_vote *vote)
{
    return visit_machine(&(struct visit){.comm = comm, .what = VISIT_SYNC, .vote = vote});
}

void pccl_comm_sync_touched(struct pcclComm_t *comm)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_TOUCHED});
}

void pccl_comm_sync_proven(struct pcclComm_t *comm, const struct pccl_proof *proof)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_PROVEN, .proof = proof});
}

void pccl_comm_sync_done(struct pcclComm_t *comm, bool complete, const struct pccl_text *words)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_FETCHED, .complete = complete, .why = words});
}

void pccl_comm_way_measured(struct pcclComm_t *comm, const struct pccl_peer_measurement *measurement)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_WAY_MEASURED, .measurement = measurement});
}

enum pccl_status pccl_comm_ask_describe(struct pcclComm_t *comm)
{
    return visit_machine(&(struct visit){.comm = comm, .what = VISIT_DESCRIBE});
}

void pccl_comm_leave_run(struct pcclComm_t *comm)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_LEAVE});
}

enum pccl_status pccl_comm_judge_link(struct pcclComm_t *comm, const struct pccl_msg_link_hello *hello,
                                      enum pccl_refusal *refusal, struct pccl_text *words)
{
    return visit_machine(
        &(struct visit){.comm = comm, .what = VISIT_JUDGE, .hello = hello, .refusal = refusal, .words = words});
}

void pccl_comm_break(struct pcclComm_t *comm, const char *where)
{
    if (comm->defect)
        return;
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_FAIL, .where = where});
    comm->defect = true;
}

bool pccl_comm_is_connected(const pcclComm_t *comm) { return comm->peer && pccl_peer_is_connected(comm->peer); }

enum pccl_status pccl_comm_why_unconnected(const pcclComm_t *comm, struct pccl_text *words)
{
    if (comm->defect) {
        const char *why = comm->peer ? pccl_peer_last_words(comm->peer)->bytes : pccl_status_text(PCCL_INTERNAL);
        pccl_text_format(words, "%s; the communicator can only be destroyed", why);
        return PCCL_INTERNAL;
    }
    const struct pccl_text *why = comm->peer ? pccl_peer_last_words(comm->peer) : NULL;
    if (why && why->length)
        pccl_text_format(words, "not connected: %s", why->bytes);
    else
        pccl_text_format(words, "not connected: pcclConnect has not succeeded");
    enum pccl_status over = comm->peer ? pccl_peer_why_over(comm->peer) : PCCL_OK;
    bool thrown_out = over == PCCL_EXPELLED || over == PCCL_MASTER_LOST;
    return thrown_out && comm->params.extended_results ? over : PCCL_USAGE;
}
