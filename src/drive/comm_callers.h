/*
 * The threads inside public calls, counted and guarded. Any thread, without the lock. The frame of a public call does
 * this:
 *
 *   struct pccl_caller caller;
 *   pccl_caller_begin(&caller, comm);
 *   if (setjmp(caller.guard.place) == 0)
 *       ... and pccl_caller_end(&caller)
 *   else
 *       pccl_caller_broke(&caller), of comm_broken.h
 */
#ifndef PCCL_DRIVE_COMM_CALLERS_H
#define PCCL_DRIVE_COMM_CALLERS_H

#include "drive/comm_wait.h"
#include "net/guard.h"

#include <stdatomic.h>

/* A communicator's part. */
struct pccl_comm_callers {
    atomic_uint inside; /* number of threads inside, and whether more may enter */
    bool deserted;      /* the communicator is being destroyed, and the last thread has left; under the lock */
};

/*
 * A thread in a public call. Stored in the stack frame of the public function, below every frame that a guard can
 * abandon, so it outlives them, and references to its waiter can be removed.
 */
struct pccl_caller {
    struct pccl_guard guard;
    struct pccl_communicator *comm;
    struct pccl_caller *outer; /* enclosing call of this thread, or NULL */
    struct pccl_waiter waiter;
};

void pccl_caller_begin(struct pccl_caller *caller, struct pccl_communicator *comm);
void pccl_caller_end(const struct pccl_caller *caller);
/* Replaces pccl_caller_end for a call that was abandoned and whose guard is gone. comm_broken.h does the rest. */
void pccl_caller_left(const struct pccl_caller *caller);
/* Returns the waiter of the calling thread, not signaled. A thread waits for one event at a time. */
struct pccl_waiter *pccl_caller_waiter(void);

/* Returns a number for the calling thread that no other living thread has; 0 outside of public calls. */
uint64_t pccl_caller_thread(void);

/* Begins a public call. Returns false if the communicator is closed or being destroyed. */
PCCL_MUST_CHECK bool pccl_comm_call_begin(struct pccl_communicator *comm);
/* Ends a public call. The communicator may not be used after it. */
void pccl_comm_call_end(struct pccl_communicator *comm);
/* Refuses further calls. */
void pccl_comm_refuse_calls(struct pccl_communicator *comm);
/* Does the same, and claims the destruction for the caller. Returns false if another thread has claimed it. */
PCCL_MUST_CHECK bool pccl_comm_begin_destroy(struct pccl_communicator *comm);
/* Waits until no thread is inside. Under the lock, which is released during the wait. */
void pccl_comm_await_callers(struct pccl_communicator *comm);

#endif
