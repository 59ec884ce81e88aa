/*
 * Rounds: calls that all members make and that end for all at once.
 *
 *   joint calls       of the whole run: votes named by kind and round, counted over the living (PROTOCOL 10, 11).
 *   With an
 *                     update newcomers are admitted, and rings and costs are reviewed (rounds.c)
 *   synchronizations  of shared state, each a round of one group: the votes and the donors of each member (10.5,
 *                     rounds_sync.c), and the election of a content, a function of the votes alone
 *                     (rounds_election.h)
 */
#ifndef PCCL_MASTER_ROUNDS_H
#define PCCL_MASTER_ROUNDS_H

#include "master/state.h"

/* ---- joint calls ---- */

/* Counts a vote in the open round. Answers a vote in the round before once more. Any other vote removes its sender. */
void pccl_master_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_vote *vote);
/* Withdraws the vote if the round is not decided. */
void pccl_master_withdraw(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round);
/*
 * Stage: decides the rounds for which all have voted. Removes the first members of new groups if they make no call
 * while all others have waited long enough.
 */
void pccl_master_decide_rounds(struct pccl_master *m);
/* Sends the result of the last round to a member that has not received it. */
void pccl_master_answer_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind);

/* ---- synchronizations of shared state ---- */

/*
 * Handles a member's message about a synchronization:
 *
 *   sync_vote   its content and strategy; the last vote triggers the election
 *   sync_proof  proof of the elected content, from a member that voted for it
 *   sync_done   it has fetched the missing content, or cannot
 */
void pccl_master_sync_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
/* Sends a member the result of the last round of its group. */
void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to);
/* Marks the group's round as due, because this member's part has changed; NULL: because the participants have. */
void pccl_master_note_sync(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only);
/* Stage: elects where all have voted, names and replaces donors, ends complete rounds. */
void pccl_master_decide_syncs(struct pccl_master *m);
/* Drops the part of a member that no longer takes part. */
void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote);
/* Return true if the member has voted and has nothing left to do; or if it still fetches or owes the proof. */
bool pccl_master_has_voted_sync(const struct pccl_remote *remote);
bool pccl_master_is_fetching(const struct pccl_remote *remote);
/* Returns the number of donors named to it. */
uint32_t pccl_master_donor_count(const struct pccl_remote *remote);

#endif
