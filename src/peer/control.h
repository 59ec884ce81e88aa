/*
 * Connection to the master, and the session on it. While the connection is down the session buffers messages; it sends
 * them after the reconnect. A restarted master gets the whole state of this peer again (resume.c).
 */
#ifndef PCCL_PEER_CONTROL_H
#define PCCL_PEER_CONTROL_H

#include "peer/state.h"

void pccl_peer_master_up(struct pccl_peer *p);
void pccl_peer_master_down(struct pccl_peer *p, const struct pccl_text *reason, bool hung_up);
void pccl_peer_master_received(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg);
void pccl_peer_master_garbage(struct pccl_peer *p, const struct pccl_peer_event *event);
/*
 * Sends heartbeats, checks for silence, starts the next attempt to dial, and gives up when the time for that has come.
 */
void pccl_peer_tick_master(struct pccl_peer *p);

/* ---- resume.c ---- */

/*
 * Reports this peer's knowledge of the run to a restarted master. Nothing else is sent until the master answers
 * (`recovered`).
 */
void pccl_peer_send_resume(struct pccl_peer *p);
/* The master has recovered. Sends the messages that are still due. */
void pccl_peer_recovered(struct pccl_peer *p, const struct pccl_msg_recovered *recovered);

#endif
