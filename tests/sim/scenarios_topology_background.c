/*
 * Scenarios of the topology without a call for its optimization: rings found in the background, and
 * updates that drop links.
 */
#include "scenario_topology.h"

/* ---- in the background ---- */

/* The search for a ring that is not proven continues; its result is adopted at the next update. */
SCENARIO(topology_background)
{
    const uint32_t same[] = {0, 1, 2, 3}, better[] = {0, 2, 1, 3};
    begin_four(sim);
    vote_and_search(sim, 4);
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, 4, PCCL_OK);
    MUST(sim, sim_search_is_open(sim) && uses(sim, p[0], p[1]));
    struct pccl_epoch view = p[0]->machine->view;
    scenario_update_all(sim, p, 4); /* the update does not wait for it */
    sim_search_answer(sim, better, true);
    scenario_run_ms(sim, 200);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && uses(sim, p[0], p[1]));
    scenario_update_all(sim, p, 4);
    must_be_best(sim);
    MUST(sim, !sim_search_is_open(sim));
}

/* ... unless a member has died since. */
SCENARIO(topology_background_void)
{
    const uint32_t same[] = {0, 1, 2, 3, 4, 5}, better[] = {0, 2, 1, 3, 4, 5};
    begin(sim, 6);
    slow_pair(sim, p[0], p[1]);
    vote_and_search(sim, 6);
    sim_search_answer(sim, same, false);
    scenario_optimized(sim, p, 6, PCCL_OK);
    sim_search_answer(sim, better, false); /* before; after an update it is searched for on */
    sim_peer_kill(sim, p[5], false);
    WAIT(sim, 300, p[0]->machine->group.count == 5);
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
    WAIT(sim, 300, p[0]->machine->group.count == 4);
    sim_search_answer(sim, better, true); /* behind */
    scenario_update_all(sim, p, 4);
    must_agree(sim, 4);
    MUST(sim, uses(sim, p[0], p[1]) && uses(sim, p[1], p[2]));
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 2);
}

/*
 * The background search finds a ring whose links are not up before the next view, which drops them: they are requested
 * again, and an update adopts it.
 */
SCENARIO(topology_background_many)
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
    sim_peer_measured(sim, p[7], &next_of(sim, p[7])->id, 5000, RATE);
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

/* ---- by updates ---- */

/* Traffic over a link of the ring shows a tenth of its tested rate: an update leaves it. */
SCENARIO(topology_traffic)
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

/* In a group so large that the links of the new ring are not up yet: the update waits for them. */
SCENARIO(topology_traffic_many)
{
    begin_many(sim);
    scenario_run_ms(sim, 20);
    MUST(sim, uses(sim, p[1], p[2]));
    scenario_update_all(sim, p, MANY);
    must_agree(sim, MANY);
    MUST(sim, !uses(sim, p[1], p[2]) && sim->totals.adoptions == 1);
    scenario_commit_all(sim, p, MANY, 1, 1);
}

/* A test reports better figures to the master, and then the link degrades again. */
SCENARIO(topology_traffic_again)
{
    begin(sim, 2);
    scenario_optimize_all(sim, p, 2, PCCL_OK);
    MUST(sim, p[1]->machine->group.cost.rate == RATE);
    for (uint32_t i = 0; i < 2; i++) {
        report_rate(sim, p[0], RATE / 10);
        scenario_run_ms(sim, 20);
        scenario_update_all(sim, p, 2);
        MUST(sim, p[1]->machine->group.cost.rate == RATE / 10);
        scenario_optimize_all(sim, p, 2, PCCL_OK); /* in doubt, so it is tested */
        MUST(sim, p[1]->machine->group.cost.rate == RATE);
    }
}

/* Figures that jump about while an update waits: one search, and it ends. */
SCENARIO(topology_jumping)
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

/* A member dies while an update waits for a search. */
SCENARIO(topology_update_waits)
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
