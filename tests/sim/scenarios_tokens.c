/* Scenarios of tokens: all peers of one host have the same one. */
#include "scenario.h"

#include <string.h>

static struct sim_peer *p[3]; /* peers of the running scenario */

static void refused(struct sim *sim, uint32_t host)
{
    struct sim_peer *late = scenario_join(sim, host, 0);
    WAIT(sim, 3000, scenario_is_over(late, PCCL_CALL_CONNECT));
    MUST(sim, late->app.call_status[PCCL_CALL_CONNECT] == PCCL_REFUSED);
    MUST(sim, strstr(pccl_peer_last_reason(late->machine)->bytes, "was revoked") != NULL);
    sim_peer_kill(sim, late, false);
}

/*
 * A token is revoked while an operation waits for its member: the operation ends, the others continue, and no peer
 * joins with that token again, also at a restarted master.
 */
static void revoke(struct sim *sim, bool cut_off)
{
    struct pccl_peer_op *ops[2];
    scenario_cluster(sim, p, 3, 1);
    scenario_commit_all(sim, p, 3, 1, 1);
    for (uint32_t i = 0; i < 2; i++)
        ops[i] = scenario_tiny(sim, p[i], 1, 2);
    if (cut_off)
        scenario_control(sim, p[2], false);
    sim_master_revoke(sim, p[2]->process.host);
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_control(sim, p[2], true);
    WAIT(sim, 5000, p[2]->machine->state != PCCL_PEER_MEMBER);
    scenario_commit_all(sim, p, 2, 1, 3);
    uint32_t host = p[2]->process.host;
    sim_peer_kill(sim, p[2], false);
    refused(sim, host);
    scenario_restart_master(sim, 100);
    refused(sim, host);
    scenario_commit_all(sim, p, 2, 1, 4);
}

/* A peer with a revoked token leaves and stays out, and the others continue. */
SCENARIO(token_revoked) { revoke(sim, false); }

/* The master does not reach it, and need not. */
SCENARIO(token_revoked_afar) { revoke(sim, true); }
