/*
 * Topology: the speed of the links within a group, and the best ring of its members.
 *
 *   estimates  of each link from tests and operations, in the group's matrix (topology_tests.c)
 *   tests      load paths one after another in an optimization that all members call (topology_tests.c)
 *   problem    the group in the form that the solver and the reports use (topology_reports.c)
 *   search     runs in another thread; a better ring is kept until a round adopts it (topology_search.c)
 *
 * membership.h keeps the present ring. links.h creates rings that only avoid a failed link.
 */
#ifndef PCCL_MASTER_TOPOLOGY_H
#define PCCL_MASTER_TOPOLOGY_H

#include "master/state.h"

/* Returns the successor of the i-th member of `ring`, a list of positions in the group's present ring. */
static inline struct pccl_remote *pccl_master_next_of(const struct pccl_peer_group *group, const uint32_t *ring,
                                                      uint32_t i)
{
    return group->ring[ring[i + 1 == group->ring_count ? 0 : i + 1]];
}

/* ---- link figures ---- */

/* Gives a member its place in the matrix. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_enter_matrix(struct pccl_master *m, struct pccl_peer_group *group,
                                              struct pccl_remote *remote);
/* Removes a member from the matrix, with the estimates of its links. */
void pccl_master_leave_matrix(struct pccl_peer_group *group, struct pccl_remote *remote);
/* Returns the figure of this link; NULL if none exists. */
struct pccl_figure *pccl_master_find_figure(const struct pccl_remote *from, const struct pccl_remote *to);
/* Records figures of a link that operations have used. Such a link is no longer unreachable. */
void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate);
/* Returns rate and round trip of a link as reported by its sender, for the cost data of a view; 0 if unknown. */
void pccl_master_link_cost(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate,
                           uint32_t *rtt_us);
/* Returns a link's estimate for the solver and for reports. A link that is up is always reachable. */
struct pccl_figure pccl_master_link_estimate(const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- tests ---- */

/* Handles the result of a test from the member that loaded the path. */
void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured);
/* Ends the tests of a member that leaves its group, and the tests of paths to it. */
void pccl_master_end_tests_of(struct pccl_master *m, struct pccl_remote *gone);
/* Stage of a step (state.h): ends overdue tests. Wakes up rounds that wait for the links of better rings. */
void pccl_master_expire_tests(struct pccl_master *m);

/* ---- reports ---- */

/* Sends a member the topology report of its group. */
void pccl_master_describe(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_describe *describe);
/* Passes the report to the driver after an optimization. */
void pccl_master_publish_topology(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- searches ---- */

/* Begins or continues an optimization that all have voted for. Returns true if it has ended for all groups. */
PCCL_MUST_CHECK bool pccl_master_optimize(struct pccl_master *m);
/* Handles the result of a search (SOLVED). */
void pccl_master_solved(struct pccl_master *m, const struct pccl_master_event *event);
/* Stage of a step (state.h): continues the search in the background for groups whose ring is not proven optimal. */
void pccl_master_search_in_background(struct pccl_master *m);
/* Stops the group's search and frees its estimates at the end of the group. */
void pccl_master_drop_tuning(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- better rings ---- */

/* Returns true if an update must wait for a search or for links of the better ring. Call before deciding the update. */
PCCL_MUST_CHECK bool pccl_master_update_waits_for_rings(struct pccl_master *m);
/* Returns true if a better ring has been found and all its links are up. */
PCCL_MUST_CHECK bool pccl_master_ring_is_ready(struct pccl_master *m, struct pccl_peer_group *group);
/* Computes the worth of the present and the better ring from the present figures. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_weigh_better_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                                   struct pccl_ring_worth *was, struct pccl_ring_worth *is);
/* Changes groups to their better rings and marks them as changed. Returns their number; sets `why` if there are any. */
uint32_t pccl_master_adopt_rings(struct pccl_master *m, struct pccl_text *why);
/*
 * Does the same for one group. Returns true and sets `why` if the group adopts its better ring. Discards a better ring
 * that was adopted or is outdated.
 */
PCCL_MUST_CHECK bool pccl_master_adopt_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                            struct pccl_text *why);

#endif
