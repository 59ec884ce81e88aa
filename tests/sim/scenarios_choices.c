/*
 * Scenarios of automatic codecs: the level that is sent, its receivers, and the peers that forget it (PROTOCOL 7.12).
 */
#include "scenario.h"

enum { TAG = 1, BUDGET_MS = 100, SLOW_MS = 300, FAST_MS = 20 };

static struct sim_peer *p[8]; /* peers of the running scenario */
static struct pccl_peer_op *x[8];
static uint8_t percent; /* of the time between uses; 0: BUDGET_MS */

static void begin(struct sim *sim, uint32_t count, uint8_t share)
{
    percent = share;
    scenario_cluster(sim, p, count, 1);
}

static struct pccl_peer_op *launch(struct sim *sim, struct sim_peer *peer, uint64_t step)
{
    struct sim_request request = {
        .tag = TAG, .step = step, .count = 100000, .reduction = PCCL_SUM, .budget_percent = percent};
    if (percent == 0)
        request.budget_ms = BUDGET_MS;
    struct pccl_peer_op *op = NULL;
    enum pccl_status status = sim_app_launch(sim, peer, &request, &op);
    if (status != PCCL_OK)
        sim_fail(sim, "p%u may not launch: %s", peer->process.number, pccl_status_name(status));
    return op;
}

static void launch_all(struct sim *sim, uint32_t count, uint64_t step)
{
    scenario_run_ms(sim, 20); /* all have the same state */
    for (uint32_t i = 0; i < count; i++)
        x[i] = launch(sim, p[i], step);
}

static void take_all_as(struct sim *sim, uint32_t count, enum pccl_class class)
{
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_decided(x[i]));
        MUST(sim, scenario_take(sim, p[i], x[i]) == class);
    }
}

static void take_all(struct sim *sim, uint32_t count) { take_all_as(sim, count, PCCL_CLASS_NONE); }

/*
 * All use the tag; each use takes `took_ms`. Returns the level; check_level checks that it is the same for all
 * (bulk.c).
 */
static enum pccl_level use(struct sim *sim, uint32_t count, uint64_t step, uint64_t took_ms)
{
    launch_all(sim, count, step);
    const enum pccl_level level = (enum pccl_level)x[0]->choice.level;
    scenario_run_ms(sim, took_ms);
    for (uint32_t i = 0; i < count; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    take_all(sim, count);
    return level;
}

/*
 * The level falls at once and as far as needed, and rises after two uses; an abort, an era and a death change nothing;
 * with a newcomer all start over.
 */
SCENARIO(choice_follows)
{
    begin(sim, 3, 0);
    MUST(sim, use(sim, 3, 1, SLOW_MS) == PCCL_LEVEL_EXACT);
    MUST(sim, use(sim, 3, 2, FAST_MS) == PCCL_LEVEL_8);
    launch_all(sim, 3, 3);
    MUST(sim, x[0]->choice.level == PCCL_LEVEL_8 && x[0]->choice.fits == 1);
    scenario_abort(sim, p[1], x[1], PCCL_CLASS_ABORTED);
    take_all_as(sim, 3, PCCL_CLASS_ABORTED);
    scenario_update_all(sim, p, 3);
    MUST(sim, use(sim, 3, 4, FAST_MS) == PCCL_LEVEL_8);
    MUST(sim, use(sim, 3, 5, SLOW_MS) == PCCL_LEVEL_EXACT);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, use(sim, 2, 6, SLOW_MS) == PCCL_LEVEL_8);
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    MUST(sim, use(sim, 3, 7, FAST_MS) == PCCL_LEVEL_EXACT);
}

/* Waiting for the others does not count: the last one to launch reports the duration of the transfer. */
SCENARIO(choice_waits)
{
    begin(sim, 3, 0);
    scenario_run_ms(sim, 20);
    for (uint32_t i = 0; i < 3; i++) {
        x[i] = launch(sim, p[i], 1);
        scenario_run_ms(sim, i < 2 ? SLOW_MS : FAST_MS);
    }
    for (uint32_t i = 0; i < 3; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    take_all(sim, 3);
    MUST(sim, use(sim, 3, 2, FAST_MS) == PCCL_LEVEL_EXACT);
}

/* Only A has received the next level; then the master restarts. The view stays, and so does A's level. */
SCENARIO(choice_restart)
{
    begin(sim, 3, 0);
    launch_all(sim, 3, 1);
    scenario_run_ms(sim, SLOW_MS);
    scenario_commit_at_first(sim, p, x);
    const struct pccl_epoch view = p[0]->machine->view;
    scenario_control(sim, p[0], false);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < 3; i++)
        scenario_control(sim, p[i], true);
    sim_master_start(sim);
    WAIT(sim, 5000, scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    take_all(sim, 3);
    MUST(sim, pccl_epoch_equal(&p[0]->machine->view, &view));
    MUST(sim, use(sim, 3, 2, FAST_MS) == PCCL_LEVEL_8);
}

static void replan(struct sim *sim, uint32_t replans)
{
    sim_master_replan(sim);
    MUST(sim, sim->totals.replans == replans);
    scenario_run_ms(sim, 50);
}

static void restart(struct sim *sim)
{
    scenario_restart_master(sim, 100);
    WAIT(sim, 5000, !sim->master->machine->recovering && sim->master->machine->member_count == 3);
    scenario_run_ms(sim, 100);
}

static void finish_at(struct sim *sim, enum pccl_level level)
{
    for (uint32_t i = 0; i < 3; i++) {
        MUST(sim, x[i]->choice.level == level);
        WAIT(sim, 1000, sim_bulk_is_moving(sim, p[i], x[i]));
        sim_bulk_finish(sim, p[i], x[i]);
    }
    take_all(sim, 3);
}

/*
 * The first view of a restarted master only re-plans. The level stays: the operation under way ends with it, and is
 * reported with it to the next master. Of the next use one member launches before a re-plan, and the others after it.
 */
SCENARIO(choice_replan)
{
    begin(sim, 3, 0);
    MUST(sim, use(sim, 3, 1, SLOW_MS) == PCCL_LEVEL_EXACT);
    launch_all(sim, 3, 2);
    restart(sim);
    replan(sim, 1);
    finish_at(sim, PCCL_LEVEL_8);
    restart(sim);
    scenario_run_ms(sim, 20);
    for (uint32_t i = 0; i < 3; i++) {
        x[i] = launch(sim, p[i], 3);
        if (i == 0)
            replan(sim, 2);
    }
    finish_at(sim, PCCL_LEVEL_8);
}

/* The two are done after that time, while the master restarts; the next one receives it, and commits. */
static void done_unheard(struct sim *sim, uint32_t after_ms)
{
    for (uint32_t i = 0; i < 2; i++)
        scenario_control(sim, p[i], false);
    scenario_run_ms(sim, after_ms);
    for (uint32_t i = 0; i < 2; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < 2; i++)
        scenario_control(sim, p[i], true);
    sim_master_start(sim);
    WAIT(sim, 5000, scenario_is_decided(x[0]) && scenario_is_decided(x[1]));
    take_all(sim, 2);
}

/* All have finished, and the master that would have decided is gone: the next one commits, and keeps the level. */
SCENARIO(choice_undecided)
{
    begin(sim, 2, 0);
    MUST(sim, use(sim, 2, 1, SLOW_MS) == PCCL_LEVEL_EXACT);
    launch_all(sim, 2, 2);
    done_unheard(sim, SLOW_MS);
    MUST(sim, use(sim, 2, 3, FAST_MS) == PCCL_LEVEL_8);
    MUST(sim, use(sim, 2, 4, FAST_MS) == PCCL_LEVEL_8); /* the duration of the use before this one is unknown */
}

/*
 * N joins and leaves while A receives nothing, and the master restarts: A has the old members, and the others have
 * forgotten their figures.
 */
SCENARIO(choice_missed_views)
{
    begin(sim, 3, 0);
    MUST(sim, use(sim, 3, 1, SLOW_MS) == PCCL_LEVEL_EXACT);
    p[3] = scenario_join(sim, 7, 0);
    scenario_run_ms(sim, 100);
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    scenario_update(sim, p[1]);
    scenario_update(sim, p[2]);
    WAIT(sim, 500, scenario_is_over(p[1], PCCL_CALL_UPDATE) && scenario_is_over(p[2], PCCL_CALL_UPDATE));
    MUST(sim, p[1]->machine->group.count == 4);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 1000, p[1]->machine->group.count == 3 && p[2]->machine->group.count == 3);
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    WAIT(sim, 8000, scenario_is_over(p[0], PCCL_CALL_UPDATE) && !sim->master->machine->recovering);
    scenario_run_ms(sim, 50);
    MUST(sim, p[0]->machine->group.count == 3 && p[0]->machine->choices.count == 0);
    MUST(sim, use(sim, 3, 2, FAST_MS) == PCCL_LEVEL_EXACT);
}

/*
 * A peer that reports a duration of zero is believed, and can only make all send more bits than there is time for.
 * Exaggerated reports count for nothing.
 */
SCENARIO(choice_liar)
{
    begin(sim, 3, 0);
    for (uint64_t step = 1; step <= 2; step++) {
        launch_all(sim, 3, step);
        MUST(sim, x[0]->choice.level == PCCL_LEVEL_EXACT);
        scenario_run_ms(sim, SLOW_MS);
        x[2]->begun_us = step == 1 ? sim->now : 0;
        for (uint32_t i = 0; i < 3; i++)
            sim_bulk_finish(sim, p[i], x[i]);
        take_all(sim, 3);
    }
    MUST(sim, use(sim, 3, 3, FAST_MS) == PCCL_LEVEL_8);
}

/* ---- a share of the time between uses ---- */

enum { SHARE = 20, GAP_MS = 600, GENTLE_MS = 90, PAUSE_MS = 20000 };

/* All use the tag at this interval after its last use. */
static enum pccl_level use_after(struct sim *sim, uint32_t count, uint64_t step, uint64_t gap_ms, uint64_t took_ms)
{
    scenario_run_ms(sim, gap_ms);
    return use(sim, count, step, took_ms);
}

/* Two uses are exact, since the interval between two is not known yet; the third has 8 bits. */
static void settle(struct sim *sim, uint32_t count, uint64_t step)
{
    MUST(sim, use_after(sim, count, step, GAP_MS, SLOW_MS) == PCCL_LEVEL_EXACT);
    MUST(sim, use_after(sim, count, step + 1, GAP_MS, SLOW_MS) == PCCL_LEVEL_EXACT);
    MUST(sim, use_after(sim, count, step + 2, GAP_MS, GENTLE_MS) == PCCL_LEVEL_8);
}

/* A pause, a death, and the time between an abort and the next attempt change nothing. Then there is more time. */
SCENARIO(choice_share)
{
    begin(sim, 3, SHARE);
    settle(sim, 3, 1);
    MUST(sim, use_after(sim, 3, 4, PAUSE_MS, GENTLE_MS) == PCCL_LEVEL_8);
    for (uint64_t step = 5; step <= 9; step += 2) {
        scenario_run_ms(sim, GAP_MS);
        launch_all(sim, 3, step);
        MUST(sim, x[0]->choice.level == PCCL_LEVEL_8 && x[0]->choice.fits == 0);
        scenario_abort(sim, p[1], x[1], PCCL_CLASS_ABORTED);
        take_all_as(sim, 3, PCCL_CLASS_ABORTED);
        MUST(sim, use_after(sim, 3, step + 1, PAUSE_MS, GENTLE_MS) == PCCL_LEVEL_8);
    }
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, use_after(sim, 2, 11, GAP_MS, GENTLE_MS) == PCCL_LEVEL_8);
    for (uint64_t step = 12; step <= 13; step++)
        MUST(sim, use_after(sim, 2, step, 10 * GAP_MS, GENTLE_MS) == PCCL_LEVEL_8);
    MUST(sim, use_after(sim, 2, 14, 10 * GAP_MS, GENTLE_MS) == PCCL_LEVEL_EXACT);
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    settle(sim, 3, 15);
}

/*
 * A restarted master commits an operation that all have finished. Its duration is unknown; the interval between uses is
 * known.
 */
SCENARIO(choice_share_restart)
{
    begin(sim, 2, SHARE);
    settle(sim, 2, 1);
    scenario_run_ms(sim, GAP_MS);
    launch_all(sim, 2, 4);
    done_unheard(sim, PAUSE_MS / 10);
    MUST(sim, use_after(sim, 2, 5, GAP_MS, GENTLE_MS) == PCCL_LEVEL_8);
    MUST(sim, x[0]->choice.took_us == 0 && x[0]->choice.gap_1_us > GAP_MS * SIM_MS);
    MUST(sim, use_after(sim, 2, 6, GAP_MS, GENTLE_MS) == PCCL_LEVEL_8);
    MUST(sim, x[0]->choice.took_us > 0);
}

static void lie(struct pccl_choice *said, uint32_t gap_us)
{
    said->gap_us = said->gap_1_us = said->gap_2_us = said->gap_3_us = gap_us;
}

/*
 * A peer that reports no interval between uses is not believed, whether it reports first or last. One that reports a
 * long interval can only make all send more bits than there is time for.
 */
SCENARIO(choice_share_liar)
{
    begin(sim, 3, SHARE);
    for (uint64_t step = 1; step <= 8; step++) {
        scenario_run_ms(sim, GAP_MS);
        launch_all(sim, 3, step);
        MUST(sim, x[0]->choice.level == PCCL_LEVEL_EXACT);
        const bool says_little = step <= 6;
        lie(&x[step % 3]->choice, says_little ? 1 : UINT32_MAX);
        scenario_run_ms(sim, says_little ? GENTLE_MS : SLOW_MS);
        for (uint32_t i = 0; i < 3; i++) {
            sim_bulk_finish(sim, p[i], x[i]);
            scenario_run_ms(sim, 1); /* reports arrive in this order */
        }
        take_all(sim, 3);
    }
    MUST(sim, use(sim, 3, 9, FAST_MS) == PCCL_LEVEL_EXACT);
}
