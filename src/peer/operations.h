/*
 * Operations from launch to release, and the announcements of other peers about operations that are
 * not launched here. An operation is decided once: by the master's outcome, by a view that is newer
 * than its launch, or by the end of this peer's life.
 */
#ifndef PCCL_PEER_OPERATIONS_H
#define PCCL_PEER_OPERATIONS_H

#include "peer/state.h"

/* As the events of their names (event.h). */
PCCL_MUST_CHECK enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch,
                                                  struct pccl_peer_op **op);
void pccl_peer_op_done(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_op_failed(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
void pccl_peer_op_abort(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);
void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked);
void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op);

/*
 * From the master: the outcome of an operation; the decision up to which all members know the
 * outcomes.
 */
void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome);
void pccl_peer_set_stable(struct pccl_peer *p, uint64_t stable);
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why); /* PROTOCOL 5.4, and VIEW_ACK */
/* This peer is out of the run: everything undecided ends as PEER_LOST. */
void pccl_peer_end_operations(struct pccl_peer *p);
void pccl_peer_change_era(struct pccl_peer *p);
/* Tells a restarted master, or a new session, what is open. */
void pccl_peer_resend_operations(struct pccl_peer *p);
void pccl_peer_tick_operations(struct pccl_peer *p);
void pccl_peer_free_operations(struct pccl_peer *p);

uint32_t pccl_peer_launches_of(struct pccl_peer *p, uint64_t tag);
struct pccl_peer_op *pccl_peer_find_instance(const struct pccl_peer *p, const struct pccl_instance *instance);
bool pccl_peer_is_decided(const struct pccl_peer_op *op);

/* ---- announcements.c ---- */

void pccl_peer_announced(struct pccl_peer *p, const struct pccl_id *from, const struct pccl_msg_ready *ready);
/* NULL: nobody has announced it. */
struct pccl_announcement *pccl_peer_announcement(const struct pccl_peer *p, const struct pccl_instance *instance);
void pccl_peer_drop_announcement(struct pccl_peer *p, struct pccl_announcement *announcement);
void pccl_peer_drop_announcements(struct pccl_peer *p, bool all); /* otherwise those of an older era only */
/* Asks for an abort of a tiny launch that another member has announced as a bulk operation. */
void pccl_peer_refuse_announced(struct pccl_peer *p, struct pccl_peer_op *op,
                                const struct pccl_announcement *announcement);

#endif
