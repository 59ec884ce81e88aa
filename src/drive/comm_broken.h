/* Ends a communicator after one of its invariants broke. */
#ifndef PCCL_DRIVE_COMM_BROKEN_H
#define PCCL_DRIVE_COMM_BROKEN_H

#include "drive/comm_callers.h"
#include "net/worker.h"
#include "peer/peer.h"

/*
 * Takes the place of pccl_caller_end when a guard abandoned the call: ends the communicator, wakes
 * all threads that wait in it, and returns when it no longer uses the caller's stack or the buffers
 * of any operation.
 */
void pccl_caller_broke(struct pccl_caller *caller);
/*
 * On the thread of the call. The worker of this call broke, or NULL: another one's creation did, and the call of
 * another thread may be outstanding. Nothing of what broke is used again.
 */
void pccl_comm_break_call(struct pccl_communicator *comm, enum pccl_call call, const struct pccl_worker *worker);

#endif
