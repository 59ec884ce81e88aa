/* Scenarios of crowds that connect to the master: the cost of strangers, and the peers that they keep out. */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

enum { HOME = 20 }; /* first host of crowds */

struct crowd {
    uint32_t hosts, groups; /* number of its hosts, and of the groups that it wants to join, from the first one on */
    uint32_t first_group;
    uint32_t come; /* number so far */
    struct sim_conn *conns[4096];
};

/* Returns the hello of a newcomer, which any process that reaches the port can send. */
static struct pccl_msg hello_of(const struct pccl_id *id, const struct pccl_id *token, uint32_t group)
{
    return (struct pccl_msg){.type = PCCL_MSG_hello,
                             .as.hello = {.magic = PCCL_PROTOCOL_MAGIC,
                                          .build = *sim_build(),
                                          .peer = *id,
                                          .token = *token,
                                          .link_key = *token,
                                          .group = group,
                                          .port = 1}};
}

/* Adds `count` strangers that send a hello and then nothing. */
static void come(struct sim *sim, struct crowd *crowd, uint32_t count)
{
    for (uint32_t until = crowd->come + count; crowd->come < until;) {
        uint32_t first = crowd->come, batch = (uint32_t)pccl_min_u64(until - first, PCCL_STRANGERS_MAX / 2);
        for (uint32_t i = 0; i < batch; i++) {
            struct sim_conn *conn = sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
            conn->hosts[0] = HOME + (first + i) % crowd->hosts;
            crowd->conns[crowd->come++] = conn;
        }
        for (uint32_t i = first; i < crowd->come; i++) {
            struct sim_conn *conn = crowd->conns[i];
            WAIT(sim, 100, conn->ends[0].established);
            struct pccl_id id = pccl_prng_id(&sim->prng), token = pccl_prng_id(&sim->prng);
            struct pccl_msg hello = hello_of(&id, &token, crowd->first_group + i % crowd->groups);
            scenario_say(sim, conn, &hello, 0);
        }
        scenario_run_ms(sim, 5);
    }
}

/* Sends heartbeats, so that the master sees them as living. */
static void beat(struct sim *sim, const struct crowd *crowd)
{
    struct pccl_msg heartbeat = {.type = PCCL_MSG_heartbeat};
    for (uint32_t i = 0; i < crowd->come; i++)
        if (!crowd->conns[i]->ends[0].ended)
            scenario_say(sim, crowd->conns[i], &heartbeat, 0);
}

static void stay(struct sim *sim, const struct crowd *crowd, uint64_t ms)
{
    for (uint64_t waited_ms = 0; waited_ms < ms; waited_ms += 200) {
        beat(sim, crowd);
        scenario_run_ms(sim, 200);
    }
}

static struct crowd *make_crowd(uint32_t hosts, uint32_t groups, uint32_t first_group)
{
    static struct crowd crowd;
    memset(&crowd, 0, sizeof crowd);
    crowd.hosts = hosts;
    crowd.groups = groups;
    crowd.first_group = first_group;
    return &crowd;
}

static void admit(struct sim *sim, struct sim_peer *newcomer, uint32_t members)
{
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, members);
    WAIT(sim, 500, pccl_peer_is_connected(newcomer->machine));
}

/* A firewall there: the master's dials to the host end without an answer. */
static void hide(struct sim *sim, uint32_t host)
{
    sim_net_cut(sim, sim->master->process.host, host, SIM_DATA, SIM_DROP);
}

/* The first one of a new group that refuses the master's dial, and then says nothing, is not admitted. */
CLUSTER_SCENARIO(crowd_listens_nowhere, 2, 1)
{
    come(sim, make_crowd(1, 100, 1), 100);
    scenario_run_ms(sim, 20);
    MUST(sim, pccl_master_count(sim->master->machine).pending == 100);
    scenario_update_all(sim, p, 2);
    MUST(sim, sim->master->machine->member_count == 2);
}

/* A firewall may have refused that dial: a newcomer that answers the master afterward is admitted. */
CLUSTER_SCENARIO(crowd_behind_a_wall, 2, 1)
{
    p[2] = scenario_join(sim, 5, 7);
    p[2]->process.wall = SIM_REFUSE;
    admit(sim, p[2], 2);
    MUST(sim, !pccl_master_find(sim->master->machine, &p[2]->id)->verified);
}

/* The master has not probed, as it is short of descriptors: that is not an answer, and it probes as soon as it can. */
CLUSTER_SCENARIO(crowd_asked_later, 2, 1)
{
    sim->no_probes = true;
    p[2] = scenario_join(sim, 5, 7);
    scenario_run_ms(sim, 500);
    scenario_update_all(sim, p, 2);
    MUST(sim, sim->master->machine->member_count == 2);
    sim->no_probes = false;
    scenario_run_ms(sim, 100);
    MUST(sim, pccl_master_find(sim->master->machine, &p[2]->id)->verified);
    admit(sim, p[2], 2);
}

/* The same, and the shortage shows later. */
CLUSTER_SCENARIO(crowd_was_not_asked, 2, 1)
{
    hide(sim, 5);
    p[2] = scenario_join(sim, 5, 7);
    scenario_run_ms(sim, 100);
    MUST(sim, pccl_master_find(sim->master->machine, &p[2]->id)->probing);
    sim_master_event(sim, sim->master,
                     &(struct pccl_master_event){.kind = PCCL_MASTER_PROBED, .now_us = sim->now, .peer = p[2]->id});
    scenario_run_ms(sim, 100); /* long enough to answer the master, if it took that for a dial in vain */
    scenario_update_all(sim, p, 2);
    MUST(sim, sim->master->machine->member_count == 2);
}

/* The cost of newcomers grows with their number, and while nothing changes they cost nothing. */
SCENARIO(crowd_costs)
{
    enum { COUNT = 500, VISITS_EACH = 32 };
    scenario_cluster(sim, p, 2, 1);
    struct crowd *crowd = make_crowd(2, COUNT, 1);
    hide(sim, HOME);
    hide(sim, HOME + 1);
    uint64_t before = sim->master->machine->newcomers_visited;
    come(sim, crowd, COUNT);
    MUST(sim, pccl_master_count(sim->master->machine).pending == COUNT);
    uint64_t after = sim->master->machine->newcomers_visited;
    MUST(sim, after > before && after - before <= COUNT * VISITS_EACH);
    scenario_commit_all(sim, p, 2, 1, 1);
    stay(sim, crowd, 1000);
    MUST(sim, pccl_master_count(sim->master->machine).pending == COUNT);
    MUST(sim, sim->master->machine->newcomers_visited == after);
}

/* A crowd in the queue of a group, from one address: a peer from another address has its turn at once. */
CLUSTER_SCENARIO(crowd_of_a_group, 2, 1)
{
    struct crowd *crowd = make_crowd(1, 1, 0);
    come(sim, crowd, 300);
    admit(sim, scenario_join(sim, 5, 0), 2);
}

/*
 * The most that may wait, from two addresses: one of them makes room for a peer from another address, which can become
 * a member.
 */
CLUSTER_SCENARIO(crowd_makes_room, 2, 2)
{
    struct crowd *crowd = make_crowd(2, 2, 0);
    sim->master->machine->config.silence_ms = 10000; /* a large crowd needs longer than usual to join */
    come(sim, crowd, PCCL_NEWCOMERS_MAX);
    MUST(sim, pccl_master_count(sim->master->machine).pending == PCCL_NEWCOMERS_MAX);
    come(sim, crowd, 3);
    MUST(sim, pccl_master_count(sim->master->machine).pending == PCCL_NEWCOMERS_MAX);
    beat(sim, crowd);
    admit(sim, scenario_join(sim, 5, 0), 2);
}

/* One address fills its share, and no more. */
CLUSTER_SCENARIO(crowd_of_an_address, 1, 1)
{
    struct crowd *crowd = make_crowd(1, 1, 0);
    come(sim, crowd, PCCL_NEWCOMERS_OF_ADDRESS_MAX + 5);
    MUST(sim, pccl_master_count(sim->master->machine).pending == PCCL_NEWCOMERS_OF_ADDRESS_MAX);
    admit(sim, scenario_join(sim, 5, 0), 1);
}

/* Lets a peer known to the simulator join with a hello and heartbeats only. */
static struct sim_conn *come_as(struct sim *sim, struct sim_peer *peer)
{
    struct pccl_msg hello =
        hello_of(&peer->machine->config.id, &peer->machine->config.token, peer->machine->config.group);
    hello.as.hello.name = pccl_bytes_of_string(peer->config.name);
    sim_peer_kill(sim, peer, false);
    scenario_lie(sim, peer);
    struct sim_conn *conn = sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    conn->hosts[0] = peer->process.host;
    WAIT(sim, 100, conn->ends[0].established);
    scenario_say(sim, conn, &hello, 0);
    return conn;
}

/* A peer that the master cannot dial must send something besides its hello, or joint calls would wait for it. */
CLUSTER_SCENARIO(crowd_says_hello_only, 2, 1)
{
    sim->master->machine->config.silence_ms = 10000; /* dialing in vain takes longer than usual */
    hide(sim, 6);
    (void)come_as(sim, sim_peer_start(sim, 6, sim->next_port[6]++, 7, true));
    WAIT(sim, 100, sim->master->process.probe_count == 1);
    WAIT(sim, 1000, sim->master->process.probe_count == 0);
    MUST(sim, pccl_master_count(sim->master->machine).pending == 1);
    scenario_update_all(sim, p, 2);
    MUST(sim, sim->master->machine->member_count == 2);
}

/*
 * A newcomer of a new group needs no link to be admitted. If it then never makes a call, the others wait for it in
 * joint calls only for a limited time; a peer that has made one call is waited for.
 */
SCENARIO(crowd_never_calls)
{
    enum { FIRST_CALL_MS = 3000 };
    scenario_cluster(sim, p, 2, 1);
    sim->master->machine->config.first_call_ms = FIRST_CALL_MS;
    struct crowd *crowd = make_crowd(1, 1, 7);
    hide(sim, 6);
    crowd->conns[crowd->come++] = come_as(sim, sim_peer_start(sim, 6, sim->next_port[6]++, 7, true));
    stay(sim, crowd, 500); /* until the master has dialed it in vain */
    p[2] = scenario_join(sim, 5, 8);
    admit(sim, p[2], 2);
    MUST(sim, sim->master->machine->member_count == 4);
    scenario_pending(sim, p[2]);
    scenario_update(sim, p[0]);
    scenario_update(sim, p[1]);
    stay(sim, crowd, FIRST_CALL_MS + 600);
    MUST(sim, sim->master->machine->member_count == 4); /* p[2] has not joined either */
    scenario_withdraw(sim, p[2], PCCL_CALL_PENDING);
    WAIT(sim, 100, scenario_is_over(p[2], PCCL_CALL_PENDING));
    scenario_update(sim, p[2]);
    stay(sim, crowd, FIRST_CALL_MS - 400);
    MUST(sim, sim->master->machine->member_count == 4 && !scenario_is_over(p[0], PCCL_CALL_UPDATE));
    stay(sim, crowd, 800);
    for (uint32_t i = 0; i < 3; i++)
        WAIT(sim, 100, scenario_is_over(p[i], PCCL_CALL_UPDATE));
    MUST(sim, sim->master->machine->member_count == 3);
}

/* A newcomer's address answers the master, but not the members: they try a few times, while it may still recover. */
SCENARIO(crowd_dials)
{
    enum { DIALS_MAX = 4, ELSEWHERE = 6 };
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 0; i < 2; i++)
        sim_net_cut(sim, p[i]->process.host, ELSEWHERE, SIM_DATA, SIM_REFUSE);
    uint32_t before = p[1]->dials;
    (void)scenario_join(sim, ELSEWHERE, 0);
    scenario_run_ms(sim, sim->plan.master.warm_up_ms - 200);
    MUST(sim, pccl_master_count(sim->master->machine).pending == 1);
    MUST(sim, p[1]->dials > before + 1 && p[1]->dials <= before + DIALS_MAX);
}

/* A peer has connected from far away, and its hello is in flight while hundreds connect from elsewhere. */
CLUSTER_SCENARIO(crowd_at_the_door, 1, 1)
{
    struct sim_conn *slow = sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    slow->hosts[0] = HOME;
    WAIT(sim, 500, sim->master->machine->strangers_by_conn.count == 1);
    for (uint32_t i = 0; i < PCCL_STRANGERS_MAX + 40; i++)
        (void)sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    scenario_run_ms(sim, 300);
    MUST(sim, sim->master->machine->strangers_by_conn.count == PCCL_STRANGERS_MAX);
    struct pccl_id id = pccl_prng_id(&sim->prng), token = pccl_prng_id(&sim->prng);
    struct pccl_msg hello = hello_of(&id, &token, 0);
    scenario_say(sim, slow, &hello, 0);
    WAIT(sim, 100, pccl_master_count(sim->master->machine).pending == 1);
}

/* The master has no room for it, and closes its connection before it answers. Returns the pause until it dials again.
 */
static uint64_t drop_at_once(struct sim *sim, struct sim_peer *peer)
{
    WAIT(sim, 1000, peer->control != NULL && peer->control_up);
    sim_conn_reset(sim, peer->control);
    WAIT(sim, 100, peer->control == NULL);
    return peer->machine->redial_us - peer->machine->now_us;
}

/*
 * Newcomers dial again if a busy master closes their connections without an answer, at random moments, and join. One
 * whose connections all end in this way gives up in time with the reason; one that finds no master fails at once.
 */
SCENARIO(crowd_connects_again)
{
    enum { TURNS = 4 };
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 2; i < 4; i++)
        p[i] = scenario_join(sim, 3 + i, 0);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint64_t pause_us = drop_at_once(sim, p[2]);
        MUST(sim, pause_us != drop_at_once(sim, p[3]));
    }
    for (uint32_t i = 2; i < 4; i++)
        WAIT(sim, 1000, p[i]->machine->state == PCCL_PEER_PENDING);
    admit(sim, p[2], 2);
    struct sim_peer *unlucky = scenario_join(sim, 7, 0);
    uint64_t since_us = sim->now, limit_us = unlucky->config.connect_retry_ms * SIM_MS;
    while (!scenario_is_over(unlucky, PCCL_CALL_CONNECT) && sim->now < since_us + 2 * limit_us) {
        if (unlucky->control != NULL && unlucky->control_up)
            sim_conn_reset(sim, unlucky->control);
        scenario_run_ms(sim, 1);
    }
    MUST(sim, unlucky->app.call_status[PCCL_CALL_CONNECT] == PCCL_MASTER_UNREACHABLE);
    MUST(sim, sim->now >= since_us + limit_us && sim->now < since_us + limit_us + 500 * SIM_MS);
    sim_master_crash(sim, false);
    struct sim_peer *late = scenario_join(sim, 6, 0);
    WAIT(sim, 500, scenario_is_over(late, PCCL_CALL_CONNECT));
    MUST(sim, late->app.call_status[PCCL_CALL_CONNECT] == PCCL_MASTER_UNREACHABLE);
}
