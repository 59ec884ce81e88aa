/*
 * Operations on blobs, whose lengths only their owners know. Each is composed of two operations of the machine
 * (PROTOCOL 5.8): the first, tiny, tells the lengths, and the blobs themselves if all are short; otherwise the second,
 * in bulk, moves them. Under the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_BLOBS_H
#define PCCL_DRIVE_COMM_BLOBS_H

#include "drive/comm_op.h"
#include "pccl.h"

/*
 * Gives the operation its part, and fills in the launch of the first step. MEMORY, or LIMIT with a
 * reason: the group is too large.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_blobs_plan(const struct pccl_communicator *comm,
                                                      struct pccl_comm_op *operation, struct pccl_op_args *args,
                                                      struct pccl_text *reason);
/* Alone, it has its own blob. MEMORY, or MISMATCH with a reason: it is longer than it may be. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_blobs_alone(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                       struct pccl_text *reason);
/* It is launched: the caller has no blobs until it succeeds. */
void pccl_comm_blobs_empty(const struct pccl_comm_op *operation);
/* After a message of the master: decides the operation that goes on, if any, or launches its second step. */
void pccl_comm_blobs_go_on(struct pccl_communicator *comm);
/*
 * Shows the caller blobs that have arrived and were not shown, without the lock meanwhile; in the thread that awaits
 * the operation. Not of blobs: nothing.
 */
void pccl_comm_blobs_show(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/* Frees the operation's part; if it has `contributed`, the blobs are the caller's. Not of blobs: nothing. */
void pccl_comm_blobs_end(struct pccl_comm_op *operation);
/* Frees blobs of a caller; NULL: nothing. Any thread, without the lock. */
void pccl_comm_blobs_free(const pcclBlob_t *blobs);

#endif
