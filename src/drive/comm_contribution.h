/*
 * What a peer contributes to an operation where that is not its elements as they are, and what it has
 * of one that it carries out alone. Of a coalesced all-reduce also the list of tensors, and what goes
 * through the master if it is tiny (wire/coalesced.h).
 */
#ifndef PCCL_DRIVE_COMM_CONTRIBUTION_H
#define PCCL_DRIVE_COMM_CONTRIBUTION_H

#include "drive/comm_op.h"

/*
 * Writes what the caller's elements contribute to an operation whose elements are not packed. false:
 * they themselves, and nothing was written. `contribution` may be the input.
 */
PCCL_MUST_CHECK bool pccl_contribution_make(const struct pccl_op_args *args, const struct pccl_comm_op *operation,
                                            void *contribution, size_t bytes);
/* The result of a peer that is alone. */
void pccl_contribution_alone(const struct pccl_op_args *args, const struct pccl_comm_op *operation);

/* Elements of all tensors. */
uint64_t pccl_coalesced_elements(const struct pccl_op_args *args);
/* Gives the operation the tensors of the arguments, if there are any. false: memory is short. */
PCCL_MUST_CHECK bool pccl_coalesced_copy(struct pccl_comm_op *operation, const struct pccl_op_args *args);
/* Writes the result of a tiny operation to the tensors. */
void pccl_coalesced_take(const struct pccl_comm_op *operation, const struct pccl_peer_op *op);

#endif
