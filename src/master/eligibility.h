/*
 * Who may be admitted, who has a vote that is missing, who is linked to whom, and whose word counts: questions about
 * peers and groups whose answers change nothing. Who of a queue is eligible depends on those before it, and is marked
 * in that order; that is in membership_newcomers.c.
 */
#ifndef PCCL_MASTER_ELIGIBILITY_H
#define PCCL_MASTER_ELIGIBILITY_H

#include "master/state.h"

/* ---- links ---- */

struct pccl_link_intent *pccl_master_find_intent(const struct pccl_remote *from,
                                                 const struct pccl_id *to); /* or NULL */
/* Its link to that one stands, or they are the same. */
bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* The next member in its group's ring: itself, if it is alone. */
struct pccl_remote *pccl_master_successor(const struct pccl_remote *remote);
/* Both are living members, and `to` follows `from` in the ring of their group. */
bool pccl_master_are_neighbors(const struct pccl_remote *from, const struct pccl_remote *to);
/* Do subgroups rely on this link? */
bool pccl_master_serves_subgroups(const struct pccl_remote *from, const struct pccl_remote *to);
/* Does the view of their group have this link beside its ring, be it up or not: of the mesh, or of a hub? */
bool pccl_master_view_wants(const struct pccl_remote *from, const struct pccl_remote *to);
/* ... and does it say that it is up? */
bool pccl_master_goes_directly(const struct pccl_remote *from, const struct pccl_remote *to);
/* Does the view of their group, or a subgroup, rely on this link? */
bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* A group of so many keeps links between all its members. */
static inline bool pccl_master_is_small(uint32_t members) { return members <= PCCL_MESH_PEERS_MAX; }

/* ---- who may be admitted ---- */

/* As the first of its group, which has no member to hold a link to. */
bool pccl_master_may_be_first(const struct pccl_master *m, const struct pccl_remote *remote);
/*
 * warming[index], of a group (NULL: a new one), need not wait for links of the mesh any more. `eligible` of those
 * before it must be as of now.
 */
bool pccl_master_mesh_is_decided(const struct pccl_master *m, const struct pccl_peer_group *group,
                                 struct pccl_remote **warming, uint32_t index);

/* ---- who votes ---- */

/* Every member has, in the open round of this kind. */
bool pccl_master_all_voted(const struct pccl_master *m, uint8_t kind);
/* Somebody has voted, and of those who have not each was the first of a new group and has never made a call. */
bool pccl_master_only_untried_are_missing(const struct pccl_master *m, uint8_t kind);

/* ---- whose word counts ---- */

/* What the peer `id` says of the peer `of` counts. */
bool pccl_master_is_witness(const struct pccl_master *m, const struct pccl_id *id, const struct pccl_id *of);

#endif
