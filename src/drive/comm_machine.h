/* Steps the peer's state machine under the lock and a guard. Does not interpret events. */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/*
 * Sets the time and thread of the event, steps the state machine and returns its answer. Returns INTERNAL if there is
 * no state machine or if an invariant breaks in this step, which ends the communicator. The event's `op` is set only if
 * the answer is OK.
 */
enum pccl_status pccl_comm_step(struct pccl_communicator *comm, struct pccl_peer_event *event);
/*
 * Steps the state machine with the event of a call, and runs the worker until the call has ended. Blocks; the lock is
 * released during the wait. `worker` is NULL if this peer cannot take part; the event then contains the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_take_part(struct pccl_communicator *comm, struct pccl_worker *worker,
                                                     struct pccl_peer_event *event);
/*
 * Ends all waiting calls after an invariant broke outside the state machine. The reason includes `where`. Caller holds
 * the lock.
 */
void pccl_comm_break(struct pccl_communicator *comm, const char *where);

/*
 * Ends all waiting calls after the state machine itself broke, or after an earlier run of this function was abandoned.
 * Does not send a goodbye. Caller holds the lock.
 */
void pccl_comm_give_up(struct pccl_communicator *comm);

/* Returns true if this peer is a member of a run. Caller holds the lock. */
bool pccl_comm_is_connected(const struct pccl_communicator *comm);
/*
 * Returns why this peer is not connected, with a reason: INTERNAL after a broken invariant; EXPELLED, MASTER_LOST or
 * DRAINED if that ended the connection and extended results are on; otherwise USAGE.
 */
enum pccl_status pccl_comm_why_unconnected(const struct pccl_communicator *comm, struct pccl_text *reason);

#endif
