/* What this peer's operations showed, which the master compares; and what it concludes from that (PROTOCOL 9.8). */
#ifndef PCCL_PEER_SIGHT_H
#define PCCL_PEER_SIGHT_H

#include "peer/state.h"

/* Reports to the master. While it is away nothing is: the next report has later figures. */
void pccl_peer_report_sight(struct pccl_peer *p, const struct pccl_msg_sight *sight);
/* The master tells all verdicts that hold. */
void pccl_peer_take_verdicts(struct pccl_peer *p, const struct pccl_msg_verdicts *verdicts);
/* The master was restarted, and knows of none. */
void pccl_peer_forget_verdicts(struct pccl_peer *p);

#endif
