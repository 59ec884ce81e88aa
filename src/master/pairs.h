/*
 * Pairs (PROTOCOL 16): two members, one of which sends to the other, in the whole group or in a subgroup. Pairs need no
 * founding: the name identifies the two members. A pair is kept like a subgroup while it has an operation, in the whole
 * group or in any subgroup. It has no seats and no links, and its end is not announced.
 */
#ifndef PCCL_MASTER_PAIRS_H
#define PCCL_MASTER_PAIRS_H

#include "master/state.h"

enum pccl_pairing {
    PCCL_PAIR_OF_OTHERS, /* the member is not in the pair, or one of the two is not in the subgroup */
    PCCL_PAIR_BROKEN,    /* it is, and the other is no member of the group (any more) */
    PCCL_PAIR_WHOLE,
};
/* Classifies an operation of a pair for this member. Ignores the subgroup if the group does not have it. */
enum pccl_pairing pccl_master_pairing(const struct pccl_peer_group *group, const struct pccl_instance *instance,
                                      const struct pccl_remote *remote);
/* Does the descriptor of a send say the same as its name about which of the two this member is? */
bool pccl_master_fits_pair(const struct pccl_msg_done *done, const struct pccl_remote *from);

/* One more operation of a whole pair; NULL: out of memory. */
struct pccl_subgroup *pccl_master_enter_pair(struct pccl_master *m, struct pccl_peer_group *group, uint64_t name);
/* One less: it is forgotten with the last one. */
void pccl_master_leave_pair(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *pair);

/* ---- receives from anybody (16.6): their peers are told of tiny sends, as many as they have asked for ---- */

/* One more, or fewer: tells of those that are here. */
void pccl_master_listen(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_listen *listen);
/* One of the two has finished its part. */
void pccl_master_offer(struct pccl_master *m, struct pccl_operation *op);
void pccl_master_forget_listens(struct pccl_master *m, struct pccl_remote *remote);

#endif
