/*
 * Application threads inside a communicator, counted, so that destroying it can send them out before anything is freed.
 * The contract forbids calls that race with the destruction; here they end in words as far as that is possible.
 */
#include "drive/communicator.h"
#include "drive/comm_callers.h"
#include "drive/comm_engine.h"
#include "drive/comm_machine.h"
#include "drive/comm_wait.h"

/* In `callers`, beside their number: */
static const unsigned SHUT = 1u << 31;  /* nobody more may come */
static const unsigned TAKEN = 1u << 30; /* and somebody is destroying it */

bool pccl_comm_admit(struct pcclComm_t *comm)
{
    unsigned callers = atomic_load(&comm->callers.inside);
    do {
        if (callers & SHUT)
            return false;
    } while (!atomic_compare_exchange_weak(&comm->callers.inside, &callers, callers + 1));
    return true;
}

void pccl_comm_let_out(struct pcclComm_t *comm)
{
    if (atomic_fetch_sub(&comm->callers.inside, 1) != (SHUT | TAKEN) + 1)
        return;
    uv_mutex_lock(&comm->lock); /* the destroyer waits for this, so all is still there */
    comm->callers.deserted = true;
    uv_cond_broadcast(&comm->changed);
    uv_mutex_unlock(&comm->lock);
}

void pccl_comm_refuse(struct pcclComm_t *comm) { (void)atomic_fetch_or(&comm->callers.inside, SHUT); }

bool pccl_comm_shut(struct pcclComm_t *comm)
{
    unsigned callers = atomic_fetch_or(&comm->callers.inside, SHUT | TAKEN);
    if (callers & TAKEN)
        return false;
    if ((callers & ~SHUT) == 0)
        comm->callers.deserted = true; /* otherwise the last one says so */
    return true;
}

void pccl_comm_await_callers(struct pcclComm_t *comm)
{
    while (!comm->callers.deserted)
        uv_cond_wait(&comm->changed, &comm->lock);
}

/* ---- guarded ---- */

static _Thread_local struct pccl_caller *present;

void pccl_caller_begin(struct pccl_caller *caller, struct pcclComm_t *comm)
{
    caller->comm = comm;
    caller->waiter = (struct pccl_waiter){0};
    caller->outer = present;
    present = caller;
    pccl_guard_push(&caller->guard);
}

void pccl_caller_end(const struct pccl_caller *caller)
{
    pccl_guard_pop(&caller->guard);
    present = caller->outer;
}

struct pccl_waiter *pccl_caller_waiter(void) { return &present->waiter; }

/* Until the engine lets go of them, the buffers of reductions are not their callers' again. */
static void end_all(void *argument)
{
    struct pcclComm_t *comm = argument;
    if (comm->defect)
        pccl_comm_give_up(comm); /* maybe it was that which broke */
    else
        pccl_comm_break(comm, "in a call");
    pccl_comm_jobs_await(comm);
}

static void close_listener(void *argument)
{
    struct pcclComm_t *comm = argument;
    pccl_listener_close(&comm->listener);
}

void pccl_caller_broke(struct pccl_caller *caller)
{
    struct pcclComm_t *comm = caller->comm;
    present = caller->outer;
    pccl_comm_seize(comm);
    pccl_comm_forget_waiter(comm, &caller->waiter);
    pccl_comm_calls_forget_waiter(comm, &caller->waiter);
    pccl_comm_describe_forget_waiter(comm, &caller->waiter);
    pccl_reductions_forget_waiter(comm, &caller->waiter);
    pccl_comm_jobs_abandon(comm, &caller->waiter);
    if (!pccl_guard_run(end_all, comm)) /* then the machine is given up, without a good-bye */
        (void)pccl_guard_run(end_all, comm);
    if (!comm->started)
        (void)pccl_guard_run(close_listener, comm); /* nobody will accept there */
    pccl_comm_leave(comm);
}
