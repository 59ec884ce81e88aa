/*
 * The search for better rings: what is known of the links within a group, the tests of an optimization, the searches
 * and their results, and the same as text for people.
 */
#ifndef PCCL_MASTER_TUNING_H
#define PCCL_MASTER_TUNING_H

#include "master/state.h"

/* A ring that was found for the group as it is, to be adopted. */
static inline bool pccl_master_has_better(const struct pccl_peer_group *group)
{
    return group->tuning.better != NULL && group->tuning.better_version == group->ring_version;
}

/* The member behind the i-th of this ring, which names the members by their positions. */
static inline struct pccl_remote *pccl_master_next_of(const struct pccl_peer_group *group, const uint32_t *ring,
                                                      uint32_t i)
{
    return group->ring[ring[i + 1 == group->ring_count ? 0 : i + 1]];
}

/* ---- link_estimates.c: what is known ---- */

/* A member gets its row of the matrix. false: no memory. */
PCCL_MUST_CHECK bool pccl_master_enter_matrix(struct pccl_master *m, struct pccl_peer_group *group,
                                              struct pccl_remote *remote);
/* It leaves; what was known of its links is forgotten. */
void pccl_master_leave_matrix(struct pccl_peer_group *group, struct pccl_remote *remote);
/* NULL: nothing is kept of it. */
struct pccl_figure *pccl_master_find_figure(const struct pccl_remote *from, const struct pccl_remote *to);
/* What data that flowed over a link has shown; a link that stands is not unreachable. */
void pccl_master_note_traffic(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                              uint32_t rtt_us, uint64_t rate);
/* What a test has shown. */
void pccl_master_note_test(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, uint32_t rtt_us,
                           uint64_t rate);
/* A test came to nothing, by no fault of the way: it is not repeated in this optimization. */
void pccl_master_note_inconclusive(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Nothing gets through; the other way neither, as long as that does not show. */
void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/* Nothing or nothing recent is known of it. */
bool pccl_master_is_stale(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);
/* Of its own view of a way: rate and round trip for the cost of a view; 0: unknown. */
void pccl_master_link_cost(const struct pccl_remote *from, const struct pccl_remote *to, uint64_t *rate,
                           uint32_t *rtt_us);
/*
 * What operations achieve of what tests promise (tuning.share): the better half of the ring's ways. Where processors or
 * something else that all share set the pace, ways that are only tested must not look better than those that are used.
 */
void pccl_master_calibrate_tests(struct pccl_peer_group *group);
/* What is known of a way, as the solver and people see it: a link that stands is a way, whatever a test says. */
struct pccl_figure pccl_master_link_estimate(const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- ring_problem.c: the same for the solver ---- */

/* Gives the members their numbers. */
void pccl_master_number_members(struct pccl_peer_group *group);
/* The group as the solver sees it, by the members' numbers; to be freed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_build_ring_problem(struct pccl_master *m, struct pccl_peer_group *group,
                                                    struct pccl_ring_problem *problem);
void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem);

/* ---- topology_reports.c: and for people ---- */

/* A member asks for the text of its group. */
void pccl_master_describe(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_describe *describe);
/* Hands the text to the driver after an optimization. */
void pccl_master_publish_topology(struct pccl_master *m, struct pccl_peer_group *group);
void pccl_master_forget_report(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- link_tests.c: the tests of an optimization ---- */

/* Nobody of the group has been tested yet in this one. */
void pccl_master_begin_tests(struct pccl_peer_group *group);
/* Begins what can begin. false: nothing runs any more, and nothing is left to do. */
PCCL_MUST_CHECK bool pccl_master_run_tests(struct pccl_master *m, struct pccl_peer_group *group);
/* What a test has shown, by the member that loaded the link. */
void pccl_master_measured(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_measured *measured);
/* It leaves its group: nobody loads the way to it, or waits for its report, any more. */
void pccl_master_end_tests_of(struct pccl_master *m, struct pccl_remote *gone);
/* Those that are overdue end. */
void pccl_master_expire_tests_of(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- topology.c: optimizations and searches ---- */

/* Begins an optimization that all have voted for, or goes on with it. */
void pccl_master_optimize(struct pccl_master *m);
/* A search has an answer (SOLVED). */
void pccl_master_solved(struct pccl_master *m, const struct pccl_master_event *event);
/* Stage: tests that are overdue end; rounds wait for the rest, and for the links of better rings. */
void pccl_master_expire_tests(struct pccl_master *m);
/* Before an update is decided. true: it has to wait for a search, or for the links of what was found. */
PCCL_MUST_CHECK bool pccl_master_update_waits_for_rings(struct pccl_master *m);
/* Gives the groups (changed) the better rings that were found for them. Returns how many, and if any, why. */
uint32_t pccl_master_adopt_rings(struct pccl_master *m, struct pccl_text *why);
/* Stage: where the best ring is not proven, the search goes on in the background. */
void pccl_master_search_in_background(struct pccl_master *m);
/* The group ends: stops its search and frees what is known. */
void pccl_master_drop_tuning(struct pccl_master *m, struct pccl_peer_group *group);

#endif
