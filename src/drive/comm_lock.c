#include "drive/comm_lock.h"
#include "drive/communicator.h"

#include "log/logger.h"

static _Thread_local const struct pccl_communicator *entered; /* communicator whose lock this thread holds */

static void unlock_and_log(struct pccl_communicator *comm)
{
    struct pccl_comm_log log = comm->log;
    comm->log = (struct pccl_comm_log){0};
    entered = NULL;
    uv_mutex_unlock(&comm->lock);
    pccl_comm_log_write(&log);
}

void pccl_comm_on_log(void *context, enum pccl_log_level level, const char *line)
{
    struct pccl_communicator *comm = context;
    struct pccl_text reason;
    if (!pccl_logger_wants(level))
        return;
    pccl_text_format(&reason, "%s", line);
    pccl_comm_enter(comm);
    if (comm->peer)
        pccl_peer_add_names(comm->peer, &reason);
    unlock_and_log(comm);
    pccl_logger_write(level, "peer", reason.bytes);
}

bool pccl_comm_has_notes(const struct pccl_communicator *comm)
{
    return pccl_comm_master_has_notes(&comm->master) || comm->links.queued || comm->links.backs_due ||
           comm->links.backs_over || comm->starved;
}

void pccl_comm_wake_loop(struct pccl_communicator *comm)
{
    if (!comm->started || comm->is_shut_down || comm->woken)
        return;
    comm->woken = true;
    pccl_reactor_wake(&comm->reactor);
}

void pccl_comm_enter(struct pccl_communicator *comm)
{
    uv_mutex_lock(&comm->lock);
    entered = comm;
}

void pccl_comm_enter_after_fault(struct pccl_communicator *comm)
{
    if (entered != comm)
        pccl_comm_enter(comm);
}

/* Returns true if the loop has work left. */
static bool flush(struct pccl_communicator *comm)
{
    bool flushed = !comm->master.connection || pccl_connection_flush(comm->master.connection);
    return !flushed || pccl_comm_has_notes(comm);
}

void pccl_comm_flush(struct pccl_communicator *comm)
{
    bool is_earlier = comm->peer && pccl_peer_deadline(comm->peer) < comm->armed_us; /* earlier than the loop's timer */
    if (flush(comm) || is_earlier)
        pccl_comm_wake_loop(comm);
}

void pccl_comm_leave(struct pccl_communicator *comm)
{
    pccl_comm_flush(comm);
    unlock_and_log(comm);
}

void pccl_comm_loop_enter(void *context)
{
    struct pccl_communicator *comm = context;
    pccl_comm_enter(comm);
    comm->on_loop = true;
    comm->woken = false;
}

void pccl_comm_loop_leave(void *context)
{
    struct pccl_communicator *comm = context;
    if (flush(comm) && !comm->is_shut_down)
        pccl_reactor_hurry(&comm->reactor); /* the requested work runs after the next poll, which must not wait */
    pccl_comm_loop_rest(comm);
}

void pccl_comm_loop_rest(struct pccl_communicator *comm)
{
    comm->on_loop = false;
    unlock_and_log(comm);
}
