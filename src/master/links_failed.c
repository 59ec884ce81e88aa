/*
 * Decides on links between living peers that were not restored in time (PROTOCOL 9.4): changes the ring, stops direct
 * exchange, or removes one end.
 */
#include "master/links_internal.h"
#include "master/shortages.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/operations.h"
#include "master/membership.h"

/* ---- edges that were not restored ---- */

static bool is_in_group(const struct pccl_master *m, const struct pccl_id *id, const struct pccl_peer_group *group)
{
    const struct pccl_remote *remote = pccl_master_find(m, id);
    return remote != NULL && pccl_master_is_living_member(remote) && remote->group == group;
}

/* Returns true if this end reported, at most silence_ms before the edge failed, that it cannot open or accept links. */
static bool lacks(const struct pccl_master *m, const struct pccl_edge *edge, const struct pccl_remote *end)
{
    uint64_t silence_us = m->config.silence_ms * UINT64_C(1000);
    return pccl_master_reported_shortage_since(end, edge->failed_us - pccl_min_u64(edge->failed_us, silence_us));
}

/*
 * Returns true if there is more evidence than the sender's report that this end is unreachable: a report from this end,
 * even one that it accepts no links; a failed dial by the master; or reports from most of the group. A sender that
 * cannot dial proves nothing. Accepts evidence that was fresh when the edge failed and all later evidence, regardless
 * of how long the edge has settled and how often its sender has repeated the report.
 */
static bool is_confirmed(const struct pccl_master *m, const struct pccl_edge *edge, const struct pccl_remote *to)
{
    uint32_t against = 0;
    if (edge->how == 0)
        return false;
    if (lacks(m, edge, to))
        return true;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *other = &m->edges[i];
        bool failed = other->how != 0 && pccl_master_is_failed_dialing(other->incoming && !other->dialed, other->how);
        if (other->since_us == 0 || edge->failed_us >= other->since_us + m->config.silence_ms * UINT64_C(1000))
            continue;
        if (pccl_id_equal(&other->from, &edge->to) && pccl_id_equal(&other->to, &edge->from) &&
            (failed || other->how == PCCL_LINK_SILENT))
            return true;
        against += failed && pccl_id_equal(&other->to, &edge->to) && is_in_group(m, &other->from, to->group);
    }
    return 2 * against > to->group->ring_count || (to->verified && to->unanswered_us >= edge->failed_us);
}

/*
 * Gives up an edge of the ring (PROTOCOL 9.4): changes to another ring if one exists, or else removes one end. The end
 * that is removed is the first of these: the dialed end if it reports that it accepts no links, the end with fewer good
 * edges, the end that does not answer, the younger end. A sender whose report is not confirmed is removed instead.
 * Before that, the master waits, for the silence limit at most, while its own dial of the other end is under way or
 * that end has not answered.
 */
static void give_up_edge(struct pccl_master *m, struct pccl_edge *edge, struct pccl_remote *from,
                         struct pccl_remote *to)
{
    PCCL_ASSERT(from->group != NULL && from->group == to->group);
    edge->bad_until_us = m->now_us + m->config.bad_edge_ms * UINT64_C(1000);
    struct pccl_text why;
    if (pccl_master_avoid_link(m, from, to, &why)) {
        pccl_master_end_linked_subgroups(m, from, to);
        from->group->changed = true;
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, &why);
        return;
    }
    if (pccl_master_are_apart(from, to) && pccl_master_remove_unlinkable(m, from->group))
        return;
    bool confirmed = is_confirmed(m, edge, to), has_answered = pccl_master_has_received_since(to, edge->failed_us);
    bool may_be_confirmed = edge->how != 0 && m->now_us < edge->failed_us + m->config.silence_ms * UINT64_C(1000);
    if (!confirmed && may_be_confirmed && (to->probing || !has_answered)) {
        edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        return;
    }
    uint32_t bad_from, bad_to;
    pccl_master_count_bad_links(m, from, to, &bad_from, &bad_to);
    /* Only a shortage at the dialed end matters, because an edge whose sender cannot dial is never confirmed. */
    bool remove_from =
        !confirmed || (!lacks(m, edge, to) &&
                       (bad_from > bad_to || (bad_from == bad_to && has_answered && from->arrival > to->arrival)));
    struct pccl_remote *removed = remove_from ? from : to, *kept = remove_from ? to : from;
    pccl_text_format(&why, "its link to peer %s failed, and no ring without that link exists%s", pccl_id_str(&kept->id),
                     pccl_master_is_unreached(from) && pccl_master_is_unreached(to)
                         ? ": the master can reach the port of neither"
                         : "");
    const struct pccl_remote *short_end = lacks(m, edge, removed) ? removed : lacks(m, edge, kept) ? kept : NULL;
    if (short_end != NULL) {
        pccl_text_append(&why, ": ");
        pccl_master_describe_shortage(short_end, &why);
    }
    pccl_master_remove(m, removed, PCCL_REFUSAL_UNREACHABLE, "%s", why.bytes);
}

static bool is_due(const struct pccl_master *m, const struct pccl_edge *edge)
{
    return edge->act_us != 0 && m->now_us >= edge->act_us;
}

static void give_up_ring_edges(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!is_due(m, edge) || !pccl_master_ends_of(m, edge, &from, &to) || !pccl_master_are_neighbors(from, to))
            continue;
        edge->act_us = 0;
        /*
         * Gives up only edges that failed in the present ring. By now the other links of that ring have been tried, so
         * more evidence exists.
         */
        if (edge->failed_us > from->group->ring_us)
            give_up_edge(m, edge, from, to);
    }
}

/* Returns the time by which all failing edges of the group's ring will have been decided; 0 if none is failing. */
static uint64_t ring_decided_at(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    uint64_t at_us = 0;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (edge->act_us != 0 && pccl_master_ends_of(m, edge, &from, &to) && from->group == group &&
            pccl_master_are_neighbors(from, to))
            at_us = pccl_max_u64(at_us, edge->act_us);
    }
    return at_us;
}

/*
 * Gives up edges outside the ring without removing a peer: the members stop exchanging directly, and subgroups that
 * depend on the edge are ended. Waits if the ring is about to change or an end is about to be removed as silent,
 * because one view can cover both, so that one death causes only one failure.
 */
static void give_up_edges_beside(struct pccl_master *m)
{
    bool any = false;
    struct pccl_text why;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!is_due(m, edge))
            continue;
        edge->act_us = 0;
        bool needed = pccl_master_ends_of(m, edge, &from, &to);
        if (from == NULL || to == NULL || pccl_master_holds_link(from, to))
            continue;
        pccl_master_give_up_asked_link(m, from, to);
        if (!needed)
            continue;
        bool mesh = pccl_master_exchanges_directly(from, to) && !from->group->changed;
        if (!mesh && !pccl_master_serves_subgroups(from, to))
            continue;
        edge->act_us = ring_decided_at(m, from->group);
        if (edge->act_us == 0 && (!pccl_master_has_received_since(from, edge->since_us) ||
                                  !pccl_master_has_received_since(to, edge->since_us)))
            edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        if (edge->act_us != 0)
            continue;
        pccl_master_end_linked_subgroups(m, from, to);
        if (!mesh)
            continue;
        pccl_master_bar_hubs(m, from, to);
        pccl_text_format(&why, "the link from peer %s to peer %s failed: no direct exchange%s", pccl_id_str(&from->id),
                         pccl_id_str(&to->id), pccl_master_is_small(from->group->ring_count) ? "" : " over it");
        pccl_master_log(
            m, PCCL_LOG_WARN,
            &(struct pccl_log_fields){.peer = &from->id, .reason = why.bytes, .event = PCCL_EVENT_LINK_FAILED}, "%s",
            why.bytes);
        from->group->changed = any = true;
    }
    if (any)
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, &why);
}

void pccl_master_decide_failed_links(struct pccl_master *m)
{
    give_up_ring_edges(m);
    if (m->departing_count == 0)
        give_up_edges_beside(m);
    for (uint32_t i = 0; i < m->edge_count;) {
        struct pccl_edge *edge = &m->edges[i];
        /* twice the limit, because a decision may need evidence that was fresh when another edge failed */
        bool fresh =
            m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(2000) || m->now_us < edge->bad_until_us;
        if (edge->act_us != 0) /* overdue if a peer departs: the view without it is created first */
            pccl_master_arm(m, pccl_max_u64(m->now_us, edge->act_us));
        if (!fresh && edge->act_us == 0)
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}
