/*
 * Scenarios of the topology's optimization under faults: in each of its phases a member dies, stalls, stops or lies, or
 * the master crashes.
 */
#include "scenario_topology.h"

#include <string.h>

/* ---- a member dies ---- */

static void must_end_without(struct sim *sim, uint32_t left)
{
    sim->searches_by_hand = false;
    if (sim_search_is_open(sim))
        sim_search_finish(sim, false);
    scenario_optimized(sim, p, left, PCCL_OK);
    must_agree(sim, left);
    scenario_commit_all(sim, p, left, 1, 1);
}

/* A member dies before its vote. */
SCENARIO(topology_kill_votes)
{
    begin_four(sim);
    vote_all(sim, 3);
    scenario_run_ms(sim, 100);
    MUST(sim, !sim->master->machine->optimizing);
    sim_peer_kill(sim, p[3], false);
    must_end_without(sim, 3);
    MUST(sim, scenario_departures(sim) == 1);
}

/* A member dies in its tests. */
SCENARIO(topology_kill_tests)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    sim_peer_kill(sim, p[3], false);
    must_end_without(sim, 3);
    MUST(sim, scenario_departures(sim) == 1);
}

/* Starts three that test by hand: p0 loads the path to p2, and p1 the path to p0. */
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

/* One has reported on its path to another one, which dies. */
SCENARIO(topology_kill_partner)
{
    test_in_a_triangle(sim);
    sim_test_finish(sim, p[0]);
    scenario_run_ms(sim, 10);
    kill_loaded_peer(sim, 5000);
}

/* A member that loads the path to a dying one is free at once, regardless of its report. */
SCENARIO(topology_kill_loaded)
{
    test_in_a_triangle(sim);
    kill_loaded_peer(sim, 2500);
}

/* Two members die at once in their tests. */
SCENARIO(topology_kill_two)
{
    begin(sim, 6);
    vote_and_test(sim, 6);
    sim_peer_kill(sim, p[5], false);
    sim_peer_kill(sim, p[4], true); /* with its host */
    must_end_without(sim, 4);
    MUST(sim, scenario_departures(sim) == 2);
}

/* The ring that was found is of another membership. */
SCENARIO(topology_kill_search)
{
    begin(sim, 5);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 5);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 300, p[0]->machine->group.count == 4);
    must_end_without(sim, 4);
    MUST(sim, !uses_pair(sim, p[0], p[1]) && scenario_departures(sim) == 1);
}

/* ... and it is answered all the same, in the very step in which the death is noticed. */
SCENARIO(topology_kill_answer)
{
    const uint32_t ring[] = {4, 0, 2, 1, 3};
    begin(sim, 5);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 5);
    sim_peer_kill(sim, p[4], false);
    scenario_run_ms(sim, 1);
    sim_search_answer(sim, ring, true);
    scenario_optimized(sim, p, 4, PCCL_OK);
    WAIT(sim, 300, p[0]->machine->group.count == 4 && p[3]->machine->group.count == 4);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 1);
}

/* A ring is found that waits for a link which cannot be opened. */
static void begin_linking(struct sim *sim)
{
    begin_many(sim);
    vote_and_search(sim, MANY);
    sim_net_cut(sim, p[1]->process.host, p[3]->process.host, SIM_DATA, SIM_DROP);
    answer_behind_1(sim, 3);
    MUST(sim, are_linking(sim));
}

/* A member dies while the ring waits for its links. */
SCENARIO(topology_kill_links)
{
    begin_linking(sim);
    sim_peer_kill(sim, p[MANY - 1], false);
    WAIT(sim, 500, p[0]->machine->group.count == MANY - 1);
    must_end_without(sim, MANY - 1);
    MUST(sim, scenario_departures(sim) == 1);
}

/* ---- a member stops, or is cut off ---- */

/* For less than the silence limit: it costs the paths of that member only. */
SCENARIO(topology_stopped)
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
SCENARIO(topology_stopped_long)
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
SCENARIO(topology_stalled)
{
    begin_four(sim);
    sim->tests_by_hand = true;
    vote_and_test(sim, 4);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    MUST(sim, sim->totals.tests == 0 && scenario_departures(sim) == 0);
    sim->tests_by_hand = false;
    scenario_optimize_all(sim, p, 4, PCCL_OK); /* no member is avoided forever */
    must_be_best(sim);
}

/* A member receives and sends nothing for a while, and two do not reach each other. */
SCENARIO(topology_partition)
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

/* The master restarts before all have voted. */
SCENARIO(topology_restart_votes)
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

/* Repeatedly: a tested path is not tested again, and a test under way continues. */
SCENARIO(topology_restart_often)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    for (uint32_t i = 0; i < 10; i++) {
        scenario_run_ms(sim, 250);
        scenario_restart_master(sim, 20);
        WAIT(sim, 4000, sim->master->machine->optimizing || scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    }
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
    MUST(sim, sim->totals.tests_begun <= 12 + 4); /* at first it is unknown that the first master's tests continue */
}

/* Tests of the last master mean nothing to the next one, unless it requests the same. */
SCENARIO(topology_restart_tests)
{
    begin_four(sim);
    vote_and_test(sim, 4);
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

static bool has_told_a_rate(const struct sim_peer *peer)
{
    for (uint32_t i = 0; i < peer->machine->link_count; i++)
        if (peer->machine->links[i].rate != 0)
            return true;
    return false;
}

/* ... nor are results from before its request taken as an answer. */
SCENARIO(topology_restart_stale)
{
    begin_four(sim);
    sim->tests_by_hand = true;
    vote_and_test(sim, 4);
    WAIT(sim, 100, p[0]->test.running);
    scenario_restart_master(sim, 20);
    WAIT(sim, 10000, p[0]->machine->resuming);
    WAIT(sim, 10000, !p[0]->machine->resuming);
    sim_test_finish(sim, p[0]);
    MUST(sim, !has_told_a_rate(p[0]));
    sim->tests_by_hand = false;
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
}

/* The master restarts during the search. */
SCENARIO(topology_restart_search)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    uint64_t tests = sim->totals.tests_begun;
    scenario_restart_master(sim, 20);
    sim->searches_by_hand = false;
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_be_best(sim);
    MUST(sim, sim->totals.tests_begun == tests);
}

/* The master restarts while the ring waits for its links. */
SCENARIO(topology_restart_links)
{
    begin_linking(sim);
    scenario_restart_master(sim, 20);
    sim->searches_by_hand = false;
    scenario_optimized(sim, p, MANY, PCCL_OK);
    must_agree(sim, MANY);
    scenario_commit_all(sim, p, MANY, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* All receive the new ring, and one the end of the round. */
SCENARIO(topology_restart_epoch)
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
    MUST(sim, sim->totals.tests == tests); /* the round has ended */
    must_be_best(sim);
}

/* ... and no member: it is held again. */
SCENARIO(topology_restart_round)
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

/* It has failed, as one has learned: for the others, too, and for the same reason. */
SCENARIO(topology_restart_failed)
{
    begin_four(sim);
    vote_and_search(sim, 4);
    for (uint32_t i = 1; i < 4; i++)
        sim_conn_blackhole(sim, p[i]->control, 1);
    sim_search_finish(sim, true);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_OPTIMIZE));
    struct pccl_text reason = *pccl_peer_last_reason(p[0]->machine);
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_over(p[1], PCCL_CALL_OPTIMIZE));
    scenario_restart_master(sim, 20);
    scenario_optimized(sim, p, 4, PCCL_NO_RING);
    MUST(sim, reason.length > 0 && strcmp(reason.bytes, pccl_peer_last_reason(p[3]->machine)->bytes) == 0);
    must_agree(sim, 4);
}

/* ---- lies ---- */

/* Results of unrequested tests, or results that are too good to be true, do no harm. */
SCENARIO(topology_liar)
{
    begin_four(sim);
    struct pccl_msg lie = {.type = PCCL_MSG_measured, .as.measured = {.test = 1, .rate = UINT64_MAX, .rtt_us = 1}};
    scenario_forge(sim, p[1], &lie);
    scenario_run_ms(sim, 50);
    vote_and_test(sim, 4);
    lie.as.measured.test = sim->master->machine->last_test + 1;
    scenario_forge(sim, p[1], &lie);
    sim_path_set(sim, p[0], p[1], UINT64_MAX - 1);
    scenario_optimized(sim, p, 4, PCCL_OK);
    must_agree(sim, 4);
    MUST(sim, !uses_pair(sim, p[2], p[3]));
    lie.as.measured.test = sim->master->machine->last_test;
    scenario_forge(sim, p[1], &lie);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A vote for a synchronization without a state. */
SCENARIO(topology_false_vote)
{
    begin(sim, 4);
    scenario_lie(sim, p[3]);
    struct pccl_msg vote = {.type = PCCL_MSG_vote, .as.vote = {.kind = PCCL_ROUND_SYNC}};
    scenario_forge(sim, p[3], &vote);
    WAIT(sim, 500, p[0]->machine->group.count == 3);
    scenario_optimize_all(sim, p, 3, PCCL_OK);
    scenario_commit_all(sim, p, 3, 1, 1);
    MUST(sim, scenario_departures(sim) == 1 && !pccl_peer_is_connected(p[3]->machine));
}
