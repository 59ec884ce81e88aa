/*
 * Who is in the run: the members and the ring of the group, as the master's views tell them, and
 * the display names.
 */
#ifndef PCCL_PEER_VIEW_H
#define PCCL_PEER_VIEW_H

#include "peer/state.h"

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome);
/*
 * A new epoch. If it is a new view of this group, it decides what was launched before it, and links
 * and departures follow from it.
 */
void pccl_peer_epoch_change(struct pccl_peer *p, const struct pccl_msg_epoch_change *change);
/* The present attributes; not the snapshot that callers see. */
struct pccl_attributes pccl_peer_live_attributes(const struct pccl_peer *p);
bool pccl_peer_knows_member(const struct pccl_peer *p, const struct pccl_id *id);
/*
 * Where the members of this peer's group begin in the list, and where one of them is; member_count:
 * it is none.
 */
uint32_t pccl_peer_first_of_group(const struct pccl_peer *p);
uint32_t pccl_peer_find_in_group(const struct pccl_peer *p, const struct pccl_id *id);
bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id); /* a member of our own group */
const struct pccl_id *pccl_peer_successor(const struct pccl_peer *p);            /* NULL: alone */

/* ---- names.c ---- */

void pccl_peer_names(struct pccl_peer *p, const struct pccl_msg_names *msg);
/* Copies a reason that the master gave, with the names of peers added. */
void pccl_peer_take_reason(const struct pccl_peer *p, struct pccl_text *reason, const struct pccl_bytes *said);

#endif
