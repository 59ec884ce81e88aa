/*
 * Operations from the reports, once the groups are rebuilt (PROTOCOL 12.4): any outcome that one member reports is that
 * of all, and parts add up. It does not know how groups were rebuilt, or which report is law.
 */
#include "master/operations.h"
#include "master/output.h"
#include "master/pairs.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "master/subgroups.h"
#include "wire/choice.h"
#include "wire/subgroup.h"

static bool is_current(const struct pccl_master *m, const struct pccl_remote *remote,
                       const struct pccl_instance *instance)
{
    return instance->joint == pccl_master_joint(m) && instance->sync == remote->group->sync;
}

static void merge_outcome(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                          const struct pccl_msg_resume_operation *fields)
{
    bool committed = fields->state == PCCL_RESUME_COMMITTED;
    enum pccl_class class = committed ? PCCL_CLASS_NONE : (enum pccl_class)fields->class;
    if (!committed && class == PCCL_CLASS_NONE)
        class = PCCL_CLASS_PEER_LOST;
    if (op->decided) {
        if (op->class != class)
            pccl_master_log(m, PCCL_LOG_ERROR,
                            &(struct pccl_log_fields){.has_operation = true,
                                                      .group = from->group_number,
                                                      .tag = op->instance.tag,
                                                      .use = op->instance.use},
                            "reports disagree on tag %" PRIu64 " use %u", op->instance.tag, op->instance.use);
        else
            pccl_master_confirm_end(m, from, op);
        return;
    }
    if (!committed)
        pccl_master_note_lone_abort(from, op);
    op->tiny = fields->tiny != 0;
    if (committed && op->tiny && !pccl_master_set_result(m, op, &fields->payload)) {
        /* its caller has it; whoever stays must not see another outcome */
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for a result that it reports");
        return;
    }
    if (committed && op->instance.subgroup == PCCL_FOUNDING)
        op->subgroup = pccl_master_find_subgroup(from->group, pccl_subgroup_name(&op->instance));
    op->decided = true; /* announced later, in one order for all */
    op->class = class;
    op->world = fields->world;
    if (fields->choice_count > 0)
        op->choice = fields->choice[0];
    pccl_text_clear(&op->reason);
    if (fields->reason.length > 0)
        pccl_text_add_bytes(&op->reason, (const char *)fields->reason.data, fields->reason.length);
}

/* Of a founding there is a list, which may be one of another's: of the same digest. */
static bool has_seat(const struct pccl_operation *op, const struct pccl_remote *from)
{
    return op->subgroup == NULL || pccl_master_seat_in(op->subgroup, from) < op->subgroup->count;
}

static void merge_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                       const struct pccl_msg_resume_operation *fields)
{
    struct pccl_subgroup *founded = op->decided && op->instance.subgroup == PCCL_FOUNDING ? op->subgroup : NULL;
    if (founded != NULL)
        pccl_master_vouch(founded, from); /* it will be told */
    if (op->decided || (pccl_is_of_whole_group(&op->instance) && !pccl_epoch_equal(&fields->view, &from->group->view)))
        return;
    struct pccl_choice choice = {.why = PCCL_CHOICE_NONE};
    if (fields->choice_count > 0)
        choice = fields->choice[0];
    choice.since_us = PCCL_TOOK_UNKNOWN;
    struct pccl_msg_done done = {.instance = fields->instance,
                                 .view = fields->view,
                                 .descriptor = fields->descriptor,
                                 .tiny = fields->tiny,
                                 .choice = &choice,
                                 .choice_count = fields->choice_count,
                                 .payload = fields->payload};
    if (op->parts != NULL &&
        (!pccl_descriptor_equal(&op->descriptor, &done.descriptor) || op->tiny != (done.tiny != 0)))
        return; /* it says DONE again after the recovery, and the mismatch is found then */
    uint32_t world = from->group->old_ring_count;
    if (!pccl_is_of_whole_group(&op->instance))
        world = op->instance.subgroup == PCCL_FOUNDING ? (uint32_t)fields->descriptor.count : op->subgroup->world;
    if (!pccl_master_contribution_fits(&done, from, world, PCCL_TINY_BYTES_MAX) || !has_seat(op, from)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it reported an impossible operation");
        return;
    }
    pccl_master_take_part(m, op, from, &done);
}

/*
 * Somebody reports this operation as committed, and to this peer it is unfinished: only a view without it can have made
 * that commit (6.2), and the master before us crashed before it had told that view.
 */
static void expel_if_left_out(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_operation *op)
{
    if (op != NULL && op->decided && op->class == PCCL_CLASS_NONE)
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                           "an operation was committed without it before the master restarted");
}

/* Who came back has it; or another member has heard of its founding. */
void pccl_master_rebuild_subgroups(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->group == NULL || remote->report == NULL)
            continue;
        bool made = true;
        for (const struct pccl_reported_subgroup *reported = remote->report->subgroups; made && reported != NULL;
             reported = reported->next) {
            struct pccl_subgroup *subgroup = pccl_master_reported_subgroup(
                m, remote->group, &reported->founding, &(struct pccl_bytes){reported->founded, reported->length});
            made = subgroup != NULL;
            if (made)
                pccl_master_vouch(subgroup, remote);
        }
        for (const struct pccl_reported_op *op = remote->report->ops; made && op != NULL; op = op->next)
            if (op->fields.state == PCCL_RESUME_COMMITTED && op->fields.descriptor.collective == PCCL_FOUND &&
                is_current(m, remote, &op->fields.instance))
                made =
                    pccl_master_reported_subgroup(m, remote->group, &op->fields.instance, &op->fields.payload) != NULL;
        if (!made)
            pccl_master_remove(m, remote, PCCL_REFUSAL_FULL, "out of memory");
    }
}

/* false: of a pair that the view without the other one ends. */
static bool is_of_pair(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_instance *instance)
{
    enum pccl_pairing pairing = pccl_master_pairing(remote->group, instance, remote);
    if (pairing == PCCL_PAIR_OF_OTHERS && !remote->departing && !remote->report->renumbered)
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL,
                           "it reported an operation of a pair that it is not in, or that is not in its subgroup");
    return pairing == PCCL_PAIR_WHOLE;
}

/* false: of one that has ended for all. */
static bool is_of_subgroup(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_instance *instance)
{
    const struct pccl_subgroup *subgroup = pccl_master_find_subgroup(remote->group, instance->subgroup);
    bool member = subgroup == NULL || pccl_master_seat_in(subgroup, remote) < subgroup->count || remote->departing;
    if (!member)
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL,
                           "it reported an operation of a subgroup that it is not in");
    return member && subgroup != NULL;
}

/* Returns true if it is an operation of this era whose subgroup and pair exist. */
static bool is_known(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_instance *instance)
{
    if (!is_current(m, remote, instance) ||
        (pccl_master_names_subgroup(instance) && !is_of_subgroup(m, remote, instance)))
        return false;
    return instance->pair == 0 || is_of_pair(m, remote, instance);
}

void pccl_master_merge_reports(struct pccl_master *m, bool outcomes)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->group == NULL || remote->report == NULL)
            continue;
        for (const struct pccl_reported_op *reported = remote->report->ops; reported != NULL;
             reported = reported->next) {
            const struct pccl_instance *instance = &reported->fields.instance;
            bool is_outcome =
                reported->fields.state == PCCL_RESUME_COMMITTED || reported->fields.state == PCCL_RESUME_ABORTED;
            bool running = reported->fields.state == PCCL_RESUME_RUNNING;
            if (is_outcome != outcomes || !is_known(m, remote, instance))
                continue;
            struct pccl_operation *op = pccl_master_operation(m, remote->group, instance, !running);
            if (op != NULL && op->decided && !is_outcome) /* it has launched this one */
                pccl_master_confirm_end(m, remote, op);
            if (running) {
                expel_if_left_out(m, remote, op);
                continue;
            }
            if (op == NULL)
                pccl_master_remove(m, remote, PCCL_REFUSAL_FULL, "out of memory");
            else if (is_outcome)
                merge_outcome(m, op, remote, &reported->fields);
            else
                merge_part(m, op, remote, &reported->fields);
        }
    }
}

/*
 * All members of the old view are needed. One who is missing may know another outcome of a bulk operation; and if this
 * master dies between this commit and the view without the missing, a later one would hear both.
 */
static bool is_finished(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    uint32_t world = op->subgroup != NULL ? op->subgroup->world : group->old_ring_count;
    return op->parts != NULL && op->done_count == op->part_count && op->part_count == world;
}

static bool lacks_founders(const struct pccl_operation *op)
{
    return op->instance.subgroup == PCCL_FOUNDING && op->subgroup != NULL && op->subgroup->count < op->subgroup->world;
}

void pccl_master_announce_reported(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(!m->recovering);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided) {
            op->decided = false; /* decide anew: the outcome is the reported one, the number is this boot's */
            if (op->class == PCCL_CLASS_NONE) {
                pccl_master_commit(m, group, op);
            } else {
                struct pccl_text reason = op->reason;
                pccl_master_abort(m, group, op, op->class, &reason);
            }
        } else if (is_finished(group, op)) {
            pccl_master_commit(m, group, op);
        } else if (lacks_founders(op)) {
            struct pccl_text reason;
            pccl_text_format(&reason, "not all of the list came back after the restart of the master");
            pccl_master_abort(m, group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
        }
    }
}
