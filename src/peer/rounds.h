/*
 * Calls that end when the master answers: connect, and the joint calls, each of which is a vote in a round. There is at
 * most one of each kind at a time, and at most one of those that end an era.
 */
#ifndef PCCL_PEER_ROUNDS_H
#define PCCL_PEER_ROUNDS_H

#include "peer/state.h"

/*
 * Handle the events CALL and WITHDRAW (event.h). `vote` is for SYNC. `unable` says why this peer cannot take part; NULL
 * if it can.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_call(struct pccl_peer *p, enum pccl_call call,
                                                const struct pccl_sync_vote *vote, const struct pccl_text *unable);
void pccl_peer_withdraw(struct pccl_peer *p, enum pccl_call call);
/* From the master: a round is decided, or this peer's vote is withdrawn. */
void pccl_peer_round(struct pccl_peer *p, const struct pccl_msg_round *round);
void pccl_peer_resend_votes(struct pccl_peer *p);
void pccl_peer_tick_calls(struct pccl_peer *p);
/* Handles the event LEAVE, or the end of connect's deadline. */
void pccl_peer_leave(struct pccl_peer *p);
void pccl_peer_drain(struct pccl_peer *p);
/* This peer is out of the run. Every call ends with the status that says why. */
void pccl_peer_end_calls(struct pccl_peer *p);

#endif
