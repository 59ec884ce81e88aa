/*
 * Handles peers' reports about their links, and the results of the master's own dials. links_failed.c decides on a link
 * that stays down.
 */
#include "core/ticket.h"
#include "master/links_internal.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"
#include "master/topology.h"
#include "wire/cost.h"

#include <string.h>

enum {
    LOOK_AGAIN_US = 50000,
    /* pause before a port that has never been reached is dialed again; it doubles up to the next value */
    CLOSED_AGAIN_US = 500000,
    CLOSED_AGAIN_MAX_US = 64000000,
};

/* ---- the master's own dials ---- */

static void probe_again_later(struct pccl_master *m, struct pccl_remote *remote)
{
    remote->look_again_us = m->now_us + LOOK_AGAIN_US;
    pccl_master_arm(m, remote->look_again_us);
}

static bool is_same_host(const struct pccl_address *a, const struct pccl_address *b)
{
    return memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

/*
 * Returns the address that the master dials in this turn; NULL after the last one. These are the one that it sees and,
 * at the same host, those that the peer advertises: a router there may forward another port.
 */
static const struct pccl_address *address_to_probe(const struct pccl_remote *remote, uint32_t turn)
{
    for (uint32_t i = 0; turn > 0 && i < remote->candidate_count; i++)
        if (is_same_host(&remote->candidates[i], &remote->observed) &&
            !pccl_address_equal(&remote->candidates[i], &remote->observed) && --turn == 0)
            return &remote->candidates[i];
    return turn == 0 ? &remote->observed : NULL;
}

/* Returns true if the peer has addresses that others may reach, but that the master does not dial. */
static bool has_other_addresses(const struct pccl_remote *remote)
{
    bool is_near = pccl_address_is_private(&remote->observed);
    for (uint32_t i = 0; i < remote->candidate_count; i++) {
        const struct pccl_address *candidate = &remote->candidates[i];
        bool is_useful = is_near ? !pccl_address_is_loopback(candidate) : !pccl_address_is_private(candidate);
        if (is_useful && !is_same_host(candidate, &remote->observed))
            return true;
    }
    return false;
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
    if (remote->probed_us == 0)
        remote->probed_us = m->now_us;
    pccl_master_arm(m, remote->probed_us + m->config.settle_ms * UINT64_C(1000));
    struct pccl_id ticket = pccl_ticket(&remote->link_key, &(struct pccl_id){{0}}, &remote->id);
    const struct pccl_address *address = address_to_probe(remote, remote->probe_turn);
    if (address == NULL)
        address = &remote->observed; /* it has changed */
    if (!m->effects.probe(m->effects.context, &remote->id, &m->lineage, &ticket, address))
        probe_again_later(m, remote);
}

/* Returns true if a peer whose control connection is closed counts as dead. A single reporter may lie. */
static bool is_gone(const struct pccl_master *m, const struct pccl_remote *remote)
{
    return pccl_master_count_witnesses(m, &remote->id, m->recovering, NULL) > 1;
}

/*
 * Returns true if the master's dial shows that the peer is gone: nothing listens or another process answers; or the
 * dial was closed and a member reports the same.
 */
static bool has_seen_it_gone(const struct pccl_master *m, const struct pccl_master_event *event)
{
    return pccl_master_is_evidence(event->how, true) ||
           (event->how == PCCL_LINK_CLOSED && pccl_master_count_witnesses(m, &event->peer, m->recovering, NULL) > 0);
}

/* Places newcomers again if another place may be better, because other links are possible now. */
static void note_reach(struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_peer_group *group = pccl_master_group(m, remote->group_number, false);
    bool changes = remote->queue == NULL || remote->follows != NULL;
    if (group != NULL && group->ring_count > 0)
        changes = changes || pccl_master_are_apart(remote, group->ring[0]) ||
                  pccl_master_are_apart(remote, group->ring[group->ring_count - 1]);
    if (!changes)
        return;
    pccl_master_recheck_queue(m, remote->group_number);
    pccl_master_mark(m, PCCL_STAGE_WARM_UP);
}

/*
 * Determines whether the peer must dial its links itself: the master has not reached its port so far, although it has
 * waited for a while. If others may know a better address, one of them must have tried it.
 */
static void judge_reach(struct pccl_master *m, struct pccl_remote *remote)
{
    bool waited = remote->probed_us != 0 && m->now_us >= remote->probed_us + m->config.settle_ms * UINT64_C(1000);
    bool closed = !remote->verified && (remote->unanswered_us != 0 || waited) &&
                  (remote->undialed || !has_other_addresses(remote));
    if (closed == remote->closed)
        return;
    remote->closed = closed;
    note_reach(m, remote);
    pccl_master_update_requests(m, remote);
}

void pccl_master_probe_if_due(struct pccl_master *m, struct pccl_remote *remote)
{
    judge_reach(m, remote);
    if (remote->look_again_us == 0)
        return;
    if (m->now_us < remote->look_again_us) {
        pccl_master_arm(m, remote->look_again_us);
        return;
    }
    remote->probing = false; /* it stayed set until the time of this dial */
    pccl_master_probe(m, remote);
}

/* Handles a failed dial to a port that the master has never reached. `is_first` is true for the first one. */
static void port_is_closed(struct pccl_master *m, struct pccl_remote *remote, bool is_first)
{
    remote->pause_us = is_first ? CLOSED_AGAIN_US : pccl_min_u64(2 * remote->pause_us, CLOSED_AGAIN_MAX_US);
    remote->look_again_us = m->now_us + remote->pause_us;
    pccl_master_arm(m, remote->look_again_us);
    if (!is_first)
        return;
    pccl_master_log(
        m, PCCL_LOG_WARN,
        &(struct pccl_log_fields){
            .peer = &remote->id, .cause = PCCL_LOG_CAUSE_NEWCOMER, .event = PCCL_EVENT_LINK_FAILED},
        "the master cannot reach the port of peer %s: that peer must dial its links, and if it crashes, this "
        "is detected late",
        pccl_id_str(&remote->id));
    pccl_master_send_heartbeat(m, remote, true); /* its answer may be required for its admission */
}

void pccl_master_probed(struct pccl_master *m, const struct pccl_master_event *event)
{
    struct pccl_remote *remote = pccl_master_find(m, &event->peer);
    if (remote == NULL || remote->departing)
        return;
    if (!event->answered && event->how == 0) {
        probe_again_later(m, remote); /* `probing` stays set until that dial */
        return;
    }
    remote->probing = false;
    if (!event->answered && !remote->verified) {
        bool has_next = address_to_probe(remote, remote->probe_turn + 1) != NULL;
        remote->probe_turn = has_next ? remote->probe_turn + 1 : 0;
        if (has_next) {
            pccl_master_probe(m, remote);
            return;
        }
    }
    remote->probed_us = 0;
    bool is_new = event->answered && !remote->verified;
    remote->verified = remote->verified || event->answered;
    bool is_first = remote->unanswered_us == 0;
    if (event->answered)
        remote->unanswered_us = 0;
    else if (remote->verified || is_first)
        remote->unanswered_us = m->now_us;
    judge_reach(m, remote);
    if (is_new || (is_first && !remote->verified)) {
        note_reach(m, remote);
        pccl_master_update_requests(m, remote); /* others can dial it now, or may be apart from it */
    }
    if (remote->probe_again)
        pccl_master_probe(m, remote); /* requested while this dial was under way */
    else if (event->answered)
        return;
    else if (remote->conn == 0 && remote->verified && has_seen_it_gone(m, event))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection closed, and its port does not answer");
    else if (remote->conn == 0 && remote->verified && event->how == PCCL_LINK_CLOSED)
        probe_again_later(m, remote); /* a dying process closes its port last, which may have accepted this dial */
    else if (remote->conn == 0 && remote->verified)
        return; /* the silence limit decides */
    else if (!remote->verified)
        port_is_closed(m, remote, is_first);
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
                    "lost the control connection of peer %s", pccl_id_str(&remote->id));
    pccl_master_arm(m, remote->received_us + m->config.silence_ms * UINT64_C(1000));
    if (is_gone(m, remote))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection and all its links closed");
    else if (remote->verified)
        pccl_master_probe(m, remote);
}

/* ---- edges between living peers ---- */

/* Schedules a check of the newcomers that depend on this link. */
static void recheck_newcomers(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from->queue != NULL)
        pccl_master_recheck_queue(m, from->group_number);
    if (to != NULL && to->queue != NULL)
        pccl_master_recheck_queue(m, to->group_number);
}

/* Returns true if an edge needs a decision: none is pending, or its last failure was in an earlier ring. */
static bool is_news(const struct pccl_edge *edge, const struct pccl_remote *from)
{
    return edge->act_us == 0 || (from->group != NULL && edge->failed_us <= from->group->ring_us);
}
/* Handles `link_lost`: evidence of a death, of a failing edge between living peers, or of an unreachable newcomer. */
static void take_lost(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_lost *lost)
{
    struct pccl_remote *to = pccl_master_find(m, &lost->peer);
    enum pccl_link_end how = (enum pccl_link_end)lost->how;
    bool incoming = lost->incoming != 0;
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &lost->peer);
    if (intent != NULL && !incoming) {
        intent->up = false;
        intent->failed = how != 0 && pccl_master_is_failed_dialing(incoming, how);
        recheck_newcomers(m, from, to);
        if (from->group != NULL && from->group->tuning.better != NULL)
            pccl_master_arm(m, m->now_us); /* a round may wait for this link */
    }
    if (to != NULL && !incoming && how != 0 && pccl_master_is_failed_dialing(incoming, how))
        pccl_master_note_isolation(m, from, to, false);
    if (to != NULL && !to->verified && from->verified && lost->reversed == 0 && how != 0 &&
        pccl_master_is_failed_dialing(incoming, how)) {
        to->undialed = true;
        judge_reach(m, to);
    }
    if (to != NULL && !to->departing && !m->recovering && !incoming && how != 0 &&
        (lost->reversed != 0) != pccl_master_is_reversed(from, to))
        pccl_master_correct_request(m, from, to);
    bool counts = m->recovering ? from->state == PCCL_REMOTE_RESUMING : pccl_master_is_living_member(from);
    if (!counts || (to == NULL && !m->recovering) || (to != NULL && to->departing))
        return;
    pccl_master_note_edge(m, &from->id, lost);
    if (to == NULL) {
        pccl_master_mark(m, PCCL_STAGE_RECOVERY);
        return;
    }
    if (to->conn == 0 && is_gone(m, to)) {
        pccl_master_remove(m, to, PCCL_REFUSAL_GONE, "its control connection and its link to peer %s closed",
                           pccl_id_str(&from->id));
        return;
    }
    bool look = to->conn == 0;
    pccl_master_send_heartbeat(m, from, true);
    pccl_master_send_heartbeat(m, to, true);
    struct pccl_edge *edge = pccl_master_find_edge(m, &from->id, &to->id, incoming);
    bool is_new = edge != NULL && pccl_master_is_failed_dialing(incoming, how) && is_news(edge, from);
    /* no member needs a link to a newcomer yet, and it is dialed again after its admission */
    if (is_new && to->state != PCCL_REMOTE_PENDING) {
        edge->failed_us = m->now_us;
        edge->act_us = m->now_us + m->config.settle_ms * UINT64_C(1000);
        pccl_master_arm(m, edge->act_us);
    }
    look = look || is_new; /* a report alone proves nothing */
    if (look && to->verified)
        pccl_master_probe(m, to);
}

/*
 * Returns the rate that a report proves; 0 if it proves none. A rate measured on a shared line is only a lower bound,
 * so it must exceed the known rate.
 */
static uint64_t reported_rate(const struct pccl_remote *from, const struct pccl_remote *to,
                              const struct pccl_link_intent *intent, const struct pccl_msg_link_up *up)
{
    const struct pccl_figure *figure = pccl_master_find_figure(from, to);
    uint64_t rate = pccl_min_u64(up->rate, PCCL_RATE_MOST);
    uint64_t known = figure != NULL ? pccl_max_u64(intent->rate, figure->rate) : intent->rate;
    return up->shared == 0 || rate > known ? rate : 0;
}
/* Handles `link_up`: the link is up or has a new figure. Withdraws the evidence about it. */
static void take_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_link_up *up)
{
    const struct pccl_id *to = &up->peer;
    struct pccl_edge *edge = pccl_master_find_edge(m, &from->id, to, false);
    if (edge != NULL) {
        edge->act_us = edge->bad_until_us = 0;
        edge->since_us = 0; /* no longer evidence */
    }
    struct pccl_link_intent *intent = pccl_master_find_intent(from, to);
    struct pccl_remote *remote = pccl_master_find(m, to);
    if (intent == NULL || remote == NULL)
        return; /* the link is no longer wanted */
    uint64_t rate = reported_rate(from, remote, intent, up);
    pccl_master_note_traffic(m, from, remote, up->rtt_us, rate);
    bool was_up = intent->up && up->rate != 0; /* only figures have changed */
    if (up->rtt_us != 0)
        intent->rtt_us = up->rtt_us;
    if (rate != 0)
        intent->rate = rate;
    if (was_up)
        return;
    edge = pccl_master_find_edge(m, to, &from->id, true);
    if (edge != NULL)
        edge->since_us = 0; /* cancels the other end's report about the previous link */
    intent->up = true;
    intent->failed = false;
    intent->reversed = up->reversed != 0;
    intent->reached = intent->reached || up->reversed == 0;
    pccl_master_note_isolation(m, from, remote, true);
    recheck_newcomers(m, from, remote);
    pccl_master_link_restored(m, from, remote);
    if (remote->group != NULL && remote->group->tuning.better != NULL)
        pccl_master_mark(m, PCCL_STAGE_ROUNDS); /* a round may wait for this link */
}

void pccl_master_link_gone(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_link_gone *gone)
{
    struct pccl_remote *dialer = pccl_master_find(m, &gone->peer);
    struct pccl_msg msg = {.type = PCCL_MSG_link_gone, .as.link_gone = {.peer = from->id, .number = gone->number}};
    if (!m->recovering && dialer != NULL && dialer->group_number == from->group_number &&
        dialer->session.queued_count < PCCL_GONE_QUEUE_MAX)
        pccl_master_send(m, dialer, &msg, 0);
}

void pccl_master_want_back(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_want_back *want)
{
    struct pccl_remote *to = pccl_master_find(m, &want->peer);
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    if (m->recovering)
        return; /* after the recovery its sender requests it again */
    if (to == NULL || to->departing || to == from || to->group_number != from->group_number ||
        to->session.queued_count >= PCCL_GONE_QUEUE_MAX || !pccl_budget_take(&from->backs, m->now_us)) {
        struct pccl_msg gone = {.type = PCCL_MSG_link_gone,
                                .as.link_gone = {.peer = want->peer, .number = want->number}};
        pccl_master_send(m, from, &gone, 0);
        return;
    }
    if (from->state == PCCL_REMOTE_PENDING && to->state == PCCL_REMOTE_MEMBER)
        pccl_master_send_names(m, to, &(struct pccl_member){.peer = from->id}, 1);
    struct pccl_msg msg = {.type = PCCL_MSG_dial_back,
                           .as.dial_back = {.peer = from->id,
                                            .ticket = pccl_ticket(&from->link_key, &to->id, &from->id),
                                            .kind = want->kind,
                                            .slot = want->slot,
                                            .number = want->number,
                                            .candidates = candidates,
                                            .candidates_count = pccl_master_addresses(from, candidates)}};
    pccl_master_send(m, to, &msg, 0);
}

void pccl_master_link_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_link_lost)
        take_lost(m, from, &msg->as.link_lost);
    else
        take_up(m, from, &msg->as.link_up);
}
