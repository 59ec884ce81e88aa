/*
 * Newcomers that wait: who gets links, and who could be admitted. Their hello has been accepted
 * (admission.h); who is let in is decided by the members' vote (rounds.h).
 */
#ifndef PCCL_MASTER_NEWCOMERS_H
#define PCCL_MASTER_NEWCOMERS_H

#include "master/state.h"

/*
 * Makes room for one more newcomer of this group and address; another newcomer may have to go for
 * it. false: there is none, and the reason says why.
 */
PCCL_MUST_CHECK bool pccl_master_make_room(struct pccl_master *m, uint32_t group_number,
                                           const struct pccl_address *from, struct pccl_text *reason);
/* Stage: asks for the links that newcomers need, and refuses who has not got them in time. */
void pccl_master_plan_warm_up(struct pccl_master *m);
/* Marks the newcomers that could be admitted now (remote->eligible), in ring order per group. Returns how many. */
uint32_t pccl_master_eligible(struct pccl_master *m);

#endif
