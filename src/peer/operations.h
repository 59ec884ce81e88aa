/*
 * Operations from launch to release. An operation is decided once: by the master's outcome, by a view that is newer
 * than its launch, or by the end of this peer's life.
 */
#ifndef PCCL_PEER_OPERATIONS_H
#define PCCL_PEER_OPERATIONS_H

#include "peer/state.h"

/* Time for which a send waits for the link to its destination, once this peer has the addresses. */
enum { PCCL_SEND_PATIENCE_US = 10000000 };

/* Handle the events of their names (event.h). */
PCCL_MUST_CHECK enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch,
                                                  struct pccl_peer_op **op);
void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked);
void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op);

/* Stores the attributes and the member list that the caller will see when it releases the operation. */
void pccl_peer_note_members(struct pccl_peer *p, struct pccl_peer_op *op);

/* Handles OP_ABORT (event.h). */
void pccl_peer_op_cancel(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
/* Ends an open receive. `reason` may be NULL; then the class gives the words. */
void pccl_peer_end_open(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);
/* From now on the open receive `op` is the receive of this announced send, which is already counted as launched. */
void pccl_peer_op_choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance,
                         const struct pccl_id *source);
/* Passes over a send that its source has given up and that is already counted as launched here. */
void pccl_peer_pass_over(struct pccl_peer *p, struct pccl_peer_op *tombstone);

/* From the master: the outcome of an operation. */
void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome);
/*
 * To be called when a view of the group has arrived (PROTOCOL 5.4). Aborts the undecided operations, or starts them
 * again, and sends VIEW_ACK.
 */
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why);
void pccl_peer_view_replans(struct pccl_peer *p);
/*
 * Ends the pairs whose other peer is not in the view, and, if this peer is alone, open receives: their undecided
 * operations are aborted with PEER_LOST.
 */
void pccl_peer_end_pairs(struct pccl_peer *p, const struct pccl_text *why);
/* From the master: a subgroup has ended, and all its undecided operations end with PEER_LOST. */
void pccl_peer_subgroup_ended(struct pccl_peer *p, const struct pccl_msg_subgroup_ended *ended);
/*
 * Unless the connection to the master is up and the master is not recovering: ends the undecided operations of the
 * subgroups that this peer has closed with PEER_LOST, at this peer only.
 */
void pccl_peer_end_closed(struct pccl_peer *p);
/* This peer is out of the run. Undecided operations end with PEER_LOST, and then all subgroups end. */
void pccl_peer_end_operations(struct pccl_peer *p);
void pccl_peer_end_subgroups(struct pccl_peer *p);
void pccl_peer_change_era(struct pccl_peer *p);
void pccl_peer_tick_operations(struct pccl_peer *p);

#endif
