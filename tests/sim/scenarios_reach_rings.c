/*
 * Two peers with closed ports cannot be linked unless they are in one network: rings, subgroups, donors and sends do
 * without such links wherever that is possible, and otherwise end in words.
 */
#include "master/roster.h"
#include "master/rounds_election.h"
#include "peer/queries.h"
#include "scenario.h"

#include <string.h>

enum { MEMBERS_MAX = 26 };
/* More members than have a mesh, so that links beside the ring are not known. */
static const char many[] = "oouuouououououououou";
static struct sim_peer *p[MEMBERS_MAX];

/* ---- members ---- */

static bool is_open(const struct sim_peer *peer) { return peer->process.wall == SIM_WHOLE; }

/* Returns true if no link between them is possible. */
static bool are_apart(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    return a != b && sim_net_between(sim, &a->process, &b->process) != SIM_WHOLE;
}

static struct sim_peer *join_at(struct sim *sim, uint32_t host, enum sim_cut wall, uint32_t site)
{
    struct sim_peer *peer = scenario_join(sim, host, 0);
    peer->process.wall = wall;
    peer->process.site = site;
    return peer;
}

/* Admits a peer to the group of `members`. */
static void admit(struct sim *sim, uint32_t members, enum sim_cut wall, uint32_t site)
{
    p[members] = join_at(sim, 1 + members, wall, site);
    scenario_run_ms(sim, 1500);
    scenario_update_all(sim, p, members);
    WAIT(sim, 3000, pccl_peer_is_connected(p[members]->machine));
    for (uint32_t i = 0; i <= members; i++)
        WAIT(sim, 1000, p[i]->machine->group.count == members + 1);
}

/* Lets peers join in this order: 'o' with an open port, 'u' behind a firewall. The first two are open. */
static void cluster_of(struct sim *sim, const char *kinds)
{
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 2; i < strlen(kinds); i++)
        admit(sim, i, kinds[i] == 'o' ? SIM_WHOLE : i % 2 == 0 ? SIM_DROP : SIM_REFUSE, 0);
}

/* Fails if neighbors in the ring cannot be linked. */
static void must_be_linkable(struct sim *sim, struct sim_peer **peers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct sim_peer *one = scenario_in_ring(sim, peers[0], i), *next = scenario_in_ring(sim, peers[0], i + 1);
        MUST(sim, !are_apart(sim, one, next));
    }
}

static void commit_bulk(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t step)
{
    struct pccl_peer_op *ops[MEMBERS_MAX];
    sim->bulk_by_hand = false;
    for (uint32_t i = 0; i < count; i++)
        ops[i] = scenario_bulk(sim, peers[i], 1 + step, step);
    for (uint32_t i = 0; i < count; i++)
        WAIT(sim, 9000, scenario_is_decided(ops[i]));
    for (uint32_t i = 0; i < count; i++)
        MUST(sim, scenario_take(sim, peers[i], ops[i]) == PCCL_CLASS_NONE);
}

static void works(struct sim *sim, struct sim_peer **peers, uint32_t count, uint64_t step)
{
    must_be_linkable(sim, peers, count);
    scenario_commit_all(sim, peers, count, 1, step);
    commit_bulk(sim, peers, count, step + 10);
    MUST(sim, peers[0]->machine->group.count == count);
}

/* Collects the peers that are still members, and waits until they know one another. */
static uint32_t survivors(struct sim *sim, struct sim_peer **living)
{
    uint32_t count = 0;
    WAIT(sim, 20000, !sim->master->machine->recovering && sim->master->machine->departing_count == 0);
    const struct pccl_peer_group *group = sim->master->machine->groups[0];
    for (uint32_t i = 0; i < group->ring_count; i++)
        living[count++] = sim_peer_find(sim, &group->ring[i]->id);
    for (uint32_t i = 0; i < count; i++)
        WAIT(sim, 4000, living[i]->machine->group.count == count);
    return count;
}

/* ---- rings ---- */

/* Half of the members may be behind firewalls, in whatever order they join; no link between these is used. */
static void works_with(struct sim *sim, const char *kinds)
{
    uint32_t count = (uint32_t)strlen(kinds);
    cluster_of(sim, kinds);
    works(sim, p, count, 1);
    MUST(sim, p[0]->machine->group.cost.mesh == 0 && scenario_departures(sim) == 0);
    scenario_optimize_all(sim, p, count, PCCL_OK);
    works(sim, p, count, 100);
    scenario_restart_master(sim, 100);
    WAIT(sim, 9000, sim->master->machine->member_count == count && !sim->master->machine->recovering);
    scenario_run_ms(sim, 2000);
    works(sim, p, count, 200);
    MUST(sim, scenario_departures(sim) == 0);
}

SCENARIO(reach_half_of_four) { works_with(sim, "oouu"); }

SCENARIO(reach_half_of_six) { works_with(sim, "oouuou"); }

SCENARIO(reach_half_of_eight) { works_with(sim, "oouuouou"); }

SCENARIO(reach_many)
{
    cluster_of(sim, many);
    works(sim, p, 20, 1);
    MUST(sim, scenario_departures(sim) == 0);
    for (uint32_t i = 0; i < 2; i++)
        scenario_optimize_all(sim, p, 20, PCCL_OK);
    works(sim, p, 20, 100);
    MUST(sim, scenario_departures(sim) == 0);
}

/* All are behind firewalls in one network, and the master is outside: they work as if there were none. */
SCENARIO(reach_one_network)
{
    sim_quiet_begin(sim);
    p[0] = join_at(sim, 1, SIM_DROP, 7);
    WAIT(sim, 3000, pccl_peer_is_connected(p[0]->machine));
    for (uint32_t i = 1; i < 18; i++)
        admit(sim, i, SIM_DROP, 7);
    works(sim, p, 18, 1);
    sim_peer_kill(sim, p[9], false);
    p[9] = p[17];
    WAIT(sim, sim->plan.master.silence_ms + 1000, p[0]->machine->group.count == 17);
    works(sim, p, 17, 100);
    MUST(sim, scenario_departures(sim) == 1);
}

/* A newcomer that would have only neighbors with closed ports waits, and is refused in words; a later one enters. */
SCENARIO(reach_third_behind)
{
    cluster_of(sim, "oou");
    p[3] = join_at(sim, 4, SIM_DROP, 0);
    scenario_run_ms(sim, 1500);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 3000, pccl_peer_is_connected(p[3]->machine));
    p[4] = join_at(sim, 5, SIM_DROP, 0);
    WAIT(sim, sim->plan.master.warm_up_ms + 2000, p[4]->machine->state == PCCL_PEER_OVER);
    const char *words = pccl_peer_last_reason(p[4]->machine)->bytes;
    MUST(sim, strstr(words, "port of neither") != NULL && strstr(words, "At most half") != NULL);
    works(sim, p, 4, 1);
    p[4] = NULL;
    admit(sim, 4, SIM_WHOLE, 0);
    admit(sim, 5, SIM_DROP, 0);
    works(sim, p, 6, 100);
}

/* Several newcomers at once: each gets a place, and all are in the next view. */
SCENARIO(reach_several_at_once)
{
    enum { BEFORE = 18, AFTER = BEFORE + 5 };
    cluster_of(sim, "oooooooouuoooooooo");
    for (uint32_t i = BEFORE; i < AFTER - 1; i++)
        p[i] = join_at(sim, 1 + i, SIM_DROP, 0);
    p[AFTER - 1] = join_at(sim, AFTER, SIM_WHOLE, 0);
    scenario_run_ms(sim, 2000);
    scenario_update_all(sim, p, BEFORE);
    for (uint32_t i = BEFORE; i < AFTER; i++)
        WAIT(sim, 100, pccl_peer_is_connected(p[i]->machine));
    works(sim, p, AFTER, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A death leaves more behind firewalls than beside them: the latest of these leaves in the same view, in words. */
SCENARIO(reach_too_many_after_a_death)
{
    cluster_of(sim, "oouu");
    works(sim, p, 4, 1);
    uint64_t views = sim->master->machine->epoch.number;
    sim_peer_kill(sim, p[1], false);
    WAIT(sim, sim->plan.master.silence_ms + 1000, p[3]->machine->state == PCCL_PEER_OVER);
    const char *words = pccl_peer_last_reason(p[3]->machine)->bytes;
    MUST(sim, strstr(words, "port of neither") != NULL && strstr(words, pccl_id_str(&p[2]->id)) != NULL);
    p[1] = p[2];
    WAIT(sim, 1000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, sim->master->machine->epoch.number == views + 1 && scenario_departures(sim) == 2);
    works(sim, p, 2, 100);
}

/* A death brings two with closed ports together: the next view has a ring without their link, before it is tried. */
SCENARIO(reach_deaths)
{
    struct sim_peer *living[MEMBERS_MAX];
    uint32_t deaths = 0;
    cluster_of(sim, "oouuouououoooooooooo");
    for (uint32_t i = 0; i < 20 && deaths == 0; i++)
        if (!is_open(scenario_in_ring(sim, p[2], i)) && !is_open(scenario_in_ring(sim, p[2], i + 2))) {
            sim_peer_kill(sim, scenario_in_ring(sim, p[2], i + 1), false);
            deaths++;
        }
    WAIT(sim, sim->plan.master.silence_ms + 1000, deaths == 1 && p[2]->machine->group.count == 19);
    works(sim, living, survivors(sim, living), 100);
    MUST(sim, scenario_departures(sim) == 1);
}

/* A search is given no link that cannot be, although not all have been tried. */
SCENARIO(reach_search)
{
    cluster_of(sim, many);
    sim->searches_by_hand = true;
    for (uint32_t i = 0; i < 20; i++)
        scenario_optimize(sim, p[i]);
    WAIT(sim, 20000, sim_search_is_open(sim));
    const struct pccl_ring_problem *problem = sim_search_problem(sim);
    const struct pccl_peer_group *group = sim->master->machine->groups[0];
    uint32_t apart = 0, possible = 0;
    for (uint32_t i = 0; i < 20; i++)
        for (uint32_t k = 0; k < 20; k++) {
            const struct pccl_remote *from = group->ring[i], *to = group->ring[k];
            bool is_used = problem->rates[from->number * 20 + to->number] != PCCL_RATE_NONE;
            bool is_apart = are_apart(sim, sim_peer_find(sim, &from->id), sim_peer_find(sim, &to->id));
            MUST(sim, i == k || is_apart != is_used);
            apart += is_apart;
            possible += i != k && is_used;
        }
    MUST(sim, apart == 10 * 9 && possible == 20 * 19 - apart);
}

/* The same in a group without a mesh, where these links have not been tried before. */
SCENARIO(reach_too_many_of_many)
{
    struct sim_peer *living[MEMBERS_MAX];
    cluster_of(sim, many);
    sim_peer_kill(sim, p[0], false);
    sim_peer_kill(sim, p[1], false);
    scenario_run_ms(sim, sim->plan.master.silence_ms + 60000);
    uint32_t count = survivors(sim, living), closed = 0;
    for (uint32_t i = 0; i < count; i++)
        closed += !is_open(living[i]);
    MUST(sim, count == 16 && closed == 8);
    works(sim, living, count, 100);
}

/* ---- beside rings ---- */

static struct pccl_peer_op *launch_founding(struct sim *sim, struct sim_peer *peer, const uint32_t *who, uint32_t count)
{
    struct pccl_id list[MEMBERS_MAX];
    for (uint32_t i = 0; i < count; i++)
        list[i] = p[who[i]]->id;
    struct sim_request request = {
        .collective = PCCL_FOUND, .step = 1, .tiny = true, .count = count, .members = list, .member_count = count};
    return scenario_ask(sim, peer, &request);
}

/* A subgroup has a separate ring; if no ring exists, it is refused in words. */
SCENARIO(reach_subgroups)
{
    static const uint32_t four[] = {0, 1, 2, 4}, two[] = {2, 4};
    struct pccl_peer_op *ops[4];
    cluster_of(sim, "oououoou");
    for (uint32_t i = 0; i < 4; i++)
        ops[i] = launch_founding(sim, p[four[i]], four, 4);
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        const struct pccl_peer_subgroup *subgroup = pccl_peer_founded(p[four[i]]->machine, ops[i]);
        MUST(sim, ops[i]->class == PCCL_CLASS_NONE && subgroup != NULL);
        for (uint32_t place = 0; place < 4; place++) {
            const struct sim_peer *one = sim_peer_find(sim, &subgroup->all.ring[place]);
            MUST(sim, !are_apart(sim, one, sim_peer_find(sim, &subgroup->all.ring[(place + 1) % 4])));
        }
        (void)scenario_take(sim, p[four[i]], ops[i]);
    }
    ops[0] = launch_founding(sim, p[2], two, 2);
    ops[1] = launch_founding(sim, p[4], two, 2);
    scenario_must_end(sim, p[2], ops[0], PCCL_CLASS_INTERNAL, "cannot be linked");
    scenario_must_end(sim, p[4], ops[1], PCCL_CLASS_INTERNAL, pccl_id_str(&p[2]->id));
    works(sim, p, 8, 1);
}

/* A bulk send between two of them ends in words; tiny ones work, and so do all others. */
SCENARIO(reach_sends)
{
    cluster_of(sim, "oouu");
    struct pccl_peer_op *ops[] = {scenario_send(sim, p[2], p[3], true, 1, false),
                                  scenario_send(sim, p[3], p[2], false, 1, false)};
    struct pccl_peer_op *tiny[] = {scenario_send(sim, p[2], p[3], true, 11, true),
                                   scenario_send(sim, p[3], p[2], false, 11, true)};
    WAIT(sim, 500, scenario_is_decided(ops[0]) && scenario_is_decided(ops[1])); /* the link has been tried before */
    for (uint32_t i = 0; i < 2; i++)
        scenario_must_end(sim, p[2 + i], tiny[i], PCCL_CLASS_NONE, "");
    works(sim, p, 4, 101);
    for (uint32_t i = 0; i < 2; i++)
        scenario_must_end(sim, p[2 + i], ops[i], PCCL_CLASS_INTERNAL, "port of neither");
    works(sim, p, 4, 201);
    MUST(sim, scenario_departures(sim) == 0);
}

/* In a group without a mesh, the first dial of the link decides. */
SCENARIO(reach_sends_of_many)
{
    cluster_of(sim, many);
    struct pccl_peer_op *ops[] = {scenario_send(sim, p[2], p[5], true, 1, false),
                                  scenario_send(sim, p[5], p[2], false, 1, false)};
    WAIT(sim, 6000, scenario_is_decided(ops[0]) && scenario_is_decided(ops[1])); /* connect_timeout_ms is 5 s */
    for (uint32_t i = 0; i < 2; i++)
        scenario_must_end(sim, i == 0 ? p[2] : p[5], ops[i], PCCL_CLASS_INTERNAL, "port of neither");
    works(sim, p, 20, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* Links that are not possible are tried rarely, and at once when a port opens. */
SCENARIO(reach_rare_dials)
{
    cluster_of(sim, "oouuou");
    scenario_run_ms(sim, 120000);
    uint64_t before = p[2]->dials;
    scenario_run_ms(sim, 130000);
    MUST(sim, p[2]->dials > before && p[2]->dials - before <= 2 * 3); /* to two others, each at most once in 64 s */
    p[2]->process.wall = SIM_WHOLE;
    WAIT(sim, 70000, sim_peer_link(p[3], &p[2]->id) != NULL && sim_peer_link(p[2], &p[3]->id) != NULL);
    works(sim, p, 6, 1);
}

/* The state that only a peer behind a firewall has reaches another such peer through the others. */
SCENARIO(reach_state)
{
    cluster_of(sim, "oouu");
    sim->state_by_hand = false;
    for (uint32_t i = 0; i < 4; i++) {
        scenario_hold(p[i], i == 2 ? 77 : i, 0);
        scenario_sync(sim, p[i], i == 2 ? PCCL_SEND_ONLY : PCCL_RECEIVE_ONLY);
    }
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 5000, scenario_is_over(p[i], PCCL_CALL_SYNC));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK && p[i]->state.content == 77);
    }
    MUST(sim, sim->totals.fetches == 3 && sim->totals.fetches_failed == 0);
}

/* ---- anything ---- */

static void break_links(struct sim *sim, struct sim_peer *peer)
{
    if (peer->control != NULL && !is_open(peer))
        sim_conn_reset(sim, peer->control);
    for (uint32_t i = 0; i < peer->link_count; i++)
        if (peer->links[i].conn != NULL)
            sim_conn_reset(sim, peer->links[i].conn);
}

/* Returns the number of other members to which this peer can have a link. */
static uint32_t count_linkable(struct sim *sim, struct sim_peer **living, uint32_t count, const struct sim_peer *peer)
{
    uint32_t linkable = 0;
    for (uint32_t i = 0; i < count; i++)
        linkable += living[i] != peer && !are_apart(sim, peer, living[i]);
    return linkable;
}

/* Some peers are alone behind a firewall, some in one network with others; some lie about links that do not work. */
SCENARIO(reach_matrix)
{
    struct sim_peer *living[MEMBERS_MAX];
    uint32_t next = 2;
    scenario_cluster(sim, p, 2, 1);
    for (uint64_t turn = 0; turn < 24; turn++) {
        uint32_t count = survivors(sim, living);
        uint64_t event = sim_random(sim, 8);
        struct sim_peer *one = living[sim_random(sim, count)];
        if ((event < 4 || count < 3) && next < MEMBERS_MAX) {
            enum sim_cut wall = !sim_chance(sim, 50) ? SIM_WHOLE : sim_chance(sim, 50) ? SIM_DROP : SIM_REFUSE;
            p[next] = join_at(sim, 1 + next, wall, (uint32_t)sim_random(sim, 3));
            scenario_run_ms(sim, 2000);
            next++;
        } else if (event == 4 && count > 2) {
            sim_peer_kill(sim, one, false);
        } else if (event == 5) {
            scenario_restart_master(sim, 100);
        } else if (event == 6 && count > 2) {
            struct sim_peer *other = living[sim_random(sim, count)];
            struct pccl_msg lost = {.type = PCCL_MSG_link_lost,
                                    .as.link_lost = {.peer = other->id, .how = PCCL_LINK_TIMEOUT}};
            struct pccl_msg up = {.type = PCCL_MSG_link_up, .as.link_up = {.peer = other->id}};
            scenario_forge(sim, one, sim_chance(sim, 50) ? &lost : &up);
        } else {
            break_links(sim, one);
        }
        scenario_run_ms(sim, sim->plan.master.silence_ms + 15000);
        count = survivors(sim, living);
        scenario_update_all(sim, living, count);
        scenario_run_ms(sim, 8000);
        count = survivors(sim, living);
        MUST(sim, count > 0);
        works(sim, living, count, 1 + 1000 * turn);
        for (uint32_t i = 0; i < count && count > 2; i++)
            MUST(sim, count_linkable(sim, living, count, living[i]) >= 2);
    }
}
