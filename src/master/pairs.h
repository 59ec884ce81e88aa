/*
 * Pairs (PROTOCOL 16): two members, one of whom sends to the other, in the whole group or in a subgroup. Nobody founds
 * them: their names say who they are. One is kept as a subgroup is, for as long as there is an operation of it, be that
 * of the group or of any subgroup, and has neither seats nor links nor an end that is told.
 */
#ifndef PCCL_MASTER_PAIRS_H
#define PCCL_MASTER_PAIRS_H

#include "master/state.h"

enum pccl_pairing {
    PCCL_PAIR_OF_OTHERS, /* the member is not in the pair, or one of the two is not in the subgroup */
    PCCL_PAIR_BROKEN,    /* it is, and the other is no member of the group (any more) */
    PCCL_PAIR_WHOLE,
};
/* Of an operation of a pair. If its subgroup does not live, that says nothing. */
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
