/*
 * Links between peers. A link passes through these states:
 *
 *   wanted    a view, a subgroup, a hub or a newcomer needs it, so the master asks the peer to dial (links_wanted.c,
 *             links_hubs.c)
 *   reported  the peer reports that it is up, with its figures, or how it ended (links_reports.c)
 *   failed    the report is stored as an edge, evidence of a death or of a broken path (links_edges.c)
 *   avoided   the ring changes to one without it, if one exists (links_avoided.c)
 *   given up  it was not restored in time: another ring, no direct exchange, or one end is removed (links_failed.c)
 *
 * topology.h handles the speeds of links, and verdicts.h finds slow links by comparison.
 */
#ifndef PCCL_MASTER_LINKS_H
#define PCCL_MASTER_LINKS_H

#include "master/state.h"

/* ---- questions ---- */

/* Returns the record of this link at the peer that dials it; NULL if the master has not requested the link. */
struct pccl_link_intent *pccl_master_find_intent(const struct pccl_remote *from, const struct pccl_id *to);
/* Returns true if the link from `from` to `to` is up, or if both are the same peer. */
bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* Returns the next member in the ring of the group; the member itself if it is alone. */
struct pccl_remote *pccl_master_successor(const struct pccl_remote *remote);
/* Returns true if both are living members and `to` follows `from` in the ring. */
bool pccl_master_are_neighbors(const struct pccl_remote *from, const struct pccl_remote *to);
/* Returns true if subgroups use this link. */
bool pccl_master_serves_subgroups(const struct pccl_remote *from, const struct pccl_remote *to);
/* Returns true if the view of their group or a subgroup uses this link. */
bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to);
/* Returns true if a group of this size keeps links between all members. */
static inline bool pccl_master_is_small(uint32_t members) { return members <= PCCL_MESH_PEERS_MAX; }
/*
 * Returns the number of members, at most 2, that have reported within the silence limit that this peer's process is
 * gone. `strict` counts only members that dialed it. If the master has never reached the peer's port, only reports of
 * members count that have: a router on the path can end and refuse the other connections. `alone` may be NULL; it
 * receives the member if there is only one.
 */
uint32_t pccl_master_count_witnesses(const struct pccl_master *m, const struct pccl_id *id, bool strict,
                                     const struct pccl_id **alone);
/* Returns the time by which the master will have decided on the failed links of this peer; 0 if none has failed. */
uint64_t pccl_master_link_decided_at(struct pccl_master *m, const struct pccl_id *peer);

/* ---- wanted links ---- */

/* Returns true if `to` must dial the link from `from` to `to`, because the master can reach only `from`. */
bool pccl_master_is_reversed(const struct pccl_remote *from, const struct pccl_remote *to);
/* Returns true if the master has dialed the peer's port only in vain, or has waited for an answer for a while. */
static inline bool pccl_master_is_unreached(const struct pccl_remote *remote)
{
    return !remote->verified && (remote->closed || remote->unanswered_us != 0);
}
/*
 * Returns true if the master can reach the port of neither and no data has passed between them: the link between them
 * exists only if they are in one network.
 */
bool pccl_master_are_apart(const struct pccl_remote *a, const struct pccl_remote *b);
/* Returns true if, in addition, a dial between them has failed, or one of them has shown that it is alone there. */
bool pccl_master_cannot_link(const struct pccl_remote *a, const struct pccl_remote *b);
/* Records that a dial between two peers has failed, or succeeded (`up`). Concerns peers with closed ports. */
void pccl_master_note_isolation(const struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool up);
enum pccl_order_end { PCCL_ORDER_FOUND, PCCL_ORDER_NONE, PCCL_ORDER_MEMORY };
/*
 * Changes `order`, a ring of indices of `members`, so that no neighbors are apart; if there is no such ring, so that
 * each pair of neighbors may be able to link. Leaves `order` unchanged unless it returns FOUND.
 */
PCCL_MUST_CHECK enum pccl_order_end pccl_master_order_apart(struct pccl_master *m, struct pccl_remote **members,
                                                            uint32_t *order, uint32_t count);
/* Finds two members that cannot be linked. Returns false if all pairs can be linked. */
PCCL_MUST_CHECK bool pccl_master_find_unlinkable(struct pccl_remote **members, uint32_t count,
                                                 const struct pccl_remote **one, const struct pccl_remote **other);
/*
 * Removes members that cannot be linked, the latest first, until a ring of the others exists. Returns true if it
 * removed any.
 */
bool pccl_master_remove_unlinkable(struct pccl_master *m, struct pccl_peer_group *group);
/* Requests a link again, because its sender tried it the wrong way. */
void pccl_master_correct_request(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Requests again the links of this peer that are not up, if the end that dials is now the other one. */
void pccl_master_update_requests(struct pccl_master *m, struct pccl_remote *remote);
/* Asks `from` to dial `to`. Does nothing if it has been asked already. */
void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Sends a member an address that it requested. Keeps no state, because the member closes the link itself. */
void pccl_master_send_address(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to);
/* Adds a subgroup to the link's users or removes one. Requests the link for the first user, drops it with the last. */
void pccl_master_count_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool more);
/* Requests the links of the view: ring, mesh or hubs. Drops the requests for links to other members. */
void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group);
/* Drops all requested links to a peer and all reports about it. Call before the peer is freed. */
void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone);

/*
 * Hubs: members of a group too large for a mesh that have links to or from all others, because operations of all
 * members use such links (PROTOCOL 7.13).
 */

/* Requests the links that this committed operation could have used directly. */
void pccl_master_note_direct_use(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_operation *op);
/* Ends the hubs that have been idle for too many updates. Call when an update is decided. */
void pccl_master_age_hubs(struct pccl_master *m);
/* Fills in the present hubs of the group. A group whose size does not allow hubs has no hub. */
void pccl_master_list_hubs(const struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_cost *cost);
/* Returns true if this link belongs to a present hub, even if no view lists that hub yet. */
bool pccl_master_is_link_of_hub(const struct pccl_master *m, const struct pccl_remote *from,
                                const struct pccl_remote *to);
/* Requests the missing links of the group's hubs. */
void pccl_master_request_hub_links(struct pccl_master *m, struct pccl_peer_group *group);
/* Restores the hubs from the group's view after a restart. All its members must have returned. */
void pccl_master_take_over_hubs(struct pccl_peer_group *group);

/* ---- reports of peers ---- */

/*
 * Handles link reports. `link_lost` is evidence of a death, of a failed path between living peers, or that a newcomer
 * is not warm (not reachable by all of its neighbors). `link_up` reports that the link is up or that a figure has
 * changed, and cancels the evidence.
 */
void pccl_master_link_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
/*
 * Handles `link_gone`: the sender's end of a connection is gone. Forwards it to the peer that dialed the connection,
 * which may not have noticed, unless that peer's queue is too long.
 */
void pccl_master_link_gone(struct pccl_master *m, const struct pccl_remote *from,
                           const struct pccl_msg_link_gone *gone);
/*
 * Handles `want_back`: forwards it to the peer that must dial, or ends the sender's attempt if it cannot be forwarded.
 */
void pccl_master_want_back(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_want_back *want);
/* Stores a peer's report about the end of a link. */
void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_msg_link_lost *lost);
/*
 * Handles the loss of the control connection. Removes the peer if others have seen its process end; otherwise the
 * master dials its port.
 */
void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the master's own dials ---- */

/* Dials the peer's port. If a dial is under way, dials once more when that has ended. */
void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote);
/* Handles the result of a dial (PROBED). */
void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event);
/* Dials the port again if the time for that has come. Ends the patience with a first dial. */
void pccl_master_probe_if_due(struct pccl_master *m, struct pccl_remote *remote);

/* ---- links that have failed ---- */

/* Stage of a step (state.h): decides on links that were not restored in time. */
void pccl_master_decide_failed_links(struct pccl_master *m);
/* Chooses a ring without the failed links, if one exists. Call when a new view is due anyway. */
void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * Excludes the bad links that are not up: sets their rates to PCCL_RATE_NONE. `rates` is indexed by member numbers.
 * Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_exclude_bad_links(struct pccl_master *m, const struct pccl_peer_group *group,
                                                   uint64_t *rates);

#endif
