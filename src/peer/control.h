/*
 * The connection to the master and the session on it. The session keeps what is sent while the
 * connection is down and sends it when the connection stands again. A restarted master is told
 * everything anew (resume.c).
 */
#ifndef PCCL_PEER_CONTROL_H
#define PCCL_PEER_CONTROL_H

#include "peer/state.h"

void pccl_peer_master_up(struct pccl_peer *p);
void pccl_peer_master_down(struct pccl_peer *p, const struct pccl_text *reason, bool hung_up);
void pccl_peer_master_received(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg);
void pccl_peer_master_garbage(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Heartbeats, silence, the next attempt to dial, and giving up. */
void pccl_peer_tick_master(struct pccl_peer *p);

/* ---- resume.c ---- */

/*
 * Tells a restarted master what this peer knows of the run. Nothing else is sent until the master
 * answers (`recovered`).
 */
void pccl_peer_send_resume(struct pccl_peer *p);
/* The master has recovered: sends what is still open. */
void pccl_peer_recovered(struct pccl_peer *p, const struct pccl_msg_recovered *recovered);

#endif
