/* The door to the machine: one function steps it, under the lock and a guard. It knows nothing of what events mean. */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/*
 * Fills in the time and steps the machine; its answer. INTERNAL: there is no machine any more, or an invariant broke in
 * this step, which ends the communicator. The event's `op` is an answer only with OK.
 */
enum pccl_status pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event);
/* Under the lock. An invariant broke elsewhere than in the machine: all that waits ends, in words with where. */
void pccl_comm_break(struct pcclComm_t *comm, const char *where);
/* On the thread of the call. It broke in the session of this one, SYNC or OPTIMIZE, of which nothing is used again. */
void pccl_comm_break_session(struct pcclComm_t *comm, enum pccl_call call);

#endif
