/* What the files of the room of topology share. */
#ifndef PCCL_MASTER_TOPOLOGY_INTERNAL_H
#define PCCL_MASTER_TOPOLOGY_INTERNAL_H

#include "master/topology.h"

/* ---- topology_tests.c ---- */

/*
 * Nothing gets through this path. The opposite path counts as unreachable, too, unless a link
 * stands over it or something fresh is known of it.
 */
void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/*
 * Sets tuning.share, how much operations achieve of what tests promise, by the better half of the
 * ring's links. If processors or something else that all share set the pace, links that are only
 * tested must not look better than those in use.
 */
void pccl_master_calibrate_tests(struct pccl_peer_group *group);
/* Resets the members' parts in the tests: an optimization begins. */
void pccl_master_begin_tests(struct pccl_peer_group *group);
/* Begins the tests that can begin. false: no test runs any more, and none is left to do. */
PCCL_MUST_CHECK bool pccl_master_run_tests(struct pccl_master *m, struct pccl_peer_group *group);
/* Ends overdue tests of a group. */
void pccl_master_expire_tests_of(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- topology_reports.c ---- */

/*
 * Makes the problem of a group for the solver, by the members' numbers; the caller frees it. false:
 * out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_build_ring_problem(struct pccl_master *m, struct pccl_peer_group *group,
                                                    struct pccl_ring_problem *problem);
void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem);
void pccl_master_forget_report(struct pccl_master *m, struct pccl_peer_group *group);

#endif
