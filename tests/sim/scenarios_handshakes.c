/* Scenarios of encrypted connections whose handshakes fail: at each step, in each way. */
#include "scenario.h"
#include "master/roster.h"

#include <string.h>

enum { ELSEWHERE = 6 /* host of later peers */ };

static struct sim_peer *p[3]; /* peers of the running scenario */

/* Makes the next handshakes of this host fail in each way; attempt(sim, n) checks the outcome. */
static void in_each_way(struct sim *sim, uint32_t host, enum sim_plane plane, uint32_t count,
                        void (*attempt)(struct sim *sim, uint64_t n))
{
    uint64_t n = 0;
    for (uint8_t step = 1; step <= SIM_SHAKE_STEPS; step++) {
        for (enum sim_shake_way way = 0; way < SIM_SHAKE_WAYS; way++) {
            sim_note(sim, "---- step %u: %s", step, sim_shake_ways[way]);
            sim->shake_fault =
                (struct sim_shake_fault){.left = count, .host = host, .plane = plane, .step = step, .way = way};
            attempt(sim, ++n);
            MUST(sim, sim->shake_fault.left == 0);
        }
    }
}

static void cluster(struct sim *sim, uint32_t count)
{
    sim->secured = true;
    scenario_cluster(sim, p, count, 1);
}

/* The third member. */
static void admit(struct sim *sim, struct sim_peer *late)
{
    p[2] = late;
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, scenario_is_over(late, PCCL_CALL_CONNECT));
    MUST(sim, late->app.call_status[PCCL_CALL_CONNECT] == PCCL_OK);
}

/* Checks that the members continue, and the newcomer's call ends with a reason. */
static void kept_out(struct sim *sim, struct sim_peer *late, uint64_t n)
{
    late->machine->config.connect_retry_ms = 0; /* otherwise it connects again, as in crowd-connects-again */
    scenario_commit_all(sim, p, 2, 1, n);
    WAIT(sim, 12000, scenario_is_over(late, PCCL_CALL_CONNECT));
    MUST(sim, late->app.call_status[PCCL_CALL_CONNECT] == PCCL_MASTER_UNREACHABLE);
    MUST(sim, strstr(pccl_peer_last_reason(late->machine)->bytes, "cannot reach the master: ") != NULL);
    sim_peer_kill(sim, late, false);
    WAIT(sim, sim->plan.master.hello_ms + 100, sim->master->machine->strangers_by_conn.count == 0);
    scenario_commit_all(sim, p, 2, 1, n + 1000);
}

static void join(struct sim *sim, uint64_t n) { kept_out(sim, scenario_join(sim, ELSEWHERE, 0), n); }

/* A handshake of a newcomer with the master fails. */
SCENARIO(handshake_join)
{
    cluster(sim, 2);
    in_each_way(sim, ELSEWHERE, SIM_CONTROL, 1, join);
    admit(sim, scenario_join(sim, ELSEWHERE, 0));
    MUST(sim, pccl_master_find(sim->master->machine, &p[2]->id)->verified); /* its probe has the key */
    scenario_commit_all(sim, p, 3, 1, 5000);
}

/*
 * A member loses its connection to the master during an operation. It returns, unless the master is silent: then it
 * detects that by the silence limit, as the master does, and is out.
 */
static void come_back(struct sim *sim, uint64_t n)
{
    struct pccl_peer_op *ops[3];
    bool stalls = sim->shake_fault.way == SIM_SHAKE_SILENCE && sim->shake_fault.step == 2;
    uint32_t count = stalls ? 2 : 3;
    uint64_t departures = scenario_departures(sim);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 1)
            sim_conn_reset(sim, p[2]->control);
        ops[i] = scenario_tiny(sim, p[i], 1, n);
    }
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 3000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == (stalls ? PCCL_CLASS_PEER_LOST : PCCL_CLASS_NONE));
    }
    MUST(sim, scenario_departures(sim) == departures + stalls);
    if (!stalls)
        return;
    WAIT(sim, 10000, p[2]->machine->state == PCCL_PEER_OVER);
    sim_peer_kill(sim, p[2], false);
    admit(sim, scenario_join(sim, p[2]->process.host, 0));
}

/* The handshake of a returning member fails during an operation. */
SCENARIO(handshake_return)
{
    cluster(sim, 3);
    in_each_way(sim, p[2]->process.host, SIM_CONTROL, 1, come_back);
    scenario_commit_all(sim, p, 3, 1, 5000);
}

/* A link breaks, and cannot be dialed at once: no member is removed, and it is up again soon. */
static void link_again(struct sim *sim, uint64_t n)
{
    sim_conn_reset(sim, sim_peer_link(p[0], &p[1]->id));
    scenario_commit_all(sim, p, 3, 1, n);
    WAIT(sim, 1000, sim->shake_fault.left == 0);
    scenario_commit_all(sim, p, 3, 1, n + 1000);
    WAIT(sim, 2000, sim_peer_link(p[0], &p[1]->id) != NULL);
    scenario_commit_all(sim, p, 3, 1, n + 2000);
    scenario_run_ms(sim, sim->plan.master.bad_edge_ms); /* the edge is as good as others again */
    MUST(sim, scenario_departures(sim) == 0);
}

/* The handshake of a broken link fails. */
SCENARIO(handshake_link)
{
    cluster(sim, 3);
    in_each_way(sim, p[1]->process.host, SIM_DATA, 2, link_again);
}

/* The links of a newcomer are dialed again, and it is let in. */
static void warm_up(struct sim *sim, uint64_t n)
{
    struct sim_peer *late = scenario_join(sim, ELSEWHERE, 0);
    scenario_commit_all(sim, p, 2, 1, n);
    WAIT(sim, 1000, sim->shake_fault.left == 0);
    scenario_run_ms(sim, 1000); /* members pause between attempts */
    admit(sim, late);
    scenario_commit_all(sim, p, 3, 1, n + 1000);
    sim_peer_kill(sim, late, false);
    WAIT(sim, 1000, sim->master->machine->member_count == 2);
}

/* The handshake of a newcomer's link fails. */
SCENARIO(handshake_newcomer)
{
    cluster(sim, 2);
    in_each_way(sim, ELSEWHERE, SIM_DATA, 2, warm_up);
}

static void synchronize(struct sim *sim, uint64_t n)
{
    for (uint32_t i = 0; i < 3; i++)
        scenario_hold(p[i], 100 * n + (i == 2), n - 1);
    scenario_sync_all(sim, p, 3, 100 * n, n - 1);
}

/* A requester asks again until it has everything. */
SCENARIO(handshake_state)
{
    cluster(sim, 3);
    in_each_way(sim, p[2]->process.host, SIM_DATA, 5, synchronize);
}

static void optimize(struct sim *sim, uint64_t n)
{
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    scenario_run_ms(sim, 200);
    MUST(sim, scenario_departures(sim) == 0);
}

/* Paths that could not be tested end neither a call nor a membership. */
SCENARIO(handshake_test)
{
    cluster(sim, 3);
    in_each_way(sim, p[2]->process.host, SIM_DATA, 1, optimize);
}

/* A peer with a revoked token fails in its handshake. */
SCENARIO(handshake_revoked)
{
    cluster(sim, 2);
    sim_master_revoke(sim, ELSEWHERE);
    kept_out(sim, scenario_join(sim, ELSEWHERE, 0), 1);
    scenario_restart_master(sim, 100);
    kept_out(sim, scenario_join(sim, ELSEWHERE, 0), 2);
}
