/* Functions shared by the topology_*.c files. */
#ifndef PCCL_MASTER_TOPOLOGY_INTERNAL_H
#define PCCL_MASTER_TOPOLOGY_INTERNAL_H

#include "master/topology.h"

/* ---- topology_tests.c ---- */

/* Marks a path as unreachable, and also the opposite path unless a link over it is up or it has a fresh figure. */
void pccl_master_note_unreachable(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to);
/*
 * Sets tuning.share, the fraction of the tested rates that operations achieve, from the better half of the ring's
 * links. If a shared resource, such as the processors, limits the speed, this prevents links that were only tested from
 * looking better than links in use.
 */
void pccl_master_calibrate_tests(struct pccl_peer_group *group);
/* Resets the test state of all members at the start of an optimization. */
void pccl_master_begin_tests(struct pccl_peer_group *group);
/* Begins all tests that can begin. Returns false if no test is running and no test can begin. */
PCCL_MUST_CHECK bool pccl_master_run_tests(struct pccl_master *m, struct pccl_peer_group *group);
/* Ends overdue tests of a group. */
void pccl_master_expire_tests_of(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- topology_reports.c ---- */

/* Creates the solver's problem, which uses members' numbers. The caller frees it. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_build_ring_problem(struct pccl_master *m, struct pccl_peer_group *group,
                                                    struct pccl_ring_problem *problem);
void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem);
void pccl_master_forget_report(struct pccl_master *m, struct pccl_peer_group *group);

#endif
