/* Synchronization of shared state: the parts that differ from the other joint calls (rounds.h). */
#ifndef PCCL_PEER_SYNC_H
#define PCCL_PEER_SYNC_H

#include "peer/state.h"

/* A call begins. It has not voted yet. */
void pccl_peer_begin_sync(struct pccl_peer *p, const struct pccl_sync_vote *vote);
void pccl_peer_send_sync_vote(struct pccl_peer *p);
/* From the master: the plan, and one more donor. */
void pccl_peer_sync_planned(struct pccl_peer *p, const struct pccl_msg_sync_plan *plan);
void pccl_peer_sync_donor_named(struct pccl_peer *p, const struct pccl_msg_sync_donor *donor);
/* Handle the events of their names (event.h). */
void pccl_peer_sync_touched(struct pccl_peer *p);
void pccl_peer_sync_proven(struct pccl_peer *p, const struct pccl_proof *proof);
void pccl_peer_sync_done(struct pccl_peer *p, bool complete, const struct pccl_text *reason);
/*
 * The caller withdraws after the election: the fetch of this peer has failed, and the round continues. Returns false if
 * nothing is elected yet.
 */
PCCL_MUST_CHECK bool pccl_peer_withdraw_planned_sync(struct pccl_peer *p, const char *reason);
/* The open round has ended. Returns the status with which the call ends. */
enum pccl_status pccl_peer_sync_ended(struct pccl_peer *p, const struct pccl_msg_round *round);

#endif
