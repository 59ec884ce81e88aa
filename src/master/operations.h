/*
 * Operations: which members have finished, failed or aborted them, and the one outcome of each for
 * all (PROTOCOL 6). An outcome is final once it is numbered, and is kept until every member has
 * acknowledged it.
 */
#ifndef PCCL_MASTER_OPERATIONS_H
#define PCCL_MASTER_OPERATIONS_H

#include "master/state.h"

/* ---- the reports and the state of members ---- */

/*
 * The member has acknowledged the message that its session marked with this decision of its group.
 */
void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision);

/*
 * false: nothing is to be done about this instance: it is of an older era, or of a subgroup or pair
 * that has ended; or it breaks the rules, and the member is removed.
 */
bool pccl_master_concerns(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance);

/* ---- views, eras, time ---- */

/* To be called before a view without the departing: commits what all the others have finished. */
void pccl_master_commit_remaining(struct pccl_master *m, struct pccl_peer_group *group);
/* The view has ended: drops what is undecided of the whole group, which members abort by themselves. */
void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * The view only re-plans: all that is undecided of the whole group waits for everybody again. Nothing may be held, and
 * no earlier view unacknowledged.
 */
void pccl_master_await_anew(struct pccl_master *m, struct pccl_peer_group *group);
/* Has every member acknowledged the group's view, so that none can decide an operation by it any more? */
PCCL_MUST_CHECK bool pccl_master_is_view_known(const struct pccl_peer_group *group);
/* Stage: drops the operations of eras that have ended, since no member needs their outcomes. */
void pccl_master_forget_ended_eras(struct pccl_master *m);
/* The run has ended: drops all operations of the group. */
void pccl_master_drop_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* The subgroup has ended: drops its operations. That all members know their outcomes is of no interest any more. */
void pccl_master_drop_operations_of(struct pccl_master *m, struct pccl_peer_group *group,
                                    const struct pccl_subgroup *subgroup);
/* Before the view without the departing, which ends their pairs: drops the operations of these. */
void pccl_master_drop_departed_pairs(struct pccl_master *m, struct pccl_peer_group *group);
/* The ring has changed: forgets outcomes that every present member has acknowledged. */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- for a restarted master, which learns of operations from reports ---- */

/* NULL: there is none; or, with create, no room or no memory. */
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_peer_group *group,
                                             const struct pccl_instance *instance, bool create);
/*
 * The member ends an operation that no other has finished. true: it has ended more than the others
 * can remember, and is removed.
 */
PCCL_MUST_CHECK bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from,
                                                     struct pccl_operation *op);
/*
 * The same after a restart, in two steps, so that the first to report is not blamed for an end that
 * others confirm.
 */
void pccl_master_note_lone_abort(struct pccl_remote *from, struct pccl_operation *op);
void pccl_master_judge_lone_aborts(struct pccl_master *m);
/*
 * This member also says that the operation has ended, or has launched it, so the operation may stop
 * counting as a lone end.
 */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op);
/* Notes the member's part; for a tiny operation with the payload, which must fit. */
void pccl_master_take_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                           const struct pccl_msg_done *done);
/* Commits an operation that has all parts, or whose result is known. */
void pccl_master_commit(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/*
 * Aborts an operation for all. While members may still decide it with another class, the abort is
 * held until they have acknowledged the view.
 */
void pccl_master_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *reason);
/*
 * The abort is certain, but it is held until then at the latest (operations_held.c); UINT64_MAX: until the view is
 * known. The first reason stays.
 */
void pccl_master_hold_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                            enum pccl_class class, const struct pccl_text *reason, uint64_t until_us);

/* ---- operations_tiny.c ---- */

/*
 * Does the descriptor allow this contribution of a member to an operation of so many? Of a bulk
 * one: it is empty.
 */
PCCL_MUST_CHECK bool pccl_master_contribution_fits(const struct pccl_msg_done *done, const struct pccl_remote *from,
                                                   uint32_t world, uint32_t most);
/* Makes the result of a tiny operation that has all parts. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_combine(struct pccl_master *m, struct pccl_peer_group *group,
                                         struct pccl_operation *op);
/* Sets a result, copied. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_set_result(struct pccl_master *m, struct pccl_operation *op,
                                            const struct pccl_bytes *result);
void pccl_master_free_result(struct pccl_master *m, struct pccl_operation *op);

/* ---- operations_held.c ---- */

/* Stage: decides held aborts that have waited long enough. */
void pccl_master_release_held_aborts(struct pccl_master *m);
/* The same for one group: a member has acknowledged its view. */
void pccl_master_release_held_of(struct pccl_master *m, struct pccl_peer_group *group);
/* A link between these peers stands again: aborts that were held for it are due. */
void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);

/* ---- operations_messages.c: messages from members ---- */

/* The member has finished its part. The last part commits the operation. */
void pccl_master_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_done *done);
/*
 * The member cannot finish: aborts for all; if a link was lost, only after the view that removes
 * the cause.
 */
void pccl_master_failed(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_failed *failed);
/* The member's caller asks for an abort: aborts for all, unless the operation was committed. */
void pccl_master_abort_requested(struct pccl_master *m, struct pccl_remote *from,
                                 const struct pccl_msg_abort_request *request);
/* The member has taken a view, which aborted these operations there, and so aborts them for all. */
void pccl_master_view_acked(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_view_ack *ack);

#endif
