/* An invariant may also break in the functions called here, so every function of this file can run again. */
#include "drive/comm_broken.h"
#include "drive/comm_machine.h"
#include "drive/communicator.h"

void pccl_comm_break_call(struct pccl_communicator *comm, enum pccl_call call, const struct pccl_worker *worker)
{
    bool syncs = call == PCCL_CALL_SYNC;
    pccl_comm_enter_after_fault(comm);
    if (comm->calls[call].worker == worker)
        comm->calls[call].worker = NULL;
    pccl_comm_break(comm, syncs ? "during a synchronization; tensors may be partly overwritten"
                                : "during a test of the topology");
    pccl_comm_leave(comm);
}

/*
 * Ends the communicator and waits for all jobs, because the engine uses the buffers of operations until it releases
 * them.
 */
static void end_all(void *argument)
{
    struct pccl_communicator *comm = argument;
    if (comm->defect)
        pccl_comm_give_up(comm); /* an earlier run may have been abandoned in this function */
    else
        pccl_comm_break(comm, "in a call");
    pccl_comm_op_jobs_await(comm);
}

static void close_listener(void *argument)
{
    struct pccl_communicator *comm = argument;
    pccl_listener_close(&comm->listener);
}

void pccl_caller_broke(struct pccl_caller *caller)
{
    struct pccl_communicator *comm = caller->comm;
    pccl_caller_left(caller);
    pccl_comm_enter_after_fault(comm);
    pccl_comm_forget_waiter(comm, &caller->waiter);
    pccl_comm_calls_forget_waiter(comm, &caller->waiter);
    pccl_comm_describe_forget_waiter(comm, &caller->waiter);
    pccl_comm_ops_forget_waiter(comm, &caller->waiter);
    pccl_comm_jobs_abandon(comm, &caller->waiter);
    if (!pccl_guard_run(end_all, comm)) /* an invariant broke in the state machine, too; no goodbye is sent */
        (void)pccl_guard_run(end_all, comm);
    if (!comm->started)
        (void)pccl_guard_run(close_listener, comm); /* no thread is left to accept connections */
    pccl_comm_leave(comm);
}
