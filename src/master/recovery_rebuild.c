/*
 * Restores the run once the binding report is chosen (PROTOCOL 12.4): groups and their rings, rounds, and finally
 * operations. An outcome that one member reports is valid for all, and the parts of the members are merged.
 */
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery_internal.h"
#include "master/membership.h"
#include "master/roster.h"
#include "master/rounds.h"
#include "wire/choice.h"
#include "wire/subgroup.h"

/* Removes reporting peers that are not members in the winning epoch, because they were removed before the restart. */
static void expel_removed(struct pccl_master *m, const struct pccl_report *winner)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_RESUMING)
            continue;
        if (pccl_master_reported_member(winner, &remote->id) == NULL)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "it was removed from the run before the master restarted");
        else if (!pccl_master_has_reported(remote))
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "it did not report in time after the master restarted");
    }
}

/* Restores the numbers of the open rounds. */
static void rebuild_rounds(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL || !report->ended)
            continue;
        m->rounds[PCCL_ROUND_UPDATE] = pccl_max_u64(m->rounds[PCCL_ROUND_UPDATE], report->fields.update);
        m->rounds[PCCL_ROUND_PENDING] = pccl_max_u64(m->rounds[PCCL_ROUND_PENDING], report->fields.query);
        m->rounds[PCCL_ROUND_OPTIMIZE] = pccl_max_u64(m->rounds[PCCL_ROUND_OPTIMIZE], report->fields.optimize);
    }
}

/* ---- groups ---- */

/* Returns the report with the highest view of this group, which determines the ring and the view. */
static const struct pccl_report *highest_of_group(const struct pccl_master *m, uint32_t number)
{
    const struct pccl_report *best = NULL;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (pccl_master_has_reported(remote) && remote->group_number == number &&
            (best == NULL || pccl_epoch_compare(&remote->report->fields.view, &best->fields.view) > 0))
            best = remote->report;
    }
    return best;
}

/*
 * Restores a group with its members in ring order. Sets `changed`, so that a new view follows, if some member knows
 * another state, or if only one member is left, which may have launched an operation in a later epoch. Returns false if
 * out of memory.
 */
static bool rebuild_group(struct pccl_master *m, const struct pccl_report *best, uint32_t number)
{
    struct pccl_peer_group *group = pccl_master_group(m, number, true);
    if (group == NULL)
        return false;
    group->view = group->firm = best->fields.view;
    group->cost = best->fields.cost;
    group->old_ring_count = best->fields.ring_count;
    for (uint32_t i = 0; i < best->fields.ring_count; i++) {
        struct pccl_remote *remote = pccl_master_find(m, &best->ring[i]);
        if (remote == NULL || !pccl_master_has_reported(remote) || remote->group_number != number)
            continue;
        remote->admitted = remote->report->admitted;
        m->admissions = pccl_max_u64(m->admissions, remote->admitted);
        if (!pccl_master_join_ring(m, group, remote, NULL))
            return false;
    }
    group->changed = group->ring_count != best->fields.ring_count || group->ring_count < 2;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_report *report = group->ring[i]->report;
        group->changed =
            group->changed || report->renumbered || !pccl_epoch_equal(&report->fields.view, &best->fields.view);
        group->decisions = pccl_max_u64(group->decisions, report->fields.decisions);
        group->revision = pccl_max_u64(group->revision, report->fields.revision);
        group->sync = pccl_max_u64(group->sync, report->fields.sync);
    }
    if (!group->changed) /* otherwise a rank may belong to another member */
        pccl_master_take_over_hubs(group);
    return true;
}

/* Makes every reporting peer a member again, in its group's ring. Returns false if out of memory. */
static bool rebuild_groups(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        const struct pccl_report *best =
            pccl_master_has_reported(remote) ? highest_of_group(m, remote->group_number) : NULL;
        if (best != NULL && pccl_master_group(m, remote->group_number, false) == NULL &&
            !rebuild_group(m, best, remote->group_number))
            return false;
    }
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_RESUMING)
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_PROTOCOL, "it is not in the ring of its group");
    return true;
}

/* ---- results of the last rounds ---- */

static uint32_t group_size(const struct pccl_report *report, uint32_t number)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < report->fields.members_count; i++)
        size += report->members[i].group == number;
    return size;
}

/* Returns the attributes in this report. The sender sorts its list by group; an unsorted list is harmless. */
static struct pccl_attributes attributes_of(const struct pccl_report *report, uint32_t number)
{
    struct pccl_attributes attributes = {.epoch = report->fields.epoch,
                                         .world = report->fields.members_count,
                                         .group_world = group_size(report, number)};
    for (uint32_t i = 0, start = 0; i < report->fields.members_count; i++) {
        if (report->members[i].group != report->members[start].group)
            start = i;
        attributes.groups += i == start;
        if (i - start + 1 > attributes.largest_group)
            attributes.largest_group = i - start + 1;
    }
    return attributes;
}

/* Returns this peer's report on the last round of this kind, or NULL. For SYNC, the peer must be of this group. */
static const struct pccl_msg_resume_round *reported_by(const struct pccl_master *m, const struct pccl_remote *remote,
                                                       const struct pccl_peer_group *group, uint32_t kind)
{
    const struct pccl_report *report = remote->report;
    uint64_t open = kind == PCCL_ROUND_SYNC ? group->sync : m->rounds[kind];
    if (report == NULL || !report->ended || !report->round_known[kind] ||
        !pccl_master_is_last_round(report->rounds[kind].round, open) ||
        (kind == PCCL_ROUND_SYNC && remote->group_number != group->number))
        return NULL;
    return &report->rounds[kind];
}

/*
 * Returns the last answer of a round kind to this group. Uses the report of a member of the group; without one, the
 * report of another group, with the size of this group from a list of the same epoch; without any report, the
 * attributes of the winning epoch.
 */
static struct pccl_attributes answer_for(const struct pccl_master *m, const struct pccl_report *winner,
                                         const struct pccl_peer_group *group, uint32_t kind)
{
    uint32_t number = group->number;
    struct pccl_attributes answer = attributes_of(winner, number);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_msg_resume_round *round = reported_by(m, m->remotes[i], group, kind);
        if (round == NULL)
            continue;
        const struct pccl_attributes *reported = &round->attributes;
        if (m->remotes[i]->group_number == number)
            return *reported;
        for (uint32_t k = 0; k < m->remote_count; k++) {
            const struct pccl_report *list = m->remotes[k]->report;
            if (list != NULL && list->ended && pccl_epoch_equal(&list->fields.epoch, &reported->epoch))
                answer = attributes_of(list, number);
        }
    }
    return answer;
}

/* Restores the result of the last optimization of the peer's group. */
static void rebuild_optimization(struct pccl_master *m, const struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    const struct pccl_msg_resume_round *round =
        group != NULL ? reported_by(m, remote, group, PCCL_ROUND_OPTIMIZE) : NULL;
    if (round == NULL)
        return;
    group->optimize_outcome = round->outcome;
    group->optimize_reason = remote->report->round_reason[PCCL_ROUND_OPTIMIZE];
}

/* Restores the results of the last round of each kind, for each group. */
static void rebuild_answers(struct pccl_master *m, const struct pccl_report *winner)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
            m->groups[i]->last_attributes[kind] = answer_for(m, winner, m->groups[i], kind);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        for (uint32_t kind = 0; report != NULL && report->ended && kind < PCCL_ROUND_SYNC; kind++)
            if (report->round_known[kind] && pccl_master_is_last_round(report->rounds[kind].round, m->rounds[kind]))
                m->last_outcome[kind] = report->rounds[kind].outcome;
        rebuild_optimization(m, m->remotes[i]);
        struct pccl_peer_group *group = m->remotes[i]->group;
        const struct pccl_msg_resume_round *round =
            group != NULL ? reported_by(m, m->remotes[i], group, PCCL_ROUND_SYNC) : NULL;
        if (round == NULL || report == NULL)
            continue;
        group->sync_outcome = round->outcome;
        group->sync_revision = round->revision;
        group->sync_reason = report->round_reason[PCCL_ROUND_SYNC];
    }
}

/*
 * Sends missed results of rounds. A member without one is an era behind, and must receive it before outcomes of the new
 * era. It had voted, because otherwise the round could not have been decided.
 */
static void send_missed_rounds(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote))
            continue;
        if (remote->report->fields.update < m->rounds[PCCL_ROUND_UPDATE])
            pccl_master_answer_round(m, remote, PCCL_ROUND_UPDATE);
        if (remote->report->fields.optimize < m->rounds[PCCL_ROUND_OPTIMIZE])
            pccl_master_answer_round(m, remote, PCCL_ROUND_OPTIMIZE);
        if (remote->report->fields.query < m->rounds[PCCL_ROUND_PENDING])
            pccl_master_answer_round(m, remote, PCCL_ROUND_PENDING);
        if (remote->report->fields.sync < remote->group->sync)
            pccl_master_answer_sync(m, remote);
    }
}

/* ---- operations ---- */

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
        /* its caller has the result, so remaining members must not receive another outcome */
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for a result that it reported");
        return;
    }
    if (committed && op->instance.subgroup == PCCL_FOUNDING)
        op->subgroup = pccl_master_find_subgroup(from->group, pccl_subgroup_name(&op->instance));
    op->decided = true; /* announced later, in the same order for all */
    op->class = class;
    op->world = fields->world;
    if (fields->choice_count > 0)
        op->choice = fields->choice[0];
    pccl_text_clear(&op->reason);
    if (fields->reason.length > 0)
        pccl_text_add_bytes(&op->reason, (const char *)fields->reason.data, fields->reason.length);
}

/* Returns false for a departing member, which is no longer in the lists. */
static bool has_seat(const struct pccl_operation *op, const struct pccl_remote *from)
{
    return op->subgroup == NULL || pccl_master_seat_in(op->subgroup, from) < op->subgroup->count;
}

static void merge_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                       const struct pccl_msg_resume_operation *fields)
{
    struct pccl_subgroup *founded = op->decided && op->instance.subgroup == PCCL_FOUNDING ? op->subgroup : NULL;
    if (founded != NULL)
        pccl_master_vouch(founded, from); /* it will receive the outcome */
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
        return; /* it repeats `done` after the recovery, and the mismatch will be found then */
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
 * Removes a peer that reports an operation as unfinished although another report has it as committed. Such a commit
 * requires a view without the peer (6.2), and the previous master crashed before it had sent that view.
 */
static void expel_if_left_out(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_operation *op)
{
    if (op != NULL && op->decided && op->class == PCCL_CLASS_NONE)
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                           "an operation was committed without it before the master restarted");
}

/* Restores the subgroups of returned members, and the subgroups whose founding another member knows. */
static void rebuild_subgroups(struct pccl_master *m)
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

/*
 * Returns true if the instance belongs to this era and its subgroup and pair exist. A departing member is no longer in
 * any subgroup, but may know outcomes.
 */
static bool is_known(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_instance *instance)
{
    if (!is_current(m, remote, instance))
        return false;
    enum pccl_standing standing = pccl_master_standing(remote, instance);
    if (standing == PCCL_STANDING_NONE && remote->departing)
        return instance->pair == 0;
    if (standing == PCCL_STANDING_NONE && (instance->pair == 0 || !remote->report->renumbered))
        pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL,
                           "it reported an operation of a subgroup or pair that it is not in");
    return standing == PCCL_STANDING_MEMBER;
}

/* Merges the reported outcomes or, if `outcomes` is false, the operations under way. */
static void merge_reports(struct pccl_master *m, bool outcomes)
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
            if (op != NULL && op->decided && !is_outcome) /* it has launched this operation */
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
 * Returns true if all members of the old view have finished. A missing member may know another outcome of a bulk
 * operation. If this master died between the commit and the view without the missing member, a later master would
 * receive both outcomes.
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

/* Announces the reported outcomes with numbers of this boot, and commits the operations that all have finished. */
static void announce_reported(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(!m->recovering);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided) {
            op->decided = false; /* decided again, with the reported outcome and a number of this boot */
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
            pccl_text_format(&reason, "a listed member did not reconnect after the master restarted");
            pccl_master_abort(m, group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
        }
    }
}

/* ---- conclusion ---- */

static void send_recovered(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote))
            continue;
        struct pccl_msg msg = {.type = PCCL_MSG_recovered, .as.recovered = {.decisions = remote->group->decisions}};
        pccl_master_send(m, remote, &msg, 0);
        pccl_master_probe(m, remote);
    }
}

static void free_reports(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        pccl_master_free_report(m, m->remotes[i]);
}

static uint32_t next_inc(struct pccl_master *m, uint32_t highest)
{
    return highest + 1 + (uint32_t)pccl_prng_below(&m->prng, PCCL_INC_SPREAD);
}

void pccl_master_conclude_recovery(struct pccl_master *m, struct pccl_report *winner)
{
    PCCL_ASSERT(m->recovering && m->departing_count == 0 && m->member_count == 0);
    struct pccl_epoch winning_epoch = winner->fields.epoch;
    uint32_t winning_count = winner->fields.members_count, highest = winning_epoch.inc;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (pccl_master_has_reported(m->remotes[i]))
            highest = pccl_max_u32(highest, pccl_master_highest_inc(m->remotes[i]->report));
    m->recovering = false;
    m->found_us = 0;
    m->epoch = winning_epoch;
    expel_removed(m, winner);
    rebuild_rounds(m);
    bool rebuilt = rebuild_groups(m);
    for (uint32_t i = 0; !rebuilt && i < m->remote_count; i++)
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_FULL, "the master ran out of memory");
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t k = 0; k < m->groups[i]->ring_count; k++)
            m->groups[i]->ring[k]->decision_known = m->groups[i]->ring[k]->decision_sent =
                m->groups[i]->ring[k]->report->fields.decisions;
    /* before the reports are merged, because outcomes in them have no number yet */
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_advance_stable(m, m->groups[i]);
    rebuild_subgroups(m);
    merge_reports(m, true);
    merge_reports(m, false);
    pccl_master_judge_lone_aborts(m);
    rebuild_answers(m, winner);
    send_missed_rounds(m);
    for (uint32_t i = 0; i < m->group_count; i++)
        announce_reported(m, m->groups[i]);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_judge_reported_subgroups(m, m->groups[i]);
    pccl_master_recovery_epoch(m, &winning_epoch, next_inc(m, highest), m->member_count == winning_count);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_request_subgroup_links(m, m->groups[i]);
    send_recovered(m);
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.event = PCCL_EVENT_RECOVERY_ENDED},
                    "run %s continues: %u of %u members", pccl_id_str(&m->lineage), m->member_count, winning_count);
    free_reports(m);
}
