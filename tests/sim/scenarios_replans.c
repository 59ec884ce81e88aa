/*
 * Views that only re-plan (PROTOCOL 5.4): whatever is under way begins again along the other ring, and ends as it would
 * have without them. When the master makes one is in scenarios_slow_links.c.
 */
#include "scenario.h"

enum { COUNT = 4, BULK = 1, TINY = 2, ELEMENTS = 100000 };

static struct sim_peer *p[COUNT]; /* peers of the running scenario */
static struct pccl_peer_op *x[COUNT], *y[COUNT];

static void begin(struct sim *sim)
{
    scenario_cluster(sim, p, COUNT, 1);
    sim->bulk_by_hand = true;
    scenario_run_ms(sim, 50); /* all know the view, and the master knows that */
}

static void launch(struct sim *sim, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        x[i] = scenario_bulk(sim, p[i], BULK, 1);
        y[i] = scenario_tiny(sim, p[i], TINY, 1);
    }
    scenario_run_ms(sim, 20);
}

static void replan(struct sim *sim)
{
    uint64_t before = sim->totals.replans;
    sim_master_replan(sim);
    MUST(sim, sim->totals.replans == before + 1);
}

static bool has_begun(const struct sim *sim, uint32_t i)
{
    return pccl_epoch_equal(&x[i]->start_view, &sim->master->machine->groups[0]->view);
}

static void finish_all(struct sim *sim)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        WAIT(sim, 1000, sim_bulk_is_moving(sim, p[i], x[i]));
        sim_bulk_finish(sim, p[i], x[i]);
    }
}

static void must_end(struct sim *sim, struct pccl_peer_op **ops, enum pccl_class class)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        WAIT(sim, 3000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == class);
    }
}

static void must_go_on(struct sim *sim)
{
    sim->bulk_by_hand = false;
    scenario_commit_all(sim, p, COUNT, BULK, 2);
    scenario_commit_all(sim, p, COUNT, TINY, 2);
    MUST(sim, scenario_departures(sim) == 0);
}

/*
 * Some are done with it, one is not, and one launches it later; of an operation through the master it has all parts but
 * one. This happens twice.
 */
SCENARIO(replan_goes_on)
{
    begin(sim);
    launch(sim, 0, COUNT - 1);
    sim_bulk_finish(sim, p[0], x[0]);
    sim_bulk_finish(sim, p[1], x[1]);
    scenario_run_ms(sim, 20);
    replan(sim);
    scenario_run_ms(sim, 100);
    MUST(sim, has_begun(sim, 0) && !x[0]->complete);
    replan(sim);
    launch(sim, COUNT - 1, COUNT);
    must_end(sim, y, PCCL_CLASS_NONE);
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
    must_go_on(sim);
}

/* One receives it late. Its messages about the view before do not count, although they complete the parts. */
SCENARIO(replan_heard_late)
{
    begin(sim);
    launch(sim, 0, COUNT);
    for (uint32_t i = 1; i < COUNT; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    replan(sim);
    sim_bulk_finish(sim, p[0], x[0]);
    scenario_run_ms(sim, 100);
    for (uint32_t i = 1; i < COUNT; i++)
        MUST(sim, has_begun(sim, i));
    MUST(sim, x[0]->complete && !has_begun(sim, 0));
    scenario_control(sim, p[0], true);
    WAIT(sim, 1000, has_begun(sim, 0));
    scenario_run_ms(sim, 100);
    for (uint32_t i = 0; i < COUNT; i++)
        MUST(sim, !scenario_is_decided(x[i]) && x[i]->restarts == 1 && y[i]->restarts == 0);
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
    must_end(sim, y, PCCL_CLASS_NONE);
    must_go_on(sim);
}

/* A link has failed it, and the master learns that after its new plan: it starts again like the others. */
SCENARIO(replan_after_failure)
{
    begin(sim);
    launch(sim, 0, COUNT);
    scenario_control(sim, p[0], false);
    sim_bulk_break(sim, p[0], x[0], PCCL_CLASS_PEER_LOST);
    replan(sim);
    scenario_control(sim, p[0], true);
    WAIT(sim, 1000, has_begun(sim, 0));
    scenario_run_ms(sim, 1000);
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
    must_end(sim, y, PCCL_CLASS_NONE);
    must_go_on(sim);
}

/* ... but an operation that its caller has ended, or failed for itself, ends with that class. */
SCENARIO(replan_after_abort)
{
    begin(sim);
    launch(sim, 0, COUNT);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    sim_bulk_break(sim, p[0], x[0], PCCL_CLASS_INTERNAL);
    replan(sim);
    scenario_control(sim, p[0], true);
    must_end(sim, x, PCCL_CLASS_INTERNAL);
    must_end(sim, y, PCCL_CLASS_NONE);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = scenario_bulk(sim, p[i], BULK, 2);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_abort(sim, p[1], x[1], PCCL_CLASS_ABORTED);
    replan(sim);
    scenario_control(sim, p[1], true);
    must_end(sim, x, PCCL_CLASS_ABORTED);
    must_go_on(sim);
}

/*
 * While an abort is held, or a member does not know the last view, or is in a call that ends the era, there is no
 * re-plan.
 */
SCENARIO(replan_has_to_wait)
{
    begin(sim);
    launch(sim, 0, COUNT);
    scenario_control(sim, p[0], false);
    replan(sim);
    scenario_run_ms(sim, 50);
    sim_master_replan(sim);
    MUST(sim, sim->totals.replans == 1);
    scenario_control(sim, p[0], true);
    scenario_run_ms(sim, 100);
    sim_bulk_break(sim, p[0], x[0], PCCL_CLASS_PEER_LOST);
    scenario_run_ms(sim, 20);
    MUST(sim, sim->master->machine->groups[0]->held_count == 1);
    sim_master_replan(sim);
    MUST(sim, sim->totals.replans == 1);
    must_end(sim, x, PCCL_CLASS_PEER_LOST);
    must_end(sim, y, PCCL_CLASS_NONE);
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 20);
    sim_master_replan(sim);
    MUST(sim, sim->totals.replans == 1);
    for (uint32_t i = 1; i < COUNT; i++)
        scenario_update(sim, p[i]);
    WAIT(sim, 1000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    scenario_run_ms(sim, 100);
    replan(sim);
    must_go_on(sim);
}

/* A member dies right after it, before all have received it: one failure for all, of one class. */
SCENARIO(replan_and_death)
{
    begin(sim);
    launch(sim, 0, COUNT);
    scenario_control(sim, p[0], false);
    replan(sim);
    sim_peer_kill(sim, p[COUNT - 1], false);
    WAIT(sim, 2000, sim->master->machine->member_count == COUNT - 1);
    scenario_run_ms(sim, 100);
    scenario_control(sim, p[0], true);
    for (uint32_t i = 0; i < COUNT - 1; i++) {
        WAIT(sim, 1000, scenario_is_decided(x[i]));
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_PEER_LOST);
        MUST(sim, scenario_take(sim, p[i], y[i]) == PCCL_CLASS_NONE);
    }
    sim->bulk_by_hand = false;
    scenario_commit_all(sim, p, COUNT - 1, BULK, 2);
}

/*
 * The master crashes right after it: if all of them are in that view their operation continues, otherwise it ends for
 * all.
 */
SCENARIO(replan_and_restart)
{
    begin(sim);
    launch(sim, 0, COUNT);
    replan(sim);
    scenario_run_ms(sim, 50);
    for (uint32_t i = 0; i < COUNT; i++)
        MUST(sim, has_begun(sim, i));
    scenario_restart_master(sim, 100);
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
    must_end(sim, y, PCCL_CLASS_NONE);
    for (uint32_t i = 0; i < COUNT; i++)
        x[i] = scenario_bulk(sim, p[i], BULK, 2);
    scenario_run_ms(sim, 50);
    sim_bulk_finish(sim, p[0], x[0]);
    scenario_control(sim, p[0], false);
    replan(sim);
    scenario_run_ms(sim, 20);
    scenario_restart_master(sim, 100);
    scenario_control(sim, p[0], true);
    must_end(sim, x, PCCL_CLASS_PEER_LOST);
    must_go_on(sim);
}

/*
 * Before it dies the master removes a silent member, which no member learns; the next one only re-plans their view, so
 * earlier launches continue.
 */
SCENARIO(replan_and_unheard_view)
{
    begin(sim);
    launch(sim, 0, COUNT);
    scenario_control(sim, p[0], false);
    sim_conn_reset(sim, p[0]->control);
    scenario_run_ms(sim, 500);
    for (uint32_t i = 1; i < COUNT; i++)
        scenario_control(sim, p[i], false);
    WAIT(sim, 3000, sim->master->machine->member_count == COUNT - 1);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < COUNT; i++)
        scenario_control(sim, p[i], true);
    sim_master_start(sim);
    WAIT(sim, 5000, !sim->master->machine->recovering && sim->master->machine->member_count == COUNT);
    scenario_run_ms(sim, 100);
    replan(sim);
    scenario_run_ms(sim, 50);
    for (uint32_t i = 0; i < COUNT; i++)
        MUST(sim, has_begun(sim, i));
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
    must_end(sim, y, PCCL_CLASS_NONE);
    sim->bulk_by_hand = false;
    scenario_commit_all(sim, p, COUNT, BULK, 2);
}

/* The first use of an automatic codec, which some launch before it and others behind it: all at the same level. */
SCENARIO(replan_and_choice)
{
    begin(sim);
    struct sim_request request = {.tag = BULK, .step = 1, .count = ELEMENTS, .reduction = PCCL_SUM, .budget_ms = 100};
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i == 2) {
            for (uint32_t k = 0; k < COUNT; k++)
                for (uint32_t other = 0; other < COUNT; other++)
                    if (k != other)
                        sim_peer_measured(sim, p[k], &p[other]->id, 1000, 1000000); /* now that is known */
            scenario_run_ms(sim, 50);
            replan(sim);
            scenario_run_ms(sim, 50);
        }
        MUST(sim, sim_app_launch(sim, p[i], &request, &x[i]) == PCCL_OK);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        MUST(sim, x[i]->choice.level == x[0]->choice.level);
    finish_all(sim);
    must_end(sim, x, PCCL_CLASS_NONE);
}
