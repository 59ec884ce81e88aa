/*
 * Steps of the machine are guarded: when an invariant breaks in one, the machine is given up, everything that waits
 * ends with an internal error, and the communicator can only be destroyed. When one breaks elsewhere, a machine that
 * is whole leaves the run, and the rest is the same.
 */
#include "drive/comm_engine.h"
#include "drive/comm_links.h"
#include "drive/comm_machine.h"
#include "drive/comm_master.h"
#include "drive/comm_sync.h"
#include "drive/comm_topology.h"
#include "drive/comm_wait.h"
#include "net/guard.h"

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
    pccl_comm_jobs_stop(comm);
    for (struct pccl_node *node = pccl_table_first(&comm->reductions.by_tag); node;
         node = pccl_table_after(&comm->reductions.by_tag, node)) {
        struct pccl_comm_op *reduction = PCCL_CONTAINER_OF(node, struct pccl_comm_op, by_tag);
        if (reduction->op) {
            reduction->op = NULL;
            reduction->status = PCCL_INTERNAL;
            pccl_text_format(&reduction->why.words, "%s", pccl_status_text(PCCL_INTERNAL));
        }
        if (!reduction->decided)
            pccl_comm_reduction_decided(comm, reduction, false);
    }
    for (uint32_t i = 0; i < PCCL_COUNT_OF(comm->calls); i++)
        end_call(comm, &comm->calls[i]);
    pccl_comm_sync_over(comm);
    pccl_comm_optimize_over(comm);
    pccl_comm_describe_over(comm, PCCL_INTERNAL);
    pccl_comm_links_close_all(comm);
    pccl_comm_effect_close_master(comm);
}

struct step {
    struct pccl_peer *peer;
    struct pccl_peer_event *event;
    enum pccl_status status;
};

static void step_body(void *argument)
{
    struct step *step = argument;
    step->status = pccl_peer_step(step->peer, step->event);
}

enum pccl_status pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event)
{
    if (!comm->peer)
        return PCCL_INTERNAL;
    event->now_us = pccl_now_us();
    struct step step = {.peer = comm->peer, .event = event, .status = PCCL_INTERNAL};
    if (!pccl_guard_run(step_body, &step))
        give_up(comm);
    return step.status;
}

void pccl_comm_break(struct pcclComm_t *comm, const char *where)
{
    if (comm->defect)
        return;
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_BROKEN, .where = where});
    comm->defect = true;
}

void pccl_comm_break_session(struct pcclComm_t *comm, enum pccl_call call)
{
    bool syncs = call == PCCL_CALL_SYNC;
    pccl_comm_seize(comm);
    if (syncs)
        comm->sync.session = NULL;
    else
        comm->topology.session = NULL;
    pccl_comm_break(comm,
                    syncs ? "in a synchronization; tensors may be partly overwritten" : "in a test of the topology");
    pccl_comm_leave(comm);
}
