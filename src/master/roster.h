/*
 * Peers and groups by their names. A removal is noted here at once (departing), and takes effect later (membership.h).
 */
#ifndef PCCL_MASTER_ROSTER_H
#define PCCL_MASTER_ROSTER_H

#include "master/state.h"

/* NULL: no peer has this id. */
struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id);
/* The known addresses of a peer, PCCL_CANDIDATES_MAX at most. Returns how many. */
uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses);
/*
 * Tells the names of these members, the first PCCL_NAMES_TOLD_MAX of them. To be called before any
 * other message mentions them.
 */
void pccl_master_tell_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of,
                            uint32_t count);
/* Marks the peer as departing, for this reason; does nothing if it is departing already. */
PCCL_PRINTF(4, 5)
void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...);
/* Keeps the reason for which this peer is removed, in case the peer connects again. */
void pccl_master_note_gone(struct pccl_master *m, const struct pccl_remote *remote);
/* NULL: no peer with this id is known as removed, or the removed peer had another token. */
const struct pccl_gone *pccl_master_find_gone(const struct pccl_master *m, const struct pccl_msg_hello *hello);
/* NULL: there is none; or, with create, no room or no memory. */
struct pccl_peer_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create);
/* Of a member of this group now. */
struct pccl_attributes pccl_master_attributes(const struct pccl_master *m, const struct pccl_peer_group *group);

#endif
