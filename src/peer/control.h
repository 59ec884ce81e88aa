/*
 * The connection to the master and the session on it. What is sent while the connection is down is kept, and goes out
 * when it stands again; a restarted master is told everything anew (resume.c).
 */
#ifndef PCCL_PEER_CONTROL_H
#define PCCL_PEER_CONTROL_H

#include "peer/state.h"

/* Numbered, and kept until acknowledged. The peer's life ends when there is no room: look at the state. */
void pccl_peer_send(struct pccl_peer *p, const struct pccl_msg *msg);
void pccl_peer_dial_master(struct pccl_peer *p);
void pccl_peer_master_up(struct pccl_peer *p);
void pccl_peer_master_down(struct pccl_peer *p, const struct pccl_text *reason);
void pccl_peer_master_received(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg);
/* Heartbeats, silence, the next attempt to dial, and giving up. */
void pccl_peer_tick_master(struct pccl_peer *p);

/* ---- resume.c ---- */

/* Tells a restarted master what this peer knows of the run; nothing else is sent until its answer. */
void pccl_peer_send_resume(struct pccl_peer *p);
/* That answer. */
void pccl_peer_recovered(struct pccl_peer *p, const struct pccl_msg_recovered *recovered);

#endif
