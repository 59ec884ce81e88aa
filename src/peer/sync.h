/*
 * A synchronization of shared state: what is particular to it among the joint calls (rounds.h).
 */
#ifndef PCCL_PEER_SYNC_H
#define PCCL_PEER_SYNC_H

#include "peer/state.h"

/* A call begins, and has not voted yet. */
void pccl_peer_begin_sync(struct pccl_peer *p, const struct pccl_sync_vote *vote);
void pccl_peer_send_sync_vote(struct pccl_peer *p);
/* What the master says: the plan, and one more donor. */
void pccl_peer_sync_planned(struct pccl_peer *p, const struct pccl_msg_sync_plan *plan);
void pccl_peer_sync_donor_named(struct pccl_peer *p, const struct pccl_msg_sync_donor *donor);
/* As the events of their names (event.h). */
void pccl_peer_sync_touched(struct pccl_peer *p);
void pccl_peer_sync_proven(struct pccl_peer *p, const struct pccl_proof *proof);
void pccl_peer_sync_done(struct pccl_peer *p, bool complete, const struct pccl_text *reason);
/* The caller gives it up after the election: what it fetches has failed, the round goes on. false: before it. */
PCCL_MUST_CHECK bool pccl_peer_withdraw_planned_sync(struct pccl_peer *p, const char *reason);
/* The open round is over: how the call ends. */
enum pccl_status pccl_peer_sync_ended(struct pccl_peer *p, const struct pccl_msg_round *round);

#endif
