/* The scenarios behind the rules (docs/DECISIONS/0011-protocol.md), directed: operations, joint calls, membership. */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/*
 * F1: the view is not in the name. B launches late an operation that A saw fail and dropped: it fails at once, and the
 * next uses match.
 */
CLUSTER_SCENARIO(f1_name_without_view, 3, 1)
{
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 5, 100);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 500, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_PEER_LOST);
    a = scenario_tiny(sim, p[0], 5, 101); /* its caller drops step 100 */
    scenario_run_ms(sim, 20);
    struct pccl_peer_op *b = scenario_bulk(sim, p[1], 5, 100);
    MUST(sim, scenario_is_decided(b) && b->instance.use == 0);
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_PEER_LOST);
    b = scenario_tiny(sim, p[1], 5, 101);
    WAIT(sim, 500, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
}

/* F2: an abort without a view change leaves a tombstone for a later launch. */
CLUSTER_SCENARIO(f2_tombstone, 3, 1)
{
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1), *c = scenario_tiny(sim, p[2], 1, 1);
    scenario_run_ms(sim, 20);
    scenario_abort(sim, p[0], a, PCCL_CLASS_ABORTED);
    WAIT(sim, 500, scenario_is_decided(a) && scenario_is_decided(c));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_ABORTED && scenario_take(sim, p[2], c) == PCCL_CLASS_ABORTED);
    scenario_run_ms(sim, 20);
    MUST(sim, p[1]->ops_gone == 1 && p[0]->ops_gone == 0 && p[2]->ops_gone == 0);
    struct pccl_peer_op *b = scenario_tiny(sim, p[1], 1, 1);
    MUST(sim, scenario_is_decided(b) && scenario_take(sim, p[1], b) == PCCL_CLASS_ABORTED);
    scenario_commit_all(sim, p, 3, 1, 2);
}

/* F3: a death in one group leaves the operations and the view of the other alone. */
SCENARIO(f3_groups)
{
    scenario_cluster(sim, p, 5, 2); /* 0 2 4 | 1 3 */
    struct pccl_epoch view = p[1]->machine->view;
    struct pccl_peer_op *one = scenario_bulk(sim, p[1], 1, 1);
    scenario_run_ms(sim, 10);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 500, p[1]->machine->member_count == 4);
    struct pccl_peer_op *other = scenario_bulk(sim, p[3], 1, 1);
    sim_bulk_finish(sim, p[1], one);
    sim_bulk_finish(sim, p[3], other);
    WAIT(sim, 500, scenario_is_decided(one) && scenario_is_decided(other));
    MUST(sim, scenario_take(sim, p[1], one) == PCCL_CLASS_NONE && scenario_take(sim, p[3], other) == PCCL_CLASS_NONE);
    MUST(sim, pccl_epoch_equal(&view, &p[1]->machine->view));
}

/* F4: a kill is acted on at once, a broken control connection alone is not. */
CLUSTER_SCENARIO(f4_two_witnesses, 3, 1)
{
    sim_conn_reset(sim, p[1]->control);
    scenario_run_ms(sim, 500);
    MUST(sim, scenario_departures(sim) == 0 && p[1]->machine->greeted);
    scenario_commit_all(sim, p, 3, 1, 1);
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 2, 1);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 60, scenario_is_decided(a)); /* the silence limit is 2 s */
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_PEER_LOST);
    scenario_commit_all(sim, p, 2, 3, 1);
}

/*
 * F4: the death of a peer alone in its group is also noticed at once: the master dials its port, where no process
 * listens.
 */
SCENARIO(f4_alone)
{
    scenario_cluster(sim, p, 3, 2); /* 0 2 | 1 */
    sim_peer_kill(sim, p[1], false);
    p[1]->process.closing_until = sim->now;
    WAIT(sim, 20, p[0]->machine->member_count == 2); /* the silence limit is 2 s */
}

/*
 * The same for a process that dies slowly: its port accepts and closes one dial after another, long after its control
 * connection has gone. One or two dials show nothing until the silence limit.
 */
SCENARIO(f4_alone_closing)
{
    enum { CLOSING_MS = 130 };
    scenario_cluster(sim, p, 3, 2);
    sim_peer_kill(sim, p[1], false);
    p[1]->process.closing_until = sim->now + CLOSING_MS * SIM_MS;
    scenario_run_ms(sim, CLOSING_MS);
    MUST(sim, scenario_departures(sim) == 0); /* a port that answers somehow may belong to a returning peer */
    WAIT(sim, 70, p[0]->machine->member_count == 2);
}

/* Returns the number of messages that the master has received from the peer. */
static uint64_t received_of(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &peer->id);
    MUST(sim, remote != NULL);
    return remote->session.received;
}

/* F5: DONE lost in a socket, and the COMMIT too: the session sends both again. */
CLUSTER_SCENARIO(f5_session, 2, 1)
{
    struct pccl_peer_op *a, *b;
    uint32_t step = 0, lost = 0;
    for (uint64_t received; lost < 3; lost += received == 0) { /* how much a reset loses is random */
        MUST(sim, ++step < 30);
        a = scenario_tiny(sim, p[0], 1, step);
        received = received_of(sim, p[1]);
        b = scenario_tiny(sim, p[1], 1, step);
        struct sim_conn *before = p[1]->control;
        sim_conn_reset(sim, before);
        WAIT(sim, 500,
             p[1]->control != before && p[1]->control_up); /* nothing of the old connection is left to be read */
        received = received_of(sim, p[1]) - received;
        WAIT(sim, 500, scenario_is_decided(a) && scenario_is_decided(b));
        MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    }
    uint64_t committed = pccl_master_count(sim->master->machine).committed;
    a = scenario_tiny(sim, p[0], 1, step + 1);
    b = scenario_tiny(sim, p[1], 1, step + 1);
    WAIT(sim, 500, pccl_master_count(sim->master->machine).committed == committed + 1);
    sim_conn_reset(sim, p[0]->control);
    sim_conn_reset(sim, p[1]->control);
    WAIT(sim, 500, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    MUST(sim, scenario_departures(sim) == 0);
}

/*
 * F10: a vote names its round: B, cut off, withdraws a vote decided in the meantime and gets the answer; the next
 * rounds match.
 */
CLUSTER_SCENARIO(f10_rounds, 2, 1)
{
    scenario_pending(sim, p[1]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_pending(sim, p[0]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_PENDING));
    scenario_withdraw(sim, p[1], PCCL_CALL_PENDING);
    scenario_pending(sim, p[0]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], true);
    WAIT(sim, 500, scenario_is_over(p[1], PCCL_CALL_PENDING));
    MUST(sim, p[1]->app.call_status[PCCL_CALL_PENDING] == PCCL_OK && !scenario_is_over(p[0], PCCL_CALL_PENDING));
    scenario_pending(sim, p[1]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_PENDING) && scenario_is_over(p[1], PCCL_CALL_PENDING));
}

/* F12: a departure after all remaining members have finished does not abort; before, it does. */
CLUSTER_SCENARIO(f12_commit_or_departure, 3, 1)
{
    struct pccl_peer_op *x[3], *y[3];
    for (uint32_t i = 0; i < 3; i++) {
        x[i] = scenario_bulk(sim, p[i], 1, 1);
        y[i] = scenario_bulk(sim, p[i], 2, 1);
    }
    sim_bulk_finish(sim, p[0], x[0]);
    sim_bulk_finish(sim, p[1], x[1]);
    sim_bulk_finish(sim, p[0], y[0]);
    scenario_run_ms(sim, 20);
    MUST(sim, !scenario_is_decided(x[0]));
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 200,
         scenario_is_decided(x[0]) && scenario_is_decided(x[1]) && scenario_is_decided(y[0]) &&
             scenario_is_decided(y[1]));
    for (uint32_t i = 0; i < 2; i++) {
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_NONE);
        MUST(sim, scenario_take(sim, p[i], y[i]) == PCCL_CLASS_PEER_LOST);
    }
}

/* F13: one failure for one death: the view precedes the abort that the link's end requested, and the retry succeeds. */
CLUSTER_SCENARIO(f13_one_failure, 3, 1)
{
    struct pccl_peer_op *x[3];
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 10);
    sim_bulk_break(sim, p[0], x[0],
                   PCCL_CLASS_PEER_LOST); /* its link to D breaks a moment before D is seen to be dead */
    scenario_run_ms(sim, 3);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 300, scenario_is_decided(x[0]) && scenario_is_decided(x[1]));
    MUST(sim, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    for (uint32_t i = 0; i < 2; i++)
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_PEER_LOST);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* F14: one reset of one link of three: no member is removed, no ring changes. */
CLUSTER_SCENARIO(f14_reset, 3, 1)
{
    struct pccl_epoch before = p[0]->machine->epoch;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < p[i]->link_count; k++)
            if (!p[i]->links[k].incoming)
                sim_conn_reset(sim, p[i]->links[k].conn);
    scenario_run_ms(sim, 3000);
    MUST(sim, scenario_departures(sim) == 0 && pccl_epoch_equal(&before, &p[0]->machine->epoch));
    scenario_commit_all(sim, p, 3, 1, 1);
}

/* F14: two of four cannot reach each other permanently: the ring avoids the edge, no member is removed. */
CLUSTER_SCENARIO(f14_edge, 4, 1)
{
    const struct pccl_remote *first = sim->master->machine->groups[0]->ring[0],
                             *second = sim->master->machine->groups[0]->ring[1];
    struct sim_peer *a = sim_peer_find(sim, &first->id), *b = sim_peer_find(sim, &second->id);
    sim_net_cut(sim, a->process.host, b->process.host, SIM_DATA, SIM_REFUSE);
    sim_conn_reset(sim, sim_peer_link(a, &b->id));
    struct pccl_epoch before = p[0]->machine->epoch;
    WAIT(sim, 4000, !pccl_epoch_equal(&before, &p[0]->machine->epoch));
    MUST(sim, scenario_departures(sim) == 0 && p[0]->machine->group.count == 4);
    scenario_run_ms(sim, 100);
    scenario_commit_all(sim, p, 4, 1, 1);
}

/* F16: a launch that was numbered and cannot continue fails for all. */
CLUSTER_SCENARIO(f16_local_failure, 3, 1)
{
    struct pccl_peer_op *x[3];
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    sim_bulk_break(sim, p[1], x[1], PCCL_CLASS_INTERNAL);
    WAIT(sim, 300, scenario_is_decided(x[0]) && scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_INTERNAL);
}

/* F18: A's deadline passes while the commit is in flight to it: A gets the commit. */
CLUSTER_SCENARIO(f18_deadline_and_commit, 2, 1)
{
    struct pccl_peer_op *a = scenario_launch(sim, p[0], 1, 1, true, 300);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    struct pccl_peer_op *b = scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 300, scenario_is_decided(b));
    scenario_run_ms(sim, 500);
    MUST(sim, a->abort_sent && !scenario_is_decided(a));
    scenario_control(sim, p[0], true);
    WAIT(sim, 300, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
}

/*
 * F20: fresh tags step after step: nothing is left of them after an update; and nothing is launched
 * while one is open. /
 */
CLUSTER_SCENARIO(f20_counters, 2, 1)
{
    for (uint64_t tag = 0; tag < 200; tag++)
        scenario_commit_all(sim, p, 2, tag, 1);
    MUST(sim, p[0]->machine->uses.count == 200);
    scenario_update(sim, p[0]);
    struct sim_request request = {.tag = 1, .tiny = true, .count = 1};
    struct pccl_peer_op *op = NULL;
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_USAGE);
    scenario_update(sim, p[1]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_UPDATE) && scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_run_ms(sim, 2000);
    sim_check_idle(sim);
}

/* F21: the master is stopped for longer than the silence limit and expels no member. */
CLUSTER_SCENARIO(f21_standstill, 4, 1)
{
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1);
    for (uint32_t round = 0; round < 2; round++) {
        sim->plan.timers_first_percent = round * 100;
        sim_process_stop(sim, &sim->master->process, sim->now + 5 * SIM_S);
        scenario_run_ms(sim, 8000);
        MUST(sim, scenario_departures(sim) == 0 && sim->master->machine->member_count == 4);
    }
    for (uint32_t i = 1; i < 4; i++)
        (void)scenario_tiny(sim, p[i], 1, 1);
    WAIT(sim, 1000, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE);
}

/*
 * F22: a newcomer takes the port of a peer that vanished with its host: a peer that dials it learns that the old one is
 * gone.
 */
CLUSTER_SCENARIO(f22_port_reuse, 3, 1)
{
    uint32_t host = p[1]->process.host;
    uint16_t port = p[1]->process.port;
    sim_net_host(sim, host, false);
    sim_peer_kill(sim, p[1], true);
    sim_net_host(sim, host, true);
    struct sim_peer *n = sim_peer_start(sim, host, port, 0, true);
    MUST(sim, sim_peer_call(sim, n, PCCL_CALL_CONNECT) == PCCL_OK);
    sim_process_arm(sim, &n->process);
    WAIT(sim, 3000, p[0]->machine->member_count == 2 && p[2]->machine->member_count == 2);
    p[1] = p[2];
    scenario_run_ms(sim, 300);
    scenario_admit(sim, p, 2, n);
}

/* F24: a newcomer that its neighbors cannot reach is not pending, and is turned away with the reason. */
CLUSTER_SCENARIO(f24_not_warm, 2, 1)
{
    for (uint32_t host = 1; host <= 2; host++)
        sim_net_cut(sim, host, 6, SIM_DATA, SIM_DROP);
    struct sim_peer *n = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 300);
    scenario_pending(sim, p[0]);
    scenario_pending(sim, p[1]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_PENDING) && scenario_is_over(p[1], PCCL_CALL_PENDING));
    MUST(sim, p[0]->app.call_status[PCCL_CALL_PENDING] == PCCL_OK && !p[0]->app.call_value[PCCL_CALL_PENDING]);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 6000, scenario_is_over(n, PCCL_CALL_CONNECT));
    MUST(sim, n->app.call_status[PCCL_CALL_CONNECT] == PCCL_REFUSED && pccl_peer_last_reason(n->machine)->length > 0);
}

/* F26: a waiting peer learns for which peers it waits. */
CLUSTER_SCENARIO(f26_who_is_where, 3, 1)
{
    (void)scenario_bulk(sim, p[0], 1, 1);
    (void)scenario_bulk(sim, p[1], 1, 1);
    const char *second = pccl_id_str(&p[1]->id), *third = pccl_id_str(&p[2]->id);
    WAIT(sim, 1500, strstr(pccl_peer_waiting(p[0]->machine)->bytes, third) != NULL);
    WAIT(sim, 500, strstr(pccl_peer_waiting(p[1]->machine)->bytes, third) != NULL);
    WAIT(sim, 3100, strstr(pccl_peer_waiting(p[0]->machine)->bytes, second) == NULL); /* it waits as well */
    MUST(sim, pccl_peer_waiting(p[0]->machine)->length > 0);
    const struct sim_peer *newcomer = scenario_join(sim, 6, 0);
    WAIT(sim, 3000, strstr(pccl_peer_waiting(newcomer->machine)->bytes, "update_topology") != NULL);
}

/* F26: a peer that joins while another one waits reports that in time. */
CLUSTER_SCENARIO(f26_beside, 1, 1)
{
    sim_net_cut(sim, 1, 6, SIM_DATA, SIM_DROP);
    struct sim_peer *first = scenario_join(sim, 5, 0);
    struct sim_peer *second = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, first->machine->config.where_ms + 100);
    scenario_update(sim, p[0]);
    WAIT(sim, 100, scenario_is_over(first, PCCL_CALL_CONNECT));
    MUST(sim, first->machine->state == PCCL_PEER_MEMBER && second->machine->state == PCCL_PEER_PENDING);
    scenario_run_ms(sim, 1);
    MUST(sim, first->machine->admissions_logged_us != 0);
}

/*
 * F27: B retries and A's caller does not: B's deadline leaves A a tombstone, A's next use fails
 * once, then uses line up.
 */
CLUSTER_SCENARIO(f27_no_retry, 2, 1)
{
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1);
    scenario_run_ms(sim, 10);
    scenario_abort(sim, p[0], a, PCCL_CLASS_ABORTED);
    WAIT(sim, 300, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_ABORTED);
    scenario_run_ms(sim, 20);
    struct pccl_peer_op *b = scenario_tiny(sim, p[1], 1, 1);
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_ABORTED);
    b = scenario_launch(sim, p[1], 1, 1, true, 300); /* B retries */
    WAIT(sim, 600, scenario_is_decided(b));
    struct pccl_text missing;
    pccl_text_format(&missing, "waited for peer %s", pccl_id_str(&p[0]->id));
    MUST(sim, strstr(b->reason.bytes, missing.bytes) != NULL);
    scenario_run_ms(sim, 50);
    a = scenario_tiny(sim, p[0], 1, 2);
    MUST(sim, scenario_is_decided(a) && scenario_take(sim, p[0], a) == PCCL_CLASS_DEADLINE);
    scenario_run_ms(sim, 2000); /* B awaits late */
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_DEADLINE);
    scenario_commit_all(sim, p, 2, 1, 2);
}

/* Repeats an operation that a view has ended after a pause: the deadline of the first launch holds. */
static void repeat_after(struct sim *sim, uint64_t pause_ms)
{
    scenario_cluster(sim, p, 3, 1);
    struct sim_request request = {.tag = 1, .step = 1, .count = 100000, .reduction = PCCL_SUM, .timeout_ms = 1000};
    struct pccl_peer_op *a = scenario_ask(sim, p[0], &request);
    request.deadline_us = a->deadline_us;
    scenario_run_ms(sim, 600);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 300, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_PEER_LOST);
    scenario_run_ms(sim, pause_ms);
    a = scenario_ask(sim, p[0], &request);
    WAIT(sim, 600, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_DEADLINE && sim->now < request.deadline_us + 800 * SIM_MS);
}

/* A repeated operation keeps the deadline of its first launch. */
SCENARIO(deadline_of_retries) { repeat_after(sim, 0); }
SCENARIO(deadline_before_retry) { repeat_after(sim, 600); }

/* A stalled peer: all wait for the silence limit, then continue without it, and it learns that it is out. */
CLUSTER_SCENARIO(stopped_peer, 3, 1)
{
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1);
    sim_process_stop(sim, &p[1]->process, sim->now + 6 * SIM_S);
    scenario_run_ms(sim, 1000);
    MUST(sim, scenario_departures(sim) == 0);
    WAIT(sim, 2500, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_PEER_LOST);
    struct sim_peer *left[2] = {p[0], p[2]};
    scenario_run_ms(sim, 20);
    struct pccl_peer_op *c = scenario_tiny(sim, p[2], 1, 1);
    MUST(sim, scenario_is_decided(c) && scenario_take(sim, p[2], c) == PCCL_CLASS_PEER_LOST);
    scenario_commit_all(sim, left, 2, 1, 1);
    WAIT(sim, 6000, p[1]->machine->state == PCCL_PEER_OVER);
}

/* A mismatch fails on all, with a reason that lists the calls of the peers. */
CLUSTER_SCENARIO(mismatch, 2, 1)
{
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1);
    struct sim_request request = {.tag = 1, .step = 1, .tiny = true, .count = 2, .reduction = PCCL_MAX};
    struct pccl_peer_op *b = NULL;
    MUST(sim, sim_app_launch(sim, p[1], &request, &b) == PCCL_OK);
    WAIT(sim, 300, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, strstr(a->reason.bytes, "but") != NULL);
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_MISMATCH && scenario_take(sim, p[1], b) == PCCL_CLASS_MISMATCH);
    scenario_commit_all(sim, p, 2, 1, 2);
}

/* A peer that has skipped a step matches another one: their labels show it. */
SCENARIO(labels)
{
    static const char *const labels[] = {"step 2", "step 3"};
    scenario_cluster(sim, p, 2, 1);
    struct pccl_peer_op *ops[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_request request = {.tag = 1, .step = 1, .tiny = true, .count = 1, .label = labels[i]};
        MUST(sim, sim_app_launch(sim, p[i], &request, &ops[i]) == PCCL_OK);
    }
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 300, scenario_is_decided(ops[i]));
        MUST(sim, strstr(ops[i]->reason.bytes, "labeled 'step 2'") != NULL);
        MUST(sim, strstr(ops[i]->reason.bytes, "labeled 'step 3'") != NULL);
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_MISMATCH);
    }
    scenario_commit_all(sim, p, 2, 1, 2);
}
