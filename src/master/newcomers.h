/*
 * Who waits to be admitted, and who could be: the one place that says whether a newcomer is eligible.
 */
#ifndef PCCL_MASTER_NEWCOMERS_H
#define PCCL_MASTER_NEWCOMERS_H

#include "master/state.h"

/* Is there room for one more newcomer of this group and address? Somebody else may have to go for it. false: words. */
PCCL_MUST_CHECK bool pccl_master_make_room(struct pccl_master *m, uint32_t group_number,
                                           const struct pccl_address *from, struct pccl_text *reason);
/* false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_enqueue(struct pccl_master *m, struct pccl_remote *remote,
                                         const struct pccl_address *from);
/* It is admitted or goes. Nothing happens if it is in no queue. */
void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote);
/* What the newcomers of this group need, or have, may have changed: the next plan looks at them. */
void pccl_master_recheck_queue(struct pccl_master *m, uint32_t group_number);
void pccl_master_recheck_all_queues(struct pccl_master *m);
/* Stage: asks for the links that newcomers need, and refuses who has not got them in time. */
void pccl_master_plan_warm_up(struct pccl_master *m);
/* Marks the newcomers that could be admitted now (remote->eligible), in ring order per group. Returns how many. */
uint32_t pccl_master_eligible(struct pccl_master *m);

#endif
