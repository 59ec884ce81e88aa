/*
 * What peers report of links that are not as they should be: evidence of deaths (PROTOCOL 9.2), and edges that failed
 * between living peers (9.4).
 */
#include "master/eligibility.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/queues.h"
#include "master/roster.h"
#include "master/rounds.h"
#include "master/tuning.h"
#include "master/views.h"
#include "topology/ring.h"
#include "wire/cost.h"

#include <string.h>

enum { LOOK_AGAIN_US = 50000 };

/* ---- evidence of death ---- */

static struct pccl_edge *find_edge(const struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to,
                                   bool incoming)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        if (edge->incoming == incoming && pccl_id_equal(&edge->from, from) && pccl_id_equal(&edge->to, to))
            return edge;
    }
    return NULL;
}

void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_id *to, bool incoming,
                           enum pccl_link_end how)
{
    struct pccl_edge *edge = find_edge(m, from, to, incoming);
    if (edge == NULL) {
        struct pccl_edge *edges = m->edge_count < PCCL_EDGES_MAX ? pccl_grow(&m->memory, m->edges, &m->edge_capacity,
                                                                             m->edge_count + 1, sizeof *edges)
                                                                 : NULL;
        if (edges == NULL)
            return; /* evidence lost; silence still tells */
        m->edges = edges;
        edge = &edges[m->edge_count++];
        *edge = (struct pccl_edge){.from = *from, .to = *to, .incoming = incoming};
    }
    edge->how = how;
    edge->since_us = m->now_us;
}

void pccl_master_forget_edges(struct pccl_master *m, const struct pccl_remote *gone)
{
    for (uint32_t i = 0; i < m->edge_count;) {
        if (pccl_id_equal(&m->edges[i].to, &gone->id) || pccl_id_equal(&m->edges[i].from, &gone->id))
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}

/* Its dialing was answered by nobody, or by somebody else: more than a link that ended. */
static bool is_failed_dialing(bool incoming, enum pccl_link_end how)
{
    return !incoming && how != PCCL_LINK_CLOSED && how != PCCL_LINK_SILENT;
}

static bool is_evidence(enum pccl_link_end how, bool strict)
{
    return how == PCCL_LINK_REFUSED || how == PCCL_LINK_OTHER || (!strict && how == PCCL_LINK_CLOSED);
}

static bool is_fresh(const struct pccl_master *m, const struct pccl_edge *edge)
{
    return edge->since_us != 0 && m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
}

/* How many have seen within the silence limit that this peer's process is gone; strict: by dialing it. */
static uint32_t count_witnesses(const struct pccl_master *m, const struct pccl_id *id, bool strict)
{
    const struct pccl_id *first = NULL;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        if (!pccl_id_equal(&edge->to, id) || !is_evidence(edge->how, strict) || !is_fresh(m, edge) ||
            !pccl_master_is_witness(m, &edge->from, id))
            continue;
        if (first != NULL && !pccl_id_equal(first, &edge->from))
            return 2; /* more do not matter */
        first = &edge->from;
    }
    return first != NULL;
}

bool pccl_master_is_dead(const struct pccl_master *m, const struct pccl_id *id)
{
    return count_witnesses(m, id, true) > 0;
}

static void probe_again_later(struct pccl_master *m, struct pccl_remote *remote)
{
    remote->look_again_us = m->now_us + LOOK_AGAIN_US;
    pccl_master_arm(m, remote->look_again_us);
}

void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote)
{
    if (m->shut)
        return;
    remote->probe_again = remote->probing;
    if (remote->probing)
        return;
    remote->probing = true;
    remote->look_again_us = 0;
    if (!m->effects.probe(m->effects.context, &remote->id, &m->lineage, &remote->observed))
        probe_again_later(m, remote);
}

/*
 * Its control connection is closed. One member that says its process is gone may lie: then the master looks for itself,
 * unless it could never reach that port.
 */
static bool is_gone(const struct pccl_master *m, const struct pccl_remote *remote)
{
    uint32_t witnesses = count_witnesses(m, &remote->id, m->recovering);
    return witnesses > 1 || (witnesses == 1 && !remote->verified);
}

/* The master's own dial: nobody listens there, or another; or it was closed, as somebody else says of its link. */
static bool has_seen_it_gone(const struct pccl_master *m, const struct pccl_master_event *event)
{
    return is_evidence(event->how, true) ||
           (event->how == PCCL_LINK_CLOSED && count_witnesses(m, &event->peer, m->recovering) > 0);
}

/*
 * It says hello, and listens nowhere: others would wait for it in vain. Where its group has members they dial it, and
 * who has addresses that the master does not dial may be reached there.
 */
static bool is_nobody(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_master_event *event)
{
    if (event->how != PCCL_LINK_REFUSED || remote->verified || remote->state != PCCL_REMOTE_PENDING || !m->founded ||
        m->recovering || m->member_count == 0)
        return false;
    const struct pccl_peer_group *group = pccl_master_group(m, remote->group_number, false);
    struct pccl_address addresses[PCCL_CANDIDATES_MAX];
    return (group == NULL || group->ring_count == 0) && pccl_master_addresses(remote, addresses) == 1;
}

void pccl_master_probe_if_due(struct pccl_master *m, struct pccl_remote *remote)
{
    if (remote->look_again_us == 0)
        return;
    if (m->now_us < remote->look_again_us) {
        pccl_master_arm(m, remote->look_again_us);
        return;
    }
    remote->probing = false; /* else somebody would be asked just now */
    pccl_master_probe(m, remote);
}

void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_remote *remote = pccl_master_find(m, &event->peer);
    if (remote == NULL || remote->departing)
        return;
    if (!event->answered && event->how == 0) {
        probe_again_later(m, remote); /* and `probing` until somebody was asked */
        return;
    }
    remote->probing = false;
    remote->verified = remote->verified || event->answered;
    remote->unanswered_us = event->answered ? 0 : m->now_us;
    if (remote->probe_again)
        pccl_master_probe(m, remote); /* it was asked for after this one had begun */
    else if (event->answered)
        return;
    else if (remote->conn == 0 && remote->verified && has_seen_it_gone(m, event))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection closed and its port does not answer");
    else if (remote->conn == 0 && remote->verified && event->how == PCCL_LINK_CLOSED)
        probe_again_later(
            m, remote); /* a dying process closes one thing after another: its port may still have taken this */
    else if (remote->conn == 0 && remote->verified)
        return; /* silence will tell */
    else if (is_nobody(m, remote, event))
        pccl_master_remove(m, remote, PCCL_REFUSAL_NOT_WARM,
                           "no answer at the port where others must reach it (is it forwarded?)");
    else if (!remote->verified) {
        pccl_master_log(
            m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_NEWCOMER},
            "the master cannot reach the port of peer %s: its death may be noticed late", pccl_id_str(&remote->id));
        pccl_master_send_heartbeat(m, remote, true); /* it may be waiting for its answer (eligibility.c) */
    }
}

void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->conn != 0);
    pccl_table_remove(&m->by_conn, &remote->by_conn);
    remote->conn = 0;
    if (remote->departing)
        return;
    pccl_master_log(m, PCCL_LOG_DEBUG,
                    &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_MEMBERSHIP},
                    "the control connection of peer %s is lost", pccl_id_str(&remote->id));
    pccl_master_arm(m, remote->heard_us + m->config.silence_ms * UINT64_C(1000));
    if (is_gone(m, remote))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection and its links closed");
    else if (remote->verified)
        pccl_master_probe(m, remote);
}

/* ---- edges between the living ---- */

/* The link counts for whether a newcomer could be admitted. */
static void recheck_newcomers(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from->queue != NULL)
        pccl_master_recheck_queue(m, from->group_number);
    if (to != NULL && to->queue != NULL)
        pccl_master_recheck_queue(m, to->group_number);
}

/* It has not said so before, or not of the ring that is: then what becomes of the edge is decided later. */
static bool is_news(const struct pccl_edge *edge, const struct pccl_remote *from)
{
    return edge->act_us == 0 || (from->group != NULL && edge->failed_us <= from->group->ring_us);
}

void pccl_master_link_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost)
{
    struct pccl_remote *to = pccl_master_find(m, &lost->peer);
    enum pccl_link_end how = (enum pccl_link_end)lost->how;
    bool incoming = lost->incoming != 0;
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &lost->peer);
    if (intent != NULL && !incoming) {
        intent->up = false;
        intent->failed = is_failed_dialing(incoming, how);
        recheck_newcomers(m, from, to);
        if (from->group != NULL && from->group->tuning.better != NULL)
            pccl_master_arm(m, m->now_us); /* a round may wait for this link */
    }
    bool counts = m->recovering ? from->state == PCCL_REMOTE_RESUMING : pccl_master_is_living_member(from);
    if (!counts || (to == NULL && !m->recovering) || (to != NULL && to->departing))
        return;
    pccl_master_note_edge(m, &from->id, &lost->peer, incoming, how);
    if (to == NULL) {
        pccl_master_mark(m, PCCL_STAGE_RECOVERY);
        return;
    }
    if (to->conn == 0 && is_gone(m, to)) {
        pccl_master_remove(m, to, PCCL_REFUSAL_GONE, "its control connection closed, and its link to peer %s",
                           pccl_id_str(&from->id));
        return;
    }
    bool look = to->conn == 0;
    pccl_master_send_heartbeat(m, from, true);
    pccl_master_send_heartbeat(m, to, true);
    struct pccl_edge *edge = find_edge(m, &from->id, &to->id, incoming);
    if (edge != NULL && is_failed_dialing(incoming, how) && is_news(edge, from)) {
        edge->failed_us = m->now_us;
        edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        pccl_master_arm(m, edge->act_us);
        look = true; /* what it says is not all that decides */
    }
    if (look && to->verified)
        pccl_master_probe(m, to);
}

void pccl_master_link_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_up *up)
{
    const struct pccl_id *to = &up->peer;
    struct pccl_edge *edge = find_edge(m, &from->id, to, false);
    if (edge != NULL) {
        edge->act_us = edge->bad_until_us = 0;
        edge->since_us = 0; /* no evidence any more */
    }
    struct pccl_link_intent *intent = pccl_master_find_intent(from, to);
    struct pccl_remote *remote = pccl_master_find(m, to);
    if (intent == NULL || remote == NULL)
        return; /* not of interest any more */
    pccl_master_note_traffic(m, from, remote, up->rtt_us, pccl_min_u64(up->rate, PCCL_RATE_MOST));
    bool stood = intent->up && up->rate != 0; /* only measured: says nothing about who is alive */
    if (up->rtt_us != 0)
        intent->rtt_us = up->rtt_us;
    if (up->rate != 0)
        intent->rate = pccl_min_u64(up->rate, PCCL_RATE_MOST);
    if (stood)
        return;
    edge = find_edge(m, to, &from->id, true);
    if (edge != NULL)
        edge->since_us = 0; /* the other end's complaint about the link before */
    intent->up = true;
    intent->failed = false;
    recheck_newcomers(m, from, remote);
    pccl_master_link_mended(m, from, remote);
    if (remote->group != NULL && remote->group->tuning.better != NULL)
        pccl_master_mark(m, PCCL_STAGE_ROUNDS); /* one may wait for this link */
}

/* ---- rings ---- */

/* Pairs of members that should not be neighbors, by their positions: a symmetric matrix of bits. */
struct pairs {
    uint32_t count, reason; /* members; 64-bit words of a row */
    uint64_t *rows;
};

static bool get_pair(const struct pairs *pairs, uint32_t a, uint32_t b)
{
    return (pairs->rows[(size_t)a * pairs->reason + b / 64] >> b % 64 & 1) != 0;
}

static bool bad_pair(void *context, uint32_t a, uint32_t b) { return get_pair(context, a, b); }

static void set_pair(struct pairs *pairs, uint32_t a, uint32_t b)
{
    PCCL_ASSERT(a < pairs->count && b < pairs->count);
    pairs->rows[(size_t)a * pairs->reason + b / 64] |= UINT64_C(1) << b % 64;
    pairs->rows[(size_t)b * pairs->reason + a / 64] |= UINT64_C(1) << a % 64;
}

static size_t pairs_bytes(const struct pairs *pairs) { return (size_t)pairs->count * pairs->reason * 8; }

/* The bad edges of a group, and if `failing` also those that are reported to fail right now. false: no memory. */
static bool collect_pairs(struct pccl_master *m, const struct pccl_peer_group *group, bool failing, struct pairs *pairs)
{
    pairs->count = group->ring_count;
    pairs->reason = (group->ring_count + 63) / 64;
    pairs->rows = pccl_allocate(&m->memory, pairs_bytes(pairs));
    for (uint32_t i = 0; pairs->rows != NULL && i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        bool fails = failing && is_failed_dialing(edge->incoming, edge->how) &&
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

/*
 * Does anybody but its sender say that this end cannot be reached? The end itself, the master's own dial, or most of
 * the group. What was fresh when the edge failed counts, and what was said and seen since, however long it has settled
 * and however often its sender has said it again.
 */
static bool is_confirmed(const struct pccl_master *m, const struct pccl_edge *edge, const struct pccl_remote *to)
{
    uint32_t against = 0;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *other = &m->edges[i];
        bool failed = is_failed_dialing(other->incoming, other->how);
        if (other->since_us == 0 || edge->failed_us >= other->since_us + m->config.silence_ms * UINT64_C(1000))
            continue;
        if (pccl_id_equal(&other->from, &edge->to) && pccl_id_equal(&other->to, &edge->from) &&
            (failed || other->how == PCCL_LINK_SILENT))
            return true;
        against += failed && pccl_id_equal(&other->to, &edge->to) && is_in_group(m, &other->from, to->group);
    }
    return 2 * against > to->group->ring_count || (to->verified && to->unanswered_us >= edge->failed_us);
}

/* Both ends are asked for an answer when a link is lost. Who is silent may be gone altogether. */
static bool was_heard_since(const struct pccl_remote *remote, uint64_t since_us)
{
    return remote->conn != 0 && remote->heard_us >= since_us;
}

/*
 * PROTOCOL 9.4. Another ring; if there is none, the end with fewer good edges goes, then one that does not answer, then
 * the younger; but whoever is alone in what it says goes itself. Before that the master looks for itself, and waits for
 * the other end's answer: for the silence limit, if it cannot look so long.
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
        group->changed = true;
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, &why);
        return;
    }
    bool confirmed = is_confirmed(m, edge, to), heard = was_heard_since(to, edge->failed_us);
    bool more_may_come = m->now_us < edge->failed_us + m->config.silence_ms * UINT64_C(1000);
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
    bool from_goes = !confirmed || bad_from > bad_to || (bad_from == bad_to && heard && from->arrival > to->arrival);
    struct pccl_remote *goes = from_goes ? from : to, *stays = from_goes ? to : from;
    pccl_master_remove(m, goes, PCCL_REFUSAL_UNREACHABLE,
                       "its link to peer %s failed, and there is no ring without that link", pccl_id_str(&stays->id));
}

static bool is_due(const struct pccl_master *m, const struct pccl_edge *edge)
{
    return edge->act_us != 0 && m->now_us >= edge->act_us;
}

/* Both ends, if they are members of one group that need this link; else false. */
static bool ends_of(const struct pccl_master *m, const struct pccl_edge *edge, struct pccl_remote **from,
                    struct pccl_remote **to)
{
    *from = pccl_master_find(m, &edge->from);
    *to = pccl_master_find(m, &edge->to);
    return !m->recovering && *from != NULL && *to != NULL && pccl_master_is_living_member(*from) &&
           pccl_master_is_living_member(*to) && pccl_master_needs_link(*from, *to);
}

static void give_up_ring_edges(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!is_due(m, edge) || !ends_of(m, edge, &from, &to) || !pccl_master_are_neighbors(from, to))
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
        if (edge->act_us != 0 && ends_of(m, edge, &from, &to) && from->group == group &&
            pccl_master_are_neighbors(from, to))
            at_us = pccl_max_u64(at_us, edge->act_us);
    }
    return at_us;
}

/*
 * An edge of the mesh beside the ring: nobody goes, the members just do not exchange directly any more. If the ring is
 * about to change too, or an end to be removed for its silence, that view will do: one death, one failure.
 */
static void give_up_mesh_edges(struct pccl_master *m)
{
    bool any = false;
    struct pccl_text why;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!is_due(m, edge))
            continue;
        edge->act_us = 0;
        if (!ends_of(m, edge, &from, &to) || from->group->cost.mesh == 0 || from->group->changed ||
            pccl_master_holds_link(from, to))
            continue;
        edge->act_us = ring_decided_at(m, from->group);
        if (edge->act_us == 0 && (!was_heard_since(from, edge->since_us) || !was_heard_since(to, edge->since_us)))
            edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        if (edge->act_us != 0)
            continue;
        pccl_text_format(&why, "the link from peer %s to peer %s failed: no direct exchange", pccl_id_str(&from->id),
                         pccl_id_str(&to->id));
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
        give_up_mesh_edges(m);
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

/* The link failed, and one of its ends, a member, has not been heard since. */
static bool has_silent_end(struct pccl_master *m, const struct pccl_edge *edge)
{
    const struct pccl_remote *from = pccl_master_find(m, &edge->from), *to = pccl_master_find(m, &edge->to);
    bool failed = edge->since_us != 0 && m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
    return failed && from != NULL && to != NULL && pccl_master_is_living_member(from) &&
           pccl_master_is_living_member(to) &&
           (!was_heard_since(from, edge->since_us) || !was_heard_since(to, edge->since_us));
}

uint64_t pccl_master_link_decided_at(struct pccl_master *m, const struct pccl_id *peer)
{
    uint64_t at_us = 0;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!pccl_id_equal(&edge->from, peer) && !pccl_id_equal(&edge->to, peer))
            continue;
        if (edge->act_us != 0 && ends_of(m, edge, &from, &to))
            at_us = pccl_max_u64(at_us, edge->act_us);
        if (has_silent_end(m, edge))
            at_us = pccl_max_u64(at_us, m->now_us + m->config.settle_ms * UINT64_C(1000));
    }
    return at_us;
}
