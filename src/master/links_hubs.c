/*
 * Chooses the hubs. Whether an operation needs hubs is known when it is committed: by then all members have called it,
 * and `done` describes it.
 */
#include "master/links_internal.h"

#include "master/output.h"
#include "master/roster.h"
#include "wire/cost.h"

static bool may_have_hubs(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    uint32_t count = group->ring_count;
    return !pccl_master_is_small(count) && count <= PCCL_HUB_PEERS_MAX && count - 1 <= m->config.hub_links;
}

/* ---- needed hubs ---- */

enum hubs { NO_HUB, ROOT_FROM_ALL, ROOT_TO_ALL, ALL_FROM_ALL };

/*
 * Returns the hubs that this kind of operation needs for direct exchange. Without them, other members would relay its
 * data along the ring.
 */
static enum hubs hubs_for(uint8_t collective)
{
    const struct pccl_collective_row *row = pccl_collective(collective);
    if (!pccl_row_relays(row))
        return NO_HUB;
    return row->input.by == PCCL_BY_ROOT ? ROOT_TO_ALL : row->result.by == PCCL_BY_ROOT ? ROOT_FROM_ALL : ALL_FROM_ALL;
}

static struct pccl_hub *hub_of(struct pccl_remote *remote, enum hubs hubs)
{
    return hubs == ROOT_TO_ALL ? &remote->from_hub : &remote->to_hub;
}

/* Returns true if this member must not be a hub: it is barred, or apart from another member. */
static bool is_unfit(const struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_remote *remote,
                     enum hubs hubs)
{
    bool unfit = m->now_us < hub_of(remote, hubs)->barred_until_us;
    for (uint32_t i = 0; i < group->ring_count; i++)
        unfit = unfit || pccl_master_are_apart(remote, group->ring[i]);
    return unfit;
}

/* Requests the hubs of an operation: `root`, or all members if NULL. Requests nothing if one of them is unfit. */
static void want(struct pccl_master *m, struct pccl_peer_group *group, enum hubs hubs, const struct pccl_remote *root)
{
    bool barred = false, any = false;
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (root == NULL || root == group->ring[i])
            barred = barred || is_unfit(m, group, group->ring[i], hubs);
    for (uint32_t i = 0; i < group->ring_count && !barred; i++) {
        struct pccl_hub *hub = hub_of(group->ring[i], hubs);
        if (root != NULL && root != group->ring[i])
            continue;
        any = any || !hub->wanted;
        hub->for_all = root == NULL && (hub->for_all || !hub->wanted);
        hub->wanted = true;
        hub->idle = 0;
    }
    if (!any)
        return;
    pccl_master_log(m, PCCL_LOG_INFO, NULL, "group %u: requesting links %s %s for direct exchange", group->number,
                    hubs == ROOT_TO_ALL ? "to all from" : "from all to", root != NULL ? pccl_id_str(&root->id) : "all");
    pccl_master_request_hub_links(m, group);
}

void pccl_master_note_direct_use(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_operation *op)
{
    enum hubs hubs = hubs_for(op->descriptor.collective);
    if (hubs == NO_HUB || op->tiny || !pccl_is_of_whole_group(&op->instance) || !may_have_hubs(m, group))
        return;
    const struct pccl_remote *root = hubs != ALL_FROM_ALL ? pccl_master_find(m, &op->descriptor.root) : NULL;
    if (hubs == ALL_FROM_ALL || (root != NULL && root->group == group))
        want(m, group, hubs, root);
}

/* ---- the end of hubs ---- */

static void age(struct pccl_master *m, struct pccl_hub *hub)
{
    if (hub->wanted && ++hub->idle > m->config.hub_updates)
        hub->wanted = false;
}

void pccl_master_age_hubs(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        age(m, &m->remotes[i]->to_hub);
        age(m, &m->remotes[i]->from_hub);
    }
}

static void bar(struct pccl_master *m, struct pccl_hub *hub)
{
    if (!hub->wanted)
        return;
    hub->wanted = false;
    hub->barred_until_us = m->now_us + m->config.bad_edge_ms * UINT64_C(1000);
}

/*
 * Ends the hubs that only all-to-alls have requested. If one of them is missing, the others are useless, and failures
 * of their links should have no effect.
 */
static void end_hubs_of_all(struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->to_hub.wanted = group->ring[i]->to_hub.wanted && !group->ring[i]->to_hub.for_all;
}

void pccl_master_bar_hubs(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    bool ended = to->to_hub.wanted;
    bar(m, &to->to_hub);
    bar(m, &from->from_hub);
    if (ended)
        end_hubs_of_all(to->group);
}

void pccl_master_give_up_asked_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (!pccl_master_is_link_of_hub(m, from, to) || pccl_master_exchanges_directly(from, to) ||
        pccl_master_holds_link(from, to))
        return;
    pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &from->id, .event = PCCL_EVENT_LINK_FAILED},
                    "cannot open a link from peer %s to peer %s: no direct exchange over it", pccl_id_str(&from->id),
                    pccl_id_str(&to->id));
    pccl_master_bar_hubs(m, from, to);
}

/* ---- for views ---- */

bool pccl_master_is_link_of_hub(const struct pccl_master *m, const struct pccl_remote *from,
                                const struct pccl_remote *to)
{
    return from != to && pccl_master_is_living_member(from) && pccl_master_is_living_member(to) &&
           from->group == to->group && may_have_hubs(m, from->group) && (to->to_hub.wanted || from->from_hub.wanted);
}

void pccl_master_list_hubs(const struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_cost *cost)
{
    for (uint32_t i = 0; may_have_hubs(m, group) && i < group->ring_count; i++) {
        const struct pccl_remote *remote = group->ring[i];
        cost->to_hubs |= remote->to_hub.wanted ? pccl_hub_bit(remote->rank) : 0;
        cost->from_hubs |= remote->from_hub.wanted ? pccl_hub_bit(remote->rank) : 0;
    }
}

void pccl_master_request_hub_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (uint32_t i = 0; may_have_hubs(m, group) && i < group->ring_count; i++)
        for (uint32_t k = 0; k < group->ring_count; k++)
            if (pccl_master_is_link_of_hub(m, group->ring[i], group->ring[k]))
                pccl_master_request_link(m, group->ring[i], group->ring[k]);
}

void pccl_master_take_over_hubs(struct pccl_peer_group *group)
{
    for (uint32_t i = 0; group->ring_count <= PCCL_HUB_PEERS_MAX && i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        remote->to_hub.wanted = (group->cost.to_hubs & pccl_hub_bit(remote->rank)) != 0;
        remote->to_hub.for_all = group->cost.to_hubs == pccl_all_hubs(group->ring_count);
        remote->from_hub.wanted = (group->cost.from_hubs & pccl_hub_bit(remote->rank)) != 0;
    }
}
