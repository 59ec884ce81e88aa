/*
 * What other peers have announced as bulk operations, or the master as tiny sends, and this peer has
 * not launched.
 */
#ifndef PCCL_PEER_ANNOUNCEMENTS_H
#define PCCL_PEER_ANNOUNCEMENTS_H

#include "peer/state.h"

/* As the event ANNOUNCED (event.h). */
void pccl_peer_announced(struct pccl_peer *p, const struct pccl_id *from, const struct pccl_msg_ready *ready);
/* The master has offered it, as a tiny send to this peer. */
void pccl_peer_keep_offer(struct pccl_peer *p, const struct pccl_instance *instance);
/* NULL: nobody has announced it. */
struct pccl_announcement *pccl_peer_announcement(const struct pccl_peer *p, const struct pccl_instance *instance);
void pccl_peer_drop_announcement(struct pccl_peer *p, struct pccl_announcement *announcement);
void pccl_peer_drop_announcements(struct pccl_peer *p, bool all); /* otherwise those of an older era only */
/* Asks for an abort if one is tiny, and the other bulk: they do not meet. */
void pccl_peer_refuse_announced(struct pccl_peer *p, struct pccl_peer_op *op,
                                const struct pccl_announcement *announcement);

#endif
