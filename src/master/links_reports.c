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

enum { LOOK_AGAIN_US = 50000 };

/* ---- the master's own dials ---- */

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
    struct pccl_id ticket = pccl_ticket(&remote->link_key, &(struct pccl_id){{0}}, &remote->id);
    if (!m->effects.probe(m->effects.context, &remote->id, &m->lineage, &ticket, &remote->observed))
        probe_again_later(m, remote);
}

/*
 * Returns true if a peer whose control connection is closed counts as dead. A single reporter may lie, so the master
 * dials the peer itself, unless it has never reached that port. In that case one report suffices, but each reporter can
 * cause only one such removal within the silence limit.
 */
static bool is_gone(struct pccl_master *m, const struct pccl_remote *remote)
{
    const struct pccl_id *alone = NULL;
    uint32_t witnesses = pccl_master_count_witnesses(m, &remote->id, m->recovering, &alone);
    if (witnesses != 1 || remote->verified)
        return witnesses > 1;
    struct pccl_remote *witness = pccl_master_find(m, alone);
    uint64_t again_us = witness->believed_us + m->config.silence_ms * UINT64_C(1000);
    if (witness->believed_us != 0 && m->now_us < again_us)
        return false;
    witness->believed_us = m->now_us;
    return true;
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

/*
 * Returns true if a newcomer that listens nowhere would become the first member of its group, so that others would wait
 * for it in vain. If the group has members, they dial it. A peer with addresses that the master does not dial may be
 * reachable there.
 */
static bool is_unreachable_first(struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_master_event *event)
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
    remote->probing = false; /* it stayed set until the time of this dial */
    pccl_master_probe(m, remote);
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
    remote->verified = remote->verified || event->answered;
    remote->unanswered_us = event->answered ? 0 : m->now_us;
    if (remote->probe_again)
        pccl_master_probe(m, remote); /* requested while this dial was under way */
    else if (event->answered)
        return;
    else if (remote->conn == 0 && remote->verified && has_seen_it_gone(m, event))
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "its control connection closed, and its port does not answer");
    else if (remote->conn == 0 && remote->verified && event->how == PCCL_LINK_CLOSED)
        probe_again_later(
            m, remote); /* a dying process closes its sockets one by one, so its port may have accepted this dial */
    else if (remote->conn == 0 && remote->verified)
        return; /* the silence limit decides */
    else if (is_unreachable_first(m, remote, event))
        pccl_master_remove(m, remote, PCCL_REFUSAL_NOT_WARM, "no answer at its advertised port (is it forwarded?)");
    else if (!remote->verified) {
        pccl_master_log(m, PCCL_LOG_WARN,
                        &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_NEWCOMER},
                        "the master cannot reach the port of peer %s: a crash of that peer may be detected late",
                        pccl_id_str(&remote->id));
        /* its answer may be required for its admission (membership_newcomers.c) */
        pccl_master_send_heartbeat(m, remote, true);
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
    bool counts = m->recovering ? from->state == PCCL_REMOTE_RESUMING : pccl_master_is_living_member(from);
    if (!counts || (to == NULL && !m->recovering) || (to != NULL && to->departing))
        return;
    pccl_master_note_edge(m, &from->id, &lost->peer, incoming, how);
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

void pccl_master_link_message(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    if (msg->type == PCCL_MSG_link_lost)
        take_lost(m, from, &msg->as.link_lost);
    else
        take_up(m, from, &msg->as.link_up);
}
