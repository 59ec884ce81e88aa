/*
 * The common part of the hosts of master and peers: a loop that wakes when something is readable or due, and that
 * SIGSTOP halts.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { SPIN_SLICE_US = 100000, SPIN_STEPS_MAX = 3000 };

void sim_process_init(struct sim *sim, struct sim_process *process, uint32_t host, uint16_t port)
{
    process->sim = sim;
    process->alive = true;
    process->host = host;
    process->port = port;
    process->wake_at = process->tick_at = UINT64_MAX;
    process->memory.sim = sim;
    process->hook = sim_memory_hook(&process->memory);
}

void sim_process_fini(struct sim_process *process)
{
    free(process->ready);
    process->ready = NULL;
    process->ready_count = process->ready_capacity = 0;
}

bool sim_process_runs(const struct sim_process *process)
{
    return process->alive && process->sim->now >= process->stopped_until;
}

int sim_conn_end_of(const struct sim_conn *conn, const struct sim_process *process)
{
    return conn->ends[1].process == process && (conn->ends[0].process != process || conn->ends[1].queued) ? 1 : 0;
}

static uint64_t deadline(const struct sim_process *process)
{
    return process->is_master ? sim_master_deadline((const struct sim_master *)(const void *)process)
                              : sim_peer_deadline((const struct sim_peer *)(const void *)process);
}

static void tick(struct sim *sim, struct sim_process *process)
{
    if (!process->alive || deadline(process) > sim->now)
        return;
    if (process->is_master)
        sim_master_tick(sim, (struct sim_master *)(void *)process);
    else
        sim_peer_tick(sim, (struct sim_peer *)(void *)process);
}

static void count_step(struct sim *sim, struct sim_process *process)
{
    uint64_t slice = sim->now / SPIN_SLICE_US;
    if (slice != process->slice) {
        process->slice = slice;
        process->steps_in_slice = 0;
    }
    if (++process->steps_in_slice > SPIN_STEPS_MAX)
        sim_fail(sim, "I12 %s %u spins", process->is_master ? "master" : "peer", process->number);
}

static void read_all(struct sim *sim, struct sim_process *process)
{
    while (process->ready_count > 0 && process->alive) {
        uint32_t pick = (uint32_t)sim_random(sim, process->ready_count);
        struct sim_conn *conn = process->ready[pick];
        process->ready[pick] = process->ready[--process->ready_count];
        int end = sim_conn_end_of(conn, process);
        conn->ends[end].queued = false;
        if (!conn->ends[end].open)
            continue;
        sim_shake_hands(sim, conn, end);
        if (process->is_master)
            sim_master_readable(sim, (struct sim_master *)(void *)process, conn, end);
        else
            sim_peer_readable(sim, (struct sim_peer *)(void *)process, conn, end);
    }
    if (process->alive && process->is_master)
        sim_master_idle(sim, (struct sim_master *)(void *)process);
}

static void run(struct sim *sim, struct sim_process *process)
{
    count_step(sim, process);
    if (sim_chance(sim, sim->plan.timers_first_percent))
        tick(sim, process);
    read_all(sim, process);
    tick(sim, process);
    sim_process_arm(sim, process);
}

static void on_wake(struct sim *sim, void *subject, uint64_t at, uint64_t unused)
{
    struct sim_process *process = subject;
    if (!process->alive || process->wake_at != at)
        return;
    process->wake_at = UINT64_MAX;
    if (process->stopped_until > sim->now) {
        process->wake_at = process->stopped_until;
        sim_at(sim, process->wake_at, on_wake, process, process->wake_at, 0);
        return;
    }
    run(sim, process);
}

static void wake_by(struct sim *sim, struct sim_process *process, uint64_t at)
{
    at = pccl_max_u64(at, process->stopped_until);
    if (process->wake_at <= at)
        return;
    process->wake_at = at;
    sim_at(sim, at, on_wake, process, at, 0);
}

void sim_process_ready(struct sim *sim, struct sim_conn *conn, int end)
{
    struct sim_end *e = &conn->ends[end];
    struct sim_process *process = e->process;
    if (e->queued || process == NULL || !process->alive)
        return;
    if (process->ready_count == process->ready_capacity) {
        process->ready_capacity = process->ready_capacity != 0 ? 2 * process->ready_capacity : 16;
        process->ready = realloc(process->ready, process->ready_capacity * sizeof *process->ready);
        if (process->ready == NULL)
            abort();
    }
    process->ready[process->ready_count++] = conn;
    e->queued = true;
    wake_by(sim, process, sim->now + sim_random(sim, 200));
}

void sim_process_arm(struct sim *sim, struct sim_process *process)
{
    if (!process->alive)
        return;
    uint64_t at = deadline(process);
    if (at != UINT64_MAX)
        wake_by(sim, process, pccl_max_u64(at, sim->now + 1));
}

void sim_process_stop(struct sim *sim, struct sim_process *process, uint64_t until)
{
    sim_note(sim, "FAULT %s %u stops for %.3f s", process->is_master ? "master" : "peer", process->number,
             (double)(until - sim->now) / 1e6);
    process->stopped_until = pccl_max_u64(process->stopped_until, until);
    sim_check_unwell(sim, process, until);
    sim->totals.stops++;
}

void sim_process_continue(struct sim *sim, struct sim_process *process)
{
    if (!process->alive || process->stopped_until <= sim->now)
        return;
    process->stopped_until = sim->now;
    process->wake_at = UINT64_MAX;
    wake_by(sim, process, sim->now);
}
