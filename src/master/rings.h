/*
 * Who is in the ring of a group, and in which order. Every change marks what is due after it.
 */
#ifndef PCCL_MASTER_RINGS_H
#define PCCL_MASTER_RINGS_H

#include "master/state.h"

/*
 * Makes a newcomer a member, last in the ring, and marks the group as changed. false: out of
 * memory.
 */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote);
/*
 * Reorders the group's ring and marks the group as changed. order: the present positions in their
 * new order. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);
/* Takes a departing member out of its group's ring and marks the group as changed. */
void pccl_master_leave_ring(struct pccl_master *m, struct pccl_remote *remote);

/*
 * Was one member admitted before the other? Numbers are distinct, unless members have lied about
 * them.
 */
bool pccl_master_is_before(const struct pccl_remote *a, const struct pccl_remote *b);

/* Is there a ring that was found for the group as it is, to be adopted? */
bool pccl_master_has_better(const struct pccl_peer_group *group);
/* The links of the rings to come: a new view has dropped what is not of the present ones. */
void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group);

#endif
