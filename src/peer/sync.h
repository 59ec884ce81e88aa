/* Synchronization of shared state: the parts that differ from the other joint calls (rounds.h). */
#ifndef PCCL_PEER_SYNC_H
#define PCCL_PEER_SYNC_H

#include "peer/state.h"

/* Begins a call, which has not voted yet. */
void pccl_peer_begin_sync(struct pccl_peer *p, const struct pccl_sync_vote *vote);
void pccl_peer_send_sync_vote(struct pccl_peer *p);
/* Handle the master's plan, and the message that names another donor. */
void pccl_peer_sync_planned(struct pccl_peer *p, const struct pccl_msg_sync_plan *plan);
void pccl_peer_sync_donor_named(struct pccl_peer *p, const struct pccl_msg_sync_donor *donor);
/* Handle the events SYNC_TOUCHED, SYNC_PROVEN and SYNC_DONE (event.h). */
void pccl_peer_sync_touched(struct pccl_peer *p);
void pccl_peer_sync_proven(struct pccl_peer *p, const struct pccl_proof *proof);
void pccl_peer_sync_done(struct pccl_peer *p, bool complete, const struct pccl_text *reason);
/*
 * Withdraws after the election: this peer's fetch fails, and the round continues. Returns false if nothing has been
 * elected.
 */
PCCL_MUST_CHECK bool pccl_peer_withdraw_planned_sync(struct pccl_peer *p, const char *reason);
/* Handles the end of the round. Returns the status with which the call ends. */
enum pccl_status pccl_peer_sync_ended(struct pccl_peer *p, const struct pccl_msg_round *round);

#endif
