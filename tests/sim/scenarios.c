/*
 * The scenarios behind the rules (docs/DECISIONS/0011-protocol.md), directed: operations, joint
 * calls, membership.
 */
#include "master/roster.h"
#include "scenarios.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/*
 * F1: the view is not in the name. B launches late an operation that A saw fail and dropped: it fails at once, and the
 * next uses match.
 */
void scenario_f1(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f2(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f3(struct sim *sim)
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
void scenario_f4(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f4_alone(struct sim *sim)
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
void scenario_f4_alone_closing(struct sim *sim)
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
void scenario_f5(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_f10(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_f12(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f13(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f14(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f14_edge(struct sim *sim)
{
    scenario_cluster(sim, p, 4, 1);
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
void scenario_f16(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
    struct pccl_peer_op *x[3];
    for (uint32_t i = 0; i < 3; i++)
        x[i] = scenario_bulk(sim, p[i], 1, 1);
    sim_bulk_break(sim, p[1], x[1], PCCL_CLASS_INTERNAL);
    WAIT(sim, 300, scenario_is_decided(x[0]) && scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, scenario_take(sim, p[i], x[i]) == PCCL_CLASS_INTERNAL);
}

/* F18: A's deadline passes while the commit is in flight to it: A gets the commit. */
void scenario_f18(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_f20(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_f21(struct sim *sim)
{
    scenario_cluster(sim, p, 4, 1);
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
void scenario_f22(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(n->machine));
    p[2] = n;
    scenario_run_ms(sim, 50);
    scenario_commit_all(sim, p, 3, 1, 1);
}

/* F24: a newcomer that its neighbors cannot reach is not pending, and is turned away with the reason. */
void scenario_f24(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_f26(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_f26_beside(struct sim *sim)
{
    scenario_cluster(sim, p, 1, 1);
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
void scenario_f27(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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

void scenario_deadline_of_retries(struct sim *sim) { repeat_after(sim, 0); }
void scenario_deadline_before_retry(struct sim *sim) { repeat_after(sim, 600); }

/* A stalled peer: all wait for the silence limit, then continue without it, and it learns that it is out. */
void scenario_stopped_peer(struct sim *sim)
{
    scenario_cluster(sim, p, 3, 1);
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
void scenario_mismatch(struct sim *sim)
{
    scenario_cluster(sim, p, 2, 1);
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
void scenario_labels(struct sim *sim)
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

const struct sim_scenario sim_scenarios[] = {
    {"f1-name-without-view", "a caller that drops a step does not mis-pair the next", scenario_f1},
    {"f2-tombstone", "an abort without a view change reaches who launches later", scenario_f2},
    {"f3-groups", "a death in one group leaves the other alone", scenario_f3},
    {"f4-two-witnesses", "a kill is acted on at once, a broken connection is not", scenario_f4},
    {"f4-alone", "a peer alone in its group is noticed at once", scenario_f4_alone},
    {"f4-alone-closing", "... also where its port is closed last, a while after its connections",
     scenario_f4_alone_closing},
    {"f5-session", "messages lost in a socket are sent again", scenario_f5},
    {"f6-all-report", "after a restart everybody is waited for", scenario_f6},
    {"f7-undecided", "what was under way goes on after a restart", scenario_f7},
    {"f8-epoch-content", "an epoch that one member has seen is law", scenario_f8},
    {"missed-round", "who missed the end of an era is told of it before the outcomes of the next",
     scenario_missed_round},
    {"two-recoveries", "two recoveries that do not know of each other make different epochs", scenario_two_recoveries},
    {"older-words", "what was said before an outcome was heard comes after it", scenario_older_words},
    {"crowded-out", "a member whose connection is turned away before its hello is read comes back",
     scenario_crowded_out},
    {"late-hello", "a hello that comes late is refused and disturbs nobody", scenario_late_hello},
    {"unheard-view", "the link of two fails after a restart that undid a view which nobody had heard of",
     scenario_unheard_view},
    {"f9-newcomer-first", "an older run comes back to a master that a newcomer found first", scenario_f9},
    {"master-ends", "a member that comes back while its master ends has lost its master", scenario_master_ends},
    {"another-run", "a member that comes when its master serves another run is out", scenario_another_run},
    {"noted-run", "newcomers at a restarted master wait for the members of a run that was noted", scenario_noted_run},
    {"noted-run-probe", "... also one of another group, whose connection breaks meanwhile", scenario_noted_run_probe},
    {"noted-run-gone", "... and found another one after recover_ms, or at once if the run has ended",
     scenario_noted_run_is_gone},
    {"noted-run-half-back", "... also if those who have come back first are gone again", scenario_noted_run_half_back},
    {"dialing-members", "a master that has noted nothing waits for members that dial at the end of their back-off",
     scenario_dialing_members},
    {"f10-rounds", "votes name their round", scenario_f10},
    {"f12-commit-or-departure", "a departure after all others have finished commits", scenario_f12},
    {"f13-one-failure", "one death costs one failure", scenario_f13},
    {"f14-reset", "reset links are mended and change nothing", scenario_f14},
    {"f14-edge", "a ring avoids an edge that does not work", scenario_f14_edge},
    {"f15-tiny-restart", "a tiny result that one member has is everybody's after a restart", scenario_f15},
    {"f16-local-failure", "a launch that fails locally fails for all", scenario_f16},
    {"f18-deadline-and-commit", "a deadline does not overtake a commit", scenario_f18},
    {"f20-counters", "counters and outcomes end with their era", scenario_f20},
    {"f21-standstill", "a master that stood still expels nobody", scenario_f21},
    {"f22-port-reuse", "a newcomer on a dead peer's port", scenario_f22},
    {"f23-other-group", "a restarted master waits for groups that nobody of has reported", scenario_f23},
    {"f24-not-warm", "a newcomer that cannot be reached is turned away in words", scenario_f24},
    {"f26-who-is-where", "waiting names who is missing", scenario_f26},
    {"f26-beside", "who is admitted speaks of those who are not", scenario_f26_beside},
    {"f27-no-retry", "uses line up again after a caller that does not retry", scenario_f27},
    {"stopped-peer", "a stopped peer is waited for, then left behind", scenario_stopped_peer},
    {"mismatch", "different descriptors fail on all", scenario_mismatch},
    {"labels", "different labels fail on all, in words that have both", scenario_labels},
    {"commit-then-crash", "a member that was removed without knowing it, and a commit it never heard of",
     scenario_commit_then_crash},
    {"recover-then-crash", "two crashes in a row around a commit that one member missed", scenario_recover_then_crash},
    {"run-over", "who slept through the end of a run is refused", scenario_run_over},
    {"lying-epochs", "a member that reports epochs that cannot be is removed", scenario_lying_epochs},
    {"alone-but-counted", "what one alone launches before a view that it missed ends with it",
     scenario_alone_but_counted},
    {"endless-report", "who begins a report of the run and never ends it holds up nobody for ever",
     scenario_endless_report},
    {"lying-views", "a member that acknowledges views that it was not told goes alone", scenario_lying_views},
    {"lying-views-together", "four that name all they can cannot end the others", scenario_lying_views_together},
    {"lying-ends", "... nor one that reports as much after a restart", scenario_lying_ends},
    {"many-ended", "... and who comes back first is not blamed for what all report", scenario_many_ended},
    {"many-launched", "... nor for what others have launched, too, and not heard the end of", scenario_many_launched},
    {"many-killed", "views that end thousands of operations of all are nobody's fault", scenario_many_killed},
    {"lying-link", "who alone says that a link has failed goes itself", scenario_lying_link},
    {"witness-of-others", "members of another group say nothing about a peer", scenario_witness_of_others},
    {"lying-votes", "a member that votes in the round before the first one is removed", scenario_lying_votes},
    {"lying-rounds", "a member that reports rounds or outcomes that cannot be is removed", scenario_lying_rounds},
    {"lying-witness", "one member's word and a broken control connection kill nobody", scenario_lying_witness},
    {"lying-witness-of-many", "... nor more than one where the master reaches no port", scenario_lying_witness_of_many},
    {"lying-witness-of-a-restart", "... nor peers that reconnect late after a restart",
     scenario_lying_witness_of_a_restart},
    {"lying-witness-of-a-recovery", "a member says while the master recovers that others are gone, who have come back",
     scenario_lying_witness_of_a_recovery},
    {"stranger-witness", "... nor do two newcomers' words", scenario_stranger_witness},
    {"edge-unseen", "an edge is decided although the master cannot look for itself", scenario_edge_unseen},
    {"edge-seen-late", "... and as soon as it can, by what it sees", scenario_edge_seen_late},
    {"edge-said-again", "what was seen of an edge counts although its end says once more that it fails",
     scenario_edge_said_again},
    {"edge-second-word", "a word that was fresh when the edge failed counts when it is judged",
     scenario_edge_second_word},
    {"edge-of-a-new-ring", "an edge is judged when the others of its ring have had their time to fail",
     scenario_edge_of_a_new_ring},
    {"edge-vanished", "an end that does not answer goes, and not the younger", scenario_edge_vanished},
    {"edge-vanished-unseen", "... also where the master has never reached it", scenario_edge_vanished_unseen},
    {"edge-of-others", "members of another group say nothing about a ring", scenario_edge_of_others},
    {"end-gone", "a link breaks at its receiver only: its sender dials again", scenario_end_gone},
    {"end-gone-and-dialed", "... but not if it has done so already", scenario_end_gone_and_dialed},
    {"end-gone-sender-away", "... as soon as the master reaches it", scenario_end_gone_sender_away},
    {"end-gone-sender-dies", "... unless it dies at that moment", scenario_end_gone_sender_dies},
    {"end-gone-receiver-dies", "... or the receiver does", scenario_end_gone_receiver_dies},
    {"end-gone-master-dies", "... also if the master dies before it has told the sender",
     scenario_end_gone_master_dies},
    {"end-gone-lies", "who says so without an end cuts its own link only", scenario_end_gone_lies},
    {"pretender-young", "one stranger's word does not drive a young run away", scenario_pretender_young},
    {"pretender-empty", "... nor keep newcomers waiting", scenario_pretender_empty},
    {"pretender-first", "... nor the members of a run from a restarted master", scenario_pretender_first},
    {"pretender-endless", "many without an end do not keep newcomers waiting", scenario_pretender_endless},
    {"impostor", "nor is its key the token of another member", scenario_impostor},
    {"squatter", "the name of a run is not its key", scenario_squatter},
    {"hoarding", "who finishes more than a caller can have under way goes, not they", scenario_hoarding},
    {"limits", "no limit of waiting is early, and none is late", scenario_limits},
    {"mesh-forms", "all members of a small group exchange directly", scenario_mesh_forms},
    {"mesh-cut", "a link beside the ring fails: one failure, nobody goes, and an update mends it", scenario_mesh_cut},
    {"mesh-cut-stuck", "an operation is not stuck at a cut link beside the ring", scenario_mesh_cut_stuck},
    {"mesh-reset", "a reset link beside the ring is mended and changes nothing", scenario_mesh_reset},
    {"mesh-cold", "links beside the ring do not prevent an admission", scenario_mesh_cold},
    {"mesh-limit", "a large group keeps the links of its ring only", scenario_mesh_limit},
    {"mesh-restart", "a restarted master keeps direct exchange", scenario_mesh_restart},
    {"mesh-kill", "a death that all see makes one view", scenario_mesh_kill},
    {"mesh-isolated", "who loses all its links goes alone", scenario_mesh_isolated},
    {"hubs-form", "a large group opens the links that its operations would use, and an update lets them",
     scenario_hubs_form},
    {"hubs-idle", "links that no operation uses any more are closed by an update", scenario_hubs_idle},
    {"hubs-scan", "who scans asks for links between all", scenario_hubs_scan},
    {"hubs-again", "links of a former hub are opened again: moved figures wait for them", scenario_hubs_again},
    {"hubs-cut", "a link of a hub cannot be opened: the ring stays, others are hubs", scenario_hubs_cut},
    {"hubs-die", "a link of a hub dies: one failure, then the ring", scenario_hubs_die},
    {"hubs-die-together", "a link of an all-to-all's hubs dies: they go together, with one failure",
     scenario_hubs_die_together},
    {"hubs-kill", "the hub, or another end, dies while links are opened; somebody joins", scenario_hubs_kill},
    {"hubs-restart", "the master dies while links are opened, and when they stand", scenario_hubs_restart},
    {"hubs-restart-all", "the master dies while links of an all-to-all are opened: its hubs still go together",
     scenario_hubs_restart_all},
    {"hubs-restart-commit", "the master dies before it has heard that all are done", scenario_hubs_restart_commit},
    {"hubs-limit", "more members than a hub may have links", scenario_hubs_limit},
    {"hubs-and-views", "views of other groups, and such that only re-plan, between asking and update",
     scenario_hubs_and_views},
    {"hubs-subgroup", "where all pairs have links, so has a subgroup", scenario_hubs_subgroup},
    {"links-measured", "figures of links that have moved make a new view at the next update, others do not",
     scenario_measured},
    {"shared-lines", "the cost data count all flows over the line of a site; a shared rate lowers no figure",
     scenario_shared_lines},
    {"gone-words", "who comes back after its removal hears the reason", scenario_gone_words},
    {"tiny-against-bulk", "one operation started in two ways fails alike for all", scenario_two_ways},
    {"class-before-view", "an abort has one class, also while a view is under way", scenario_class},
    {"announcements", "announcements are bounded and end with their era", scenario_announcements},
    {"announced-by-others", "who is no member announces nothing that counts", scenario_announced_by_others},
    {"announced-early", "an announcement may come before the welcome", scenario_announced_early},
    {"tickets", "who has no ticket of the master's links with nobody; who has may be ahead of the view",
     scenario_tickets},
    {"late-launches", "launching what was aborted before counts as any launch", scenario_late_launches},
    {"lone-aborts", "who gives up more than the others can remember goes, not they", scenario_lone_aborts},
    {"sync-equal", "equal shared state needs no plan", scenario_sync_equal},
    {"sync-minority", "who differs is overwritten, in every order of votes", scenario_sync_minority},
    {"sync-newcomer", "a newcomer gets the state, who does not count is dragged along", scenario_sync_newcomer},
    {"deadline-of-retries", "a repeated operation keeps its deadline", scenario_deadline_of_retries},
    {"deadline-before-retry", "... also if it has passed when the operation is repeated",
     scenario_deadline_before_retry},
    {"invalid-messages", "the receiver closes the link, and operations over it end for all", scenario_invalid_messages},
    {"invalid-message-to-master", "its sender is removed when it comes back, or at the second one",
     scenario_invalid_message_to_master},
    {"invalid-message-of-master", "its receiver ends at the second one", scenario_invalid_message_of_master},
    {"another-build", "a newcomer fails at once, members wait for the right master", scenario_another_build},
    {"greetings-alone", "a master that greets and cannot go on is dialed ever less often, and then no longer",
     scenario_greetings_alone},
    {"invalid-launch", "a launch that no message can carry is refused", scenario_invalid_launch},
    {"sync-liar", "who holds other content of the digest that was elected gives nothing", scenario_sync_liar},
    {"sync-donor-dies", "another peer takes over from one that gave the state", scenario_sync_donor_dies},
    {"sync-donors-die", "all who held what was elected die: it fails for all", scenario_sync_donors_die},
    {"sync-requester-dies", "who fetches and dies is not waited for", scenario_sync_requester_dies},
    {"sync-own-failure", "one's own failure is its own, and is made good next time", scenario_sync_own_failure},
    {"sync-both-fail", "nobody is left who holds what was elected: the revision stays", scenario_sync_both_fail},
    {"sync-restart-votes", "a restarted master hears the votes again", scenario_sync_restart_votes},
    {"sync-restart-torn", "a restarted master makes another plan, half-way through transfers",
     scenario_sync_restart_torn},
    {"sync-restart-untouched", "nobody counts on what a transfer may still write into",
     scenario_sync_restart_untouched},
    {"sync-restart-complete", "a transfer that is through is not repeated after a restart",
     scenario_sync_restart_complete},
    {"sync-restart-round", "a round that one has heard of is done for all after a restart",
     scenario_sync_restart_round},
    {"sync-restart-failed", "a round that failed for one failed for all after a restart", scenario_sync_restart_failed},
    {"sync-jump", "a revision that jumps", scenario_sync_jump},
    {"sync-structure", "other tensors", scenario_sync_structure},
    {"sync-strategies", "strategies that do not go together", scenario_sync_strategies},
    {"sync-senders", "who only sends, against a majority; against another one", scenario_sync_senders},
    {"sync-alone", "a world of one", scenario_sync_alone},
    {"sync-groups", "two groups at once", scenario_sync_groups},
    {"sync-withdraw", "given up before the election, and after it", scenario_sync_withdraw},
    {"sync-withdraw-early", "given up before the plan has come: nothing is written", scenario_sync_withdraw_early},
    {"sync-grace", "a vote of a peer in grace stands", scenario_sync_grace},
    {"sync-dead-vote", "a vote dies with its peer", scenario_sync_dead_vote},
    {"sync-departing-vote", "... also if the last vote is there when the peer goes", scenario_sync_departing_vote},
    {"sync-tie", "an old hand against a newcomer", scenario_sync_tie},
    {"sync-unequal", "tensors that may differ between peers", scenario_sync_unequal},
    {"sync-unequal-lost", "... and their last holder dies", scenario_sync_unequal_lost},
    {"sync-era", "a synchronization begins an era", scenario_sync_era},
    {"sync-announced", "an announcement may come before the end of the round", scenario_sync_announced},
    {"sync-restart-harmless", "a transfer that has written nothing leaves nothing torn behind",
     scenario_sync_restart_harmless},
    {"sync-abandoned", "a round whose voters are all gone has not taken place", scenario_sync_abandoned},
    {"topology-slow-pairs", "two slow pairs of four are left out of the ring, and known ways are not tested again",
     scenario_topology_slow_pairs},
    {"topology-unreachable-pair", "a pair between which no test gets through is avoided",
     scenario_topology_unreachable_pair},
    {"topology-unreachable-member", "a member whom no test reaches stays while its links stand",
     scenario_topology_unreachable_member},
    {"topology-one-way", "a way that is slow in one direction only", scenario_topology_one_way},
    {"topology-no-ring", "no ring exists: all hear so, and nothing changes", scenario_topology_no_ring},
    {"topology-no-search", "no search can be made: failed for all, until the next call", scenario_topology_no_search},
    {"topology-few", "groups of one, two and three", scenario_topology_few},
    {"topology-links-first", "a large group adopts a ring when its links stand", scenario_topology_links_first},
    {"topology-link-fails", "a link of the ring found cannot be opened: another one is searched for",
     scenario_topology_link_fails},
    {"topology-links-fail", "... again and again: the ring stays", scenario_topology_links_fail},
    {"topology-kill-votes", "a member dies before it has voted", scenario_topology_kill_votes},
    {"topology-kill-tests", "a member dies in its tests", scenario_topology_kill_tests},
    {"topology-kill-partner", "who tested its way to one that died is free", scenario_topology_kill_partner},
    {"topology-kill-two", "two members die at once in their tests", scenario_topology_kill_two},
    {"topology-kill-search", "a member dies while a ring is searched for", scenario_topology_kill_search},
    {"topology-kill-answer", "... and the answer comes with the news of it", scenario_topology_kill_answer},
    {"topology-kill-links", "a member dies while links are waited for", scenario_topology_kill_links},
    {"topology-stopped", "a member that stops for a while costs its own ways only", scenario_topology_stopped},
    {"topology-stopped-long", "a member that stops for long is removed for its silence, not before",
     scenario_topology_stopped_long},
    {"topology-stalled", "tests that never end", scenario_topology_stalled},
    {"topology-partition", "cuts during the tests", scenario_topology_partition},
    {"topology-restart-votes", "the master restarts before all have voted", scenario_topology_restart_votes},
    {"topology-restart-tests", "... in the tests", scenario_topology_restart_tests},
    {"topology-restart-often", "... ten times, and no path is tested twice", scenario_topology_restart_often},
    {"topology-restart-stale", "... and what they show is told to nobody", scenario_topology_restart_stale},
    {"topology-restart-search", "... in the search", scenario_topology_restart_search},
    {"topology-restart-links", "... while links are waited for", scenario_topology_restart_links},
    {"topology-restart-epoch", "... when all know of the new ring, and one of the end of the round",
     scenario_topology_restart_epoch},
    {"topology-restart-round", "... and nobody", scenario_topology_restart_round},
    {"topology-restart-failed", "... when one has heard that it failed", scenario_topology_restart_failed},
    {"topology-withdraw", "a vote is taken back before the tests begin", scenario_topology_withdraw},
    {"topology-withdraw-late", "... and when they have begun, it is not", scenario_topology_withdraw_late},
    {"topology-stuck", "one optimizes and one updates: it is said", scenario_topology_stuck},
    {"topology-quiet", "nothing may be under way", scenario_topology_quiet},
    {"topology-groups", "each group ends in its own way", scenario_topology_groups},
    {"topology-background", "a ring found in the background is adopted at the next update",
     scenario_topology_background},
    {"topology-background-void", "... unless somebody has died", scenario_topology_background_void},
    {"topology-kill-loaded", "who loads the way to one that dies is free at once", scenario_topology_kill_loaded},
    {"topology-traffic-many", "an update waits for the links of the ring that it needs",
     scenario_topology_traffic_many},
    {"topology-traffic-again", "a link that degrades after a test has shown better is told again",
     scenario_topology_traffic_again},
    {"topology-jumping", "figures that jump about do not hold an update", scenario_topology_jumping},
    {"topology-background-many", "the links of a ring to come are asked for again behind a view",
     scenario_topology_background_many},
    {"topology-traffic", "an update leaves a link that carries far less than its test showed",
     scenario_topology_traffic},
    {"topology-update-waits", "a member dies while an update waits for a search", scenario_topology_update_waits},
    {"topology-describe", "anybody may ask at any time how the links are seen", scenario_topology_describe},
    {"topology-describe-starved", "a master that lacks memory sends no part of a report",
     scenario_topology_describe_starved},
    {"topology-liar", "results that nobody asked for do no harm", scenario_topology_liar},
    {"topology-false-vote", "a vote that breaks the protocol", scenario_topology_false_vote},
    {"unable-optimize", "whoever cannot take part in an optimization ends it for all, in words",
     scenario_unable_optimize},
    {"unable-and-dead", "... unless it dies first, or is in another group", scenario_unable_and_dead},
    {"unable-sync", "whoever cannot take part in a synchronization ends it for all; nobody is elected without it",
     scenario_unable_sync},
    {"shortage-at-a-neighbor", "a newcomer hears which of its neighbors has no descriptor",
     scenario_shortage_at_a_neighbor},
    {"shortage-of-a-newcomer", "... or that it has none itself", scenario_shortage_of_a_newcomer},
    {"shortage-of-two", "two that cannot dial prove nothing against the third", scenario_shortage_of_two},
    {"shortage-of-the-dialed", "whoever says that it accepts no links goes, not the one that dials it",
     scenario_shortage_of_the_dialed},
    {"shortage-and-standstill", "a master that stood still remembers who lacks descriptors",
     scenario_shortage_and_standstill},
    {"stuck-threads", "two threads await two operations of two peers, in any order: they are not stuck",
     scenario_stuck_threads},
    {"stuck-operations", "peers without other threads that wait in two operations are stuck, and end if that is set",
     scenario_stuck_operations},
    {"stuck-newcomer", "an update and an operation: the call of the fewer ends, and all go on",
     scenario_stuck_newcomer},
    {"stuck-most", "... and that of the others, if it is repeated, after three times as long", scenario_stuck_most},
    {"stuck-early", "an update ends before an operation or a synchronization of another single member",
     scenario_stuck_early},
    {"stuck-deadline", "calls that a deadline will end are not ended before it", scenario_stuck_deadline},
    {"stuck-unheard", "nothing ends while a member is unheard whose removal may free the calls",
     scenario_stuck_unheard},
    {"stuck-culprit", "the reason names who waits in the other call, not somebody who computes",
     scenario_stuck_culprit},
    {"stuck-met", "a synchronization whose plan has come is no longer stuck", scenario_stuck_met},
    {"stuck-restart", "the master restarts while calls are stuck: they end all the same", scenario_stuck_restart},
    {"stuck-tries", "a peer that only tries a call ends none of another one", scenario_stuck_tries},
    {"stuck-pending", "are_peers_pending is not stuck where another thread may make the call", scenario_stuck_pending},
    {"stuck-pending-alone", "... and is where there is none", scenario_stuck_pending_alone},
    {"stuck-pending-update", "are_peers_pending and an update never overlap at a peer: the update ends by default",
     scenario_stuck_pending_update},
    {"stuck-crossing", "a peer whose outcome has crossed its question does not wait", scenario_stuck_crossing},
    {"stuck-liar", "a peer that says that it waits ends no call of most others in stuck_ms, and by an old era none",
     scenario_stuck_liar},
    {"operator", "an operator drains and expels peers; whoever is drained interrupts nothing", scenario_operator},
    {"drain", "a peer asks for its drain, twice, in the middle of an operation: nothing fails", scenario_drain},
    {"drain-voted", "a peer asks for its drain when it has voted; another one withdraws after it has asked",
     scenario_drain_voted},
    {"drain-pending", "members that ask for pending peers hear of a drain and update", scenario_drain_pending},
    {"drain-late", "no update comes: the peer leaves after drain_ms, not before", scenario_drain_late},
    {"drain-killed", "a peer that is drained dies in the vote, and then another one beside it", scenario_drain_killed},
    {"drain-restart", "the master restarts before the drain is asked, before the vote, and after it",
     scenario_drain_restart},
    {"drain-unheard", "a drained peer is cut off when the update is decided, and hears later that it was drained",
     scenario_drain_unheard},
    {"drain-all", "all members ask for their drain", scenario_drain_all},
    {"drain-newcomer", "a newcomer asks for its drain, and goes at once", scenario_drain_newcomer},
    {"drain-liar", "a peer asks for its drain in forged votes: nobody else goes", scenario_drain_liar},
    {"members-changed", "lists of members from before a death are refused for all, then all know better",
     scenario_members_changed},
    {"members-newcomer", "one counts on a list from before a newcomer came", scenario_members_newcomer},
    {"members-order", "the same members in another order; an all-reduce that counts on members",
     scenario_members_order},
    {"members-unheard", "a list is refused in a view that another one has not heard of", scenario_members_unheard},
    {"members-restart", "the master restarts before it hears that a list is refused", scenario_members_restart},
    {"members-alone", "who is alone is told so, whatever it counted on", scenario_members_alone},
    {"members-given-up", "one launches only to say that it will not take part", scenario_members_given_up},
    {"members-given-up-restart", "the master restarts before it has heard of that, and before all have",
     scenario_members_given_up_restart},
    {"numbers-restart", "the order of members stays over restarts of the master, and newcomers are last",
     scenario_numbers_restart},
    {"numbers-anew", "one never hears of its admission, and is admitted again by another number",
     scenario_numbers_anew},
    {"lying-numbers", "a member lies about numbers of admission after a restart", scenario_lying_numbers},
    {"lying-numbers-tie", "... and there is one word against one", scenario_lying_numbers_tie},
    {"tiny-kinds", "every collective through the master, in a group that has changed", scenario_tiny_kinds},
    {"tiny-limits", "contributions that do not fit are refused", scenario_tiny_limits},
    {"tiny-restart", "the master restarts when some have contributed", scenario_tiny_restart},
    {"scan-dies", "a member dies in the middle of a scan, and the others scan again", scenario_scan_dies},
    {"tiny-commit-restart", "... when one has heard of the commit, of an empty result, too",
     scenario_tiny_commit_restart},
    {"root-dies", "the root of a broadcast dies, before it has contributed and after", scenario_root_dies},
    {"barrier-kill", "one dies on the way to a barrier", scenario_barrier_kill},
    {"blobs-in-two-steps", "blobs are moved when their lengths are known", scenario_blobs_in_two_steps},
    {"blobs-for-some", "... with a root, and of all for all", scenario_blobs_for_some},
    {"lying-sizes", "contributions of another length than is right", scenario_lying_sizes},
    {"subgroup-overlap", "two that overlap work side by side; a death beside them disturbs neither",
     scenario_subgroup_overlap},
    {"subgroup-two-die", "two members die at once in different subgroups", scenario_subgroup_two_die},
    {"subgroup-closer-dies", "who closes it dies while it does", scenario_subgroup_closer_dies},
    {"subgroup-close-alone", "who closes it does not wait for a master", scenario_subgroup_close_alone},
    {"subgroup-commit-restart", "the master restarts when one member has heard of the founding",
     scenario_subgroup_commit_restart},
    {"subgroup-founded-by-restart", "a restarted master founds a subgroup, which ends later",
     scenario_subgroup_founded_by_restart},
    {"subgroup-end-restart", "the master restarts when one member has heard of the end", scenario_subgroup_end_restart},
    {"subgroup-missing", "a member does not come back to a restarted master", scenario_subgroup_missing},
    {"subgroup-commit-first", "a member dies when all others have finished", scenario_subgroup_commit_first},
    {"subgroup-link", "a link between two members fails for good", scenario_subgroup_link},
    {"subgroup-given-up", "who gives up tells the others why", scenario_subgroup_given_up},
    {"subgroup-newcomer-link", "a link to a newcomer fails before it is in", scenario_subgroup_newcomer_link},
    {"link-before-the-answer", "a link to who has not heard from the master yet", scenario_link_before_the_answer},
    {"subgroup-lists-differ", "callers found by lists that differ", scenario_subgroup_lists_differ},
    {"subgroup-idle", "a part of the group works, the rest is idle, and outcomes are forgotten",
     scenario_subgroup_idle},
    {"subgroup-gone", "a founder is dead", scenario_subgroup_gone},
    {"subgroup-far", "links that only a subgroup needs", scenario_subgroup_far},
    {"subgroup-liars", "whoever names a subgroup that it is not in goes", scenario_subgroup_liars},
    {"founding-liar", "whoever ends a founding that it is not in goes, and the others found", scenario_founding_liar},
    {"subgroup-verdict", "who misses in an operation of few is named", scenario_subgroup_verdict},
    {"subgroup-lying-reports", "a report of a subgroup with other members, and one that nobody else reports",
     scenario_subgroup_lying_reports},
    {"pair-crossing", "sends in both directions at once, several in flight", scenario_pair_crossing},
    {"pair-third-dies", "a death beside a pair", scenario_pair_third_dies},
    {"pair-end-dies", "either end of a pair dies", scenario_pair_end_dies},
    {"pair-given-up", "one end gives up a send that the other launches later", scenario_pair_given_up},
    {"pair-mismatch", "the two ends differ", scenario_pair_mismatch},
    {"pair-link", "the link of a pair cannot be dialed", scenario_pair_link},
    {"pair-large-group", "a pair of a group without a mesh founds a subgroup", scenario_pair_large_group},
    {"pair-restart", "the master restarts between two ends", scenario_pair_restart},
    {"pair-liars", "whoever names a pair that it is not in goes", scenario_pair_liars},
    {"sends-anywhere", "bulk sends between any two of 40 peers", scenario_sends_anywhere},
    {"sends-end-dies", "either end dies while the link is dialed", scenario_sends_end_dies},
    {"sends-no-path", "there is no way from the source to the destination", scenario_sends_no_path},
    {"sends-restart", "the master restarts while links for sends are asked for", scenario_sends_restart},
    {"sends-mismatch", "only one end needs the link", scenario_sends_mismatch},
    {"sends-offered", "a tiny send is offered before its bulk receive is launched", scenario_sends_offered},
    {"sends-posted", "a receive waits without a link", scenario_sends_posted},
    {"sends-refused", "a link for a send is refused, and later the master restarts", scenario_sends_refused},
    {"sends-closed-at-once", "links for a send end as soon as they stand", scenario_sends_closed_at_once},
    {"sends-shortage", "the source of a send has no descriptors", scenario_sends_shortage},
    {"sends-anybody", "bulk sends to one that receives from anybody in a large group", scenario_sends_anybody},
    {"sends-reset", "the link is lost while a send waits for its receiver", scenario_sends_reset},
    {"sends-limit", "a peer sends to few others at a time", scenario_sends_limit},
    {"sends-views", "views come while a link for a send stands", scenario_sends_views},
    {"sends-liars", "who wants a link to itself is removed", scenario_sends_liars},
    {"group-sends-close", "the end of a subgroup ends its sends", scenario_group_sends_close},
    {"group-sends-apart", "sends of one tag keep to their subgroup", scenario_group_sends_apart},
    {"group-sends-death", "a death ends the sends of a subgroup, not other sends", scenario_group_sends_death},
    {"group-sends-restart", "a restarted master keeps sends of groups apart", scenario_group_sends_restart},
    {"group-sends-liars", "a member that names a pair outside its subgroup is removed", scenario_group_sends_liars},
    {"anybody-turns", "those who send to a receiver from anybody take turns", scenario_anybody_turns},
    {"anybody-many", "more sends wait than are offered at once", scenario_anybody_many},
    {"anybody-mixed", "receives from anybody beside one that names its peer", scenario_anybody_mixed},
    {"anybody-sender-dies", "a sender dies before it is chosen, and after that", scenario_anybody_sender_dies},
    {"anybody-receiver-dies", "a receiver from anybody dies, and at last is alone", scenario_anybody_receiver_dies},
    {"anybody-given-up", "either end gives up before anybody is chosen, and after that", scenario_anybody_given_up},
    {"anybody-mismatch", "what is chosen does not fit", scenario_anybody_mismatch},
    {"anybody-restart", "the master restarts while receives are open", scenario_anybody_restart},
    {"anybody-alone", "... and of one that is alone while it hears that others are coming", scenario_anybody_alone},
    {"anybody-liars", "whoever asks for too many tags goes", scenario_anybody_liars},
    {"choice-follows", "the level of an automatic codec goes down, up, and begins anew", scenario_choice_follows},
    {"choice-waits", "who waits for the others does not lower the level", scenario_choice_waits},
    {"choice-restart", "the master restarts when one member has heard of the next level", scenario_choice_restart},
    {"choice-replan", "the first view of a restarted master only re-plans, and the level stays",
     scenario_choice_replan},
    {"choice-undecided", "a restarted master commits what all have finished, and keeps the level",
     scenario_choice_undecided},
    {"choice-missed-views", "a newcomer comes and goes unheard by one member, and the master restarts",
     scenario_choice_missed_views},
    {"choice-liar", "a peer lies about how long an operation took", scenario_choice_liar},
    {"choice-share", "the budget is a share of the time between uses, with pauses and aborts", scenario_choice_share},
    {"choice-share-restart", "a restarted master knows what lay between uses", scenario_choice_share_restart},
    {"choice-share-liar", "a peer lies about what lay between uses", scenario_choice_share_liar},
    {"verdicts-of-models", "what is planted in ten thousand modeled groups is found, and nothing else",
     scenario_verdicts_of_models},
    {"verdicts-of-two-rings", "another ring shows whether it is a link, or a sender or receiver",
     scenario_verdicts_of_two_rings},
    {"verdicts-all-alike", "where all are slow alike nobody is to blame", scenario_verdicts_all_alike},
    {"verdicts-of-liars", "the reports of most members count, not the claims of others", scenario_verdicts_of_liars},
    {"verdicts-lies", "wild reports do no harm", scenario_verdicts_lies},
    {"verdicts-lies-of-outcomes", "nobody is blamed for an outcome by name", scenario_verdicts_lies_of_outcomes},
    {"verdicts-told", "all members are told what begins and ends, and newcomers what holds", scenario_verdicts_told},
    {"verdicts-death", "a verdict ends with the membership of its peer", scenario_verdicts_death},
    {"verdicts-restart", "a restarted master begins anew", scenario_verdicts_restart},
    {"verdicts-of-nobody", "all who have reported go", scenario_verdicts_of_nobody},
    {"replan-goes-on", "what is under way begins again along another ring, and nobody fails", scenario_replan_goes_on},
    {"replan-heard-late", "... and who is done in the view before is not done", scenario_replan_heard_late},
    {"replan-after-failure", "... also where a link has failed it before", scenario_replan_after_failure},
    {"replan-after-abort", "... unless its caller has ended it, or its peer failed", scenario_replan_after_abort},
    {"replan-has-to-wait", "... and only when no other view, abort or quiet call is on its way",
     scenario_replan_has_to_wait},
    {"replan-and-death", "... somebody dies right behind it: one failure", scenario_replan_and_death},
    {"replan-and-restart", "... the master restarts right behind it", scenario_replan_and_restart},
    {"replan-and-unheard-view", "... also when it has made another view that nobody has heard of",
     scenario_replan_and_unheard_view},
    {"replan-and-choice", "... some launch an automatic codec's first use behind it", scenario_replan_and_choice},
    {"slow-link-is-left", "the ring leaves a slow link at an update that members are asked for",
     scenario_slow_link_is_left},
    {"slow-link-is-left-at-once", "... or at once, if what is under way gains enough by it",
     scenario_slow_link_is_left_at_once},
    {"slow-link-mends", "... unless it is sound again by then", scenario_slow_link_mends},
    {"slow-link-is-worth-it-no-more", "... or its operations show that it carries more",
     scenario_slow_link_is_worth_it_no_more},
    {"slow-links-at-once", "two links are slow at a time, and mend", scenario_slow_links_at_once},
    {"slow-link-and-newcomer", "somebody joins when the better ring is known, and the link mends",
     scenario_slow_link_and_newcomer},
    {"slow-link-and-death", "somebody dies when the better ring is known", scenario_slow_link_and_death},
    {"slow-link-and-restart", "the master restarts when the better ring is known", scenario_slow_link_and_restart},
    {"slow-peer-among-fast", "a slow peer is named, and no peer that waits for it", scenario_slow_peer_among_fast},
    {"slow-links-everywhere", "the ring does not go to and fro", scenario_slow_links_everywhere},
    {"slow-links-of-two-sites", "of slow links between sites no peer is blamed", scenario_slow_links_of_two_sites},
    {"slow-peer-goes", "a slow peer is expelled after a limit, and stays out for longer each time",
     scenario_slow_peer_goes},
    {"slow-peer-is-known", "... by its name and its address", scenario_slow_peer_is_known},
    {"slow-peer-without-name", "... and not at all if its name was not chosen", scenario_slow_peer_without_name},
    {"slow-peer-stays", "... but not before the limit, and not if too few would remain", scenario_slow_peer_stays},
    {"slow-peer-is-needed", "... and comes back at once if too few have remained", scenario_slow_peer_is_needed},
    {"slow-sender-of-three-goes", "a ring whose links are tried shows it", scenario_slow_sender_of_three_goes},
    {"slow-sender-of-four-goes", "a ring whose links are tried shows it", scenario_slow_sender_of_four_goes},
    {"slow-sender-of-eight-goes", "a ring whose links are tried shows it", scenario_slow_sender_of_eight_goes},
    {"slow-receiver-of-three-goes", "a ring whose links are tried shows it", scenario_slow_receiver_of_three_goes},
    {"slow-receiver-of-four-goes", "a ring whose links are tried shows it", scenario_slow_receiver_of_four_goes},
    {"slow-receiver-of-eight-goes", "a ring whose links are tried shows it", scenario_slow_receiver_of_eight_goes},
    {"slow-peers-one-by-one", "... and no other one before the limit has passed again", scenario_slow_peers_one_by_one},
    {"accuser-repeats", "a report that names a peer eight times is invalid", scenario_accuser_repeats},
    {"accusers-of-a-receiver", "two of five do not expel a third one, nor three in one report",
     scenario_accusers_of_a_receiver},
    {"accusers-without-links", "... nor by links that no operation uses", scenario_accusers_without_links},
    {"accusers-of-a-sender", "... nor by claims to be faster", scenario_accusers_of_a_sender},
    {"accuser-with-many-links", "many links have one vote", scenario_accuser_with_many_links},
    {"accuser-of-two", "one of two does not expel the other one", scenario_accuser_of_two},
    {"accuser-of-itself", "only a peer that reports itself as slow is expelled", scenario_accuser_of_itself},
    {"verdicts-early", "whoever comes long before most others blames nobody", scenario_verdicts_early},
    {"crowd-costs", "newcomers cost by their number, and nothing while nothing changes", scenario_crowd_costs},
    {"crowd-of-a-group", "who comes from elsewhere does not queue behind a crowd", scenario_crowd_of_a_group},
    {"crowd-of-an-address", "one address has its share of the places to wait, and no more",
     scenario_crowd_of_an_address},
    {"crowd-makes-room", "where all wait who may, the most crowded address makes room", scenario_crowd_makes_room},
    {"crowd-asked-later", "whom the master could not ask, for want of descriptors, it asks later",
     scenario_crowd_asked_later},
    {"crowd-was-not-asked", "a dial that was none, for want of descriptors, is no answer",
     scenario_crowd_was_not_asked},
    {"token-revoked", "whose token is revoked goes and stays out, and the others go on", scenario_token_revoked},
    {"token-revoked-afar", "the same of one that is cut off", scenario_token_revoked_afar},
    {"handshake-join", "a newcomer's handshake with the master fails", scenario_handshake_join},
    {"handshake-return", "that of a member that comes back fails, under an operation", scenario_handshake_return},
    {"handshake-link", "that of a link that broke fails", scenario_handshake_link},
    {"handshake-newcomer", "that of a newcomer's link fails", scenario_handshake_newcomer},
    {"handshake-state", "those with the donors of shared state fail", scenario_handshake_state},
    {"handshake-test", "those of tests of paths fail", scenario_handshake_test},
    {"handshake-revoked", "whose token is revoked is kept out by its handshake", scenario_handshake_revoked},
    {"crowd-at-the-door", "a flood of connections crowds out itself", scenario_crowd_at_the_door},
    {"crowd-connects-again", "newcomers that a busy master drops come back and get in", scenario_crowd_connects_again},
    {"crowd-dials", "members try a newcomer's addresses a few times, not again and again", scenario_crowd_dials},
    {"crowd-listens-nowhere", "the first of a new group that listens nowhere is turned away",
     scenario_crowd_listens_nowhere},
    {"crowd-says-hello-only", "the first of a new group that nobody reaches must be heard to be admitted",
     scenario_crowd_says_hello_only},
    {"crowd-never-calls", "the first of a new group holds up the others for so long only", scenario_crowd_never_calls},
};
const uint32_t sim_scenario_count = PCCL_COUNT_OF(sim_scenarios);
