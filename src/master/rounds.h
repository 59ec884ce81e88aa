/*
 * The room of rounds: calls that all members make, and that end for all at once.
 *
 *   joint calls       of the whole run: votes named by kind and round, counted over the living (PROTOCOL 10, 11). With
 * an update newcomers are admitted, and rings and costs are reviewed (rounds.c) synchronizations  of shared state, each
 * a round of one group: the votes, who fetches from whom (10.5, rounds_sync.c), and the election of a content, a
 * function of the votes alone (rounds_election.h)
 */
#ifndef PCCL_MASTER_ROUNDS_H
#define PCCL_MASTER_ROUNDS_H

#include "master/state.h"

/* ---- joint calls ---- */

/* A vote in the open round is counted, one in the round before is answered once more, any other removes its sender. */
void pccl_master_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_vote *vote);
/* Takes its vote back, if the round is not decided. */
void pccl_master_withdraw(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round);
/*
 * Stage: decides the rounds for which all have voted, and removes first members of new groups that call nothing, when
 * all others have waited for them long enough.
 */
void pccl_master_decide_rounds(struct pccl_master *m);
/* How the last one ended, for a member that has not heard it. */
void pccl_master_answer_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind);

/* ---- synchronizations of shared state ---- */

/*
 * `sync_vote`: what a member holds, and its strategy; the last vote brings the election. `sync_proof`: a member that
 * brought the elected content sends the proof of it. `sync_done`: it has fetched what it lacked, or cannot.
 */
void pccl_master_sync_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
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
