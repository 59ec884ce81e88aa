/*
 * The faults: their mix is drawn per seed, each fault when it is due. At the end of the fault phase
 * everything is healed.
 */
#include "sim.h"

#include <string.h>

/* ---- the plan ---- */

static void draw_weights(struct sim *sim, struct sim_plan *plan)
{
    static const uint8_t typical[SIM_FAULTS] = {
        [SIM_FAULT_KILL] = 10,       [SIM_FAULT_HOST_LOSS] = 4,    [SIM_FAULT_STOP_PEER] = 6,
        [SIM_FAULT_STOP_MASTER] = 3, [SIM_FAULT_CRASH_MASTER] = 8, [SIM_FAULT_RESET_CONTROL] = 8,
        [SIM_FAULT_HALF_OPEN] = 4,   [SIM_FAULT_RESET_LINK] = 8,   [SIM_FAULT_CUT] = 8,
        [SIM_FAULT_ISOLATE] = 3,     [SIM_FAULT_JOIN] = 14,        [SIM_FAULT_LEAVE] = 4,
        [SIM_FAULT_ABORT] = 8,       [SIM_FAULT_WITHDRAW] = 5,     [SIM_FAULT_STRANGER] = 3,
        [SIM_FAULT_SLOW] = 6};
    for (uint32_t kind = 0; kind < SIM_FAULT_HANDSHAKE; kind++) {
        plan->weights[kind] = sim_chance(sim, 60) ? (uint32_t)sim_between(sim, 1, 2u * typical[kind]) : 0;
        plan->weight_sum += plan->weights[kind];
    }
    if (sim_chance(sim, 60) && plan->weights[SIM_FAULT_JOIN] == 0) {
        plan->weights[SIM_FAULT_JOIN] = 10;
        plan->weight_sum += 10;
    }
    plan->weights[SIM_FAULT_HANDSHAKE] = sim->secured ? 8 : 0;
    plan->weights[SIM_FAULT_REPLAN] = sim_mix(sim->seed, 0x4e9) % 2 == 0 ? 20 : 0;
    plan->weights[SIM_FAULT_STARVE] = sim_mix(sim->seed, 0x57a2) % 4 == 0 ? 12 : 0;
    plan->weights[SIM_FAULT_DRAIN] = sim_mix(sim->seed, 0xd4a1) % 2 == 0 ? 10 : 0;
    plan->weight_sum += plan->weights[SIM_FAULT_HANDSHAKE] + plan->weights[SIM_FAULT_REPLAN] +
                        plan->weights[SIM_FAULT_STARVE] + plan->weights[SIM_FAULT_DRAIN];
}

/* Sets short limits: virtual time costs some processor time. */
static void set_limits(struct sim_plan *plan, uint32_t silence_ms)
{
    plan->master = pccl_master_defaults();
    plan->master.build = *sim_build();
    plan->master.silence_ms = silence_ms;
    plan->master.heartbeat_ms = silence_ms / 4;
    plan->master.recover_ms = silence_ms;
    plan->master.alone_ms = 6000;
    plan->master.settle_ms = 100;
    plan->master.hello_ms = 1000;
    plan->master.warm_up_ms = 3000;
    plan->master.bad_edge_ms = 3000;
    plan->master.tiny_bytes_max = 1024;
    plan->peer = pccl_peer_defaults();
    plan->peer.build = *sim_build();
    plan->peer.master_lost_ms = 9000;
    plan->peer.where_ms = 600;
    plan->peer.named = true;
    plan->peer.dial_ms = 20;
    plan->peer.dial_max_ms = 300;
    plan->peer.connect_retry_ms = 3000;
    plan->peer.send_idle_ms = 700;
}

/* Draws a crowd: a few runs have more members than make a mesh, in one group, in which hubs change. */
static void draw_crowd(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    uint64_t drawn = sim_mix(sim->seed, 0xc04d);
    plan->master.hub_updates = 1 + (uint32_t)(drawn / 64 % 3);
    if (drawn % 64 != 0)
        return;
    plan->groups = 1;
    plan->hosts = 8;
    plan->peers = PCCL_MESH_PEERS_MAX + 1 + (uint32_t)(drawn / 256 % 3);
    plan->population_max = PCCL_MESH_PEERS_MAX + 3;
    plan->peer.send_links_max = drawn / 128 % 2 != 0 ? 3 : PCCL_SEND_LINKS_MAX;
    plan->bulk_percent = 80;
}

static void draw_plan(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    memset(plan, 0, sizeof *plan);
    sim->secured = sim_mix(sim->seed, 0x5ec) % 4 == 0;
    draw_weights(sim, plan);
    plan->fault_mean_us = sim_log_between(sim, 60 * SIM_MS, 1200 * SIM_MS);
    plan->faults_end_us = sim->now + sim_between(sim, 5, 11) * SIM_S;
    plan->peers = (uint32_t)sim_between(sim, 1, 6);
    plan->groups = sim_chance(sim, 60) ? 1 : (uint32_t)sim_between(sim, 2, 3);
    plan->tags = (uint32_t)sim_between(sim, 1, SIM_TAGS_MAX);
    plan->hosts = (uint32_t)sim_between(sim, 2, 8);
    plan->population_max = (uint32_t)sim_between(sim, 3, 8);
    plan->delay_low_us = sim_log_between(sim, 50, 5 * SIM_MS);
    plan->delay_high_us = plan->delay_low_us + sim_log_between(sim, 50, 20 * SIM_MS);
    plan->pause_us = sim_log_between(sim, 20 * SIM_MS, 400 * SIM_MS);
    plan->bulk_us = sim_log_between(sim, 2 * SIM_MS, 200 * SIM_MS);
    plan->user_timeout_us = sim_log_between(sim, 600 * SIM_MS, 8 * SIM_S);
    plan->bulk_percent = sim_chance(sim, 20) ? (sim_chance(sim, 50) ? 0 : 100) : (uint32_t)sim_between(sim, 20, 80);
    plan->bulk_failure_percent = sim_chance(sim, 40) ? (uint32_t)sim_between(sim, 1, 10) : 0;
    plan->mismatch_permille = sim_chance(sim, 40) ? (uint32_t)sim_between(sim, 5, 100) : 0;
    plan->drop_percent = (uint32_t)sim_random(sim, 3) * 40;
    plan->late_percent = (uint32_t)sim_random(sim, 3) * 15;
    plan->loss_percent = (uint32_t)sim_random(sim, 3) * 40;
    plan->split_percent = (uint32_t)sim_random(sim, 3) * 3;
    plan->blind_percent = (uint32_t)sim_between(sim, 10, 60);
    plan->no_probe_percent = sim->seed % 4 == 0 ? 30 : 0;
    plan->timers_first_percent = (uint32_t)sim_random(sim, 3) * 50;
    plan->divergent = sim_chance(sim, 10);
    plan->subgroups = sim_mix(sim->seed, 0x5b9) % 2 == 0;
    plan->pairs = sim_mix(sim->seed, 0x9a1) % 2 == 0;
    set_limits(plan, (uint32_t)sim_between(sim, 1500, 2500));
    draw_crowd(sim);
    plan->peer.op_timeout_ms = plan->divergent || sim_chance(sim, 40) ? (uint32_t)sim_between(sim, 800, 4000) : 0;
    plan->peer.drain_ms = (uint32_t)(500 + sim_mix(sim->seed, 0xd4a2) % 4000);
    plan->peer.call_timeout_ms = sim_chance(sim, 25) ? (uint32_t)sim_between(sim, 2000, 8000) : 0;
    plan->wall_percent = sim_mix(sim->seed, 0xfa11) % 8 == 0 ? 40 : 0;
    plan->keeps_run = sim_mix(sim->seed, 0x51a7e) % 2 == 0;
    plan->master.found_after_ms = (uint32_t)(sim_mix(sim->seed, 0xf07d) % 3 * 300);
    sim_sync_draw_plan(sim);
    sim_topology_draw_plan(sim);
}

/* ---- closed ports ---- */

/*
 * Draws a NAT or a firewall for a peer that starts; some peers are in one network behind it. A peer on the master's
 * host has none: the master could reach its port although others cannot.
 */
void sim_faults_wall(struct sim *sim, struct sim_process *process)
{
    uint64_t drawn = sim_mix(sim_mix(sim->seed, 0xfa12), process->number);
    if (sim->faults_stopped || process->host == 0 || drawn % 100 >= sim->plan.wall_percent)
        return;
    process->wall = drawn / 128 % 2 == 0 ? SIM_DROP : SIM_REFUSE;
    process->site = (uint32_t)(drawn / 256 % 3);
}

/* Kills the latest peers with closed ports where more than half of a group, one of two or three, are like this. */
static void open_enough_ports(struct sim *sim)
{
    for (uint32_t group = 0; group < sim->plan.groups; group++) {
        uint32_t open = 0, closed = 0;
        for (uint32_t i = 0; i < sim->peer_count; i++)
            if (sim->peers[i]->process.alive && sim->peers[i]->group == group)
                (*(sim->peers[i]->process.wall == SIM_WHOLE ? &open : &closed))++;
        for (uint32_t i = sim->peer_count; i > 0 && closed > 1 && closed > open; i--) {
            struct sim_peer *peer = sim->peers[i - 1];
            if (!peer->process.alive || peer->group != group || peer->process.wall == SIM_WHOLE)
                continue;
            sim_peer_kill(sim, peer, false);
            closed--;
        }
    }
}

/* ---- picking ---- */

uint32_t sim_population(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++)
        count += sim->peers[i]->process.alive;
    return count;
}

/* Returns true if one more peer may join. Callers remember this number of members, and a returning one is included. */
static bool has_room(const struct sim *sim)
{
    uint32_t here = sim_population(sim);
    return here < sim->plan.population_max && here + sim->returning < SIM_HOSTS_MAX;
}

static struct sim_peer *pick_peer(struct sim *sim, bool running)
{
    struct sim_peer *found = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        if (peer->process.alive && (!running || sim_peer_runs(peer)) && !peer->app.manual &&
            sim_random(sim, ++count) == 0)
            found = peer;
    }
    return found;
}

static void spawn(struct sim *sim)
{
    uint32_t host = sim_chance(sim, 10) ? 0 : 1 + (uint32_t)sim_random(sim, sim->plan.hosts);
    if (sim->host_down[host])
        sim_net_host(sim, host, true);
    uint16_t port = sim->next_port[host];
    for (uint16_t used = SIM_PEER_PORT; used < sim->next_port[host] && sim_chance(sim, 60); used++)
        if (sim_net_listener(sim, host, used) == NULL) {
            port = used;
            break;
        }
    if (port == sim->next_port[host])
        sim->next_port[host]++;
    (void)sim_peer_start(sim, host, port, (uint32_t)sim_random(sim, sim->plan.groups), false);
}

/* ---- the faults ---- */

static void lose_host(struct sim *sim, uint32_t host)
{
    sim_note(sim, "FAULT host %u vanishes", host);
    sim_net_host(sim, host, false);
    for (uint32_t i = 0; i < sim->peer_count; i++)
        if (sim->peers[i]->process.alive && sim->peers[i]->process.host == host) {
            sim->totals.kills++;
            sim_peer_kill(sim, sim->peers[i], true);
        }
}

static void on_heal(struct sim *sim, void *subject, uint64_t pair, uint64_t plane)
{
    uint32_t a = (uint32_t)(pair >> 32), b = (uint32_t)pair;
    sim_note(sim, "hosts %u and %u see each other again", a, b);
    sim_net_cut(sim, a, b, (enum sim_plane)plane, SIM_WHOLE);
}

static void cut(struct sim *sim, uint32_t a, uint32_t b, enum sim_plane plane, uint64_t length)
{
    enum sim_cut how = sim_chance(sim, 70) ? SIM_DROP : SIM_REFUSE;
    if (a == b || sim_net_state(sim, a, b, plane) != SIM_WHOLE)
        return;
    sim_note(sim, "FAULT %s between hosts %u and %u %s for %.3f s", plane == SIM_CONTROL ? "control" : "data", a, b,
             how == SIM_DROP ? "dropped" : "refused", (double)length / 1e6);
    sim_net_cut(sim, a, b, plane, how);
    sim_at(sim, sim->now + length, on_heal, NULL, (uint64_t)a << 32 | b, plane);
}

static void cut_something(struct sim *sim)
{
    uint64_t length = sim_log_between(sim, 30 * SIM_MS, 5 * SIM_S);
    struct sim_peer *one = pick_peer(sim, false), *other = pick_peer(sim, false);
    if (one == NULL)
        return;
    if (one == other || sim_chance(sim, 40))
        cut(sim, one->process.host, 0, sim_chance(sim, 80) ? SIM_CONTROL : SIM_DATA, length);
    else
        cut(sim, one->process.host, other->process.host, SIM_DATA, length);
}

static void isolate(struct sim *sim)
{
    struct sim_peer *peer = pick_peer(sim, false);
    uint64_t length = sim_log_between(sim, 100 * SIM_MS, 6 * SIM_S);
    for (uint32_t host = 0; peer != NULL && host <= sim->plan.hosts; host++)
        for (enum sim_plane plane = SIM_CONTROL; plane < SIM_PLANES; plane++)
            cut(sim, peer->process.host, host, plane, length);
}

static void on_master_restart(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    if (sim_master_is_up(sim))
        return;
    if (sim_chance(sim, 30) && has_room(sim))
        spawn(sim); /* perhaps first at the restarted master */
    sim_master_start(sim);
    if (!sim->faults_stopped && sim_chance(sim, 30)) /* again, during the recovery */
        sim_at(sim, sim->now + sim_log_between(sim, SIM_MS, 3 * SIM_S), sim_fault_event, NULL, SIM_FAULT_CRASH_MASTER,
               0);
}

static void crash_master(struct sim *sim)
{
    if (!sim_master_is_up(sim))
        return;
    sim_master_crash(sim, sim_chance(sim, 25));
    sim_at(sim, sim->now + sim_log_between(sim, 10 * SIM_MS, sim_chance(sim, 15) ? 12 * SIM_S : 2 * SIM_S),
           on_master_restart, NULL, 0, 0);
}

static struct sim_conn *pick_conn(struct sim *sim, bool control)
{
    struct sim_conn *found = NULL;
    uint32_t count = 0;
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->ends[0].open && conn->ends[1].open && !conn->broken && (conn->plane == SIM_CONTROL) == control &&
            sim_random(sim, ++count) == 0)
            found = conn;
    return found;
}

static void half_open(struct sim *sim)
{
    struct sim_conn *conn = pick_conn(sim, sim_chance(sim, 70));
    if (conn == NULL)
        return;
    sim_note(sim, "FAULT c%llu goes deaf", (unsigned long long)conn->id);
    bool both = sim_chance(sim, 70);
    int one = (int)sim_random(sim, 2);
    for (int end = 0; end < 2; end++)
        if (both || end == one)
            sim_conn_blackhole(sim, conn, end);
}

static void reset(struct sim *sim, bool control)
{
    struct sim_conn *conn = pick_conn(sim, control);
    if (conn == NULL)
        return;
    const uint64_t drawn = sim_mix(conn->id, sim->now);
    if (!control && drawn % 3 == 0 && conn->ends[1].established) {
        const bool answered = drawn / 3 % 2 == 0;
        sim_note(sim, "FAULT c%llu is reset at its accepted end only%s", (unsigned long long)conn->id,
                 answered ? ", and somebody answers for that" : "");
        sim_conn_half_reset(sim, conn, answered);
        return;
    }
    sim_note(sim, "FAULT c%llu (%s) is reset", (unsigned long long)conn->id, control ? "control" : "link");
    sim_conn_reset(sim, conn);
}

static void slow(struct sim *sim)
{
    struct sim_conn *conn = pick_conn(sim, sim_chance(sim, 60));
    if (conn == NULL)
        return;
    conn->slow_until = sim->now + sim_log_between(sim, 50 * SIM_MS, 3 * SIM_S);
    conn->slow_by = sim_log_between(sim, 20 * SIM_MS, 900 * SIM_MS);
    sim_check_conn_unwell(sim, conn, conn->slow_until + conn->slow_by);
    sim_note(sim, "FAULT c%llu is slow", (unsigned long long)conn->id);
}

/* Spoils future handshakes; often makes one necessary. */
static void spoil_handshakes(struct sim *sim)
{
    struct sim_peer *peer = pick_peer(sim, false);
    if (peer == NULL)
        return;
    bool control = sim_chance(sim, 50);
    sim->shake_fault = (struct sim_shake_fault){.left = 1 + (uint32_t)sim_random(sim, 6),
                                                .host = peer->process.host,
                                                .plane = control ? SIM_CONTROL : SIM_DATA,
                                                .step = (uint8_t)sim_between(sim, 1, SIM_SHAKE_STEPS),
                                                .way = (enum sim_shake_way)sim_random(sim, SIM_SHAKE_WAYS)};
    sim_note(sim, "FAULT the next %u handshakes of host %u fail", sim->shake_fault.left, peer->process.host);
    if (sim_chance(sim, 70))
        reset(sim, control);
}

static void abort_something(struct sim *sim)
{
    struct sim_peer *peer = pick_peer(sim, true);
    if (peer == NULL || peer->app.state != SIM_APP_WORKING)
        return;
    if (sim_chance(sim, 25)) {
        sim_note(sim, "p%u gives up what it launches next", peer->process.number);
        peer->app.gives_up = PCCL_CLASS_ABORTED;
        return;
    }
    for (uint32_t tag = 0; tag < peer->app.lane_count; tag++) {
        struct sim_lane *lane = &peer->app.lanes[tag];
        if (lane->state != SIM_LANE_FLYING || lane->decided || sim_chance(sim, 30))
            continue;
        sim_note(sim, "p%u aborts tag %u use %u", peer->process.number, tag, lane->op->instance.use);
        sim_check_failing(sim, peer, lane->op);
        enum pccl_class class = sim_chance(sim, 50) ? PCCL_CLASS_ABORTED : PCCL_CLASS_DEADLINE;
        sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_OP_ABORT, .op = lane->op, .class = class});
        return;
    }
}

static void withdraw_something(struct sim *sim)
{
    struct sim_peer *peer = pick_peer(sim, true);
    if (peer == NULL)
        return;
    enum pccl_call call = PCCL_CALL_NONE;
    if (peer->app.pending_outstanding && !peer->app.call_over[PCCL_CALL_PENDING])
        call = PCCL_CALL_PENDING;
    else if (peer->app.state == SIM_APP_UPDATING && !peer->app.call_over[PCCL_CALL_UPDATE])
        call = PCCL_CALL_UPDATE;
    else if (peer->app.state == SIM_APP_SYNCING && peer->app.sync_asked && !peer->app.call_over[PCCL_CALL_SYNC])
        call = PCCL_CALL_SYNC;
    else if (peer->app.state == SIM_APP_OPTIMIZING && !peer->app.call_over[PCCL_CALL_OPTIMIZE])
        call = PCCL_CALL_OPTIMIZE;
    if (call == PCCL_CALL_NONE)
        return;
    sim_note(sim, "p%u withdraws call %d", peer->process.number, (int)call);
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_WITHDRAW, .call = call});
}

static void on_stranger_speaks(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    struct sim_conn *conn = subject;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)pccl_prng_u64(&sim->prng);
    if (sim_chance(sim, 40)) { /* a well-formed header of nonsense */
        memset(bytes, 0, PCCL_FRAME_HEADER_BYTES);
        bytes[0] = 200;
        bytes[4] = (uint8_t)sim_random(sim, 70);
    }
    sim_conn_send(sim, conn, 0, bytes, 1 + sim_random(sim, sizeof bytes));
    if (sim_chance(sim, 50))
        sim_conn_close(sim, conn, 0);
}

static void stranger(struct sim *sim)
{
    struct sim_peer *peer = sim_chance(sim, 50) ? pick_peer(sim, false) : NULL;
    struct sim_conn *conn =
        peer != NULL ? sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_DATA, peer->process.host, peer->process.port)
                     : sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    if (sim_chance(sim, 70))
        sim_at(sim, sim->now + 50 * SIM_MS, on_stranger_speaks, conn, 0, 0);
}

static void on_fed(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    struct sim_peer *peer = subject;
    if (!sim->faults_stopped && peer->process.starved)
        sim_note(sim, "p%u has descriptors again", peer->process.number);
    peer->process.starved = false;
}

static void starve(struct sim *sim, struct sim_peer *peer)
{
    if (peer->process.starved)
        return;
    sim_note(sim, "FAULT p%u has no descriptor left", peer->process.number);
    peer->process.starved = true;
    sim_at(sim, sim->now + sim_log_between(sim, 50 * SIM_MS, 2 * SIM_S), on_fed, peer, 0, 0);
}

static void drain(struct sim *sim, struct sim_peer *peer)
{
    sim_note(sim, "p%u asks for its drain", peer->process.number);
    sim->totals.drains++;
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_DRAIN});
}

void sim_fault(struct sim *sim, enum sim_fault kind)
{
    struct sim_peer *peer = pick_peer(sim, false);
    switch (kind) {
    case SIM_FAULT_KILL:
        if (peer == NULL)
            return;
        sim_note(sim, "FAULT p%u is killed", peer->process.number);
        sim->totals.kills++;
        sim_peer_kill(sim, peer, false);
        break;
    case SIM_FAULT_HOST_LOSS:
        if (peer != NULL && peer->process.host != 0)
            lose_host(sim, peer->process.host);
        break;
    case SIM_FAULT_STOP_PEER:
        if (peer != NULL)
            sim_process_stop(sim, &peer->process, sim->now + sim_log_between(sim, 30 * SIM_MS, 8 * SIM_S));
        break;
    case SIM_FAULT_STOP_MASTER:
        if (sim_master_is_up(sim))
            sim_process_stop(sim, &sim->master->process, sim->now + sim_log_between(sim, 100 * SIM_MS, 5 * SIM_S));
        break;
    case SIM_FAULT_CRASH_MASTER: crash_master(sim); break;
    case SIM_FAULT_RESET_CONTROL: reset(sim, true); break;
    case SIM_FAULT_HALF_OPEN: half_open(sim); break;
    case SIM_FAULT_RESET_LINK: reset(sim, false); break;
    case SIM_FAULT_CUT: cut_something(sim); break;
    case SIM_FAULT_ISOLATE: isolate(sim); break;
    case SIM_FAULT_JOIN:
        if (has_room(sim))
            spawn(sim);
        break;
    case SIM_FAULT_LEAVE:
        peer = pick_peer(sim, true);
        if (peer != NULL)
            sim_app_leave(sim, peer);
        break;
    case SIM_FAULT_ABORT: abort_something(sim); break;
    case SIM_FAULT_WITHDRAW: withdraw_something(sim); break;
    case SIM_FAULT_STRANGER: stranger(sim); break;
    case SIM_FAULT_SLOW: slow(sim); break;
    case SIM_FAULT_HANDSHAKE: spoil_handshakes(sim); break;
    case SIM_FAULT_REPLAN: sim_master_replan(sim); break;
    case SIM_FAULT_STARVE:
        if (peer != NULL)
            starve(sim, peer);
        break;
    case SIM_FAULT_DRAIN:
        peer = pick_peer(sim, true);
        if (peer != NULL)
            drain(sim, peer);
        break;
    case SIM_FAULTS: break;
    }
}

void sim_fault_event(struct sim *sim, void *subject, uint64_t kind, uint64_t unused)
{
    if (!sim->faults_stopped)
        sim_fault(sim, (enum sim_fault)kind);
}

static void on_fault(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    if (sim->faults_stopped)
        return;
    uint64_t pick = sim_random(sim, sim->plan.weight_sum + 1u);
    enum sim_fault kind = SIM_FAULT_KILL;
    while (kind < SIM_FAULTS && pick >= sim->plan.weights[kind])
        pick -= sim->plan.weights[kind++];
    sim_fault(sim, kind);
    sim_at(sim, sim->now + sim_between(sim, 1, 2 * sim->plan.fault_mean_us), on_fault, NULL, 0, 0);
}

static void on_watch(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    sim_peer_watch_links(sim);
    sim_check_waiting(sim);
    sim_check_meshes(sim);
    sim_check_idle_links(sim);
    sim_check_topology_time(sim);
    sim_at(sim, sim->now + 200 * SIM_MS, on_watch, NULL, 0, 0);
}

void sim_quiet_begin(struct sim *sim)
{
    struct sim_plan *plan = &sim->plan;
    memset(plan, 0, sizeof *plan);
    set_limits(plan, 2000);
    plan->groups = plan->tags = 1;
    plan->hosts = 8;
    plan->delay_low_us = 900;
    plan->delay_high_us = 1100;
    plan->pause_us = 10 * SIM_MS;
    plan->bulk_us = 5 * SIM_MS;
    plan->user_timeout_us = 4 * SIM_S;
    plan->state_us = 20 * SIM_MS;
    plan->search_us = 20 * SIM_MS;
    plan->equal_paths = true;
    sim->bulk_by_hand = true;
    sim_master_start(sim);
    sim_at(sim, sim->now + 200 * SIM_MS, on_watch, NULL, 0, 0);
}

void sim_faults_begin(struct sim *sim)
{
    draw_plan(sim);
    sim_master_start(sim);
    for (uint32_t i = 0; i < sim->plan.peers; i++)
        spawn(sim);
    sim_at(sim, sim->now + sim_log_between(sim, SIM_MS, 2 * SIM_S), on_fault, NULL, 0, 0);
    sim_at(sim, sim->now + 200 * SIM_MS, on_watch, NULL, 0, 0);
}

void sim_faults_end(struct sim *sim)
{
    sim_note(sim, "---- faults stop ----");
    sim->faults_stopped = true;
    sim->shake_fault.left = 0;
    for (uint32_t a = 0; a < SIM_HOSTS_MAX; a++) {
        for (uint32_t b = a + 1; b < SIM_HOSTS_MAX; b++)
            for (enum sim_plane plane = SIM_CONTROL; plane < SIM_PLANES; plane++)
                if (sim->cuts[a][b][plane] != SIM_WHOLE)
                    sim_net_cut(sim, a, b, plane, SIM_WHOLE);
        if (sim->host_down[a])
            sim_net_host(sim, a, true);
    }
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        conn->slow_until = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        sim->peers[i]->process.starved = false;
        sim_process_continue(sim, &sim->peers[i]->process);
    }
    if (sim_master_is_up(sim))
        sim_process_continue(sim, &sim->master->process);
    else
        on_master_restart(sim, NULL, 0, 0);
    open_enough_ports(sim);
    while (sim_population(sim) < 2)
        spawn(sim);
}
