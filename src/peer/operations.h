/*
 * Operations from launch to release. An operation is decided once: by the master's outcome, by a
 * view that is newer than its launch, or by the end of this peer's life.
 */
#ifndef PCCL_PEER_OPERATIONS_H
#define PCCL_PEER_OPERATIONS_H

#include "peer/state.h"

/* How long a send waits for the link to its destination, once this peer knows how to dial that. */
enum { PCCL_SEND_PATIENCE_US = 10000000 };

/* As the events of their names (event.h). */
PCCL_MUST_CHECK enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch,
                                                  struct pccl_peer_op **op);
void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked);
void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op);

/* Notes what the caller will see of the membership when it releases the operation. */
void pccl_peer_note_members(struct pccl_peer *p, struct pccl_peer_op *op);

/* As OP_ABORT (event.h). */
void pccl_peer_op_cancel(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
/* An open receive ends; reason: NULL if the class says enough. */
void pccl_peer_end_open(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);
/* It is the receive of this send from now on, which was announced and is counted as launched. */
void pccl_peer_op_choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance,
                         const struct pccl_id *source);
/* A send that its source has given up, and that is counted as launched here. */
void pccl_peer_pass_over(struct pccl_peer *p, struct pccl_peer_op *tombstone);

/* From the master: the outcome of an operation. */
void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome);
/* A view of the group has come, PROTOCOL 5.4: aborts what is under way, or begins it again; and VIEW_ACK. */
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why);
void pccl_peer_view_replans(struct pccl_peer *p);
/*
 * The view has ended the pairs whose other peer it does not have, and where nobody else is left open
 * receives: what is undecided in them is aborted, as PEER_LOST.
 */
void pccl_peer_end_pairs(struct pccl_peer *p, const struct pccl_text *why);
/* From the master: a subgroup has ended, and everything undecided in it, as PEER_LOST. */
void pccl_peer_subgroup_ended(struct pccl_peer *p, const struct pccl_msg_subgroup_ended *ended);
/*
 * Unless the master is there and not recovering: whatever is undecided in subgroups that this peer
 * has closed ends, as PEER_LOST, here alone.
 */
void pccl_peer_end_closed(struct pccl_peer *p);
/* This peer is out of the run: everything undecided ends as PEER_LOST, and then all subgroups. */
void pccl_peer_end_operations(struct pccl_peer *p);
void pccl_peer_end_subgroups(struct pccl_peer *p);
void pccl_peer_change_era(struct pccl_peer *p);
void pccl_peer_tick_operations(struct pccl_peer *p);

#endif
