/*
 * Counts the application threads inside a communicator, so that destroying it can evict them before anything is freed.
 * The API forbids calls that race with the destruction; as far as possible such calls fail with a reason.
 */
#include "drive/communicator.h"
#include "drive/comm_callers.h"

/* Flags in `inside`, in the bits above the number of threads: */
static const unsigned SHUT = 1u << 31;  /* further threads are refused */
static const unsigned TAKEN = 1u << 30; /* a thread is destroying the communicator */

bool pccl_comm_call_begin(struct pccl_communicator *comm)
{
    unsigned callers = atomic_load(&comm->callers.inside);
    do {
        if (callers & SHUT)
            return false;
    } while (!atomic_compare_exchange_weak(&comm->callers.inside, &callers, callers + 1));
    return true;
}

void pccl_comm_call_end(struct pccl_communicator *comm)
{
    if (atomic_fetch_sub(&comm->callers.inside, 1) != (SHUT | TAKEN) + 1)
        return;
    uv_mutex_lock(&comm->lock); /* the destroying thread waits for this thread, so the communicator still exists */
    comm->callers.deserted = true;
    uv_cond_broadcast(&comm->changed);
    uv_mutex_unlock(&comm->lock);
}

void pccl_comm_refuse_calls(struct pccl_communicator *comm) { (void)atomic_fetch_or(&comm->callers.inside, SHUT); }

bool pccl_comm_begin_destroy(struct pccl_communicator *comm)
{
    unsigned callers = atomic_fetch_or(&comm->callers.inside, SHUT | TAKEN);
    if (callers & TAKEN)
        return false;
    if ((callers & ~SHUT) == 0)
        comm->callers.deserted = true; /* if there are callers, the last one sets it */
    return true;
}

void pccl_comm_await_callers(struct pccl_communicator *comm)
{
    while (!comm->callers.deserted)
        uv_cond_wait(&comm->changed, &comm->lock);
}

/* ---- guarded calls ---- */

static _Thread_local struct pccl_caller *present;

void pccl_caller_begin(struct pccl_caller *caller, struct pccl_communicator *comm)
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

void pccl_caller_left(const struct pccl_caller *caller) { present = caller->outer; }

struct pccl_waiter *pccl_caller_waiter(void) { return &present->waiter; }

bool pccl_caller_owns(const struct pccl_waiter *waiter) { return present != NULL && waiter == &present->waiter; }

uint64_t pccl_caller_thread(void) { return present != NULL ? (uint64_t)(uintptr_t)&present : 0; }
