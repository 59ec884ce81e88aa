/*
 * Optimization of the topology: the parts that differ from the other joint calls (rounds.h). Also the request for a
 * topology report, which is not a joint call.
 */
#ifndef PCCL_PEER_OPTIMIZE_H
#define PCCL_PEER_OPTIMIZE_H

#include "peer/state.h"

/* Handles the master's request to test this path. */
void pccl_peer_measure(struct pccl_peer *p, const struct pccl_msg_measure *measure);
/* Handles the event TEST_DONE. */
void pccl_peer_measured(struct pccl_peer *p, const struct pccl_peer_measurement *measurement);
/* Ends the call's test and frees the results that were stored for a restarted master. Call when the call has ended. */
void pccl_peer_forget_tests(struct pccl_peer *p);
/* Handles the end of the round. Returns the status with which the call ends. */
enum pccl_status pccl_peer_optimize_ended(struct pccl_peer *p, const struct pccl_msg_round *round);

/* ---- topology reports ---- */

/* Handles the event DESCRIBE. */
PCCL_MUST_CHECK enum pccl_status pccl_peer_describe(struct pccl_peer *p);
/* Handles the master's topology report. */
void pccl_peer_topology_report(struct pccl_peer *p, const struct pccl_msg_topology_report *report);
void pccl_peer_resend_describe(struct pccl_peer *p);
void pccl_peer_end_describe(struct pccl_peer *p);

#endif
