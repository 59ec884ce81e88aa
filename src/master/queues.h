/*
 * Queues of newcomers, one for each group, and the addresses that they come from. Both exist as long as somebody waits.
 */
#ifndef PCCL_MASTER_QUEUES_H
#define PCCL_MASTER_QUEUES_H

#include "master/state.h"

/* NULL: nobody waits for this group. */
struct pccl_queue *pccl_master_find_queue(const struct pccl_master *m, uint32_t group_number);
/* NULL: nobody of this address waits. */
struct pccl_site *pccl_master_find_site(const struct pccl_master *m, const struct pccl_address *address);
/* The one behind `newcomer` in its queue, or the first; NULL: none. */
struct pccl_remote *pccl_master_next_in_queue(struct pccl_master *m, struct pccl_queue *queue,
                                              struct pccl_remote *newcomer);
/* false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_enqueue(struct pccl_master *m, struct pccl_remote *remote,
                                         const struct pccl_address *from);
/* It is admitted or goes; the queue may end with it. Nothing happens if it is in no queue. */
void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote);
/* What the newcomers of this group need, or have, may have changed: the next plan looks at them. */
void pccl_master_recheck_queue(struct pccl_master *m, uint32_t group_number);
void pccl_master_recheck_all_queues(struct pccl_master *m);

#endif
