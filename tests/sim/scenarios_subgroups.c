/* Scenarios of subgroups: creation, work and end, with deaths at any time. */
#include "master/operations.h"
#include "master/roster.h"
#include "peer/queries.h"
#include "scenario.h"
#include "wire/subgroup.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/* ---- creating and working by hand ---- */

/* Returns the request to create a subgroup of these members of p[], as bits. */
static struct sim_request founding_of(uint32_t who, struct pccl_id list[8])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < 8; i++)
        if ((who >> i & 1) != 0)
            list[count++] = p[i]->id;
    return (struct sim_request){
        .collective = PCCL_FOUND, .step = 1, .tiny = true, .count = count, .members = list, .member_count = count};
}

static struct pccl_peer_op *launch_founding(struct sim *sim, struct sim_peer *peer, uint32_t who, uint32_t timeout_ms)
{
    struct pccl_id list[8];
    struct sim_request request = founding_of(who, list);
    request.timeout_ms = timeout_ms;
    return scenario_ask(sim, peer, &request);
}

/* Releases the creation, and returns the name; 0: it has failed. */
static uint64_t take_founded(struct sim *sim, struct sim_peer *peer, struct pccl_peer_op *op)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_founded(peer->machine, op);
    uint64_t name = subgroup != NULL ? subgroup->name : 0;
    (void)scenario_take(sim, peer, op);
    return name;
}

/* All of them found it; its name. */
static uint64_t found(struct sim *sim, uint32_t who)
{
    struct pccl_peer_op *ops[8];
    uint64_t name = 0;
    for (uint32_t i = 0; i < 8; i++)
        if ((who >> i & 1) != 0)
            ops[i] = launch_founding(sim, p[i], who, 0);
    for (uint32_t i = 0; i < 8; i++) {
        if ((who >> i & 1) == 0)
            continue;
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, ops[i]->class == PCCL_CLASS_NONE);
        uint64_t mine = take_founded(sim, p[i], ops[i]);
        MUST(sim, mine != 0 && (name == 0 || name == mine));
        name = mine;
    }
    return name;
}

static struct pccl_peer_op *launch_in(struct sim *sim, struct sim_peer *peer, uint64_t name, uint64_t tag,
                                      uint64_t step, bool tiny)
{
    struct sim_request request = {.subgroup = name,
                                  .tag = tag,
                                  .step = step,
                                  .tiny = tiny,
                                  .count = tiny ? 2 : 100000,
                                  .collective = tiny ? PCCL_ALL_GATHER : PCCL_ALL_REDUCE};
    return scenario_ask(sim, peer, &request);
}

static void commit_in(struct sim *sim, uint32_t who, uint64_t name, uint64_t tag, uint64_t step)
{
    struct pccl_peer_op *ops[8];
    for (uint32_t i = 0; i < 8; i++)
        if ((who >> i & 1) != 0)
            ops[i] = launch_in(sim, p[i], name, tag, step, true);
    for (uint32_t i = 0; i < 8; i++) {
        if ((who >> i & 1) == 0)
            continue;
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

static bool has_ended(const struct sim_peer *peer, uint64_t name)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(peer->machine, name);
    return subgroup != NULL && subgroup->all.ended;
}

static bool lives(const struct sim_peer *peer, uint64_t name)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(peer->machine, name);
    return subgroup != NULL && !subgroup->all.ended;
}

static bool says(const struct sim_peer *peer, uint64_t name, const char *words)
{
    return strstr(pccl_peer_subgroup(peer->machine, name)->reason.bytes, words) != NULL;
}

static void close_it(struct sim *sim, struct sim_peer *peer, uint64_t name)
{
    sim_check_closing(sim, peer, name);
    sim_peer_tell(sim, peer, &(struct pccl_peer_event){.kind = PCCL_PEER_SUBGROUP_CLOSE, .subgroup = name});
}

static uint32_t subgroups_at_master(const struct sim *sim) { return sim->master->machine->groups[0]->subgroups.count; }

/* ---- */

/* Two that overlap, side by side with the whole group, on the same tag; a death beside them disturbs neither. */
CLUSTER_SCENARIO(subgroup_overlap, 5, 1)
{
    uint64_t one = found(sim, 1 | 2 | 4), other = found(sim, 2 | 4 | 8);
    MUST(sim, one != other && subgroups_at_master(sim) == 2);
    struct pccl_peer_op *a = launch_in(sim, p[1], one, 1, 1, true), *b = launch_in(sim, p[1], other, 1, 2, true);
    struct pccl_peer_op *x = scenario_tiny(sim, p[1], 1, 3);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 1000, scenario_is_decided(x) && p[0]->machine->group.count == 4);
    MUST(sim,
         scenario_take(sim, p[1], x) == PCCL_CLASS_PEER_LOST && !scenario_is_decided(a) && !scenario_is_decided(b));
    struct pccl_peer_op *rest[] = {launch_in(sim, p[0], one, 1, 1, true), launch_in(sim, p[2], one, 1, 1, true),
                                   launch_in(sim, p[2], other, 1, 2, true), launch_in(sim, p[3], other, 1, 2, true)};
    for (uint32_t i = 0; i < 4; i++)
        WAIT(sim, 500, scenario_is_decided(rest[i]) && rest[i]->class == PCCL_CLASS_NONE);
    MUST(sim, scenario_take(sim, p[1], a) == PCCL_CLASS_NONE && scenario_take(sim, p[1], b) == PCCL_CLASS_NONE);
    const uint32_t whose[] = {0, 2, 2, 3};
    for (uint32_t i = 0; i < 4; i++)
        (void)scenario_take(sim, p[whose[i]], rest[i]);
    scenario_update_all(sim, p, 4); /* another era: counters start over, subgroups live on */
    commit_in(sim, 1 | 2 | 4, one, 1, 5);
    commit_in(sim, 2 | 4 | 8, other, 1, 6);
}

/* Two die at once, in different subgroups; a third subgroup lives. The remaining members create them again. */
CLUSTER_SCENARIO(subgroup_two_die, 6, 1)
{
    uint64_t a = found(sim, 1 | 2), b = found(sim, 4 | 8), c = found(sim, 16 | 32);
    struct pccl_peer_op *x = launch_in(sim, p[0], a, 1, 1, true), *y = launch_in(sim, p[2], b, 1, 1, false);
    struct pccl_peer_op *z = launch_in(sim, p[4], c, 1, 1, true);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[1], false);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 1000, scenario_is_decided(x) && scenario_is_decided(y) && p[0]->machine->group.count == 4);
    MUST(sim, scenario_take(sim, p[0], x) == PCCL_CLASS_PEER_LOST && has_ended(p[0], a));
    MUST(sim, scenario_take(sim, p[2], y) == PCCL_CLASS_PEER_LOST && has_ended(p[2], b));
    MUST(sim, says(p[0], a, "a member of the subgroup left") && !scenario_is_decided(z) && lives(p[4], c));
    struct sim_request late = {.subgroup = a, .tag = 1, .collective = PCCL_BARRIER, .tiny = true};
    struct pccl_peer_op *never = NULL;
    MUST(sim, sim_app_launch(sim, p[0], &late, &never) == PCCL_PEER_LOST);
    struct pccl_peer_op *w = launch_in(sim, p[5], c, 1, 1, true);
    WAIT(sim, 500, scenario_is_decided(z) && scenario_is_decided(w));
    MUST(sim, scenario_take(sim, p[4], z) == PCCL_CLASS_NONE && scenario_take(sim, p[5], w) == PCCL_CLASS_NONE);
    commit_in(sim, 1 | 4, found(sim, 1 | 4), 1, 1);
    MUST(sim, subgroups_at_master(sim) == 2);
}

/* The closing member dies while it closes: the subgroup ends once, for the first reason that arrives. */
SCENARIO(subgroup_closer_dies)
{
    for (uint32_t heard = 0; heard < 2; heard++) {
        if (heard == 0)
            scenario_cluster(sim, p, 5, 1);
        uint32_t closer = 4 - heard;
        uint64_t name = found(sim, 1 | 2 | 1U << closer);
        scenario_run_ms(sim, 20);
        scenario_control(sim, p[closer], heard != 0);
        close_it(sim, p[closer], name);
        scenario_run_ms(sim, heard != 0 ? 20 : 1);
        sim_peer_kill(sim, p[closer], false);
        WAIT(sim, 4000, has_ended(p[0], name) && has_ended(p[1], name) && p[0]->machine->group.count == closer);
        MUST(sim, says(p[0], name, "closed the subgroup") == (heard != 0) && subgroups_at_master(sim) == 0);
        scenario_control(sim, p[closer], true);
        scenario_run_ms(sim, 50);
        MUST(sim, sim->master->machine->member_count == closer);
    }
    commit_in(sim, 1 | 2, found(sim, 1 | 2), 1, 1);
}

/* Launches a receive from any of its members. */
static struct pccl_peer_op *receive_from_anybody(struct sim *sim, struct sim_peer *peer, uint64_t name)
{
    struct sim_request request = {
        .subgroup = name, .tag = 2, .collective = PCCL_SEND, .anybody = true, .tiny = true, .count = 2};
    struct pccl_peer_op *op = scenario_ask(sim, peer, &request);
    MUST(sim, op->state == PCCL_OP_OPEN);
    return op;
}

/*
 * A member that closes it without a master, or until the master is away, does not wait for the master: not even for a
 * commit known to the others, which the next master sends in vain.
 */
SCENARIO(subgroup_close_alone)
{
    struct pccl_peer_op *x[3];
    scenario_cluster(sim, p, 4, 1);
    uint64_t one = found(sim, 7), other = found(sim, 1 | 8);
    struct pccl_peer_op *y = launch_in(sim, p[0], other, 1, 1, false), *z = launch_in(sim, p[3], other, 1, 1, false);
    struct pccl_peer_op *open = receive_from_anybody(sim, p[0], other);
    for (uint32_t i = 0; i < 3; i++)
        x[i] = launch_in(sim, p[i], one, 1, 2, false);
    sim_bulk_finish(sim, p[0], x[0]);
    scenario_run_ms(sim, 50);
    scenario_control(sim, p[0], false);
    for (uint32_t i = 1; i < 3; i++)
        sim_bulk_finish(sim, p[i], x[i]);
    WAIT(sim, 200, scenario_is_decided(x[1]) && scenario_is_decided(x[2]));
    close_it(sim, p[0], one);
    MUST(sim, p[0]->machine->greeted && !scenario_is_decided(x[0]));
    WAIT(sim, 4000, !p[0]->machine->greeted);
    MUST(sim, scenario_is_decided(x[0]) && !scenario_is_decided(y));
    MUST(sim, !scenario_is_decided(open));
    close_it(sim, p[0], other);
    MUST(sim, scenario_is_decided(y) && scenario_is_decided(open));
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    WAIT(sim, 5000, has_ended(p[1], one) && has_ended(p[2], one) && has_ended(p[3], other));
    MUST(sim, scenario_take(sim, p[0], x[0]) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, p[0], y) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, p[0], open) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, p[1], x[1]) == PCCL_CLASS_NONE && scenario_take(sim, p[2], x[2]) == PCCL_CLASS_NONE);
    MUST(sim, scenario_take(sim, p[3], z) == PCCL_CLASS_PEER_LOST);
    MUST(sim, subgroups_at_master(sim) == 0 && sim->master->machine->member_count == 4);
    scenario_update_all(sim, p, 4);
    commit_in(sim, 7, found(sim, 7), 1, 1);
}

/* The commit of its creation reaches one member, which launches in it; then there is another master. */
SCENARIO(subgroup_commit_restart)
{
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, p, 4, 1);
    uint64_t old = found(sim, 1 | 8);
    scenario_run_ms(sim, 1000);
    ops[1] = launch_founding(sim, p[1], 7, 0);
    ops[2] = launch_founding(sim, p[2], 7, 0);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[2], false);
    ops[0] = launch_founding(sim, p[0], 7, 0);
    WAIT(sim, 200, scenario_is_decided(ops[0]));
    uint64_t name = take_founded(sim, p[0], ops[0]);
    struct pccl_peer_op *x = launch_in(sim, p[0], name, 1, 1, true);
    MUST(sim, name != 0 && !scenario_is_decided(ops[1]));
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    WAIT(sim, 4000, scenario_is_decided(ops[1]) && scenario_is_decided(ops[2]));
    MUST(sim, take_founded(sim, p[1], ops[1]) == name && take_founded(sim, p[2], ops[2]) == name);
    struct pccl_peer_op *y = launch_in(sim, p[1], name, 1, 1, true), *z = launch_in(sim, p[2], name, 1, 1, true);
    WAIT(sim, 500, scenario_is_decided(x) && scenario_is_decided(y) && scenario_is_decided(z));
    MUST(sim, scenario_take(sim, p[0], x) == PCCL_CLASS_NONE && scenario_take(sim, p[1], y) == PCCL_CLASS_NONE &&
                  scenario_take(sim, p[2], z) == PCCL_CLASS_NONE);
    MUST(sim, subgroups_at_master(sim) == 2);
    commit_in(sim, 1 | 8, old, 1, 9); /* all of them had it, and its creation is no longer known */
}

/*
 * A restarted master creates a subgroup for which all members had sent `done`. It counts its links once, so after the
 * end of the subgroup neither the master nor the members want them.
 */
SCENARIO(subgroup_founded_by_restart)
{
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, p, 4, 1);
    scenario_run_ms(sim, 1000);
    sim_master_crash(sim, true);
    for (uint32_t i = 0; i < 3; i++)
        ops[i] = launch_founding(sim, p[i], 7, 0);
    scenario_run_ms(sim, 20);
    sim_master_start(sim);
    uint64_t name = 0;
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 6000, scenario_is_decided(ops[i]));
        name = take_founded(sim, p[i], ops[i]);
        MUST(sim, name != 0);
    }
    close_it(sim, p[0], name);
    WAIT(sim, 1000, subgroups_at_master(sim) == 0);
    for (uint32_t i = 0; i < 4; i++) {
        const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &p[i]->id);
        for (uint32_t k = 0; k < remote->intent_count; k++)
            MUST(sim, remote->intents[k].subgroups == 0);
    }
}

/*
 * One member received the commit of an operation and then the end; the others receive both from the next master. An end
 * known only to its closer and the last master is requested again.
 */
SCENARIO(subgroup_end_restart)
{
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, p, 4, 1);
    uint64_t name = found(sim, 7), other = found(sim, 1 | 8);
    for (uint32_t i = 0; i < 2; i++)
        ops[i] = launch_in(sim, p[i], name, 1, 1, true);
    scenario_run_ms(sim, 50);
    scenario_control(sim, p[0], false);
    scenario_control(sim, p[1], false);
    ops[2] = launch_in(sim, p[2], name, 1, 1, true);
    WAIT(sim, 200, scenario_is_decided(ops[2]));
    close_it(sim, p[2], name);
    scenario_run_ms(sim, 20);
    MUST(sim, subgroups_at_master(sim) == 1 && lives(p[0], name) && lives(p[1], name));
    sim_master_crash(sim, true);
    close_it(sim, p[3], other);
    scenario_control(sim, p[0], true);
    scenario_control(sim, p[1], true);
    sim_master_start(sim);
    WAIT(sim, 5000, has_ended(p[0], name) && has_ended(p[1], name) && has_ended(p[0], other));
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    MUST(sim, subgroups_at_master(sim) == 0 && sim->master->machine->member_count == 4);
}

/* A member does not return to a restarted master: its subgroups end, the others live. */
CLUSTER_SCENARIO(subgroup_missing, 4, 1)
{
    uint64_t name = found(sim, 1 | 2 | 8), other = found(sim, 1 | 2);
    struct pccl_peer_op *x = launch_in(sim, p[0], name, 1, 1, false), *y = launch_in(sim, p[0], other, 1, 1, true);
    struct pccl_peer_op *f = launch_founding(sim, p[0], 1 | 8, 0);
    scenario_run_ms(sim, 50);
    sim_master_crash(sim, true);
    sim_peer_kill(sim, p[3], true);
    sim_master_start(sim);
    WAIT(sim, 9000, scenario_is_decided(x) && scenario_is_decided(f) && p[0]->machine->group.count == 3);
    MUST(sim, scenario_take(sim, p[0], x) == PCCL_CLASS_PEER_LOST && says(p[0], name, "did not reconnect"));
    MUST(sim, scenario_take(sim, p[0], f) == PCCL_CLASS_MEMBERS_CHANGED);
    WAIT(sim, 100, has_ended(p[1], name));
    MUST(sim, !scenario_is_decided(y) && lives(p[1], other));
    struct pccl_peer_op *z = launch_in(sim, p[1], other, 1, 1, true);
    WAIT(sim, 500, scenario_is_decided(y) && scenario_is_decided(z));
    MUST(sim, scenario_take(sim, p[0], y) == PCCL_CLASS_NONE && scenario_take(sim, p[1], z) == PCCL_CLASS_NONE);
}

/* A member dies and all others have finished: they commit, before the subgroup ends. */
SCENARIO(subgroup_commit_first)
{
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, p, 4, 1);
    uint64_t name = found(sim, 7);
    sim->bulk_by_hand = true;
    for (uint32_t i = 0; i < 3; i++)
        ops[i] = launch_in(sim, p[i], name, 1, 1, false);
    sim_bulk_finish(sim, p[0], ops[0]);
    sim_bulk_finish(sim, p[1], ops[1]);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 1000, scenario_is_decided(ops[0]) && has_ended(p[1], name));
    MUST(sim,
         scenario_take(sim, p[0], ops[0]) == PCCL_CLASS_NONE && scenario_take(sim, p[1], ops[1]) == PCCL_CLASS_NONE);
}

/*
 * The link between two members fails permanently: no member is removed, and only operations that rely on that link end.
 */
CLUSTER_SCENARIO(subgroup_link, 5, 1)
{
    uint64_t with = found(sim, 1 | 2 | 4), without = found(sim, 4 | 8);
    struct pccl_peer_op *x = launch_in(sim, p[2], with, 1, 1, true), *y = launch_in(sim, p[2], without, 1, 1, true);
    uint32_t a = p[0]->process.host, b = p[1]->process.host;
    sim_net_cut(sim, a, b, SIM_DATA, SIM_REFUSE);
    sim_conn_reset(sim, sim_peer_link(p[0], &p[1]->id));
    WAIT(sim, 2000, scenario_is_decided(x));
    MUST(sim, scenario_take(sim, p[2], x) == PCCL_CLASS_PEER_LOST && says(p[0], with, "the link from peer"));
    scenario_run_ms(sim, 1000);
    MUST(sim, lives(p[2], without) && !scenario_is_decided(y) && sim->master->machine->member_count == 5);
    struct pccl_peer_op *z = launch_in(sim, p[3], without, 1, 1, true);
    WAIT(sim, 500, scenario_is_decided(y) && scenario_is_decided(z));
    MUST(sim, scenario_take(sim, p[2], y) == PCCL_CLASS_NONE && scenario_take(sim, p[3], z) == PCCL_CLASS_NONE);
}

/* Two create by differing lists: both wait, learn for which members, and the deadline's reason has it. */
CLUSTER_SCENARIO(subgroup_lists_differ, 3, 1)
{
    struct pccl_peer_op *a = launch_founding(sim, p[0], 3, 3000), *b = launch_founding(sim, p[1], 7, 3000);
    WAIT(sim, 2500, pccl_peer_waiting(p[0]->machine)->length > 0 && pccl_peer_waiting(p[1]->machine)->length > 0);
    MUST(sim, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "creation of a group waits for peer") != NULL);
    MUST(sim, strstr(pccl_peer_waiting(p[0]->machine)->bytes, "'p2'") == NULL);
    MUST(sim, strstr(pccl_peer_waiting(p[1]->machine)->bytes, "'p2'") != NULL);
    WAIT(sim, 3000, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, strstr(a->reason.bytes, "creation of a group waited for peer") != NULL);
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_DEADLINE && scenario_take(sim, p[1], b) == PCCL_CLASS_DEADLINE);
    a = launch_founding(sim, p[1], 3, 0); /* the first launch of this list was aborted here */
    MUST(sim, scenario_is_decided(a) && scenario_take(sim, p[1], a) == PCCL_CLASS_DEADLINE);
    commit_in(sim, 3, found(sim, 3), 1, 1);
}

/* A part of the group works on, the others are idle: outcomes do not pile up. */
SCENARIO(subgroup_idle)
{
    enum { MANY = 60, LEFT = 12 };
    scenario_cluster(sim, p, 4, 1);
    scenario_commit_all(sim, p, 4, 1, 1);
    uint64_t name = found(sim, 3);
    for (uint32_t i = 0; i < MANY; i++) {
        commit_in(sim, 3, name, i % 4, 1 + i);
        scenario_run_ms(sim, 100);
    }
    MUST(sim, sim->master->machine->groups[0]->by_instance.count < LEFT);
    for (uint32_t i = 0; i < 2; i++)
        MUST(sim, p[i]->machine->op_count < LEFT && p[i]->machine->decisions >= MANY);
    scenario_commit_all(sim, p, 4, 1, 2);
}

static enum pccl_status try_founding(struct sim *sim, struct sim_peer *peer, uint32_t who)
{
    struct pccl_id list[8];
    struct sim_request request = founding_of(who, list);
    struct pccl_peer_op *op = NULL;
    return sim_app_launch(sim, peer, &request, &op);
}

/*
 * A creator has died, and one of the others does not know it yet; then all do, and the creation is refused with the
 * same words.
 */
CLUSTER_SCENARIO(subgroup_gone, 4, 1)
{
    struct pccl_peer_op *early = launch_founding(sim, p[0], 1 | 2 | 8, 0);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 1000, scenario_is_decided(early) && p[1]->machine->group.count == 3);
    MUST(sim, strstr(early->reason.bytes, "not a current member: peer") != NULL);
    MUST(sim, scenario_take(sim, p[0], early) == PCCL_CLASS_MEMBERS_CHANGED);
    struct pccl_peer_op *late = launch_founding(sim, p[1], 2 | 4 | 8, 0);
    WAIT(sim, 500, scenario_is_decided(late));
    MUST(sim, strstr(late->reason.bytes, "not a current member: peer") != NULL);
    MUST(sim, scenario_take(sim, p[1], late) == PCCL_CLASS_MEMBERS_CHANGED);
    scenario_run_ms(sim, 1);
    late = launch_founding(sim, p[2], 2 | 4 | 8, 0);
    MUST(sim, scenario_is_decided(late) && scenario_take(sim, p[2], late) == PCCL_CLASS_MEMBERS_CHANGED);
    scenario_commit_all(sim, p, 3, 1, 1);
    for (uint32_t i = 0; i < 3; i++)
        MUST(sim, try_founding(sim, p[i], 1U << i | 8) == PCCL_MEMBERS_CHANGED);
    MUST(sim, try_founding(sim, p[0], 2 | 8) == PCCL_ARGUMENT && try_founding(sim, p[0], 2 | 4) == PCCL_ARGUMENT);
    commit_in(sim, 7, found(sim, 7), 1, 1);
}

static bool links_to(struct sim_peer *from, const struct sim_peer *to)
{
    for (uint32_t i = 0; i < from->link_count; i++)
        if (from->links[i].up && !from->links[i].incoming && pccl_id_equal(&from->links[i].peer, &to->id))
            return true;
    return false;
}

/* A member that gives up sends the others its reason. */
CLUSTER_SCENARIO(subgroup_given_up, 3, 1)
{
    uint64_t name = found(sim, 1 | 2 | 4);
    struct pccl_msg leave = {.type = PCCL_MSG_leave, .as.leave = {.reason = pccl_bytes_of_string("no room")}};
    scenario_lie(sim, p[2]);
    scenario_forge(sim, p[2], &leave);
    WAIT(sim, 100, says(p[0], name, "'p2': it gave up: no room") && says(p[1], name, "'p2': it gave up: no room"));
}

/* A link to a newcomer fails before its admission. After that the link is dialed again, and no subgroup ends. */
SCENARIO(subgroup_newcomer_link)
{
    enum { LATE_HOST = 9 };
    scenario_cluster(sim, p, 3, 1);
    uint32_t host = p[1]->process.host; /* not beside the newcomer in the ring */
    sim_net_cut(sim, host, LATE_HOST, SIM_DATA, SIM_REFUSE);
    p[3] = scenario_join(sim, LATE_HOST, 0);
    scenario_run_ms(sim, 20);
    MUST(sim, !links_to(p[1], p[3]));
    uint32_t dials = p[1]->dials;
    sim_net_cut(sim, host, LATE_HOST, SIM_DATA, SIM_DROP);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 50, scenario_is_over(p[3], PCCL_CALL_CONNECT));
    uint64_t name = found(sim, 2 | 8);
    MUST(sim, p[1]->dials == dials + 1); /* it has not waited, as for one that is no member */
    scenario_run_ms(sim, sim->plan.master.settle_ms);
    MUST(sim, lives(p[1], name) && lives(p[3], name));
    sim_net_cut(sim, host, LATE_HOST, SIM_DATA, SIM_WHOLE);
    WAIT(sim, 2000, links_to(p[1], p[3]));
    commit_in(sim, 2 | 8, name, 1, 1);
}

/* A newcomer without a message from the master takes the link of a member that has one. */
CLUSTER_SCENARIO(link_before_the_answer, 1, 1)
{
    p[1] = scenario_join(sim, 2, 0);
    WAIT(sim, 1000, sim->master->machine->remote_count == 2);
    scenario_control(sim, p[1], false);
    WAIT(sim, 1000, links_to(p[0], p[1]));
    MUST(sim, p[1]->machine->state == PCCL_PEER_CONNECTING);
    scenario_control(sim, p[1], true);
    WAIT(sim, 1000, links_to(p[1], p[0]));
    MUST(sim, links_to(p[0], p[1]) && p[0]->dials == 1);
    scenario_run_ms(sim, 50);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 1000, scenario_is_over(p[1], PCCL_CALL_CONNECT));
}

/*
 * In a group without a mesh, three that are not neighbors: they are linked for their subgroup, through all views, and
 * no longer when it has ended; a dead one is not dialed.
 */
SCENARIO(subgroup_far)
{
    enum { MEMBERS = 19 };
    static struct sim_peer *all[MEMBERS];
    struct pccl_peer_op *ops[3];
    scenario_cluster(sim, all, MEMBERS, 1);
    const uint32_t count = all[0]->machine->group.count;
    const struct pccl_id *ring = all[0]->machine->group.ring;
    MUST(sim, count == MEMBERS && all[0]->machine->group.cost.mesh == 0);
    for (uint32_t i = 0; i < 3; i++)
        p[i] = sim_peer_find(sim, &ring[1 + 4 * i]);
    struct sim_peer *beside = sim_peer_find(sim, &ring[2]);
    uint64_t name = found(sim, 7);
    sim->bulk_by_hand = true;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < 3; i++) {
            ops[i] = launch_in(sim, p[i], name, 1, turn, false);
            WAIT(sim, 1000, links_to(p[i], p[(i + 1) % 3]) && !links_to(p[i], p[(i + 2) % 3]));
        }
        for (uint32_t i = 0; i < 3; i++)
            sim_bulk_finish(sim, p[i], ops[i]);
        for (uint32_t i = 0; i < 3; i++) {
            WAIT(sim, 1000, scenario_is_decided(ops[i]));
            MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
        }
        if (turn == 0)
            sim_peer_kill(sim, beside, false);
        WAIT(sim, 3000, turn != 0 || p[0]->machine->group.count == MEMBERS - 1);
        scenario_run_ms(sim, 500);
    }
    sim_peer_kill(sim, p[1], false);
    WAIT(sim, 3000, has_ended(p[0], name) && p[2]->machine->group.count == MEMBERS - 2);
    scenario_run_ms(sim, 500);
    uint32_t dials = p[0]->dials;
    scenario_run_ms(sim, 5000);
    MUST(sim, p[0]->dials == dials && !links_to(p[2], p[0]));
    name = found(sim, 1 | 4);
    WAIT(sim, 1000, links_to(p[0], p[2]) && links_to(p[2], p[0]));
    sim_peer_kill(sim, p[2], false); /* and no view has arrived since the master requested that link */
    WAIT(sim, 3000, has_ended(p[0], name) && p[0]->machine->group.count == MEMBERS - 3);
    scenario_run_ms(sim, 500);
    dials = p[0]->dials;
    scenario_run_ms(sim, 5000);
    MUST(sim, p[0]->dials == dials);
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < p[0]->machine->link_count; i++)
        wanted += p[0]->machine->links[i].subgroups;
    MUST(sim, wanted == 0 && subgroups_at_master(sim) == 0);
}

/* ---- liars are removed, without further effects ---- */

static void expect_removed(struct sim *sim, struct sim_peer *liar, const struct pccl_msg *msg, uint64_t name)
{
    uint32_t left = sim->master->machine->member_count - 1;
    scenario_lie(sim, liar);
    scenario_forge(sim, liar, msg);
    WAIT(sim, 1000, sim->master->machine->member_count == left && p[0]->machine->group.count == left);
    commit_in(sim, 3, name, left, left);
}

/* A member that names a subgroup of others is removed. */
CLUSTER_SCENARIO(subgroup_liars, 8, 1)
{
    uint64_t name = found(sim, 3);
    struct pccl_instance foreign = {.subgroup = name, .joint = pccl_peer_joint(p[0]->machine), .tag = 1};
    struct pccl_instance founding = {.subgroup = PCCL_FOUNDING, .joint = foreign.joint, .tag = 1};
    struct pccl_id list[2] = {p[0]->id, p[1]->id};
    struct pccl_msg msgs[] = {
        {.type = PCCL_MSG_done, .as.done = {.instance = foreign, .descriptor = {.count = 1}}},
        {.type = PCCL_MSG_abort_request, .as.abort_request = {.instance = foreign, .class = PCCL_CLASS_ABORTED}},
        {.type = PCCL_MSG_subgroup_end, .as.subgroup_end = {.subgroup = name}},
        {.type = PCCL_MSG_failed, .as.failed = {.instance = founding, .class = PCCL_CLASS_INTERNAL}},
        {.type = PCCL_MSG_done,
         .as.done = {.instance = founding,
                     .descriptor = {.collective = PCCL_FOUND, .count = 2},
                     .tiny = 1,
                     .payload = {list[0].bytes, sizeof list}}},
        {.type = PCCL_MSG_done,
         .as.done = {.instance = founding,
                     .descriptor = {.collective = PCCL_FOUND, .count = 2},
                     .tiny = 1,
                     .payload = {list[0].bytes, sizeof list}}},
    };
    pccl_ids_sort(list, 2);
    msgs[5].as.done.instance.tag = pccl_founding_tag(list, 2); /* right, but the sender is not in it */
    commit_in(sim, 3, name, 99, 99);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(msgs); i++)
        expect_removed(sim, p[7 - i], &msgs[i], name);
    MUST(sim, lives(p[0], name) && lives(p[1], name));
}

/* A member that ends a founding of others is removed, and the others found. */
CLUSTER_SCENARIO(founding_liar, 3, 1)
{
    struct pccl_peer_op *ops[] = {launch_founding(sim, p[0], 3, 0), NULL};
    struct pccl_msg msg = {.type = PCCL_MSG_abort_request,
                           .as.abort_request = {.instance = ops[0]->instance, .class = PCCL_CLASS_ABORTED}};
    scenario_run_ms(sim, 100);
    scenario_lie(sim, p[2]);
    scenario_forge(sim, p[2], &msg);
    WAIT(sim, 1000, p[0]->machine->group.count == 2);
    ops[1] = launch_founding(sim, p[1], 3, 0);
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, take_founded(sim, p[i], ops[i]) != 0);
    }
}

/* ---- verdicts ---- */

/* Reports an operation in progress that does not end, from the view of a peer. */
static void wait_and_tell(struct sim *sim, uint32_t first, uint32_t end, const struct pccl_instance *instance)
{
    for (uint32_t k = 1; k <= 5; k++) {
        struct pccl_seen_wait wait = {.what = PCCL_WAIT_OUTCOME, .for_ms = 1000 * k + 100};
        struct pccl_msg_sight telemetry = {.window_ms = 1000, .instance = *instance, .waits = &wait, .waits_count = 1};
        for (uint32_t i = first; i < end; i++)
            (void)sim_peer_step(sim, p[i],
                                &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
        scenario_run_ms(sim, 1100);
    }
}

static void is_named_alone(struct sim *sim, const struct sim_peer *peer)
{
    uint32_t told;
    const struct pccl_peer_verdict *verdicts = pccl_peer_verdicts(p[7]->machine, &told);
    MUST(sim, told == 1 && verdicts[0].class == PCCL_VERDICT_NOT_ENTERED);
    MUST(sim, pccl_id_equal(&verdicts[0].peer, &peer->id));
}

/* Most of the group are not concerned: a missing member of a small operation is named, and during the creation. */
SCENARIO(subgroup_verdict)
{
    struct pccl_peer_op *ops[8];
    uint32_t told;
    scenario_cluster(sim, p, 8, 1);
    for (uint32_t i = 0; i < 2; i++)
        ops[i] = launch_founding(sim, p[i], 7, 0);
    wait_and_tell(sim, 0, 2, &ops[0]->instance);
    is_named_alone(sim, p[2]);
    ops[2] = launch_founding(sim, p[2], 7, 0);
    scenario_run_ms(sim, 4000);
    uint64_t name = 0;
    for (uint32_t i = 0; i < 3; i++)
        name = take_founded(sim, p[i], ops[i]);
    MUST(sim, name != 0 && pccl_peer_verdicts(p[7]->machine, &told) != NULL && told == 0);

    ops[1] = launch_in(sim, p[1], name, 1, 1, true);
    wait_and_tell(sim, 1, 2, &ops[1]->instance); /* it is early */
    MUST(sim, pccl_peer_verdicts(p[7]->machine, &told) != NULL && told == 0);
    ops[2] = launch_in(sim, p[2], name, 1, 1, true);
    wait_and_tell(sim, 1, 3, &ops[1]->instance);
    is_named_alone(sim, p[0]);
    ops[0] = launch_in(sim, p[0], name, 1, 1, true);
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}
