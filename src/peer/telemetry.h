/*
 * Telemetry: the figures of this peer's operations, which the master compares, and the verdicts that it derives from
 * them (PROTOCOL 9.8).
 */
#ifndef PCCL_PEER_TELEMETRY_H
#define PCCL_PEER_TELEMETRY_H

#include "peer/state.h"

/* Reports to the master. While the master is away nothing is sent: the next report has later figures. */
void pccl_peer_report_telemetry(struct pccl_peer *p, const struct pccl_msg_sight *sight);
/* From the master: all verdicts that hold. */
void pccl_peer_take_verdicts(struct pccl_peer *p, const struct pccl_msg_verdicts *verdicts);
/* The master was restarted and has no verdicts. Forgets all of them. */
void pccl_peer_forget_verdicts(struct pccl_peer *p);

#endif
