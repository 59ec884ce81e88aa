/*
 * STATE: the rules for the machines' internal state (support/master_check.h, support/peer_check.h). They read
 * everything, so they run more rarely the more state there is: a fault in the state lasts long enough to be found.
 */
#include "check.h"
#include "support/master_check.h"
#include "support/peer_check.h"

enum { LOOK_EVERY = 6, MANY = 8 }; /* steps of the run, plus one for this number of examined objects */

static bool is_due(const struct sim *sim, uint64_t things)
{
    return !sim->mute_state && sim->totals.steps % (LOOK_EVERY + things / MANY) == 0;
}

void sim_check_master_state(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    uint64_t things = m->remote_count;
    for (uint32_t i = 0; i < m->group_count; i++)
        things += m->groups[i]->by_instance.count;
    const char *broken = is_due(sim, things) ? pccl_master_check(m) : NULL;
    if (broken != NULL)
        sim_fail(sim, "STATE of the master, not so: %s", broken);
}

void sim_check_peer_state(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    const char *broken = is_due(sim, p->member_count + p->op_count) ? pccl_peer_check(p) : NULL;
    if (broken != NULL)
        sim_fail(sim, "STATE of p%u, not so: %s", peer->process.number, broken);
}
