/*
 * Table of the operations that other peers have launched and this peer has not: bulk operations that those peers
 * announced, and tiny sends that the master offered.
 */
#ifndef PCCL_PEER_ANNOUNCEMENTS_H
#define PCCL_PEER_ANNOUNCEMENTS_H

#include "peer/state.h"

/* Handles the event ANNOUNCED (event.h). */
void pccl_peer_announced(struct pccl_peer *p, const struct pccl_id *from, const struct pccl_msg_ready *ready);
/* Stores a tiny send to this peer that the master has offered. */
void pccl_peer_keep_offer(struct pccl_peer *p, const struct pccl_instance *instance);
/* Returns the announcement of this instance; NULL if no peer has announced it. */
struct pccl_announcement *pccl_peer_announcement(const struct pccl_peer *p, const struct pccl_instance *instance);
void pccl_peer_drop_announcement(struct pccl_peer *p, struct pccl_announcement *announcement);
/* Drops the announcements of earlier eras or, if `all` is set, all of them. */
void pccl_peer_drop_announcements(struct pccl_peer *p, bool all);
/*
 * Requests an abort of `op` if one side launched it as a tiny operation and the other as a bulk operation, because
 * these two can never meet.
 */
void pccl_peer_refuse_announced(struct pccl_peer *p, struct pccl_peer_op *op,
                                const struct pccl_announcement *announcement);

#endif
