/*
 * Operations from launch to release. An operation is decided once: by the master's outcome, by a view newer than its
 * launch, or by the end of this peer's membership.
 */
#ifndef PCCL_PEER_OPERATIONS_H
#define PCCL_PEER_OPERATIONS_H

#include "peer/state.h"

/* Time for which a send waits for the link to its destination after this peer has received the addresses. */
enum { PCCL_SEND_PATIENCE_US = 10000000 };

/* Handle the events LAUNCH, OP_AWAIT and OP_RELEASE (event.h). */
PCCL_MUST_CHECK enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch,
                                                  struct pccl_peer_op **op);
void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked);
void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op);

/* Stores the attributes and the member list that the caller sees once it releases the operation. */
void pccl_peer_note_members(struct pccl_peer *p, struct pccl_peer_op *op);

/* Handles OP_ABORT (event.h). */
void pccl_peer_op_cancel(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
/* Ends an open receive. `reason` may be NULL if the class explains the end. */
void pccl_peer_end_open(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);
/* Turns the open receive `op` into the receive of this announced send, which already counts as launched. */
void pccl_peer_op_choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance,
                         const struct pccl_id *source);
/* Skips a send that its source has given up, and that already counts as launched here. */
void pccl_peer_pass_over(struct pccl_peer *p, struct pccl_peer_op *tombstone);

/* Handles the outcome of an operation. */
void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome);
/* Abort or restart the undecided operations in a new view of the group (PROTOCOL 5.4), and send `view_ack`. */
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why);
void pccl_peer_view_replans(struct pccl_peer *p);
/*
 * Ends the pairs whose other peer is not in the view and, if this peer is alone, open receives. Their undecided
 * operations are aborted with PEER_LOST.
 */
void pccl_peer_end_pairs(struct pccl_peer *p, const struct pccl_text *why);
/* Handles the end of a subgroup. All its undecided operations end with PEER_LOST. */
void pccl_peer_subgroup_ended(struct pccl_peer *p, const struct pccl_msg_subgroup_ended *ended);
/*
 * Ends the undecided operations of the subgroups that this peer has closed, with PEER_LOST and only at this peer. Does
 * nothing while the master is connected and not recovering.
 */
void pccl_peer_end_closed(struct pccl_peer *p);
/* End the undecided operations with PEER_LOST, and then all subgroups, because this peer is no longer in the run. */
void pccl_peer_end_operations(struct pccl_peer *p);
void pccl_peer_end_subgroups(struct pccl_peer *p);
void pccl_peer_change_era(struct pccl_peer *p);
void pccl_peer_tick_operations(struct pccl_peer *p);

#endif
