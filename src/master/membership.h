/*
 * The room of membership: how a peer comes in, and leaves, and the views that tell the others.
 *
 *   stranger   a connection without an accepted hello (membership_admission.c)
 *   newcomer   waits in the queue of its group, and gets the links that it needs (membership_queues.c,
 *              membership_newcomers.c), until the members' vote admits it (rounds.h)
 *   member     has a place in the ring of its group (membership_rings.c); every change is a view, which all are told
 *              (membership_views.c)
 *   departing  noted at once (roster.h); takes effect behind the input that has come with it, after what the others
 * have finished is committed (membership.c). There, too: the run, which begins with its first member and ends with the
 * last.
 */
#ifndef PCCL_MASTER_MEMBERSHIP_H
#define PCCL_MASTER_MEMBERSHIP_H

#include "master/state.h"

/* ---- strangers ---- */

/*
 * A connection was accepted (OPENED). If there are too many strangers, the address with the most of
 * them loses its oldest one.
 */
void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event);
/* The first message of a connection: judges the hello. Frees the stranger. */
void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event);
/* Sends `refused`; the caller closes the connection. */
void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *reason);
/* Frees it; its connection stays open. */
void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger);
/* Stage: refuses strangers that have not said hello in time. */
void pccl_master_expire_strangers(struct pccl_master *m);

/* ---- newcomers ---- */

/* Marks the newcomers that could be admitted now (remote->eligible), in ring order per group. Returns how many. */
uint32_t pccl_master_eligible(struct pccl_master *m);
/* Stage: asks for the links that newcomers need, and refuses who has not got them in time. */
void pccl_master_plan_warm_up(struct pccl_master *m);
/* What the newcomers of this group need, or have, may have changed: the next plan looks at them. */
void pccl_master_recheck_queue(struct pccl_master *m, uint32_t group_number);
/* It is admitted or goes; the queue may end with it. Nothing happens if it is in no queue. */
void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the ring of a group; every change marks what is due after it ---- */

/*
 * Makes a newcomer a member, last in the ring, and marks the group as changed. false: out of
 * memory.
 */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote);
/*
 * Reorders the group's ring and marks the group as changed. order: the present positions in their
 * new order. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);
/* Takes a departing member out of its group's ring and marks the group as changed. */
void pccl_master_leave_ring(struct pccl_master *m, struct pccl_remote *remote);
/*
 * Was one member admitted before the other? Numbers are distinct, unless members have lied about
 * them.
 */
bool pccl_master_is_before(const struct pccl_remote *a, const struct pccl_remote *b);
/* Is there a ring that was found for the group as it is, to be adopted? */
bool pccl_master_has_better(const struct pccl_peer_group *group);
/* The links of the rings to come: a new view has dropped what is not of the present ones. */
void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- views ---- */

/*
 * Makes the next epoch the view of every changed group, does everything that follows from it, and
 * tells all members. added may be NULL.
 */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
/*
 * The same after a restart, with epoch (inc, 1). Members that reported another epoch than law_epoch
 * are told the whole member list; so are all members unless all_here.
 */
void pccl_master_recovery_epoch(struct pccl_master *m, const struct pccl_epoch *law_epoch, uint32_t inc, bool all_here);
/* Tells a newcomer that it is admitted, and everything that a member knows. */
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/*
 * Marks the groups (changed) whose cost data are not what the view says any more: they could exchange directly by now
 * and do not, a hub is none any more, or a figure has moved (wire/cost.h). Returns how many, and if any, why.
 */
uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why);
/* Tells one member; if its group has changed, with the ring. */
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
/* All members, for a message; owned by the caller. NULL: out of memory. */
struct pccl_member *pccl_master_member_list(struct pccl_master *m);
struct pccl_member pccl_master_as_member(const struct pccl_remote *remote);

/* ---- departures ---- */

/* Stage: removes all departing peers, in one view unless there are too many of them. */
void pccl_master_expel_departing(struct pccl_master *m);
/* Frees a peer that is in no ring, with everything that belongs to it. */
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the run ---- */

/* Tells the driver which run lives; NULL: none. */
void pccl_master_note_run(struct pccl_master *m, const struct pccl_id *lineage);
/* Members of an older run may come back: newcomers found none within recover_ms of the start. */
void pccl_master_expect_older_run(struct pccl_master *m);
/* Ends the run, which has no members left. Its former members are never taken back. */
void pccl_master_end_run(struct pccl_master *m);
/* This run has ended in this boot. */
bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage);
/*
 * Stage: if there is no member, the newcomer that has waited longest founds a run, unless members
 * of an older run may come back.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m);

#endif
