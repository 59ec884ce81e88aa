/* Steps the machine, under the lock and a guard. Knows nothing of what events mean. */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/*
 * Fills in the time and steps the machine; its answer. INTERNAL: there is no machine any more, or an invariant broke in
 * this step, which ends the communicator. The event's `op` is an answer only with OK.
 */
enum pccl_status pccl_comm_step(struct pcclComm_t *comm, struct pccl_peer_event *event);
/* Under the lock. An invariant broke elsewhere than in the machine: all that waits ends, with a reason that says where.
 */
void pccl_comm_break(struct pcclComm_t *comm, const char *where);

/* Under the lock: a member of a run? */
bool pccl_comm_is_connected(const pcclComm_t *comm);
/* Why not: USAGE, or INTERNAL after a defect, with a reason. */
enum pccl_status pccl_comm_why_unconnected(const pcclComm_t *comm, struct pccl_text *reason);

#endif
