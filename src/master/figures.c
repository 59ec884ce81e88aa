#include "master/figures.h"
#include "master/eligibility.h"
#include "master/state.h"
#include "master/tuning.h"

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

static void copy_name(const struct pccl_master *m, const struct pccl_id *id, char *out)
{
    const char *name = pccl_names_of(&m->names, id);
    for (size_t i = 0; name != NULL && name[i] != '\0' && i < PCCL_NAME_MAX; i++)
        out[i] = name[i];
}

static void copy_peer(const struct pccl_master *m, const struct pccl_remote *remote, struct pccl_peer_figure *figure)
{
    *figure = (struct pccl_peer_figure){
        .id = remote->id,
        .standing = standing_of(remote),
        .group = remote->group_number,
        .rank = remote->rank,
        .position = remote->position,
        .address = remote->observed,
        .heard_us = m->now_us - pccl_min_u64(m->now_us, remote->heard_us),
        .place = pccl_master_place(m, remote),
    };
    copy_name(m, &remote->id, figure->name);
    if (figure->standing == PCCL_STANDING_MEMBER && remote->group->ring_count > 1)
        pccl_master_link_cost(remote, pccl_master_successor(remote), &figure->rate, &figure->rtt_us);
}

static void copy_group(const struct pccl_peer_group *group, struct pccl_group_figure *figure)
{
    *figure = (struct pccl_group_figure){.number = group->number,
                                         .members = group->ring_count,
                                         .view = group->view,
                                         .sync_round = group->sync,
                                         .revision = group->revision};
}

static bool copy_all(struct pccl_master *m, struct pccl_figures *figures)
{
    figures->peer_count = m->remote_count;
    figures->group_count = m->group_count;
    figures->peers = pccl_allocate(figures->memory, pccl_max_u64(1, m->remote_count) * sizeof *figures->peers);
    figures->groups = pccl_allocate(figures->memory, pccl_max_u64(1, m->group_count) * sizeof *figures->groups);
    figures->waits = pccl_allocate(figures->memory, PCCL_WAITS_MAX * sizeof *figures->waits);
    if (figures->peers == NULL || figures->groups == NULL || figures->waits == NULL)
        return false;
    for (uint32_t i = 0; i < m->remote_count; i++)
        copy_peer(m, m->remotes[i], &figures->peers[i]);
    for (uint32_t i = 0; i < m->group_count; i++)
        copy_group(m->groups[i], &figures->groups[i]);
    figures->wait_count = pccl_master_list_waits(m, figures->waits, &figures->waits_left_out);
    return true;
}

bool pccl_figures_take(struct pccl_master *m, bool all, const struct pccl_memory *memory, struct pccl_figures *figures)
{
    *figures = (struct pccl_figures){
        .memory = memory,
        .uptime_us = m->now_us - m->created_us,
        .lineage = m->lineage,
        .recovering = m->recovering,
        .optimizing = m->optimizing,
        .epoch = m->epoch,
        .counts = pccl_master_count(m),
        .tally = m->tally,
    };
    memcpy(figures->rounds, m->rounds, sizeof figures->rounds);
    for (uint32_t i = 0; i < m->remote_count; i++)
        figures->update_votes += pccl_master_is_living_member(m->remotes[i]) && m->remotes[i]->votes[PCCL_ROUND_UPDATE];
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
    pccl_release(figures->memory, figures->waits, PCCL_WAITS_MAX * sizeof *figures->waits);
    *figures = (struct pccl_figures){.memory = NULL};
}
