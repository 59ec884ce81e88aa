/*
 * How far this peer has come in its operations, as the master is told it: done, failed, or to be
 * aborted.
 */
#ifndef PCCL_PEER_PROGRESS_H
#define PCCL_PEER_PROGRESS_H

#include "peer/state.h"

/*
 * Tells the master what is open, for the first time or again; but nothing while a restarted master
 * collects reports.
 */
void pccl_peer_tell(struct pccl_peer *p, const struct pccl_peer_op *op);
/* Tells a restarted master, or a new session, what is open. */
void pccl_peer_resend_operations(struct pccl_peer *p);
/* As the events of their names (event.h). */
void pccl_peer_op_done(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_op_failed(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
void pccl_peer_op_abort(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);

#endif
