/*
 * Handles members' messages about operations (PROTOCOL 6), and decides held aborts (operations.c) when the view is
 * acknowledged, the links are up again, or the time limit has passed.
 */
#include "master/operations_internal.h"
#include "master/links.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/where.h"
#include "wire/describe.h"

/* Returns true if all links that the group needs from or to `failed_by` are up. */
static bool is_restored(const struct pccl_master *m, const struct pccl_operation *op)
{
    const struct pccl_remote *remote = pccl_master_find(m, &op->failed_by);
    const struct pccl_peer_group *group = remote != NULL ? remote->group : NULL;
    for (uint32_t i = 0; group != NULL && i < group->ring_count; i++) {
        const struct pccl_remote *other = group->ring[i];
        if ((pccl_master_needs_link(remote, other) && !pccl_master_holds_link(remote, other)) ||
            (pccl_master_needs_link(other, remote) && !pccl_master_holds_link(other, remote)))
            return false;
    }
    return true;
}

/* Returns true if an abort held because of a link stays held, until all failed links of the peer are decided. */
static bool has_to_wait(struct pccl_master *m, struct pccl_operation *op)
{
    if (m->now_us >= op->held_until_us && !is_restored(m, op))
        op->held_until_us = pccl_max_u64(op->held_until_us, pccl_master_link_decided_at(m, &op->failed_by));
    return m->departing_count > 0 || m->now_us < op->held_until_us; /* a view may make the abort unnecessary */
}

/* Executes the held aborts of a group that are due. The last arguments are the ends of a restored link, or NULL. */
static void release_held(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *restored_a,
                         const struct pccl_remote *restored_b)
{
    bool view_known = pccl_master_is_view_known(group);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL && group->held_count > 0;
         op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided || op->held_until_us == 0)
            continue;
        bool waits_for_view = op->held_class != PCCL_CLASS_PEER_LOST; /* never true in a subgroup */
        bool concerned = restored_a != NULL && (pccl_id_equal(&restored_a->id, &op->failed_by) ||
                                                pccl_id_equal(&restored_b->id, &op->failed_by));
        if (waits_for_view ? view_known : (concerned && is_restored(m, op)) || !has_to_wait(m, op)) {
            struct pccl_text reason = op->reason;
            pccl_master_abort(m, group, op, op->held_class, &reason);
        } else {
            pccl_master_arm(m, pccl_max_u64(m->now_us, op->held_until_us));
        }
    }
}

static void release_held_of(struct pccl_master *m, struct pccl_peer_group *group)
{
    release_held(m, group, NULL, NULL);
}

void pccl_master_release_held_aborts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        release_held(m, m->groups[i], NULL, NULL);
}

void pccl_master_link_restored(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from->group != NULL && from->group == to->group && from->group->held_count > 0)
        release_held(m, from->group, from, to);
}

/*
 * Returns true if the contribution fits the size of the view, the subgroup, the pair or the list. A list must contain
 * the sender of the contribution.
 */
static bool fits(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_done *done)
{
    const struct pccl_instance *instance = &done->instance;
    uint32_t world = from->group->ring_count;
    if (pccl_master_names_subgroup(instance))
        world = pccl_master_find_subgroup(from->group, instance->subgroup)->world;
    if (instance->pair != 0)
        world = 2;
    if (instance->subgroup == PCCL_FOUNDING)
        world = (uint32_t)done->descriptor.count;
    return pccl_master_contribution_fits(done, from, world, m->config.tiny_bytes_max);
}

/* Aborts a founding whose list contains a peer that is not a member. It counts as a lone abort of the sender. */
static void refuse_founding(struct pccl_master *m, struct pccl_remote *from, struct pccl_operation *op,
                            const struct pccl_bytes *list)
{
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_master_add_strangers(m, from->group, list, &reason);
    if (!pccl_master_exceeds_lone_aborts(m, from, op))
        pccl_master_abort(m, from->group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
}

/* Handles a finished part. The last part commits the operation. */
static void take_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_done *done)
{
    if (!pccl_master_concerns(m, from, &done->instance))
        return;
    struct pccl_peer_group *group = from->group;
    int order = pccl_is_of_whole_group(&done->instance) ? pccl_epoch_compare(&done->view, &group->view) : 0;
    if (order < 0)
        return; /* launched before the view; a `view_ack` will abort it (PROTOCOL 6.5) */
    if (order > 0 || !fits(m, from, done)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it reported an impossible operation");
        return;
    }
    struct pccl_operation *op = pccl_master_operation(m, group, &done->instance, true);
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    if (op->decided)
        return;
    bool differs =
        op->described && (!pccl_descriptor_equal(&op->descriptor, &done->descriptor) || op->tiny != (done->tiny != 0));
    if (differs) {
        struct pccl_text reason;
        pccl_describe_difference(&reason, &(struct pccl_described){&op->described_by, &op->descriptor, op->tiny},
                                 &(struct pccl_described){&from->id, &done->descriptor, done->tiny != 0});
        pccl_master_abort(m, group, op, PCCL_CLASS_MISMATCH, &reason);
        return;
    }
    pccl_master_take_part(m, op, from, done);
    bool all = op->part_count > 0 && op->done_count == op->part_count;
    if (op->subgroup != NULL && op->part_count > 0 && op->subgroup->count < op->subgroup->world)
        refuse_founding(m, from, op, &done->payload);
    else if (all)
        pccl_master_commit(m, group, op);
    else
        pccl_master_offer(m, op);
}

/*
 * Returns true if the message was sent in an earlier view and the group has only re-planned since then: the member
 * sends it again in the new view (PROTOCOL 6.3).
 */
static bool is_sent_again(const struct pccl_remote *from, const struct pccl_instance *instance,
                          const struct pccl_epoch *view)
{
    const struct pccl_peer_group *group = from->group;
    return pccl_is_of_whole_group(instance) && pccl_epoch_compare(view, &group->view) < 0 &&
           pccl_epoch_compare(view, &group->firm) >= 0;
}

/* Returns the undecided operation that a failure or an abort refers to; NULL if there is nothing to decide. */
static struct pccl_operation *undecided(struct pccl_master *m, struct pccl_remote *from,
                                        const struct pccl_instance *instance, const struct pccl_epoch *view)
{
    if (is_sent_again(from, instance, view) || !pccl_master_concerns(m, from, instance))
        return NULL;
    bool founds = instance->subgroup == PCCL_FOUNDING; /* a founder sends `done` with the list first */
    struct pccl_operation *op = pccl_master_operation(m, from->group, instance, !founds);
    if (op == NULL && founds) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL,
                           "it cancelled the creation of a subgroup that it does not belong to");
        return NULL;
    }
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    if (op->decided || !pccl_id_is_zero(&op->ended_by)) {
        pccl_master_confirm_end(m, from, op);
        return op->decided ? NULL : op;
    }
    return pccl_master_exceeds_lone_aborts(m, from, op) ? NULL : op;
}

/* Appends the reporting peer and its reason. The reason for a mismatch already names both peers. */
static void add_reported(struct pccl_text *reason, const struct pccl_remote *from, uint16_t class,
                         struct pccl_bytes reported, const char *otherwise)
{
    if (class != PCCL_CLASS_MISMATCH || reported.length == 0)
        pccl_text_append(reason, "peer %s: ", pccl_id_str(&from->id));
    if (reported.length > 0)
        pccl_text_add_bytes(reason, (const char *)reported.data, reported.length);
    else
        pccl_text_add(reason, otherwise);
}

/*
 * Handles a failure (PROTOCOL 6.3). A failure caused by a link is held until the view that removes the cause, so that
 * one death causes one failure. If no view follows within settle_ms, or the link is up again, the operation is aborted.
 */
static void take_failed(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_failed *failed)
{
    struct pccl_operation *op = undecided(m, from, &failed->instance, &failed->view);
    if (op == NULL)
        return;
    bool outdated = pccl_view_is_past(&op->instance, &failed->view, &from->group->view);
    enum pccl_class class = outdated ? PCCL_CLASS_PEER_LOST : (enum pccl_class)failed->class;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    add_reported(&reason, from, failed->class, failed->reason, "it failed");
    if (op->instance.pair != 0 && class == PCCL_CLASS_PEER_LOST &&
        pccl_master_cannot_link(op->subgroup->members[0], op->subgroup->members[1])) {
        class = PCCL_CLASS_INTERNAL; /* no retry can succeed */
        pccl_text_add(&reason, ": the master can reach the port of neither peer");
    }
    if (outdated || class != PCCL_CLASS_PEER_LOST) {
        pccl_master_abort(m, from->group, op, class, &reason);
    } else {
        op->failed_by = from->id;
        pccl_master_hold_abort(m, from->group, op, PCCL_CLASS_PEER_LOST, &reason,
                               m->now_us + m->config.settle_ms * UINT64_C(1000));
    }
}

/* Returns the reason for an abort request that contains none. */
static const char *default_reason(enum pccl_class class, const struct pccl_instance *instance)
{
    if (class != PCCL_CLASS_DEADLINE)
        return "its caller aborted the operation";
    return instance->subgroup == PCCL_FOUNDING
               ? "the deadline of the group's creation (its timeout or op_timeout_ms) passed"
               : "its deadline (op_timeout_ms) passed";
}

/* Handles a caller's abort request: aborts for all, unless the operation was committed. */
static void take_abort_request(struct pccl_master *m, struct pccl_remote *from,
                               const struct pccl_msg_abort_request *request)
{
    struct pccl_operation *op = undecided(m, from, &request->instance, &request->view);
    if (op == NULL)
        return;
    bool outdated = pccl_view_is_past(&op->instance, &request->view, &from->group->view);
    enum pccl_class class = outdated ? PCCL_CLASS_PEER_LOST : (enum pccl_class)request->class;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    add_reported(&reason, from, request->class, request->reason, default_reason(class, &op->instance));
    if (class == PCCL_CLASS_DEADLINE && request->reason.length == 0)
        pccl_master_add_missing(m, from, &request->instance, &reason);
    pccl_master_abort(m, from->group, op, class, &reason);
}

/* Returns true if the master has sent this view to the member and the member has not acknowledged it. */
static bool may_acknowledge(const struct pccl_remote *from, const struct pccl_msg_view_ack *ack)
{
    return from->unacknowledged_views > 0 && pccl_epoch_compare(&ack->view, &from->view_acknowledged) > 0 &&
           pccl_epoch_compare(&ack->view, &from->group->view) <= 0;
}

static void aborted_by_view(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    if (!pccl_is_of_whole_group(instance)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL,
                           "it reported that a view aborted an operation of a subgroup or pair");
        return;
    }
    if (!pccl_master_concerns(m, from, instance))
        return;
    struct pccl_operation *op = pccl_master_operation(m, from->group, instance, true);
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
    } else if (op->decided) {
        pccl_master_confirm_end(m, from, op);
    } else if (!pccl_master_exceeds_lone_aborts(m, from, op)) {
        struct pccl_text reason;
        pccl_text_format(&reason, "a peer of the group was lost during the operation");
        pccl_master_abort(m, from->group, op, PCCL_CLASS_PEER_LOST, &reason);
    }
}

/*
 * Handles an acknowledged view (PROTOCOL 6.4). Operations that the view aborted at one member are aborted for all,
 * including members that launch them later.
 */
static void take_view_ack(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_view_ack *ack)
{
    if (!may_acknowledge(from, ack)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it acknowledged a view that it never received");
        return;
    }
    from->unacknowledged_views--;
    from->view_acknowledged = ack->view;
    for (uint32_t i = 0; i < ack->instances_count && !from->departing; i++)
        aborted_by_view(m, from, &ack->instances[i]);
    if (from->departing || !pccl_epoch_equal(&ack->view, &from->group->view))
        return;
    from->awaits_view_ack = false;
    if (from->group->held_count > 0)
        release_held_of(m, from->group);
}

void pccl_master_operation_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    switch (msg->type) {
    case PCCL_MSG_done: take_done(m, from, &msg->as.done); break;
    case PCCL_MSG_failed: take_failed(m, from, &msg->as.failed); break;
    case PCCL_MSG_abort_request: take_abort_request(m, from, &msg->as.abort_request); break;
    case PCCL_MSG_view_ack: take_view_ack(m, from, &msg->as.view_ack); break;
    case PCCL_MSG_subgroup_end: pccl_master_subgroup_closed(m, from, msg->as.subgroup_end.subgroup); break;
    default: pccl_master_listen(m, from, &msg->as.listen); break;
    }
}
