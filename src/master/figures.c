#include "master/figures.h"
#include "master/goodput.h"
#include "master/links.h"
#include "master/state.h"
#include "master/rounds.h"
#include "master/topology.h"

#include <string.h>

static enum pccl_standing standing_of(const struct pccl_remote *remote)
{
    if (remote->departing)
        return PCCL_STANDING_LEAVING;
    switch (remote->state) {
    case PCCL_REMOTE_PENDING: return PCCL_STANDING_NEWCOMER;
    case PCCL_REMOTE_RESUMING: return PCCL_STANDING_RETURNING;
    default: return PCCL_STANDING_MEMBER;
    }
}

static enum pccl_reach reach_of(const struct pccl_remote *remote)
{
    if (remote->verified)
        return PCCL_REACH_OPEN;
    return pccl_master_is_unreached(remote) ? PCCL_REACH_CLOSED : PCCL_REACH_UNKNOWN;
}

static enum pccl_way way_of(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent == NULL || !intent->up)
        return PCCL_WAY_NONE;
    return intent->reversed ? PCCL_WAY_REVERSED : PCCL_WAY_DIRECT;
}

static void copy_edge(const struct pccl_remote *remote, struct pccl_peer_figure *figure)
{
    const struct pccl_remote *next = pccl_master_successor(remote);
    const struct pccl_figure *known = pccl_master_find_figure(remote, next);
    struct pccl_figure estimate = pccl_master_link_estimate(remote, next);
    pccl_master_link_cost(remote, next, &figure->rate, &figure->rtt_us);
    figure->way = way_of(remote, next);
    figure->predicted = known != NULL ? known->tested_rate : 0;
    figure->achieved = estimate.source == PCCL_FIGURE_TRAFFIC ? estimate.rate : 0;
}

static void copy_time(const struct pccl_remote *remote, struct pccl_peer_figure *figure)
{
    const struct pccl_id *delayed_by = pccl_goodput_delayed_by(remote->goodput);
    pccl_goodput_recent(remote->goodput, figure->recent_us);
    memcpy(figure->whole_us, remote->goodput->whole, sizeof figure->whole_us);
    if (delayed_by != NULL)
        figure->delayed_by = *delayed_by;
}

/* Adds one member's times to the sums of the run. */
static void add_time(const struct pccl_remote *remote, struct pccl_figures *figures)
{
    uint64_t recent_us[PCCL_TIME_USES];
    if (remote->goodput == NULL)
        return;
    pccl_goodput_recent(remote->goodput, recent_us);
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++)
        figures->recent_us[use] += recent_us[use];
    uint64_t delayed_us = remote->goodput->previous_delayed_us + remote->goodput->delayed_us;
    uint32_t at = figures->delay_count;
    if (delayed_us == 0 || (at == PCCL_FIGURES_DELAYS_MAX && figures->delays[--at].us >= delayed_us))
        return;
    for (; at > 0 && figures->delays[at - 1].us < delayed_us; at--)
        figures->delays[at] = figures->delays[at - 1];
    figures->delays[at] = (struct pccl_delay_figure){remote->id, delayed_us};
    figures->delay_count += figures->delay_count < PCCL_FIGURES_DELAYS_MAX;
}

static void copy_peer(const struct pccl_master *m, const struct pccl_remote *remote, struct pccl_peer_figure *figure)
{
    *figure = (struct pccl_peer_figure){
        .id = remote->id,
        .number = remote->arrival,
        .standing = standing_of(remote),
        .group = remote->group_number,
        .rank = remote->rank,
        .position = remote->position,
        .address = remote->observed,
        .reach = reach_of(remote),
        .received_us = m->now_us - pccl_min_u64(m->now_us, remote->received_us),
        .place = pccl_master_place(m, remote),
        .draining = remote->draining,
        .fetching = pccl_master_is_fetching(remote),
        .donors = pccl_master_donor_count(remote),
        .training_us = remote->training_us != 0 ? m->now_us - remote->training_us : UINT64_MAX,
        .training_step = remote->training_step,
        .training_loss = remote->training_loss,
    };
    pccl_names_copy(&m->names, &remote->id, figure->name);
    if (figure->standing == PCCL_STANDING_MEMBER && remote->group->ring_count > 1)
        copy_edge(remote, figure);
    if (remote->goodput != NULL)
        copy_time(remote, figure);
}

/* Copies the link figures of a group if all of them fit. */
static void copy_links(struct pccl_peer_group *group, struct pccl_figures *figures, uint32_t *used)
{
    uint32_t count = group->ring_count;
    if (count < 2 || count > PCCL_FIGURES_LINKS_MAX / count || count * count > PCCL_FIGURES_LINKS_MAX - *used)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *from = group->ring[i];
        struct pccl_figure *links = &figures->links[*used + from->rank * count];
        uint8_t *ways = &figures->ways[*used + from->rank * count];
        figures->rows[figures->row_count + from->rank] =
            (struct pccl_link_row){group->number, from->rank, count, links, ways};
        for (uint32_t k = 0; k < count; k++) {
            const struct pccl_remote *to = group->ring[k];
            if (k != i)
                links[to->rank] = pccl_master_link_estimate(from, to);
            ways[to->rank] = (uint8_t)way_of(from, to);
        }
    }
    *used += count * count;
    figures->row_count += count;
}

static void copy_gone(const struct pccl_master *m, struct pccl_figures *figures)
{
    uint64_t known = pccl_min_u64(m->gone_count, PCCL_FIGURES_REMOVED_MAX);
    for (uint64_t back = 1; back <= known; back++) {
        const struct pccl_removed *gone = &m->gone[(m->gone_count - back) % PCCL_REMOVED_MAX];
        struct pccl_removed_figure *figure = &figures->gone[figures->gone_count++];
        *figure = (struct pccl_removed_figure){
            .id = gone->id, .since_us = m->now_us - pccl_min_u64(m->now_us, gone->at_us), .reason = gone->reason};
        memcpy(figure->name, gone->name, sizeof figure->name);
        pccl_names_add_to(&m->names, &figure->reason);
    }
}

static void copy_group(const struct pccl_peer_group *group, struct pccl_group_figure *figure)
{
    *figure = (struct pccl_group_figure){.number = group->number,
                                         .members = group->ring_count,
                                         .view = group->view,
                                         .sync_round = group->sync,
                                         .revision = group->revision};
}

static void count_verdicts(const struct pccl_peer_group *group, struct pccl_figures *figures)
{
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_at(&group->verdicts, n)) != NULL; n++)
        figures->verdict_counts[entry->class]++;
}

static void copy_verdicts(const struct pccl_master *m, const struct pccl_peer_group *group,
                          struct pccl_figures *figures)
{
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_or_finding_at(&group->verdicts, n)) != NULL; n++) {
        if (figures->verdict_count == PCCL_VERDICTS_SHOWN_MAX)
            return;
        struct pccl_verdict_figure *figure = &figures->verdicts[figures->verdict_count++];
        *figure = (struct pccl_verdict_figure){.group = group->number, .entry = *entry};
        pccl_names_add_to(&m->names, &figure->entry.evidence);
        pccl_names_add_to(&m->names, &figure->entry.action);
    }
}

static bool copy_all(struct pccl_master *m, struct pccl_figures *figures)
{
    figures->peer_count = m->remote_count;
    figures->group_count = m->group_count;
    figures->peers = pccl_allocate(figures->memory, pccl_max_u64(1, m->remote_count) * sizeof *figures->peers);
    figures->groups = pccl_allocate(figures->memory, pccl_max_u64(1, m->group_count) * sizeof *figures->groups);
    figures->waits = pccl_allocate(figures->memory, PCCL_WAITS_MAX * sizeof *figures->waits);
    figures->rows = pccl_allocate(figures->memory, pccl_max_u64(1, m->remote_count) * sizeof *figures->rows);
    figures->links = pccl_allocate(figures->memory, PCCL_FIGURES_LINKS_MAX * sizeof *figures->links);
    figures->ways = pccl_allocate(figures->memory, PCCL_FIGURES_LINKS_MAX);
    figures->verdicts = pccl_allocate(figures->memory, PCCL_VERDICTS_SHOWN_MAX * sizeof *figures->verdicts);
    if (figures->peers == NULL || figures->groups == NULL || figures->waits == NULL || figures->rows == NULL ||
        figures->links == NULL || figures->ways == NULL || figures->verdicts == NULL)
        return false;
    for (uint32_t i = 0; i < m->remote_count; i++)
        copy_peer(m, m->remotes[i], &figures->peers[i]);
    for (uint32_t i = 0; i < m->group_count; i++)
        copy_group(m->groups[i], &figures->groups[i]);
    for (uint32_t i = 0, used = 0; i < m->group_count; i++)
        copy_links(m->groups[i], figures, &used);
    for (uint32_t i = 0; i < m->group_count; i++)
        copy_verdicts(m, m->groups[i], figures);
    copy_gone(m, figures);
    figures->wait_count = pccl_master_list_waits(m, figures->waits, &figures->waits_left_out);
    return true;
}

bool pccl_figures_take(struct pccl_master *m, bool all, const struct pccl_memory *memory, struct pccl_figures *figures)
{
    pccl_goodput_settle(m);
    *figures = (struct pccl_figures){
        .memory = memory,
        .uptime_us = m->now_us - m->created_us,
        .lineage = m->lineage,
        .recovering = m->recovering,
        .optimizing = m->optimizing,
        .epoch = m->epoch,
        .counts = pccl_master_count(m),
        .tally = m->tally,
        .now_us = m->now_us,
    };
    pccl_tally_turn(&figures->tally, m->now_us);
    memcpy(figures->rounds, m->rounds, sizeof figures->rounds);
    for (uint32_t i = 0; i < m->group_count; i++)
        count_verdicts(m->groups[i], figures);
    for (uint32_t i = 0; i < m->remote_count; i++)
        figures->update_votes += pccl_master_is_living_member(m->remotes[i]) && m->remotes[i]->votes[PCCL_ROUND_UPDATE];
    for (uint32_t i = 0; i < m->remote_count; i++)
        add_time(m->remotes[i], figures);
    if (!all || copy_all(m, figures))
        return true;
    pccl_figures_fini(figures);
    return false;
}

void pccl_figures_fini(struct pccl_figures *figures)
{
    if (figures->memory == NULL)
        return;
    pccl_release(figures->memory, figures->peers, pccl_max_u64(1, figures->peer_count) * sizeof *figures->peers);
    pccl_release(figures->memory, figures->groups, pccl_max_u64(1, figures->group_count) * sizeof *figures->groups);
    pccl_release(figures->memory, figures->rows, pccl_max_u64(1, figures->peer_count) * sizeof *figures->rows);
    pccl_release(figures->memory, figures->links, PCCL_FIGURES_LINKS_MAX * sizeof *figures->links);
    pccl_release(figures->memory, figures->ways, PCCL_FIGURES_LINKS_MAX);
    pccl_release(figures->memory, figures->verdicts, PCCL_VERDICTS_SHOWN_MAX * sizeof *figures->verdicts);
    pccl_release(figures->memory, figures->waits, PCCL_WAITS_MAX * sizeof *figures->waits);
    *figures = (struct pccl_figures){.memory = NULL};
}
