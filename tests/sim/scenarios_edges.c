/*
 * Scenarios of a ring's edge that has no alternative: when it is given up, and which member is then removed (PROTOCOL
 * 9.4). The report of one end is written by hand, in its name, because the simulator has no cut in one direction only.
 */
#include "master/roster.h"
#include "scenario.h"

/* Peers of the running scenario: the members of group 0 in the order of its ring, then the others. */
static struct sim_peer *p[6];

/* In a ring the first is the oldest, and the link from each to the next is needed. */
static void cluster(struct sim *sim, uint32_t count, uint32_t groups)
{
    scenario_cluster(sim, p, count, groups);
    const struct pccl_peer_group *group = sim->master->machine->groups[0];
    MUST(sim, group->number == 0 && group->ring[0]->arrival == 1);
    for (uint32_t i = 0; i < group->ring_count; i++)
        p[i] = sim_peer_find(sim, &group->ring[i]->id);
    for (uint32_t i = 0, at = group->ring_count; i < sim->peer_count; i++)
        if (sim->peers[i]->group != 0)
            p[at++] = sim->peers[i];
}

static void lose(struct sim *sim, struct sim_peer *peer, const struct sim_peer *to)
{
    struct pccl_msg lost = {.type = PCCL_MSG_link_lost,
                            .as.link_lost = {.peer = to->id, .how = (uint8_t)PCCL_LINK_TIMEOUT}};
    scenario_forge(sim, peer, &lost);
}

static const struct pccl_remote *remote_of(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &peer->id);
    MUST(sim, remote != NULL);
    return remote;
}

/* A firewall there: the master's dials to it end without an answer. */
static void hide(struct sim *sim, const struct sim_peer *peer)
{
    sim_net_cut(sim, sim->master->process.host, peer->process.host, SIM_DATA, SIM_DROP);
}

/* Checks that only this peer has departed, and the number of the remaining ones. */
static void only_went(struct sim *sim, const struct sim_peer *gone, uint32_t left)
{
    WAIT(sim, 100, scenario_departures(sim) == 1 && sim->master->machine->member_count == left);
    MUST(sim, pccl_master_find(sim->master->machine, &gone->id) == NULL);
}

/*
 * The master is short of descriptors and cannot probe: it waits for that, but not forever. Then the member with the
 * uncorroborated report is removed, and operations held for the edge end.
 */
SCENARIO(edge_unseen)
{
    cluster(sim, 3, 1);
    struct pccl_peer_op *x[3];
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 10);
    sim->no_probes = true;
    lose(sim, p[0], p[1]);
    sim_bulk_break(sim, p[0], x[0], PCCL_CLASS_PEER_LOST);
    scenario_run_ms(sim, 1000); /* it might be able to, soon */
    MUST(sim, scenario_departures(sim) == 0 && remote_of(sim, p[1])->probing && !scenario_is_decided(x[1]));
    WAIT(sim, 1200, scenario_departures(sim) == 1); /* the silence limit is 2 s */
    only_went(sim, p[0], 2);
    for (uint32_t i = 1; i < 3; i++) {
        WAIT(sim, 100, scenario_is_decided(x[i]));
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_commit_all(sim, p + 1, 2, 1, 1);
}

/* ... and as soon as it can look, it knows. */
SCENARIO(edge_seen_late)
{
    cluster(sim, 3, 1);
    sim->no_probes = true;
    hide(sim, p[1]);
    lose(sim, p[0], p[1]);
    scenario_run_ms(sim, 1000);
    MUST(sim, scenario_departures(sim) == 0);
    sim->no_probes = false;
    WAIT(sim, 700, scenario_departures(sim) == 1);
    only_went(sim, p[1], 2);
}

/* The end repeats its report of the failure just when the master has seen the same: the observation still counts. */
SCENARIO(edge_said_again)
{
    cluster(sim, 3, 1);
    sim->master->machine->config.settle_ms = 150; /* not when its dial ends, after 400 ms */
    hide(sim, p[1]);
    lose(sim, p[0], p[1]);
    WAIT(sim, 500, remote_of(sim, p[1])->unanswered_us != 0);
    scenario_run_ms(sim, 5);
    MUST(sim, scenario_departures(sim) == 0);
    lose(sim, p[0], p[1]);
    WAIT(sim, 300, scenario_departures(sim) == 1);
    only_went(sim, p[1], 2);
}

/*
 * Another one has reported this less than the silence limit before: it does not matter that the edge had its time to
 * recover.
 */
SCENARIO(edge_second_word)
{
    cluster(sim, 3, 1);
    sim->master->machine->config.settle_ms = 700; /* time for the master to use its memory */
    lose(sim, p[2], p[1]);
    scenario_run_ms(sim, sim->plan.master.silence_ms - 50);
    lose(sim, p[0], p[1]);
    WAIT(sim, 900, scenario_departures(sim) == 1);
    only_went(sim, p[1], 2);
}

/*
 * While an edge waits for its judgment the ring changes, and the edge is in the new one, too: it is judged when the
 * other edges of the new ring have had the same time to fail. Otherwise the first reporter would be removed in place of
 * the unreachable member.
 */
SCENARIO(edge_of_a_new_ring)
{
    cluster(sim, 4, 1);
    lose(sim, p[0], p[1]);
    scenario_run_ms(sim, sim->plan.master.settle_ms - 30);
    sim_app_leave(sim, p[3]);
    WAIT(sim, 20, sim->master->machine->member_count == 3);
    lose(sim, p[0], p[1]);
    scenario_run_ms(sim, sim->plan.master.settle_ms - 20);
    MUST(sim, scenario_departures(sim) == 1);
    lose(sim, p[2], p[1]);
    WAIT(sim, 100, sim->master->machine->member_count == 2);
    MUST(sim, pccl_master_find(sim->master->machine, &p[1]->id) == NULL);
}

/*
 * The host of an older member vanishes, and the link to it breaks first: it does not answer, so the younger one is not
 * removed.
 */
static void vanish(struct sim *sim, struct sim_peer *older, struct sim_peer *other)
{
    sim_net_host(sim, older->process.host, false);
    sim_peer_kill(sim, older, true);
    sim_conn_reset(sim, sim_peer_link(other, &older->id));
    WAIT(sim, 3000, scenario_departures(sim) == 1);
    only_went(sim, older, 1);
    scenario_run_ms(sim, 3000);
    MUST(sim, scenario_departures(sim) == 1 && pccl_peer_is_connected(other->machine));
}

/* An end of an edge does not answer: the master removes it, and not the younger member. */
SCENARIO(edge_vanished)
{
    cluster(sim, 2, 1);
    vanish(sim, p[0], p[1]);
}

/* ... also if the master has never reached its port: the silence shows it. */
SCENARIO(edge_vanished_unseen)
{
    sim_quiet_begin(sim);
    sim_net_cut(sim, 0, 1, SIM_DATA, SIM_DROP);
    p[0] = scenario_join(sim, 1, 0);
    WAIT(sim, 1000, pccl_peer_is_connected(p[0]->machine));
    p[1] = scenario_join(sim, 2, 0);
    scenario_run_ms(sim, 1000);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 1000, pccl_peer_is_connected(p[1]->machine));
    scenario_run_ms(sim, 50);
    MUST(sim, !remote_of(sim, p[0])->verified);
    vanish(sim, p[0], p[1]);
}

/* Members of another group do not share the ring, and have no links to its members: their word is no word about it. */
SCENARIO(edge_of_others)
{
    cluster(sim, 6, 2);
    lose(sim, p[3], p[1]);
    lose(sim, p[4], p[1]);
    lose(sim, p[0], p[1]);
    WAIT(sim, 300, scenario_departures(sim) == 1);
    only_went(sim, p[0], 5);
}
