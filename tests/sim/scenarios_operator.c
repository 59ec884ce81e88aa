/* Scenarios of commands: an operator drains and expels peers. */
#include "scenarios.h"

#include <string.h>

static struct sim_peer *p[5]; /* of the running scenario */

/* The answer must be this, and say these words. */
static void command(struct sim *sim, enum pccl_master_command what, const struct pccl_id *peer, bool done,
                    const char *words)
{
    struct pccl_master_answer answer = {.done = !done};
    struct pccl_master_event event = {
        .kind = PCCL_MASTER_COMMAND, .now_us = sim->now, .command = what, .said = &answer};
    if (peer != NULL)
        event.peer = *peer;
    pccl_text_clear(&answer.words);
    sim_master_event(sim, sim->master, &event);
    if (answer.done != done || strstr(answer.words.bytes, words) == NULL)
        sim_fail(sim, "I12 a command is answered with %d: %s", answer.done, answer.words.bytes);
}

/* Its call has ended, as it was put out. */
static void went(struct sim *sim, struct sim_peer *peer, enum pccl_call call)
{
    WAIT(sim, 1000, scenario_is_over(peer, call));
    MUST(sim, peer->app.call_status[call] == PCCL_EXPELLED && !pccl_peer_is_connected(peer->machine));
}

/* A drained member works on until all update, and nobody's operation fails; one that is expelled goes at once. */
void scenario_operator(struct sim *sim)
{
    static const struct pccl_id nobody = {{7}};
    scenario_cluster(sim, p, 4, 1);
    command(sim, PCCL_COMMAND_DRAIN, &nobody, false, "there is no peer");
    command(sim, PCCL_COMMAND_OPTIMIZE, NULL, false, "nothing to search");
    command(sim, PCCL_COMMAND_DRAIN, &p[3]->id, true, "next topology update");
    scenario_commit_all(sim, p, 4, 1, 1);
    scenario_update(sim, p[3]);
    scenario_update_all(sim, p, 3);
    went(sim, p[3], PCCL_CALL_UPDATE);
    scenario_commit_all(sim, p, 3, 1, 2);

    p[4] = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, 100);
    command(sim, PCCL_COMMAND_DRAIN, &p[4]->id, true, "is removed"); /* nobody counts on a newcomer */
    WAIT(sim, 1000, scenario_is_over(p[4], PCCL_CALL_CONNECT));
    MUST(sim, p[4]->app.call_status[PCCL_CALL_CONNECT] != PCCL_OK);

    struct pccl_peer_op *ops[] = {scenario_bulk(sim, p[0], 2, 3), scenario_bulk(sim, p[1], 2, 3)};
    command(sim, PCCL_COMMAND_EXPEL, &p[2]->id, true, "is removed");
    command(sim, PCCL_COMMAND_EXPEL, &p[2]->id, false, "there is no peer"); /* it is about to go */
    for (int i = 0; i < 2; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_commit_all(sim, p, 2, 2, 3);
    MUST(sim, scenario_departures(sim) == 3);
}
