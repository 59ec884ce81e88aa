/*
 * Calls that end when the master answers: connect, and the joint calls, each of which is a vote in a round. At most one
 * call of each kind is outstanding, and at most one that ends an era.
 */
#ifndef PCCL_PEER_ROUNDS_H
#define PCCL_PEER_ROUNDS_H

#include "peer/state.h"

/*
 * Handle the events CALL and WITHDRAW (event.h). `vote` is for SYNC. `unable` is the reason why this peer cannot take
 * part; NULL if it can.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_call(struct pccl_peer *p, enum pccl_call call,
                                                const struct pccl_sync_vote *vote, const struct pccl_text *unable);
void pccl_peer_withdraw(struct pccl_peer *p, enum pccl_call call);
/* Handles the master's answer: the round is decided, or this peer's vote is withdrawn. */
void pccl_peer_round(struct pccl_peer *p, const struct pccl_msg_round *round);
void pccl_peer_resend_votes(struct pccl_peer *p);
void pccl_peer_tick_calls(struct pccl_peer *p);
/* Handles the event LEAVE, and the end of connect's deadline. */
void pccl_peer_leave(struct pccl_peer *p);
void pccl_peer_drain(struct pccl_peer *p);
/* Ends every call with the status in why_over, because this peer is no longer in the run. */
void pccl_peer_end_calls(struct pccl_peer *p);

#endif
