#include "master/link_blocks.h"

#include "master/topology.h"

#include <string.h>

/* Returns the first member of a section of the ring. */
static uint32_t begin_of(const struct pccl_link_blocks *blocks, uint32_t section)
{
    return (uint32_t)((uint64_t)blocks->members * section / blocks->count);
}

static void restart(struct pccl_link_blocks *blocks, const struct pccl_peer_group *group)
{
    *blocks = (struct pccl_link_blocks){.count = 0};
    if (group == NULL)
        return;
    blocks->group = group->number;
    blocks->members = group->ring_count;
    blocks->count = (uint32_t)pccl_min_u64(PCCL_LINK_BLOCKS, group->ring_count);
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint32_t begin = begin_of(blocks, i);
        blocks->rows[i] = (struct pccl_link_blocks_row){.group = group->number,
                                                        .position = begin,
                                                        .members = begin_of(blocks, i + 1) - begin,
                                                        .count = blocks->count};
    }
}

static void add_link(struct pccl_link_block *block, const struct pccl_figure *link)
{
    if (link->source == PCCL_FIGURE_NONE)
        return;
    block->known++;
    block->unreached += link->source == PCCL_FIGURE_UNREACHABLE;
    if (link->source == PCCL_FIGURE_UNREACHABLE || (block->rate != 0 && block->rate <= link->rate))
        return;
    block->rate = link->rate;
    block->rtt_us = link->rtt_us;
}

static void visit_member(struct pccl_link_blocks *blocks, const struct pccl_peer_group *group)
{
    const struct pccl_remote *from = group->ring[blocks->position++];
    for (uint32_t section = 0; section < blocks->count; section++)
        for (uint32_t i = begin_of(blocks, section); i < begin_of(blocks, section + 1); i++) {
            struct pccl_figure link = {0};
            if (group->ring[i] != from)
                link = pccl_master_link_estimate(from, group->ring[i]);
            add_link(&blocks->visited[section], &link);
        }
    if (blocks->position < begin_of(blocks, blocks->row + 1))
        return;
    memcpy(blocks->rows[blocks->row].blocks, blocks->visited, sizeof blocks->visited);
    memset(blocks->visited, 0, sizeof blocks->visited);
    blocks->row = (blocks->row + 1) % blocks->count;
    blocks->position = begin_of(blocks, blocks->row);
}

void pccl_link_blocks_visit(struct pccl_link_blocks *blocks, const struct pccl_master *m, uint32_t most)
{
    const struct pccl_peer_group *group = NULL;
    for (uint32_t i = 0; group == NULL && i < m->group_count; i++)
        group = m->groups[i]->ring_count > most ? m->groups[i] : NULL;
    bool same = group != NULL && group->number == blocks->group && group->ring_count == blocks->members;
    if (!same && (group != NULL || blocks->count > 0))
        restart(blocks, group);
    for (uint32_t visited = 0; group != NULL && visited < PCCL_LINK_BLOCKS_VISITS; visited += group->ring_count)
        visit_member(blocks, group);
}
