/*
 * Counts and guards the threads inside public calls. The functions may be called on any thread, without the lock. A
 * public call uses them like this:
 *
 *   struct pccl_caller caller;
 *   pccl_caller_begin(&caller, comm);
 *   if (setjmp(caller.guard.place) == 0)
 *       ... and pccl_caller_end(&caller)
 *   else
 *       pccl_caller_broke(&caller), from comm_broken.h
 */
#ifndef PCCL_DRIVE_COMM_CALLERS_H
#define PCCL_DRIVE_COMM_CALLERS_H

#include "drive/comm_wait.h"
#include "net/guard.h"

#include <stdatomic.h>

struct pccl_comm_callers {
    atomic_uint inside; /* number of threads inside, and flags that stop further threads */
    bool deserted;      /* set when the last thread leaves a communicator that is being destroyed; under the lock */
};

/*
 * A thread in a public call. It is in the stack frame of the public function, which outlives every frame that a guard
 * can abandon, so references to its waiter can still be removed afterward.
 */
struct pccl_caller {
    struct pccl_guard guard;
    struct pccl_communicator *comm;
    struct pccl_caller *outer; /* enclosing public call of this thread, or NULL */
    struct pccl_waiter waiter;
};

void pccl_caller_begin(struct pccl_caller *caller, struct pccl_communicator *comm);
void pccl_caller_end(const struct pccl_caller *caller);
/* Ends an abandoned call whose guard is gone, in place of pccl_caller_end. Called by comm_broken.c. */
void pccl_caller_left(const struct pccl_caller *caller);
/* Returns the calling thread's waiter, which is not signaled. A thread waits for one event at a time. */
struct pccl_waiter *pccl_caller_waiter(void);

/* Returns true if the calling thread owns the waiter. Any thread. */
bool pccl_caller_owns(const struct pccl_waiter *waiter);

/* Returns a number that identifies the calling thread among all running threads; 0 outside of public calls. */
uint64_t pccl_caller_thread(void);

/* Begins a public call. Returns false if the communicator is closed or being destroyed. */
PCCL_MUST_CHECK bool pccl_comm_call_begin(struct pccl_communicator *comm);
/* Ends a public call. The caller must not use the communicator afterward. */
void pccl_comm_call_end(struct pccl_communicator *comm);
void pccl_comm_refuse_calls(struct pccl_communicator *comm);
/* Makes all further calls fail and claims the destruction. Returns false if another thread has claimed it. */
PCCL_MUST_CHECK bool pccl_comm_begin_destroy(struct pccl_communicator *comm);
/* Waits until no thread is inside. Caller holds the lock, which is released during the wait. */
void pccl_comm_await_callers(struct pccl_communicator *comm);

#endif
