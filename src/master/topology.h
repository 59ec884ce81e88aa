/*
 * The room of topology: how fast the links within a group are, and in which ring the members stand best.
 *
 *   estimates  what tests and operations show of each link, in the group's matrix (topology_tests.c)
 *   tests      which paths are loaded when, in an optimization that all members call (topology_tests.c)
 *   problem    a group as the solver and the reports see it (topology_reports.c)
 *   search     a better ring is looked for in another thread, and kept until a round adopts it (topology_search.c)
 *
 * The ring as it is belongs to membership.h. Rings that only avoid a failed link are made by links.h.
 */
#ifndef PCCL_MASTER_TOPOLOGY_H
#define PCCL_MASTER_TOPOLOGY_H

#include "master/state.h"

/* The member behind the i-th of this ring, which names the members by their positions. */
static inline struct pccl_remote *pccl_master_next_of(const struct pccl_peer_group *group, const uint32_t *ring,
                                                      uint32_t i)
{
    return group->ring[ring[i + 1 == group->ring_count ? 0 : i + 1]];
}

/* ---- what is known of links ---- */

/* Gives a member its place in the matrix. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_enter_matrix(struct pccl_master *m, struct pccl_peer_group *group,
                                              struct pccl_remote *remote);
/* Takes a member out of the matrix and forgets the estimates of its links. */
void pccl_master_leave_matrix(struct pccl_peer_group *group, struct pccl_remote *remote);
/* NULL: no figure is kept of this link. */
struct pccl_figure *pccl_master_find_figure(const struct pccl_remote *from, const struct pccl_remote *to);
/* Notes what operations showed of a link; a link that stands is not unreachable. */
void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate);
/*
 * Rate and round trip of a link, as its sender reports them, for the cost data of a view; 0:
 * unknown.
 */
void pccl_master_link_cost(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate,
                           uint32_t *rtt_us);
/*
 * The estimate of a link, as the solver and reports see it: a link that stands is reachable,
 * whatever a test says.
 */
struct pccl_figure pccl_master_link_estimate(const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- tests ---- */

/* The member that loaded a path reports what the test showed. */
void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured);
/* A member leaves its group: its tests end, and those of the path to it. */
void pccl_master_end_tests_of(struct pccl_master *m, struct pccl_remote *gone);
/* Stage: ends overdue tests. Rounds wait for the other tests, and for the links of better rings. */
void pccl_master_expire_tests(struct pccl_master *m);

/* ---- reports ---- */

/* A member asks for the report of its group. */
void pccl_master_describe(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_describe *describe);
/* Hands the report to the driver after an optimization. */
void pccl_master_publish_topology(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- searches ---- */

/* Begins an optimization that all have voted for, or continues it. Returns true if it has ended for all groups. */
PCCL_MUST_CHECK bool pccl_master_optimize(struct pccl_master *m);
/* A search has ended (SOLVED). */
void pccl_master_solved(struct pccl_master *m, const struct pccl_master_event *event);
/* Stage: continues, in the background, the search for rings that are not proven to be the best. */
void pccl_master_search_in_background(struct pccl_master *m);
/* The group ends: stops its search and frees its estimates. */
void pccl_master_drop_tuning(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- better rings ---- */

/*
 * To be asked before an update is decided. true: it has to wait for a search, or for the links of
 * the ring found.
 */
PCCL_MUST_CHECK bool pccl_master_update_waits_for_rings(struct pccl_master *m);
/* A better ring was found, and all its links stand. */
PCCL_MUST_CHECK bool pccl_master_ring_is_ready(struct pccl_master *m, struct pccl_peer_group *group);
/* Weighs the present ring and the better one that was found, by what is known now. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_weigh_better_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                                   struct pccl_ring_worth *was, struct pccl_ring_worth *is);
/*
 * Gives groups the better rings that were found, and marks them as changed. Returns how many; why:
 * set if there are any.
 */
uint32_t pccl_master_adopt_rings(struct pccl_master *m, struct pccl_text *why);
/* The same for one group; `why`: set if it gets one. The better ring is void then. */
PCCL_MUST_CHECK bool pccl_master_adopt_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                            struct pccl_text *why);

#endif
