/* Ends a communicator in which an invariant broke. */
#ifndef PCCL_DRIVE_COMM_BROKEN_H
#define PCCL_DRIVE_COMM_BROKEN_H

#include "drive/comm_callers.h"
#include "peer/peer.h"

/*
 * Instead of the end, when the call was left in the middle, wherever that was: ends the communicator, wakes whoever
 * waits in it, and returns when nothing of it uses the caller's stack and the buffers of any reduction.
 */
void pccl_caller_broke(struct pccl_caller *caller);
/* Under the lock. The machine is what broke, or this was left in the middle: all that waits ends, and nobody is told
 * good-bye. */
void pccl_comm_give_up(struct pcclComm_t *comm);
/* On the thread of the call. It broke in the session of this one, SYNC or OPTIMIZE, of which nothing is used again. */
void pccl_comm_break_session(struct pcclComm_t *comm, enum pccl_call call);

#endif
