/*
 * Groups, their rings, and rounds from the reports, once one of them is law (PROTOCOL 12.4). It does not know why that
 * one is law, nor of operations.
 */
#include "master/links.h"
#include "master/recovery.h"
#include "master/rings.h"
#include "master/roster.h"
#include "master/rounds.h"
#include "master/sync.h"

/* Who reported but is not in the list of the highest epoch was removed before the master restarted. */
void pccl_master_expel_removed(struct pccl_master *m, const struct pccl_report *law)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_RESUMING)
            continue;
        if (pccl_master_reported_member(law, &remote->id) == NULL)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "it was removed from the run before the master restarted");
        else if (!pccl_master_has_reported(remote))
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                               "it did not report in time after the restart of the master");
    }
}

void pccl_master_rebuild_rounds(struct pccl_master *m)
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

/* The report of this group with the highest view: its ring and view count. */
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
 * The members of one group in the order of its ring; `changed` when anything differs from what some member knows. Who
 * is alone may have launched something nevertheless, if it had heard of a later epoch: that ends by a view.
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
        if (!pccl_master_join_ring(m, group, remote))
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
    if (!group->changed) /* else positions may be those of other members */
        pccl_master_take_over_hubs(group);
    return true;
}

bool pccl_master_rebuild_groups(struct pccl_master *m)
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

/* ---- how the last rounds ended ---- */

static uint32_t group_size(const struct pccl_report *report, uint32_t number)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < report->fields.members_count; i++)
        size += report->members[i].group == number;
    return size;
}

/* The attributes as of this report. Its list is sorted by group, as its sender keeps it; if not, nothing breaks. */
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

/* What this peer reports of the last round of this kind, which is one of this group if it is a group's affair; or NULL.
 */
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
 * What the last round of a kind answered to this group: as one of the group reports it; or as another group reports it,
 * with the size of this group from a list of that epoch; or, when nobody knows, as of the highest epoch.
 */
static struct pccl_attributes answer_for(const struct pccl_master *m, const struct pccl_report *law,
                                         const struct pccl_peer_group *group, uint32_t kind)
{
    uint32_t number = group->number;
    struct pccl_attributes answer = attributes_of(law, number);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_msg_resume_round *round = reported_by(m, m->remotes[i], group, kind);
        if (round == NULL)
            continue;
        const struct pccl_attributes *told = &round->attributes;
        if (m->remotes[i]->group_number == number)
            return *told;
        for (uint32_t k = 0; k < m->remote_count; k++) {
            const struct pccl_report *list = m->remotes[k]->report;
            if (list != NULL && list->ended && pccl_epoch_equal(&list->fields.epoch, &told->epoch))
                answer = attributes_of(list, number);
        }
    }
    return answer;
}

/* How the last optimization of its group ended. */
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

void pccl_master_rebuild_answers(struct pccl_master *m, const struct pccl_report *law)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
            m->groups[i]->last_attributes[kind] = answer_for(m, law, m->groups[i], kind);
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
 * A member that has not heard how a round ended is an era behind: it must know before it hears of outcomes of the new
 * era. It had voted, or the round could not have been decided.
 */
void pccl_master_tell_missed_rounds(struct pccl_master *m)
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
