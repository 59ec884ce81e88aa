/* Reports to the master about undecided operations: done, failed, or abort requested. */
#ifndef PCCL_PEER_PROGRESS_H
#define PCCL_PEER_PROGRESS_H

#include "peer/state.h"

/*
 * Reports the state of this operation to the master, possibly again. Sends nothing while a restarted master collects
 * reports.
 */
void pccl_peer_report_progress(struct pccl_peer *p, const struct pccl_peer_op *op);
/* Reports all undecided operations to a restarted master, or in a new session. */
void pccl_peer_resend_operations(struct pccl_peer *p);
/* Handle the events OP_DONE, OP_FAILED and OP_ABORT (event.h). */
void pccl_peer_op_done(struct pccl_peer *p, struct pccl_peer_op *op);
void pccl_peer_op_failed(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason);
void pccl_peer_op_abort(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason);

#endif
