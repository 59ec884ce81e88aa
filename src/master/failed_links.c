/*
 * Links that failed between living peers and were not mended (PROTOCOL 9.4): another ring, no direct exchange, or one
 * end goes. It does not know how links are reported or dialed.
 */
#include "master/edges.h"
#include "master/eligibility.h"
#include "master/hubs.h"
#include "master/lacks.h"
#include "master/links.h"
#include "master/output.h"
#include "master/rings.h"
#include "master/roster.h"
#include "master/subgroups.h"
#include "master/views.h"
#include "topology/ring.h"

/* ---- rings ---- */

/* Pairs of members that should not be neighbors, by their positions: a symmetric matrix of bits. */
struct pairs {
    uint32_t count, row_words; /* members; 64-bit words of a row */
    uint64_t *rows;
};

static bool get_pair(const struct pairs *pairs, uint32_t a, uint32_t b)
{
    return (pairs->rows[(size_t)a * pairs->row_words + b / 64] >> b % 64 & 1) != 0;
}

static bool bad_pair(void *context, uint32_t a, uint32_t b) { return get_pair(context, a, b); }

static void set_pair(struct pairs *pairs, uint32_t a, uint32_t b)
{
    PCCL_ASSERT(a < pairs->count && b < pairs->count);
    pairs->rows[(size_t)a * pairs->row_words + b / 64] |= UINT64_C(1) << b % 64;
    pairs->rows[(size_t)b * pairs->row_words + a / 64] |= UINT64_C(1) << a % 64;
}

static size_t pairs_bytes(const struct pairs *pairs) { return (size_t)pairs->count * pairs->row_words * 8; }

/* The bad edges of a group, and if `failing` also those that are reported to fail right now. false: no memory. */
static bool collect_pairs(struct pccl_master *m, const struct pccl_peer_group *group, bool failing, struct pairs *pairs)
{
    pairs->count = group->ring_count;
    pairs->row_words = (group->ring_count + 63) / 64;
    pairs->rows = pccl_allocate(&m->memory, pairs_bytes(pairs));
    for (uint32_t i = 0; pairs->rows != NULL && i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        bool fails = failing && pccl_master_is_failed_dialing(edge->incoming, edge->how) &&
                     m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
        if (!fails && m->now_us >= edge->bad_until_us)
            continue;
        const struct pccl_remote *a = pccl_master_find(m, &edge->from), *b = pccl_master_find(m, &edge->to);
        if (a != NULL && b != NULL && a != b && a->group == group && b->group == group)
            set_pair(pairs, a->position, b->position);
    }
    return pairs->rows != NULL;
}

static void drop_pairs(struct pccl_master *m, struct pairs *pairs)
{
    pccl_release(&m->memory, pairs->rows, pairs_bytes(pairs));
}

/* Gives the group a ring without these pairs. false: there is none (or no memory to look for it); the ring is as it
 * was. */
static bool reorder(struct pccl_master *m, struct pccl_peer_group *group, struct pairs *pairs)
{
    uint32_t count = group->ring_count;
    uint32_t *order = pccl_allocate(&m->memory, 2 * count * sizeof *order);
    bool found = false;
    if (order != NULL) {
        for (uint32_t i = 0; i < count; i++)
            order[i] = i;
        found =
            pccl_ring_avoiding(order, count, bad_pair, pairs, order + count) && pccl_master_reorder(m, group, order);
    }
    pccl_release(&m->memory, order, 2 * count * sizeof *order);
    return found;
}

/*
 * A ring without what fails right now; else without what is known as bad, since what fails now may be mended soon.
 * false: there is none.
 */
static bool find_better_ring(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool found = false;
    for (int attempt = 0; group->ring_count > 3 && attempt < 2 && !found; attempt++) {
        struct pairs pairs;
        if (!collect_pairs(m, group, attempt == 0, &pairs))
            return false;
        found = reorder(m, group, &pairs);
        drop_pairs(m, &pairs);
    }
    return found;
}

static void log_avoided(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                        struct pccl_text *why)
{
    pccl_text_format(why, "the link from peer %s to peer %s failed and is avoided", pccl_id_str(&from->id),
                     pccl_id_str(&to->id));
    pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &from->id, .reason = why->bytes}, "%s",
                    why->bytes);
}

void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pairs pairs;
    const struct pccl_remote *from = NULL, *to = NULL;
    if (group->ring_count < 4 || m->edge_count == 0 || !collect_pairs(m, group, true, &pairs))
        return;
    for (uint32_t i = 0; i < group->ring_count && from == NULL; i++) {
        uint32_t next = (i + 1) % group->ring_count;
        if (!get_pair(&pairs, i, next) || pccl_master_holds_link(group->ring[i], group->ring[next]))
            continue;
        from = group->ring[i];
        to = group->ring[next];
    }
    drop_pairs(m, &pairs);
    struct pccl_text why;
    if (from != NULL && find_better_ring(m, group)) /* if there is none, dialing decides who goes */
        log_avoided(m, from, to, &why);
}

bool pccl_master_exclude_bad_links(struct pccl_master *m, const struct pccl_peer_group *group, uint64_t *rates)
{
    struct pairs pairs;
    uint32_t count = group->ring_count;
    if (m->edge_count == 0)
        return true;
    if (!collect_pairs(m, group, true, &pairs))
        return false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (get_pair(&pairs, i, k) && !pccl_master_holds_link(group->ring[i], group->ring[k]))
                rates[(size_t)group->ring[i]->number * count + group->ring[k]->number] = PCCL_RATE_NONE;
    drop_pairs(m, &pairs);
    return true;
}

/* ---- edges that were not mended ---- */

static bool is_in_group(const struct pccl_master *m, const struct pccl_id *id, const struct pccl_peer_group *group)
{
    const struct pccl_remote *remote = pccl_master_find(m, id);
    return remote != NULL && pccl_master_is_living_member(remote) && remote->group == group;
}

/* Has this end said, not longer than the silence limit before the edge failed, that it opens or accepts no links? */
static bool lacks(const struct pccl_master *m, const struct pccl_edge *edge, const struct pccl_remote *end)
{
    uint64_t silence_us = m->config.silence_ms * UINT64_C(1000);
    return pccl_master_lacks_since(end, edge->failed_us - pccl_min_u64(edge->failed_us, silence_us));
}

/*
 * Does anybody but its sender say that this end cannot be reached? The end itself (it may also say that it accepts no
 * links), the master's own dial, or most of the group; a sender that cannot dial says nothing about it. What was fresh
 * when the edge failed counts, and what was said and seen since, however long it has settled and however often its
 * sender has said it again.
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
        bool failed = other->how != 0 && pccl_master_is_failed_dialing(other->incoming, other->how);
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
 * PROTOCOL 9.4. Another ring; if there is none, the dialed end goes if it says that it accepts no links, else the end
 * with fewer good edges, then one that does not answer, then the younger; but whoever is alone in what it says goes
 * itself. Before that the master looks for itself, and waits for the other end's answer: for the silence limit, if it
 * cannot look so long.
 */
static void give_up_edge(struct pccl_master *m, struct pccl_edge *edge, struct pccl_remote *from,
                         struct pccl_remote *to)
{
    PCCL_ASSERT(from->group != NULL && from->group == to->group);
    edge->bad_until_us = m->now_us + m->config.bad_edge_ms * UINT64_C(1000);
    struct pccl_peer_group *group = from->group;
    if (find_better_ring(m, group)) {
        struct pccl_text why;
        log_avoided(m, from, to, &why);
        pccl_master_end_linked_subgroups(m, from, to);
        group->changed = true;
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, &why);
        return;
    }
    bool confirmed = is_confirmed(m, edge, to), heard = pccl_master_was_heard_since(to, edge->failed_us);
    bool more_may_come = edge->how != 0 && m->now_us < edge->failed_us + m->config.silence_ms * UINT64_C(1000);
    if (!confirmed && more_may_come && (to->probing || !heard)) {
        edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        return;
    }
    uint32_t bad_from = 0, bad_to = 0;
    struct pairs pairs;
    if (collect_pairs(m, group, true, &pairs)) {
        for (uint32_t i = 0; i < group->ring_count; i++) {
            bad_from += get_pair(&pairs, from->position, i);
            bad_to += get_pair(&pairs, to->position, i);
        }
        drop_pairs(m, &pairs);
    }
    /* The shortage of the dialer explains nothing: one that cannot dial is not confirmed. */
    bool from_goes =
        !confirmed ||
        (!lacks(m, edge, to) && (bad_from > bad_to || (bad_from == bad_to && heard && from->arrival > to->arrival)));
    struct pccl_remote *goes = from_goes ? from : to, *stays = from_goes ? to : from;
    struct pccl_text why;
    pccl_text_format(&why, "its link to peer %s failed, and there is no ring without that link",
                     pccl_id_str(&stays->id));
    const struct pccl_remote *short_end = lacks(m, edge, goes) ? goes : lacks(m, edge, stays) ? stays : NULL;
    if (short_end != NULL) {
        pccl_text_append(&why, ": ");
        pccl_master_describe_lack(short_end, &why);
    }
    pccl_master_remove(m, goes, PCCL_REFUSAL_UNREACHABLE, "%s", why.bytes);
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
        /* Only if it failed in this very ring: then its other links have been tried too, and we choose knowing more. */
        if (edge->failed_us > from->group->ring_us)
            give_up_edge(m, edge, from, to);
    }
}

/* When the last edge of the group's ring that fails now is decided; 0: none fails. */
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
 * An edge beside the ring: nobody goes. The members just do not exchange directly any more, and subgroups that rely on
 * it end. If the ring is about to change too, or an end to be removed for its silence, that view will do: one death,
 * one failure.
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
        bool mesh = pccl_master_goes_directly(from, to) && !from->group->changed;
        if (!mesh && !pccl_master_serves_subgroups(from, to))
            continue;
        edge->act_us = ring_decided_at(m, from->group);
        if (edge->act_us == 0 &&
            (!pccl_master_was_heard_since(from, edge->since_us) || !pccl_master_was_heard_since(to, edge->since_us)))
            edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        if (edge->act_us != 0)
            continue;
        pccl_master_end_linked_subgroups(m, from, to);
        if (!mesh)
            continue;
        pccl_master_bar_hubs(m, from, to);
        pccl_text_format(&why, "the link from peer %s to peer %s failed: no direct exchange%s", pccl_id_str(&from->id),
                         pccl_id_str(&to->id), pccl_master_is_small(from->group->ring_count) ? "" : " over it");
        pccl_master_log(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &from->id, .reason = why.bytes}, "%s",
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
        /* twice the limit: what was fresh when another edge failed bears on that one until it is decided */
        bool fresh =
            m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(2000) || m->now_us < edge->bad_until_us;
        if (edge->act_us != 0) /* overdue: somebody departs, and the view without them comes first */
            pccl_master_arm(m, pccl_max_u64(m->now_us, edge->act_us));
        if (!fresh && edge->act_us == 0)
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}
