/*
 * Who is inside a public call. Any thread, without the lock.
 *
 *     struct pccl_caller caller;
 *     pccl_caller_begin(&caller, comm);
 *     if (setjmp(caller.guard.place) == 0)
 *         ... and pccl_caller_end(&caller)
 *     else
 *         pccl_caller_broke(&caller), of comm_broken.h
 */
#ifndef PCCL_DRIVE_COMM_CALLERS_H
#define PCCL_DRIVE_COMM_CALLERS_H

#include "drive/comm_wait.h"
#include "net/guard.h"

#include <stdatomic.h>

/* Of a communicator. */
struct pccl_comm_callers {
    atomic_uint inside; /* how many, and whether more may come */
    bool deserted;      /* under the lock: it is being destroyed, and the last one has left */
};

/*
 * A thread in a public call. Lives in the frame of the public function, below all that can be left in the middle, so
 * that it is still there when that has happened, and what refers to its waiter can be made to forget it.
 */
struct pccl_caller {
    struct pccl_guard guard;
    struct pcclComm_t *comm;
    struct pccl_caller *outer; /* of this thread */
    struct pccl_waiter waiter;
};

void pccl_caller_begin(struct pccl_caller *caller, struct pcclComm_t *comm);
void pccl_caller_end(const struct pccl_caller *caller);
/* Instead of pccl_caller_end, when the call was left in the middle and its guard is gone: comm_broken.h does the rest.
 */
void pccl_caller_left(const struct pccl_caller *caller);
/* How the calling thread waits: one of its calls waits for one thing at a time. Not fired. */
struct pccl_waiter *pccl_caller_waiter(void);

/* A public call begins. false: the communicator is closed or being destroyed. */
PCCL_MUST_CHECK bool pccl_comm_call_begin(struct pcclComm_t *comm);
/* It ends: the communicator must not be touched any more. */
void pccl_comm_call_end(struct pcclComm_t *comm);
/* Nobody is admitted from now on. */
void pccl_comm_refuse_calls(struct pcclComm_t *comm);
/* The same, and the caller is who destroys it. false: another thread is. */
PCCL_MUST_CHECK bool pccl_comm_begin_destroy(struct pcclComm_t *comm);
/* Waits until nobody is inside. Under the lock, which is released meanwhile. */
void pccl_comm_await_callers(struct pcclComm_t *comm);

#endif
