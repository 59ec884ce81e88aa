/*
 * Scenarios of the topology's optimization: the resulting ring, over links that can be opened or not; giving up, other
 * calls during it, and queries.
 */
#include "master/roster.h"
#include "scenario_topology.h"
#include "master/membership.h"
#include "master/topology.h"

#include <string.h>

/* ---- the ring ---- */

/* The ring leaves out two slow pairs of four, and known paths are not tested again. */
SCENARIO(topology_slow_pairs)
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

/* No test gets through between a pair: avoided, though their link is up. */
SCENARIO(topology_unreachable_pair)
{
    begin_four(sim);
    sim_path_set(sim, p[0], p[1], 0);
    sim_path_set(sim, p[1], p[0], 0);
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* No test gets through to a member, but the links of its ring are up: it stays. */
SCENARIO(topology_unreachable_member)
{
    begin_four(sim);
    for (uint32_t i = 0; i < 3; i++) {
        sim_path_set(sim, p[i], p[3], 0);
        sim_path_set(sim, p[3], p[i], 0);
    }
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A path that is slow in one direction only: the ring runs in the other direction. */
SCENARIO(topology_one_way)
{
    begin(sim, 3);
    const struct sim_peer *next = next_of(sim, p[0]);
    sim_path_set(sim, p[0], next, SLOW);
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    must_agree(sim, 3);
    MUST(sim, !uses(sim, p[0], next) && uses(sim, next, p[0]));
}

/*
 * The links of the ring found cannot be opened, and n = 3: the call fails for all in the same way, with a reason; the
 * ring stays.
 */
SCENARIO(topology_no_ring)
{
    begin(sim, 3);
    sim->tests_by_hand = sim->searches_by_hand = true;
    vote_all(sim, 3);
    struct sim_peer *a = p[0], *b = p[1];
    for (uint32_t k = 0; k < 2; k++) {
        WAIT(sim, 100, p[0]->test.running && p[1]->test.running && p[2]->test.running);
        b = sim_peer_find(sim, &a->test.peer);
        if (k == 1)
            scenario_part(sim, a, b, SIM_REFUSE); /* under the last tests */
        scenario_run_ms(sim, k == 1 ? 15 : 0);
        for (uint32_t i = 0; i < 3; i++)
            sim_test_finish(sim, p[i]);
    }
    WAIT(sim, 50, sim_search_is_open(sim));
    sim_search_finish(sim, false);
    scenario_optimized(sim, p, 3, PCCL_NO_RING);
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "no ring") != NULL);
    sim_net_cut(sim, a->process.host, b->process.host, SIM_DATA, SIM_WHOLE);
    scenario_run_ms(sim, 500);
    must_agree(sim, 3);
    scenario_commit_all(sim, p, 3, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* No search can be made: failed for all, and the next one works. */
SCENARIO(topology_no_search)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    sim_search_finish(sim, true);
    scenario_optimized(sim, p, 4, PCCL_NO_RING);
    must_agree(sim, 4);
    MUST(sim, uses(sim, p[0], p[1]) && pccl_peer_last_reason(p[3]->machine)->length > 0);
    sim->searches_by_hand = false;
    scenario_optimize_all(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* One, two and three: nothing to choose, but the paths of two are measured. */
SCENARIO(topology_few)
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
    MUST(sim, p[1]->machine->group.cost.rate == RATE && p[1]->machine->group.cost.rtt_us == 1000);
    p[2] = scenario_join(sim, 3, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, scenario_is_over(p[2], PCCL_CALL_CONNECT));
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    MUST(sim, sim->totals.tests == 6 && sim->totals.searches == 1 && sim->totals.adoptions == 0);
    must_agree(sim, 3);
}

/* ---- a ring over links that do not stand yet ---- */

/* A large group adopts a ring after its links are up. */
SCENARIO(topology_links_first)
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
    MUST(sim, sim_peer_link(a, &b->id) == NULL); /* no longer needed */
    scenario_commit_all(sim, p, MANY, 1, 1);
}

/* One of them cannot be opened: there is no such path, and another ring is searched for. */
SCENARIO(topology_link_fails)
{
    begin_many(sim);
    struct sim_peer *a = p[1], *b = p[2], *c = p[3], *d = p[4];
    vote_and_search(sim, MANY);
    sim_net_cut(sim, a->process.host, c->process.host, SIM_DATA, SIM_REFUSE);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim) && !sim_search_is_open(sim));
    WAIT(sim, 1000, sim_search_is_open(sim)); /* again */
    const struct pccl_master *m = sim->master->machine;
    const struct pccl_figure *figure =
        pccl_master_find_figure(pccl_master_find(m, &a->id), pccl_master_find(m, &c->id));
    MUST(sim, figure->source == PCCL_FIGURE_UNREACHABLE);
    answer_behind_1(sim, 4);
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    MUST(sim, uses(sim, a, d) && uses(sim, d, b) && uses(sim, b, c));
    scenario_commit_all(sim, p, MANY, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* They all fail, repeatedly: the ring is unchanged. */
SCENARIO(topology_links_fail)
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

/* ---- giving up; and other calls ---- */

/* A vote is withdrawn before the tests begin. */
SCENARIO(topology_withdraw)
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
SCENARIO(topology_withdraw_late)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_withdraw(sim, p[1], PCCL_CALL_OPTIMIZE);
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[1], PCCL_CALL_OPTIMIZE));
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* One optimizes and the other updates: the report says that they never match. */
SCENARIO(topology_stuck)
{
    begin(sim, 2);
    scenario_optimize(sim, p[0]);
    scenario_update(sim, p[1]);
    MUST(sim, sim_peer_call(sim, p[0], PCCL_CALL_UPDATE) == PCCL_USAGE);
    MUST(sim, sim_peer_call(sim, p[0], PCCL_CALL_OPTIMIZE) == PCCL_USAGE);
    WAIT(sim, 5000, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "can never meet") != NULL);
    MUST(sim, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "update topology") != NULL);
    WAIT(sim, 5000, strstr(pccl_peer_waiting(p[1]->machine)->bytes, "optimize topology") != NULL);
    scenario_withdraw(sim, p[1], PCCL_CALL_UPDATE);
    WAIT(sim, 100, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_optimize(sim, p[1]);
    scenario_optimized(sim, p, 2, PCCL_OK);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* Nothing may be under way. */
SCENARIO(topology_quiet)
{
    begin(sim, 2);
    struct pccl_peer_op *op = scenario_tiny(sim, p[0], 1, 1), *other = NULL;
    MUST(sim, sim_peer_call(sim, p[0], PCCL_CALL_OPTIMIZE) == PCCL_PENDING_OPS);
    (void)scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 100, scenario_is_decided(op));
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_NONE);
    scenario_optimize(sim, p[0]);
    struct sim_request request = {.tag = 2, .tiny = true, .count = 1};
    MUST(sim, sim_app_launch(sim, p[0], &request, &other) == PCCL_USAGE);
}

/* Two groups, and no search can be made for one of them: each ends with its own result, at the same time. */
CLUSTER_SCENARIO(topology_groups, 6, 2)
{
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

/* ---- questions ---- */

static enum pccl_status ask(struct sim *sim, struct sim_peer *peer)
{
    return sim_peer_step(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_DESCRIBE});
}

static void describe(struct sim *sim, struct sim_peer *peer)
{
    peer->app.describing = true;
    MUST(sim, ask(sim, peer) == PCCL_OK);
    MUST(sim, ask(sim, peer) == PCCL_USAGE);
}

/* Any member may request the figures of the links at any time. */
SCENARIO(topology_describe)
{
    begin_four(sim);
    describe(sim, p[0]); /* nothing is known yet */
    WAIT(sim, 100, p[0]->app.reports == 1);
    vote_and_test(sim, 4);
    describe(sim, p[1]);
    WAIT(sim, 100, p[1]->app.reports == 1);
    scenario_optimized(sim, p, 4, PCCL_OK);
    describe(sim, p[2]);
    sim_master_crash(sim, true);
    scenario_run_ms(sim, 100);
    describe(sim, p[3]);
    sim_master_start(sim);
    WAIT(sim, 3000, p[2]->app.reports == 1 && p[3]->app.reports == 1);
    describe(sim, p[0]);
    sim_app_leave(sim, p[0]);
    MUST(sim, p[0]->app.unpictured == 1);
    MUST(sim, ask(sim, p[0]) == PCCL_USAGE);
}

/* Each of the first allocations for a report fails in turn: the report is empty, not incomplete. */
SCENARIO(topology_describe_starved)
{
    enum { ALLOCATIONS = 8 }; /* text, problem, report and its links */
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_optimized(sim, p, 4, PCCL_OK);
    scenario_run_ms(sim, 1500); /* the report of the optimization is no longer kept */
    struct sim_memory *memory = &sim->master->process.memory;
    for (uint32_t k = 1; k <= ALLOCATIONS; k++) {
        memory->fail_at = memory->allocations + k;
        describe(sim, p[0]);
        WAIT(sim, 100, p[0]->app.reports == k);
        MUST(sim, memory->allocations >= memory->fail_at);
    }
    memory->fail_at = 0;
    describe(sim, p[0]);
    WAIT(sim, 100, p[0]->app.reports == ALLOCATIONS + 1);
}
