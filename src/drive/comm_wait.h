/* How a thread waits in a call. Under the lock, which is let go meanwhile. */
#ifndef PCCL_DRIVE_COMM_WAIT_H
#define PCCL_DRIVE_COMM_WAIT_H

#include "drive/communicator.h"

/*
 * Until pccl_comm_fire(waiter); takes that back. The waiter is the calling thread's (comm_callers.h). _until: or until
 * the time has come; false: it has not fired.
 */
void pccl_comm_wait(struct pcclComm_t *comm, struct pccl_waiter *waiter);
PCCL_MUST_CHECK bool pccl_comm_wait_until(struct pcclComm_t *comm, struct pccl_waiter *waiter, uint64_t deadline_us);
/* Until the call is done; whenever its waiter is fired before that, `work` (without the lock) does what has come. */
void pccl_comm_attend(struct pcclComm_t *comm, struct pccl_call_slot *slot, void (*work)(void *session), void *session);
/* waiter may be NULL. */
void pccl_comm_fire(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* Nothing refers to it from now on: its thread was left in the middle of a call (comm_callers.h). */
void pccl_comm_forget_waiter(struct pcclComm_t *comm, struct pccl_waiter *waiter);
/* The connection that a leader reads is going away. */
void pccl_comm_unseat_leader(struct pcclComm_t *comm);

#endif
