/*
 * Who is in the ring of a group, and in which order. Every change marks what is due after it.
 */
#ifndef PCCL_MASTER_RINGS_H
#define PCCL_MASTER_RINGS_H

#include "master/state.h"

/* A newcomer becomes a member, last in the ring; the group is changed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote);
/* The group's ring in another order: positions of before. The group is changed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);
/* A member that departs leaves its group's ring; the group is changed. */
void pccl_master_leave_ring(struct pccl_master *m, struct pccl_remote *remote);

/* Is there a ring that was found for the group as it is, to be adopted? */
bool pccl_master_has_better(const struct pccl_peer_group *group);

#endif
