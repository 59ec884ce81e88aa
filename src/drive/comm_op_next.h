/*
 * Second operation of the state machine for one operation of a caller. It follows when the first operation, which was
 * launched with a flag that permits this, has committed (`goes_on`). Caller holds the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_OP_NEXT_H
#define PCCL_DRIVE_COMM_OP_NEXT_H

#include "drive/comm_op.h"

/*
 * Launches the second operation in place of the first, with the same tag, members and view; a change of the view would
 * have aborted the first one. If `has_room` is false, there is no memory for the result, and the operation fails for
 * all members.
 */
void pccl_comm_op_next(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_op_args *args,
                       bool has_room);

#endif
