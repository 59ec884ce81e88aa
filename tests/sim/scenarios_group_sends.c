/* Scenarios of sends in subgroups: they end with their subgroup, and match no receive outside it. */
#include "master/roster.h"
#include "scenario.h"
#include "wire/subgroup.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

enum { TAG = 5 };

/* The members of a list, as bits: p[0] is 1. */
static uint64_t found(struct sim *sim, uint32_t who)
{
    struct pccl_id list[8];
    struct pccl_peer_op *ops[8] = {NULL};
    struct sim_request request = {.collective = PCCL_FOUND, .step = 1, .tiny = true, .members = list};
    uint64_t name = 0;
    for (uint32_t i = 0; i < 8; i++)
        if (who >> i & 1)
            list[request.member_count++] = p[i]->id;
    request.count = request.member_count;
    for (uint32_t i = 0; i < 8; i++)
        if (who >> i & 1)
            ops[i] = scenario_ask(sim, p[i], &request);
    for (uint32_t i = 0; i < 8; i++) {
        if (ops[i] == NULL)
            continue;
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        const struct pccl_peer_subgroup *founded = pccl_peer_founded(p[i]->machine, ops[i]);
        MUST(sim, founded != NULL && scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
        name = founded->name;
    }
    return name;
}

/* Returns a request. Requests of different steps have different forms. `other` -1: any sender. */
static struct sim_request ask(uint64_t name, int other, bool sends, uint64_t step, bool tiny)
{
    return (struct sim_request){.subgroup = name,
                                .tag = TAG,
                                .step = step,
                                .collective = PCCL_SEND,
                                .other = other < 0 ? (struct pccl_id){{0}} : p[other]->id,
                                .sends = sends,
                                .anybody = other < 0,
                                .tiny = tiny,
                                .count = step + (tiny ? 0 : 100000)};
}

static struct pccl_peer_op *send(struct sim *sim, uint64_t name, uint32_t from, int to, uint64_t step, bool tiny)
{
    const struct sim_request request = ask(name, to, true, step, tiny);
    return scenario_ask(sim, p[from], &request);
}

static struct pccl_peer_op *receive(struct sim *sim, uint64_t name, uint32_t at, int from, uint64_t step, bool tiny)
{
    const struct sim_request request = ask(name, from, false, step, tiny);
    return scenario_ask(sim, p[at], &request);
}

static enum pccl_status refused(struct sim *sim, uint64_t name, uint32_t at, int other)
{
    const struct sim_request request = ask(name, other, other >= 0, 1, true);
    struct pccl_peer_op *op = NULL;
    return sim_app_launch(sim, p[at], &request, &op);
}

static void must_meet(struct sim *sim, uint32_t from, struct pccl_peer_op *out, uint32_t at, struct pccl_peer_op *in)
{
    WAIT(sim, 3000, in->state != PCCL_OP_OPEN);
    if (!in->tiny) {
        sim_bulk_finish(sim, p[from], out);
        sim_bulk_finish(sim, p[at], in);
    }
    scenario_must_end(sim, p[from], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[at], in, PCCL_CLASS_NONE, "");
}

static void close_it(struct sim *sim, uint32_t who, uint64_t name)
{
    sim_check_closing(sim, p[who], name);
    sim_peer_tell(sim, p[who], &(struct pccl_peer_event){.kind = PCCL_PEER_SUBGROUP_CLOSE, .subgroup = name});
}

static void nothing_is_left(struct sim *sim, uint32_t peers)
{
    const struct pccl_peer_group *group = sim->master->machine->groups[0];
    WAIT(sim, 5000, group->pairs.count == 0 && group->subgroups.count == 0 && group->by_instance.count == 0);
    for (uint32_t i = 0; i < peers; i++)
        WAIT(sim, 5000, p[i]->machine->op_count == 0 && p[i]->machine->announcements.count == 0);
}

/*
 * Each member closes the subgroup in turn. Operations that only one end has launched, that move data, or that one end
 * has done, end for all. Committed ones remain committed, later launches are refused. A pair outside continues.
 */
CLUSTER_SCENARIO(group_sends_close, 4, 1)
{
    struct pccl_peer_op *beside = send(sim, 0, 0, 1, 9, true);
    for (uint32_t turn = 0; turn < 6; turn++) {
        const uint32_t closer = turn / 2;
        const bool tiny = turn % 2 != 0;
        uint64_t name = found(sim, 7);
        struct pccl_peer_op *met = send(sim, name, 0, 1, 1, tiny), *got = receive(sim, name, 1, 0, 1, tiny);
        must_meet(sim, 0, met, 1, got);
        struct pccl_peer_op *moves[] = {send(sim, name, 1, 2, 2, false), receive(sim, name, 2, 1, 2, false)};
        struct pccl_peer_op *half[] = {send(sim, name, 2, 1, 3, false), receive(sim, name, 1, 2, 3, false)};
        struct pccl_peer_op *lone = send(sim, name, 0, 1, 4, tiny), *waits = receive(sim, name, 2, 0, 5, tiny);
        struct pccl_peer_op *open = receive(sim, name, 0, -1, 6, tiny);
        sim_bulk_finish(sim, p[2], half[0]);
        scenario_run_ms(sim, 20);
        close_it(sim, closer, name);
        MUST(sim, refused(sim, name, closer, closer == 0 ? 1 : 0) == PCCL_ARGUMENT);
        MUST(sim, refused(sim, name, closer, -1) == PCCL_ARGUMENT);
        for (uint32_t i = 0; i < 2; i++) {
            scenario_must_end(sim, p[1 + i], moves[i], PCCL_CLASS_PEER_LOST, "closed the subgroup");
            scenario_must_end(sim, p[2 - i], half[i], PCCL_CLASS_PEER_LOST, "closed the subgroup");
        }
        scenario_must_end(sim, p[0], lone, PCCL_CLASS_PEER_LOST, "closed the subgroup");
        scenario_must_end(sim, p[2], waits, PCCL_CLASS_PEER_LOST, "closed the subgroup");
        scenario_must_end(sim, p[0], open, PCCL_CLASS_PEER_LOST, "closed the subgroup");
        for (uint32_t i = 0; i < 3; i++) {
            MUST(sim, i == closer || refused(sim, name, i, i == 0 ? 1 : 0) == PCCL_PEER_LOST);
            MUST(sim, i == closer || refused(sim, name, i, -1) == PCCL_PEER_LOST);
            if (i != closer)
                close_it(sim, i, name);
        }
    }
    MUST(sim, !scenario_is_decided(beside));
    struct pccl_peer_op *in = receive(sim, 0, 1, 0, 9, true);
    must_meet(sim, 0, beside, 1, in);
    nothing_is_left(sim, 4);
}

/* One tag, in one direction between the same two: in the whole group, in two subgroups of the two, in one of three. */
CLUSTER_SCENARIO(group_sends_apart, 4, 1)
{
    const uint64_t names[] = {0, found(sim, 3), found(sim, 3), found(sim, 7)};
    for (uint32_t turn = 0; turn < 4; turn++) {
        const bool tiny = turn % 2 != 0, open = turn >= 2;
        struct pccl_peer_op *out[4], *in[4];
        for (uint32_t i = 0; i < 4; i++)
            out[i] = send(sim, names[i], 0, 1, 1 + i, tiny);
        scenario_run_ms(sim, 20);
        for (uint32_t i = 4; i-- > 0;) /* the last ones first */
            in[i] = receive(sim, names[i], 1, open ? -1 : 0, 1 + i, tiny);
        for (uint32_t i = 0; i < 4; i++)
            must_meet(sim, 0, out[i], 1, in[i]);
        for (uint32_t i = 4; i-- > 0;)
            in[i] = receive(sim, names[i], 1, open ? -1 : 0, 1 + i, tiny);
        for (uint32_t i = 0; i < 4; i++)
            out[i] = send(sim, names[i], 0, 1, 1 + i, tiny);
        for (uint32_t i = 0; i < 4; i++)
            must_meet(sim, 0, out[i], 1, in[i]);
    }
    MUST(sim, refused(sim, names[1], 0, 2) == PCCL_ARGUMENT); /* that peer is not in it */
    const struct sim_request sum = {.subgroup = names[1], .tag = TAG, .step = 1, .tiny = true, .count = 2};
    struct pccl_peer_op *out = send(sim, names[1], 0, 1, 1, true); /* and it does not block the tag */
    struct pccl_peer_op *all[] = {scenario_ask(sim, p[0], &sum), scenario_ask(sim, p[1], &sum)};
    struct pccl_peer_op *in = receive(sim, names[1], 1, 0, 1, true);
    must_meet(sim, 0, out, 1, in);
    for (uint32_t i = 0; i < 2; i++)
        scenario_must_end(sim, p[i], all[i], PCCL_CLASS_NONE, "");
    close_it(sim, 0, names[1]);
    WAIT(sim, 1000, pccl_peer_subgroup(p[1]->machine, names[1])->all.ended);
    out = send(sim, names[2], 0, 1, 2, true);
    in = receive(sim, names[2], 1, -1, 2, true);
    must_meet(sim, 0, out, 1, in);
}

/* One of its three members dies: sends of the others in it end, with the reason; sends outside it do not. */
SCENARIO(group_sends_death)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        const bool tiny = turn != 0;
        const uint32_t victim = 4 - turn;
        if (turn == 0)
            scenario_cluster(sim, p, 5, 1);
        uint64_t name = found(sim, 3 | 1U << victim), pair = found(sim, 3);
        struct pccl_peer_op *lone = send(sim, name, 0, 1, 1, tiny), *open = receive(sim, name, 0, -1, 2, tiny);
        struct pccl_peer_op *dead = send(sim, name, 0, (int)victim, 3, tiny);
        struct pccl_peer_op *kept[] = {send(sim, 0, 0, 1, 4, tiny), send(sim, pair, 0, 1, 5, tiny)};
        struct pccl_peer_op *waits = receive(sim, name, 1, (int)victim, 6, tiny);
        scenario_run_ms(sim, 20);
        sim_peer_kill(sim, p[victim], false);
        scenario_must_end(sim, p[0], lone, PCCL_CLASS_PEER_LOST, "a member of the subgroup left");
        scenario_must_end(sim, p[0], dead, PCCL_CLASS_PEER_LOST, "a member of the subgroup left");
        scenario_must_end(sim, p[0], open, PCCL_CLASS_PEER_LOST, "a member of the subgroup left");
        scenario_must_end(sim, p[1], waits, PCCL_CLASS_PEER_LOST, "a member of the subgroup left");
        WAIT(sim, 3000, p[0]->machine->group.count == victim && p[1]->machine->group.count == victim);
        MUST(sim, !scenario_is_decided(kept[0]) && !scenario_is_decided(kept[1]));
        struct pccl_peer_op *in[] = {receive(sim, 0, 1, 0, 4, tiny), receive(sim, pair, 1, 0, 5, tiny)};
        must_meet(sim, 0, kept[0], 1, in[0]);
        must_meet(sim, 0, kept[1], 1, in[1]);
        for (uint32_t i = 0; i < 2; i++) {
            close_it(sim, i, name);
            close_it(sim, i, pair);
        }
    }
    nothing_is_left(sim, 3);
}

/*
 * One of three does not reconnect. Sends in the subgroup of the three end. Sends in the subgroup of two and in the
 * whole group continue, and a send that is committed at one end is committed at the other.
 */
CLUSTER_SCENARIO(group_sends_restart, 5, 1)
{
    uint64_t three = found(sim, 1 | 2 | 16), two = found(sim, 3), closed = found(sim, 5);
    const uint64_t names[] = {0, two, three};
    struct pccl_peer_op *lone[3], *out[3], *in[3];
    for (uint32_t i = 0; i < 3; i++) {
        out[i] = send(sim, names[i], 0, 1, 1 + i, false);
        in[i] = receive(sim, names[i], 1, 0, 1 + i, false);
        sim_bulk_finish(sim, p[0], out[i]);
    }
    struct pccl_peer_op *gone[] = {send(sim, closed, 0, 2, 7, true), send(sim, closed, 2, 0, 8, false)};
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    for (uint32_t i = 0; i < 3; i++) {
        sim_bulk_finish(sim, p[1], in[i]);
        WAIT(sim, 200, scenario_is_decided(in[i]));
    }
    sim_master_crash(sim, true);
    sim_peer_kill(sim, p[4], false);
    close_it(sim, 0, closed);
    WAIT(sim, 5000, scenario_is_decided(gone[0]));
    for (uint32_t i = 0; i < 3; i++)
        lone[i] = send(sim, names[i], 0, 1, 4 + i, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    for (uint32_t i = 0; i < 3; i++) {
        scenario_must_end(sim, p[0], out[i], PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[1], in[i], PCCL_CLASS_NONE, "");
    }
    scenario_must_end(sim, p[0], gone[0], PCCL_CLASS_PEER_LOST, "");
    scenario_must_end(sim, p[2], gone[1], PCCL_CLASS_PEER_LOST, "");
    scenario_must_end(sim, p[0], lone[2], PCCL_CLASS_PEER_LOST, "");
    WAIT(sim, 1000, p[0]->machine->group.count == 4 && p[1]->machine->group.count == 4);
    MUST(sim, !scenario_is_decided(lone[0]) && !scenario_is_decided(lone[1]));
    struct pccl_peer_op *late[] = {receive(sim, two, 1, -1, 5, true), receive(sim, 0, 1, 0, 4, true)};
    must_meet(sim, 0, lone[1], 1, late[0]);
    must_meet(sim, 0, lone[0], 1, late[1]);
}

static uint64_t pair_of(const struct sim *sim, uint32_t source, uint32_t destination)
{
    const struct pccl_master *m = sim->master->machine;
    return pccl_pair_name(pccl_master_find(m, &p[source]->id)->admitted,
                          pccl_master_find(m, &p[destination]->id)->admitted);
}

/* An operation of an ended subgroup is ignored. A member that reports another pair's operation is removed. */
CLUSTER_SCENARIO(group_sends_liars, 8, 1)
{
    const uint64_t name = found(sim, 3), own = found(sim, 128 | 4), joint = pccl_peer_joint(p[0]->machine);
    const struct pccl_instance unknown[] = {
        {.subgroup = own ^ 1, .pair = pair_of(sim, 7, 0), .joint = joint, .tag = TAG},
        {.subgroup = PCCL_FOUNDING, .pair = pair_of(sim, 7, 0), .joint = joint, .tag = TAG}};
    const struct pccl_instance lies[] = {
        {.subgroup = own, .pair = pair_of(sim, 7, 0), .joint = joint, .tag = TAG}, /* the receiver is not in it */
        {.subgroup = name, .pair = pair_of(sim, 6, 0), .joint = joint, .tag = TAG},
        {.subgroup = name, .pair = pair_of(sim, 0, 1), .joint = joint, .tag = TAG}};
    struct pccl_peer_op *open = send(sim, name, 0, 1, 1, true);
    struct pccl_msg msg = {.type = PCCL_MSG_abort_request, .as.abort_request = {.class = PCCL_CLASS_ABORTED}};
    scenario_lie(sim, p[7]);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(unknown); i++) {
        msg.as.abort_request.instance = unknown[i];
        scenario_forge(sim, p[7], &msg);
        scenario_run_ms(sim, 500);
        MUST(sim, sim->master->machine->member_count == 8 && sim->master->machine->groups[0]->pairs.count == 1);
    }
    for (uint32_t i = 0; i < PCCL_COUNT_OF(lies); i++) {
        uint32_t left = sim->master->machine->member_count - 1;
        msg.as.abort_request.instance = lies[i];
        if (i == 2)
            msg = (struct pccl_msg){.type = PCCL_MSG_done,
                                    .as.done = {.instance = lies[i],
                                                .descriptor = {.collective = PCCL_SEND, .count = 1, .root = p[5]->id}}};
        scenario_lie(sim, p[7 - i]);
        scenario_forge(sim, p[7 - i], &msg);
        WAIT(sim, 1000, sim->master->machine->member_count == left && p[0]->machine->group.count == left);
        MUST(sim, !scenario_is_decided(open));
    }
    struct pccl_peer_op *in = receive(sim, name, 1, 0, 1, true);
    must_meet(sim, 0, open, 1, in);
}
