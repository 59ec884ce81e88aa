/*
 * Synchronizations of shared state, a round of each group for itself: votes, what is elected, and who fetches what from
 * whom (PROTOCOL 10.5).
 */
#ifndef PCCL_MASTER_SYNC_H
#define PCCL_MASTER_SYNC_H

#include "master/state.h"

/* What it has, and would have. The last vote elects. */
void pccl_master_sync_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_vote *vote);
/* One who holds what was elected says by which proof it is to be known. */
void pccl_master_sync_proof(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_proof *proof);
/* It has fetched what it needed, or cannot. */
void pccl_master_sync_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_sync_done *done);
/* Takes its vote back, if nothing is elected yet. */
void pccl_master_withdraw_sync(struct pccl_master *m, struct pccl_remote *from, uint64_t round);
/* How the last round of its group ended, for one who has not heard it. */
void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to);
/* Something of the group's round has changed: of this member's part, or (NULL) who takes part. */
void pccl_master_note_sync(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only);
/* Stage: elects where all have voted, names and replaces donors, ends what is complete. */
void pccl_master_decide_syncs(struct pccl_master *m);
/* It takes part no more. */
void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote);
/* It has voted, and fetches nothing (any more). */
bool pccl_master_has_voted_sync(const struct pccl_remote *remote);
bool pccl_master_is_fetching(const struct pccl_remote *remote);

#endif
