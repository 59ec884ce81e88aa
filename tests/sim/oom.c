/*
 * Memory runs out: in a directed run with all kinds of events (joining, reductions, synchronizations of shared state,
 * optimizations of the topology, a death, a broken connection, a restart of the master, leaving) allocation k of the
 * machines fails, for every k. All invariants hold, there are no leaks, and at the end all peers work again.
 */
#include "sim.h"

enum { OOM_PEERS = 4 };

static void on_join(struct sim *sim, void *subject, uint64_t host, uint64_t group)
{
    (void)sim_peer_start(sim, (uint32_t)host, sim->next_port[host]++, (uint32_t)group, false);
}

static void on_leave(struct sim *sim, void *subject, uint64_t a, uint64_t b)
{
    struct sim_peer *peer = subject;
    if (sim_peer_runs(peer) && !peer->app.manual)
        sim_app_leave(sim, peer);
}

static void on_fault(struct sim *sim, void *subject, uint64_t kind, uint64_t b)
{
    sim_fault(sim, (enum sim_fault)kind);
}

static void on_crash(struct sim *sim, void *subject, uint64_t a, uint64_t b) { sim_master_crash(sim, false); }

static void on_restart(struct sim *sim, void *subject, uint64_t a, uint64_t b) { sim_master_start(sim); }

uint64_t sim_run_oom(struct sim *sim, uint64_t at, uint64_t length)
{
    struct sim_peer *peers[OOM_PEERS];
    struct sim_plan *plan = &sim->plan;
    sim_quiet_begin(sim);
    sim->bulk_by_hand = false;
    sim->oom_at = at;
    sim->oom_length = length;
    plan->tags = 3;
    plan->bulk_percent = 30;
    plan->blind_percent = 40;
    plan->sync_percent = 60;
    plan->second_percent = 40;
    plan->unequal = true;
    plan->optimize_percent = 40;
    plan->subgroups = plan->pairs = true;
    plan->equal_paths = false;
    plan->test_us = 2 * SIM_MS;
    plan->pause_us = 30 * SIM_MS;
    plan->master.alone_ms = 3000;
    plan->peer.op_timeout_ms = 1500;
    plan->peer.master_lost_ms = 6000;
    for (uint32_t i = 0; i < OOM_PEERS; i++)
        peers[i] = sim_peer_start(sim, 1 + i, sim->next_port[1 + i]++, i == 2, false);
    uint64_t start = sim->now;
    sim_at(sim, start + 500 * SIM_MS, on_join, NULL, 5, 0);
    sim_at(sim, start + 1000 * SIM_MS, sim_on_gone, peers[1], 0, 0);
    sim_at(sim, start + 1300 * SIM_MS, on_fault, NULL, SIM_FAULT_RESET_CONTROL, 0);
    sim_at(sim, start + 1400 * SIM_MS, on_fault, NULL, SIM_FAULT_RESET_LINK, 0);
    sim_at(sim, start + 1600 * SIM_MS, on_crash, NULL, 0, 0);
    sim_at(sim, start + 1800 * SIM_MS, on_restart, NULL, 0, 0);
    sim_at(sim, start + 2200 * SIM_MS, on_join, NULL, 6, 1);
    sim_at(sim, start + 2600 * SIM_MS, on_leave, peers[3], 0, 0);
    sim_run_until(sim, start + 3000 * SIM_MS, NULL);
    sim_faults_end(sim);
    sim_converge(sim);
    return sim->oom_count;
}
