/*
 * Contributions to operations that differ from the caller's elements, results of tiny operations, and results of a peer
 * alone in its group.
 */
#ifndef PCCL_DRIVE_COMM_CONTRIBUTION_H
#define PCCL_DRIVE_COMM_CONTRIBUTION_H

#include "drive/comm_op.h"

/*
 * Writes the caller's contribution to an operation whose elements are not packed. Returns false, without writing, if it
 * equals the caller's elements. `contribution` may be the input.
 */
PCCL_MUST_CHECK bool pccl_contribution_make(const struct pccl_op_args *args, const struct pccl_comm_op *operation,
                                            void *contribution, size_t bytes);
/* Writes the result of a peer alone in its group. */
void pccl_contribution_alone(const struct pccl_op_args *args, const struct pccl_comm_op *operation);

/* Copy the lists of the result to a tiny operation, and free them. The first returns false if memory is short. */
PCCL_MUST_CHECK bool pccl_contribution_keep_result(struct pccl_comm_op *operation, const struct pccl_op_args *args);
void pccl_contribution_drop_result(struct pccl_comm_op *operation);
/* Writes the result of a tiny operation. */
void pccl_contribution_take_result(const struct pccl_comm_op *operation, const struct pccl_peer_op *op);

#endif
