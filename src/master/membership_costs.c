/* The cost data of a view: measured links of its ring, and of its mesh or hubs. */
#include "master/links.h"
#include "master/topology.h"
#include "master/views.h"
#include "topology/lines.h"
#include "wire/cost.h"

/*
 * Adds the longest round trip and the lowest rate of these links, and in a small group the rate of the slowest pair
 * while all pairs send. Adds nothing if the rate of one link is unknown.
 */
static void add_mesh(const struct pccl_peer_group *group, struct pccl_cost *cost)
{
    const uint32_t count = group->ring_count;
    const bool is_small = pccl_master_is_small(count);
    struct pccl_pairs pairs = {.count = count};
    uint64_t slowest = UINT64_MAX, rate;
    uint32_t longest_us = 0, rtt_us;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (!pccl_cost_wants(cost, count, group->ring[i]->rank, group->ring[k]->rank))
                continue;
            pccl_master_link_cost(group->ring[i], group->ring[k], &rate, &rtt_us);
            if (rate == 0)
                return;
            slowest = pccl_min_u64(slowest, rate);
            longest_us = (uint32_t)pccl_max_u64(longest_us, rtt_us);
            if (is_small) {
                pairs.rates[i][k] = rate;
                pairs.rtts_us[i][k] = rtt_us;
            }
        }
    }
    cost->mesh_rate = slowest;
    cost->mesh_rtt_us = longest_us;
    cost->mesh_share = is_small ? pccl_pairs_share(&pairs) : 0;
}

static bool has_hubs(const struct pccl_cost *cost) { return (cost->to_hubs | cost->from_hubs) != 0; }

/* As the master knows it now: of the ring's links the longest round trip and the lowest rate. */
static struct pccl_cost cost_of(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    uint32_t count = group->ring_count;
    struct pccl_cost cost = {0};
    pccl_master_list_hubs(m, group, &cost);
    cost.mesh = count > 1 && (pccl_master_is_small(count) || has_hubs(&cost));
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        const struct pccl_remote *from = group->ring[i];
        uint64_t rate;
        uint32_t rtt_us;
        pccl_master_link_cost(from, pccl_master_successor(from), &rate, &rtt_us);
        cost.rtt_us = (uint32_t)pccl_max_u64(cost.rtt_us, rtt_us);
        if (rate != 0 && (cost.rate == 0 || rate < cost.rate))
            cost.rate = rate;
        for (uint32_t k = 0; cost.mesh != 0 && k < count; k++)
            if (pccl_cost_wants(&cost, count, from->rank, group->ring[k]->rank))
                cost.mesh = pccl_master_holds_link(from, group->ring[k]);
    }
    if (cost.mesh != 0)
        add_mesh(group, &cost);
    return cost;
}

void pccl_master_decide_cost(const struct pccl_master *m, struct pccl_peer_group *group)
{
    group->cost = cost_of(m, group);
}

/* Links of the mesh that are down have their own time to settle: figures alone must not end direct exchange. */
static bool has_moved(const struct pccl_cost *was, const struct pccl_cost *now)
{
    return was->mesh == now->mesh &&
           (pccl_rtt_moved(was->rtt_us, now->rtt_us) || pccl_rate_moved(was->rate, now->rate) ||
            pccl_rtt_moved(was->mesh_rtt_us, now->mesh_rtt_us) || pccl_rate_moved(was->mesh_rate, now->mesh_rate) ||
            pccl_rate_moved(was->mesh_share, now->mesh_share));
}

/* All links of the group's mesh or hubs stand, and the view does not count on all of them yet. */
static bool can_do_more(const struct pccl_cost *was, const struct pccl_cost *now)
{
    uint64_t more = (now->to_hubs & ~was->to_hubs) | (now->from_hubs & ~was->from_hubs);
    return now->mesh != 0 && (was->mesh == 0 || more != 0);
}

/* A hub is none any more, and saying so takes nothing from the others, some of whose links may not stand now. */
static bool can_do_with_less(const struct pccl_cost *was, const struct pccl_cost *now)
{
    uint64_t less = (was->to_hubs & ~now->to_hubs) | (was->from_hubs & ~now->from_hubs);
    return less != 0 && (now->mesh != 0 || was->mesh == 0 || !has_hubs(now));
}

uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why)
{
    uint32_t found = 0;
    bool any_more = false, any_less = false;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        struct pccl_cost now = cost_of(m, group);
        bool more = can_do_more(&group->cost, &now), less = can_do_with_less(&group->cost, &now);
        if (group->changed || !(more || less || has_moved(&group->cost, &now)))
            continue;
        group->changed = true;
        any_more = any_more || more;
        any_less = any_less || less;
        found++;
    }
    if (found > 0)
        pccl_text_format(why, any_more   ? "all links for direct exchange stand now"
                              : any_less ? "links that no operation has used lately are closed"
                                         : "links are faster or slower than they were");
    return found;
}
