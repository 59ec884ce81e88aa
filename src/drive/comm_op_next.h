/*
 * A caller's operation may be composed of two of the machine: the second follows when the first, launched as one that
 * may be followed, has committed (`goes_on`). Under the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_OP_NEXT_H
#define PCCL_DRIVE_COMM_OP_NEXT_H

#include "drive/comm_op.h"

/*
 * Launches the second operation in place of the first, with its tag and members, in its view: another view would have
 * aborted it. Without `has_room` there is no memory for the result, and the operation fails for all members.
 */
void pccl_comm_op_next(struct pccl_communicator *comm, struct pccl_comm_op *operation, struct pccl_op_args *args,
                       bool has_room);

#endif
