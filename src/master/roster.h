/* Peers by id and groups by number. A removal is recorded at once and takes effect later (membership.h). */
#ifndef PCCL_MASTER_ROSTER_H
#define PCCL_MASTER_ROSTER_H

#include "master/state.h"

/* Returns the peer with this id; NULL if none exists. */
struct pccl_remote *pccl_master_find(const struct pccl_master *m, const struct pccl_id *id);
/* Lists the known addresses of a peer, at most PCCL_CANDIDATES_MAX. Returns their number. */
uint32_t pccl_master_addresses(const struct pccl_remote *remote, struct pccl_address *addresses);
/* Sends the names of the first PCCL_NAMES_SENT_MAX of these members. Call before any other message mentions them. */
void pccl_master_send_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of,
                            uint32_t count);
/* Marks the peer as departing for this reason. Does nothing if it is departing already. */
PCCL_PRINTF(4, 5)
void pccl_master_remove(struct pccl_master *m, struct pccl_remote *remote, enum pccl_refusal why, const char *format,
                        ...);
/* Stores the reason for this removal in case the peer connects again. */
void pccl_master_note_removed(struct pccl_master *m, const struct pccl_remote *remote);
/* Returns the record of this peer's removal; NULL if none exists or the removed peer had another token. */
const struct pccl_removed *pccl_master_find_removed(const struct pccl_master *m, const struct pccl_msg_hello *hello);
/*
 * Finds a group, or creates it if `create` is set. Returns NULL if it does not exist, or if there is no room or memory
 * for it.
 */
struct pccl_peer_group *pccl_master_group(struct pccl_master *m, uint32_t number, bool create);
/* Returns the present attributes for a member of this group. */
struct pccl_attributes pccl_master_attributes(const struct pccl_master *m, const struct pccl_peer_group *group);

#endif
