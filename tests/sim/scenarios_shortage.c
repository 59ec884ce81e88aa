/*
 * Scenarios of peers that have no descriptor or memory left: joint calls end for all (PROTOCOL 10.1), and a peer
 * whose links cannot be opened hears which peer has the shortage and why (PROTOCOL 9.4, 11.3).
 */
#include "scenario_topology.h"
#include "master/rounds_election.h"
#include "master/roster.h"

#include <string.h>

static bool names(const struct sim_peer *peer, const struct sim_peer *sick)
{
    const char *words = pccl_peer_last_reason(peer->machine)->bytes;
    return strstr(words, pccl_id_str(&sick->id)) != NULL && strstr(words, sim_shortage.bytes) != NULL;
}

static void all_name(struct sim *sim, uint32_t count, const struct sim_peer *sick)
{
    for (uint32_t i = 0; i < count; i++)
        MUST(sim, names(p[i], sick));
}

/* One, then two: the optimization fails for all, the ring stays, and later it works. */
SCENARIO(unable_optimize)
{
    begin_four(sim);
    p[2]->process.starved = true;
    scenario_optimize_all(sim, p, 4, PCCL_NO_RING);
    all_name(sim, 4, p[2]);
    p[3]->process.starved = true;
    scenario_optimize_all(sim, p, 4, PCCL_NO_RING);
    all_name(sim, 4, p[2]);
    MUST(sim, sim->totals.tests == 0 && uses(sim, p[0], p[1]));
    scenario_update_all(sim, p, 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    p[2]->process.starved = p[3]->process.starved = false;
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* It dies before all have voted: the others are able. Another group is not affected. */
SCENARIO(unable_and_dead)
{
    begin_four(sim);
    p[3]->process.starved = true;
    scenario_optimize(sim, p[3]);
    scenario_run_ms(sim, 50);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 200, p[0]->machine->group.count == 3);
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    must_agree(sim, 3);
    p[3] = scenario_join(sim, 9, 1);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, scenario_is_over(p[3], PCCL_CALL_CONNECT));
    p[3]->process.starved = true;
    for (uint32_t i = 0; i < 4; i++)
        scenario_optimize(sim, p[i]);
    scenario_optimized(sim, p, 3, PCCL_OK);
    WAIT(sim, 1000, scenario_is_over(p[3], PCCL_CALL_OPTIMIZE));
}

/*
 * The only holder of the group's state cannot take part: no other content is elected, also over a restart of the
 * master, and the revision stays.
 */
CLUSTER_SCENARIO(unable_sync, 3, 1)
{
    for (uint32_t i = 0; i < 3; i++)
        scenario_hold(p[i], i == 0 ? 700 : 500, 0);
    p[0]->process.starved = true;
    for (uint32_t round = 0; round < 2; round++) {
        scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
        scenario_sync(sim, p[1], PCCL_ENFORCE_POPULAR);
        scenario_run_ms(sim, 50);
        if (round == 1)
            scenario_restart_master(sim, 20);
        scenario_sync(sim, p[2], PCCL_ENFORCE_POPULAR);
        for (uint32_t i = 0; i < 3; i++) {
            WAIT(sim, 8000, scenario_is_over(p[i], PCCL_CALL_SYNC));
            MUST(sim, scenario_synced(sim, p[i]) == PCCL_STATE);
        }
        all_name(sim, 3, p[0]);
    }
    MUST(sim, p[1]->state.content == 500 && p[1]->machine->revision == 0 && !p[0]->machine->sync.synced);
    p[0]->process.starved = false;
    scenario_hold(p[1], 700, 0);
    scenario_sync_all(sim, p, 3, 700, 0);
}

/* The first one of the ring cannot accept, the last one cannot dial: a newcomer learns which, and joins afterward. */
SCENARIO(shortage_at_a_neighbor)
{
    begin(sim, 3);
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_peer *sick = i == 0 ? p[0] : p[2];
        sick->process.starved = true;
        struct sim_peer *newcomer = scenario_join(sim, 8 + i, 0);
        WAIT(sim, sim->plan.master.warm_up_ms + 1000, scenario_is_over(newcomer, PCCL_CALL_CONNECT));
        MUST(sim, newcomer->machine->state == PCCL_PEER_OVER && names(newcomer, sick));
        sick->process.starved = false;
    }
    struct sim_peer *newcomer = p[3] = scenario_join(sim, 10, 0);
    scenario_run_ms(sim, 500);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, scenario_is_over(newcomer, PCCL_CALL_CONNECT));
    scenario_commit_all(sim, p, 4, 1, 1);
}

/* The newcomer itself. */
SCENARIO(shortage_of_a_newcomer)
{
    begin(sim, 2);
    struct sim_peer *newcomer = scenario_join(sim, 8, 0);
    newcomer->process.starved = true;
    WAIT(sim, sim->plan.master.warm_up_ms + 1000, scenario_is_over(newcomer, PCCL_CALL_CONNECT));
    MUST(sim, newcomer->machine->state == PCCL_PEER_OVER && names(newcomer, newcomer));
}

static void break_link(struct sim *sim, struct sim_peer *from, const struct sim_peer *to)
{
    struct sim_conn *conn = sim_peer_link(from, &to->id);
    MUST(sim, conn != NULL);
    sim_conn_reset(sim, conn);
}

/*
 * Two of three lose their links to the third and cannot dial it again. They are removed, one after the other, and it
 * stays.
 */
SCENARIO(shortage_of_two)
{
    begin(sim, 3);
    p[0]->process.starved = p[2]->process.starved = true;
    break_link(sim, p[0], p[1]);
    break_link(sim, p[2], p[1]);
    WAIT(sim, 8000, p[1]->machine->group.count == 1);
    WAIT(sim, 100, p[0]->machine->state == PCCL_PEER_OVER && p[2]->machine->state == PCCL_PEER_OVER);
    MUST(sim, pccl_peer_is_connected(p[1]->machine) && names(p[0], p[0]) && names(p[2], p[2]));
}

/* The ring loses its link to this one of p, and it accepts no other: it is removed, with the reason. */
static void dialed_goes(struct sim *sim, uint32_t count, uint32_t place)
{
    struct sim_peer *sick = p[place], *dialer = p[0];
    const uint64_t departures = scenario_departures(sim);
    while (!uses(sim, dialer, sick))
        dialer = next_of(sim, dialer);
    sick->process.starved = true;
    break_link(sim, dialer, sick);
    WAIT(sim, 8000, sick->machine->state == PCCL_PEER_OVER);
    MUST(sim, scenario_departures(sim) == departures + 1 && names(sick, sick));
    for (uint32_t i = place; i + 1 < count; i++)
        p[i] = p[i + 1];
    scenario_update_all(sim, p, count - 1);
}

/* The oldest of three, the older of two, the younger, and the youngest, though the master is blind. */
CLUSTER_SCENARIO(shortage_of_the_dialed, 3, 1)
{
    sim->no_probes = true;
    dialed_goes(sim, 3, 0);
    dialed_goes(sim, 2, 0);
    for (uint32_t count = 2; count <= 3; count++) {
        for (uint32_t i = 1; i < count; i++) {
            p[i] = scenario_join(sim, 5 + 2 * count + i, 0);
            scenario_run_ms(sim, 500);
            scenario_update_all(sim, p, i);
            WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_CONNECT));
        }
        dialed_goes(sim, count, count - 1);
    }
}

/* The shortage is over, and the master stops after it has received it: the newcomer still learns it. */
SCENARIO(shortage_and_standstill)
{
    begin(sim, 3);
    p[0]->process.starved = true;
    struct sim_peer *newcomer = scenario_join(sim, 8, 0);
    const struct pccl_master *m = sim->master->machine;
    WAIT(sim, 1000, pccl_master_find(m, &p[0]->id)->lack_us != 0);
    p[0]->process.starved = false;
    sim_net_cut(sim, newcomer->process.host, p[0]->process.host, SIM_DATA, SIM_DROP);
    sim_process_stop(sim, &sim->master->process, sim->now + 5 * SIM_S);
    WAIT(sim, sim->plan.master.warm_up_ms + 6000, scenario_is_over(newcomer, PCCL_CALL_CONNECT));
    MUST(sim, newcomer->machine->state == PCCL_PEER_OVER && names(newcomer, p[0]));
}
