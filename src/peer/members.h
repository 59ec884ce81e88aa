/*
 * Who is in the run, as the master's views have told it (view.h), and what the peers are called.
 */
#ifndef PCCL_PEER_MEMBERS_H
#define PCCL_PEER_MEMBERS_H

#include "peer/state.h"

/*
 * Removes, then adds in any order. Returns MEMORY, and the list is as before; or MALFORMED, for an id that is in the
 * list twice, and the list must not be used.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_change_members(struct pccl_peer *p, const struct pccl_id *removed,
                                                          uint32_t removed_count, const struct pccl_member *added,
                                                          uint32_t added_count);
PCCL_MUST_CHECK enum pccl_status pccl_peer_replace_members(struct pccl_peer *p, const struct pccl_member *members,
                                                           uint32_t count);
/* The present attributes; not the snapshot that callers see. */
struct pccl_attributes pccl_peer_live_attributes(const struct pccl_peer *p);
bool pccl_peer_knows_member(const struct pccl_peer *p, const struct pccl_id *id);
/* The members of this peer's group in their canonical order; live.group_world of them. */
const struct pccl_member *pccl_peer_group_members(const struct pccl_peer *p);
/* A peer's index among them; live.group_world if it is not one of them. */
uint32_t pccl_peer_position_of(const struct pccl_peer *p, const struct pccl_id *id);
bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id); /* a member of our own group */
const struct pccl_id *pccl_peer_successor(const struct pccl_peer *p);            /* NULL: alone */

/* ---- names.c ---- */

void pccl_peer_names(struct pccl_peer *p, const struct pccl_msg_names *msg);
/* Copies a reason that the master gave, with the names of peers added. */
void pccl_peer_take_reason(const struct pccl_peer *p, struct pccl_text *reason, const struct pccl_bytes *said);

#endif
