/*
 * Joint calls of the whole run: votes named by kind and round, counted over the living (PROTOCOL 10, 11). With an
 * update newcomers are admitted, and rings and costs are reviewed. Rounds of shared state are those of groups (sync.h).
 */
#ifndef PCCL_MASTER_ROUNDS_H
#define PCCL_MASTER_ROUNDS_H

#include "master/state.h"

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

#endif
