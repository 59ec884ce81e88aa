/*
 * Steps of the state machine are guarded. If an invariant breaks in a step, the state machine is abandoned, all waiting
 * calls end with an internal error, and the communicator can only be destroyed. If an invariant breaks elsewhere, the
 * same happens, but the intact state machine first leaves the run.
 */
#include "drive/communicator.h"
#include "drive/comm_machine.h"
#include "net/guard.h"

/* ---- the end of the state machine ---- */

static void end_call(struct pccl_communicator *comm, struct pccl_call_slot *slot)
{
    if (slot->outstanding && !slot->done)
        pccl_comm_call_done(comm, slot, PCCL_INTERNAL);
}

/* Does not free the state machine, because its memory cannot be trusted. */
void pccl_comm_give_up(struct pccl_communicator *comm)
{
    comm->defect = true;
    comm->peer = NULL;
    pccl_comm_effect_close_master(comm);
    pccl_comm_op_jobs_stop(comm);
    pccl_comm_ops_give_up(comm);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(comm->calls); i++)
        end_call(comm, &comm->calls[i]);
    pccl_comm_describe_over(comm, &comm->topology, PCCL_INTERNAL);
    pccl_comm_links_close_all(comm);
}

/* ---- steps ---- */

enum pccl_status pccl_comm_step(struct pccl_communicator *comm, struct pccl_peer_event *event)
{
    if (!comm->peer)
        return PCCL_INTERNAL;
    event->now_us = comm->stepped_us = pccl_now_us();
    event->thread = pccl_caller_thread();
    struct pccl_guard guard;
    pccl_guard_push(&guard);
    if (setjmp(guard.place) != 0) {
        pccl_comm_give_up(comm);
        return PCCL_INTERNAL;
    }
    enum pccl_status status = pccl_peer_step(comm->peer, event);
    pccl_guard_pop(&guard);
    return status;
}

enum pccl_status pccl_comm_take_part(struct pccl_communicator *comm, struct pccl_worker *worker,
                                     struct pccl_peer_event *event)
{
    struct pccl_call_slot *slot = &comm->calls[event->call];
    *slot = (struct pccl_call_slot){.outstanding = true,
                                    .begun_us = pccl_now_us(),
                                    .known = pccl_peer_attributes(comm->peer).epoch,
                                    .worker = worker};
    pccl_comm_time_block(&comm->time, slot->begun_us);
    enum pccl_status status = pccl_comm_step(comm, event);
    if (status == PCCL_OK) {
        pccl_comm_serve_call(comm, slot);
        status = slot->status;
    }
    comm->time.times.joint_us += pccl_comm_time_unblock(&comm->time, pccl_now_us());
    comm->time.unreported = true;
    slot->worker = NULL;
    slot->outstanding = false;
    return status;
}

void pccl_comm_break(struct pccl_communicator *comm, const char *where)
{
    if (comm->defect)
        return;
    pccl_comm_step(comm, &(struct pccl_peer_event){.kind = PCCL_PEER_BROKEN, .where = where});
    comm->defect = true;
}

bool pccl_comm_is_connected(const struct pccl_communicator *comm)
{
    return comm->peer && pccl_peer_is_connected(comm->peer);
}

enum pccl_status pccl_comm_why_unconnected(const struct pccl_communicator *comm, struct pccl_text *reason)
{
    if (comm->defect) {
        const char *why = comm->peer ? pccl_peer_last_reason(comm->peer)->bytes : pccl_status_text(PCCL_INTERNAL);
        return pccl_fail(reason, PCCL_INTERNAL, "%s; the communicator can only be destroyed", why);
    }
    const struct pccl_text *why = comm->peer ? pccl_peer_last_reason(comm->peer) : NULL;
    if (why && why->length)
        pccl_text_format(reason, "not connected: %s", why->bytes);
    else
        pccl_text_format(reason, "not connected: pcclConnect has not succeeded");
    enum pccl_status over = comm->peer ? pccl_peer_why_over(comm->peer) : PCCL_OK;
    bool thrown_out = over == PCCL_EXPELLED || over == PCCL_MASTER_LOST || over == PCCL_DRAINED;
    return thrown_out && comm->params.extended_results ? over : PCCL_USAGE;
}
