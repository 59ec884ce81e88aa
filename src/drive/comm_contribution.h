/*
 * Contributions that differ from the caller's elements, results of tiny operations, and results of a peer that is alone
 * in its group.
 */
#ifndef PCCL_DRIVE_COMM_CONTRIBUTION_H
#define PCCL_DRIVE_COMM_CONTRIBUTION_H

#include "drive/comm_op.h"

/*
 * Writes the caller's contribution to an operation whose elements are not packed. Returns false without writing if the
 * contribution equals the caller's elements. `contribution` may be the input buffer.
 */
PCCL_MUST_CHECK bool pccl_contribution_make(const struct pccl_op_args *args, const struct pccl_comm_op *operation,
                                            void *contribution, size_t bytes);
/* Writes the result for a peer that is alone in its group. */
void pccl_contribution_alone(const struct pccl_op_args *args, const struct pccl_comm_op *operation);

/* Copy and free the extent lists of a tiny operation's result. keep_result returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_contribution_keep_result(struct pccl_comm_op *operation, const struct pccl_op_args *args);
void pccl_contribution_drop_result(struct pccl_comm_op *operation);
/* Writes the result of a tiny operation to the caller's buffers. */
void pccl_contribution_take_result(const struct pccl_comm_op *operation, const struct pccl_peer_op *op);

#endif
