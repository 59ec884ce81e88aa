/* Stores reports about failed links as edges, and evaluates them as evidence of a death (PROTOCOL 9.2). */
#include "master/links_internal.h"
#include "master/recovery.h"
#include "master/roster.h"

/* ---- storage ---- */

struct pccl_edge *pccl_master_find_edge(const struct pccl_master *m, const struct pccl_id *from,
                                        const struct pccl_id *to, bool incoming)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        struct pccl_edge *edge = &m->edges[i];
        if (edge->incoming == incoming && pccl_id_equal(&edge->from, from) && pccl_id_equal(&edge->to, to))
            return edge;
    }
    return NULL;
}

void pccl_master_note_edge(struct pccl_master *m, const struct pccl_id *from, const struct pccl_msg_link_lost *lost)
{
    const struct pccl_id *to = &lost->peer;
    bool incoming = lost->incoming != 0;
    struct pccl_edge *edge = pccl_master_find_edge(m, from, to, incoming);
    if (edge == NULL) {
        struct pccl_edge *edges = m->edge_count < PCCL_EDGES_MAX ? pccl_grow(&m->memory, m->edges, &m->edge_capacity,
                                                                             m->edge_count + 1, sizeof *edges)
                                                                 : NULL;
        if (edges == NULL)
            return; /* the evidence is lost, but silence still reveals a death */
        m->edges = edges;
        edge = &edges[m->edge_count++];
        *edge = (struct pccl_edge){.from = *from, .to = *to, .incoming = incoming};
    }
    edge->dialed = lost->incoming == lost->reversed;
    edge->how = (enum pccl_link_end)lost->how;
    edge->since_us = m->now_us;
}

/* ---- evidence of death ---- */

static bool is_fresh(const struct pccl_master *m, const struct pccl_edge *edge)
{
    return edge->since_us != 0 && m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
}

/*
 * Returns true if a report of peer `id` about `of` is valid evidence. The reporter must be a member of the same group,
 * because others have no links to it; while the master recovers, its report must be of the winning epoch.
 */
static bool is_witness(const struct pccl_master *m, const struct pccl_id *id, const struct pccl_id *of)
{
    const struct pccl_remote *remote = pccl_master_find(m, id), *peer = pccl_master_find(m, of);
    if (remote == NULL)
        return false;
    if (m->recovering)
        return pccl_master_is_winning_reporter(m, remote, of);
    return pccl_master_is_living_member(remote) && peer != NULL && remote->group_number == peer->group_number;
}

/*
 * Returns true if the path that failed has led to the peer's port before: the master has reached it, or the reporter
 * has. A connection that the peer itself has dialed, and a port behind a firewall, show nothing. In a recovery members
 * report only ports that they have reached.
 */
static bool has_reached(const struct pccl_master *m, const struct pccl_edge *edge, const struct pccl_remote *peer)
{
    const struct pccl_remote *reporter = pccl_master_find(m, &edge->from);
    const struct pccl_link_intent *intent = reporter != NULL ? pccl_master_find_intent(reporter, &edge->to) : NULL;
    if (peer != NULL && peer->verified)
        return true;
    return edge->dialed && (m->recovering || (intent != NULL && intent->reached));
}

uint32_t pccl_master_count_witnesses(const struct pccl_master *m, const struct pccl_id *id, bool strict,
                                     const struct pccl_id **alone)
{
    const struct pccl_id *first = NULL;
    const struct pccl_remote *peer = pccl_master_find(m, id);
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        if (!pccl_id_equal(&edge->to, id) || !pccl_master_is_evidence(edge->how, strict) || !is_fresh(m, edge) ||
            !has_reached(m, edge, peer) || !is_witness(m, &edge->from, id))
            continue;
        if (first != NULL && !pccl_id_equal(first, &edge->from))
            return 2; /* callers need no higher count */
        first = &edge->from;
    }
    if (alone != NULL)
        *alone = first;
    return first != NULL;
}

/* ---- when failed links are decided ---- */

bool pccl_master_ends_of(const struct pccl_master *m, const struct pccl_edge *edge, struct pccl_remote **from,
                         struct pccl_remote **to)
{
    *from = pccl_master_find(m, &edge->from);
    *to = pccl_master_find(m, &edge->to);
    return !m->recovering && *from != NULL && *to != NULL && pccl_master_is_living_member(*from) &&
           pccl_master_is_living_member(*to) && pccl_master_needs_link(*from, *to);
}

/* Returns true if the link failed recently and one of its ends, both members, has been silent since then. */
static bool has_silent_end(struct pccl_master *m, const struct pccl_edge *edge)
{
    const struct pccl_remote *from = pccl_master_find(m, &edge->from), *to = pccl_master_find(m, &edge->to);
    bool failed = edge->since_us != 0 && m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
    return failed && from != NULL && to != NULL && pccl_master_is_living_member(from) &&
           pccl_master_is_living_member(to) &&
           (!pccl_master_has_received_since(from, edge->since_us) ||
            !pccl_master_has_received_since(to, edge->since_us));
}

uint64_t pccl_master_link_decided_at(struct pccl_master *m, const struct pccl_id *peer)
{
    uint64_t at_us = 0;
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from, *to;
        if (!pccl_id_equal(&edge->from, peer) && !pccl_id_equal(&edge->to, peer))
            continue;
        if (edge->act_us != 0 && pccl_master_ends_of(m, edge, &from, &to))
            at_us = pccl_max_u64(at_us, edge->act_us);
        if (has_silent_end(m, edge))
            at_us = pccl_max_u64(at_us, m->now_us + m->config.settle_ms * UINT64_C(1000));
    }
    return at_us;
}
