/*
 * The run: its beginning and end, and how somebody leaves it. A removal is noted at once (roster.h, departing) and
 * takes effect behind the input that has come with it, after what the others have finished is committed.
 */
#ifndef PCCL_MASTER_MEMBERSHIP_H
#define PCCL_MASTER_MEMBERSHIP_H

#include "master/state.h"

/* ---- peers ---- */

/* Frees a peer that is in no ring, with everything that belongs to it. */
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the run ---- */

/*
 * Stage: if there is no member, the newcomer that has waited longest founds a run, unless members
 * of an older run may come back.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m);
/* Members of an older run may come back: newcomers found none within recover_ms of the start. */
void pccl_master_expect_older_run(struct pccl_master *m);
/* Milliseconds for which newcomers wait because a run may live; 0: the master has one, or founds one. */
uint32_t pccl_master_hold_ms(const struct pccl_master *m);
/* Tells the driver which run lives; NULL: none. */
void pccl_master_note_run(struct pccl_master *m, const struct pccl_id *lineage);
/* Draws the run key, if there is none yet. */
void pccl_master_need_lineage(struct pccl_master *m);
/* Ends the run, which has no members left. Its former members are never taken back. */
void pccl_master_end_run(struct pccl_master *m);
/* This run has ended in this boot. */
bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage);

/* ---- departures ---- */

/* Stage: removes all departing peers, in one view unless there are too many of them. */
void pccl_master_expel_departing(struct pccl_master *m);

#endif
