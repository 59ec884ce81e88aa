/* Scenarios of a master that dies and returns. */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/* Three members with a bulk operation. */
static void begin_bulk(struct sim *sim, struct pccl_peer_op **x)
{
    scenario_cluster(sim, p, 3, 1);
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
}

/* F6: all have finished, only A has the commit; B and C return first. A's report counts. */
SCENARIO(f6_all_report)
{
    struct pccl_peer_op *x[3];
    begin_bulk(sim, x);
    scenario_commit_at_first(sim, p, x);
    scenario_control(sim, p[0], false);
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    scenario_run_ms(sim, 1200); /* less than T_recover */
    MUST(sim, sim->master->machine->recovering && !scenario_is_decided(x[1]));
    scenario_control(sim, p[0], true);
    WAIT(sim, 2000, scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_NONE);
    MUST(sim, sim->master->machine->member_count == 3);
}

/* F7: launched at A, not at B; all members are there: it continues. */
CLUSTER_SCENARIO(f7_undecided, 2, 1)
{
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 1, 1), *t = scenario_tiny(sim, p[0], 2, 1);
    scenario_run_ms(sim, 20);
    scenario_restart_master(sim, 200);
    WAIT(sim, 5000, !sim->master->machine->recovering && sim->master->machine->member_count == 2);
    struct pccl_peer_op *b = scenario_bulk(sim, p[1], 1, 1), *u = scenario_tiny(sim, p[1], 2, 1);
    sim_bulk_finish(sim, p[0], a);
    sim_bulk_finish(sim, p[1], b);
    WAIT(sim, 500,
         scenario_is_decided(a) && scenario_is_decided(b) && scenario_is_decided(t) && scenario_is_decided(u));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    MUST(sim, scenario_take(sim, p[0], t) == PCCL_CLASS_NONE && scenario_take(sim, p[1], u) == PCCL_CLASS_NONE);
}

/*
 * F8: the epoch that admits N reaches only A, then the master dies. A's list is law, B's vote is
 * answered, N joins again.
 */
CLUSTER_SCENARIO(f8_epoch_content, 2, 1)
{
    struct sim_peer *n = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, 100);
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_control(sim, n, false);
    scenario_update(sim, p[0]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, p[0]->machine->member_count == 3 && p[1]->machine->member_count == 2);
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, n, true);
    sim_master_start(sim);
    WAIT(sim, 8000, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    MUST(sim, p[1]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK);
    scenario_run_ms(sim, 1000);
    scenario_admit(sim, p, 2, n);
}

/*
 * Only A has received the end of the update, and has launched an operation and aborted it, then the master dies. B
 * receives the update first, so that the outcome, in the new era, applies to B, too.
 */
CLUSTER_SCENARIO(missed_round, 2, 1)
{
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_update(sim, p[0]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 1, 1);
    scenario_abort(sim, p[0], a, PCCL_CLASS_ABORTED);
    WAIT(sim, 500, scenario_is_decided(a));
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    sim_master_start(sim);
    WAIT(sim, 8000, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_run_ms(sim, 100);
    struct pccl_peer_op *b = scenario_bulk(sim, p[1], 1, 1);
    WAIT(sim, 100, scenario_is_decided(b));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_ABORTED);
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_ABORTED);
    scenario_commit_all(sim, p, 2, 1, 2);
}

/*
 * A receives the epoch of a recovery, B and C do not. The next master recovers the run with these: its epoch is another
 * one.
 */
CLUSTER_SCENARIO(two_recoveries, 3, 1)
{
    scenario_control(sim, p[0], false);
    scenario_restart_master(sim, 100);
    scenario_run_ms(sim, 1000); /* less than T_recover */
    MUST(sim, sim->master->machine->recovering);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[2], false);
    scenario_control(sim, p[0], true);
    WAIT(sim, 4000, p[0]->machine->epoch.inc > 1);
    MUST(sim, p[1]->machine->epoch.inc == 1 && p[2]->machine->epoch.inc == 1);
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], false);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    WAIT(sim, 8000, p[1]->machine->member_count == 2 && p[2]->machine->member_count == 2);
    MUST(sim, p[1]->machine->epoch.inc != p[0]->machine->epoch.inc);
    scenario_control(sim, p[0], true);
    WAIT(sim, 8000, p[0]->machine->state == PCCL_PEER_OVER);
    scenario_commit_all(sim, p + 1, 2, 1, 1);
}

/*
 * A loses its last message of an operation with its connection, but has received the outcome. Its next hello reports
 * how much it has received. The lost message arrives after the hello, and the master must still know the operation.
 */
SCENARIO(older_words)
{
    struct pccl_peer_op *x[2];
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 0; i < 2; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 20);
    p[0]->control->ends[0].last_said = true; /* its messages do not arrive */
    sim_bulk_finish(sim, p[0], x[0]);
    scenario_abort(sim, p[1], x[1], PCCL_CLASS_ABORTED);
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 500, scenario_is_decided(x[i]));
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_ABORTED);
    }
    scenario_run_ms(sim, 1000); /* the other one acknowledges it */
    sim_conn_reset(sim, p[0]->control);
    scenario_commit_all(sim, p, 2, 1, 2);
    scenario_run_ms(sim, 500);
    MUST(sim, scenario_departures(sim) == 0 && sim->master->machine->groups[0]->by_instance.count == 0);
}

/* Repeats the hello that a newcomer sent to a master that did not know it: it was in flight for long. */
static void say_old_hello(struct sim *sim, const struct sim_peer *peer, uint64_t boot)
{
    struct sim_conn *conn = scenario_dial_master(sim);
    struct pccl_msg hello = scenario_hello_of(peer, boot);
    scenario_say(sim, conn, &hello, 0);
    scenario_run_ms(sim, 5);
}

/*
 * F9: a newcomer is first at the restarted master; the returning run evicts it. The same happens to another one, which
 * had waited at the master before and does not learn of it: neither a late hello nor a new one makes it a newcomer
 * again.
 */
CLUSTER_SCENARIO(f9_newcomer_first, 2, 1)
{
    struct sim_peer *waiting = scenario_join(sim, 6, 0);
    WAIT(sim, 500, waiting->machine->greeted);
    uint64_t boot = waiting->machine->boot;
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < 2; i++)
        scenario_control(sim, p[i], false);
    scenario_control(sim, waiting, false);
    sim_master_start(sim);
    struct sim_peer *n = scenario_join(sim, 5, 0);
    WAIT(sim, 500, pccl_peer_is_connected(n->machine));
    scenario_control(sim, waiting, true);
    WAIT(sim, 3000, waiting->machine->greeted && waiting->machine->boot != boot);
    scenario_deaf_after(sim, waiting, PCCL_MSG_heartbeat);
    scenario_run_ms(sim, 1000);
    scenario_control(sim, p[0], true);
    scenario_control(sim, p[1], true);
    WAIT(sim, 4000, n->machine->state == PCCL_PEER_OVER);
    MUST(sim, pccl_peer_last_reason(n->machine)->length > 0);
    MUST(sim, waiting->machine->state == PCCL_PEER_PENDING);
    say_old_hello(sim, waiting, boot);
    MUST(sim, pccl_master_find(sim->master->machine, &waiting->id) == NULL);
    WAIT(sim, 1000, sim->master->machine->member_count == 2 && p[0]->machine->greeted && p[1]->machine->greeted);
    WAIT(sim, 5000, waiting->machine->state == PCCL_PEER_OVER);
    MUST(sim, strstr(pccl_peer_last_reason(waiting->machine)->bytes, "an older run resumed") != NULL);
    scenario_commit_all(sim, p, 2, 1, 1);
}

static void control_all(struct sim *sim, uint32_t count, bool whole)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_control(sim, p[i], whole);
}

/* A master that has noted the run of three members starts again without them; returns a newcomer of this group. */
static struct sim_peer *newcomer_comes_first(struct sim *sim, uint32_t group)
{
    scenario_cluster(sim, p, 3, 1);
    sim->plan.keeps_run = true;
    sim_master_crash(sim, true);
    control_all(sim, 3, false);
    sim_master_start(sim);
    return scenario_join(sim, 5, group);
}

/* Checks that the run continues with its members, and admits this one, which has waited. */
static void run_admits(struct sim *sim, uint32_t count, struct sim_peer *newcomer)
{
    WAIT(sim, 4000, sim->master->machine->member_count == count && !sim->master->machine->recovering);
    MUST(sim, newcomer->machine->state == PCCL_PEER_PENDING);
    scenario_run_ms(sim, 1000);
    scenario_update_all(sim, p, count);
    WAIT(sim, 1000, pccl_peer_is_connected(newcomer->machine));
    p[count] = newcomer;
    scenario_run_ms(sim, 50);
    scenario_commit_all(sim, p, count + 1, 1, 1);
}

/* Newcomers at a restarted master wait for the members of a noted run. */
SCENARIO(noted_run)
{
    struct sim_peer *n = newcomer_comes_first(sim, 0);
    scenario_run_ms(sim, sim->plan.master.recover_ms - 100);
    MUST(sim, n->machine->state == PCCL_PEER_PENDING);
    control_all(sim, 3, true);
    run_admits(sim, 3, n);
}

/* A member returns after another run was created at its master: its calls end as after a removal from its run. */
CLUSTER_SCENARIO(another_run, 3, 1)
{
    sim_master_crash(sim, true);
    control_all(sim, 3, false);
    sim_master_start(sim);
    struct sim_peer *n = scenario_join(sim, 5, 0);
    WAIT(sim, 8000, pccl_peer_is_connected(n->machine));
    scenario_run_ms(sim, sim->plan.master.recover_ms + 100);
    scenario_update(sim, p[0]);
    control_all(sim, 1, true);
    WAIT(sim, 4000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, strstr(pccl_peer_last_reason(p[0]->machine)->bytes, "another run") != NULL);
    MUST(sim, p[0]->app.call_status[PCCL_CALL_UPDATE] == PCCL_EXPELLED);
}

/* A member reconnects while its master ends: a refusal that is sent before its hello is read is not a removal. */
SCENARIO(master_ends)
{
    const struct pccl_msg refused = {
        .type = PCCL_MSG_refused,
        .as.refused = {.code = PCCL_REFUSAL_SHUTDOWN, .reason = pccl_bytes_of_string("the master is shutting down")}};
    uint8_t bytes[512];
    scenario_cluster(sim, p, 2, 1);
    scenario_update(sim, p[0]);
    sim_conn_reset(sim, p[0]->control);
    WAIT(sim, 1000, p[0]->control != NULL && p[0]->control->ends[0].established && !p[0]->machine->greeted);
    pccl_frame_encode(&refused, 0, 0, bytes);
    sim_conn_send(sim, p[0]->control, 1, bytes, pccl_frame_size(&refused));
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, p[0]->app.call_status[PCCL_CALL_UPDATE] == PCCL_MASTER_LOST);
    MUST(sim, strstr(pccl_peer_last_reason(p[0]->machine)->bytes, "the master is shutting down") != NULL);
}

/* A newcomer of another group, for which no member prepares: the master's probe reaches it after a lost connection. */
SCENARIO(noted_run_probe)
{
    struct sim_peer *n = newcomer_comes_first(sim, 1);
    scenario_run_ms(sim, 100);
    control_all(sim, 3, true);
    WAIT(sim, 4000, sim->master->machine->member_count == 3 && !sim->master->machine->recovering);
    sim_conn_reset(sim, n->control);
    scenario_run_ms(sim, 1000);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, pccl_peer_is_connected(n->machine));
    MUST(sim, scenario_departures(sim) == 0);
}

/* They found another run after recover_ms, or at once if the noted run has ended. */
CLUSTER_SCENARIO(noted_run_gone, 2, 1)
{
    sim->plan.keeps_run = true;
    sim_master_crash(sim, true);
    sim_peer_kill(sim, p[0], false);
    sim_peer_kill(sim, p[1], false);
    sim_master_start(sim);
    struct sim_peer *n = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, sim->plan.master.recover_ms - 100);
    MUST(sim, n->machine->state == PCCL_PEER_PENDING);
    WAIT(sim, 200, pccl_peer_is_connected(n->machine));
    sim_app_leave(sim, n);
    WAIT(sim, 500, !sim->run_noted);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    n = scenario_join(sim, 6, 0);
    WAIT(sim, 100, pccl_peer_is_connected(n->machine));
}

/* They also found one if the first members have returned and left again. */
SCENARIO(noted_run_half_back)
{
    struct sim_peer *n = newcomer_comes_first(sim, 0);
    scenario_control(sim, p[2], true);
    WAIT(sim, 1000, p[2]->machine->resuming);
    sim_app_leave(sim, p[2]);
    WAIT(sim, 1000, !sim->master->machine->founded);
    MUST(sim, n->machine->state == PCCL_PEER_PENDING);
    control_all(sim, 2, true);
    run_admits(sim, 2, n);
}

/* A master without a note waits for members that dial at the end of their back-off. */
CLUSTER_SCENARIO(dialing_members, 3, 1)
{
    sim->plan.master.found_after_ms = sim->plan.peer.dial_max_ms + 100;
    sim_master_crash(sim, false);
    scenario_run_ms(sim, 3000); /* their pauses are the longest now */
    for (uint32_t i = 0; i < 3; i++)
        WAIT(sim, 1000, p[i]->machine->redial_us > sim->now + sim->plan.peer.dial_max_ms * SIM_MS / 2);
    sim_master_start(sim);
    struct sim_peer *n = scenario_join(sim, 5, 0);
    WAIT(sim, 100, n->machine->state == PCCL_PEER_PENDING);
    run_admits(sim, 3, n);
}

/*
 * A hello was in flight for so long that its peer has acknowledged more since, over another connection. It is refused,
 * and the peer's current connection continues.
 */
CLUSTER_SCENARIO(late_hello, 2, 1)
{
    const struct sim_conn *control = p[1]->control;
    scenario_run_ms(sim, 1000);
    MUST(sim, pccl_master_find(sim->master->machine, &p[1]->id)->session.acknowledged > 0);
    say_old_hello(sim, p[1], sim->master->config.boot);
    scenario_commit_all(sim, p, 2, 1, 1);
    MUST(sim, p[1]->control == control && scenario_departures(sim) == 0);
}

/*
 * A member returns to a master whose queue is full of strangers from its address: its connection is turned away before
 * its hello arrives. That answers a connection, not the member; a newcomer takes it for an answer.
 */
CLUSTER_SCENARIO(crowded_out, 3, 1)
{
    struct pccl_peer_op *x[3];
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    sim->behind_one = true;
    sim_conn_reset(sim, p[0]->control);
    WAIT(sim, 500, sim->master->machine->strangers_by_conn.count == 1);
    scenario_control(sim, p[0], false);
    struct sim_peer *n = scenario_join(sim, 5, 0);
    WAIT(sim, 500, sim->master->machine->strangers_by_conn.count == 2);
    scenario_control(sim, n, false);
    for (uint32_t i = 0; i < PCCL_STRANGERS_MAX; i++)
        (void)sim_dial(sim, NULL, SIM_ROLE_STRANGER, SIM_CONTROL, 0, SIM_MASTER_PORT);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], true);
    scenario_control(sim, n, true);
    WAIT(sim, 2000, n->machine->state == PCCL_PEER_OVER && p[0]->machine->greeted);
    MUST(sim, strstr(pccl_peer_last_reason(n->machine)->bytes, "without a hello") != NULL);
    for (uint32_t i = 0; i < 3; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    WAIT(sim, 500, scenario_is_decided(x[0]) && scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_NONE);
}

/* F15: the result of a tiny operation is with A only; the master and Z die. B gets A's result. */
SCENARIO(f15_tiny_restart)
{
    struct pccl_peer_op *x[3];
    scenario_cluster(sim, p, 3, 1);
    x[1] = scenario_tiny(sim, p[1], 1, 1);
    x[2] = scenario_tiny(sim, p[2], 1, 1);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[2], false);
    x[0] = scenario_tiny(sim, p[0], 1, 1);
    WAIT(sim, 500, scenario_is_decided(x[0]));
    sim_master_crash(sim, true);
    sim_peer_kill(sim, p[2], false);
    scenario_control(sim, p[1], true);
    sim_master_start(sim);
    WAIT(sim, 5000, scenario_is_decided(x[1]));
    MUST(sim, scenario_take(sim, p[0], x[0]) == PCCL_CLASS_NONE && scenario_take(sim, p[1], x[1]) == PCCL_CLASS_NONE);
    WAIT(sim, 3000, p[0]->machine->member_count == 2 && p[1]->machine->member_count == 2);
    scenario_commit_all(sim, p, 2, 1, 2);
}

/* F23: no member of group 1 has reported yet; a round over all waits, and group 1 stays in. */
CLUSTER_SCENARIO(f23_other_group, 4, 2)
{
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[3], false);
    scenario_update(sim, p[0]);
    scenario_update(sim, p[2]);
    sim_master_start(sim);
    scenario_run_ms(sim, 1000);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_UPDATE) && !scenario_is_over(p[2], PCCL_CALL_UPDATE));
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[3], true);
    scenario_update(sim, p[1]);
    scenario_update(sim, p[3]);
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 4000, scenario_is_over(p[i], PCCL_CALL_UPDATE));
        MUST(sim, p[i]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK && p[i]->machine->member_count == 4);
    }
}

/*
 * D is removed by silence while A and B have finished: COMMIT, then the view without D. A receives the commit, no
 * member the view, and the master dies. D returns as a member that has not finished a committed operation: it cannot
 * stay.
 */
SCENARIO(commit_then_crash)
{
    struct pccl_peer_op *x[3];
    begin_bulk(sim, x);
    sim_bulk_finish(sim, p[0], x[0]);
    sim_bulk_finish(sim, p[1], x[1]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[2], false);
    scenario_run_ms(sim, 1000);
    scenario_deaf_after(sim, p[0], PCCL_MSG_outcome);
    scenario_control(sim, p[1], false);
    WAIT(sim, 3000, scenario_is_decided(x[0]));
    MUST(sim, p[0]->machine->member_count == 3);
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    WAIT(sim, 5000, scenario_is_decided(x[1]));
    MUST(sim, scenario_take(sim, p[0], x[0]) == PCCL_CLASS_NONE && scenario_take(sim, p[1], x[1]) == PCCL_CLASS_NONE);
    WAIT(sim, 5000, p[0]->machine->member_count == 2 && p[1]->machine->member_count == 2);
    MUST(sim, p[2]->machine->state == PCCL_PEER_OVER);
    scenario_commit_all(sim, p, 2, 1, 2);
}

/*
 * A learns that X is aborted, no other does, and the master dies. The next one recovers without A, where B and C have
 * finished X; it dies before its first view is received. If it had committed X to B, B and A would both report,
 * differently.
 */
SCENARIO(recover_then_crash)
{
    struct pccl_peer_op *x[3];
    begin_bulk(sim, x);
    sim_bulk_finish(sim, p[1], x[1]);
    sim_bulk_finish(sim, p[2], x[2]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[2], false);
    sim_bulk_break(sim, p[0], x[0], PCCL_CLASS_INTERNAL);
    WAIT(sim, 500, scenario_is_decided(x[0]));
    scenario_control(sim, p[0], false);
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    WAIT(sim, 4000, sim->master->machine->remote_count == 2 && p[1]->machine->resuming && p[2]->machine->resuming);
    scenario_run_ms(sim, 50);
    scenario_deaf_after(sim, p[1], PCCL_MSG_outcome);
    scenario_deaf_after(sim, p[2], PCCL_MSG_heartbeat);
    WAIT(sim, 4000, !sim->master->machine->recovering);
    scenario_run_ms(sim, 20);
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    WAIT(sim, 10000, scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    WAIT(sim, 10000, !sim->master->machine->recovering);
    scenario_run_ms(sim, 1000);
    sim_check_conflicts(sim);
    MUST(sim, scenario_take(sim, p[1], x[1]) == scenario_take(sim, p[2], x[2]));
}

/*
 * Two of three recover the run and end it; the third sleeps through both. It is refused: a member of the run may have
 * seen more.
 */
CLUSTER_SCENARIO(run_over, 3, 1)
{
    sim_process_stop(sim, &p[2]->process, sim->now + 7 * SIM_S); /* longer than T_recover */
    struct pccl_id run = p[2]->machine->lineage;
    scenario_restart_master(sim, 200);
    WAIT(sim, 4000, !sim->master->machine->recovering && sim->master->machine->member_count == 2);
    MUST(sim, pccl_id_equal(&sim->master->machine->lineage, &run));
    sim_app_leave(sim, p[0]);
    sim_app_leave(sim, p[1]);
    WAIT(sim, 1000, !sim->master->machine->founded);
    MUST(sim, !sim_process_runs(&p[2]->process) && p[2]->machine->state == PCCL_PEER_MEMBER);
    WAIT(sim, 8000, p[2]->machine->state == PCCL_PEER_OVER);
    MUST(sim, !pccl_id_equal(&sim->master->machine->lineage, &run));
}

/* A limit of waiting is never early and hardly late: an operation's, a call's, and the one without a master. */
CLUSTER_SCENARIO(limits, 2, 1)
{
    struct pccl_peer_op *a = scenario_launch(sim, p[0], 1, 1, true, 300);
    scenario_run_ms(sim, 299);
    MUST(sim, !a->abort_sent);
    WAIT(sim, 60, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_DEADLINE);
    p[0]->machine->config.call_timeout_ms = 300;
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 299);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_UPDATE));
    WAIT(sim, 60, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, p[0]->app.call_status[PCCL_CALL_UPDATE] == PCCL_TIMEOUT);
    uint32_t lost_ms = p[0]->machine->config.master_lost_ms;
    sim_master_crash(sim, false);
    scenario_run_ms(sim, lost_ms - 1);
    MUST(sim, p[0]->machine->state == PCCL_PEER_MEMBER && p[1]->machine->state == PCCL_PEER_MEMBER);
    WAIT(sim, 60, p[0]->machine->state == PCCL_PEER_OVER && p[1]->machine->state == PCCL_PEER_OVER);
    sim_master_start(sim);
}

/*
 * The master removes a silent one of two, which no member learns before it dies. So both are members of the old view
 * when it is back; then the link between the two fails.
 */
CLUSTER_SCENARIO(unheard_view, 2, 1)
{
    struct pccl_epoch view = p[0]->machine->view;
    scenario_control(sim, p[1], false);
    sim_conn_reset(sim, p[1]->control);
    scenario_run_ms(sim, 500);
    scenario_control(sim, p[0], false);
    WAIT(sim, 3000, sim->master->machine->member_count == 1);
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    scenario_control(sim, p[1], true);
    sim_master_start(sim);
    WAIT(sim, 5000, !sim->master->machine->recovering && sim->master->machine->member_count == 2);
    scenario_run_ms(sim, 100);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view) && pccl_epoch_equal(&view, &p[1]->machine->view));
    sim_net_cut(sim, p[0]->process.host, p[1]->process.host, SIM_DATA, SIM_REFUSE);
    sim_conn_reset(sim, sim_peer_link(p[1], &p[0]->id));
    WAIT(sim, 4000, p[1]->machine->state == PCCL_PEER_OVER);
    MUST(sim, scenario_departures(sim) == 1 && pccl_peer_is_connected(p[0]->machine));
}

static struct sim_peer *join_with_digest(struct sim *sim, uint32_t host, uint64_t digest)
{
    struct pccl_build *build = &sim->plan.peer.build;
    const struct pccl_build ours = *build;
    build->digest = digest;
    struct sim_peer *n = scenario_join(sim, host, 0);
    *build = ours;
    return n;
}

/*
 * Builds of one version with different digests refuse each other: a newcomer fails at once. Members dial a master of
 * another build until the right one returns, or until master_lost_ms.
 */
SCENARIO(another_build)
{
    const uint64_t ours = sim_build()->digest;
    scenario_cluster(sim, p, 2, 1);
    struct sim_peer *n = join_with_digest(sim, 5, ~ours);
    WAIT(sim, 500, n->machine->state == PCCL_PEER_OVER);
    MUST(sim, pccl_peer_why_over(n->machine) == PCCL_VERSION && n->master_dials == 1);
    MUST(sim, strstr(pccl_peer_last_reason(n->machine)->bytes, "build both from the same commit") != NULL);
    MUST(sim, sim->master->machine->tally.refused[PCCL_REFUSAL_VERSION] == 1);
    scenario_commit_all(sim, p, 2, 1, 1);
    for (uint32_t time = 0; time < 2; time++) {
        sim_master_crash(sim, false);
        sim->plan.master.build.digest = ~ours;
        sim_master_start(sim);
        n = scenario_join(sim, 6 + time, 0);
        WAIT(sim, 500, n->machine->state == PCCL_PEER_OVER && pccl_peer_why_over(n->machine) == PCCL_VERSION);
        if (time == 1)
            break;
        scenario_run_ms(sim, 2000);
        MUST(sim, p[0]->machine->state == PCCL_PEER_MEMBER && p[1]->machine->state == PCCL_PEER_MEMBER);
        MUST(sim, sim->master->machine->remote_count == 0);
        sim_master_crash(sim, false);
        sim->plan.master.build.digest = ours;
        sim_master_start(sim);
        WAIT(sim, 5000, sim->master->machine->member_count == 2 && !sim->master->machine->recovering);
        scenario_commit_all(sim, p, 2, 2, 1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, p[i]->config.master_lost_ms + 2000, p[i]->machine->state == PCCL_PEER_OVER);
        MUST(sim, pccl_peer_why_over(p[i]->machine) == PCCL_MASTER_LOST);
        MUST(sim, strstr(pccl_peer_last_reason(p[i]->machine)->bytes, "build both from the same commit") != NULL);
    }
}
