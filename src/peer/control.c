/* Control connection to the master: dialing, the hello, the session, heartbeats, and reconnecting after a break. */
#include "peer/control.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/optimize.h"
#include "peer/output.h"
#include "peer/receives.h"
#include "peer/op_table.h"
#include "peer/rounds.h"
#include "peer/sync.h"
#include "peer/view.h"
#include "peer/telemetry.h"
#include "peer/where.h"
#include "core/prng.h"
#include "wire/greeting.h"

#include <string.h>

/* ---- sending ---- */

static void send_loose(struct pccl_peer *p, const struct pccl_msg *msg)
{
    uint8_t bytes[PCCL_FRAME_HEADER_BYTES + 2048];
    size_t length = pccl_frame_size(msg);
    PCCL_ASSERT(length <= sizeof bytes);
    pccl_frame_encode(msg, 0, p->session.received, bytes);
    p->session.acked = p->session.received;
    pccl_peer_transmit(p, bytes, length);
}

static void send_heartbeat(struct pccl_peer *p)
{
    struct pccl_msg msg = {.type = PCCL_MSG_heartbeat};
    send_loose(p, &msg);
}

/* ---- the connection ---- */

void pccl_peer_master_up(struct pccl_peer *p)
{
    if (!p->dialing)
        return;
    p->dialing = false;
    p->up = true;
    p->greeted = false;
    p->received_us = p->now_us;
    bool member = p->state == PCCL_PEER_MEMBER;
    size_t name_length = 0;
    while (name_length < PCCL_NAME_MAX && p->config.name[name_length] != 0)
        name_length++;
    struct pccl_msg msg = {.type = PCCL_MSG_hello,
                           .as.hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                        .build = p->config.build,
                                        .boot = p->boot,
                                        .peer = p->config.id,
                                        .token = p->config.token,
                                        .link_key = p->config.link_key,
                                        .group = p->config.group,
                                        .received = p->session.received,
                                        .port = p->config.port,
                                        .candidates = p->config.candidates,
                                        .candidates_count = p->config.candidate_count,
                                        .name = {(const uint8_t *)p->config.name, (uint32_t)name_length},
                                        .named = p->config.named}};
    if (member)
        msg.as.hello.run_key = p->run_key;
    send_loose(p, &msg);
    pccl_peer_arm(p, p->now_us + p->silence_ms * UINT64_C(1000));
}

/* Ends a series of connection losses. The next series begins with the shortest pause and the full time limit. */
static void end_losses(struct pccl_peer *p)
{
    p->lost_us = 0;
    p->undecodable = false;
}

static bool has_lasted(const struct pccl_peer *p)
{
    return p->greeted && p->now_us >= p->greeted_us + p->silence_ms * UINT64_C(1000);
}

/*
 * Returns a random pause between half of pause_ms and all of it, so that peers that lost the master at the same time do
 * not reconnect at the same time.
 */
static uint64_t random_pause_us(const struct pccl_peer *p)
{
    uint64_t half_us = p->pause_ms * UINT64_C(500), random;
    memcpy(&random, &p->config.id, sizeof random);
    return half_us + pccl_prng_mix(random ^ p->now_us) % (half_us + 1);
}

/*
 * Returns true if connect must dial again. A master without free descriptors closes connections that it has accepted,
 * so connect dials again after such an end, and fails at once after any other.
 */
static bool connects_again(const struct pccl_peer *p, bool hung_up)
{
    return hung_up && p->up && p->config.connect_retry_ms != 0;
}

static uint64_t patience_us(const struct pccl_peer *p)
{
    bool connecting = p->state == PCCL_PEER_CONNECTING;
    return (connecting ? p->config.connect_retry_ms : p->config.master_lost_ms) * UINT64_C(1000);
}

/*
 * An answered hello does not end a series of losses, because a master that cannot continue the session also answers
 * each hello.
 */
void pccl_peer_master_down(struct pccl_peer *p, const struct pccl_text *reason, bool hung_up)
{
    bool connecting = p->state == PCCL_PEER_CONNECTING, again = connects_again(p, hung_up);
    if (!p->dialing && !p->up)
        return;
    if (has_lasted(p))
        end_losses(p);
    else if (p->greeted && p->lost_us != 0)
        p->lost_us += p->now_us - p->greeted_us;
    p->dialing = p->up = p->greeted = false;
    if (connecting && !again) {
        pccl_peer_give_up(p, PCCL_MASTER_UNREACHABLE, "cannot reach the master: %s", reason->bytes);
        return;
    }
    pccl_peer_end_closed(p);
    if (p->lost_us == 0) {
        p->lost_us = p->now_us;
        p->pause_ms = p->config.dial_ms;
        pccl_peer_log(p, PCCL_LOG_WARN, "lost the connection to the master (%s); reconnecting", reason->bytes);
    }
    p->why_lost = *reason;
    p->redial_us = p->now_us + (connecting ? random_pause_us(p) : p->pause_ms * UINT64_C(1000));
    p->pause_ms = (uint32_t)pccl_min_u64(p->pause_ms * UINT64_C(2), p->config.dial_max_ms);
    pccl_peer_arm(p, p->redial_us);
    pccl_peer_arm(p, p->lost_us + patience_us(p));
}

void pccl_peer_tick_master(struct pccl_peer *p)
{
    uint64_t silence_us = p->silence_ms * UINT64_C(1000), heartbeat_us = p->heartbeat_ms * UINT64_C(1000);
    if (p->lost_us != 0 && !p->greeted) {
        uint64_t end_us = p->lost_us + patience_us(p);
        if (p->now_us >= end_us && p->state == PCCL_PEER_CONNECTING) {
            pccl_peer_give_up(p, PCCL_MASTER_UNREACHABLE,
                              "cannot reach the master: it closed every connection without an answer for %s: %s",
                              pccl_duration_str(p->now_us - p->lost_us), p->why_lost.bytes);
            return;
        }
        if (p->now_us >= end_us) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master did not come back within %s: %s",
                              pccl_duration_str(p->now_us - p->lost_us), p->why_lost.bytes);
            return;
        }
        pccl_peer_arm(p, end_us);
    }
    if (p->redial_us != 0 && p->now_us >= p->redial_us)
        pccl_peer_dial_master(p);
    else if (p->redial_us != 0)
        pccl_peer_arm(p, p->redial_us);
    if (!p->up)
        return;
    if (p->now_us >= p->received_us + silence_us) {
        struct pccl_text reason;
        const char *silent_for = pccl_duration_str(p->now_us - p->received_us);
        if (p->state == PCCL_PEER_CONNECTING)
            pccl_text_format(&reason, "no answer from that address for %s: is it a master's port?", silent_for);
        else
            pccl_text_format(&reason, "the master was silent for %s", silent_for);
        p->effects.close_master(p->effects.context);
        pccl_peer_master_down(p, &reason, false);
        return;
    }
    pccl_peer_arm(p, p->received_us + silence_us);
    if (!p->greeted)
        return;
    if (p->now_us >= p->sent_us + heartbeat_us)
        send_heartbeat(p);
    pccl_peer_arm(p, p->sent_us + heartbeat_us);
}

/* ---- the answer to the hello ---- */

/* If the master acknowledges a message that was never sent, gives up and returns false. */
static bool take_acknowledgment(struct pccl_peer *p, uint64_t acknowledged)
{
    bool invalid = false;
    (void)pccl_session_acknowledge(&p->session, acknowledged, &invalid);
    if (invalid)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master acknowledged a message that was never sent");
    return !invalid;
}

static void resend_tail(struct pccl_peer *p)
{
    PCCL_ASSERT(p->greeted);
    struct pccl_bytes frame;
    const struct pccl_session_entry *entry = NULL;
    while ((entry = pccl_session_unacknowledged(&p->session, entry, &frame)) != NULL)
        pccl_peer_transmit(p, frame.data, frame.length);
}

static void hello_ok(struct pccl_peer *p, const struct pccl_msg_hello_ok *ok)
{
    if (p->greeted) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master answered the hello twice");
        return;
    }
    bool same_boot = p->boot == ok->boot;
    bool member = p->state == PCCL_PEER_MEMBER;
    bool expected = member ? (same_boot ? ok->mode != PCCL_HELLO_NEW : ok->mode == PCCL_HELLO_RESUME)
                           : (same_boot ? ok->mode == PCCL_HELLO_CONTINUE : ok->mode == PCCL_HELLO_NEW);
    if (!expected) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's answer to the hello is inconsistent");
        return;
    }
    p->greeted = true;
    p->greeted_us = p->now_us;
    p->silence_ms = ok->silence_ms;
    p->heartbeat_ms = ok->heartbeat_ms;
    p->tiny_bytes_max = ok->tiny_bytes_max;
    p->effects.accept_master(p->effects.context);
    pccl_peer_arm(p, p->now_us + p->heartbeat_ms * UINT64_C(1000));
    if (ok->mode == PCCL_HELLO_CONTINUE) {
        if (take_acknowledgment(p, ok->received))
            resend_tail(p);
        return;
    }
    bool is_first = p->boot == 0;
    if (is_first)
        end_losses(p);
    p->boot = ok->boot;
    pccl_session_reset(&p->session);
    pccl_peer_forget_verdicts(p);
    if (ok->mode == PCCL_HELLO_RESUME) {
        pccl_peer_send_resume(p);
        return;
    }
    p->lineage = ok->lineage;
    if (!is_first)
        pccl_peer_close_links(p); /* links to members of a run that this peer never joined */
    p->state = PCCL_PEER_PENDING;
    pccl_peer_held(p, ok->hold_ms);
}

/* Closes the connection and dials again, because the master is temporarily unavailable. */
static void be_lost(struct pccl_peer *p, const struct pccl_text *reason)
{
    p->effects.close_master(p->effects.context);
    pccl_peer_master_down(p, reason, false);
}

/*
 * Handles a master of another build. A member waits until the right master returns at that address. Logs each reason
 * once.
 */
static void meet_another_build(struct pccl_peer *p, const struct pccl_text *reason)
{
    if (p->state != PCCL_PEER_MEMBER) {
        pccl_peer_give_up(p, PCCL_VERSION, "%s", reason->bytes);
        return;
    }
    if (p->why_lost.length != reason->length || memcmp(p->why_lost.bytes, reason->bytes, reason->length) != 0)
        pccl_peer_log(p, PCCL_LOG_WARN, "%s; reconnecting until the run's master is back", reason->bytes);
    be_lost(p, reason);
}

/*
 * Handles a refusal because of the version. The reason from a master older than PCCL_GREETING_SINCE may name the
 * version of only one side.
 */
static void refused_for_version(struct pccl_peer *p, const struct pccl_msg_refused *refused,
                                const struct pccl_text *words)
{
    static const struct pccl_sides sides = {.here = "this peer", .there = "the master"};
    struct pccl_text reason = *words;
    if (refused->version < PCCL_GREETING_SINCE)
        pccl_build_describe_difference(&reason, &p->config.build, &(struct pccl_build){.version = refused->version},
                                       &sides);
    pccl_text_format(&reason, "the master refused this peer: %s", reason.bytes);
    meet_another_build(p, &reason);
}

/* Ends this peer, because its master has ended, has removed it, or does not admit it. */
static void end_by_master(struct pccl_peer *p, uint16_t code, const char *action, const struct pccl_text *reason)
{
    if (code == PCCL_REFUSAL_SHUTDOWN)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "%s", reason->bytes);
    else if (code == PCCL_REFUSAL_DRAINED)
        pccl_peer_give_up(p, PCCL_DRAINED, "the master drained this peer: %s", reason->bytes);
    else
        pccl_peer_give_up(p, p->state == PCCL_PEER_MEMBER ? PCCL_EXPELLED : PCCL_REFUSED, "the master %s this peer: %s",
                          action, reason->bytes);
}

/*
 * Handles a refusal. FULL is temporary: the master usually sends it before it reads the hello, because it lacks
 * descriptors or the hello was late.
 */
static void refused(struct pccl_peer *p, const struct pccl_msg_refused *refused)
{
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &refused->reason);
    if (refused->code == PCCL_REFUSAL_FULL && p->boot != 0) {
        be_lost(p, &reason);
    } else if (refused->code == PCCL_REFUSAL_VERSION) {
        refused_for_version(p, refused, &reason);
    } else if (refused->code == PCCL_REFUSAL_GONE) {
        pccl_peer_give_up(p, PCCL_EXPELLED, "%s", reason.bytes);
    } else {
        end_by_master(p, refused->code, "refused", &reason);
    }
}

/* ---- received frames ---- */

static void expelled(struct pccl_peer *p, const struct pccl_msg_expelled *expelled)
{
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &expelled->reason);
    end_by_master(p, expelled->code, p->state == PCCL_PEER_MEMBER ? "removed" : "refused", &reason);
}

static void dispatch(struct pccl_peer *p, const struct pccl_msg *msg)
{
    bool member = p->state == PCCL_PEER_MEMBER;
    switch (member || msg->type == PCCL_MSG_welcome || msg->type == PCCL_MSG_warm_up || msg->type == PCCL_MSG_forget ||
                    msg->type == PCCL_MSG_link_gone || msg->type == PCCL_MSG_dial_back ||
                    msg->type == PCCL_MSG_expelled || msg->type == PCCL_MSG_names
                ? msg->type
                : 0) {
    case PCCL_MSG_welcome: pccl_peer_welcome(p, &msg->as.welcome); break;
    case PCCL_MSG_expelled: expelled(p, &msg->as.expelled); break;
    case PCCL_MSG_epoch_change: pccl_peer_epoch_change(p, &msg->as.epoch_change); break;
    case PCCL_MSG_outcome: pccl_peer_outcome(p, &msg->as.outcome); break;
    case PCCL_MSG_offer: pccl_peer_offered(p, &msg->as.offer); break;
    case PCCL_MSG_subgroup_ended: pccl_peer_subgroup_ended(p, &msg->as.subgroup_ended); break;
    case PCCL_MSG_sync_plan: pccl_peer_sync_planned(p, &msg->as.sync_plan); break;
    case PCCL_MSG_sync_donor: pccl_peer_sync_donor_named(p, &msg->as.sync_donor); break;
    case PCCL_MSG_measure: pccl_peer_measure(p, &msg->as.measure); break;
    case PCCL_MSG_topology_report: pccl_peer_topology_report(p, &msg->as.topology_report); break;
    case PCCL_MSG_round: pccl_peer_round(p, &msg->as.round); break;
    case PCCL_MSG_warm_up: pccl_peer_warm_up(p, &msg->as.warm_up); break;
    case PCCL_MSG_names: pccl_peer_names(p, &msg->as.names); break;
    case PCCL_MSG_forget: pccl_peer_forget(p, &msg->as.forget.peer); break;
    case PCCL_MSG_link_gone: pccl_peer_link_gone(p, &msg->as.link_gone); break;
    case PCCL_MSG_dial_back: p->effects.dial_back(p->effects.context, &msg->as.dial_back); break;
    case PCCL_MSG_who_is_where: pccl_peer_take_places(p, &msg->as.who_is_where); break;
    case PCCL_MSG_verdicts: pccl_peer_take_verdicts(p, &msg->as.verdicts); break;
    case PCCL_MSG_recovered: pccl_peer_recovered(p, &msg->as.recovered); break;
    default:
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master sent %s at the wrong time", pccl_wire_name(msg->type));
        break;
    }
}

static void numbered(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg)
{
    bool gap = frame->sequence == 0;
    bool fresh = !gap && pccl_session_accept(&p->session, frame->sequence, &gap);
    if (gap) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "gap in the master's messages before %s", pccl_wire_name(msg->type));
        return;
    }
    if (fresh) {
        end_losses(p);
        dispatch(p, msg);
    }
    if (p->greeted && pccl_session_needs_acknowledgment(&p->session))
        send_heartbeat(p);
}

void pccl_peer_master_received(struct pccl_peer *p, const struct pccl_frame *frame, const struct pccl_msg *msg)
{
    if (!p->up)
        return;
    p->received_us = p->now_us;
    if (msg->type == PCCL_MSG_refused) {
        refused(p, &msg->as.refused);
        return;
    }
    if (msg->type == PCCL_MSG_hello_ok) {
        hello_ok(p, &msg->as.hello_ok);
        return;
    }
    if (!p->greeted) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master did not answer the hello but sent %s",
                          pccl_wire_name(msg->type));
        return;
    }
    if (!take_acknowledgment(p, frame->acknowledged))
        return;
    if (msg->type != PCCL_MSG_heartbeat) {
        numbered(p, frame, msg);
        return;
    }
    pccl_peer_set_stable(p, msg->as.heartbeat.stable);
    if (msg->as.heartbeat.answer)
        send_heartbeat(p);
}

/*
 * Handles undecodable bytes: closes the connection, and gives up after the second invalid message in a series of
 * losses, because the master resends the message on every connection. A wrong checksum may be an error of the path and
 * does not count.
 */
void pccl_peer_master_garbage(struct pccl_peer *p, const struct pccl_peer_event *event)
{
    if (event->other_build) {
        meet_another_build(p, event->reason);
        return;
    }
    if (p->state == PCCL_PEER_CONNECTING) {
        pccl_peer_give_up(p, PCCL_VERSION, "no PCCL master of this version at that address: it sent %s",
                          event->reason->bytes);
        return;
    }
    bool whole = p->greeted && event->frame != NULL;
    if (whole) {
        if (p->undecodable && !has_lasted(p)) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master sent an invalid message for the second time: %s",
                              event->reason->bytes);
            return;
        }
        pccl_peer_log(p, PCCL_LOG_WARN, "the master sent an invalid message: %s", event->reason->bytes);
    }
    be_lost(p, event->reason);
    p->undecodable = p->undecodable || whole; /* be_lost may have ended the previous series of losses */
}
