/*
 * Operations: which members have finished, failed or aborted them, and the one outcome of each for all (PROTOCOL 6). An
 * outcome is final once it has a number, and is kept until every member has acknowledged it.
 *
 *   operations.c               the table of operations, and the decision of each
 *   operations_tiny.c          contributions and results of operations whose data passes through the master
 *   operations_participants.c  participants other than the whole group: subgroups (15) and pairs (16)
 *   operations_ends.c          the end of subgroups, and decisions before members depart
 *   operations_messages.c      messages of members, and held aborts
 */
#ifndef PCCL_MASTER_OPERATIONS_H
#define PCCL_MASTER_OPERATIONS_H

#include "master/state.h"
#include "wire/subgroup.h"

/* ---- participants ---- */

/* Participants of an operation. Borrowed: valid until a member leaves. */
struct pccl_participants {
    struct pccl_remote **members; /* by seat; the parts of an operation are in this order */
    uint32_t count;
    const uint32_t *ring;  /* seat of each place in the ring; NULL: equal to the place */
    const uint32_t *ranks; /* rank of each seat in canonical order; NULL: remote->rank */
};

/* Returns the participants of an operation. For a founding, these are the whole group until the list is known. */
static inline struct pccl_participants pccl_master_participants(const struct pccl_peer_group *group,
                                                                const struct pccl_operation *op)
{
    const struct pccl_subgroup *subgroup = op->subgroup;
    if (subgroup == NULL)
        return (struct pccl_participants){.members = group->ring, .count = group->ring_count};
    return (struct pccl_participants){subgroup->members, subgroup->count, subgroup->ring, subgroup->ranks};
}

/* Returns the seat of a member of the subgroup; subgroup->count if it is not a member. */
uint32_t pccl_master_seat_in(const struct pccl_subgroup *subgroup, const struct pccl_remote *remote);
/* Returns the subgroup of this name; NULL if none exists or it has ended. */
struct pccl_subgroup *pccl_master_find_subgroup(const struct pccl_peer_group *group, uint64_t name);
/* Returns the seat of a participant. */
static inline uint32_t pccl_master_seat(const struct pccl_operation *op, const struct pccl_remote *remote)
{
    return op->subgroup == NULL ? remote->position : pccl_master_seat_in(op->subgroup, remote);
}
/* Returns true for an instance of an existing subgroup. A pair in PCCL_FOUNDING connects founded members. */
static inline bool pccl_master_names_subgroup(const struct pccl_instance *instance)
{
    return instance->subgroup != 0 && (instance->subgroup != PCCL_FOUNDING || instance->pair != 0);
}

enum pccl_standing {
    PCCL_STANDING_NONE,   /* not in the subgroup, the pair or the list, or the other end of the pair is not in it */
    PCCL_STANDING_ENDED,  /* the subgroup has ended, or the other end of the pair is not a member */
    PCCL_STANDING_MEMBER, /* takes part, possibly in a founding whose list is not known yet */
};
/* Returns whether this member takes part in an operation of its group. */
enum pccl_standing pccl_master_standing(const struct pccl_remote *remote, const struct pccl_instance *instance);

/* ---- the table ---- */

/*
 * Finds an operation, or creates it if `create` is set. Returns NULL if it does not exist, or if there is no room or
 * memory for it.
 */
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_peer_group *group,
                                             const struct pccl_instance *instance, bool create);
/*
 * Returns true if a message about this instance must be handled. Returns false if the instance belongs to an older era
 * or to a subgroup or pair that has ended, or if the message breaks the rules; in the last case removes the member.
 */
bool pccl_master_concerns(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance);
/* Returns true if every member has acknowledged the group's view, so that it can no longer abort an operation. */
PCCL_MUST_CHECK bool pccl_master_is_view_known(const struct pccl_peer_group *group);
/* Records that the member has acknowledged the message that its session marked with this decision of its group. */
void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision);

/* ---- messages ---- */

/*
 * Handles a member's message about operations:
 *
 *   done           the member has finished its part; the last part commits the operation
 *   failed         the member cannot finish: aborts for all; if a link was lost, only after the view that removes the
 *                  cause
 *   abort_request  aborts for all, unless the operation was committed
 *   view_ack       the member has entered a view, which aborted these operations there: aborts them for all
 *   subgroup_end   the member closes a subgroup
 *   listen         the member receives from any sender
 */
void pccl_master_operation_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_forget_listens(struct pccl_master *m, struct pccl_remote *remote);

/* ---- views, eras, links, time ---- */

/*
 * Commits the operations that all remaining members have finished, ends the subgroups of departing members, aborts
 * their foundings, and drops the operations of their pairs. Call before the view without the departing members.
 */
void pccl_master_settle_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* Drops the undecided operations of the whole group, because its view has ended; members abort these by themselves. */
void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * Resets the undecided operations of the whole group if a view only re-plans: all parts are awaited again. Requires
 * that no abort is held and that all earlier views are acknowledged.
 */
void pccl_master_await_again(struct pccl_master *m, struct pccl_peer_group *group);
/* Forgets the outcomes that every present member has acknowledged. Call after the ring has changed. */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage of a step (state.h): drops the operations of ended eras, whose outcomes no member needs. */
void pccl_master_forget_ended_eras(struct pccl_master *m);
/* Drops all operations of the group at the end of the run. */
void pccl_master_drop_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage of a step (state.h): executes the held aborts that are due. */
void pccl_master_release_held_aborts(struct pccl_master *m);
/* Schedules the aborts that were held because of a link between these peers, which is up again. */
void pccl_master_link_restored(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);
/* Requests the links that the group's subgroups use. */
void pccl_master_request_subgroup_links(struct pccl_master *m, struct pccl_peer_group *group);
/* Ends the subgroups that use a failed link. */
void pccl_master_end_linked_subgroups(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_remote *to);
/* Drops all subgroups of the group at the end of the run or of the machine. */
void pccl_master_drop_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- for a restarted master, which rebuilds operations from reports ---- */

/*
 * Returns true if this contribution is valid for its descriptor in an operation of `world` members. The contribution to
 * a bulk operation is empty.
 */
PCCL_MUST_CHECK bool pccl_master_contribution_fits(const struct pccl_msg_done *done, const struct pccl_remote *from,
                                                   uint32_t world, uint32_t most);
/* Records the member's part. For a tiny operation this includes the payload, which must fit. */
void pccl_master_take_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                           const struct pccl_msg_done *done);
/* Commits an operation that has all parts or a known result. */
void pccl_master_commit(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op);
/*
 * Aborts an operation for all. Holds the abort until all members have acknowledged the view, because until then they
 * may abort it with another class.
 */
void pccl_master_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *reason);
/* Copies the result into the operation. Returns false if out of memory. */
PCCL_MUST_CHECK bool pccl_master_set_result(struct pccl_master *m, struct pccl_operation *op,
                                            const struct pccl_bytes *result);
/*
 * Record the lone aborts reported after a restart, and remove members over the limit: two steps, so that the first
 * reporter is not blamed for an abort that others confirm.
 */
void pccl_master_note_lone_abort(struct pccl_remote *from, struct pccl_operation *op);
void pccl_master_judge_lone_aborts(struct pccl_master *m);
/* Records that this member has also ended or launched the operation, so that its abort may not be a lone one. */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op);
/* Returns the subgroup of this founding, created from a reported result if it is new. Returns NULL if out of memory. */
struct pccl_subgroup *pccl_master_reported_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                    const struct pccl_instance *founding,
                                                    const struct pccl_bytes *founded);
/* Records that this member knows the subgroup, or will learn of it from the outcome of its founding. */
void pccl_master_vouch(struct pccl_subgroup *subgroup, const struct pccl_remote *remote);
/*
 * Keeps the reported subgroups that all their members know, and ends the others. Call after a restart, when all
 * outcomes have been sent.
 */
void pccl_master_judge_reported_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

#endif
