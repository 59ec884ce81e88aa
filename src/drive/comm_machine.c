/*
 * Visits to the machine, all of them guarded: when an invariant breaks in one, the machine is given up, everything that
 * waits ends with an internal error, and the communicator can only be destroyed.
 */
#include "drive/communicator.h"
#include "drive/guard.h"

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
        VISIT_LEAVE,
        VISIT_JUDGE
    } what;
    uint64_t now_us;
    const struct pccl_peer_event *event;
    const struct pccl_launch *launch;
    struct pccl_op *op;
    const struct pccl_msg_link_hello *hello;
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
    case VISIT_AWAITED: pccl_peer_op_awaited(peer, visit->now_us, visit->op, true); break;
    case VISIT_RELEASE: pccl_peer_op_release(peer, visit->op); break;
    case VISIT_LEAVE: pccl_peer_leave(peer, visit->now_us); break;
    case VISIT_JUDGE: visit->status = pccl_peer_judge_link(peer, visit->hello, visit->refusal, visit->words); break;
    }
}

static void end_call(struct pcclComm_t *comm, struct pccl_call_slot *slot)
{
    if (!slot->outstanding || slot->done)
        return;
    slot->done = true;
    slot->status = PCCL_INTERNAL;
    pccl_comm_fire(comm, slot->waiter);
}

/* The machine's memory stays behind: nothing of it can be trusted, not even to free it. */
static void give_up(struct pcclComm_t *comm)
{
    comm->defect = true;
    comm->peer = NULL;
    for (struct pccl_node *node = pccl_table_first(&comm->reductions); node;
         node = pccl_table_after(&comm->reductions, node)) {
        struct pccl_comm_op *reduction = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if (reduction->op) {
            reduction->op = NULL;
            reduction->status = PCCL_INTERNAL;
            pccl_text_format(&reduction->words, "%s", pccl_status_text(PCCL_INTERNAL));
        }
        if (!reduction->decided)
            pccl_comm_reduction_decided(comm, reduction);
    }
    for (uint32_t i = 0; i < PCCL_COUNT_OF(comm->calls); i++)
        end_call(comm, &comm->calls[i]);
    pccl_comm_links_close_all(comm);
    pccl_comm_effect_close_master(comm);
}

/* The answer, INTERNAL if the machine broke or had broken before. */
static enum pccl_status visit_machine(struct visit *visit)
{
    struct pcclComm_t *comm = visit->comm;
    if (!comm->peer)
        return PCCL_INTERNAL;
    visit->now_us = pccl_comm_now_us();
    if (pccl_guard_run(visit_body, visit))
        return visit->status;
    give_up(comm);
    return PCCL_INTERNAL;
}

void pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event)
{
    event->now_us = pccl_comm_now_us();
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_STEP, .event = event});
}

enum pccl_status pccl_comm_ask(struct pcclComm_t *comm, enum pccl_call call)
{
    struct visit visit = {.comm = comm, .what = VISIT_CONNECT};
    if (call == PCCL_CALL_UPDATE)
        visit.what = VISIT_UPDATE;
    else if (call == PCCL_CALL_PENDING)
        visit.what = VISIT_PENDING;
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

void pccl_comm_op_awaited(struct pcclComm_t *comm, struct pccl_op *op)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_AWAITED, .op = op});
}

void pccl_comm_op_release(struct pcclComm_t *comm, struct pccl_op *op)
{
    (void)visit_machine(&(struct visit){.comm = comm, .what = VISIT_RELEASE, .op = op});
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
