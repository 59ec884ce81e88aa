/* Members of the run according to the master's views (view.h), and the display names of the peers. */
#ifndef PCCL_PEER_MEMBERS_H
#define PCCL_PEER_MEMBERS_H

#include "peer/state.h"

/*
 * Removes members, then adds members in any order. Returns MEMORY, with the list unchanged, or MALFORMED if an id is in
 * the list twice; the list must then not be used.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_change_members(struct pccl_peer *p, const struct pccl_id *removed,
                                                          uint32_t removed_count, const struct pccl_member *added,
                                                          uint32_t added_count);
PCCL_MUST_CHECK enum pccl_status pccl_peer_replace_members(struct pccl_peer *p, const struct pccl_member *members,
                                                           uint32_t count);
/* Returns the attributes of the current epoch. Callers see a snapshot instead (queries.h). */
struct pccl_attributes pccl_peer_live_attributes(const struct pccl_peer *p);
bool pccl_peer_knows_member(const struct pccl_peer *p, const struct pccl_id *id);
/* Returns the live.group_world members of this peer's group in canonical order. */
const struct pccl_member *pccl_peer_group_members(const struct pccl_peer *p);
/* Returns a peer's index in this list; live.group_world if it is not a member of the group. */
uint32_t pccl_peer_position_of(const struct pccl_peer *p, const struct pccl_id *id);
/* Returns true if the peer is in this peer's group. */
bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id);
const struct pccl_id *pccl_peer_successor(const struct pccl_peer *p); /* NULL if this peer is alone */

/* ---- names.c ---- */

void pccl_peer_names(struct pccl_peer *p, const struct pccl_msg_names *msg);
/* Copies a reason from the master, and adds the names of the peers in it. */
void pccl_peer_take_reason(const struct pccl_peer *p, struct pccl_text *reason, const struct pccl_bytes *words);

#endif
