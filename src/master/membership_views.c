/*
 * Creates views, executes their consequences, and sends them to members and newcomers (PROTOCOL 1.3, 6). Other files
 * decide on the members of a view and on the reason for it.
 */
#include "master/membership_internal.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "master/topology.h"
#include "topology/lines.h"
#include "wire/cost.h"

/* ---- the cost data of a view ---- */

/*
 * Adds the longest round trip and the lowest rate of the mesh or hub links, and in a small group the rate of the
 * slowest pair while all pairs send. Adds nothing if the rate of one link is unknown.
 */
static void add_mesh(const struct pccl_peer_group *group, struct pccl_cost *cost)
{
    const uint32_t count = group->ring_count;
    const bool is_small = pccl_master_is_small(count);
    uint64_t rates[PCCL_MESH_PEERS_MAX * PCCL_MESH_PEERS_MAX];
    uint32_t rtts_us[PCCL_MESH_PEERS_MAX * PCCL_MESH_PEERS_MAX];
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
                rates[i * count + k] = rate;
                rtts_us[i * count + k] = rtt_us;
            }
        }
    }
    cost->mesh_rate = slowest;
    cost->mesh_rtt_us = longest_us;
    cost->mesh_share = is_small ? pccl_pairs_share(&(struct pccl_pairs){count, rates, rtts_us}) : 0;
}

static bool has_hubs(const struct pccl_cost *cost) { return (cost->to_hubs | cost->from_hubs) != 0; }

/* Returns the present cost data of the ring's links, and of the mesh or hubs. */
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

/* Sets the cost data for a new view. */
static void decide_cost(const struct pccl_master *m, struct pccl_peer_group *group) { group->cost = cost_of(m, group); }

/*
 * Returns true if a figure has changed significantly. Returns false if the mesh has changed, because its links settle
 * separately, and figures alone must not end direct exchange.
 */
static bool has_moved(const struct pccl_cost *was, const struct pccl_cost *now)
{
    return was->mesh == now->mesh &&
           (pccl_rtt_moved(was->rtt_us, now->rtt_us) || pccl_rate_moved(was->rate, now->rate) ||
            pccl_rtt_moved(was->mesh_rtt_us, now->mesh_rtt_us) || pccl_rate_moved(was->mesh_rate, now->mesh_rate) ||
            pccl_rate_moved(was->mesh_share, now->mesh_share));
}

/* Returns true if all links of the group's mesh or hubs are up and the view does not use all of them yet. */
static bool can_do_more(const struct pccl_cost *was, const struct pccl_cost *now)
{
    uint64_t more = (now->to_hubs & ~was->to_hubs) | (now->from_hubs & ~was->from_hubs);
    return now->mesh != 0 && (was->mesh == 0 || more != 0);
}

/*
 * Returns true if a hub has ended and a new view would not end direct exchange over other hubs, even if some of their
 * links are down.
 */
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
        pccl_text_format(why, any_more   ? "all links for direct exchange are open"
                              : any_less ? "closing links that no recent operation has used"
                                         : "link speeds have changed");
    return found;
}

/* ---- messages ---- */

static struct pccl_id *ring_ids(struct pccl_master *m, const struct pccl_peer_group *group)
{
    struct pccl_id *ids = pccl_allocate(&m->memory, pccl_max_u64(1, group->ring_count) * sizeof *ids);
    for (uint32_t i = 0; ids != NULL && i < group->ring_count; i++)
        ids[i] = group->ring[i]->id;
    return ids;
}

struct pccl_member pccl_master_as_member(const struct pccl_remote *remote)
{
    return (struct pccl_member){
        .peer = remote->id,
        .group = remote->group_number,
        .admitted = remote->admitted,
        .token_digest = remote->token_digest,
    };
}

struct pccl_member *pccl_master_member_list(struct pccl_master *m)
{
    struct pccl_member *members = pccl_allocate(&m->memory, pccl_max_u64(1, m->member_count) * sizeof *members);
    uint32_t count = 0;
    for (uint32_t i = 0; members != NULL && i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && m->remotes[i]->group != NULL)
            members[count++] = pccl_master_as_member(m->remotes[i]);
    PCCL_ASSERT(members == NULL || count == m->member_count);
    return members;
}

void pccl_master_welcome(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    PCCL_ASSERT(group != NULL);
    struct pccl_member *members = pccl_master_member_list(m);
    struct pccl_id *ring = ring_ids(m, group);
    if (members == NULL || ring == NULL) {
        pccl_master_remove(m, remote, PCCL_REFUSAL_FULL, "out of memory");
    } else {
        struct pccl_msg msg = {.type = PCCL_MSG_welcome,
                               .as.welcome = {.epoch = m->epoch,
                                              .view = group->view,
                                              .update = m->rounds[PCCL_ROUND_UPDATE],
                                              .optimize = m->rounds[PCCL_ROUND_OPTIMIZE],
                                              .sync = group->sync,
                                              .query = m->rounds[PCCL_ROUND_PENDING],
                                              .revision = group->revision,
                                              .run_key = m->run_key,
                                              .members = members,
                                              .members_count = m->member_count,
                                              .ring = ring,
                                              .ring_count = group->ring_count,
                                              .cost = group->cost}};
        remote->unwelcomed = false;
        m->tally.joined++;
        pccl_master_send_names(m, remote, members, m->member_count);
        pccl_master_send(m, remote, &msg, 0);
        pccl_master_log(m, PCCL_LOG_INFO,
                        &(struct pccl_log_fields){
                            .peer = &remote->id, .cause = PCCL_LOG_CAUSE_MEMBERSHIP, .event = PCCL_EVENT_JOINED},
                        "peer %s joined: %u members", pccl_id_str(&remote->id), m->member_count);
    }
    pccl_release(&m->memory, members, pccl_max_u64(1, m->member_count) * sizeof *members);
    pccl_release(&m->memory, ring, pccl_max_u64(1, group->ring_count) * sizeof *ring);
}

void pccl_master_send_epoch(struct pccl_master *m, struct pccl_remote *to, struct pccl_msg_epoch_change *change)
{
    struct pccl_peer_group *group = to->group;
    PCCL_ASSERT(group != NULL);
    struct pccl_id *ring = NULL;
    change->view_changed = group->changed;
    change->replans = group->changed && group->replans;
    change->ring = NULL;
    change->ring_count = 0;
    change->cost = group->changed ? group->cost : (struct pccl_cost){0};
    if (group->changed) {
        ring = ring_ids(m, group);
        if (ring == NULL) {
            pccl_master_remove(m, to, PCCL_REFUSAL_FULL, "out of memory");
            return;
        }
        change->ring = ring;
        change->ring_count = group->ring_count;
    }
    struct pccl_msg msg = {.type = PCCL_MSG_epoch_change, .as.epoch_change = *change};
    pccl_master_send_names(m, to, change->added, change->added_count);
    pccl_master_send(m, to, &msg, 0);
    if (group->changed) {
        to->awaits_view_ack = true;
        to->unacknowledged_views++;
    }
    pccl_release(&m->memory, ring, change->ring_count * sizeof *ring);
}

static void log_epoch(struct pccl_master *m, uint32_t added, uint32_t removed, const struct pccl_text *why)
{
    pccl_master_log(m, PCCL_LOG_INFO,
                    &(struct pccl_log_fields){.reason = why->length > 0 ? why->bytes : NULL,
                                              .cause = PCCL_LOG_CAUSE_MEMBERSHIP,
                                              .event = PCCL_EVENT_EPOCH},
                    "epoch %u.%" PRIu64 ": %u members, %u added, %u removed", m->epoch.inc, m->epoch.number,
                    m->member_count, added, removed);
}

/* ---- effects of a view ---- */

/*
 * Makes this epoch the group's view. Members abort or restart earlier operations by themselves. If they restart them,
 * the cost data stay unchanged, because the first level of an automatic codec depends on them, even for members that
 * launch the operation in this view (PROTOCOL 7.12).
 */
static void enter_view(struct pccl_master *m, struct pccl_peer_group *group)
{
    pccl_master_avoid_bad_edges(m, group); /* there is a new view anyway, so the ring may change, too */
    group->view = m->epoch;
    if (group->replans) {
        pccl_master_await_again(m, group);
    } else {
        pccl_master_drop_undecided(m, group);
        decide_cost(m, group);
        group->firm = m->epoch;
    }
    m->tally.views++;
    pccl_master_advance_stable(m, group); /* departed members no longer need to acknowledge outcomes */
}

/*
 * Executes the consequences of a view, in this order. The other consequences were recorded when the ring changed
 * (membership_rings.c): newcomers need other links, rounds and synchronizations may be complete without the departed
 * members, and searches for the former ring are void. Newcomers in the view receive `welcome` after the answer to the
 * round that admits them.
 */
void pccl_master_next_epoch(struct pccl_master *m, const struct pccl_member *added, uint32_t added_count,
                            const struct pccl_id *removed, uint32_t removed_count, const struct pccl_text *why)
{
    PCCL_ASSERT(m->founded && m->member_count > 0);
    PCCL_ASSERT((added != NULL || added_count == 0) && (removed != NULL || removed_count == 0));
    m->epoch.number++;
    for (uint32_t i = 0; i < m->group_count; i++) {
        if (!m->groups[i]->changed)
            continue;
        enter_view(m, m->groups[i]);
        pccl_master_request_view_links(m, m->groups[i]);
    }
    struct pccl_msg_epoch_change change = {.epoch = m->epoch,
                                           .added = added,
                                           .added_count = added_count,
                                           .removed = removed,
                                           .removed_count = removed_count,
                                           .reason = pccl_bytes_of_text(why)};
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *to = m->remotes[i];
        if (pccl_master_is_living_member(to) && !to->unwelcomed)
            pccl_master_send_epoch(m, to, &change);
    }
    for (uint32_t i = 0; i < m->group_count; i++) {
        if (m->groups[i]->changed) {
            pccl_master_request_better_links(m, m->groups[i]);
            pccl_master_request_hub_links(m, m->groups[i]);
        }
        m->groups[i]->changed = m->groups[i]->replans = false;
    }
    log_epoch(m, added_count, removed_count, why);
}

/*
 * Creates an epoch even without changes, so that the members that took part in the recovery have a later epoch than all
 * others. Views change only where necessary, so operations continue. Finally requests all links, because this master
 * knows of none.
 */
void pccl_master_recovery_epoch(struct pccl_master *m, const struct pccl_epoch *winning_epoch, uint32_t inc,
                                bool all_here)
{
    PCCL_ASSERT(inc > winning_epoch->inc);
    struct pccl_text why;
    pccl_text_format(&why, "the master has restarted");
    m->epoch = (struct pccl_epoch){.inc = inc, .number = 1};
    struct pccl_member *members = pccl_master_member_list(m);
    uint32_t count = m->member_count;
    struct pccl_msg_epoch_change change = {.epoch = m->epoch, .reason = pccl_bytes_of_text(&why)};
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->changed)
            enter_view(m, m->groups[i]);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *to = m->remotes[i];
        if (!pccl_master_is_living_member(to))
            continue;
        PCCL_ASSERT(to->report != NULL);
        change.full =
            !all_here || to->report->renumbered || !pccl_epoch_equal(&to->report->fields.epoch, winning_epoch);
        change.added = change.full ? members : NULL;
        change.added_count = change.full ? count : 0;
        if (members == NULL)
            pccl_master_remove(m, to, PCCL_REFUSAL_FULL, "out of memory");
        else
            pccl_master_send_epoch(m, to, &change);
    }
    pccl_release(&m->memory, members, pccl_max_u64(1, count) * sizeof *members);
    for (uint32_t i = 0; i < m->group_count; i++) {
        m->groups[i]->changed = false;
        pccl_master_request_view_links(m, m->groups[i]);
        /* hubs for operations that have just been committed, which no view lists yet */
        pccl_master_request_hub_links(m, m->groups[i]);
    }
    log_epoch(m, 0, 0, &why);
}
