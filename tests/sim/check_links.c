/*
 * The cost data of views: direct exchange only where all pairs hold links, and no member is removed
 * because of a link outside the ring.
 */
#include "master/links.h"
#include "master/roster.h"
#include "master/topology.h"
#include "peer/members.h"
#include "peer/pairs.h"
#include "check.h"
#include "support/peer_check.h"
#include "wire/cost.h"

#include <stdlib.h>
#include <string.h>

enum { PATIENCE_US = 2000000 }; /* time to dial all addresses of a peer again, to report that, and to settle */

/* ---- reports to the master about each link ---- */

static struct link_heard *find_heard(const struct sim_peer *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < from->heard_count; i++)
        if (pccl_id_equal(&from->heard[i].to, to))
            return &from->heard[i];
    return NULL;
}

static void note_heard(struct sim *sim, struct sim_peer *from, const struct pccl_id *to, bool up)
{
    struct link_heard *heard = find_heard(from, to);
    if (heard == NULL) {
        from->heard = realloc(from->heard, (from->heard_count + 1u) * sizeof *from->heard);
        if (from->heard == NULL)
            abort();
        heard = &from->heard[from->heard_count++];
        *heard = (struct link_heard){.to = *to, .up = true};
    }
    if (!up && heard->up)
        heard->down_since = sim->now;
    heard->up = up;
}

void sim_check_heard(struct sim *sim, const struct sim_master *master, const struct sim_conn *conn,
                     const struct pccl_frame *frame, const struct pccl_msg *msg)
{
    struct pccl_table_node *node = pccl_table_find(&master->machine->by_conn, conn->id);
    struct sim_peer *from =
        node != NULL ? sim_peer_find(sim, &PCCL_CONTAINER_OF(node, struct pccl_remote, by_conn)->id) : NULL;
    if (from == NULL || frame->sequence == 0)
        return;
    if (from->heard_boot != master->config.boot) {
        from->heard_boot = master->config.boot;
        from->heard_count = 0;
        from->heard_sequence = 0;
    }
    if (frame->sequence <= from->heard_sequence)
        return; /* sent again */
    from->heard_sequence = frame->sequence;
    if (msg->type == PCCL_MSG_link_up)
        note_heard(sim, from, &msg->as.link_up.peer, true);
    else if (msg->type == PCCL_MSG_link_lost && msg->as.link_lost.incoming == 0)
        note_heard(sim, from, &msg->as.link_lost.peer, false);
    sim_check_sync_heard(sim, master, from, msg);
    sim_check_topology_heard(sim, master, from, msg);
}

/*
 * Notes a request for a link. The master requests only a link that is new or that it had dropped: earlier reports are
 * about a closed link.
 */
void sim_check_link_asked(struct sim *sim, struct sim_peer *from, const struct pccl_id *to)
{
    if (find_heard(from, to) != NULL)
        note_heard(sim, from, to, false);
}

static bool is_up(struct sim *sim, const struct sim_master *master, const struct pccl_id *from,
                  const struct pccl_id *to, uint64_t *down_since)
{
    const struct sim_peer *peer = sim_peer_find(sim, from);
    const struct link_heard *heard =
        peer != NULL && peer->heard_boot == master->config.boot ? find_heard(peer, to) : NULL;
    *down_since = heard != NULL && !heard->up ? heard->down_since : UINT64_MAX;
    return heard != NULL && heard->up;
}

/* ---- hubs ---- */

/* Notes the hubs that a committed operation, called by all members, justifies, and for how long. */
void sim_check_direct_use(struct sim *sim, const struct sim_master *master, const struct sim_instance *instance,
                          const struct sim_launch *launch)
{
    const struct pccl_descriptor *descriptor = &launch->descriptor;
    const uint8_t collective = descriptor->collective;
    bool to = collective == PCCL_GATHER || collective == PCCL_GATHER_V;
    bool from = collective == PCCL_SCATTER || collective == PCCL_SCATTER_V;
    bool all = collective == PCCL_ALL_TO_ALL || collective == PCCL_ALL_TO_ALL_V || collective == PCCL_EXCLUSIVE_SCAN ||
               collective == PCCL_INCLUSIVE_SCAN;
    if (launch->tiny || instance->name.subgroup != 0 || !(to || from || all))
        return;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        const struct pccl_remote *remote = pccl_master_find(master->machine, &peer->id);
        bool concerns = remote != NULL && remote->group_number == instance->group && remote->group != NULL &&
                        (all || pccl_id_equal(&descriptor->root, &peer->id));
        uint64_t now = 1 + master->machine->rounds[PCCL_ROUND_UPDATE];
        if (concerns && (to || all))
            peer->to_hub_asked = now;
        if (concerns && from)
            peer->from_hub_asked = now;
    }
}

/* D7: the hubs of a view are members with operations that requested this; D8: lately. */
static void check_hubs(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group,
                       bool whole)
{
    const struct pccl_master *m = master->machine;
    const bool may_have_hubs = group->ring_count > PCCL_MESH_PEERS_MAX && group->ring_count <= PCCL_HUB_PEERS_MAX &&
                               group->ring_count - 1 <= m->config.hub_links;
    const uint64_t known = may_have_hubs ? UINT64_MAX >> (PCCL_HUB_PEERS_MAX - group->ring_count) : 0;
    if (((group->cost.to_hubs | group->cost.from_hubs) & ~known) != 0)
        sim_fail(sim, "D7 hubs in a group of %u, or such as are no members", group->ring_count);
    for (uint32_t i = 0; known != 0 && i < group->ring_count; i++) {
        const struct sim_peer *peer = sim_peer_find(sim, &group->ring[i]->id);
        bool to = (group->cost.to_hubs >> group->ring[i]->rank & 1) != 0;
        bool from = (group->cost.from_hubs >> group->ring[i]->rank & 1) != 0;
        if (peer == NULL || (to && peer->to_hub_asked == 0) || (from && peer->from_hub_asked == 0))
            sim_fail(sim, "D7 %02x%02x is a hub, and no operation has asked for it", group->ring[i]->id.bytes[0],
                     group->ring[i]->id.bytes[1]);
        uint64_t patience = m->config.hub_updates + 2, now = m->rounds[PCCL_ROUND_UPDATE];
        if (whole && now > sim->checks->first_update + patience &&
            ((to && peer->to_hub_asked + patience < now) || (from && peer->from_hub_asked + patience < now)))
            sim_fail(sim, "D8 %02x%02x is still a hub, and for more than %u updates no operation has used it",
                     group->ring[i]->id.bytes[0], group->ring[i]->id.bytes[1], m->config.hub_updates);
    }
}

/* ---- the checks ---- */

/* Returns true if the view counts on this link in addition to the ring. */
static bool is_counted_on(const struct pccl_peer_group *group, uint32_t i, uint32_t k)
{
    return group->cost.mesh != 0 &&
           pccl_cost_wants(&group->cost, group->ring_count, group->ring[i]->rank, group->ring[k]->rank);
}

static void add_path(struct sim *sim, const struct sim_master *master, const struct pccl_remote *from,
                     const struct pccl_remote *to, struct pccl_cost *cost)
{
    uint64_t rate = 0;
    uint32_t rtt_us = 0;
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    if (intent != NULL && intent->up) {
        rate = intent->rate;
        rtt_us = intent->rtt_us;
    }
    if (figure != NULL && !figure->judged &&
        (figure->source == PCCL_FIGURE_TESTED || figure->source == PCCL_FIGURE_TRAFFIC)) {
        rate = rate != 0 ? rate : figure->rate;
        rtt_us = rtt_us != 0 ? rtt_us : figure->rtt_us;
    }
    if (!sim_path_was_told(sim, master->config.boot, &from->id, &to->id, rate, rtt_us))
        sim_fail(sim, "D4 the master believes of a link what %02x%02x has not told it", from->id.bytes[0],
                 from->id.bytes[1]);
    cost->rtt_us = (uint32_t)pccl_max_u64(cost->rtt_us, rtt_us);
    if (rate != 0)
        cost->rate = cost->rate != 0 ? pccl_min_u64(cost->rate, rate) : rate;
}

/*
 * Returns the figures that the master should have for the group's links: the longest round trip and the lowest rate
 * that peers reported for the ring, or that tests showed. The master may have forgotten figures that it no longer
 * requests, but must not have invented any.
 */
static struct pccl_cost figures_of(struct sim *sim, const struct sim_master *master,
                                   const struct pccl_peer_group *group)
{
    struct pccl_cost cost = {0};
    for (uint32_t i = 0; group->ring_count > 1 && i < group->ring_count; i++) {
        const struct pccl_id *to = &group->ring[(i + 1) % group->ring_count]->id;
        add_path(sim, master, group->ring[i], pccl_master_find(master->machine, to), &cost);
    }
    return cost;
}

/*
 * Checks the figures of every view after an update: they are about right, if all links that it counts on are up; and
 * the figures of future hubs: a view with other figures would end direct exchange until they are.
 */
void sim_check_updated(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    uint64_t joint = pccl_master_joint(m);
    bool decided = sim->checks->master_joint + 1 == joint;
    sim->checks->master_joint = joint;
    if (sim->checks->updating_boot != master->config.boot)
        sim->checks->first_update = m->rounds[PCCL_ROUND_UPDATE];
    sim->checks->updating_boot = master->config.boot;
    for (uint32_t g = 0; decided && g < m->group_count; g++) {
        const struct pccl_peer_group *group = m->groups[g];
        uint64_t since;
        bool whole = true, opening = false;
        for (uint32_t i = 0; i < group->ring_count; i++) {
            for (uint32_t k = 0; k < group->ring_count; k++) {
                bool up = is_up(sim, master, &group->ring[i]->id, &group->ring[k]->id, &since);
                whole = whole && (!is_counted_on(group, i, k) || up);
                opening = opening || (group->cost.mesh != 0 && !up &&
                                      pccl_master_is_link_of_hub(m, group->ring[i], group->ring[k]));
            }
        }
        check_hubs(sim, master, group, whole);
        struct pccl_cost now = figures_of(sim, master, group);
        bool moved = pccl_rtt_moved(group->cost.rtt_us, now.rtt_us) || pccl_rate_moved(group->cost.rate, now.rate);
        if (whole && !opening && moved)
            sim_fail(sim, "D5 after an update the view says %u us and %llu bytes/s, and it is %u and %llu",
                     group->cost.rtt_us, (unsigned long long)group->cost.rate, now.rtt_us,
                     (unsigned long long)now.rate);
    }
}

/*
 * Checks a view when the master makes it. One that only re-plans has the cost data of the view before, which the peers
 * check.
 */
void sim_check_new_view(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group)
{
    uint64_t since;
    struct pccl_cost figures = figures_of(sim, master, group);
    if (!pccl_epoch_equal(&group->firm, &group->view))
        return;
    if (group->cost.rtt_us != figures.rtt_us || group->cost.rate != figures.rate)
        sim_fail(sim, "D4 a new view says %u us and %llu bytes/s, and its links have %u and %llu", group->cost.rtt_us,
                 (unsigned long long)group->cost.rate, figures.rtt_us, (unsigned long long)figures.rate);
    bool is_large = group->ring_count > PCCL_MESH_PEERS_MAX, knows_mesh = !is_large && group->cost.mesh_rate != 0;
    if ((group->cost.mesh_share != 0) != knows_mesh || group->cost.mesh_share > group->cost.mesh_rate)
        sim_fail(sim, "D4 a new view says that pairs carry %llu bytes/s alone and %llu all at once",
                 (unsigned long long)group->cost.mesh_rate, (unsigned long long)group->cost.mesh_share);
    if (group->cost.mesh != 0 &&
        (group->ring_count < 2 || (is_large && (group->cost.to_hubs | group->cost.from_hubs) == 0)))
        sim_fail(sim, "D1 direct exchange in a group of %u", group->ring_count);
    sim->totals.hub_views += is_large && group->cost.mesh != 0;
    check_hubs(sim, master, group, false);
    for (uint32_t i = 0; i < group->ring_count; i++)
        for (uint32_t k = 0; k < group->ring_count; k++)
            if (is_counted_on(group, i, k) && !is_up(sim, master, &group->ring[i]->id, &group->ring[k]->id, &since))
                sim_fail(sim, "D1 direct exchange in view %u.%llu, but nobody said that %02x%02x reaches %02x%02x",
                         group->view.inc, (unsigned long long)group->view.number, group->ring[i]->id.bytes[0],
                         group->ring[i]->id.bytes[1], group->ring[k]->id.bytes[0], group->ring[k]->id.bytes[1]);
}

/*
 * Checks that a peer removed because of a link was, in the ring of its group's view, next to the other end of an
 * unreachable link. That view need not be the latest: a restarted master does not know a view that no peer has
 * received.
 */
void sim_check_unreachable(struct sim *sim, const struct sim_master *master, const struct sim_peer *peer)
{
    struct pccl_master *m = master->machine;
    const struct pccl_peer_group *group = pccl_master_group(m, peer->group, false);
    const struct view_seen *view = group != NULL ? sim_view_find(sim, &m->lineage, peer->group, &group->view) : NULL;
    uint64_t since;
    for (uint32_t i = 0; view != NULL && i < view->count; i++) {
        const struct pccl_id *from = &view->ring[i], *to = &view->ring[(i + 1) % view->count];
        if ((pccl_id_equal(from, &peer->id) || pccl_id_equal(to, &peer->id)) && !is_up(sim, master, from, to, &since))
            return;
    }
    const struct pccl_remote *remote = pccl_master_find(m, &peer->id);
    const struct sim_peer *apart = NULL; /* the ring that remains after a death may have no place for it */
    for (uint32_t i = 0; remote != NULL && i < sim->peer_count; i++)
        if (strstr(remote->reason.bytes, pccl_id_str(&sim->peers[i]->id)) != NULL &&
            sim_net_between(sim, &peer->process, &sim->peers[i]->process) != SIM_WHOLE)
            apart = sim->peers[i];
    if (view != NULL && (apart == NULL || strstr(remote->reason.bytes, "port of neither") == NULL))
        sim_fail(sim, "D2 p%u is removed for a link that is not in its ring", peer->process.number);
}

/* Returns true if the master can receive from it, with the earliest start of that time. */
static bool is_well(const struct pccl_master *m, const struct sim_peer *peer, const struct pccl_remote *remote,
                    uint64_t *since)
{
    bool heard = remote->conn != 0 && m->now_us < remote->received_us + m->config.heartbeat_ms * UINT64_C(2000);
    if (peer == NULL || !peer->process.alive || !sim_process_runs(&peer->process) || !heard)
        return false;
    *since = pccl_max_u64(*since, pccl_max_u64(peer->unwell_until, peer->master_unwell_until));
    return true;
}

/* Returns true if a failure of this very link has been reported, and its time to settle runs. */
static bool is_settling(const struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < m->edge_count; i++)
        if (m->edges[i].act_us != 0 && pccl_id_equal(&m->edges[i].from, from) && pccl_id_equal(&m->edges[i].to, to))
            return true;
    return false;
}

/* Checks that a link that stays down ends direct exchange. Called from time to time. */
void sim_check_meshes(struct sim *sim)
{
    const struct sim_master *master = sim->master;
    const struct pccl_master *m = sim_master_is_up(sim) ? master->machine : NULL;
    for (uint32_t g = 0; m != NULL && !m->recovering && g < m->group_count; g++) {
        const struct pccl_peer_group *group = m->groups[g];
        for (uint32_t i = 0; i < group->ring_count; i++) {
            const struct sim_peer *from = sim_peer_find(sim, &group->ring[i]->id);
            for (uint32_t k = 0; from != NULL && k < group->ring_count; k++) {
                uint64_t since = 0;
                if (!is_counted_on(group, i, k) || is_up(sim, master, &from->id, &group->ring[k]->id, &since) ||
                    since == UINT64_MAX)
                    continue;
                /* The master waits until both ends have reported: a silent one may be dead. */
                const struct sim_peer *to = sim_peer_find(sim, &group->ring[k]->id);
                if (!is_well(m, from, group->ring[i], &since) || !is_well(m, to, group->ring[k], &since) ||
                    is_settling(m, &from->id, &group->ring[k]->id))
                    continue;
                if (sim->now > since + PATIENCE_US)
                    sim_fail(sim, "D3 %02x%02x has not reached %02x%02x for %.1f s, and the view says it does",
                             from->id.bytes[0], from->id.bytes[1], group->ring[k]->id.bytes[0],
                             group->ring[k]->id.bytes[1], (double)(sim->now - since) / 1e6);
            }
        }
    }
}

/* ---- needed links, as far as the peer's machine knows ---- */

static bool sends_to(const struct pccl_peer *m, const struct pccl_id *to)
{
    for (const struct pccl_peer_op *op = m->oldest; op != NULL; op = op->newer) {
        const struct pccl_id *other = op->started && op->state < PCCL_OP_DECIDED && op->instance.pair != 0
                                          ? pccl_peer_other_of(m, op->instance.pair)
                                          : NULL;
        if (other != NULL && pccl_id_equal(other, to) && pccl_id_equal(&op->descriptor.root, &m->config.id))
            return true;
    }
    return false;
}

/* Returns true if the link is needed, apart from sends that have ended lately. */
static bool is_needed(const struct sim_peer *peer, const struct pccl_id *to)
{
    const struct pccl_peer *m = peer->machine;
    uint32_t own = pccl_peer_position_of(m, &peer->id), other = pccl_peer_position_of(m, to);
    const struct pccl_id *next = pccl_peer_successor(m);
    if (!pccl_peer_knows_member(m, to) || (next != NULL && pccl_id_equal(next, to)) || sends_to(m, to) ||
        (own < m->group.count && other < m->group.count && pccl_cost_wants(&m->group.cost, m->group.count, own, other)))
        return true;
    for (uint32_t i = 0; i < m->link_count; i++)
        if (m->links[i].warm && pccl_id_equal(&m->links[i].id, to))
            return true; /* the master has requested it */
    for (const struct pccl_peer_subgroup *s = NULL; (s = pccl_peer_next_subgroup(m, s)) != NULL;)
        if (!s->all.ended && pccl_id_find(s->all.ring, s->all.count, to) < s->all.count)
            return true;
    return false;
}

/* D9: a peer dials no member without a need. */
void sim_check_dialed(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to)
{
    if (peer->machine->state == PCCL_PEER_MEMBER && !is_needed(peer, to))
        sim_fail(sim, "D9 p%u dials %02x%02x, and nothing needs that link", peer->process.number, to->bytes[0],
                 to->bytes[1]);
}

/* D9, from time to time: each link is needed, or was needed until recently. */
void sim_check_idle_links(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive || peer->machine == NULL || peer->machine->state != PCCL_PEER_MEMBER)
            continue;
        uint64_t patience = peer->config.send_idle_ms * SIM_MS + PATIENCE_US;
        for (uint32_t k = 0; k < peer->link_count; k++) {
            struct sim_link *link = &peer->links[k];
            if (link->incoming || !link->up || !sim_peer_runs(peer) || is_needed(peer, &link->peer) ||
                link->needed_at == 0)
                link->needed_at = sim->now;
            if (sim->now > link->needed_at + patience)
                sim_fail(sim, "D9 p%u holds a link to %02x%02x, which nothing has needed for %.1f s",
                         peer->process.number, link->peer.bytes[0], link->peer.bytes[1],
                         (double)(sim->now - link->needed_at) / 1e6);
        }
    }
}
