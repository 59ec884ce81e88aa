/* One random run: faults for a while, then everything heals and all must converge, work, and come to rest (I12). */
#include "check.h"

#include <stdio.h>

static const char *app_state(const struct sim_peer *peer)
{
    static const char *const names[] = {"idle",       "connecting", "working", "updating",
                                        "optimizing", "syncing",    "resting", "gone"};
    return names[peer->app.state];
}

/* Describes stuck peers, for the report. */
static void tell_where(struct sim *sim)
{
    if (!sim->trace)
        return;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive)
            continue;
        sim_note(sim, "  p%u is %s in chapter %u of era %llu, %s%s; waiting: %s; %s", peer->process.number,
                 app_state(peer), peer->app.chapter, (unsigned long long)peer->app.joint,
                 pccl_peer_is_connected(peer->machine) ? "connected" : "unconnected",
                 peer->app.pending_outstanding ? ", pending query" : "", pccl_peer_waiting(peer->machine)->bytes,
                 pccl_peer_last_reason(peer->machine)->bytes);
        sim_note(sim, "     sync %u of %u attempt %u round %llu; revision %llu, its group's %llu%s%s",
                 peer->app.sync_index, peer->app.sync_count, peer->app.sync_attempt,
                 (unsigned long long)pccl_peer_sync_round(peer->machine), (unsigned long long)peer->state.revision,
                 (unsigned long long)peer->machine->revision, peer->state.fetching ? ", fetching" : "",
                 peer->machine->sync.torn ? ", torn" : "");
        for (uint32_t tag = 0; tag < peer->app.lane_count; tag++) {
            const struct sim_lane *lane = &peer->app.lanes[tag];
            sim_note(sim, "     tag %u step %u of %u attempt %u state %d use %d%s", tag, lane->step, lane->steps,
                     lane->attempt, (int)lane->state, lane->op != NULL ? (int)lane->op->instance.use : -1,
                     lane->decided ? " decided" : "");
        }
    }
    if (!sim_master_is_up(sim))
        return;
    const struct pccl_master *m = sim->master->machine;
    sim_note(sim, "  master: epoch %u.%llu, members %u%s", m->epoch.inc, (unsigned long long)m->epoch.number,
             m->member_count, m->recovering ? ", recovering" : "");
    for (uint32_t i = 0; i < m->remote_count; i++)
        sim_note(sim, "     %02x%02x state %d conn %llu%s votes %d %d %d", m->remotes[i]->id.bytes[0],
                 m->remotes[i]->id.bytes[1], (int)m->remotes[i]->state, (unsigned long long)m->remotes[i]->conn,
                 m->remotes[i]->departing ? " departing" : "", m->remotes[i]->votes[0], m->remotes[i]->votes[1],
                 m->remotes[i]->votes[PCCL_ROUND_OPTIMIZE]);
}

static bool membership_is_whole(struct sim *sim)
{
    if (!sim_master_is_up(sim))
        return false;
    const struct pccl_master *m = sim->master->machine;
    if (sim->returning > 0 || m->recovering || !m->founded || m->member_count != sim_population(sim) ||
        m->departing_count > 0)
        return false;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (peer->process.alive && (peer->machine == NULL || !pccl_peer_is_connected(peer->machine) ||
                                    !pccl_epoch_equal(&peer->machine->epoch, &m->epoch)))
            return false;
    }
    return true;
}

static bool all_have_progressed(struct sim *sim)
{
    if (!membership_is_whole(sim))
        return false;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive)
            continue;
        if (peer->app.updates < peer->updates_mark + 1)
            return false;
        if (peer->machine->group.count > 1 && peer->commits < peer->commits_mark + 1)
            return false;
    }
    return true;
}

/* Returns true if all rest. A peer that joined after the last update is not admitted. */
static bool all_rest(struct sim *sim)
{
    uint32_t rest = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        bool too_late = peer->app.state == SIM_APP_CONNECTING && !peer->was_connected;
        if (peer->process.alive && peer->app.state != SIM_APP_RESTING && !too_late)
            return false;
        rest += peer->process.alive && !too_late;
    }
    return rest > 0;
}

static void must_reach(struct sim *sim, bool (*goal)(struct sim *), uint64_t within_us, const char *what)
{
    if (sim_run_until(sim, sim->now + within_us, goal))
        return;
    tell_where(sim);
    sim_fail(sim, "I12 %.1f s after the faults have stopped: %s", (double)within_us / 1e6, what);
}

static bool all_is_acknowledged(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->session.queued_count != 0)
            return false;
    for (uint32_t i = 0; i < sim->peer_count; i++)
        if (sim->peers[i]->process.alive && sim->peers[i]->machine->session.queued_count != 0)
            return false;
    return true;
}

/*
 * Returns the time that callers optimize between two updates that admit newcomers, and once more for a newcomer that
 * has just missed one.
 */
static uint64_t optimizations_us(const struct sim_plan *plan)
{
    return plan->optimize_percent > 0 ? 6 * (plan->master.optimize_ms * SIM_MS + plan->search_us + 2 * SIM_S) : 0;
}

void sim_converge(struct sim *sim)
{
    const struct sim_plan *plan = &sim->plan;
    uint64_t bound = (plan->master.alone_ms + plan->master.silence_ms + plan->master.recover_ms +
                      plan->peer.master_lost_ms + plan->master.warm_up_ms + plan->peer.op_timeout_ms) *
                         SIM_MS +
                     plan->user_timeout_us + 10 * SIM_S + optimizations_us(plan);
    if (plan->divergent) /* callers that differ wait for each other's deadlines, many times */
        bound += 40 * plan->peer.op_timeout_ms * SIM_MS;
    must_reach(sim, membership_is_whole, bound, "not everybody is a member");
    sim_note(sim, "---- everybody is a member ----");
    sim->healed_at = sim->now;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        sim->peers[i]->commits_mark = sim->peers[i]->commits;
        sim->peers[i]->updates_mark = sim->peers[i]->app.updates;
    }
    uint64_t work_us = 20 * SIM_S + 40 * plan->pause_us + optimizations_us(plan) +
                       (plan->divergent ? 40 * plan->peer.op_timeout_ms * SIM_MS : 0);
    must_reach(sim, all_have_progressed, work_us, "not everybody commits and updates");
    sim->resting = true;
    sim->rest_joint = sim_app_after_update(pccl_master_joint(sim->master->machine) + 1);
    must_reach(sim, all_rest, 3 * work_us, "not everybody comes to rest");
    sim_run_until(sim, sim->now + 3 * plan->master.heartbeat_ms * SIM_MS, NULL);
    /* A half-open link may be noticed only now and be reported; no other messages are sent. */
    must_reach(sim, all_is_acknowledged, 4 * (plan->master.silence_ms + plan->master.heartbeat_ms) * SIM_MS,
               "I11 somebody still queues messages");
    sim_check_converged(sim);
    sim_check_idle(sim);
}

void sim_run_seed(struct sim *sim)
{
    sim_faults_begin(sim);
    sim_run_until(sim, sim->plan.faults_end_us, NULL);
    sim_faults_end(sim);
    sim_converge(sim);
    if (sim_master_is_up(sim))
        sim->totals.departures += pccl_master_count(sim->master->machine).departures;
    sim->totals.hash = sim->hash;
}
