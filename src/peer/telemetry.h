/*
 * Telemetry: figures of this peer's operations, which the master compares, and the verdicts that it derives from them
 * (PROTOCOL 9.8).
 */
#ifndef PCCL_PEER_TELEMETRY_H
#define PCCL_PEER_TELEMETRY_H

#include "peer/state.h"

/*
 * Reports to the master. While the master is not connected, drops the report, because the next one has later figures.
 */
void pccl_peer_report_telemetry(struct pccl_peer *p, const struct pccl_msg_sight *telemetry);
/* Handles the master's list of active verdicts. */
void pccl_peer_take_verdicts(struct pccl_peer *p, const struct pccl_msg_verdicts *verdicts);
/* Forgets all verdicts, because the master has restarted and has none. */
void pccl_peer_forget_verdicts(struct pccl_peer *p);

#endif
