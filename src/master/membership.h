/*
 * Membership: how a peer joins and leaves, and the views that inform the others.
 *
 *   stranger   a connection without an accepted hello (membership_admission.c)
 *   newcomer   waits in the queue of its group and gets the links that it needs (membership_queues.c,
 *              membership_newcomers.c), until a vote of the members admits it (rounds.h)
 *   member     has a place in the ring of its group (membership_rings.c); every change creates a view, which is sent
 *              to all (membership_views.c)
 *   departing  recorded at once (roster.h), but removed only after the input that arrived with the cause has been read
 *              and the operations that all others have finished are committed (membership.c)
 *
 * membership.c also begins a run with its first member and ends it with the last.
 */
#ifndef PCCL_MASTER_MEMBERSHIP_H
#define PCCL_MASTER_MEMBERSHIP_H

#include "master/state.h"

/* ---- strangers ---- */

/*
 * Handles a new connection (OPENED). If there are too many strangers, drops the oldest one from the address with the
 * most strangers.
 */
void pccl_master_opened(struct pccl_master *m, const struct pccl_master_event *event);
/* Handles the first message of a connection, which must be a hello. Frees the stranger. */
void pccl_master_stranger_received(struct pccl_master *m, struct pccl_stranger *stranger,
                                   const struct pccl_master_event *event);
/* Sends `refused`; the caller closes the connection. */
void pccl_master_refuse(struct pccl_master *m, pccl_conn conn, enum pccl_refusal code, const char *reason);
/* Frees the stranger; its connection stays open. */
void pccl_master_drop_stranger(struct pccl_master *m, struct pccl_stranger *stranger);
/* Stage of a step (state.h): refuses strangers that sent no hello in time. */
void pccl_master_expire_strangers(struct pccl_master *m);

/* ---- newcomers ---- */

/*
 * Marks the newcomers that could be admitted now (remote->eligible), in each group in the order in which they would
 * join the ring. Returns their number.
 */
uint32_t pccl_master_eligible(struct pccl_master *m);
/* Stage of a step (state.h): requests the links of newcomers, and refuses newcomers whose links are not up in time. */
void pccl_master_plan_warm_up(struct pccl_master *m);
/* Schedules this group's newcomers for the next plan, because their links or needs may have changed. */
void pccl_master_recheck_queue(struct pccl_master *m, uint32_t group_number);
/* Removes a peer from its queue; an empty queue is freed. Does nothing if the peer is in no queue. */
void pccl_master_unqueue(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the ring of a group; every change marks the stages that depend on it ---- */

/*
 * Makes a newcomer a member, after `previous` in the ring (NULL: last), and marks the group as changed. Returns false
 * if out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_join_ring(struct pccl_master *m, struct pccl_peer_group *group,
                                           struct pccl_remote *remote, const struct pccl_remote *previous);
/*
 * Reorders the group's ring and marks the group as changed. `order` contains the present positions in their new order.
 * Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_master_reorder(struct pccl_master *m, struct pccl_peer_group *group, const uint32_t *order);
/* Removes a departing member from its ring and marks the group as changed. */
void pccl_master_leave_ring(struct pccl_master *m, struct pccl_remote *remote);
/* Returns true if `a` was admitted before `b`. Admission numbers are distinct unless members have lied about them. */
bool pccl_master_is_before(const struct pccl_remote *a, const struct pccl_remote *b);
/* Returns true if a better ring has been found for the present members and ring. */
bool pccl_master_has_better(const struct pccl_peer_group *group);
/* Requests the links of the better ring, which a new view has dropped. */
void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- views ---- */

/* Makes the next epoch the view of every changed group, and sends it to all members. `added` may be NULL. */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why);
/*
 * Does the same after a restart, with epoch (inc, 1). Members that reported an epoch other than the winning one receive
 * the whole member list; without `all_here` all members receive it.
 */
void pccl_master_recovery_epoch(struct pccl_master *m, const struct pccl_epoch *winning_epoch, uint32_t inc,
                                bool all_here);
/* Sends a newcomer its admission and the state that the members already have. */
void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote);
/*
 * Marks the groups whose cost data differ from their view as changed: direct exchange has become possible, a hub has
 * ended, or a figure has changed significantly (wire/cost.h). Returns their number; sets `why` if there are any.
 */
uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why);
/* Sends the epoch to one member, with the ring if the member's group has changed. */
void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change);
/* Returns a list of all members for a message, which the caller frees. Returns NULL if out of memory. */
struct pccl_member *pccl_master_member_list(struct pccl_master *m);
struct pccl_member pccl_master_as_member(const struct pccl_remote *remote);

/* ---- departures ---- */

/* Stage of a step (state.h): removes all departing peers, in one view unless there are too many. */
void pccl_master_expel_departing(struct pccl_master *m);
/* Frees a peer that is in no ring, with everything it owns. */
void pccl_master_free_remote(struct pccl_master *m, struct pccl_remote *remote);

/* ---- the run ---- */

/* Reports the present run to the driver. `lineage` is NULL if none exists. */
void pccl_master_note_run(struct pccl_master *m, const struct pccl_id *lineage);
/* Prevents newcomers from founding a run within recover_ms of the start, because members of an older run may return. */
void pccl_master_expect_older_run(struct pccl_master *m);
/* Ends the run, which has no members left. Its former members are never readmitted. */
void pccl_master_end_run(struct pccl_master *m);
/* Returns true if this run has ended in this boot. */
bool pccl_master_run_is_over(const struct pccl_master *m, const struct pccl_id *lineage);
/*
 * Stage of a step (state.h): lets the newcomer that has waited longest found a run if there is no member and no older
 * run can return.
 */
void pccl_master_start_run_if_empty(struct pccl_master *m);

#endif
