#include "drive/comm_calls.h"
#include "drive/comm_callers.h"
#include "drive/communicator.h"

enum pccl_status pccl_comm_await_call(struct pccl_communicator *comm, struct pccl_call_slot *slot)
{
    slot->waiter = pccl_caller_waiter();
    if (!slot->done)
        pccl_comm_wait(comm, slot->waiter);
    slot->waiter = NULL;
    return slot->status;
}

void pccl_comm_serve_call(struct pccl_communicator *comm, struct pccl_call_slot *slot, void (*work)(void *worker),
                          void *worker)
{
    struct pccl_waiter *waiter = pccl_caller_waiter();
    slot->waiter = waiter;
    while (!slot->done) {
        pccl_comm_wait(comm, waiter);
        if (slot->done)
            break;
        pccl_comm_leave(comm);
        work(worker);
        pccl_comm_enter(comm);
    }
    slot->waiter = NULL;
}

void pccl_comm_call_done(struct pccl_communicator *comm, struct pccl_call_slot *slot, enum pccl_status status)
{
    slot->done = true;
    slot->status = status;
    pccl_comm_signal(comm, slot->waiter);
}

void pccl_comm_calls_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (uint32_t i = 0; i < PCCL_COUNT_OF(comm->calls); i++)
        if (comm->calls[i].waiter == waiter)
            comm->calls[i].waiter = NULL;
}
