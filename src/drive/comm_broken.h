/* Ends a communicator after one of its invariants broke. */
#ifndef PCCL_DRIVE_COMM_BROKEN_H
#define PCCL_DRIVE_COMM_BROKEN_H

#include "drive/comm_callers.h"
#include "net/worker.h"
#include "peer/peer.h"

/*
 * Replaces pccl_caller_end after a guard has abandoned the call. Ends the communicator, wakes all threads that wait in
 * it, and returns when the communicator no longer uses the caller's stack or the buffers of any operation.
 */
void pccl_caller_broke(struct pccl_caller *caller);
/*
 * Ends the communicator on the thread of a call whose worker broke; the worker is not used again. `worker` is NULL if
 * the invariant broke while the worker was being created; another thread's call may then be in progress.
 */
void pccl_comm_break_call(struct pccl_communicator *comm, enum pccl_call call, const struct pccl_worker *worker);

#endif
