/*
 * Operations on blobs, whose lengths only their owners know. Each has two steps, an operation of
 * the machine each (PROTOCOL 5.8): the first, tiny, tells the lengths, and the blobs themselves if
 * all are short; otherwise the second, in bulk, moves them. Under the communicator's lock.
 */
#ifndef PCCL_DRIVE_COMM_BLOBS_H
#define PCCL_DRIVE_COMM_BLOBS_H

#include "core/status.h"
#include "core/text.h"
#include "pccl.h"

struct pccl_comm_blobs;
struct pccl_comm_op;
struct pccl_launch;
struct pccl_peer_op;
struct pccl_op_args;
struct pccl_communicator;

/*
 * Gives the operation its part, and fills in the launch of the first step. MEMORY, or LIMIT with a
 * reason: the group is too large.
 */
PCCL_MUST_CHECK enum pccl_status pccl_comm_blobs_plan(const struct pccl_communicator *comm,
                                                      struct pccl_comm_op *operation, const struct pccl_op_args *args,
                                                      struct pccl_launch *launch, struct pccl_text *reason);
/* Alone, it has its own blob. MEMORY, or MISMATCH with a reason: it is longer than it may be. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_blobs_alone(struct pccl_communicator *comm, struct pccl_comm_op *operation,
                                                       struct pccl_text *reason);
/* It is launched: the caller has no blobs until it succeeds. */
void pccl_comm_blobs_empty(const struct pccl_comm_op *operation);
/*
 * In the step of the machine that tells the outcome. true: it may be that of the first step only, and
 * pccl_comm_blobs_go_on must be called when the machine's step is over.
 */
bool pccl_comm_blobs_note(struct pccl_communicator *comm, struct pccl_comm_op *operation, bool committed);
/* After a step: decides the operation that was noted, if any, or launches its second step. */
void pccl_comm_blobs_go_on(struct pccl_communicator *comm);
/* Of one that has committed: OK, or MISMATCH with a reason: the blobs are longer than they may be. */
PCCL_MUST_CHECK enum pccl_status pccl_comm_blobs_status(const struct pccl_comm_op *operation, struct pccl_text *reason);
/*
 * Shows the caller what has come and was not shown, without the lock meanwhile; on the thread that
 * awaits the operation.
 */
void pccl_comm_blobs_show(struct pccl_communicator *comm, struct pccl_comm_op *operation);
/* Tells the caller where its blobs are; they are the caller's from now on. */
void pccl_comm_blobs_give(struct pccl_comm_op *operation);
/* Frees the operation's part. */
void pccl_comm_blobs_drop(struct pccl_comm_op *operation);
/* Frees what a caller was given; NULL: nothing. Any thread, without the lock. */
void pccl_comm_blobs_free(const pcclBlob_t *blobs);

#endif
