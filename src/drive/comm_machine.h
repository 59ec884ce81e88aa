/* Steps the machine, under the lock and a guard. Does not know the meaning of events. */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/*
 * Fills in the time and thread, steps the machine and returns its answer. Returns INTERNAL without a machine, and if an
 * invariant broke in this step, which ends the communicator. The event's `op` is set only with OK.
 */
enum pccl_status pccl_comm_step(struct pccl_communicator *comm, struct pccl_peer_event *event);
/*
 * Steps the machine with the event of a call, and runs the worker until the call has ended. Blocks; the lock is
 * released during the wait. `worker` is NULL if this peer cannot take part; then the event has the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_take_part(struct pccl_communicator *comm, struct pccl_worker *worker,
                                                     struct pccl_peer_event *event);
/*
 * Ends all waiting calls after an invariant broke outside the machine, with a reason that includes `where`. Under the
 * lock.
 */
void pccl_comm_break(struct pccl_communicator *comm, const char *where);

/*
 * Ends all waiting calls after the machine itself broke, or an earlier run of this function was abandoned. Sends no
 * good-bye. Under the lock.
 */
void pccl_comm_give_up(struct pccl_communicator *comm);

/* Returns true if this peer is a member of a run. Under the lock. */
bool pccl_comm_is_connected(const struct pccl_communicator *comm);
/*
 * Returns why this peer is not connected, with a reason: INTERNAL after a broken invariant; EXPELLED, MASTER_LOST or
 * DRAINED if that ended the connection and extended results are on; otherwise USAGE.
 */
enum pccl_status pccl_comm_why_unconnected(const struct pccl_communicator *comm, struct pccl_text *reason);

#endif
