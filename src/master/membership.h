/*
 * Who is in: peers, groups and their rings, the run's beginning and end, epochs, and how somebody leaves. A removal is
 * noted at once (departing) and takes effect behind the input that has come with it, after what the others have
 * finished is committed.
 */
#ifndef PCCL_MASTER_MEMBERSHIP_H
#define PCCL_MASTER_MEMBERSHIP_H

#include "master/state.h"

/* ---- peers ---- */

/* Forgets a peer that is in no ring, with all that belongs to it. */
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);
/* What these are called: to be said before anything else of them. Of more than PCCL_NAMES_TOLD_MAX the first. */
void pccl_master_tell_names(struct pccl_master *m, struct pccl_remote *to, const struct pccl_member *of,
                            uint32_t count);

/* ---- groups ---- */

/* A newcomer becomes a member, last in the ring; the group is changed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote);
/* The group's ring in another order: positions of before. The group is changed. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);

/* ---- the run ---- */

/* The first member begins it: epoch 1.1. */
void pccl_master_start_run(struct pccl_master *m, struct pccl_remote *first);
/* Stage: where nobody is in, the newcomer that has waited longest founds a run, unless members of an older one may come
 * back. */
void pccl_master_start_run_if_empty(struct pccl_master *m);
/* Draws the key of a run, if there is none yet. */
void pccl_master_need_lineage(struct pccl_master *m);
/* Forgets the run, in which nobody is left. Its members are never taken back. */
void pccl_master_end_run(struct pccl_master *m);
/* This run has ended in this boot. */
bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage);

/* ---- departures ---- */

/* Stage: those who depart go, all in one view if they are not too many. */
void pccl_master_expel_departing(struct pccl_master *m);

#endif
