/*
 * Peers with ports that others cannot reach, behind a NAT or a firewall: the receiver of the data dials in place of the
 * sender wherever only the sender's port can be reached.
 */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[8];

/* Lets a peer join whose port is closed to other hosts. */
static struct sim_peer *join_behind(struct sim *sim, uint32_t host, enum sim_cut wall)
{
    struct sim_peer *peer = scenario_join(sim, host, 0);
    peer->process.wall = wall;
    return peer;
}

static void admit_next(struct sim *sim, uint32_t members)
{
    scenario_run_ms(sim, 1000); /* the admission does not wait longer for links beside the ring */
    scenario_update_all(sim, p, members);
    WAIT(sim, 3000, pccl_peer_is_connected(p[members]->machine));
    WAIT(sim, 1000, p[0]->machine->group.count == members + 1);
}

/* Returns the number of links of running peers whose receiver has dialed. Each link is counted once. */
static uint32_t count_reversed(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++)
        for (uint32_t k = 0; sim_peer_runs(sim->peers[i]) && k < sim->peers[i]->link_count; k++) {
            const struct sim_link *link = &sim->peers[i]->links[k];
            count += !link->incoming && link->reversed && link->up;
        }
    return count;
}

/* Exactly the links to the closed port are dialed by their receiver, before and after a break and a master restart. */
static void works_behind(struct sim *sim, enum sim_cut wall)
{
    scenario_cluster(sim, p, 2, 1);
    p[2] = join_behind(sim, 5, wall);
    admit_next(sim, 2);
    scenario_commit_all(sim, p, 3, 1, 1);
    MUST(sim, count_reversed(sim) == 2); /* from each of the others to it */
    sim_conn_reset(sim, sim_peer_link(p[1], &p[2]->id));
    scenario_commit_all(sim, p, 3, 1, 100);
    WAIT(sim, 2000, count_reversed(sim) == 2);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    WAIT(sim, 5000, sim->master->machine->member_count == 3 && !sim->master->machine->recovering);
    scenario_commit_all(sim, p, 3, 1, 200);
    scenario_run_ms(sim, 1000); /* by now the new master has dialed all ports */
    for (uint32_t i = 0; i < 2; i++)
        sim_conn_reset(sim, sim_peer_link(p[i], &p[2]->id));
    scenario_commit_all(sim, p, 3, 1, 300);
    WAIT(sim, 2000, count_reversed(sim) == 2);
    MUST(sim, scenario_departures(sim) == 0);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, sim->plan.master.silence_ms + 1000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    scenario_commit_all(sim, p, 2, 1, 400);
    MUST(sim, scenario_departures(sim) == 1);
}

SCENARIO(reach_behind_nat) { works_behind(sim, SIM_DROP); }

SCENARIO(reach_behind_reset) { works_behind(sim, SIM_REFUSE); }

static void break_links(struct sim *sim, struct sim_peer *peer)
{
    if (peer->control != NULL && peer->process.wall != SIM_WHOLE) /* a router restarts */
        sim_conn_reset(sim, peer->control);
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i].conn != NULL)
            sim_conn_reset(sim, peer->links[i].conn);
}

/* Links break while the master is away: they are opened again soon after the recovery. */
SCENARIO(reach_broken_in_recovery)
{
    scenario_cluster(sim, p, 3, 1);
    p[3] = join_behind(sim, 5, SIM_DROP);
    admit_next(sim, 3);
    sim_master_crash(sim, true);
    break_links(sim, p[3]);
    scenario_run_ms(sim, 50);
    sim_master_start(sim);
    WAIT(sim, 5000, sim->master->machine->member_count == 4 && !sim->master->machine->recovering);
    WAIT(sim, 400, count_reversed(sim) == 3);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A router restarts: all connections of the peer behind it break at once. No report about them is evidence. */
SCENARIO(reach_router_restarts)
{
    scenario_cluster(sim, p, 3, 1);
    p[3] = join_behind(sim, 5, SIM_DROP);
    admit_next(sim, 3);
    scenario_commit_all(sim, p, 4, 1, 1);
    break_links(sim, p[3]);
    scenario_commit_all(sim, p, 4, 1, 100);
    MUST(sim, scenario_departures(sim) == 0);
}

/* Two peers behind firewalls cannot be linked: the second one is refused, in words that name both. */
SCENARIO(reach_two_behind)
{
    scenario_cluster(sim, p, 1, 1);
    p[1] = join_behind(sim, 5, SIM_DROP);
    admit_next(sim, 1);
    p[2] = join_behind(sim, 6, SIM_DROP);
    WAIT(sim, sim->plan.master.warm_up_ms + 2000, p[2]->machine->state == PCCL_PEER_OVER);
    const char *words = pccl_peer_last_reason(p[2]->machine)->bytes;
    MUST(sim, strstr(words, "port of neither") != NULL && strstr(words, pccl_id_str(&p[1]->id)) != NULL);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* Collects the peers that are still members, and waits until they know each other. */
static uint32_t survivors(struct sim *sim, struct sim_peer **living)
{
    uint32_t count = 0;
    WAIT(sim, 8000, !sim->master->machine->recovering && sim->master->machine->departing_count == 0);
    for (uint32_t i = 0; i < sim->master->machine->groups[0]->ring_count; i++)
        living[count++] = sim_peer_find(sim, &sim->master->machine->groups[0]->ring[i]->id);
    for (uint32_t i = 0; i < count; i++)
        WAIT(sim, 4000, living[i]->machine->group.count == count);
    return count;
}

/* Every second of eight peers may be behind a firewall. Routers and masters restart, peers die: the others continue. */
SCENARIO(reach_random)
{
    struct sim_peer *living[8];
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 2; i < 8; i++) {
        enum sim_cut wall = sim_chance(sim, 50) ? SIM_DROP : SIM_REFUSE;
        p[i] = join_behind(sim, 2 + i, i % 2 == 0 && sim_chance(sim, 80) ? wall : SIM_WHOLE);
        admit_next(sim, i);
    }
    uint32_t killed = 0;
    for (uint64_t turn = 0; turn < 12; turn++) {
        uint32_t count = survivors(sim, living);
        MUST(sim, count == 8 - killed);
        struct sim_peer *one = living[sim_random(sim, count)];
        uint64_t event = sim_random(sim, 4);
        if (event == 0 && count > 6) {
            sim_peer_kill(sim, one, false);
            WAIT(sim, sim->plan.master.silence_ms + 2000, sim->master->machine->member_count == count - 1);
            killed++;
        } else if (event == 1) {
            sim_master_crash(sim, true);
            sim_master_start(sim);
            WAIT(sim, 8000, sim->master->machine->member_count == count && !sim->master->machine->recovering);
        } else {
            break_links(sim, one);
        }
        scenario_run_ms(sim, 3000); /* links are dialed again, and rings avoid those that cannot be */
        count = survivors(sim, living);
        scenario_commit_all(sim, living, count, 1, 1 + 1000 * turn);
    }
}
