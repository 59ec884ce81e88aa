/*
 * Synchronizations of shared state, each a round of one group: the votes, the election, and who
 * fetches from whom (PROTOCOL 10.5).
 */
#ifndef PCCL_MASTER_SYNC_H
#define PCCL_MASTER_SYNC_H

#include "master/state.h"

/* A member votes: what it holds, and its strategy. The last vote brings the election. */
void pccl_master_sync_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_vote *vote);
/* A member that brought the elected content sends the proof of it. */
void pccl_master_sync_proof(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_proof *proof);
/* A member has fetched what it lacked, or cannot. */
void pccl_master_sync_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_done *done);
/* Withdraws a vote, if nothing is elected yet. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);
/* Tells a member how the last round of its group ended. */
void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to);
/* Marks the group's round as due: this member's part has changed or, if NULL, who takes part. */
void pccl_master_note_sync(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only);
/* Stage: elects where all have voted, names and replaces donors, ends rounds that are complete. */
void pccl_master_decide_syncs(struct pccl_master *m);
/* The member takes no part any more. */
void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote);
/* Has the member voted, and does it fetch nothing, or nothing any more? */
bool pccl_master_has_voted_sync(const struct pccl_remote *remote);
bool pccl_master_is_fetching(const struct pccl_remote *remote);
/* How many donors it was told of. */
uint32_t pccl_master_donor_count(const struct pccl_remote *remote);

#endif
