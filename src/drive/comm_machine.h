/* Steps the machine, under the lock and a guard. It does not know the meaning of events. */
#ifndef PCCL_DRIVE_COMM_MACHINE_H
#define PCCL_DRIVE_COMM_MACHINE_H

#include "drive/communicator.h"

/*
 * Fills in the time, steps the machine and returns its answer. INTERNAL: there is no machine any
 * more, or an invariant broke in this step, which ends the communicator. The event's `op` is set
 * only with OK.
 */
enum pccl_status pccl_comm_step(struct pccl_communicator *comm, struct pccl_peer_event *event);
/*
 * Steps the machine with the event of a call, and runs the worker until the call has ended. Blocks; the lock is
 * released meanwhile. worker: NULL if this peer cannot take part; then the event has the reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_take_part(struct pccl_communicator *comm, struct pccl_worker *worker,
                                                     struct pccl_peer_event *event);
/*
 * Under the lock. An invariant broke outside the machine: everything that waits ends, with a reason
 * that says where it broke.
 */
void pccl_comm_break(struct pccl_communicator *comm, const char *where);

/*
 * Under the lock. The machine itself broke, or an earlier run of this function was abandoned:
 * everything that waits ends, without a good-bye to anyone.
 */
void pccl_comm_give_up(struct pccl_communicator *comm);

/* Whether this peer is a member of a run. Under the lock. */
bool pccl_comm_is_connected(const struct pccl_communicator *comm);
/* Why it is not: USAGE, or INTERNAL after a broken invariant, with a reason. */
enum pccl_status pccl_comm_why_unconnected(const struct pccl_communicator *comm, struct pccl_text *reason);

#endif
