/*
 * Connections that behave as in TCP: in each direction a FIFO of bytes, delayed but never out of order; stalls and
 * drops without a close; FIN after the flushed bytes; a break loses a suffix of the bytes in flight, and the sender
 * does not know which. A sender to an end that is gone gets a reset, if its host can be reached.
 */
#include "sim.h"
#include "wire/digest.h"
#include "wire/greeting.h"

#include <stdlib.h>
#include <string.h>

static void deliver(struct sim *sim, void *subject, uint64_t end, uint64_t unused);

struct pccl_address sim_address(uint32_t host, uint16_t port)
{
    return pccl_address_v4(10, 0, 0, (uint8_t)(host + 1), port);
}

uint32_t sim_host_of(const struct pccl_address *address) { return (uint32_t)address->ip[15] - 1; }

enum sim_cut sim_net_state(const struct sim *sim, uint32_t a, uint32_t b, enum sim_plane plane)
{
    if (sim->host_down[a] || sim->host_down[b])
        return SIM_DROP;
    return a == b ? SIM_WHOLE : (enum sim_cut)sim->cuts[a][b][plane];
}

struct sim_process *sim_net_listener(struct sim *sim, uint32_t host, uint16_t port)
{
    if (sim->master != NULL && sim->master->process.alive && sim->master->process.host == host &&
        port == SIM_MASTER_PORT)
        return &sim->master->process;
    for (uint32_t i = sim->peer_count; i-- > 0;)
        if (sim->peers[i]->process.alive && sim->peers[i]->process.host == host && sim->peers[i]->process.port == port)
            return &sim->peers[i]->process;
    return NULL;
}

/* Returns true for the port of a process that is dying: it still accepts connections, and closes them at once. */
static bool is_closing(const struct sim *sim, uint32_t host, uint16_t port)
{
    for (uint32_t i = sim->peer_count; i-- > 0;) {
        const struct sim_process *process = &sim->peers[i]->process;
        if (process->host == host && process->port == port)
            return sim->now < process->closing_until;
    }
    return false;
}

static uint64_t delay(struct sim *sim, const struct sim_conn *conn)
{
    uint64_t us = conn->hosts[0] == conn->hosts[1] ? sim_between(sim, 5, 60)
                                                   : sim_between(sim, sim->plan.delay_low_us, sim->plan.delay_high_us);
    return us + (sim->now < conn->slow_until ? conn->slow_by : 0);
}

/* ---- ends ---- */

static void drop_outgoing(struct sim_end *end, uint32_t keep)
{
    struct sim_chunk **at = &end->first;
    end->last = NULL;
    for (; keep > 0 && *at != NULL; keep--) {
        end->last = *at;
        at = &(*at)->next;
    }
    struct sim_chunk *gone = *at;
    *at = NULL;
    while (gone != NULL) {
        struct sim_chunk *next = gone->next;
        free(gone);
        gone = next;
    }
}

static void release_end(struct sim_end *end)
{
    if (end->role != SIM_ROLE_NONE)
        pccl_frame_reader_fini(&end->reader);
    end->role = SIM_ROLE_NONE;
    free(end->in);
    free(end->held);
    end->in = end->held = NULL;
    end->in_start = end->in_end = end->in_capacity = 0;
    end->open = false;
}

/* Ends the input; the process learns it after it has read the received bytes. */
static void end_of_input(struct sim *sim, struct sim_conn *conn, int end, bool lose_unread)
{
    struct sim_end *e = &conn->ends[end];
    if (!e->open || e->ended)
        return;
    if (lose_unread)
        e->in_start = e->in_end;
    e->ended = true;
    e->how = PCCL_LINK_CLOSED;
    sim_process_ready(sim, conn, end);
}

static void open_end(struct sim *sim, struct sim_process *process, struct sim_end *end, enum sim_role role)
{
    pccl_frame_reader_init(&end->reader, &sim->driver_hook);
    end->process = process;
    end->role = role;
    end->open = true;
    end->deadline = UINT64_MAX;
}

/* ---- dialing ---- */

enum { SYN_RETRY_US = 150000, DIAL_US = 600000 };

static void dial_failed(struct sim *sim, struct sim_conn *conn, enum pccl_link_end how)
{
    struct sim_end *end = &conn->ends[0];
    conn->broken = true;
    if (!end->open)
        return;
    end->failed = true;
    end->how = how;
    sim_process_ready(sim, conn, 0);
}

/* Returns the fate of a connection from `dialer`, which may be NULL, to a port that may be behind a firewall. */
static enum sim_cut wall_against(const struct sim_process *listener, const struct sim_process *dialer)
{
    bool is_inside =
        dialer != NULL && (dialer->host == listener->host || (dialer->site != 0 && dialer->site == listener->site));
    return is_inside ? SIM_WHOLE : listener->wall;
}

enum sim_cut sim_net_between(const struct sim *sim, const struct sim_process *a, const struct sim_process *b)
{
    enum sim_cut cut = sim_net_state(sim, a->host, b->host, SIM_DATA);
    if (cut != SIM_WHOLE || wall_against(a, b) == SIM_WHOLE)
        return cut;
    return wall_against(b, a);
}

static void dial_step(struct sim *sim, void *subject, uint64_t since, uint64_t unused)
{
    struct sim_conn *conn = subject;
    if (!conn->ends[0].open) {
        conn->broken = true;
        return;
    }
    enum sim_cut cut = sim_net_state(sim, conn->hosts[0], conn->hosts[1], conn->plane);
    struct sim_process *listener = sim_net_listener(sim, conn->hosts[1], conn->port);
    if (cut == SIM_WHOLE && listener != NULL && conn->hosts[0] != conn->hosts[1])
        cut = wall_against(listener, conn->ends[0].process);
    if (conn->ends[0].process != NULL && conn->ends[0].process->starved && conn->plane == SIM_DATA) {
        dial_failed(sim, conn, 0);
        return;
    }
    bool waits = cut == SIM_WHOLE && listener != NULL && listener->starved; /* among those not accepted yet */
    if (waits)
        sim_peer_note_shortage(sim, (struct sim_peer *)listener);
    if (cut == SIM_DROP || waits) {
        if (sim->now - since >= DIAL_US)
            dial_failed(sim, conn, PCCL_LINK_TIMEOUT);
        else
            sim_at(sim, sim->now + SYN_RETRY_US, dial_step, conn, since, 0);
        return;
    }
    if (cut == SIM_REFUSE || listener == NULL) {
        bool closes = cut != SIM_REFUSE && is_closing(sim, conn->hosts[1], conn->port);
        dial_failed(sim, conn, closes ? PCCL_LINK_CLOSED : PCCL_LINK_REFUSED);
        return;
    }
    open_end(sim, listener, &conn->ends[1], listener->is_master ? SIM_ROLE_MASTER : SIM_ROLE_LINK_IN);
    conn->ends[1].shake = sim->secured ? SIM_SHAKING : SIM_SHAKE_NONE;
    sim_process_ready(sim, conn, 1);
    sim_process_ready(sim, conn, 0);
    conn->ends[0].established = true;
    conn->ends[1].established = true;
}

struct sim_conn *sim_dial(struct sim *sim, struct sim_process *from, enum sim_role role, enum sim_plane plane,
                          uint32_t host, uint16_t port)
{
    struct sim_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        abort();
    conn->id = ++sim->conn_count;
    conn->plane = plane;
    conn->hosts[0] = from != NULL ? from->host : SIM_HOSTS_MAX - 1;
    conn->hosts[1] = host;
    conn->port = port;
    conn->next = sim->conns;
    sim->conns = conn;
    if (sim->conn_count >= sim->conn_capacity) {
        sim->conn_capacity = sim->conn_capacity != 0 ? 2 * sim->conn_capacity : 256;
        sim->conn_by_id = realloc(sim->conn_by_id, sim->conn_capacity * sizeof *sim->conn_by_id);
        if (sim->conn_by_id == NULL)
            abort();
    }
    sim->conn_by_id[conn->id] = conn;
    open_end(sim, from, &conn->ends[0], role);
    conn->ends[0].shake = sim->secured && role != SIM_ROLE_STRANGER ? SIM_SHAKING : SIM_SHAKE_NONE;
    sim_at(sim, sim->now + 2 * delay(sim, conn), dial_step, conn, sim->now, 0);
    return conn;
}

/* ---- sending and delivery ---- */

static void schedule(struct sim *sim, struct sim_conn *conn, int end)
{
    struct sim_end *from = &conn->ends[end];
    if (from->scheduled || from->stalled || (from->first == NULL && !from->fin))
        return;
    from->scheduled = true;
    sim_at(sim, from->first != NULL ? from->first->arrives : from->last_arrival, deliver, conn, (uint64_t)end, 0);
}

void sim_conn_send(struct sim *sim, struct sim_conn *conn, int end, const uint8_t *bytes, size_t length)
{
    struct sim_end *from = &conn->ends[end];
    if (from->open && length > 0 && !sim_shake_send(sim, conn, end, bytes, length))
        sim_conn_send_raw(sim, conn, end, bytes, length);
}

void sim_conn_send_msg(struct sim *sim, struct sim_conn *conn, int end, const struct pccl_msg *msg)
{
    uint8_t bytes[PCCL_FRAME_HEADER_BYTES + 1024];
    size_t length = pccl_frame_size(msg);
    PCCL_ASSERT(length <= sizeof bytes);
    pccl_frame_encode(msg, 0, 0, bytes);
    sim_conn_send(sim, conn, end, bytes, length);
}

void sim_conn_send_raw(struct sim *sim, struct sim_conn *conn, int end, const uint8_t *bytes, size_t length)
{
    struct sim_end *from = &conn->ends[end];
    if (!from->open || from->fin || conn->broken || length == 0 || from->last_said)
        return;
    from->last_said = from->last_type != 0 && length > 5 && bytes[4] == from->last_type; /* one whole frame at a time */
    while (length > 0) {
        size_t part = length;
        if (length > 1 && sim_chance(sim, sim->plan.split_percent))
            part = 1 + sim_random(sim, length - 1);
        struct sim_chunk *chunk = malloc(sizeof *chunk + part);
        if (chunk == NULL)
            abort();
        chunk->next = NULL;
        chunk->length = (uint32_t)part;
        memcpy(chunk->bytes, bytes, part);
        chunk->arrives = from->last_arrival = pccl_max_u64(from->last_arrival, sim->now + delay(sim, conn));
        *(from->last != NULL ? &from->last->next : &from->first) = chunk;
        from->last = chunk;
        bytes += part;
        length -= part;
    }
    schedule(sim, conn, end);
}

/* Answers with a reset: the kernel at the far end does not know the connection. */
static void answer_reset(struct sim *sim, void *subject, uint64_t end, uint64_t unused)
{
    struct sim_conn *conn = subject;
    if (sim_net_state(sim, conn->hosts[0], conn->hosts[1], conn->plane) == SIM_DROP)
        return;
    conn->broken = true;
    drop_outgoing(&conn->ends[end], 0);
    end_of_input(sim, conn, (int)end, sim_chance(sim, sim->plan.loss_percent));
}

static void give_up(struct sim *sim, void *subject, uint64_t end, uint64_t since)
{
    struct sim_conn *conn = subject;
    struct sim_end *from = &conn->ends[end];
    if (from->stalled && from->stalled_since == since) {
        from->blackhole = true; /* the kernel has given up: later data does not get through either */
        drop_outgoing(from, 0);
        end_of_input(sim, conn, (int)end, false);
    }
}

static void stall(struct sim *sim, struct sim_conn *conn, int end)
{
    struct sim_end *from = &conn->ends[end];
    if (from->stalled)
        return;
    from->stalled = true;
    from->stalled_since = sim->now;
    if (from->open)
        sim_at(sim, sim->now + sim->plan.user_timeout_us, give_up, conn, (uint64_t)end, sim->now);
}

static void append(struct sim_end *to, const uint8_t *bytes, uint32_t length)
{
    if (to->in_start == to->in_end)
        to->in_start = to->in_end = 0;
    if (to->in_end + length > to->in_capacity) {
        if (to->in_start != 0)
            memmove(to->in, to->in + to->in_start, to->in_end - to->in_start);
        to->in_end -= to->in_start;
        to->in_start = 0;
        if (to->in_end + length > to->in_capacity) {
            to->in_capacity = 2 * (to->in_end + length);
            to->in = realloc(to->in, to->in_capacity);
            if (to->in == NULL)
                abort();
        }
    }
    memcpy(to->in + to->in_end, bytes, length);
    to->in_end += length;
}

static void deliver(struct sim *sim, void *subject, uint64_t number, uint64_t unused)
{
    struct sim_conn *conn = subject;
    int end = (int)number;
    struct sim_end *from = &conn->ends[end], *to = &conn->ends[1 - end];
    from->scheduled = false;
    if (conn->broken || (from->first == NULL && !from->fin))
        return;
    if (conn->answered) {
        drop_outgoing(from, 0);
        from->fin = false;
        return;
    }
    if (from->blackhole || sim_net_state(sim, conn->hosts[0], conn->hosts[1], conn->plane) != SIM_WHOLE) {
        stall(sim, conn, end);
        return;
    }
    if (from->first != NULL) {
        struct sim_chunk *chunk = from->first;
        from->first = chunk->next;
        if (from->first == NULL)
            from->last = NULL;
        if (to->open && !to->ended) {
            append(to, chunk->bytes, chunk->length);
            sim_process_ready(sim, conn, 1 - end);
        } else if (from->open && !to->open) {
            sim_at(sim, sim->now + delay(sim, conn), answer_reset, conn, (uint64_t)end, 0);
        }
        free(chunk);
    } else {
        from->fin = false;
        end_of_input(sim, conn, 1 - end, false);
        return;
    }
    schedule(sim, conn, end);
}

/* ---- ending ---- */

void sim_conn_close(struct sim *sim, struct sim_conn *conn, int end)
{
    struct sim_end *e = &conn->ends[end];
    if (!e->open)
        return;
    bool unread = e->in_start != e->in_end;
    release_end(e);
    if (conn->broken)
        return;
    e->fin = true;
    if (unread && sim_chance(sim, sim->plan.loss_percent)) {
        /* a close with unread bytes is a reset: flushed data may be lost */
        drop_outgoing(e, 0);
    }
    e->last_arrival = pccl_max_u64(e->last_arrival, sim->now + delay(sim, conn));
    schedule(sim, conn, end);
}

void sim_conn_reset(struct sim *sim, struct sim_conn *conn)
{
    if (conn->broken)
        return;
    sim->totals.resets++;
    sim_check_conn_unwell(sim, conn, sim->now);
    conn->broken = true;
    for (int end = 0; end < 2; end++) {
        struct sim_end *from = &conn->ends[end], *to = &conn->ends[1 - end];
        uint32_t under_way = 0;
        for (struct sim_chunk *chunk = from->first; chunk != NULL; chunk = chunk->next)
            under_way++;
        drop_outgoing(from, (uint32_t)sim_random(sim, under_way + 1u));
        for (struct sim_chunk *chunk = from->first; chunk != NULL; chunk = chunk->next)
            if (to->open && !to->ended)
                append(to, chunk->bytes, chunk->length);
        drop_outgoing(from, 0);
    }
    for (int end = 0; end < 2; end++) {
        if (conn->ends[end].open && conn->ends[end].established)
            end_of_input(sim, conn, end, false);
        else if (conn->ends[end].open && end == 0)
            dial_failed(sim, conn, PCCL_LINK_CLOSED);
    }
}

void sim_conn_half_reset(struct sim *sim, struct sim_conn *conn, bool answered)
{
    sim->totals.half_resets++;
    conn->ends[0].blackhole = conn->ends[1].blackhole = true;
    conn->answered = answered;
    end_of_input(sim, conn, 1, true);
}

void sim_conn_shutdown(struct sim *sim, struct sim_conn *conn, int end) { end_of_input(sim, conn, end, false); }

void sim_conn_blackhole(struct sim *sim, struct sim_conn *conn, int end)
{
    sim_check_conn_unwell(sim, conn, sim->now + sim->plan.user_timeout_us + sim->plan.master.silence_ms * SIM_MS);
    conn->ends[end].blackhole = true;
}

/* Takes connections without open ends out of the list that faults use. */
static void prune(struct sim *sim)
{
    struct sim_conn **at = &sim->conns;
    while (*at != NULL) {
        struct sim_conn *conn = *at;
        const struct sim_end *a = &conn->ends[0], *b = &conn->ends[1];
        bool idle = !a->open && !b->open;
        if (idle)
            *at = conn->next;
        else
            at = &conn->next;
    }
}

void sim_net_process_gone(struct sim *sim, struct sim_process *process, bool silently)
{
    prune(sim);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        for (int end = 0; end < 2; end++) {
            struct sim_end *e = &conn->ends[end];
            if (!e->open || e->process != process)
                continue;
            if (silently) {
                release_end(e);
                drop_outgoing(e, 0);
            } else if (sim_chance(sim, 30)) {
                release_end(e); /* a reset: a suffix of the sent bytes is lost */
                uint32_t under_way = 0;
                for (struct sim_chunk *chunk = e->first; chunk != NULL; chunk = chunk->next)
                    under_way++;
                drop_outgoing(e, (uint32_t)sim_random(sim, under_way + 1u));
                e->fin = true;
                e->last_arrival = pccl_max_u64(e->last_arrival, sim->now + delay(sim, conn));
                schedule(sim, conn, end);
            } else {
                sim_conn_close(sim, conn, end);
            }
        }
    }
}

/* ---- cuts ---- */

static void resume_stalled(struct sim *sim)
{
    prune(sim);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        if (sim_net_state(sim, conn->hosts[0], conn->hosts[1], conn->plane) != SIM_WHOLE)
            continue;
        for (int end = 0; end < 2; end++) {
            struct sim_end *from = &conn->ends[end];
            if (!from->stalled || from->blackhole)
                continue;
            from->stalled = false;
            uint64_t at = sim->now + delay(sim, conn);
            for (struct sim_chunk *chunk = from->first; chunk != NULL; chunk = chunk->next)
                chunk->arrives = pccl_max_u64(chunk->arrives, at);
            from->last_arrival = pccl_max_u64(from->last_arrival, at);
            schedule(sim, conn, end);
        }
    }
}

void sim_net_cut(struct sim *sim, uint32_t a, uint32_t b, enum sim_plane plane, enum sim_cut cut)
{
    if (plane == SIM_CONTROL)
        sim_check_hosts_unwell(sim, a, b);
    sim->cuts[a][b][plane] = sim->cuts[b][a][plane] = (uint8_t)cut;
    if (cut == SIM_WHOLE)
        resume_stalled(sim);
}

void sim_net_host(struct sim *sim, uint32_t host, bool up)
{
    sim_check_hosts_unwell(sim, host, host);
    sim->host_down[host] = !up;
    if (up)
        resume_stalled(sim);
}

void sim_net_fini(struct sim *sim)
{
    for (uint64_t id = 1; id <= sim->conn_count; id++) {
        struct sim_conn *conn = sim->conn_by_id[id];
        for (int end = 0; end < 2; end++) {
            release_end(&conn->ends[end]);
            drop_outgoing(&conn->ends[end], 0);
        }
        free(conn);
    }
    free(sim->conn_by_id);
    sim->conn_by_id = NULL;
    sim->conns = NULL;
    sim->conn_count = sim->conn_capacity = 0;
}

/* ---- whole messages ---- */

const struct pccl_build *sim_build(void)
{
    static struct pccl_build build; /* of any commit: a seed does the same with each */
    if (build.version == 0)
        build = (struct pccl_build){.digest = pccl_wire_digest(), .version = PCCL_PROTOCOL_VERSION, .release = 100};
    return &build;
}

static const struct pccl_build *build_of(const struct sim_process *process)
{
    if (process == NULL)
        return sim_build();
    return process->is_master ? &((const struct sim_master *)process)->config.build
                              : &((const struct sim_peer *)process)->config.build;
}

int sim_end_next(struct sim *sim, struct sim_end *end, struct pccl_frame *frame, struct pccl_msg *msg,
                 struct pccl_text *reason, bool *other_build)
{
    *other_build = false;
    if (end->shake == SIM_SHAKE_FAILED) {
        pccl_text_format(reason, "%s", end->why);
        return -1;
    }
    if (end->shake != SIM_SHAKE_NONE && end->shake != SIM_SHAKEN)
        return 0;
    for (;;) {
        int got = pccl_frame_reader_next(&end->reader, frame, reason);
        if (got < 0)
            return -1;
        if (got > 0)
            break;
        uint32_t waiting = end->in_end - end->in_start;
        if (waiting == 0)
            return 0;
        size_t space = 0;
        uint8_t *to = pccl_frame_reader_space(&end->reader, &space);
        if (to == NULL)
            return -1;
        size_t length = waiting < space ? waiting : space;
        memcpy(to, end->in + end->in_start, length);
        end->in_start += (uint32_t)length;
        pccl_frame_reader_filled(&end->reader, length);
    }
    static const struct pccl_sides sides = {.here = "this side", .there = "the other side"};
    *other_build = pccl_greeting_is_foreign(build_of(end->process), &sides, frame, reason);
    if (*other_build)
        return -2;
    return pccl_wire_decode(frame->type, frame->body, frame->length, &sim->scratch, msg, reason) == PCCL_OK ? 1 : -2;
}
