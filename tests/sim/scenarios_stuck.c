/* Scenarios of PROTOCOL 9.6: calls that can never match, which of these end, and how the run continues. */
#include "scenario.h"
#include "master/rounds_election.h"
#include "peer/where.h"

#include <stdio.h>
#include <string.h>

enum { STUCK_MS = 1000 };

static struct sim_peer *p[4]; /* peers of the running scenario */

/* `count` members of one group, whose calls end when they are stuck; with `threads` each is called by two threads. */
static void begin(struct sim *sim, uint32_t count, bool threads)
{
    scenario_cluster(sim, p, count, 1);
    for (uint32_t i = 0; i < count; i++) {
        p[i]->machine->config.stuck_ms = STUCK_MS;
        p[i]->machine->config.where_ms = 100;
        p[i]->machine->config.stuck_is_set = true;
        p[i]->thread = threads ? 2 : 1;
        scenario_hold(p[i], 5, 0);
    }
    scenario_commit_all(sim, p, count, 9, 1);
    for (uint32_t i = 0; i < count; i++)
        p[i]->thread = 1;
}

/* Sets whether the programs have set stuck_ms. */
static void set_by_program(uint32_t count, bool set)
{
    for (uint32_t i = 0; i < count; i++)
        p[i]->machine->config.stuck_is_set = set;
}

static bool says(const struct sim_peer *peer, const char *words)
{
    return strstr(pccl_peer_waiting(peer->machine)->bytes, words) != NULL;
}

static bool is_said_to_be_stuck(const struct sim_peer *peer) { return says(peer, "can never meet"); }

/* Launches an operation that may be ended. */
static struct pccl_peer_op *begin_step(struct sim *sim, struct sim_peer *peer, uint64_t tag, bool tiny)
{
    struct pccl_peer_op *op = scenario_launch(sim, peer, tag, tag, tiny, 0);
    sim_check_failing(sim, peer, op);
    return op;
}

static void must_be_refused(struct sim *sim, struct sim_peer *peer, enum pccl_call call)
{
    MUST(sim, sim_peer_call(sim, peer, call) == PCCL_USAGE);
}

static void must_end(struct sim *sim, struct sim_peer *peer, enum pccl_call call, uint32_t within_ms)
{
    WAIT(sim, within_ms, scenario_is_over(peer, call));
    MUST(sim, peer->app.call_status[call] == PCCL_TIMEOUT);
    MUST(sim, strstr(pccl_peer_last_reason(peer->machine)->bytes, "stuck_ms passed") != NULL);
    MUST(sim, strstr(pccl_peer_last_reason(peer->machine)->bytes, "can never meet: ") != NULL);
}

static void must_fail(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    WAIT(sim, 500, scenario_is_decided(op));
    MUST(sim, strstr(op->reason.bytes, "stuck_ms passed") != NULL);
    MUST(sim, scenario_take(sim, peer, op) == PCCL_CLASS_DEADLINE);
}

static void must_commit(struct sim *sim, struct pccl_peer_op *ops[3])
{
    for (int i = 0; i < 3; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

/* Checks that all continue, with the calls that they should have made. */
static void go_on(struct sim *sim, uint32_t count)
{
    scenario_update_all(sim, p, count);
    scenario_commit_all(sim, p, count, 8, 2);
}

/*
 * Two threads of each of two peers: one awaits a small operation, the other one has yet to start the other peer's
 * operation. Nothing shows that it will not.
 */
SCENARIO(stuck_threads)
{
    begin(sim, 2, true);
    struct pccl_peer_op *a[2], *b[2];
    a[0] = scenario_tiny(sim, p[0], 1, 1);
    b[0] = scenario_tiny(sim, p[1], 2, 2);
    scenario_run_ms(sim, 6 * STUCK_MS);
    MUST(sim, !scenario_is_decided(a[0]) && !scenario_is_decided(b[0]));
    MUST(sim, !is_said_to_be_stuck(p[0]) && !is_said_to_be_stuck(p[1]));
    p[0]->thread = p[1]->thread = 2;
    b[1] = scenario_tiny(sim, p[0], 2, 2);
    a[1] = scenario_tiny(sim, p[1], 1, 1);
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 100, scenario_is_decided(a[i]) && scenario_is_decided(b[i]));
        MUST(sim, scenario_take(sim, p[i], a[i]) == PCCL_CLASS_NONE);
        MUST(sim, scenario_take(sim, p[1 - i], b[i]) == PCCL_CLASS_NONE);
    }
}

/* Peers with one thread cannot do that: it is reported, and ends if the program has set stuck_ms. */
SCENARIO(stuck_operations)
{
    begin(sim, 2, false);
    set_by_program(2, false);
    struct pccl_peer_op *a = begin_step(sim, p[0], 1, true), *b = begin_step(sim, p[1], 2, true);
    WAIT(sim, 1000, is_said_to_be_stuck(p[0]) && is_said_to_be_stuck(p[1]));
    MUST(sim, says(p[0], "all-reduce tag 2") && says(p[0], "in the same order"));
    scenario_run_ms(sim, 6 * STUCK_MS);
    MUST(sim, !scenario_is_decided(a) && !scenario_is_decided(b));
    p[0]->machine->config.stuck_is_set = true;
    WAIT(sim, 3 * STUCK_MS, scenario_is_decided(a));
    must_fail(sim, p[0], a);
    b = scenario_tiny(sim, p[0], 2, 2);
    WAIT(sim, 100, scenario_is_decided(b));
    MUST(sim, scenario_take(sim, p[0], b) == PCCL_CLASS_NONE);
}

/* A bulk operation of two threads and an update: no thread can help, as the one keeps out the other at each peer. */
SCENARIO(stuck_newcomer)
{
    begin(sim, 3, true);
    struct pccl_peer_op *ops[3] = {begin_step(sim, p[0], 1, false), begin_step(sim, p[1], 1, false)};
    scenario_update(sim, p[2]);
    must_end(sim, p[2], PCCL_CALL_UPDATE, 3 * STUCK_MS);
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "pcclUpdateTopology") != NULL);
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "newcomer") != NULL);
    MUST(sim, !scenario_is_decided(ops[0]) && !scenario_is_decided(ops[1])); /* most have entered: they end later */
    sim->bulk_by_hand = false;
    ops[2] = scenario_launch(sim, p[2], 1, 1, false, 0);
    must_commit(sim, ops);
    go_on(sim, 3);
}

/* A peer that repeats the wrong call holds up the others for three times as long. */
SCENARIO(stuck_most)
{
    begin(sim, 3, true);
    struct pccl_peer_op *ops[2] = {begin_step(sim, p[0], 1, false), begin_step(sim, p[1], 1, false)};
    uint64_t began = sim->now;
    for (uint32_t calls = 0; !scenario_is_decided(ops[0]); calls++) {
        MUST(sim, calls < 6);
        scenario_update(sim, p[2]);
        WAIT(sim, 3 * STUCK_MS, scenario_is_over(p[2], PCCL_CALL_UPDATE) || scenario_is_decided(ops[0]));
    }
    MUST(sim, sim->now >= began + 3 * STUCK_MS * SIM_MS);
    must_fail(sim, p[0], ops[0]);
    must_fail(sim, p[1], ops[1]);
    if (scenario_is_over(p[2], PCCL_CALL_UPDATE))
        scenario_update(sim, p[2]);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 100, scenario_is_over(p[2], PCCL_CALL_UPDATE));
    go_on(sim, 3);
}

/*
 * While a third member computes, the one that makes the right call is alone with it, as the one that updates is; the
 * latter asks later, and ends first all the same.
 */
SCENARIO(stuck_early)
{
    begin(sim, 3, true);
    scenario_update(sim, p[2]);
    scenario_run_ms(sim, 170);
    p[0]->machine->config.where_ms = 10;
    struct pccl_peer_op *ops[3] = {begin_step(sim, p[0], 1, false)};
    must_end(sim, p[2], PCCL_CALL_UPDATE, 3 * STUCK_MS);
    MUST(sim, !scenario_is_decided(ops[0]));
    sim->bulk_by_hand = false;
    for (int i = 1; i < 3; i++)
        ops[i] = scenario_launch(sim, p[i], 1, 1, false, 0);
    must_commit(sim, ops);
    sim->state_by_hand = false;
    scenario_update(sim, p[2]);
    scenario_run_ms(sim, 170);
    scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
    must_end(sim, p[2], PCCL_CALL_UPDATE, 3 * STUCK_MS);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_SYNC));
    for (int i = 1; i < 3; i++)
        scenario_sync(sim, p[i], PCCL_ENFORCE_POPULAR);
    for (int i = 0; i < 3; i++) {
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_SYNC));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK);
    }
}

/* Operations with a deadline longer than stuck_ms end only by that, and then their callers enter the update. */
SCENARIO(stuck_deadline)
{
    begin(sim, 3, true);
    set_by_program(3, false);
    for (int i = 0; i < 3; i++)
        p[i]->machine->config.op_timeout_ms = 4 * STUCK_MS;
    struct pccl_peer_op *ops[2] = {begin_step(sim, p[0], 1, false), begin_step(sim, p[1], 1, false)};
    scenario_update(sim, p[2]);
    WAIT(sim, 5 * STUCK_MS, scenario_is_decided(ops[0]) && scenario_is_decided(ops[1]));
    for (int i = 0; i < 2; i++) {
        MUST(sim, strstr(ops[i]->reason.bytes, "stuck_ms") == NULL);
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_DEADLINE);
    }
    MUST(sim, !scenario_is_over(p[2], PCCL_CALL_UPDATE));
    scenario_update_all(sim, p, 2);
    WAIT(sim, 100, scenario_is_over(p[2], PCCL_CALL_UPDATE));
    p[2]->machine->config.op_timeout_ms = 0;
    p[2]->machine->config.call_timeout_ms = 6 * STUCK_MS;
    scenario_update(sim, p[2]);
    ops[0] = begin_step(sim, p[0], 2, false);
    scenario_run_ms(sim, 3 * STUCK_MS);
    MUST(sim, is_said_to_be_stuck(p[2]) && !scenario_is_over(p[2], PCCL_CALL_UPDATE));
    WAIT(sim, 2 * STUCK_MS, scenario_is_decided(ops[0]));
    MUST(sim, scenario_take(sim, p[0], ops[0]) == PCCL_CLASS_DEADLINE);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 100, scenario_is_over(p[2], PCCL_CALL_UPDATE));
}

/* While a member is silent, its removal may end the operation, so that its callers enter the update. */
SCENARIO(stuck_unheard)
{
    begin(sim, 3, true);
    p[0]->machine->config.stuck_ms = 0;
    p[2]->machine->config.stuck_ms = 2200; /* the silence is seen before that has passed, and p1 removed after it */
    struct pccl_peer_op *op = begin_step(sim, p[0], 1, false);
    scenario_update(sim, p[2]);
    scenario_run_ms(sim, STUCK_MS / 2);
    MUST(sim, is_said_to_be_stuck(p[2]));
    sim_process_stop(sim, &p[1]->process, sim->now + 60 * SIM_S);
    WAIT(sim, 20 * STUCK_MS, scenario_is_decided(op) || scenario_is_over(p[2], PCCL_CALL_UPDATE));
    MUST(sim, !scenario_is_over(p[2], PCCL_CALL_UPDATE));
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_PEER_LOST);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 100, scenario_is_over(p[2], PCCL_CALL_UPDATE));
}

/* The other callers compute, and only one, which is not among the first, waits in another call: that one is named. */
SCENARIO(stuck_culprit)
{
    enum { COUNT = 20 };
    struct sim_peer *peers[COUNT];
    scenario_cluster(sim, peers, COUNT, 1);
    uint32_t oldest = 0, latest = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        peers[i]->machine->config.stuck_ms = STUCK_MS;
        peers[i]->machine->config.where_ms = 100;
        if (pccl_id_equal(&peers[i]->id, &sim->master->machine->remotes[0]->id))
            oldest = i;
        if (pccl_id_equal(&peers[i]->id, &sim->master->machine->remotes[COUNT - 1]->id))
            latest = i;
    }
    peers[latest]->machine->config.stuck_ms = 0;
    begin_step(sim, peers[latest], 1, false);
    scenario_update(sim, peers[oldest]);
    must_end(sim, peers[oldest], PCCL_CALL_UPDATE, 4 * STUCK_MS);
    char words[64];
    (void)snprintf(words, sizeof words, "waits for peer %s 'p%u' (in all-reduce tag 1", pccl_id_str(&peers[latest]->id),
                   peers[latest]->process.number);
    MUST(sim, strstr(pccl_peer_last_reason(peers[oldest]->machine)->bytes, words) != NULL);
}

/* The last answer that ends a synchronization, and the plan of it, arrive together. */
SCENARIO(stuck_met)
{
    begin(sim, 3, true);
    sim->state_by_hand = false;
    scenario_hold(p[0], 6, 0); /* it must fetch the others' content */
    struct pccl_peer *first = p[0]->machine;
    scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
    scenario_sync(sim, p[1], PCCL_ENFORCE_POPULAR);
    scenario_run_ms(sim, 50);
    scenario_sync(sim, p[2], PCCL_ENFORCE_POPULAR);
    struct pccl_place place = {.peer = p[2]->id, .state = PCCL_PLACE_ELSEWHERE, .call = PCCL_CALL_UPDATE};
    first->calls[PCCL_ROUND_SYNC].stuck_since_us = 1;
    pccl_peer_take_places(first, &(struct pccl_msg_who_is_where){.call = PCCL_CALL_SYNC,
                                                                 .round = first->rounds[PCCL_ROUND_SYNC],
                                                                 .stuck = PCCL_STUCK_CERTAIN,
                                                                 .missing = 1,
                                                                 .places = &place,
                                                                 .places_count = 1});
    MUST(sim, first->calls[PCCL_ROUND_SYNC].stuck);
    for (int i = 0; i < 3; i++) {
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_SYNC));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK);
    }
}

/* One synchronizes and the other one updates; the master restarts, and knows of their votes again. */
SCENARIO(stuck_restart)
{
    begin(sim, 2, true);
    scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, STUCK_MS / 2);
    scenario_restart_master(sim, 200);
    WAIT(sim, 6 * STUCK_MS, scenario_is_over(p[0], PCCL_CALL_SYNC) || scenario_is_over(p[1], PCCL_CALL_UPDATE));
    if (scenario_is_over(p[0], PCCL_CALL_SYNC)) {
        must_end(sim, p[0], PCCL_CALL_SYNC, 0);
        scenario_run_ms(sim, STUCK_MS);
        scenario_update(sim, p[0]);
        if (scenario_is_over(p[1], PCCL_CALL_UPDATE))
            scenario_update(sim, p[1]);
    } else {
        must_end(sim, p[1], PCCL_CALL_UPDATE, 0);
        scenario_run_ms(sim, STUCK_MS);
        MUST(sim, !scenario_is_over(p[0], PCCL_CALL_SYNC)); /* the other one has ended, so this one may be met */
        scenario_withdraw(sim, p[0], PCCL_CALL_SYNC);
        WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_SYNC));
        scenario_update_all(sim, p, 2);
    }
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_UPDATE) && scenario_is_over(p[1], PCCL_CALL_UPDATE));
    go_on(sim, 2);
    scenario_sync_all(sim, p, 2, 5, 0);
}

/* A peer that tries a call for a short time and then makes the right one ends no call of another peer. */
SCENARIO(stuck_tries)
{
    begin(sim, 2, true);
    scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
    bool said = false;
    for (int i = 0; i < 20; i++) {
        scenario_update(sim, p[1]);
        scenario_run_ms(sim, 400);
        said = said || is_said_to_be_stuck(p[0]);
        scenario_withdraw(sim, p[1], PCCL_CALL_UPDATE);
        scenario_run_ms(sim, 600);
        MUST(sim, !scenario_is_over(p[0], PCCL_CALL_SYNC));
    }
    MUST(sim, said);
    scenario_sync(sim, p[1], PCCL_ENFORCE_POPULAR);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_SYNC) && scenario_is_over(p[1], PCCL_CALL_SYNC));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[1]) == PCCL_OK);
}

/* are_peers_pending runs beside operations: another thread can still make the call that is missing. */
SCENARIO(stuck_pending)
{
    begin(sim, 2, true);
    scenario_pending(sim, p[0]);
    struct pccl_peer_op *ops[2] = {NULL, scenario_tiny(sim, p[1], 1, 1)};
    scenario_run_ms(sim, 6 * STUCK_MS);
    MUST(sim, !is_said_to_be_stuck(p[0]) && !scenario_is_over(p[0], PCCL_CALL_PENDING));
    MUST(sim, !is_said_to_be_stuck(p[1]) && !scenario_is_decided(ops[1]));
    scenario_pending(sim, p[1]);
    ops[0] = scenario_tiny(sim, p[0], 1, 1);
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 100, scenario_is_over(p[i], PCCL_CALL_PENDING) && scenario_is_decided(ops[i]));
        MUST(sim, p[i]->app.call_status[PCCL_CALL_PENDING] == PCCL_OK);
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

/* ... and without another thread none can; but one that has made no call yet may exist, so nothing ends by default. */
SCENARIO(stuck_pending_alone)
{
    begin(sim, 2, false);
    set_by_program(2, false);
    scenario_pending(sim, p[0]);
    struct pccl_peer_op *op = begin_step(sim, p[1], 1, true);
    scenario_run_ms(sim, 4 * STUCK_MS);
    MUST(sim, is_said_to_be_stuck(p[0]) && is_said_to_be_stuck(p[1]));
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_PENDING) && !scenario_is_decided(op));
    set_by_program(2, true);
    must_end(sim, p[0], PCCL_CALL_PENDING, 3 * STUCK_MS);
    MUST(sim, says(p[1], "pcclArePeersPending"));
    MUST(sim, !scenario_is_decided(op));
    op = scenario_tiny(sim, p[0], 1, 1);
    WAIT(sim, 100, scenario_is_decided(op));
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_NONE);
}

/* A peer in a pending call makes no quiet call, nor the reverse, whatever its threads do: one of them ends by default.
 */
SCENARIO(stuck_pending_update)
{
    begin(sim, 2, true);
    set_by_program(2, false);
    scenario_pending(sim, p[0]);
    scenario_update(sim, p[1]);
    must_be_refused(sim, p[0], PCCL_CALL_UPDATE);
    must_be_refused(sim, p[0], PCCL_CALL_OPTIMIZE);
    must_be_refused(sim, p[1], PCCL_CALL_PENDING);
    must_end(sim, p[1], PCCL_CALL_UPDATE, 2 * STUCK_MS);
    MUST(sim, strstr(pccl_peer_last_reason(p[1]->machine)->bytes, "pcclArePeersPending") != NULL);
    scenario_run_ms(sim, 2 * STUCK_MS);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_PENDING));
    scenario_pending(sim, p[1]);
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 100, scenario_is_over(p[i], PCCL_CALL_PENDING));
        MUST(sim, p[i]->app.call_status[PCCL_CALL_PENDING] == PCCL_OK);
    }
    scenario_sync(sim, p[0], PCCL_ENFORCE_POPULAR);
    scenario_pending(sim, p[1]);
    must_be_refused(sim, p[0], PCCL_CALL_PENDING);
    must_end(sim, p[1], PCCL_CALL_PENDING, 2 * STUCK_MS);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_SYNC));
    scenario_sync(sim, p[1], PCCL_ENFORCE_POPULAR);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_SYNC) && scenario_is_over(p[1], PCCL_CALL_SYNC));
    go_on(sim, 2);
}

/* The report of a waiting peer and its outcome cross; the peer's actions after that are its own work. */
SCENARIO(stuck_crossing)
{
    begin(sim, 2, true);
    struct pccl_peer_op *a = scenario_tiny(sim, p[0], 1, 1), *b;
    scenario_run_ms(sim, 50);
    scenario_control(sim, p[0], false);
    scenario_run_ms(sim, 200);
    b = scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 100, scenario_is_decided(b));
    scenario_control(sim, p[0], true);
    WAIT(sim, 1000, scenario_is_decided(a));
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    scenario_run_ms(sim, 1000);
    MUST(sim, sim->master->machine->remotes[0]->where.call == PCCL_CALL_NONE);
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, 6 * STUCK_MS);
    MUST(sim, !is_said_to_be_stuck(p[1]) && !scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_update_all(sim, p, 1);
}

/* One of three reports that it waits in an operation that no peer has started. */
SCENARIO(stuck_liar)
{
    begin(sim, 3, true);
    scenario_update(sim, p[0]);
    scenario_update(sim, p[1]);
    struct pccl_msg lie = {.type = PCCL_MSG_where,
                           .as.where = {.call = PCCL_CALL_OPERATION,
                                        .instance = {.joint = pccl_master_joint(sim->master->machine), .tag = 4}}};
    scenario_forge(sim, p[2], &lie);
    scenario_run_ms(sim, STUCK_MS + STUCK_MS / 2);
    MUST(sim, says(p[0], "'p2'") && is_said_to_be_stuck(p[0]));
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_UPDATE) && !scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_update_all(sim, p + 2, 1);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_UPDATE) && scenario_is_over(p[1], PCCL_CALL_UPDATE));
    lie.as.where.instance.joint -= 1; /* of an era that has ended, which shows that it is not one */
    scenario_forge(sim, p[2], &lie);
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 4 * STUCK_MS);
    MUST(sim, !is_said_to_be_stuck(p[0]) && !scenario_is_over(p[0], PCCL_CALL_UPDATE));
}
