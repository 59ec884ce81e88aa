/*
 * Rounds: calls that all members make and that end for all at once.
 *
 *   joint calls       calls of the whole run: votes, identified by kind and round, of all living members (PROTOCOL 10,
 *                     11). An update admits newcomers, and reviews rings and costs (rounds.c)
 *   synchronizations  of shared state, each a round of one group: the votes and the donors of each member (10.5,
 *                     rounds_sync.c), and the election of a content, a function of the votes alone
 *                     (rounds_election.h)
 */
#ifndef PCCL_MASTER_ROUNDS_H
#define PCCL_MASTER_ROUNDS_H

#include "master/state.h"

/* ---- joint calls ---- */

/* Counts a vote in the open round. Repeats the answer to a vote in the previous one. Other votes remove the sender. */
void pccl_master_vote(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_vote *vote);
/* Withdraws the vote if the round is not decided. */
void pccl_master_withdraw(struct pccl_master *m, struct pccl_remote *from, uint8_t kind, uint64_t round);
/*
 * Stage of a step (state.h): decides the rounds in which all have voted. Removes the first member of a new group if it
 * has made no call by the time all others have waited long enough.
 */
void pccl_master_decide_rounds(struct pccl_master *m);
/* Sends the result of the last round to a member that has not received it. */
void pccl_master_answer_round(struct pccl_master *m, struct pccl_remote *to, uint8_t kind);

/* ---- synchronizations of shared state ---- */

/*
 * Handles a member's message about a synchronization:
 *
 *   sync_vote   content and strategy of the member; the last vote triggers the election
 *   sync_proof  proof of the elected content, from a member that voted for it
 *   sync_done   the member has fetched the missing content, or cannot
 */
void pccl_master_sync_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
/* Sends a member the result of the last round of its group. */
void pccl_master_answer_sync(struct pccl_master *m, struct pccl_remote *to);
/* Marks the group's round as due, because the part of `only` or, if NULL, the set of participants has changed. */
void pccl_master_note_sync(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *only);
/*
 * Stage of a step (state.h): holds the election where all have voted, names and replaces donors, ends complete rounds.
 */
void pccl_master_decide_syncs(struct pccl_master *m);
/* Drops the part of a member that no longer participates. */
void pccl_master_drop_sync_part(struct pccl_master *m, struct pccl_remote *remote);
/*
 * The first returns true if the member has voted and has nothing left to do, the second if it is still fetching or has
 * not sent the proof.
 */
bool pccl_master_has_voted_sync(const struct pccl_remote *remote);
bool pccl_master_is_fetching(const struct pccl_remote *remote);
/* Returns the number of donors that were named to this member. */
uint32_t pccl_master_donor_count(const struct pccl_remote *remote);

#endif
