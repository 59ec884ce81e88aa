/*
 * The room of links between peers. A link goes through these steps:
 *
 *   wanted    a view, a subgroup, a hub or a newcomer needs it, so the peer is asked to dial (links_wanted.c,
 * links_hubs.c) reported  the peer says that it stands, what it carries, or how it ended (links_reports.c) failed such
 * a report is kept as an edge, which is evidence of a death or of a broken path (links_edges.c) avoided   the ring
 * changes to one without it, if there is one (links_avoided.c) given up  it was not mended in time: another ring, no
 * direct exchange, or one end is removed (links_failed.c)
 *
 * How fast a link is belongs to topology.h; whether it is slower than others, to verdicts.h.
 */
#ifndef PCCL_MASTER_LINKS_H
#define PCCL_MASTER_LINKS_H

#include "master/state.h"

/* ---- questions ---- */

/* NULL: the peer was not asked for this link. */
struct pccl_link_intent *pccl_master_find_intent(const struct pccl_remote *from, const struct pccl_id *to);
/* Its link to that one stands, or they are the same. */
bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* The next member in its group's ring: itself, if it is alone. */
struct pccl_remote *pccl_master_successor(const struct pccl_remote *remote);
/* Both are living members, and `to` follows `from` in the ring of their group. */
bool pccl_master_are_neighbors(const struct pccl_remote *from, const struct pccl_remote *to);
/* Do subgroups rely on this link? */
bool pccl_master_serves_subgroups(const struct pccl_remote *from, const struct pccl_remote *to);
/* Does the view of their group, or a subgroup, rely on this link? */
bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* A group of so many keeps links between all its members. */
static inline bool pccl_master_is_small(uint32_t members) { return members <= PCCL_MESH_PEERS_MAX; }
/*
 * Returns the number of members, at most 2, that have reported within the silence limit that this peer's process is
 * gone. strict: only those that dialed it count. alone: set to the member if there is exactly one; may be NULL.
 */
uint32_t pccl_master_count_witnesses(const struct pccl_master *m, const struct pccl_id *id, bool strict,
                                     const struct pccl_id **alone);
/* When what is to become of the last failed link of this peer that its group needs is decided; 0: none has failed. */
uint64_t pccl_master_link_decided_at(struct pccl_master *m, const struct pccl_id *peer);

/* ---- links that are wanted ---- */

/* Nothing happens if it is asked for already. */
void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Tells a member how to dial another one, to which it sends. No state is kept, as the member closes the link itself. */
void pccl_master_tell_address(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to);
/* One subgroup more, or less, relies on this link: it is asked for, or wanted no more. */
void pccl_master_count_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool more);
/* Asks for those that the view wants: its ring's, its mesh's or its hubs'. Other members are not wanted any more. */
void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group);
/* The peer is about to be forgotten: neither wants links to it any more, nor keeps reports about it. */
void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone);

/*
 * Hubs: in a group too large for a mesh, the members to which, or from which, all others hold links, since operations
 * of all members have asked for them (PROTOCOL 7.13).
 */

/* It is committed: the links over which it could have gone directly are wanted, and asked for. */
void pccl_master_note_direct_use(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_operation *op);
/* An update is decided: who has not been used as a hub for long is none any more. */
void pccl_master_age_hubs(struct pccl_master *m);
/* Fills in the hubs of the group as they are now; none, if it is too large for them, or too small. */
void pccl_master_list_hubs(const struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_cost *cost);
/* Is one of the two a hub now, to which the other one holds this link? The view may not know yet. */
bool pccl_master_is_link_of_hub(const struct pccl_master *m, const struct pccl_remote *from,
                                const struct pccl_remote *to);
/* Asks for the links of the group's hubs that are not asked for yet. */
void pccl_master_request_hub_links(struct pccl_master *m, struct pccl_peer_group *group);
/* After a restart: those that the view of the group has, whose members are all here. */
void pccl_master_take_over_hubs(struct pccl_peer_group *group);

/* ---- what peers report ---- */

/*
 * `link_lost`: evidence of a death, of a path between living peers that fails, or of a newcomer that is not warm.
 * `link_up`: the link stands, or a figure of it has moved; what it was evidence of is taken back.
 */
void pccl_master_link_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
/*
 * `link_gone`: the sender's end of a connection is gone. Passes it on to the peer that dialed the connection, which may
 * not know, unless too much waits for that one.
 */
void pccl_master_link_gone(struct pccl_master *m, const struct pccl_remote *from,
                           const struct pccl_msg_link_gone *gone);
/* Keeps what a peer says of a link. */
void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to, bool incoming,
                           enum pccl_link_end how);
/* Its control connection broke. It departs if others have seen its process gone; else the master looks for itself. */
void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the master's own dials ---- */

/* Dials its port. If that is under way, once more afterward. */
void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote);
/* What a dial has shown (PROBED). */
void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event);
/* Its control connection is lost: dials its port once more, if that is due. */
void pccl_master_probe_if_due(struct pccl_master *m, struct pccl_remote *remote);

/* ---- links that have failed ---- */

/* Stage: those that were not mended in time: another ring, or one of the two ends goes (PROTOCOL 9.4). */
void pccl_master_decide_failed_links(struct pccl_master *m);
/* There is a new view anyway: a ring without the links that fail now, if there is one. */
void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_peer_group *group);
/* Of rates between members by their numbers: what is known as bad, and does not stand, has none. false: no memory. */
PCCL_MUST_CHECK bool pccl_master_exclude_bad_links(struct pccl_master *m, const struct pccl_peer_group *group,
                                                   uint64_t *rates);

#endif
