/* Calls that end when the master answers: connect, and the joint votes (PROTOCOL 10). */
#include "peer/calls.h"
#include "peer/operations.h"
#include "peer/optimize.h"
#include "peer/output.h"
#include "peer/member_list.h"
#include "peer/rounds.h"
#include "peer/sync.h"
#include "peer/where.h"

static uint64_t deadline_of(const struct pccl_peer *p)
{
    return p->config.call_timeout_ms != 0 ? p->now_us + p->config.call_timeout_ms * UINT64_C(1000) : UINT64_MAX;
}

static enum pccl_status begin_connect(struct pccl_peer *p)
{
    if (p->state != PCCL_PEER_IDLE)
        return PCCL_USAGE;
    p->state = PCCL_PEER_CONNECTING;
    p->connect_outstanding = true;
    p->connect_since_us = p->now_us;
    p->connect_deadline_us = deadline_of(p);
    p->connect_where_us = pccl_peer_first_where(p, p->now_us, p->connect_deadline_us);
    pccl_peer_arm(p, pccl_min_u64(p->connect_deadline_us, p->connect_where_us));
    pccl_peer_dial_master(p);
    return PCCL_OK;
}

static void send_vote(struct pccl_peer *p, uint8_t kind)
{
    if (p->resuming)
        return;
    if (kind == PCCL_ROUND_SYNC) {
        pccl_peer_send_sync_vote(p);
        return;
    }
    struct pccl_msg msg = {
        .type = PCCL_MSG_vote,
        .as.vote = {.kind = kind,
                    .round = p->rounds[kind],
                    .drain = p->draining && (kind == PCCL_ROUND_UPDATE || kind == PCCL_ROUND_PENDING),
                    .unable = pccl_bytes_of_text(&p->calls[kind].unable)}};
    pccl_peer_send(p, &msg);
}

static void send_withdraw(struct pccl_peer *p, uint8_t kind)
{
    if (p->resuming)
        return;
    struct pccl_msg msg = {.type = PCCL_MSG_withdraw, .as.withdraw = {.kind = kind, .round = p->rounds[kind]}};
    pccl_peer_send(p, &msg);
}

static void begin_vote(struct pccl_peer *p, uint8_t kind, const struct pccl_text *unable)
{
    struct pccl_vote_call *call = &p->calls[kind];
    *call = (struct pccl_vote_call){.outstanding = true, .since_us = p->now_us, .deadline_us = deadline_of(p)};
    if (unable != NULL) {
        call->unable = *unable;
        pccl_peer_log(p, PCCL_LOG_WARN, "this peer cannot take part in the %s: %s",
                      kind == PCCL_ROUND_SYNC ? "synchronization" : "optimization", unable->bytes);
    }
    call->where_us = pccl_peer_first_where(p, call->since_us, call->deadline_us);
    pccl_peer_arm(p, pccl_min_u64(call->deadline_us, call->where_us));
    send_vote(p, kind);
}

static enum pccl_status may_begin(const struct pccl_peer *p, uint8_t kind)
{
    if (p->state != PCCL_PEER_MEMBER || pccl_peer_outstanding_call(p) != PCCL_CALL_NONE)
        return PCCL_USAGE;
    return kind != PCCL_ROUND_PENDING && p->held_count > 0 ? PCCL_PENDING_OPS : PCCL_OK;
}

static uint8_t round_of_call(enum pccl_call call)
{
    uint8_t kind = 0;
    while (kind < PCCL_ROUND_KINDS && pccl_call_of_round(kind) != call)
        kind++;
    PCCL_ASSERT(kind < PCCL_ROUND_KINDS);
    return kind;
}

enum pccl_status pccl_peer_call(struct pccl_peer *p, enum pccl_call call, const struct pccl_sync_vote *vote,
                                const struct pccl_text *unable)
{
    if (call == PCCL_CALL_CONNECT)
        return begin_connect(p);
    uint8_t kind = round_of_call(call);
    enum pccl_status status = may_begin(p, kind);
    if (status != PCCL_OK)
        return status;
    PCCL_ASSERT(unable == NULL || kind == PCCL_ROUND_SYNC || kind == PCCL_ROUND_OPTIMIZE);
    if (kind == PCCL_ROUND_SYNC)
        pccl_peer_begin_sync(p, unable == NULL ? vote : &(struct pccl_sync_vote){.revision = 0});
    begin_vote(p, kind, unable);
    return PCCL_OK;
}

static void withdraw(struct pccl_peer *p, uint8_t kind, enum pccl_status why)
{
    struct pccl_vote_call *call = &p->calls[kind];
    if (!call->outstanding || call->withdrawn)
        return;
    call->withdrawn = true;
    call->why_withdrawn = why;
    if (kind != PCCL_ROUND_SYNC || !pccl_peer_withdraw_planned_sync(p, pccl_peer_why_withdrawn(call)))
        send_withdraw(p, kind);
}

void pccl_peer_withdraw(struct pccl_peer *p, enum pccl_call call)
{
    if (call == PCCL_CALL_CONNECT && p->connect_outstanding)
        pccl_peer_give_up(p, PCCL_ABORTED, "the caller cancelled connecting");
    else if (call != PCCL_CALL_CONNECT)
        withdraw(p, round_of_call(call), PCCL_ABORTED);
}

static void finish(struct pccl_peer *p, uint8_t kind, enum pccl_status status, bool value)
{
    PCCL_ASSERT(p->calls[kind].outstanding);
    p->calls[kind].outstanding = false;
    if (kind == PCCL_ROUND_OPTIMIZE)
        pccl_peer_forget_tests(p);
    pccl_peer_wait_ended(p);
    p->effects.call_done(p->effects.context, pccl_call_of_round(kind), status, value);
}

void pccl_peer_round(struct pccl_peer *p, const struct pccl_msg_round *round)
{
    uint8_t kind = round->kind;
    struct pccl_vote_call *call = &p->calls[kind];
    if (round->round < p->rounds[kind])
        return; /* a duplicate: this round has been answered before */
    if (round->round > p->rounds[kind] || !call->outstanding) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master decided a round without this peer's vote");
        return;
    }
    if (round->outcome == PCCL_ROUND_WITHDRAWN) {
        pccl_text_format(&p->last_reason, "%s", pccl_peer_why_withdrawn(call));
        if (p->waiting.length > 0)
            pccl_text_append(&p->last_reason, ": %s", p->waiting.bytes);
        finish(p, kind, call->why_withdrawn, false);
        return;
    }
    p->rounds[kind]++;
    p->round_known[kind] = true;
    p->last_outcome[kind] = round->outcome;
    p->last_attributes[kind] = round->attributes;
    if (kind != PCCL_ROUND_PENDING)
        pccl_peer_change_era(p);
    enum pccl_status status = PCCL_OK;
    if (kind == PCCL_ROUND_SYNC)
        status = pccl_peer_sync_ended(p, round);
    else if (kind == PCCL_ROUND_OPTIMIZE)
        status = pccl_peer_optimize_ended(p, round);
    if (pccl_epoch_compare(&round->attributes.epoch, &p->attributes.epoch) >= 0)
        pccl_peer_set_attributes(p, &round->attributes, p->view_member_list);
    finish(p, kind, status, round->outcome == PCCL_ROUND_TRUE);
}

void pccl_peer_resend_votes(struct pccl_peer *p)
{
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        if (p->calls[kind].outstanding)
            send_vote(p, kind);
        if (p->calls[kind].outstanding && p->calls[kind].withdrawn) /* for SYNC only if nothing has been elected */
            send_withdraw(p, kind);
    }
}

void pccl_peer_end_calls(struct pccl_peer *p)
{
    pccl_peer_end_describe(p);
    if (p->connect_outstanding) {
        p->connect_outstanding = false;
        pccl_peer_wait_ended(p);
        p->effects.call_done(p->effects.context, PCCL_CALL_CONNECT, p->why_over, false);
    }
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (p->calls[kind].outstanding)
            finish(p, kind, p->why_over, false);
}

void pccl_peer_tick_calls(struct pccl_peer *p)
{
    if (p->connect_outstanding && p->now_us >= p->connect_deadline_us) {
        pccl_peer_leave(p);
        return;
    }
    if (p->draining && p->now_us >= p->drain_us) {
        pccl_peer_give_up(p, PCCL_DRAINED, "no topology update within drain_ms (%u ms) of this peer's drain",
                          p->config.drain_ms);
        return;
    }
    if (p->draining)
        pccl_peer_arm(p, p->drain_us);
    if (p->connect_outstanding)
        pccl_peer_arm(p, p->connect_deadline_us);
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        struct pccl_vote_call *call = &p->calls[kind];
        if (!call->outstanding)
            continue;
        if (call->stuck || p->now_us >= call->deadline_us)
            withdraw(p, kind, PCCL_TIMEOUT);
        else
            pccl_peer_arm(p, call->deadline_us);
        if (p->now_us >= call->where_us) {
            pccl_peer_ask_where(p, &(struct pccl_msg_where){.call = (uint8_t)pccl_call_of_round(kind),
                                                            .round = p->rounds[kind],
                                                            .since_us = p->now_us - call->since_us});
            call->where_us = pccl_peer_next_where(p);
        }
        pccl_peer_arm(p, call->where_us);
    }
}

/*
 * Begins this peer's drain (PROTOCOL 9.10). Repeats an outstanding vote, because a vote contains the request for the
 * drain.
 */
void pccl_peer_drain(struct pccl_peer *p)
{
    if (p->draining || p->state == PCCL_PEER_IDLE || p->state == PCCL_PEER_OVER)
        return;
    p->draining = true;
    if (p->state != PCCL_PEER_MEMBER) {
        pccl_peer_give_up(p, PCCL_DRAINED, "this peer was drained before it was admitted");
        return;
    }
    p->drain_us = p->now_us + p->config.drain_ms * UINT64_C(1000);
    pccl_peer_arm(p, p->drain_us);
    pccl_peer_log(p, PCCL_LOG_INFO,
                  "this peer is draining: it will leave at the next topology update, or in %u ms at the latest",
                  p->config.drain_ms);
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (kind != PCCL_ROUND_SYNC && kind != PCCL_ROUND_OPTIMIZE && p->calls[kind].outstanding &&
            !p->calls[kind].withdrawn)
            send_vote(p, kind);
}

void pccl_peer_leave(struct pccl_peer *p)
{
    if (p->connect_outstanding && p->now_us >= p->connect_deadline_us)
        pccl_peer_give_up(p, PCCL_TIMEOUT,
                          "not admitted before the deadline: the members must call pcclUpdateTopology");
    else
        pccl_peer_give_up(p, PCCL_ABORTED, "this peer left the run");
}
