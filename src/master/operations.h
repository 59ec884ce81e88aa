/*
 * The room of operations: which members have finished, failed or aborted them, and the one outcome of each for all
 * (PROTOCOL 6). An outcome is final once it is numbered, and is kept until every member has acknowledged it.
 *
 *   operations.c               the table of operations, and the decision of each
 *   operations_tiny.c          what members contribute to operations whose data goes through the master, and the
 * results operations_participants.c  who takes part other than the whole group: subgroups (15) and pairs (16)
 *   operations_ends.c          how subgroups end, and what is decided before members depart
 *   operations_messages.c      messages of members, and aborts that are held
 */
#ifndef PCCL_MASTER_OPERATIONS_H
#define PCCL_MASTER_OPERATIONS_H

#include "master/state.h"
#include "wire/subgroup.h"

/* ---- who takes part ---- */

/* Borrowed: valid until a member leaves. */
struct pccl_participants {
    struct pccl_remote **members; /* by seat: the parts of an operation are in this order */
    uint32_t count;
    const uint32_t *ring;  /* the seat of each place in the ring; NULL: the same number */
    const uint32_t *ranks; /* of each seat, the place in canonical order; NULL: remote->rank */
};

/* In an operation; of a founding, as far as its list is known, else the whole group. */
static inline struct pccl_participants pccl_master_participants(const struct pccl_peer_group *group,
                                                                const struct pccl_operation *op)
{
    const struct pccl_subgroup *subgroup = op->subgroup;
    if (subgroup == NULL)
        return (struct pccl_participants){.members = group->ring, .count = group->ring_count};
    return (struct pccl_participants){subgroup->members, subgroup->count, subgroup->ring, subgroup->ranks};
}

/* Of a member of the subgroup; `count`: it is not in it. */
uint32_t pccl_master_seat_in(const struct pccl_subgroup *subgroup, const struct pccl_remote *remote);
/* NULL: there is none, or not any more. */
struct pccl_subgroup *pccl_master_find_subgroup(const struct pccl_peer_group *group, uint64_t name);
/* Of a participant. */
static inline uint32_t pccl_master_seat(const struct pccl_operation *op, const struct pccl_remote *remote)
{
    return op->subgroup == NULL ? remote->position : pccl_master_seat_in(op->subgroup, remote);
}
/* Returns true for a founded subgroup; also for a pair in PCCL_FOUNDING, the name of no subgroup. */
static inline bool pccl_master_names_subgroup(const struct pccl_instance *instance)
{
    return instance->subgroup != 0 && (instance->subgroup != PCCL_FOUNDING || instance->pair != 0);
}

enum pccl_standing {
    PCCL_STANDING_NONE,   /* the member is not in the subgroup, the pair or the list; or the other of the pair is not */
    PCCL_STANDING_ENDED,  /* the subgroup has ended, or the other one of the pair is no member */
    PCCL_STANDING_MEMBER, /* the member takes part; also in a founding whose list is not known */
};
/* Returns whether this member takes part in an operation of its group. */
enum pccl_standing pccl_master_standing(const struct pccl_remote *remote, const struct pccl_instance *instance);

/* ---- the table ---- */

/* NULL: there is none; or, with create, no room or no memory. */
struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_peer_group *group,
                                             const struct pccl_instance *instance, bool create);
/*
 * false: nothing is to be done about this instance: it is of an older era, or of a subgroup or pair
 * that has ended; or it breaks the rules, and the member is removed.
 */
bool pccl_master_concerns(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance);
/* Has every member acknowledged the group's view, so that none can decide an operation by it any more? */
PCCL_MUST_CHECK bool pccl_master_is_view_known(const struct pccl_peer_group *group);
/*
 * The member has acknowledged the message that its session marked with this decision of its group.
 */
void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision);

/* ---- messages ---- */

/*
 * `done`: the member has finished its part; the last part commits the operation. `failed`: it cannot finish: aborts for
 * all; if a link was lost, only after the view that removes the cause. `abort_request`: aborts for all, unless the
 * operation was committed. `view_ack`: the member has taken a view, which aborted these operations there, and so aborts
 * them for all. `subgroup_end`: it closes a subgroup. `listen`: it receives from anybody.
 */
void pccl_master_operation_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg);
void pccl_master_forget_listens(struct pccl_master *m, struct pccl_remote *remote);

/* ---- views, eras, links, time ---- */

/*
 * To be called before a view without the departing: commits what all the others have finished, ends the subgroups that
 * the departing are in, aborts such foundings, and drops the operations of their pairs.
 */
void pccl_master_settle_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* The view has ended: drops what is undecided of the whole group, which members abort by themselves. */
void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_peer_group *group);
/*
 * The view only re-plans: all that is undecided of the whole group waits for everybody again. Nothing may be held, and
 * no earlier view unacknowledged.
 */
void pccl_master_await_anew(struct pccl_master *m, struct pccl_peer_group *group);
/* The ring has changed: forgets outcomes that every present member has acknowledged. */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage: drops the operations of eras that have ended, since no member needs their outcomes. */
void pccl_master_forget_ended_eras(struct pccl_master *m);
/* The run has ended: drops all operations of the group. */
void pccl_master_drop_operations(struct pccl_master *m, struct pccl_peer_group *group);
/* Stage: decides held aborts that have waited long enough. */
void pccl_master_release_held_aborts(struct pccl_master *m);
/* A link between these peers stands again: aborts that were held for it are due. */
void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to);
/* Links that the subgroups of the group rely on. */
void pccl_master_request_subgroup_links(struct pccl_master *m, struct pccl_peer_group *group);
/* A link is judged as failed: ends those that rely on it. */
void pccl_master_end_linked_subgroups(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_remote *to);
/* The run, or the machine, ends: the same for all of the group. */
void pccl_master_drop_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

/* ---- for a restarted master, which learns of operations from reports ---- */

/*
 * Does the descriptor allow this contribution of a member to an operation of so many? Of a bulk
 * one: it is empty.
 */
PCCL_MUST_CHECK bool pccl_master_contribution_fits(const struct pccl_msg_done *done, const struct pccl_remote *from,
                                                   uint32_t world, uint32_t most);
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
/* Sets a result, copied. false: out of memory. */
PCCL_MUST_CHECK bool pccl_master_set_result(struct pccl_master *m, struct pccl_operation *op,
                                            const struct pccl_bytes *result);
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
/* The subgroup with this founding and result, as somebody reports it. NULL: out of memory. */
struct pccl_subgroup *pccl_master_reported_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                    const struct pccl_instance *founding,
                                                    const struct pccl_bytes *founded);
/* This member has it, or will have it when it is told how its founding ended. */
void pccl_master_vouch(struct pccl_subgroup *subgroup, const struct pccl_remote *remote);
/* After a restart, when all outcomes were told: those that all members have go on, the others end. */
void pccl_master_judge_reported_subgroups(struct pccl_master *m, struct pccl_peer_group *group);

#endif
