/* The master's driver in the simulator: connections, probes and time, as in drive/master_server.c with sockets. */
#include "master/links.h"
#include "master/diagnosis.h"
#include "master/membership.h"
#include "sim.h"
#include "support/wire_print.h"

#include <stdlib.h>
#include <string.h>

enum { PROBE_US = 400000 };

static struct sim_conn *find_conn(struct sim *sim, const struct sim_master *master, pccl_conn id)
{
    struct sim_conn *conn = id != 0 && id <= sim->conn_count ? sim->conn_by_id[id] : NULL;
    return conn != NULL && conn->ends[1].open && conn->ends[1].process == &master->process ? conn : NULL;
}

/* ---- effects ---- */

static void on_send(void *context, pccl_conn id, const uint8_t *bytes, size_t length)
{
    struct sim_master *master = context;
    struct sim *sim = master->process.sim;
    struct sim_conn *conn = find_conn(sim, master, id);
    if (conn == NULL)
        return;
    sim_check_sent_by_master(sim, master, conn, bytes, length);
    sim_conn_send(sim, conn, 1, bytes, length);
}

static void on_accept(void *context, pccl_conn id)
{
    struct sim_master *master = context;
    struct sim_conn *conn = find_conn(master->process.sim, master, id);
    if (conn != NULL)
        pccl_frame_reader_raise(&conn->ends[1].reader, PCCL_FRAME_BODY_MAX);
}

static void on_close(void *context, pccl_conn id)
{
    struct sim_master *master = context;
    struct sim_conn *conn = find_conn(master->process.sim, master, id);
    if (conn != NULL)
        sim_conn_close(master->process.sim, conn, 1);
}

static bool on_probe(void *context, const struct pccl_id *peer, const struct pccl_id *lineage,
                     const struct pccl_id *ticket, const struct pccl_address *address)
{
    struct sim_master *master = context;
    struct sim *sim = master->process.sim;
    bool none = !sim->faults_stopped && sim_mix(sim->seed ^ 0x960be, sim->now) % 100 < sim->plan.no_probe_percent;
    if (none || sim->no_probes) {
        sim_note(sim, "master cannot probe %02x%02x", peer->bytes[0], peer->bytes[1]);
        return false;
    }
    sim_note(sim, "master probes %02x%02x at host %u", peer->bytes[0], peer->bytes[1], sim_host_of(address));
    struct sim_conn *conn =
        sim_dial(sim, &master->process, SIM_ROLE_PROBE, SIM_DATA, sim_host_of(address), address->port);
    conn->ends[0].peer = *peer;
    conn->ends[0].deadline = sim->now + PROBE_US;
    conn->ends[0].lineage = *lineage;
    conn->ends[0].key = *ticket;
    master->process.probe_count++;
    sim_process_arm(sim, &master->process);
    return true;
}

static void on_solve(void *context, uint64_t ticket, const struct pccl_ring_problem *problem)
{
    struct sim_master *master = context;
    sim_search_begin(master->process.sim, master, ticket, problem);
}

static void on_stop_solving(void *context, uint64_t ticket)
{
    struct sim_master *master = context;
    sim_search_stop(master->process.sim, master, ticket);
}

static void on_topology_report(void *context, uint32_t group, const char *text, size_t length)
{
    struct sim_master *master = context;
    sim_note(master->process.sim, "master: a picture of group %u, %zu bytes", group, length);
    sim_check_topology_report(master->process.sim, text, length);
}

static void on_note_run(void *context, const struct pccl_id *lineage)
{
    struct sim_master *master = context;
    struct sim *sim = master->process.sim;
    sim->run_noted = lineage != NULL;
    sim_note(sim, "master: %s", lineage != NULL ? "a run lives" : "no run lives");
}

static void on_log(void *context, enum pccl_log_level level, const char *line, const struct pccl_log_fields *fields)
{
    struct sim_master *master = context;
    sim_note(master->process.sim, "master: %s", line);
    sim_check_said(master->process.sim, "master", master->process.number, line);
}

/* ---- events ---- */

static void step(struct sim *sim, struct sim_master *master, const struct pccl_master_event *event)
{
    sim->totals.steps++;
    pccl_master_step(master->machine, event);
    sim_check_master(sim, master);
}

void sim_master_event(struct sim *sim, struct sim_master *master, const struct pccl_master_event *event)
{
    step(sim, master, event);
    sim_process_arm(sim, &master->process);
}

/* Exchanges the places of two members, if the links for that are up, as the adoption of a better ring does. */
void sim_master_replan(struct sim *sim)
{
    uint32_t order[PCCL_PEERS_MAX];
    struct pccl_text why;
    struct pccl_master *m = sim_master_is_up(sim) ? sim->master->machine : NULL;
    if (m == NULL || m->group_count == 0 || !sim_process_runs(&sim->master->process))
        return;
    struct pccl_peer_group *group = m->groups[sim_random(sim, m->group_count)];
    if (!pccl_master_may_replan(m, group))
        return;
    uint32_t count = group->ring_count, one = (uint32_t)sim_random(sim, count);
    uint32_t other = (one + 1 + (uint32_t)sim_random(sim, count - 1)) % count;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i == one ? other : i == other ? one : i;
    bool stands = true;
    for (uint32_t i = 0; i < count; i++)
        stands = stands && pccl_master_holds_link(group->ring[order[i]], group->ring[order[(i + 1) % count]]);
    if (!stands || !pccl_master_reorder(m, group, order))
        return;
    sim_note(sim, "the ring of group %u is planned anew", group->number);
    sim->totals.replans++;
    pccl_text_format(&why, "another ring");
    pccl_master_replan(m, group, &why);
    /* The consequences follow after the next event. */
    sim_master_event(sim, sim->master, &(struct pccl_master_event){.kind = PCCL_MASTER_CLOSED, .now_us = sim->now});
}

static void probed(struct sim *sim, struct sim_master *master, struct sim_conn *conn, bool answered,
                   enum pccl_link_end how)
{
    struct pccl_id peer = conn->ends[0].peer;
    sim_conn_close(sim, conn, 0);
    master->process.probe_count--;
    struct pccl_master_event event = {
        .kind = PCCL_MASTER_PROBED, .now_us = sim->now, .peer = peer, .answered = answered, .how = how};
    sim_note(sim, "master probed %02x%02x: %s %d", peer.bytes[0], peer.bytes[1], answered ? "answered" : "no answer",
             (int)how);
    step(sim, master, &event);
}

static void probe_readable(struct sim *sim, struct sim_master *master, struct sim_conn *conn)
{
    struct sim_end *end = &conn->ends[0];
    if (end->failed) {
        probed(sim, master, conn, false, end->how);
        return;
    }
    if (!end->hello_seen) {
        end->hello_seen = true; /* sent */
        struct pccl_msg hello = {.type = PCCL_MSG_link_hello,
                                 .as.link_hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                                   .build = *sim_build(),
                                                   .lineage = end->lineage,
                                                   .from = end->peer,
                                                   .to = end->peer,
                                                   .kind = PCCL_LINK_PROBE}};
        sim_conn_send_msg(sim, conn, 0, &hello);
    }
    struct pccl_frame frame;
    struct pccl_msg msg;
    struct pccl_text reason;
    bool other_build;
    int got = sim_end_next(sim, end, &frame, &msg, &reason, &other_build);
    if (got > 0 && msg.type == PCCL_MSG_link_ok)
        probed(sim, master, conn, true, 0);
    else if (got > 0 && msg.type == PCCL_MSG_refused)
        probed(sim, master, conn, false,
               msg.as.refused.code == PCCL_REFUSAL_IDENTITY ? PCCL_LINK_OTHER : PCCL_LINK_REFUSED);
    else if (got != 0)
        probed(sim, master, conn, false, PCCL_LINK_OTHER);
    else if (end->ended)
        probed(sim, master, conn, false, PCCL_LINK_CLOSED);
}

/*
 * Revokes the token of a host. All peers of one host have the same token, which is in the token file; it survives a
 * restart.
 */
void sim_master_revoke(struct sim *sim, uint32_t host)
{
    sim->revoked = host;
    struct pccl_master_event event = {.kind = PCCL_MASTER_REVOKED, .now_us = sim->now, .pass = host};
    step(sim, sim->master, &event);
    sim_process_arm(sim, &sim->master->process);
}

void sim_master_readable(struct sim *sim, struct sim_master *master, struct sim_conn *conn, int number)
{
    static const struct pccl_text revoked = {.length = 21, .bytes = "its token was revoked"};
    struct sim_end *end = &conn->ends[number];
    if (end->role == SIM_ROLE_PROBE) {
        probe_readable(sim, master, conn);
        return;
    }
    struct pccl_master_event event = {.now_us = sim->now, .conn = conn->id};
    if (!end->hello_seen) {
        end->hello_seen = true; /* the machine knows the connection */
        event.kind = PCCL_MASTER_OPENED;
        event.address =
            sim_address(sim->behind_one ? SIM_HOSTS_MAX - 1 : conn->hosts[0], (uint16_t)(20000 + conn->id % 20000));
        step(sim, master, &event);
    }
    while (end->open) {
        struct pccl_frame frame;
        struct pccl_msg msg;
        struct pccl_text reason;
        int got = sim_end_next(sim, end, &frame, &msg, &reason, &event.other_build);
        if (got == 0)
            break;
        event.kind = got > 0 ? PCCL_MASTER_RECEIVED : PCCL_MASTER_GARBAGE;
        event.frame = got == -1 ? NULL : &frame;
        event.msg = &msg;
        event.reason = &reason;
        event.pass = conn->hosts[0];
        event.unfit =
            got > 0 && msg.type == PCCL_MSG_hello && sim->revoked != 0 && sim->revoked == event.pass ? &revoked : NULL;
        if (got > 0)
            sim_check_heard(sim, master, conn, &frame, &msg);
        if (sim->trace && got > 0 && frame.type != PCCL_MSG_heartbeat) {
            struct pccl_text line;
            pccl_wire_print(&msg, &line);
            sim_note(sim, "master <- c%llu #%llu %s", (unsigned long long)conn->id, (unsigned long long)frame.sequence,
                     line.bytes);
        }
        step(sim, master, &event);
        if (got < 0 && end->open)
            sim_conn_close(sim, conn, number);
    }
    if (end->open && end->ended) {
        sim_note(sim, "master: c%llu closed", (unsigned long long)conn->id);
        sim_conn_close(sim, conn, number);
        event.kind = PCCL_MASTER_CLOSED;
        step(sim, master, &event);
    }
}

void sim_master_idle(struct sim *sim, struct sim_master *master)
{
    struct pccl_master_event event = {.kind = PCCL_MASTER_IDLE, .now_us = sim->now};
    step(sim, master, &event);
}

static struct sim_conn *late_probe(const struct sim *sim, const struct sim_master *master, uint64_t by, uint64_t *next)
{
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        const struct sim_end *end = &conn->ends[0];
        if (!end->open || end->role != SIM_ROLE_PROBE || end->process != &master->process)
            continue;
        if (end->deadline <= by)
            return conn;
        *next = pccl_min_u64(*next, end->deadline);
    }
    return NULL;
}

uint64_t sim_master_deadline(const struct sim_master *master)
{
    uint64_t next = pccl_master_deadline(master->machine);
    if (master->process.probe_count > 0)
        (void)late_probe(master->process.sim, master, 0, &next);
    return next;
}

void sim_master_tick(struct sim *sim, struct sim_master *master)
{
    struct sim_conn *late;
    uint64_t next = UINT64_MAX;
    while (master->process.probe_count > 0 && (late = late_probe(sim, master, sim->now, &next)) != NULL)
        probed(sim, master, late, false, PCCL_LINK_TIMEOUT);
    if (pccl_master_deadline(master->machine) > sim->now)
        return;
    struct pccl_master_event event = {.kind = PCCL_MASTER_TICK, .now_us = sim->now};
    step(sim, master, &event);
}

/* ---- life ---- */

bool sim_master_is_up(const struct sim *sim) { return sim->master != NULL && sim->master->process.alive; }

void sim_master_start(struct sim *sim)
{
    struct sim_master *master = calloc(1, sizeof *master);
    if (master == NULL)
        abort();
    master->older = sim->master;
    sim_process_init(sim, &master->process, 0, SIM_MASTER_PORT);
    master->process.is_master = true;
    master->process.number = (uint32_t)++sim->boots;
    master->started_at = sim->now;
    master->config = sim->plan.master;
    master->config.run_noted = sim->plan.keeps_run && sim->run_noted;
    master->config.boot = pccl_prng_u64(&sim->prng) | 1;
    master->config.seed = pccl_prng_u64(&sim->prng);
    memcpy(master->config.secret.bytes, &master->config.seed, sizeof master->config.seed);
    master->config.hash_seed = sim_mix(sim->hash_seed, sim->boots);
    const struct pccl_master_effects effects = {.context = master,
                                                .send = on_send,
                                                .accept = on_accept,
                                                .close = on_close,
                                                .probe = on_probe,
                                                .solve = on_solve,
                                                .stop_solving = on_stop_solving,
                                                .report = on_topology_report,
                                                .note_run = on_note_run,
                                                .log = on_log};
    struct pccl_memory memory = sim_memory_hook(&master->process.memory);
    sim->oom_paused = true;
    master->machine = pccl_master_create(&master->config, &memory, &effects, sim->now);
    sim->oom_paused = false;
    sim->master = master;
    sim_note(sim, "MASTER boot %llu starts", (unsigned long long)sim->boots);
    sim_process_arm(sim, &master->process);
}

void sim_master_crash(struct sim *sim, bool silently)
{
    struct sim_master *master = sim->master;
    if (!sim_master_is_up(sim))
        return;
    sim_note(sim, "FAULT the master %s", silently ? "vanishes" : "crashes");
    struct pccl_master_counts counts = pccl_master_count(master->machine);
    sim->totals.departures += counts.departures;
    sim->totals.crashes++;
    master->process.alive = false;
    sim_net_process_gone(sim, &master->process, silently);
    sim_check_master_gone(sim, master);
    pccl_master_destroy(master->machine);
    master->machine = NULL;
    if (master->process.memory.bytes != 0)
        sim_fail(sim, "MEMORY the master left %zu bytes", master->process.memory.bytes);
}
