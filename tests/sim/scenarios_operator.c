/* Scenarios of drains: an operator drains and expels peers, and peers ask for their own drain. */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[5]; /* peers of the running scenario */

/* Sends a command, whose answer must be this, with these words. */
static void command(struct sim *sim, enum pccl_master_command what, const struct pccl_id *peer, bool done,
                    const char *words)
{
    struct pccl_master_answer answer = {.done = !done};
    struct pccl_master_event event = {
        .kind = PCCL_MASTER_COMMAND, .now_us = sim->now, .command = what, .result = &answer};
    if (peer != NULL)
        event.peer = *peer;
    pccl_text_clear(&answer.words);
    sim_master_event(sim, sim->master, &event);
    if (answer.done != done || strstr(answer.words.bytes, words) == NULL)
        sim_fail(sim, "I12 a command is answered with %d: %s", answer.done, answer.words.bytes);
}

/* Its call has ended, as it was drained. */
static void went(struct sim *sim, struct sim_peer *peer, enum pccl_call call)
{
    WAIT(sim, 10000, scenario_is_over(peer, call));
    MUST(sim, peer->app.call_status[call] == PCCL_DRAINED && !pccl_peer_is_connected(peer->machine));
}

/* A drained member works until all update, without failures; an expelled one departs at once. */
SCENARIO(operator)
{
    static const struct pccl_id nobody = {{7}};
    scenario_cluster(sim, p, 4, 1);
    command(sim, PCCL_COMMAND_DRAIN, &nobody, false, "no such peer");
    command(sim, PCCL_COMMAND_OPTIMIZE, NULL, false, "nothing to search");
    command(sim, PCCL_COMMAND_DRAIN, &p[3]->id, true, "next topology update");
    scenario_commit_all(sim, p, 4, 1, 1);
    scenario_update(sim, p[3]);
    scenario_update_all(sim, p, 3);
    went(sim, p[3], PCCL_CALL_UPDATE);
    scenario_commit_all(sim, p, 3, 1, 2);

    p[4] = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, 100);
    command(sim, PCCL_COMMAND_DRAIN, &p[4]->id, true, " removed"); /* no member counts on a newcomer */
    went(sim, p[4], PCCL_CALL_CONNECT);

    struct pccl_peer_op *ops[] = {scenario_bulk(sim, p[0], 2, 3), scenario_bulk(sim, p[1], 2, 3)};
    command(sim, PCCL_COMMAND_EXPEL, &p[2]->id, true, " removed");
    command(sim, PCCL_COMMAND_EXPEL, &p[2]->id, false, "no such peer"); /* it is already being removed */
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_commit_all(sim, p, 2, 2, 3);
    MUST(sim, scenario_departures(sim) == 3);
}

/* ---- peers that ask for their own drain ---- */

static void drain(struct sim *sim, struct sim_peer *peer)
{
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_DRAIN});
}

/* Lets the departing members update and leave; then the staying ones update. */
static void update_without(struct sim *sim, struct sim_peer **going, uint32_t going_count, struct sim_peer **staying,
                           uint32_t staying_count)
{
    for (uint32_t i = 0; i < going_count; i++)
        scenario_update(sim, going[i]);
    scenario_run_ms(sim, 300);
    for (uint32_t i = 0; i < going_count; i++) /* not before all have voted */
        MUST(sim, pccl_peer_is_connected(going[i]->machine));
    scenario_update_all(sim, staying, staying_count);
    for (uint32_t i = 0; i < going_count; i++)
        went(sim, going[i], PCCL_CALL_UPDATE);
    for (uint32_t i = 0; i < staying_count; i++)
        MUST(sim, pccl_peer_is_connected(staying[i]->machine) && staying[i]->machine->member_count == staying_count);
}

/* A peer requests its drain twice during an operation: no operation fails. */
SCENARIO(drain)
{
    struct pccl_peer_op *ops[4];
    scenario_cluster(sim, p, 4, 1);
    for (int i = 0; i < 4; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    drain(sim, p[3]);
    drain(sim, p[3]);
    scenario_run_ms(sim, 100);
    for (int i = 0; i < 4; i++)
        sim_bulk_finish(sim, p[i], ops[i]);
    for (int i = 0; i < 4; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
    scenario_commit_all(sim, p, 4, 1, 2);
    drain(sim, p[3]);
    update_without(sim, p + 3, 1, p, 3);
    scenario_commit_all(sim, p, 3, 1, 3);
    drain(sim, p[3]); /* over: nothing happens */
    MUST(sim, scenario_departures(sim) == 1);
}

/* A peer requests its drain after its vote; another one withdraws its vote after its request. */
CLUSTER_SCENARIO(drain_voted, 4, 1)
{
    scenario_update(sim, p[3]);
    scenario_run_ms(sim, 100);
    drain(sim, p[3]);
    drain(sim, p[2]);
    scenario_update(sim, p[2]);
    scenario_withdraw(sim, p[2], PCCL_CALL_UPDATE);
    scenario_run_ms(sim, 100);
    MUST(sim, scenario_is_over(p[2], PCCL_CALL_UPDATE) && p[2]->app.call_status[PCCL_CALL_UPDATE] == PCCL_ABORTED);
    update_without(sim, p + 2, 1, p, 2);
    went(sim, p[3], PCCL_CALL_UPDATE);
    scenario_commit_all(sim, p, 2, 1, 1);

    /* The answer to its vote is under way when it asks: it stays a member until the next update. */
    p[2] = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, 200);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    scenario_update(sim, p[2]);
    scenario_run_ms(sim, 100);
    scenario_control(sim, p[2], false);
    scenario_update_all(sim, p, 2);
    drain(sim, p[2]);
    scenario_control(sim, p[2], true);
    WAIT(sim, 1000, scenario_is_over(p[2], PCCL_CALL_UPDATE));
    MUST(sim, p[2]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK);
    update_without(sim, p + 2, 1, p, 2);

    /* A vote that it takes back, as the master does not know yet, is not cast again. */
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, 100);
    scenario_control(sim, p[1], false);
    scenario_withdraw(sim, p[1], PCCL_CALL_UPDATE);
    drain(sim, p[1]);
    scenario_control(sim, p[1], true);
    WAIT(sim, 1000, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 300);
    MUST(sim, !scenario_is_over(p[0], PCCL_CALL_UPDATE) && pccl_peer_is_connected(p[1]->machine));
    scenario_update(sim, p[1]);
    went(sim, p[1], PCCL_CALL_UPDATE);
    WAIT(sim, 1000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
}

/* Members that ask for pending peers learn of a drain, and update. */
CLUSTER_SCENARIO(drain_pending, 3, 1)
{
    for (uint32_t count = 3; count > 1; count--) {
        if (count == 3)
            drain(sim, p[2]);
        else
            command(sim, PCCL_COMMAND_DRAIN, &p[1]->id, true, "next topology update");
        for (uint32_t i = 0; i < count; i++)
            scenario_pending(sim, p[i]);
        for (uint32_t i = 0; i < count; i++) {
            WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_PENDING));
            MUST(sim, p[i]->app.call_status[PCCL_CALL_PENDING] == PCCL_OK && p[i]->app.call_value[PCCL_CALL_PENDING]);
        }
        update_without(sim, p + count - 1, 1, p, count - 1);
    }
    scenario_pending(sim, p[0]);
    WAIT(sim, 1000, scenario_is_over(p[0], PCCL_CALL_PENDING));
    MUST(sim, !p[0]->app.call_value[PCCL_CALL_PENDING]);
}

/* Without an update the peer leaves after drain_ms, not before. */
SCENARIO(drain_late)
{
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, p, 3, 1);
    p[2]->machine->config.drain_ms = 2000;
    ops[0] = scenario_tiny(sim, p[0], 1, 1);
    ops[1] = scenario_tiny(sim, p[1], 1, 1);
    drain(sim, p[2]);
    scenario_run_ms(sim, 1900);
    MUST(sim, pccl_peer_is_connected(p[2]->machine));
    scenario_pending(sim, p[2]);
    went(sim, p[2], PCCL_CALL_PENDING);
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "drain_ms") != NULL);
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 200, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_commit_all(sim, p, 2, 1, 2);

    /* The same while the master is away. */
    p[1]->machine->config.drain_ms = 2000;
    sim_master_crash(sim, true);
    drain(sim, p[1]);
    scenario_update(sim, p[1]);
    went(sim, p[1], PCCL_CALL_UPDATE);
    sim_master_start(sim);
    WAIT(sim, 20000, !sim->master->machine->recovering && p[0]->machine->greeted && !p[0]->machine->resuming);
    scenario_update_all(sim, p, 1);
}

/* A peer that is drained dies in the vote, and then another one beside it. */
CLUSTER_SCENARIO(drain_killed, 4, 1)
{
    drain(sim, p[3]);
    scenario_update(sim, p[3]);
    scenario_run_ms(sim, 100);
    sim_peer_kill(sim, p[3], false);
    scenario_update_all(sim, p, 3);
    scenario_commit_all(sim, p, 3, 1, 1);
    drain(sim, p[2]);
    scenario_update(sim, p[2]);
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 100);
    sim_peer_kill(sim, p[1], false); /* its vote was the last that was missing */
    went(sim, p[2], PCCL_CALL_UPDATE);
    WAIT(sim, 1000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, p[0]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK && p[0]->machine->member_count == 1);
}

static void restart_master(struct sim *sim, uint32_t count)
{
    scenario_restart_master(sim, 100);
    WAIT(sim, 20000, !sim->master->machine->recovering);
    for (uint32_t i = 0; i < count; i++)
        WAIT(sim, 5000, p[i]->machine->greeted && !p[i]->machine->resuming);
}

/* The master restarts before the request of the drain, before the vote, and after it. */
CLUSTER_SCENARIO(drain_restart, 4, 1)
{
    restart_master(sim, 4);
    drain(sim, p[3]);
    restart_master(sim, 4);
    update_without(sim, p + 3, 1, p, 3);
    scenario_commit_all(sim, p, 3, 1, 1);
    drain(sim, p[2]);
    scenario_update(sim, p[2]);
    scenario_run_ms(sim, 100);
    MUST(sim, pccl_master_find(sim->master->machine, &p[2]->id)->draining);
    restart_master(sim, 3);
    scenario_update_all(sim, p, 2);
    went(sim, p[2], PCCL_CALL_UPDATE);
    scenario_commit_all(sim, p, 2, 1, 2);
    drain(sim, p[1]);
    sim_master_crash(sim, true);
    scenario_update(sim, p[1]); /* while it is away */
    sim_master_start(sim);
    scenario_update_all(sim, p, 1);
    went(sim, p[1], PCCL_CALL_UPDATE);
}

/* A drained peer is cut off when the update is decided, and learns later that it was drained. */
CLUSTER_SCENARIO(drain_unheard, 3, 1)
{
    command(sim, PCCL_COMMAND_DRAIN, &p[2]->id, true, "next topology update");
    for (uint32_t i = 0; i < 3; i++)
        scenario_pending(sim, p[i]);
    scenario_deaf_after(sim, p[2], PCCL_MSG_round);
    WAIT(sim, 1000, scenario_is_over(p[2], PCCL_CALL_PENDING) && scenario_is_over(p[1], PCCL_CALL_PENDING));
    scenario_update(sim, p[2]);
    scenario_update_all(sim, p, 2);
    went(sim, p[2], PCCL_CALL_UPDATE); /* it has missed the farewell, and reconnects */
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "this peer was removed from the run") != NULL);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* All members request their drain. */
CLUSTER_SCENARIO(drain_all, 3, 1)
{
    for (uint32_t i = 0; i < 3; i++) {
        drain(sim, p[i]);
        scenario_update(sim, p[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        went(sim, p[i], PCCL_CALL_UPDATE);
    p[3] = scenario_join(sim, 5, 0); /* begins a run */
    WAIT(sim, 1000, pccl_peer_is_connected(p[3]->machine));
    scenario_update_all(sim, p + 3, 1);
}

/* A newcomer requests its drain, and leaves at once. */
CLUSTER_SCENARIO(drain_newcomer, 2, 1)
{
    p[2] = scenario_join(sim, 5, 0);
    drain(sim, p[2]); /* before its hello */
    went(sim, p[2], PCCL_CALL_CONNECT);
    p[3] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 200);
    drain(sim, p[3]);
    went(sim, p[3], PCCL_CALL_CONNECT);
    scenario_update_all(sim, p, 2);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* A peer requests its drain in forged votes: no other peer leaves. */
CLUSTER_SCENARIO(drain_liar, 3, 1)
{
    scenario_lie(sim, p[2]);
    p[2]->end_checked = true;
    for (uint32_t i = 0; i < 3;
         i++) { /* a vote for the next update, one that is taken back, and one of the last round */
        const struct pccl_msg vote = {
            .type = PCCL_MSG_vote,
            .as.vote = {.kind = i == 2 ? PCCL_ROUND_PENDING : PCCL_ROUND_UPDATE,
                        .drain = 1,
                        .round = sim->master->machine->rounds[i == 2 ? PCCL_ROUND_PENDING : PCCL_ROUND_UPDATE]}};
        const struct pccl_msg withdraw = {.type = PCCL_MSG_withdraw,
                                          .as.withdraw = {.kind = PCCL_ROUND_UPDATE, .round = vote.as.vote.round}};
        scenario_forge(sim, p[2], i == 1 ? &withdraw : &vote);
        scenario_run_ms(sim, 50);
    }
    scenario_update(sim, p[0]);
    scenario_update(sim, p[1]);
    scenario_run_ms(sim, 300);
    MUST(sim, scenario_departures(sim) <= 1);
    if (scenario_departures(sim) == 0)
        sim_peer_kill(sim, p[2], false);
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 5000, scenario_is_over(p[i], PCCL_CALL_UPDATE));
        MUST(sim, p[i]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK && p[i]->machine->member_count == 2);
    }
    scenario_commit_all(sim, p, 2, 1, 1);
}
