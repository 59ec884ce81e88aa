/*
 * Links between peers, as the master knows them from reports: evidence of deaths (PROTOCOL 9.2), edges that failed
 * between living peers (9.4), and the links newcomers need before they can be admitted (11).
 */
#include "master/internal.h"
#include "topology/ring.h"

#include <string.h>

enum { WARM_UP_WIDTH = 16 }; /* newcomers of a group that are warmed up at once */

/* ---- wants: who should hold a link to whom ---- */

static struct pccl_want *find_want(const struct pccl_remote *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < from->want_count; i++)
        if (pccl_id_equal(&from->wants[i].to, to))
            return &from->wants[i];
    return NULL;
}

static struct pccl_want *add_want(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    struct pccl_want *wants =
        pccl_grow(&m->memory, from->wants, &from->want_capacity, from->want_count + 1, sizeof *wants);
    if (wants == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    from->wants = wants;
    wants[from->want_count] = (struct pccl_want){.to = *to};
    return &wants[from->want_count++];
}

static void drop_want(struct pccl_remote *from, struct pccl_want *want) { *want = from->wants[--from->want_count]; }

static void ask_for_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (from == to || from->departing || find_want(from, &to->id) != NULL || add_want(m, from, &to->id) == NULL)
        return;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = 0;
    bool observed_listed = false;
    for (uint32_t i = 0; i < to->candidate_count && count < PCCL_CANDIDATES_MAX - 1; i++) {
        candidates[count++] = to->candidates[i];
        observed_listed = observed_listed || pccl_address_equal(&to->candidates[i], &to->observed);
    }
    if (!observed_listed)
        candidates[count++] = to->observed; /* where the master sees it: right when it knows no better itself */
    struct pccl_msg msg = {
        .type = PCCL_MSG_warm_up,
        .as.warm_up = {.lineage = m->lineage, .peer = to->id, .candidates = candidates, .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_want *want = find_want(from, &to->id);
    return from == to || (want != NULL && want->up);
}

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        struct pccl_want *want = remote == gone ? NULL : find_want(remote, &gone->id);
        if (want == NULL)
            continue;
        drop_want(remote, want);
        if (remote->state == PCCL_REMOTE_PENDING ||
            gone->state == PCCL_REMOTE_PENDING) { /* members learn it from the epoch */
            struct pccl_msg msg = {.type = PCCL_MSG_forget, .as.forget = {.peer = gone->id}};
            pccl_master_send(m, remote, &msg, 0);
        }
    }
    for (uint32_t i = 0; i < m->edge_count;) {
        if (pccl_id_equal(&m->edges[i].to, &gone->id) || pccl_id_equal(&m->edges[i].from, &gone->id))
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}

void pccl_master_want_ring(struct pccl_master *m, struct pccl_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[i], *to = group->ring[(i + 1) % group->ring_count];
        for (uint32_t k = 0; k < from->want_count;) {
            struct pccl_remote *wanted = pccl_master_find(m, &from->wants[k].to);
            if (wanted == NULL || (wanted->state == PCCL_REMOTE_MEMBER && wanted != to))
                drop_want(from, &from->wants[k]);
            else
                k++;
        }
        ask_for_link(m, from, to);
    }
}

/* ---- newcomers ---- */

/*
 * The links newcomers n1, n2 ... of a group need to follow its ring first ... last in any prefix of their order:
 * last -> n, n -> first, and n1 -> n2 -> ...
 */
static void plan_group(struct pccl_master *m, uint32_t number)
{
    const struct pccl_group *group = pccl_master_group(m, number, false);
    struct pccl_remote *first = group != NULL && group->ring_count > 0 ? group->ring[0] : NULL;
    struct pccl_remote *last = first != NULL ? group->ring[group->ring_count - 1] : NULL;
    struct pccl_remote *previous = NULL;
    uint32_t planned = 0;
    for (uint32_t i = 0; i < m->remote_count && planned < WARM_UP_WIDTH; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || remote->group_number != number)
            continue;
        planned++;
        if (first == NULL) {
            first = last = previous = remote; /* alone in a new group */
            continue;
        }
        if (find_want(last, &remote->id) == NULL && find_want(remote, &first->id) == NULL)
            remote->warm_since_us = m->now_us; /* its patience counts from the first request */
        ask_for_link(m, last, remote);
        ask_for_link(m, remote, first);
        if (previous != NULL)
            ask_for_link(m, previous, remote);
        previous = remote;
    }
}

static void refuse_the_cold(struct pccl_master *m, const bool *admit)
{
    uint64_t patience_us = m->config.warm_up_ms * UINT64_C(1000);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || admit[i] || remote->want_count == 0)
            continue;
        if (m->now_us < remote->warm_since_us + patience_us) {
            pccl_master_arm(m, remote->warm_since_us + patience_us);
            continue;
        }
        bool own_fault = !remote->wants[0].up;
        pccl_master_remove(m, remote, PCCL_REFUSAL_NOT_WARM, "%s within %d",
                           own_fault ? "it could not open a link to its future neighbour"
                                     : "its future neighbour could not open a link to it (is its port reachable?)",
                           patience_us);
    }
}

void pccl_master_plan_warm_up(struct pccl_master *m)
{
    if (!m->founded || m->recovering || m->shut)
        return;
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing)
            continue;
        bool planned = false; /* one newcomer stands for its group */
        for (uint32_t k = 0; k < i && !planned; k++)
            planned =
                m->remotes[k]->state == PCCL_REMOTE_PENDING && m->remotes[k]->group_number == remote->group_number;
        if (!planned)
            plan_group(m, remote->group_number);
        any = true;
    }
    bool *admit = any ? pccl_allocate(&m->memory, m->remote_count * sizeof *admit) : NULL;
    if (admit == NULL)
        return;
    uint32_t count = m->remote_count;
    (void)pccl_master_eligible(m, admit);
    refuse_the_cold(m, admit);
    pccl_release(&m->memory, admit, count * sizeof *admit);
}

uint32_t pccl_master_eligible(struct pccl_master *m, bool *admit)
{
    uint32_t count = 0;
    memset(admit, 0, m->remote_count * sizeof *admit);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || remote->conn == 0)
            continue;
        const struct pccl_group *group = pccl_master_group(m, remote->group_number, false);
        struct pccl_remote *first = group != NULL && group->ring_count > 0 ? group->ring[0] : NULL;
        struct pccl_remote *last = first != NULL ? group->ring[group->ring_count - 1] : NULL;
        for (uint32_t k = 0; k < i; k++) { /* those admitted before it stand between */
            if (!admit[k] || m->remotes[k]->group_number != remote->group_number)
                continue;
            first = first != NULL ? first : m->remotes[k];
            last = m->remotes[k];
        }
        admit[i] = first == NULL || (pccl_master_holds_link(last, remote) && pccl_master_holds_link(remote, first));
        count += admit[i];
    }
    return count;
}

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

static bool is_evidence(enum pccl_link_end how, bool strict)
{
    return how == PCCL_LINK_REFUSED || how == PCCL_LINK_OTHER || (!strict && how == PCCL_LINK_CLOSED);
}

/* Has somebody seen within the silence limit that this peer's process is gone? strict: by dialling it. */
bool pccl_master_known_dead(const struct pccl_master *m, const struct pccl_id *id, bool strict)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        if (pccl_id_equal(&edge->to, id) && is_evidence(edge->how, strict) &&
            m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000))
            return true;
    }
    return false;
}

void pccl_master_probe(struct pccl_master *m, struct pccl_remote *remote)
{
    if (remote->probing || m->shut)
        return;
    remote->probing = true;
    m->effects.probe(m->effects.context, &remote->id, &m->lineage, &remote->observed);
}

void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_remote *remote = pccl_master_find(m, &event->peer);
    if (remote == NULL || remote->departing)
        return;
    remote->probing = false;
    if (event->answered)
        remote->verified = true;
    else if (remote->conn == 0 && remote->verified && is_evidence(event->how, true))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection closed and its port does not answer");
    else if (remote->conn == 0 && remote->verified)
        return; /* silence will tell */
    else if (!remote->verified)
        pccl_master_say(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &remote->id},
                        "the master cannot reach the port of peer %i: its death may be noticed late", &remote->id);
}

void pccl_master_control_lost(struct pccl_master *m, struct pccl_remote *remote)
{
    pccl_table_remove(&m->by_conn, &remote->by_conn);
    remote->conn = 0;
    if (remote->departing)
        return;
    pccl_master_say(m, PCCL_LOG_DEBUG, &(struct pccl_log_fields){.peer = &remote->id},
                    "the control connection of peer %i is lost", &remote->id);
    pccl_master_arm(m, remote->heard_us + m->config.silence_ms * UINT64_C(1000));
    if (pccl_master_known_dead(m, &remote->id, false))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection and its links closed");
    else if (remote->verified)
        pccl_master_probe(m, remote);
}

/* ---- edges between the living ---- */

static bool are_neighbours(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return pccl_master_is_living_member(from) && pccl_master_is_living_member(to) && from->group == to->group &&
           from != to && (from->position + 1) % from->group->ring_count == to->position;
}

void pccl_master_link_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost)
{
    struct pccl_remote *to = pccl_master_find(m, &lost->peer);
    enum pccl_link_end how = (enum pccl_link_end)lost->how;
    bool incoming = lost->incoming != 0;
    struct pccl_want *want = find_want(from, &lost->peer);
    if (want != NULL && !incoming)
        want->up = false;
    if ((to == NULL && !m->recovering) || (to != NULL && to->departing))
        return;
    pccl_master_note_edge(m, &from->id, &lost->peer, incoming, how);
    if (to == NULL) {
        pccl_master_try_recover(m);
        return;
    }
    if (to->conn == 0 && pccl_master_known_dead(m, &to->id, m->recovering)) {
        pccl_master_remove(m, to, PCCL_REFUSAL_GONE, "its control connection closed, and its link to peer %i",
                           &from->id);
        return;
    }
    pccl_master_send_heartbeat(m, from, true);
    pccl_master_send_heartbeat(m, to, true);
    struct pccl_edge *edge = find_edge(m, &from->id, &to->id, incoming);
    if (edge != NULL && !incoming && how != PCCL_LINK_CLOSED && how != PCCL_LINK_SILENT && edge->act_us == 0) {
        edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        pccl_master_arm(m, edge->act_us);
    }
}

void pccl_master_link_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    struct pccl_edge *edge = find_edge(m, &from->id, to, false);
    if (edge != NULL) {
        edge->act_us = edge->bad_until_us = 0;
        edge->since_us = 0; /* no evidence any more */
    }
    struct pccl_want *want = find_want(from, to);
    struct pccl_remote *remote = pccl_master_find(m, to);
    if (want == NULL || remote == NULL)
        return; /* not of interest any more */
    edge = find_edge(m, to, &from->id, true);
    if (edge != NULL)
        edge->since_us = 0; /* the other end's complaint about the link before */
    want->up = true;
    pccl_master_link_mended(m, from);
    pccl_master_plan_warm_up(m);
}

bool pccl_master_edge_is_bad(const struct pccl_master *m, const struct pccl_id *a, const struct pccl_id *b)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        bool same = (pccl_id_equal(&edge->from, a) && pccl_id_equal(&edge->to, b)) ||
                    (pccl_id_equal(&edge->from, b) && pccl_id_equal(&edge->to, a));
        if (same && m->now_us < edge->bad_until_us)
            return true;
    }
    return false;
}

struct ring_question {
    const struct pccl_master *m;
    const struct pccl_group *group;
};

static bool bad_pair(void *context, uint32_t a, uint32_t b)
{
    const struct ring_question *question = context;
    return pccl_master_edge_is_bad(question->m, &question->group->ring[a]->id, &question->group->ring[b]->id);
}

static bool ring_is_bad(const struct pccl_master *m, const struct pccl_group *group)
{
    for (uint32_t i = 0; group->ring_count > 1 && i < group->ring_count; i++)
        if (pccl_master_edge_is_bad(m, &group->ring[i]->id, &group->ring[(i + 1) % group->ring_count]->id))
            return true;
    return false;
}

/* Gives the group a ring without bad edges. false: there is none (or no memory to look for it); the ring is as it was.
 */
static bool reorder(struct pccl_master *m, struct pccl_group *group)
{
    uint32_t count = group->ring_count;
    uint32_t *order = pccl_allocate(&m->memory, 2 * count * sizeof *order);
    struct pccl_remote **ring = pccl_allocate(&m->memory, count * sizeof *ring);
    bool found = false;
    if (order != NULL && ring != NULL) {
        struct ring_question question = {m, group};
        for (uint32_t i = 0; i < count; i++)
            order[i] = i;
        found = pccl_ring_avoiding(order, count, bad_pair, &question, order + count);
        for (uint32_t i = 0; found && i < count; i++)
            ring[i] = group->ring[order[i]];
        for (uint32_t i = 0; found && i < count; i++) {
            group->ring[i] = ring[i];
            ring[i]->position = i;
        }
    }
    pccl_release(&m->memory, order, 2 * count * sizeof *order);
    pccl_release(&m->memory, ring, count * sizeof *ring);
    return found;
}

void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_group *group)
{
    if (group->ring_count > 3 && ring_is_bad(m, group))
        (void)reorder(m, group); /* if there is no better ring, dialling decides who goes */
}

/* Bad, or reported to be failing right now. */
static bool edge_fails(const struct pccl_master *m, const struct pccl_id *a, const struct pccl_id *b)
{
    for (uint32_t i = 0; i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        bool same = (pccl_id_equal(&edge->from, a) && pccl_id_equal(&edge->to, b)) ||
                    (pccl_id_equal(&edge->from, b) && pccl_id_equal(&edge->to, a));
        bool dialled = !edge->incoming && edge->how != PCCL_LINK_CLOSED && edge->how != PCCL_LINK_SILENT;
        if (same && dialled && m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000))
            return true;
    }
    return pccl_master_edge_is_bad(m, a, b);
}

static uint32_t bad_edges_of(const struct pccl_master *m, const struct pccl_remote *remote)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < remote->group->ring_count; i++)
        count += remote->group->ring[i] != remote && edge_fails(m, &remote->id, &remote->group->ring[i]->id);
    return count;
}

/* PROTOCOL 9.4: the link was not mended. Another ring; if there is none, the end with fewer good edges goes, or the
 * younger. */
static void give_up_edge(struct pccl_master *m, struct pccl_edge *edge, struct pccl_remote *from,
                         struct pccl_remote *to)
{
    edge->bad_until_us = m->now_us + m->config.bad_edge_ms * UINT64_C(1000);
    struct pccl_group *group = from->group;
    if (group->ring_count > 3 && reorder(m, group)) {
        struct pccl_text why;
        pccl_text_format(&why, "the link from peer %i to peer %i failed and is avoided", &from->id, &to->id);
        pccl_master_say(m, PCCL_LOG_WARN, &(struct pccl_log_fields){.peer = &from->id, .reason = why.bytes}, "%t",
                        &why);
        group->changed = true;
        pccl_master_next_epoch(m, NULL, 0, NULL, 0, &why);
        return;
    }
    uint32_t bad_from = bad_edges_of(m, from), bad_to = bad_edges_of(m, to);
    bool from_goes = bad_from > bad_to || (bad_from == bad_to && from->arrival > to->arrival);
    struct pccl_remote *goes = from_goes ? from : to, *stays = from_goes ? to : from;
    pccl_master_remove(m, goes, PCCL_REFUSAL_UNREACHABLE,
                       "its link to peer %i failed, and there is no ring without that link", &stays->id);
}

void pccl_master_tick_edges(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->edge_count;) {
        struct pccl_edge *edge = &m->edges[i];
        struct pccl_remote *from = pccl_master_find(m, &edge->from), *to = pccl_master_find(m, &edge->to);
        if (edge->act_us != 0 && m->now_us >= edge->act_us) {
            edge->act_us = 0;
            /* Only if it failed in this very ring: then its other links have been tried too, and we choose knowing
             * more. */
            if (!m->recovering && from != NULL && to != NULL && are_neighbours(from, to) &&
                edge->since_us > from->group->view_us)
                give_up_edge(m, edge, from, to);
        }
        bool fresh =
            m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000) || m->now_us < edge->bad_until_us;
        if (edge->act_us != 0)
            pccl_master_arm(m, edge->act_us);
        if (!fresh && edge->act_us == 0)
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}
