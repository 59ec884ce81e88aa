/*
 * An optimization of the topology: what is particular to it among the joint calls (rounds.h); and the question how the
 * master sees the links, which is none of them.
 */
#ifndef PCCL_PEER_OPTIMIZE_H
#define PCCL_PEER_OPTIMIZE_H

#include "peer/state.h"

/* What the master says: measure this way. */
void pccl_peer_measure(struct pccl_peer *p, const struct pccl_msg_measure *measure);
/* As the event TEST_DONE. */
void pccl_peer_measured(struct pccl_peer *p, const struct pccl_peer_measurement *measurement);
/* The open round is over: how the call ends. */
enum pccl_status pccl_peer_optimize_ended(struct pccl_peer *p, const struct pccl_msg_round *round);

/* ---- the question ---- */

/* As the event DESCRIBE. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_describe(struct pccl_peer *p);
/* The answer. */
void pccl_peer_topology_report(struct pccl_peer *p, const struct pccl_msg_topology_report *picture);
void pccl_peer_resend_describe(struct pccl_peer *p);
void pccl_peer_end_describe(struct pccl_peer *p);

#endif
