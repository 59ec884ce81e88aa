/*
 * Who should hold a link to whom: ring neighbors; in a small group all members (a mesh, so that they can exchange
 * directly), in a larger one hubs (hubs.c); and what newcomers need (newcomers.c). What the master knows of these links
 * makes the cost data of a view.
 */
#include "core/ticket.h"
#include "master/eligibility.h"
#include "master/hubs.h"
#include "master/links.h"
#include "master/output.h"
#include "master/rings.h"
#include "master/roster.h"
#include "master/tuning.h"
#include "topology/lines.h"
#include "wire/cost.h"

static struct pccl_link_intent *add_intent(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    struct pccl_link_intent *intents =
        pccl_grow(&m->memory, from->intents, &from->intent_capacity, from->intent_count + 1, sizeof *intents);
    if (intents == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    from->intents = intents;
    intents[from->intent_count] = (struct pccl_link_intent){.to = *to};
    return &intents[from->intent_count++];
}

static void drop_intent(struct pccl_remote *from, struct pccl_link_intent *intent)
{
    *intent = from->intents[--from->intent_count];
}

void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (from == to || from->departing || pccl_master_find_intent(from, &to->id) != NULL ||
        add_intent(m, from, &to->id) == NULL)
        return;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(to, candidates);
    if (from->state == PCCL_REMOTE_MEMBER && to->state == PCCL_REMOTE_PENDING)
        pccl_master_tell_names(m, from, &(struct pccl_member){.peer = to->id}, 1);
    struct pccl_msg msg = {.type = PCCL_MSG_warm_up,
                           .as.warm_up = {.lineage = m->lineage,
                                          .peer = to->id,
                                          .ticket = pccl_ticket(&to->link_key, &from->id, &to->id),
                                          .candidates = candidates,
                                          .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

static bool is_of_view(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return to == pccl_master_successor(from) || pccl_master_view_wants(from, to);
}

void pccl_master_count_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool more)
{
    if (more)
        pccl_master_request_link(m, from, to);
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent == NULL || from->departing)
        return;
    PCCL_ASSERT(more || intent->subgroups > 0);
    intent->subgroups = more ? intent->subgroups + 1 : intent->subgroups - 1;
    if (intent->subgroups == 0 && !is_of_view(from, to))
        drop_intent(from, intent);
}

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone)
{
    PCCL_ASSERT(gone->departing);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        struct pccl_link_intent *intent = remote == gone ? NULL : pccl_master_find_intent(remote, &gone->id);
        if (intent == NULL)
            continue;
        drop_intent(remote, intent);
        if (remote->state == PCCL_REMOTE_PENDING ||
            gone->state == PCCL_REMOTE_PENDING) { /* members learn it from the epoch */
            struct pccl_msg msg = {.type = PCCL_MSG_forget, .as.forget = {.peer = gone->id}};
            pccl_master_send(m, remote, &msg, 0);
        }
    }
}

/* ---- the links of a group ---- */

void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool may_have_more = group->ring_count <= PCCL_HUB_PEERS_MAX;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[i], *next = pccl_master_successor(from);
        for (uint32_t k = 0; k < from->intent_count;) {
            struct pccl_remote *wanted = pccl_master_find(m, &from->intents[k].to);
            bool member = wanted != NULL && wanted->state == PCCL_REMOTE_MEMBER;
            bool needed =
                wanted == next || (member && pccl_master_view_wants(from, wanted)) || from->intents[k].subgroups > 0;
            if (wanted == NULL || (member && !needed))
                drop_intent(from, &from->intents[k]);
            else
                k++;
        }
        pccl_master_request_link(m, from, next);
        for (uint32_t k = 0; may_have_more && k < group->ring_count; k++)
            if (pccl_master_view_wants(from, group->ring[k]))
                pccl_master_request_link(m, from, group->ring[k]);
    }
}

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

void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    const uint32_t *ring = group->tuning.better;
    for (uint32_t i = 0; pccl_master_has_better(group) && i < group->ring_count; i++)
        pccl_master_request_link(m, group->ring[ring[i]], pccl_master_next_of(group, ring, i));
}
