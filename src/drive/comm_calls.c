#include "drive/comm_calls.h"
#include "drive/comm_callers.h"
#include "drive/communicator.h"

struct pccl_worker_config pccl_comm_worker_config(struct pccl_communicator *comm,
                                                  void (*broken)(void *comm, struct pccl_worker *worker),
                                                  pccl_comm_want_back_t *want_back)
{
    return (struct pccl_worker_config){.keys = comm->keys,
                                       .local = comm->local,
                                       .stagger_ms = PCCL_COMMUNICATOR_STAGGER_MS,
                                       .log = {comm, pccl_comm_on_log},
                                       .context = comm,
                                       .want_back = want_back,
                                       .broken = broken};
}

enum pccl_status pccl_comm_await_call(struct pccl_communicator *comm, struct pccl_call_slot *slot)
{
    slot->waiter = pccl_caller_waiter();
    if (!slot->done)
        pccl_comm_wait(comm, slot->waiter);
    slot->waiter = NULL;
    return slot->status;
}

void pccl_comm_serve_call(struct pccl_communicator *comm, struct pccl_call_slot *slot)
{
    struct pccl_waiter *waiter = pccl_caller_waiter();
    slot->waiter = waiter;
    while (!slot->done) {
        pccl_comm_wait(comm, waiter);
        struct pccl_worker *worker = slot->worker; /* NULL if the worker broke */
        if (slot->done || !worker)
            continue;
        pccl_comm_leave(comm);
        if (pccl_worker_is_needed(worker))
            pccl_worker_run(worker);
        pccl_comm_enter(comm);
    }
    slot->waiter = NULL;
}

void pccl_comm_call_done(struct pccl_communicator *comm, struct pccl_call_slot *slot, enum pccl_status status)
{
    slot->done = true;
    slot->status = status;
    if (slot->worker)
        pccl_worker_end(slot->worker);
    pccl_comm_signal(comm, slot->waiter);
}

void pccl_comm_calls_forget_waiter(struct pccl_communicator *comm, const struct pccl_waiter *waiter)
{
    for (uint32_t i = 0; i < PCCL_COUNT_OF(comm->calls); i++)
        if (comm->calls[i].waiter == waiter)
            comm->calls[i].waiter = NULL;
}
