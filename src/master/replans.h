/*
 * Views that only re-plan (PROTOCOL 5.4): the ring changes while operations are under way, which then begin again along
 * the other one. Nobody fails for it, but what has been moved is moved once more, so it has to pay.
 */
#ifndef PCCL_MASTER_REPLANS_H
#define PCCL_MASTER_REPLANS_H

#include "master/state.h"

/* No other view is known to come, or not known to all, and nobody has ended what others have under way. */
PCCL_MUST_CHECK bool pccl_master_may_replan(const struct pccl_master *m, const struct pccl_peer_group *group);
/* The group's ring has just changed, as it may: makes the view. */
void pccl_master_replan(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_text *why);
/* A better ring is ready, without a link that is slow: the group gets it if what is under way gains enough by it. */
void pccl_master_replan_if_it_pays(struct pccl_master *m, struct pccl_peer_group *group);

#endif
