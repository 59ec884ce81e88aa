/* The optimisation of the topology, directed: what ring comes of it, and what if somebody dies, stalls, stops or lies
 * in any of its phases. */
#include "scenarios.h"

#include <string.h>

enum { MANY = PCCL_MESH_PEERS_MAX + 2, RATE = 100000000, SLOW = 1000000 };
static struct sim_peer *p[MANY]; /* of the scenario under way */

/* ---- rings and ways ---- */

static void slow_pair(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    sim_way_set(sim, a, b, SLOW);
    sim_way_set(sim, b, a, SLOW);
}

static struct sim_peer *next_of(struct sim *sim, const struct sim_peer *peer)
{
    uint32_t count, i = 0;
    const struct pccl_id *ring = pccl_peer_ring(peer->machine, &count);
    while (!pccl_id_equal(&ring[i], &peer->id))
        i++;
    return sim_peer_find(sim, &ring[(i + 1) % count]);
}

static bool uses(struct sim *sim, const struct sim_peer *from, const struct sim_peer *to)
{
    return next_of(sim, from) == to;
}

static bool uses_pair(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    return uses(sim, a, b) || uses(sim, b, a);
}

/* All have the same ring, of so many. */
static void must_agree(struct sim *sim, uint32_t count)
{
    uint32_t first_count, other_count;
    const struct pccl_id *first = pccl_peer_ring(p[0]->machine, &first_count);
    MUST(sim, first_count == count);
    for (uint32_t i = 1; i < count; i++) {
        const struct pccl_id *other = pccl_peer_ring(p[i]->machine, &other_count);
        MUST(sim, other_count == count && memcmp(first, other, count * sizeof *first) == 0);
        MUST(sim, pccl_peer_joint(p[i]->machine) == pccl_peer_joint(p[0]->machine));
    }
}

static struct sim_peer *at(struct sim *sim, uint32_t place)
{
    uint32_t count;
    const struct pccl_id *ring = pccl_peer_ring(p[0]->machine, &count);
    return sim_peer_find(sim, &ring[place]);
}

/* p as the ring goes. */
static void sort(struct sim *sim, uint32_t count)
{
    struct sim_peer *sorted[MANY];
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = at(sim, i);
    memcpy(p, sorted, count * sizeof *sorted);
}

static void begin(struct sim *sim, uint32_t count)
{
    scenario_cluster(sim, p, count, 1);
    sort(sim, count);
}

/* The ring of p0 p1 p2 p3 has two slow pairs; p0 p2 p1 p3 has none. */
static void begin_four(struct sim *sim)
{
    begin(sim, 4);
    slow_pair(sim, p[0], p[1]);
    slow_pair(sim, p[2], p[3]);
}

static void must_be_best(struct sim *sim)
{
    must_agree(sim, 4);
    MUST(sim, !uses_pair(sim, p[0], p[1]) && !uses_pair(sim, p[2], p[3]));
    MUST(sim, pccl_peer_cost(p[0]->machine).rate == RATE);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

static const struct pccl_group *group_of(const struct sim *sim) { return sim->master->machine->groups[0]; }

static uint32_t tests_running(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->master->machine->remote_count; i++)
        count += sim->master->machine->remotes[i]->test.running;
    return count;
}

static bool are_linking(const struct sim *sim) { return group_of(sim)->tuning.phase == PCCL_TUNING_LINKS; }

static void vote_all(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_optimize(sim, p[i]);
}

static void vote_and_test(struct sim *sim, uint32_t count)
{
    vote_all(sim, count);
    WAIT(sim, 100, tests_running(sim) > 0);
}

static void vote_and_search(struct sim *sim, uint32_t count)
{
    sim->searches_by_hand = true;
    vote_all(sim, count);
    WAIT(sim, 9000, sim_search_is_open(sim));
}

/* Their data connections break, and they cannot dial each other. */
static void part(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    sim_net_cut(sim, a->process.host, b->process.host, SIM_DATA, SIM_REFUSE);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->plane == SIM_DATA && !conn->broken && conn->ends[0].open && conn->ends[1].open &&
            ((conn->ends[0].process == &a->process && conn->ends[1].process == &b->process) ||
             (conn->ends[0].process == &b->process && conn->ends[1].process == &a->process)))
            sim_conn_reset(sim, conn);
}

/* ---- what ring ---- */

void scenario_topology_slow_pairs(struct sim *sim)
{
    begin_four(sim);
    uint64_t joint = pccl_peer_joint(p[0]->machine);
    scenario_commit_all(sim, p, 4, 1, 1);
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    MUST(sim, pccl_peer_joint(p[0]->machine) == joint + 1 && sim->totals.adoptions == 1);
    must_be_best(sim);
    uint64_t tests = sim->totals.tests;
    scenario_optimize_all(sim, p, 4, PCCL_OK); /* everything is known: at once, and nothing changes */
    MUST(sim, sim->totals.tests == tests && sim->totals.adoptions == 1);
    must_be_best(sim);
}

/* No test gets through between a pair: avoided, though their link stands. */
void scenario_topology_unreachable_pair(struct sim *sim)
{
    begin_four(sim);
    sim_way_set(sim, p[0], p[1], 0);
    sim_way_set(sim, p[1], p[0], 0);
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* Nobody gets through to a member, but the links of its ring stand: it stays. */
void scenario_topology_unreachable_member(struct sim *sim)
{
    begin_four(sim);
    for (uint32_t i = 0; i < 3; i++) {
        sim_way_set(sim, p[i], p[3], 0);
        sim_way_set(sim, p[3], p[i], 0);
    }
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A way that is slow one way only: the ring goes the other way round. */
void scenario_topology_one_way(struct sim *sim)
{
    begin(sim, 3);
    const struct sim_peer *next = next_of(sim, p[0]);
    sim_way_set(sim, p[0], next, SLOW);
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    must_agree(sim, 3);
    MUST(sim, !uses(sim, p[0], next) && uses(sim, next, p[0]));
}

/* The links of the ring found cannot be opened, and n = 3: the call fails for all alike, in words; the ring stays. */
void scenario_topology_no_ring(struct sim *sim)
{
    begin(sim, 3);
    sim->tests_by_hand = sim->searches_by_hand = true;
    vote_all(sim, 3);
    struct sim_peer *a = p[0], *b = p[1];
    for (uint32_t k = 0; k < 2; k++) {
        WAIT(sim, 100, p[0]->test.running && p[1]->test.running && p[2]->test.running);
        b = sim_peer_find(sim, &a->test.peer);
        if (k == 1)
            part(sim, a, b); /* under the last tests */
        scenario_run_ms(sim, k == 1 ? 15 : 0);
        for (uint32_t i = 0; i < 3; i++)
            sim_test_finish(sim, p[i]);
    }
    WAIT(sim, 50, sim_search_is_open(sim));
    sim_search_finish(sim, false);
    scenario_optimized(sim, p, 3, PCCL_NO_RING);
    MUST(sim, strstr(pccl_peer_last_words(p[2]->machine)->bytes, "no ring") != NULL);
    sim_net_cut(sim, a->process.host, b->process.host, SIM_DATA, SIM_WHOLE);
    scenario_run_ms(sim, 500);
    must_agree(sim, 3);
    scenario_commit_all(sim, p, 3, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* No search can be made: failed for all, and the next one works. */
void scenario_topology_no_search(struct sim *sim)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    sim_search_finish(sim, true);
    scenario_optimized(sim, p, 4, PCCL_NO_RING);
    must_agree(sim, 4);
    MUST(sim, uses(sim, p[0], p[1]) && pccl_peer_last_words(p[3]->machine)->length > 0);
    sim->searches_by_hand = false;
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* One, two and three: nothing to choose, but the ways of two are measured. */
void scenario_topology_few(struct sim *sim)
{
    begin(sim, 1);
    uint64_t joint = pccl_peer_joint(p[0]->machine);
    scenario_optimize_all(sim, p, 1, PCCL_OK);
    MUST(sim, sim->totals.tests == 0 && pccl_peer_joint(p[0]->machine) == joint + 1);
    p[1] = scenario_join(sim, 2, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 1000, scenario_is_over(p[1], PCCL_CALL_CONNECT));
    scenario_optimize_all(sim, p, 2, PCCL_OK);
    MUST(sim, sim->totals.tests == 2 && sim->totals.searches == 0);
    MUST(sim, pccl_peer_cost(p[1]->machine).rate == RATE && pccl_peer_cost(p[1]->machine).rtt_us == 1000);
    p[2] = scenario_join(sim, 3, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, scenario_is_over(p[2], PCCL_CALL_CONNECT));
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    MUST(sim, sim->totals.tests == 6 && sim->totals.searches == 1 && sim->totals.adoptions == 0);
    must_agree(sim, 3);
}

/* ---- a ring over links that do not stand yet ---- */

static void report_rate(struct sim *sim, struct sim_peer *from, uint64_t rate)
{
    pccl_peer_link_measured(from->machine, sim->now, &next_of(sim, from)->id, 1000, rate);
}

static void begin_many(struct sim *sim)
{
    scenario_cluster(sim, p, PCCL_MESH_PEERS_MAX, 1);
    for (uint32_t i = PCCL_MESH_PEERS_MAX; i < MANY; i++) {
        p[i] = scenario_join(sim, 1 + i, 0);
        scenario_run_ms(sim, 200);
        scenario_update_all(sim, p, i);
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_CONNECT));
    }
    scenario_run_ms(sim, 100);
    for (uint32_t i = 0; i < 3; i++)
        scenario_optimize_all(sim, p, MANY, PCCL_OK); /* one does not get through all pairs */
    scenario_run_ms(sim, 100);
    MUST(sim, !sim_search_is_open(sim));
    sort(sim, MANY);
    sim->totals.adoptions = 0;
    sim_way_set(sim, p[1], p[2], SLOW);
    for (uint32_t i = 0; i < MANY; i++)
        report_rate(sim, p[i], i == 1 ? SLOW : RATE);
}

/* Who is at `place` comes behind p1: ... 0 1 place 2 3 ... */
static void answer_behind_1(struct sim *sim, uint32_t place)
{
    uint32_t ring[MANY], count = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i != place)
            ring[count++] = i;
        if (i == 1)
            ring[count++] = place;
    }
    sim_search_answer(sim, ring, true);
}

void scenario_topology_links_first(struct sim *sim)
{
    begin_many(sim);
    struct sim_peer *a = p[1], *b = p[2], *c = p[3];
    MUST(sim, sim_peer_link(a, &c->id) == NULL);
    struct pccl_epoch view = a->machine->view;
    vote_and_search(sim, MANY);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim) && pccl_epoch_equal(&view, &group_of(sim)->view));
    WAIT(sim, 100, !pccl_epoch_equal(&view, &a->machine->view));
    MUST(sim, sim_peer_link(a, &c->id) != NULL);
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    MUST(sim, uses(sim, a, c) && uses(sim, c, b));
    scenario_run_ms(sim, 100);
    MUST(sim, sim_peer_link(a, &b->id) == NULL); /* nobody needs it any more */
    scenario_commit_all(sim, p, MANY, 1, 1);
}

/* One of them cannot be opened: that way is none, and another ring is searched for. */
void scenario_topology_link_fails(struct sim *sim)
{
    begin_many(sim);
    struct sim_peer *a = p[1], *b = p[2], *c = p[3], *d = p[4];
    vote_and_search(sim, MANY);
    sim_net_cut(sim, a->process.host, c->process.host, SIM_DATA, SIM_REFUSE);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim) && !sim_search_is_open(sim));
    WAIT(sim, 1000, sim_search_is_open(sim)); /* again */
    const struct pccl_master *m = sim->master->machine;
    const struct pccl_figure *figure = pccl_master_figure(pccl_master_find(m, &a->id), pccl_master_find(m, &c->id));
    MUST(sim, figure->source == PCCL_FIGURE_UNREACHABLE);
    answer_behind_1(sim, 4);
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    MUST(sim, uses(sim, a, d) && uses(sim, d, b) && uses(sim, b, c));
    scenario_commit_all(sim, p, MANY, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* They all fail, again and again: the ring stays as it was. */
void scenario_topology_links_fail(struct sim *sim)
{
    begin_many(sim);
    struct pccl_epoch view = p[0]->machine->view;
    vote_and_search(sim, MANY);
    for (uint32_t place = 3; place <= 5; place++) {
        MUST(sim, sim_search_is_open(sim));
        sim_net_cut(sim, p[1]->process.host, p[place]->process.host, SIM_DATA, SIM_REFUSE);
        answer_behind_1(sim, place);
        WAIT(sim, 1000, !are_linking(sim));
    }
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    MUST(sim, sim->totals.adoptions == 0 && pccl_epoch_compare(&p[0]->machine->view, &view) >= 0);
    scenario_commit_all(sim, p, MANY, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* ---- somebody dies ---- */

static void must_end_without(struct sim *sim, uint32_t left)
{
    sim->searches_by_hand = false;
    if (sim_search_is_open(sim))
        sim_search_finish(sim, false);
    scenario_optimized(sim, p, left, PCCL_OK);
    must_agree(sim, left);
    scenario_commit_all(sim, p, left, 1, 1);
}

void scenario_topology_kill_votes(struct sim *sim)
{
    begin_four(sim);
    vote_all(sim, 3);
    scenario_run_ms(sim, 100);
    MUST(sim, !sim->master->machine->optimizing);
    sim_peer_kill(sim, p[3], false);
    must_end_without(sim, 3);
    MUST(sim, scenario_departures(sim) == 1);
}

void scenario_topology_kill_tests(struct sim *sim)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    sim_peer_kill(sim, p[3], false);
    must_end_without(sim, 3);
    MUST(sim, scenario_departures(sim) == 1);
}

/* Of three that test by hand: p0 loads the way to p2, and p1 the way to p0. */
static void test_in_a_triangle(struct sim *sim)
{
    begin(sim, 3);
    sim->tests_by_hand = true;
    vote_all(sim, 3);
    WAIT(sim, 100, p[0]->test.running && p[1]->test.running && p[2]->test.running);
    struct sim_peer *loaded = sim_peer_find(sim, &p[0]->test.peer), *third = p[1] == loaded ? p[2] : p[1];
    p[1] = third;
    p[2] = loaded;
}

static void kill_loaded_peer(struct sim *sim, uint64_t patience_ms)
{
    sim_test_finish(sim, p[1]);
    sim->tests_by_hand = false;
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, patience_ms, scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    must_end_without(sim, 2);
    MUST(sim, scenario_departures(sim) == 1);
}

/* One has reported on its way to another one, which dies. */
void scenario_topology_kill_partner(struct sim *sim)
{
    test_in_a_triangle(sim);
    sim_test_finish(sim, p[0]);
    scenario_run_ms(sim, 10);
    kill_loaded_peer(sim, 5000);
}

/* Who loads the way to one that dies is free at once, whatever becomes of its own report. */
void scenario_topology_kill_loaded(struct sim *sim)
{
    test_in_a_triangle(sim);
    kill_loaded_peer(sim, 2500);
}

void scenario_topology_kill_two(struct sim *sim)
{
    begin(sim, 6);
    vote_and_test(sim, 6);
    sim_peer_kill(sim, p[5], false);
    sim_peer_kill(sim, p[4], true); /* with its host */
    must_end_without(sim, 4);
    MUST(sim, scenario_departures(sim) == 2);
}

/* The ring that was found is of another membership. */
void scenario_topology_kill_search(struct sim *sim)
{
    begin(sim, 5);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 5);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 300, p[0]->machine->ring_count == 4);
    must_end_without(sim, 4);
    MUST(sim, !uses_pair(sim, p[0], p[1]) && scenario_departures(sim) == 1);
}

/* ... and it is answered all the same, in the very step in which the death is noticed. */
void scenario_topology_kill_answer(struct sim *sim)
{
    const uint32_t ring[] = {4, 0, 2, 1, 3};
    begin(sim, 5);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 5);
    sim_peer_kill(sim, p[4], false);
    scenario_run_ms(sim, 1);
    sim_search_answer(sim, ring, true);
    scenario_optimized(sim, p, 4, PCCL_OK);
    WAIT(sim, 300, p[0]->machine->ring_count == 4 && p[3]->machine->ring_count == 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 1);
}

void scenario_topology_kill_links(struct sim *sim)
{
    begin_many(sim);
    vote_and_search(sim, MANY);
    sim_net_cut(sim, p[1]->process.host, p[3]->process.host, SIM_DATA, SIM_DROP);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim));
    sim_peer_kill(sim, p[MANY - 1], false);
    WAIT(sim, 500, p[0]->machine->ring_count == MANY - 1);
    must_end_without(sim, MANY - 1);
    MUST(sim, scenario_departures(sim) == 1);
}

/* ---- somebody stops, or is cut off ---- */

/* For less than the silence limit: it costs the ways of that member only. */
void scenario_topology_stopped(struct sim *sim)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    sim_process_stop(sim, &p[2]->process, sim->now + 1400 * SIM_MS);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    MUST(sim, !uses_pair(sim, p[0], p[1]) || sim->totals.tests_failed > 0);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* For longer: silence removes it, as always, and the call ends for the others. */
void scenario_topology_stopped_long(struct sim *sim)
{
    begin(sim, 4);
    vote_and_test(sim, 4);
    sim_process_stop(sim, &p[3]->process, sim->now + 60 * SIM_S);
    scenario_run_ms(sim, 1500);
    MUST(sim, scenario_departures(sim) == 0);
    must_end_without(sim, 3);
    MUST(sim, scenario_departures(sim) == 1);
}

/* No test ever ends: the call does. */
void scenario_topology_stalled(struct sim *sim)
{
    begin_four(sim);
    sim->tests_by_hand = true;
    vote_and_test(sim, 4);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    MUST(sim, sim->totals.tests == 0 && scenario_departures(sim) == 0);
    sim->tests_by_hand = false;
    scenario_optimize_all(sim, p, 4, PCCL_OK); /* nobody is left alone for ever */
    must_be_best(sim);
}

/* A member hears and says nothing for a while, and two do not see each other. */
void scenario_topology_partition(struct sim *sim)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_control(sim, p[1], false);
    sim_net_cut(sim, p[0]->process.host, p[2]->process.host, SIM_DATA, SIM_DROP);
    scenario_run_ms(sim, 1200);
    scenario_control(sim, p[1], true);
    scenario_run_ms(sim, 300);
    sim_net_cut(sim, p[0]->process.host, p[2]->process.host, SIM_DATA, SIM_WHOLE);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* ---- the master crashes ---- */

void scenario_topology_restart_votes(struct sim *sim)
{
    begin_four(sim);
    vote_all(sim, 3);
    scenario_run_ms(sim, 100);
    scenario_restart_master(sim, 100);
    scenario_run_ms(sim, 500);
    scenario_optimize(sim, p[3]);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* Tests of the master before say nothing to the next one. */
void scenario_topology_restart_tests(struct sim *sim)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

void scenario_topology_restart_search(struct sim *sim)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    scenario_restart_master(sim, 20);
    sim->searches_by_hand = false;
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

void scenario_topology_restart_links(struct sim *sim)
{
    begin_many(sim);
    vote_and_search(sim, MANY);
    sim_net_cut(sim, p[1]->process.host, p[3]->process.host, SIM_DATA, SIM_DROP);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim));
    scenario_restart_master(sim, 20);
    sim->searches_by_hand = false;
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    scenario_commit_all(sim, p, MANY, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* All hear of the new ring, and one of the end of the round. */
void scenario_topology_restart_epoch(struct sim *sim)
{
    begin_four(sim);
    for (uint32_t i = 1; i < 4; i++)
        scenario_deaf_after(sim, p[i], PCCL_MSG_epoch_change);
    vote_all(sim, 4);
    WAIT(sim, 9000, scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[1], PCCL_CALL_OPTIMIZE));
    MUST(sim, pccl_epoch_equal(&p[1]->machine->view, &p[0]->machine->view));
    uint64_t tests = sim->totals.tests;
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_OK);
    MUST(sim, sim->totals.tests == tests); /* the round is over */
    must_be_best(sim);
}

/* ... and nobody: it is held again. */
void scenario_topology_restart_round(struct sim *sim)
{
    begin_four(sim);
    struct pccl_epoch view = p[0]->machine->view;
    for (uint32_t i = 0; i < 4; i++)
        scenario_deaf_after(sim, p[i], PCCL_MSG_epoch_change);
    vote_all(sim, 4);
    WAIT(sim, 9000, !pccl_epoch_equal(&view, &p[0]->machine->view));
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* It has failed, as one has heard: for the others too, and for the same reason. */
void scenario_topology_restart_failed(struct sim *sim)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    for (uint32_t i = 1; i < 4; i++)
        sim_conn_blackhole(sim, p[i]->control, 1);
    sim_search_finish(sim, true);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    struct pccl_text words = *pccl_peer_last_words(p[0]->machine);
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[1], PCCL_CALL_OPTIMIZE));
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_NO_RING);
    MUST(sim, words.length > 0 && strcmp(words.bytes, pccl_peer_last_words(p[3]->machine)->bytes) == 0);
    must_agree(sim, 4);
}

/* ---- giving up; and other calls ---- */

void scenario_topology_withdraw(struct sim *sim)
{
    begin_four(sim);
    vote_all(sim, 3);
    scenario_run_ms(sim, 100);
    scenario_withdraw(sim, p[0], PCCL_CALL_OPTIMIZE);
    scenario_optimized(sim, p, 1, PCCL_ABORTED);
    scenario_optimize(sim, p[3]);
    scenario_run_ms(sim, 300);
    MUST(sim, !sim->master->machine->optimizing && !scenario_is_over(p[3], PCCL_CALL_OPTIMIZE));
    scenario_optimize(sim, p[0]);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* When the tests have begun the call ends as for all. */
void scenario_topology_withdraw_late(struct sim *sim)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_withdraw(sim, p[1], PCCL_CALL_OPTIMIZE);
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[1], PCCL_CALL_OPTIMIZE));
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* One optimizes and the other updates: it is said that they never meet. */
void scenario_topology_stuck(struct sim *sim)
{
    begin(sim, 2);
    scenario_optimize(sim, p[0]);
    scenario_update(sim, p[1]);
    MUST(sim, pccl_peer_update(p[0]->machine, sim->now) == PCCL_USAGE);
    MUST(sim, pccl_peer_optimize(p[0]->machine, sim->now) == PCCL_USAGE);
    WAIT(sim, 5000, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "cannot meet") != NULL);
    MUST(sim, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "update topology") != NULL);
    WAIT(sim, 5000, strstr(pccl_peer_waiting(p[1]->machine)->bytes, "optimize topology") != NULL);
    scenario_withdraw(sim, p[1], PCCL_CALL_UPDATE);
    WAIT(sim, 100, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_optimize(sim, p[1]);
    scenario_optimized(sim, p, 2, PCCL_OK);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* Nothing may be under way. */
void scenario_topology_quiet(struct sim *sim)
{
    begin(sim, 2);
    struct pccl_op *op = scenario_tiny(sim, p[0], 1, 1), *other = NULL;
    MUST(sim, pccl_peer_optimize(p[0]->machine, sim->now) == PCCL_PENDING_OPS);
    (void)scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 100, scenario_is_decided(op));
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_NONE);
    scenario_optimize(sim, p[0]);
    struct sim_request request = {.tag = 2, .tiny = true, .count = 1};
    MUST(sim, sim_app_launch(sim, p[0], &request, &other) == PCCL_USAGE);
}

/* Two groups, and no search can be made for one of them: each ends in its own way, at the same time. */
void scenario_topology_groups(struct sim *sim)
{
    scenario_cluster(sim, p, 6, 2);
    sim->searches_by_hand = true;
    vote_all(sim, 6);
    const struct pccl_master *m = sim->master->machine;
    WAIT(sim, 9000,
         m->groups[0]->tuning.phase == PCCL_TUNING_SEARCH && m->groups[1]->tuning.phase == PCCL_TUNING_SEARCH);
    sim_search_finish(sim, true);
    MUST(sim, m->optimizing);
    sim_search_finish(sim, false);
    uint32_t failed_group = UINT32_MAX;
    for (uint32_t i = 0; i < 6; i++) {
        WAIT(sim, 100, scenario_is_over(p[i], PCCL_CALL_OPTIMIZE));
        bool failed = p[i]->app.call_status[PCCL_CALL_OPTIMIZE] == PCCL_NO_RING;
        failed_group = failed ? p[i]->group : failed_group;
        MUST(sim, failed || p[i]->app.call_status[PCCL_CALL_OPTIMIZE] == PCCL_OK);
    }
    MUST(sim, failed_group != UINT32_MAX);
    for (uint32_t i = 0; i < 6; i++)
        MUST(sim, (p[i]->app.call_status[PCCL_CALL_OPTIMIZE] == PCCL_NO_RING) == (p[i]->group == failed_group));
    for (uint32_t g = 0; g < 2; g++) {
        struct sim_peer *members[] = {p[g], p[g + 2], p[g + 4]};
        scenario_commit_all(sim, members, 3, 1, 1);
    }
}

/* ---- in the background, and by updates ---- */

/* A ring that is not proven is searched for on; what is found is adopted at the next update. */
void scenario_topology_background(struct sim *sim)
{
    const uint32_t same[] = {0, 1, 2, 3}, better[] = {0, 2, 1, 3};
    begin_four(sim);
    vote_and_search(sim, 4);
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, 4, PCCL_OK);
    MUST(sim, sim_search_is_open(sim) && uses(sim, p[0], p[1]));
    struct pccl_epoch view = p[0]->machine->view;
    scenario_update_all(sim, p, 4); /* nobody waits for it */
    sim_search_answer(sim, better, true);
    scenario_run_ms(sim, 200);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && uses(sim, p[0], p[1]));
    scenario_update_all(sim, p, 4);
    must_be_best(sim);
    MUST(sim, !sim_search_is_open(sim));
}

/* ... unless somebody has died since. */
void scenario_topology_background_void(struct sim *sim)
{
    const uint32_t same[] = {0, 1, 2, 3, 4, 5}, better[] = {0, 2, 1, 3, 4, 5};
    begin(sim, 6);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 6);
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, 6, PCCL_OK);
    sim_search_answer(sim, better, false); /* before; after an update it is searched for on */
    sim_peer_kill(sim, p[5], false);
    WAIT(sim, 300, p[0]->machine->ring_count == 5);
    scenario_update_all(sim, p, 5);
    must_agree(sim, 5);
    MUST(sim, uses(sim, p[0], p[1]) && uses(sim, p[1], p[2]));
    scenario_optimize(sim, p[0]);
    for (uint32_t i = 1; i < 5; i++)
        scenario_optimize(sim, p[i]);
    WAIT(sim, 9000, sim_search_is_open(sim));
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, 5, PCCL_OK);
    MUST(sim, sim_search_is_open(sim));
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 300, p[0]->machine->ring_count == 4);
    sim_search_answer(sim, better, true); /* behind */
    scenario_update_all(sim, p, 4);
    must_agree(sim, 4);
    MUST(sim, uses(sim, p[0], p[1]) && uses(sim, p[1], p[2]));
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 2);
}

/* Data that flowed over a link of the ring show a tenth of what its test did: an update leaves it. */
void scenario_topology_traffic(struct sim *sim)
{
    begin(sim, 4);
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    struct sim_peer *next = next_of(sim, p[1]);
    for (uint32_t i = 0; i < 4; i++)
        report_rate(sim, p[i], i == 1 ? RATE / 10 : RATE);
    scenario_run_ms(sim, 20);
    MUST(sim, uses(sim, p[1], next));
    scenario_update_all(sim, p, 4);
    must_agree(sim, 4);
    MUST(sim, !uses(sim, p[1], next) && sim->totals.adoptions == 1);
    scenario_commit_all(sim, p, 4, 1, 1);
}

/* With so many that the links of the new ring do not stand yet: the update waits for them. */
void scenario_topology_traffic_many(struct sim *sim)
{
    begin_many(sim);
    scenario_run_ms(sim, 20);
    MUST(sim, uses(sim, p[1], p[2]));
    scenario_update_all(sim, p, MANY);
    must_agree(sim, MANY);
    MUST(sim, !uses(sim, p[1], p[2]) && sim->totals.adoptions == 1);
    scenario_commit_all(sim, p, MANY, 1, 1);
}

/* A test tells the master of better times, and then the link degrades again. */
void scenario_topology_traffic_again(struct sim *sim)
{
    begin(sim, 2);
    scenario_optimize_all(sim, p, 2, PCCL_OK);
    MUST(sim, pccl_peer_cost(p[1]->machine).rate == RATE);
    for (uint32_t i = 0; i < 2; i++) {
        report_rate(sim, p[0], RATE / 10);
        scenario_run_ms(sim, 20);
        scenario_update_all(sim, p, 2);
        MUST(sim, pccl_peer_cost(p[1]->machine).rate == RATE / 10);
        scenario_optimize_all(sim, p, 2, PCCL_OK); /* in doubt, so it is tested */
        MUST(sim, pccl_peer_cost(p[1]->machine).rate == RATE);
    }
}

/* Figures that jump about while an update waits: one search, and it is over. */
void scenario_topology_jumping(struct sim *sim)
{
    begin(sim, 4);
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    sim->searches_by_hand = true;
    report_rate(sim, p[1], RATE / 10);
    for (uint32_t i = 0; i < 4; i++)
        scenario_update(sim, p[i]);
    WAIT(sim, 100, sim_search_is_open(sim));
    report_rate(sim, p[1], RATE);
    scenario_run_ms(sim, 20);
    sim_search_finish(sim, false);
    for (uint32_t i = 0; i < 4; i++)
        WAIT(sim, 500, scenario_is_over(p[i], PCCL_CALL_UPDATE));
    must_agree(sim, 4);
    scenario_commit_all(sim, p, 4, 1, 1);
}

/*
 * The background finds a ring whose links do not stand before the next view, which drops them: they are asked for
 * again, and an update adopts it.
 */
void scenario_topology_background_many(struct sim *sim)
{
    uint32_t same[MANY];
    for (uint32_t i = 0; i < MANY; i++)
        same[i] = i;
    begin_many(sim);
    vote_and_search(sim, MANY);
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, MANY, PCCL_OK);
    WAIT(sim, 100, sim_search_is_open(sim));
    sim_net_cut(sim, p[1]->process.host, p[3]->process.host, SIM_DATA, SIM_DROP);
    answer_behind_1(sim, 3);
    scenario_run_ms(sim, 100);
    pccl_peer_link_measured(p[7]->machine, sim->now, &next_of(sim, p[7])->id, 5000, RATE);
    scenario_run_ms(sim, 20);
    struct pccl_epoch view = p[0]->machine->view;
    scenario_update_all(sim, p, MANY);
    must_agree(sim, MANY);
    MUST(sim, uses(sim, p[1], p[2]) && pccl_epoch_compare(&p[0]->machine->view, &view) > 0);
    sim_net_cut(sim, p[1]->process.host, p[3]->process.host, SIM_DATA, SIM_WHOLE);
    WAIT(sim, 9000, sim_peer_link(p[1], &p[3]->id) != NULL);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, MANY);
    must_agree(sim, MANY);
    MUST(sim, uses(sim, p[1], p[3]) && uses(sim, p[3], p[2]));
    scenario_commit_all(sim, p, MANY, 1, 1);
}

/* A member dies while an update waits for a search. */
void scenario_topology_update_waits(struct sim *sim)
{
    begin(sim, 5);
    scenario_optimize_all(sim, p, 5, PCCL_OK);
    sim->searches_by_hand = true;
    for (uint32_t i = 0; i < 5; i++)
        report_rate(sim, p[i], i == 1 ? RATE / 10 : RATE);
    for (uint32_t i = 0; i < 5; i++)
        scenario_update(sim, p[i]);
    WAIT(sim, 100, sim_search_is_open(sim));
    scenario_run_ms(sim, 100);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_UPDATE));
    sim_peer_kill(sim, p[4], false);
    for (uint32_t i = 0; i < 4; i++)
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_UPDATE));
    must_agree(sim, 4);
    sim_search_finish(sim, false); /* for nothing */
    scenario_commit_all(sim, p, 4, 1, 1);
}

/* ---- questions, and lies ---- */

static void describe(struct sim *sim, struct sim_peer *peer)
{
    peer->app.describing = true;
    MUST(sim, pccl_peer_describe(peer->machine, sim->now) == PCCL_OK);
    MUST(sim, pccl_peer_describe(peer->machine, sim->now) == PCCL_USAGE);
}

void scenario_topology_describe(struct sim *sim)
{
    begin_four(sim);
    describe(sim, p[0]); /* nothing is known yet */
    WAIT(sim, 100, p[0]->app.pictures == 1);
    vote_and_test(sim, 4);
    describe(sim, p[1]);
    WAIT(sim, 100, p[1]->app.pictures == 1);
    scenario_optimized(sim, p, 4, PCCL_OK);
    describe(sim, p[2]);
    sim_master_crash(sim, true);
    scenario_run_ms(sim, 100);
    describe(sim, p[3]);
    sim_master_start(sim);
    WAIT(sim, 3000, p[2]->app.pictures == 1 && p[3]->app.pictures == 1);
    describe(sim, p[0]);
    sim_app_leave(sim, p[0]);
    MUST(sim, p[0]->app.unpictured == 1);
    MUST(sim, pccl_peer_describe(p[0]->machine, sim->now) == PCCL_USAGE);
}

static void say(struct sim *sim, struct sim_peer *peer, const struct pccl_msg *msg)
{
    pccl_peer_send(peer->machine, msg);
    sim_process_arm(sim, &peer->process);
}

/* Results of tests that nobody asked for, or that are too good to be true, do no harm. */
void scenario_topology_liar(struct sim *sim)
{
    begin_four(sim);
    struct pccl_msg lie = {.type = PCCL_MSG_measured, .as.measured = {.test = 1, .rate = UINT64_MAX, .rtt_us = 1}};
    say(sim, p[1], &lie);
    scenario_run_ms(sim, 50);
    vote_and_test(sim, 4);
    lie.as.measured.test = sim->master->machine->last_test + 1;
    say(sim, p[1], &lie);
    sim_way_set(sim, p[0], p[1], UINT64_MAX - 1);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    MUST(sim, !uses_pair(sim, p[2], p[3]));
    lie.as.measured.test = sim->master->machine->last_test;
    say(sim, p[1], &lie);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A vote for a synchronization without a state. */
void scenario_topology_false_vote(struct sim *sim)
{
    begin(sim, 4);
    sim->liar = p[3];
    struct pccl_msg vote = {.type = PCCL_MSG_vote, .as.vote = {.kind = PCCL_ROUND_SYNC}};
    say(sim, p[3], &vote);
    WAIT(sim, 500, p[0]->machine->ring_count == 3);
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    scenario_commit_all(sim, p, 3, 1, 1);
    MUST(sim, scenario_departures(sim) == 1 && !pccl_peer_is_connected(p[3]->machine));
}
