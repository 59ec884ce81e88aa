/* A peer's driver in the simulator: the control connection, the links, one listening port, time. */
#include "peer/op_table.h"
#include "sim.h"
#include "support/wire_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINK_DIAL_US = 500000, LINK_WAIT_US = 2 * LINK_DIAL_US };
#define BACK_NUMBERS (UINT64_C(1) << 40) /* larger than the id of any connection */

enum pccl_status sim_peer_step(struct sim *sim, struct sim_peer *peer, struct pccl_peer_event *event)
{
    event->now_us = sim->now;
    event->thread = peer->thread;
    return pccl_peer_step(peer->machine, event);
}

enum pccl_status sim_peer_call(struct sim *sim, struct sim_peer *peer, enum pccl_call call)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_CALL, .call = call};
    if (call == PCCL_CALL_OPTIMIZE && peer->process.starved)
        event.reason = &sim_shortage;
    return sim_peer_step(sim, peer, &event);
}

void sim_peer_measured(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to, uint32_t rtt_us, uint64_t rate)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_MEASURED, .peer = *to, .rtt_us = rtt_us, .rate = rate};
    sim_peer_step(sim, peer, &event);
}

void sim_peer_measured_share(struct sim *sim, struct sim_peer *peer, const struct pccl_id *to, uint32_t rtt_us,
                             uint64_t rate)
{
    struct pccl_peer_event event = {
        .kind = PCCL_PEER_LINK_MEASURED, .peer = *to, .rtt_us = rtt_us, .rate = rate, .shared = true};
    sim_peer_step(sim, peer, &event);
}

void sim_peer_tell(struct sim *sim, struct sim_peer *peer, struct pccl_peer_event *event)
{
    sim_peer_step(sim, peer, event);
    sim_check_peer(sim, peer);
    sim_process_arm(sim, &peer->process);
}

static void step(struct sim *sim, struct sim_peer *peer, struct pccl_peer_event *event)
{
    if (peer->machine == NULL)
        return;
    sim->totals.steps++;
    sim_peer_step(sim, peer, event);
    sim_check_peer(sim, peer);
}

/* ---- links ---- */

static int end_of(const struct sim_link *link) { return link->incoming != link->reversed ? 1 : 0; }

static struct sim_link *find_link(struct sim_peer *peer, const struct pccl_id *other, bool incoming)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i].incoming == incoming && pccl_id_equal(&peer->links[i].peer, other))
            return &peer->links[i];
    return NULL;
}

static struct sim_link *link_of(struct sim_peer *peer, const struct sim_conn *conn, int end)
{
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i].conn == conn && end_of(&peer->links[i]) == end)
            return &peer->links[i];
    return NULL;
}

static void drop_link(struct sim_peer *peer, struct sim_link *link)
{
    if (link->conn != NULL)
        sim_conn_close(peer->process.sim, link->conn, end_of(link));
    *link = peer->links[--peer->link_count];
}

/* invalid: reason why a message over it was invalid, or NULL. */
static void end_link(struct sim *sim, struct sim_peer *peer, struct sim_link *link, enum pccl_link_end how,
                     bool purposely, const struct pccl_text *invalid)
{
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_DOWN,
                                    .peer = link->peer,
                                    .incoming = link->incoming,
                                    .purposely = purposely,
                                    .reason = invalid,
                                    .how = how};
    sim_note(sim, "p%u: link %s %02x%02x down: %d%s", peer->process.number, link->incoming ? "from" : "to",
             link->peer.bytes[0], link->peer.bytes[1], (int)how, purposely ? " (bye)" : "");
    bool stood = link->up;
    struct pccl_peer_event gone = {.kind = PCCL_PEER_END_GONE, .peer = link->peer, .number = link->number};
    const bool is_unknown = link->incoming && !purposely && invalid == NULL; /* to the end that has dialed */
    drop_link(peer, link);
    if (is_unknown)
        step(sim, peer, &gone);
    if (stood && (!purposely || invalid != NULL))
        sim_bulk_link_down(sim, peer, &event.peer, invalid != NULL);
    step(sim, peer, &event);
}

static void link_down(struct sim *sim, struct sim_peer *peer, struct sim_link *link, enum pccl_link_end how,
                      bool purposely)
{
    end_link(sim, peer, link, how, purposely, NULL);
}

/* Ends a link that has no next message. msg: link_bye, or NULL. */
static void link_ended(struct sim *sim, struct sim_peer *peer, struct sim_link *link, const struct pccl_msg *msg)
{
    const bool bye = msg != NULL && msg->type == PCCL_MSG_link_bye;
    struct pccl_text reason;
    if (!bye || msg->as.link_bye.reason.length == 0) {
        link_down(sim, peer, link, PCCL_LINK_CLOSED, bye);
        return;
    }
    pccl_text_clear(&reason);
    pccl_text_add_bytes(&reason, (const char *)msg->as.link_bye.reason.data, msg->as.link_bye.reason.length);
    end_link(sim, peer, link, PCCL_LINK_CLOSED, true, &reason);
}

bool sim_peer_reject_link(struct sim *sim, struct sim_peer *peer, const struct pccl_id *other)
{
    struct sim_link *link = find_link(peer, other, false);
    struct pccl_text reason;
    if (link == NULL || !link->up)
        return false;
    pccl_text_format(&reason, "peer %s sent an invalid message", pccl_id_str(other));
    sim_conn_send_msg(
        sim, link->conn, end_of(link),
        &(struct pccl_msg){.type = PCCL_MSG_link_bye, .as.link_bye = {.reason = pccl_bytes_of_text(&reason)}});
    end_link(sim, peer, link, PCCL_LINK_UNREACHABLE, false, &reason);
    sim_process_arm(sim, &peer->process);
    return true;
}

/* This peer cannot dial back: the other end learns it from the master. */
static void back_failed(struct sim *sim, struct sim_peer *peer, struct sim_link *link, enum pccl_link_end how)
{
    struct pccl_peer_event gone = {.kind = PCCL_PEER_END_GONE, .peer = link->peer, .number = link->number, .how = how};
    drop_link(peer, link);
    step(sim, peer, &gone);
}

static void dial_candidate(struct sim *sim, struct sim_peer *peer, struct sim_link *link)
{
    const struct pccl_address *to = &link->candidates[link->candidate];
    link->conn = sim_dial(sim, &peer->process, SIM_ROLE_LINK_OUT, SIM_DATA, sim_host_of(to), to->port);
    link->conn->ends[0].peer = link->peer;
    link->conn->ends[0].key = link->ticket;
    link->conn->ends[0].deadline = sim->now + LINK_DIAL_US;
    if (!link->reversed)
        link->number = link->conn->id;
    sim_process_arm(sim, &peer->process);
}

const struct pccl_text sim_shortage = {.length = 19, .bytes = "too many open files"};

void sim_peer_note_shortage(struct sim *sim, struct sim_peer *peer)
{
    if (sim_peer_runs(peer))
        sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SHORTAGE, .reason = &sim_shortage});
}

static void candidate_failed(struct sim *sim, struct sim_peer *peer, struct sim_link *link, enum pccl_link_end how)
{
    sim_conn_close(sim, link->conn, 0);
    link->conn = NULL;
    if (how == PCCL_LINK_TIMEOUT || link->worst == 0)
        link->worst = how; /* evidence of death only if no candidate leaves a doubt */
    if (++link->candidate < link->candidate_count) {
        dial_candidate(sim, peer, link);
        return;
    }
    if (how == 0)
        step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SHORTAGE, .reason = &sim_shortage});
    if (link->reversed)
        back_failed(sim, peer, link, how == 0 ? 0 : link->worst);
    else
        link_down(sim, peer, link, how == 0 ? 0 : link->worst, false);
}

/* The connection that this peer has dialed is up. It replaces an earlier one that it has dialed back. */
static void dialed(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn)
{
    struct sim_link *link = link_of(peer, conn, 0);
    for (uint32_t i = peer->link_count; link->reversed && i-- > 0;)
        if (peer->links[i].conn != conn && peer->links[i].incoming &&
            pccl_id_equal(&peer->links[i].peer, &link->peer)) {
            drop_link(peer, &peer->links[i]);
            link = link_of(peer, conn, 0);
        }
    link->up = true;
    conn->ends[0].deadline = UINT64_MAX;
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_UP,
                                    .peer = link->peer,
                                    .incoming = link->incoming,
                                    .reversed = link->reversed,
                                    .rtt_us = 100 + (uint32_t)(conn->id % 900)};
    sim_note(sim, "p%u: link %s %02x%02x up%s", peer->process.number, link->incoming ? "from" : "to",
             link->peer.bytes[0], link->peer.bytes[1], link->reversed ? ", dialed back" : "");
    step(sim, peer, &event);
}

static void outgoing_readable(struct sim *sim, struct sim_peer *peer, struct sim_link *link)
{
    struct sim_end *end = &link->conn->ends[0];
    if (end->failed) {
        candidate_failed(sim, peer, link, end->how);
        return;
    }
    if (!end->hello_seen) {
        end->hello_seen = true; /* sent */
        struct pccl_msg hello = {.type = PCCL_MSG_link_hello,
                                 .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                                   .build = *sim_build(),
                                                   .lineage = *pccl_peer_lineage(peer->machine),
                                                   .from = peer->id,
                                                   .to = link->peer,
                                                   .kind = PCCL_LINK_RING,
                                                   .reversed = link->reversed,
                                                   .number = link->number,
                                                   .authentication = pccl_bytes_of_secret(&link->ticket)}};
        sim_conn_send_msg(sim, link->conn, 0, &hello);
    }
    struct sim_conn *conn = link->conn;
    while (end->open) {
        struct pccl_frame frame;
        struct pccl_msg msg;
        struct pccl_text reason;
        bool other_build;
        int got = sim_end_next(sim, end, &frame, &msg, &reason, &other_build);
        if (got == 0)
            break;
        if (!link->up) {
            if (got > 0 && msg.type == PCCL_MSG_link_ok && pccl_id_equal(&msg.as.link_ok.peer, &link->peer)) {
                dialed(sim, peer, conn);
                link = link_of(peer, conn, 0);
                if (link == NULL)
                    return;
                continue;
            }
            if (link->reversed && got > 0 && msg.type == PCCL_MSG_refused) {
                drop_link(peer, link); /* the other end no longer waits */
                return;
            }
            bool identity = end->shake == SIM_SHAKE_FAILED ||
                            (got > 0 && msg.type == PCCL_MSG_refused && msg.as.refused.code == PCCL_REFUSAL_IDENTITY);
            sim_note(sim, "p%u: link to %02x%02x refused %d", peer->process.number, link->peer.bytes[0],
                     link->peer.bytes[1], got > 0 && msg.type == PCCL_MSG_refused ? (int)msg.as.refused.code : -1);
            candidate_failed(sim, peer, link, identity ? PCCL_LINK_OTHER : PCCL_LINK_TIMEOUT);
            return;
        }
        link_ended(sim, peer, link, got > 0 ? &msg : NULL);
        return;
    }
    if (!end->open || !end->ended)
        return;
    if (link->up)
        link_down(sim, peer, link, PCCL_LINK_CLOSED, false);
    else
        candidate_failed(sim, peer, link, PCCL_LINK_TIMEOUT);
}

static bool is_deaf(const struct sim *sim, const struct sim_conn *conn, int end)
{
    const struct sim_end *other = &conn->ends[1 - end];
    return !conn->answered && (sim_net_state(sim, conn->hosts[0], conn->hosts[1], conn->plane) != SIM_WHOLE ||
                               other->blackhole || (!other->open && !other->fin && !conn->ends[end].ended));
}

void sim_peer_watch_links(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        for (uint32_t k = 0; k < peer->link_count; k++) {
            struct sim_link *link = &peer->links[k];
            if (!link->up || !sim_peer_runs(peer) || !is_deaf(sim, link->conn, end_of(link))) {
                link->deaf_since = 0;
            } else if (link->deaf_since == 0) {
                link->deaf_since = sim->now;
            } else if (sim->now - link->deaf_since >= sim->plan.user_timeout_us) {
                link_down(sim, peer, link, PCCL_LINK_SILENT, false);
                sim_process_arm(sim, &peer->process);
                break; /* the list has changed; the others follow next time */
            }
        }
    }
}

/* ---- the listening port ---- */

static void accept_link(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn,
                        const struct pccl_msg_link_hello *hello)
{
    struct sim_end *end = &conn->ends[1];
    enum pccl_refusal refusal = PCCL_REFUSAL_MALFORMED;
    struct pccl_text reason;
    struct sim_link *waits = hello->reversed ? find_link(peer, &hello->from, false) : NULL;
    pccl_text_clear(&reason);
    bool is_awaited = waits != NULL && waits->reversed && waits->conn == NULL && waits->number == hello->number;
    if (pccl_peer_judge_link(peer->machine, hello, &refusal, &reason) != PCCL_OK || (hello->reversed && !is_awaited)) {
        struct pccl_msg msg = {.type = PCCL_MSG_refused,
                               .as.refused = {.version = PCCL_PROTOCOL_VERSION,
                                              .code = (uint16_t)refusal,
                                              .reason = pccl_bytes_of_text(&reason)}};
        sim_conn_send_msg(sim, conn, 1, &msg);
        sim_conn_close(sim, conn, 1);
        return;
    }
    struct pccl_msg msg = {.type = PCCL_MSG_link_ok,
                           .as.link_ok = {.version = PCCL_PROTOCOL_VERSION, .peer = peer->id}};
    sim_conn_send_msg(sim, conn, 1, &msg);
    if (hello->kind == PCCL_LINK_PROBE) {
        sim_conn_close(sim, conn, 1);
        return;
    }
    if (is_awaited) {
        end->deadline = UINT64_MAX;
        end->hello_seen = true;
        end->peer = hello->from;
        waits->conn = conn;
        waits->up = true;
        sim->totals.reversed++;
        sim_note(sim, "p%u: link to %02x%02x up, which has dialed", peer->process.number, hello->from.bytes[0],
                 hello->from.bytes[1]);
        struct pccl_peer_event event = {
            .kind = PCCL_PEER_LINK_UP, .peer = hello->from, .rtt_us = 100 + (uint32_t)(conn->id % 900)};
        step(sim, peer, &event);
        return;
    }
    struct sim_link *old = find_link(peer, &hello->from, true);
    if (old != NULL)
        drop_link(peer, old);
    if (peer->link_count == SIM_LINKS_MAX) {
        sim_conn_close(sim, conn, 1);
        return;
    }
    end->deadline = UINT64_MAX;
    end->hello_seen = true;
    end->peer = hello->from;
    peer->links[peer->link_count++] =
        (struct sim_link){.peer = hello->from, .incoming = true, .up = true, .number = hello->number, .conn = conn};
    sim_note(sim, "p%u: link from %02x%02x up", peer->process.number, hello->from.bytes[0], hello->from.bytes[1]);
    struct pccl_peer_event event = {.kind = PCCL_PEER_LINK_UP, .peer = hello->from, .incoming = true};
    step(sim, peer, &event);
}

static void incoming_readable(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn)
{
    struct sim_end *end = &conn->ends[1];
    while (end->open) {
        struct pccl_frame frame;
        struct pccl_msg msg;
        struct pccl_text reason;
        bool other_build;
        int got = sim_end_next(sim, end, &frame, &msg, &reason, &other_build);
        if (got == 0)
            break;
        struct sim_link *link = link_of(peer, conn, 1);
        if (link == NULL && got > 0 && msg.type == PCCL_MSG_link_hello) {
            accept_link(sim, peer, conn, &msg.as.link_hello);
            continue;
        }
        if (link != NULL)
            link_ended(sim, peer, link, got > 0 ? &msg : NULL);
        else
            sim_conn_close(sim, conn, 1);
        return;
    }
    if (!end->open || !end->ended)
        return;
    struct sim_link *link = link_of(peer, conn, 1);
    if (link != NULL)
        link_down(sim, peer, link, PCCL_LINK_CLOSED, false);
    else
        sim_conn_close(sim, conn, 1);
}

/* ---- the control connection ---- */

static void master_down(struct sim *sim, struct sim_peer *peer, const char *why, bool hung_up)
{
    if (peer->control != NULL)
        sim_conn_close(sim, peer->control, 0);
    peer->control = NULL;
    peer->control_up = false;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_text_add(&reason, why);
    struct pccl_peer_event event = {.kind = PCCL_PEER_MASTER_DOWN, .reason = &reason, .hung_up = hung_up};
    sim_note(sim, "p%u: master down: %s", peer->process.number, why);
    step(sim, peer, &event);
}

static void control_readable(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn)
{
    struct sim_end *end = &conn->ends[0];
    if (end->failed) {
        master_down(sim, peer, end->how == PCCL_LINK_REFUSED ? "connection refused" : "no answer", false);
        return;
    }
    struct pccl_peer_event event = {0};
    if (!peer->control_up) {
        peer->control_up = true;
        event.kind = PCCL_PEER_MASTER_UP;
        step(sim, peer, &event);
    }
    while (end->open && peer->control == conn) {
        struct pccl_frame frame;
        struct pccl_msg msg;
        struct pccl_text reason;
        int got = sim_end_next(sim, end, &frame, &msg, &reason, &event.other_build);
        if (got == 0)
            break;
        if (end->shake == SIM_SHAKE_FAILED) {
            master_down(sim, peer, end->why, false);
            return;
        }
        event.kind = got > 0 ? PCCL_PEER_MASTER_RECEIVED : PCCL_PEER_MASTER_GARBAGE;
        event.frame = got == -1 ? NULL : &frame;
        event.msg = &msg;
        event.reason = &reason;
        if (sim->trace && got > 0 && frame.type != PCCL_MSG_heartbeat) {
            struct pccl_text line;
            pccl_wire_print(&msg, &line);
            sim_note(sim, "p%u <- #%llu %s", peer->process.number, (unsigned long long)frame.sequence, line.bytes);
        }
        step(sim, peer, &event);
    }
    if (end->open && peer->control == conn && end->ended)
        master_down(sim, peer, "the connection broke", true);
}

void sim_peer_readable(struct sim *sim, struct sim_peer *peer, struct sim_conn *conn, int number)
{
    if (peer->machine == NULL)
        return;
    struct sim_end *end = &conn->ends[number];
    if (end->role == SIM_ROLE_CONTROL) {
        if (conn == peer->control)
            control_readable(sim, peer, conn);
        return;
    }
    if (end->role == SIM_ROLE_LINK_IN) {
        incoming_readable(sim, peer, conn);
        return;
    }
    struct sim_link *link = link_of(peer, conn, 0);
    if (link != NULL)
        outgoing_readable(sim, peer, link);
}

/* ---- effects ---- */

static void on_dial_master(void *context)
{
    struct sim_peer *peer = context;
    PCCL_ASSERT(peer->control == NULL);
    peer->master_dials++;
    peer->control = sim_dial(peer->process.sim, &peer->process, SIM_ROLE_CONTROL, SIM_CONTROL, 0, SIM_MASTER_PORT);
    peer->control_up = false;
}

static void on_close_master(void *context)
{
    struct sim_peer *peer = context;
    if (peer->control != NULL)
        sim_conn_close(peer->process.sim, peer->control, 0);
    peer->control = NULL;
    peer->control_up = false;
}

static void on_send_master(void *context, const uint8_t *bytes, size_t length)
{
    struct sim_peer *peer = context;
    if (peer->control == NULL || !peer->control_up)
        return;
    sim_check_sent_by_peer(peer->process.sim, peer, bytes, length);
    sim_conn_send(peer->process.sim, peer->control, 0, bytes, length);
}

static void on_accept_master(void *context)
{
    struct sim_peer *peer = context;
    if (peer->control != NULL)
        pccl_frame_reader_raise(&peer->control->ends[0].reader, PCCL_FRAME_BODY_MAX);
}

/* The driver requests the connection after the step that began the link. */
static void want_back(struct sim *sim, void *subject, uint64_t number, uint64_t unused)
{
    struct sim_peer *peer = subject;
    for (uint32_t i = 0; i < peer->link_count && sim_peer_runs(peer); i++) {
        const struct sim_link *link = &peer->links[i];
        if (link->incoming || !link->reversed || link->number != number || link->conn != NULL)
            continue;
        sim_peer_tell(sim, peer,
                      &(struct pccl_peer_event){
                          .kind = PCCL_PEER_WANT_BACK, .link = PCCL_LINK_RING, .peer = link->peer, .number = number});
        return;
    }
}

static void on_dial_link(void *context, const struct pccl_id *other, const struct pccl_id *ticket,
                         const struct pccl_address *candidates, uint32_t count, bool reversed)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    peer->dials++;
    sim_check_dialed(sim, peer, other);
    PCCL_ASSERT(find_link(peer, other, false) == NULL);
    PCCL_ASSERT(peer->link_count < SIM_LINKS_MAX && count > 0);
    struct sim_link *link = &peer->links[peer->link_count++];
    *link = (struct sim_link){.peer = *other, .ticket = *ticket, .candidate_count = count, .reversed = reversed};
    memcpy(link->candidates, candidates, count * sizeof *candidates);
    if (!reversed) {
        dial_candidate(sim, peer, link);
        return;
    }
    link->number = BACK_NUMBERS + ++sim->backs;
    link->deadline = sim->now + LINK_WAIT_US;
    sim_at(sim, sim->now, want_back, peer, link->number, 0);
    sim_process_arm(sim, &peer->process);
}

static void on_dial_back(void *context, const struct pccl_msg_dial_back *request)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    for (uint32_t i = peer->link_count; i-- > 0;)
        if (peer->links[i].incoming && !peer->links[i].up && pccl_id_equal(&peer->links[i].peer, &request->peer))
            drop_link(peer, &peer->links[i]); /* a later request replaces it */
    PCCL_ASSERT(peer->link_count < SIM_LINKS_MAX && request->candidates_count > 0);
    struct sim_link *link = &peer->links[peer->link_count++];
    *link = (struct sim_link){.peer = request->peer,
                              .ticket = request->ticket,
                              .candidate_count = request->candidates_count,
                              .number = request->number,
                              .incoming = true,
                              .reversed = true};
    memcpy(link->candidates, request->candidates, request->candidates_count * sizeof *request->candidates);
    dial_candidate(sim, peer, link);
}

static void on_close_link(void *context, const struct pccl_id *other, bool incoming)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    struct sim_link *link = find_link(peer, other, incoming);
    if (link == NULL)
        return;
    if (link->up) {
        struct pccl_msg msg = {.type = PCCL_MSG_link_bye};
        sim_conn_send_msg(sim, link->conn, end_of(link), &msg);
    }
    drop_link(peer, link);
}

static void on_cut_link(void *context, const struct pccl_id *other, uint64_t number)
{
    struct sim_peer *peer = context;
    struct sim_link *link = find_link(peer, other, false);
    if (link == NULL || link->number != number)
        return;
    if (link->conn != NULL)
        sim_conn_shutdown(peer->process.sim, link->conn, end_of(link));
    else
        link->deadline = peer->process.sim->now; /* the next tick ends the wait */
    sim_process_arm(peer->process.sim, &peer->process);
}

static void on_call_done(void *context, enum pccl_call call, enum pccl_status status, bool value)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    sim_note(sim, "p%u: call %d ends: %s%s", peer->process.number, (int)call, pccl_status_name(status),
             value ? " true" : "");
    peer->app.call_over[call] = true;
    peer->app.call_status[call] = status;
    peer->app.call_value[call] = value;
    peer->attributes_may_change = true;
    sim_check_call(sim, peer, call, status, value);
    if (call == PCCL_CALL_SYNC)
        sim_state_over(peer);
    if (call == PCCL_CALL_OPTIMIZE)
        peer->test.running = false;
    sim_app_later(sim, peer, sim_random(sim, 200));
}

static void on_op_decided(void *context, struct pccl_peer_op *op)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    sim_check_decided(sim, peer, op);
    if (op->user != NULL)
        ((struct sim_lane *)op->user)->decided = true;
    sim_app_later(sim, peer, sim_random(sim, 200));
}

static void on_op_start(void *context, struct pccl_peer_op *op)
{
    struct sim_peer *peer = context;
    sim_bulk_start(peer->process.sim, peer, op);
}

static void on_op_stop(void *context, struct pccl_peer_op *op)
{
    struct sim_peer *peer = context;
    sim_bulk_stop(peer->process.sim, peer, op);
}

static void on_op_restart(void *context, struct pccl_peer_op *op)
{
    struct sim_peer *peer = context;
    sim_check_restart(peer->process.sim, peer, op);
    sim_bulk_restart(peer->process.sim, peer, op);
}

static void on_op_gone(void *context, const struct pccl_instance *instance)
{
    struct sim_peer *peer = context;
    const struct pccl_peer_op *op = pccl_peer_find_instance(peer->machine, instance);
    if (op == NULL || op->state != PCCL_OP_TOMBSTONE)
        sim_fail(peer->process.sim, "p%u: an operation that was launched is said to be gone", peer->process.number);
    peer->ops_gone++;
}

static void on_subgroup_ended(void *context, uint64_t name)
{
    struct sim_peer *peer = context;
    sim_note(peer->process.sim, "p%u: subgroup %llx has ended", peer->process.number, (unsigned long long)name);
    sim_check_subgroup_ended(peer->process.sim, peer, name);
    sim_app_later(peer->process.sim, peer, sim_random(peer->process.sim, 200));
}

static void on_ring_changed(void *context, const struct pccl_id *ring, uint32_t count)
{
    struct sim_peer *peer = context;
    peer->told_ring = sim_ring_hash(ring, count);
}

static void on_sync_plan(void *context, const struct pccl_sync_plan *plan)
{
    struct sim_peer *peer = context;
    sim_state_planned(peer->process.sim, peer, plan);
}

static void on_sync_donor(void *context, const struct pccl_id *donor, const struct pccl_id *ticket, bool holds_unequal,
                          const struct pccl_proof *proof, const struct pccl_address *candidates, uint32_t count,
                          bool reversed)
{
    struct sim_peer *peer = context;
    PCCL_ASSERT(candidates != NULL && count > 0);
    (void)ticket, (void)reversed; /* its fetched data moves without a connection */
    sim_state_donor(peer->process.sim, peer, donor, holds_unequal, proof);
}

static void on_measure(void *context, const struct pccl_peer_test *test)
{
    struct sim_peer *peer = context;
    sim_test_begin(peer->process.sim, peer, test);
}

static void on_described(void *context, const struct pccl_bytes *text)
{
    struct sim_peer *peer = context;
    struct sim *sim = peer->process.sim;
    if (!peer->app.describing)
        sim_fail(sim, "T7 p%u is answered what it has not asked", peer->process.number);
    peer->app.describing = false;
    sim_note(sim, "p%u: how the links are seen: %u bytes", peer->process.number, text != NULL ? text->length : 0);
    *(text != NULL ? &peer->app.reports : &peer->app.unpictured) += 1;
    sim->totals.reports += text != NULL;
    if (text != NULL)
        sim_check_topology_report(sim, (const char *)text->data, text->length);
}

static void on_log(void *context, enum pccl_log_level level, const char *line)
{
    struct sim_peer *peer = context;
    sim_note(peer->process.sim, "p%u: %s", peer->process.number, line);
    sim_check_said(peer->process.sim, "peer", peer->process.number, line);
}

/* ---- time ---- */

static const struct sim_link *late_link(const struct sim_peer *peer, uint64_t by, uint64_t *next)
{
    for (uint32_t i = 0; i < peer->link_count; i++) {
        const struct sim_link *link = &peer->links[i];
        if (link->up)
            continue;
        uint64_t deadline = link->conn != NULL ? link->conn->ends[0].deadline : link->deadline;
        if (deadline <= by)
            return link;
        *next = pccl_min_u64(*next, deadline);
    }
    return NULL;
}

uint64_t sim_peer_deadline(const struct sim_peer *peer)
{
    if (peer->machine == NULL)
        return UINT64_MAX;
    uint64_t next = pccl_peer_deadline(peer->machine);
    (void)late_link(peer, 0, &next);
    return next;
}

void sim_peer_tick(struct sim *sim, struct sim_peer *peer)
{
    const struct sim_link *late;
    uint64_t next = UINT64_MAX;
    while (peer->machine != NULL && (late = late_link(peer, sim->now, &next)) != NULL) {
        struct sim_link *link = &peer->links[late - peer->links];
        if (link->conn != NULL)
            candidate_failed(sim, peer, link, PCCL_LINK_TIMEOUT);
        else
            end_link(sim, peer, link, PCCL_LINK_TIMEOUT, false, NULL);
    }
    if (peer->machine == NULL || pccl_peer_deadline(peer->machine) > sim->now)
        return;
    struct pccl_peer_event event = {.kind = PCCL_PEER_TICK};
    step(sim, peer, &event);
}

/* ---- life ---- */

bool sim_peer_runs(const struct sim_peer *peer) { return sim_process_runs(&peer->process) && peer->machine != NULL; }

struct sim_peer *sim_peer_find(struct sim *sim, const struct pccl_id *id)
{
    for (uint32_t i = sim->peer_count; i-- > 0;)
        if (pccl_id_equal(&sim->peers[i]->id, id))
            return sim->peers[i];
    return NULL;
}

struct sim_conn *sim_peer_link(struct sim_peer *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < from->link_count; i++)
        if (from->links[i].up && pccl_id_equal(&from->links[i].peer, to))
            return from->links[i].conn;
    return NULL;
}

struct sim_peer *sim_peer_start(struct sim *sim, uint32_t host, uint16_t port, uint32_t group, bool manual)
{
    if (sim->peer_count == SIM_PEERS_MAX)
        sim_fail(sim, "I12 too many incarnations: peers come and go without end");
    struct sim_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL)
        abort();
    sim_process_init(sim, &peer->process, host, port);
    peer->process.number = sim->peer_count;
    sim_faults_wall(sim, &peer->process);
    sim->peers[sim->peer_count++] = peer;
    peer->group = group;
    peer->app.manual = manual;
    peer->config = sim->plan.peer;
    peer->config.id = pccl_prng_id(&sim->prng);
    peer->config.token = pccl_prng_id(&sim->prng);
    peer->config.link_key = peer->config.token;
    peer->config.link_key.bytes[0] ^= 1;
    peer->config.hash_seed = sim_mix(sim->hash_seed, ~(uint64_t)peer->process.number);
    peer->config.group = group;
    peer->config.port = port;
    peer->config.candidates[0] = sim_address(host, port);
    peer->config.candidate_count = 1;
    if (peer->config.name[0] == '\0') /* else a scenario has chosen it */
        (void)snprintf(peer->config.name, sizeof peer->config.name, "p%u", peer->process.number);
    peer->id = peer->config.id;
    const struct pccl_peer_effects effects = {.context = peer,
                                              .dial_master = on_dial_master,
                                              .close_master = on_close_master,
                                              .send_master = on_send_master,
                                              .accept_master = on_accept_master,
                                              .dial_link = on_dial_link,
                                              .close_link = on_close_link,
                                              .dial_back = on_dial_back,
                                              .cut_link = on_cut_link,
                                              .call_done = on_call_done,
                                              .op_decided = on_op_decided,
                                              .op_start = on_op_start,
                                              .op_stop = on_op_stop,
                                              .op_restart = on_op_restart,
                                              .op_gone = on_op_gone,
                                              .subgroup_ended = on_subgroup_ended,
                                              .ring_changed = on_ring_changed,
                                              .sync_plan = on_sync_plan,
                                              .sync_donor = on_sync_donor,
                                              .measure = on_measure,
                                              .described = on_described,
                                              .log = on_log};
    struct pccl_memory memory = sim_memory_hook(&peer->process.memory);
    sim->oom_paused = true;
    peer->machine = pccl_peer_create(&peer->config, &memory, &effects, sim->now);
    sim->oom_paused = false;
    sim_state_init(sim, peer);
    sim->totals.joins++;
    sim_note(sim, "PEER p%u = %02x%02x... of group %u starts at host %u port %u", peer->process.number,
             peer->id.bytes[0], peer->id.bytes[1], group, host, (unsigned)port);
    sim_app_begin(sim, peer);
    sim_process_arm(sim, &peer->process);
    return peer;
}

/* The process ends: by a signal, by itself, or with its host. */
void sim_peer_kill(struct sim *sim, struct sim_peer *peer, bool silently)
{
    if (!peer->process.alive)
        return;
    peer->process.alive = false;
    peer->process.closing_until = sim->now;
    if (!silently) /* usually up to 10 ms; for one in sixteen longer */
        peer->process.closing_until += peer->id.bytes[15] * UINT64_C(40) * (peer->id.bytes[14] % 16 == 0 ? 20 : 1);
    peer->app.state = SIM_APP_GONE;
    sim_bulk_peer_gone(sim, peer);
    sim_state_over(peer);
    peer->test.running = false;
    sim_net_process_gone(sim, &peer->process, silently);
    peer->link_count = 0;
    peer->control = NULL;
    pccl_peer_destroy(peer->machine);
    peer->machine = NULL;
    if (peer->process.memory.bytes != 0)
        sim_fail(sim, "MEMORY peer p%u left %zu bytes", peer->process.number, peer->process.memory.bytes);
}
