/* Scenarios of sends: the sends of a pair match by the order of launches, whichever peer dies. */
#include "master/roster.h"
#include "scenario.h"
#include "wire/subgroup.h"

#include <string.h>

static struct sim_peer *p[PCCL_MESH_PEERS_MAX + 2]; /* peers of the running scenario */

static struct pccl_peer_op *send(struct sim *sim, uint32_t from, uint32_t to, uint64_t step, bool tiny)
{
    return scenario_send(sim, p[from], p[to], true, step, tiny);
}

static struct pccl_peer_op *receive(struct sim *sim, uint32_t at, uint32_t from, uint64_t step, bool tiny)
{
    return scenario_send(sim, p[at], p[from], false, step, tiny);
}

/* Both ends succeed. */
static void exchange(struct sim *sim, uint32_t from, uint32_t to, uint64_t step)
{
    struct pccl_peer_op *out = send(sim, from, to, step, true), *in = receive(sim, to, from, step, true);
    scenario_must_end(sim, p[from], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[to], in, PCCL_CLASS_NONE, "");
}

static uint32_t pairs_at_master(const struct sim *sim) { return sim->master->machine->groups[0]->pairs.count; }

/*
 * In both directions at once under one tag, several in flight, launched in another order at each
 * end: each meets its own, and nothing of them is left.
 */
CLUSTER_SCENARIO(pair_crossing, 3, 1)
{
    struct pccl_peer_op *out[2][3], *in[2][3];
    for (uint32_t i = 0; i < 3; i++)
        out[0][i] = send(sim, 0, 1, 1 + i, true);
    for (uint32_t i = 0; i < 3; i++)
        in[0][i] = receive(sim, 0, 1, 5 + i, true);
    for (uint32_t i = 0; i < 3; i++) {
        in[1][i] = receive(sim, 1, 0, 1 + i, true);
        out[1][i] = send(sim, 1, 0, 5 + i, true);
    }
    for (uint32_t who = 0; who < 2; who++)
        for (uint32_t i = 0; i < 3; i++) {
            scenario_must_end(sim, p[who], out[who][i], PCCL_CLASS_NONE, "");
            scenario_must_end(sim, p[who], in[who][i], PCCL_CLASS_NONE, "");
        }
    WAIT(sim, 3000, pairs_at_master(sim) == 0 && p[0]->machine->op_count == 0 && p[1]->machine->op_count == 0);
}

/* A death beside a pair disturbs it in no phase: launched at one end, at both, complete at one. */
CLUSTER_SCENARIO(pair_third_dies, 6, 1)
{
    struct pccl_peer_op *lone = send(sim, 0, 1, 1, true), *out = send(sim, 1, 2, 2, false);
    struct pccl_peer_op *in = receive(sim, 2, 1, 2, false);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[5], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 5 && p[1]->machine->group.count == 5);
    sim_bulk_finish(sim, p[1], out);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 4 && p[2]->machine->group.count == 4);
    MUST(sim, !scenario_is_decided(lone) && !scenario_is_decided(out) && !scenario_is_decided(in));
    sim_bulk_finish(sim, p[2], in);
    struct pccl_peer_op *late = receive(sim, 1, 0, 1, true);
    scenario_must_end(sim, p[0], lone, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], late, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[2], in, PCCL_CLASS_NONE, "");
}

/*
 * Either end dies: before it launches, with its part complete. The other one learns that, and may continue with a
 * third.
 */
CLUSTER_SCENARIO(pair_end_dies, 6, 1)
{
    struct pccl_peer_op *lone = send(sim, 0, 5, 1, true), *waits = receive(sim, 1, 5, 2, true);
    struct pccl_peer_op *beside = send(sim, 0, 1, 7, true);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[5], false);
    scenario_must_end(sim, p[0], lone, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[5]->id));
    scenario_must_end(sim, p[1], waits, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[5]->id));
    struct pccl_peer_op *out = send(sim, 0, 4, 3, false), *other = send(sim, 4, 0, 4, false);
    struct pccl_peer_op *in = receive(sim, 4, 0, 3, false), *back = receive(sim, 0, 4, 4, false);
    sim_bulk_finish(sim, p[0], out); /* all that it sent has left it; */
    sim_bulk_finish(sim, p[4], other);
    sim_bulk_finish(sim, p[0], back); /* ... this has arrived, and both have reported it */
    scenario_must_end(sim, p[0], back, PCCL_CLASS_NONE, "");
    (void)in;
    sim_peer_kill(sim, p[4], false);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[4]->id));
    struct sim_request late = {.tag = 1, .collective = PCCL_SEND, .other = p[4]->id, .tiny = true, .count = 1};
    struct pccl_peer_op *never = NULL;
    uint32_t known;
    scenario_run_ms(sim, 50);
    MUST(sim, pccl_peer_members(p[1]->machine, &known) != NULL && known == 5); /* as of its last call ... */
    for (uint32_t i = 0; i < 2; i++)
        MUST(sim, sim_app_launch(sim, p[i], &late, &never) == PCCL_PEER_LOST);
    MUST(sim, pccl_peer_members(p[1]->machine, &known) != NULL && known == 4); /* ... which this one was */
    MUST(sim, !scenario_is_decided(beside));
    struct pccl_peer_op *met = receive(sim, 1, 0, 7, true);
    scenario_must_end(sim, p[0], beside, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], met, PCCL_CLASS_NONE, "");
    exchange(sim, 0, 1, 8);
}

/* An operation given up by one end is given up at the other, which launches it later, and the next ones match. */
CLUSTER_SCENARIO(pair_given_up, 3, 1)
{
    struct pccl_peer_op *first = send(sim, 0, 1, 1, true), *next = send(sim, 0, 1, 2, true);
    scenario_abort(sim, p[0], first, PCCL_CLASS_DEADLINE);
    scenario_must_end(sim, p[0], first, PCCL_CLASS_DEADLINE, pccl_id_str(&p[1]->id));
    scenario_run_ms(sim, 20);
    struct pccl_peer_op *stillborn = receive(sim, 1, 0, 1, true), *met = receive(sim, 1, 0, 2, true);
    scenario_must_end(sim, p[1], stillborn, PCCL_CLASS_DEADLINE, pccl_id_str(&p[0]->id));
    scenario_must_end(sim, p[0], next, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], met, PCCL_CLASS_NONE, "");
    exchange(sim, 0, 1, 3);
}

/* Two peers with different lengths, or with one payload tiny and the other not, learn each other's request. */
CLUSTER_SCENARIO(pair_mismatch, 3, 1)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct pccl_peer_op *out = send(sim, 0, 1, turn, true), *in = NULL;
        struct sim_request other = {.collective = PCCL_SEND,
                                    .step = turn,
                                    .other = p[0]->id,
                                    .tiny = turn == 0,
                                    .count = turn == 0 ? 3 : 100000};
        MUST(sim, sim_app_launch(sim, p[1], &other, &in) == PCCL_OK);
        scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH,
                          turn == 0 ? "called receive of 3 u64 from peer" : "called receive of 100000 u64 from peer");
        scenario_must_end(sim, p[1], in, PCCL_CLASS_MISMATCH, "called send of 2 u64");
    }
    exchange(sim, 0, 1, 5);
}

/* A bulk send whose link cannot be dialed ends by itself; others continue. */
CLUSTER_SCENARIO(pair_link, 5, 1)
{
    const struct pccl_id *ring = p[0]->machine->group.ring;
    struct sim_peer *one = sim_peer_find(sim, &ring[0]), *other = sim_peer_find(sim, &ring[2]);
    sim_net_cut(sim, one->process.host, other->process.host, SIM_DATA, SIM_REFUSE);
    scenario_run_ms(sim, 4000);
    MUST(sim, sim->master->machine->member_count == 5);
    struct pccl_peer_op *out = scenario_send(sim, one, other, true, 1, false),
                        *in = scenario_send(sim, other, one, false, 1, false);
    scenario_run_ms(sim, 5000);
    MUST(sim, !scenario_is_decided(out) && !scenario_is_decided(in));
    WAIT(sim, 8000, scenario_is_decided(out) && scenario_is_decided(in));
    MUST(sim, strstr(out->reason.bytes, "no link to peer") != NULL);
    MUST(sim, strstr(out->reason.bytes, "refused") != NULL && sim->master->machine->member_count == 5);
    MUST(sim, scenario_take(sim, one, out) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, other, in) == PCCL_CLASS_PEER_LOST);
    out = scenario_send(sim, one, other, true, 2, true);
    in = scenario_send(sim, other, one, false, 2, true);
    WAIT(sim, 1000, scenario_is_decided(out) && scenario_is_decided(in));
    MUST(sim, scenario_take(sim, one, out) == PCCL_CLASS_NONE && scenario_take(sim, other, in) == PCCL_CLASS_NONE);
}

/* Both found a subgroup of themselves; its name. */
static uint64_t found_two(struct sim *sim, uint32_t one, uint32_t other)
{
    const struct pccl_id list[] = {p[one]->id, p[other]->id};
    const struct sim_request request = {
        .collective = PCCL_FOUND, .step = 1, .tiny = true, .count = 2, .members = list, .member_count = 2};
    struct pccl_peer_op *ops[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++)
        MUST(sim, sim_app_launch(sim, p[i == 0 ? one : other], &request, &ops[i]) == PCCL_OK);
    WAIT(sim, 1000, scenario_is_decided(ops[0]) && scenario_is_decided(ops[1]));
    const struct pccl_peer_subgroup *founded = pccl_peer_founded(p[one]->machine, ops[0]);
    MUST(sim, founded != NULL);
    uint64_t name = founded->name;
    MUST(sim, scenario_take(sim, p[one], ops[0]) == PCCL_CLASS_NONE);
    MUST(sim, scenario_take(sim, p[other], ops[1]) == PCCL_CLASS_NONE);
    return name;
}

/* Two that found a subgroup use its links for sends outside it, also for those under way when the subgroup ends. */
SCENARIO(pair_large_group)
{
    scenario_cluster(sim, p, PCCL_MESH_PEERS_MAX + 2, 1);
    const struct pccl_id *ring = p[0]->machine->group.ring;
    uint32_t one = 0, other = 0, third = 0;
    while (!pccl_id_equal(&p[one]->id, &ring[0]))
        one++;
    while (!pccl_id_equal(&p[other]->id, &ring[8]))
        other++;
    while (third == one || third == other)
        third++;
    exchange(sim, one, other, 1);
    uint64_t name = found_two(sim, one, other);
    sim->bulk_by_hand = false;
    struct pccl_peer_op *out = send(sim, one, other, 2, false), *in = receive(sim, other, one, 2, false);
    scenario_must_end(sim, p[one], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[other], in, PCCL_CLASS_NONE, "");
    sim->bulk_by_hand = true;
    out = send(sim, one, other, 3, false);
    in = receive(sim, other, one, 3, false);
    scenario_run_ms(sim, 20);
    sim_check_closing(sim, p[one], name);
    sim_peer_tell(sim, p[one], &(struct pccl_peer_event){.kind = PCCL_PEER_SUBGROUP_CLOSE, .subgroup = name});
    scenario_run_ms(sim, 12000);
    sim_peer_kill(sim, p[third], false);
    WAIT(sim, 1000, p[one]->machine->group.count == PCCL_MESH_PEERS_MAX + 1);
    MUST(sim, !scenario_is_decided(out) && !scenario_is_decided(in));
    sim_bulk_finish(sim, p[one], out);
    sim_bulk_finish(sim, p[other], in);
    scenario_must_end(sim, p[one], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[other], in, PCCL_CLASS_NONE, "");
    exchange(sim, one, other, 4);
}

/*
 * The master restarts: an operation done at both ends is committed, a commit known to one of them holds for the other,
 * and an open one continues. One that does not return ends only its pairs.
 */
CLUSTER_SCENARIO(pair_restart, 5, 1)
{
    struct pccl_peer_op *open = send(sim, 0, 1, 10, true), *lost = receive(sim, 3, 4, 20, true);
    struct pccl_peer_op *out = send(sim, 0, 1, 30, false), *in = receive(sim, 1, 0, 30, false);
    struct pccl_peer_op *half = send(sim, 3, 4, 40, false), *dead = receive(sim, 4, 3, 40, false);
    sim_bulk_finish(sim, p[0], out);
    sim_bulk_finish(sim, p[3], half);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    sim_bulk_finish(sim, p[1], in);
    WAIT(sim, 200, scenario_is_decided(in));
    MUST(sim, !scenario_is_decided(out));
    sim_master_crash(sim, true);
    sim_bulk_finish(sim, p[4], dead); /* no peer receives that */
    sim_peer_kill(sim, p[4], false);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], in, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[3], lost, PCCL_CLASS_PEER_LOST, "");
    scenario_must_end(sim, p[3], half, PCCL_CLASS_PEER_LOST, "");
    WAIT(sim, 1000, p[0]->machine->group.count == 4 && p[1]->machine->group.count == 4);
    MUST(sim, !scenario_is_decided(open));
    struct pccl_peer_op *late = receive(sim, 1, 0, 10, true);
    scenario_must_end(sim, p[0], open, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], late, PCCL_CLASS_NONE, "");
    exchange(sim, 1, 0, 50);
}

static uint64_t admitted(const struct sim *sim, uint32_t who)
{
    return pccl_master_find(sim->master->machine, &p[who]->id)->admitted;
}

/*
 * A peer that names a pair that it is not in, or a role that it does not have, is removed, and the pair is unaffected.
 */
CLUSTER_SCENARIO(pair_liars, 7, 1)
{
    uint64_t foreign = pccl_pair_name(admitted(sim, 0), admitted(sim, 1));
    uint64_t own = pccl_pair_name(admitted(sim, 6), admitted(sim, 0));
    struct pccl_instance theirs = {.pair = foreign, .joint = pccl_peer_joint(p[0]->machine), .tag = 1};
    struct pccl_instance mine = {.pair = own, .joint = theirs.joint, .tag = 1};
    struct pccl_descriptor as_destination = {.collective = PCCL_SEND, .count = 1, .root = p[0]->id};
    struct pccl_msg msgs[] = {
        {.type = PCCL_MSG_done, .as.done = {.instance = mine, .descriptor = as_destination}}, /* it is the source */
        {.type = PCCL_MSG_done, .as.done = {.instance = theirs, .descriptor = as_destination}},
        {.type = PCCL_MSG_abort_request, .as.abort_request = {.instance = theirs, .class = PCCL_CLASS_ABORTED}},
        {.type = PCCL_MSG_view_ack, .as.view_ack = {.instances = &theirs, .instances_count = 1}},
    };
    struct pccl_peer_op *open = send(sim, 0, 1, 1, true);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(msgs); i++) {
        uint32_t left = sim->master->machine->member_count - 1;
        scenario_lie(sim, p[6 - i]);
        scenario_forge(sim, p[6 - i], &msgs[i]);
        WAIT(sim, 1000, sim->master->machine->member_count == left && p[0]->machine->group.count == left);
        MUST(sim, !scenario_is_decided(open));
    }
    struct pccl_peer_op *in = receive(sim, 1, 0, 1, true);
    scenario_must_end(sim, p[0], open, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], in, PCCL_CLASS_NONE, "");
}
