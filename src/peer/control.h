/*
 * Connection to the master, and the session on it. While the connection is down, the session buffers messages, which
 * are sent after the reconnect. A restarted master receives the whole state of this peer again (resume.c).
 */
#ifndef PCCL_PEER_CONTROL_H
#define PCCL_PEER_CONTROL_H

#include "peer/state.h"

void pccl_peer_master_up(struct pccl_peer *p);
void pccl_peer_master_down(struct pccl_peer *p, const struct pccl_text *reason, bool hung_up);
void pccl_peer_master_received(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg);
void pccl_peer_master_garbage(struct pccl_peer *p, const struct pccl_peer_event *event);
/* Sends heartbeats, checks for silence, dials again, and gives up when the time limit has passed. */
void pccl_peer_tick_master(struct pccl_peer *p);

/* ---- resume.c ---- */

/*
 * Reports this peer's state of the run to a restarted master. Until the master answers with `recovered`, nothing else
 * is sent.
 */
void pccl_peer_send_resume(struct pccl_peer *p);
/* Handles `recovered`: sends the messages that are still due. */
void pccl_peer_recovered(struct pccl_peer *p, const struct pccl_msg_recovered *recovered);

#endif
