/* Scenarios of members that lie: the others continue, for every choice of the liar. */
#include "master/output.h"
#include "master/roster.h"
#include "peer/members.h"
#include "scenario.h"
#include "wire/subgroup.h"

#include <string.h>

static struct sim_peer *p[8]; /* peers of the running scenario */

/* ---- members that lie about the run ---- */

/* Resumes as `peer`, which from here on is played by a process that knows its secrets. */
static struct sim_conn *lie_as(struct sim *sim, struct sim_peer *peer)
{
    struct pccl_msg hello = scenario_hello_of(peer, peer->machine->boot);
    struct pccl_peer_config config = peer->machine->config;
    hello.as.hello.run_key = peer->machine->run_key;
    hello.as.hello.candidates = config.candidates; /* the machine ends */
    sim_master_crash(sim, true);
    sim_peer_kill(sim, peer, false);
    scenario_lie(sim, peer);
    sim_master_start(sim);
    struct sim_conn *conn = scenario_dial_master(sim);
    scenario_say(sim, conn, &hello, 0);
    return conn;
}

/* Returns the honest report of p[1], of p[0]'s run. */
static struct pccl_msg report_of(const struct pccl_peer *peer)
{
    return (struct pccl_msg){.type = PCCL_MSG_resume,
                             .as.resume = {.epoch = peer->epoch,
                                           .view = peer->view,
                                           .update = peer->rounds[PCCL_ROUND_UPDATE],
                                           .members = peer->members,
                                           .members_count = peer->member_count,
                                           .ring = peer->group.ring,
                                           .ring_count = peer->group.count,
                                           .cost = peer->group.cost}};
}

/* Sends a complete false report; p[0] continues without the liar. */
static void report_and_go(struct sim *sim, struct sim_conn *conn, const struct pccl_msg *report,
                          const struct pccl_msg *round, bool leaves)
{
    struct pccl_msg end = {.type = PCCL_MSG_resume_end}, leave = {.type = PCCL_MSG_leave};
    scenario_say(sim, conn, report, 1);
    scenario_say(sim, conn, round, 2);
    scenario_say(sim, conn, &end, 3);
    if (leaves)
        scenario_say(sim, conn, &leave, 4);
    WAIT(sim, 8000, p[0]->machine->greeted && !p[0]->machine->resuming && p[0]->machine->member_count == 1);
    MUST(sim, p[0]->machine->state == PCCL_PEER_MEMBER && p[0]->machine->epoch.inc < UINT32_MAX / 2);
    MUST(sim, pccl_epoch_compare(&p[0]->machine->attributes.epoch, &p[0]->machine->epoch) <= 0);
}

/*
 * An epoch that has no successor, and one far from all other members' epochs; as the reporter's epoch, or as the epoch
 * of a round that it claims was answered.
 */
SCENARIO(lying_epochs)
{
    static const uint32_t lies[] = {UINT32_MAX, UINT32_MAX - (1 << 18)};
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 0)
            scenario_cluster(sim, p, 1, 1);
        p[1] = scenario_join(sim, 2 + i, 0);
        scenario_run_ms(sim, 100);
        scenario_update_all(sim, p, 1);
        WAIT(sim, 1000, pccl_peer_is_connected(p[1]->machine));
        struct pccl_msg report = report_of(p[0]->machine);
        struct pccl_msg round = {.type = PCCL_MSG_resume_round,
                                 .as.resume_round = {.kind = PCCL_ROUND_UPDATE,
                                                     .round = p[0]->machine->rounds[PCCL_ROUND_UPDATE],
                                                     .attributes = p[0]->machine->attributes}};
        report.as.resume.update++; /* it has the answer that p[0] waits for */
        scenario_update(sim, p[0]);
        struct sim_conn *conn = lie_as(sim, p[1]);
        *(i < 2 ? &report.as.resume.epoch.inc : &round.as.resume_round.attributes.epoch.inc) = lies[i % 2];
        report_and_go(sim, conn, &report, &round, i >= 2);
        WAIT(sim, 2000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    }
}

/* Rounds unknown to all others, with no room for later ones; the same with outcomes. */
SCENARIO(lying_rounds)
{
    enum { LIES = 7 };
    scenario_cluster(sim, p, 3, 1);
    for (uint32_t i = 0; i < LIES; i++) {
        p[3] = scenario_join(sim, 4 + i, 0);
        scenario_run_ms(sim, 100);
        scenario_update_all(sim, p, 3);
        WAIT(sim, 1000, pccl_peer_is_connected(p[3]->machine));
        struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
        struct pccl_msg_resume *lie = &report.as.resume;
        uint64_t *const counters[] = {&lie->update, &lie->optimize, &lie->query, &lie->sync, &lie->decisions};
        *counters[i % 5] = i < 5 ? UINT64_MAX : lie->update + 2 + UINT32_MAX * (uint64_t)(i % 5);
        struct sim_conn *conn = lie_as(sim, p[3]);
        scenario_say(sim, conn, &report, 1);
        scenario_say(sim, conn, &end, 2);
        WAIT(sim, 20000, p[0]->machine->greeted && !p[0]->machine->resuming && p[0]->machine->member_count == 3);
        scenario_commit_all(sim, p, 3, 1, 1 + i);
    }
}

/* Round 2^64 - 1 is not the one before round 0: no answer of it exists, and its voter is removed, with the reason. */
SCENARIO(lying_votes)
{
    const struct pccl_msg lies[] = {
        {.type = PCCL_MSG_vote, .as.vote = {.kind = PCCL_ROUND_PENDING, .round = UINT64_MAX}},
        {.type = PCCL_MSG_vote, .as.vote = {.kind = PCCL_ROUND_OPTIMIZE, .round = UINT64_MAX}},
        {.type = PCCL_MSG_sync_vote, .as.sync_vote = {.round = UINT64_MAX}},
        {.type = PCCL_MSG_sync_proof, .as.sync_proof = {.round = UINT64_MAX}},
        {.type = PCCL_MSG_sync_done, .as.sync_done = {.round = UINT64_MAX}},
    };
    scenario_cluster(sim, p, 2, 1);
    for (uint32_t i = 0; i < PCCL_COUNT_OF(lies); i++) {
        p[2] = scenario_join(sim, 3 + i, 0);
        scenario_run_ms(sim, 100);
        scenario_update_all(sim, p, 2);
        WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
        scenario_lie(sim, p[2]);
        p[2]->end_checked = true;
        scenario_forge(sim, p[2], &lies[i]);
        WAIT(sim, 500, p[2]->machine->state == PCCL_PEER_OVER && p[0]->machine->member_count == 2);
        MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, i < 3    ? "a round that is not open"
                                                                      : i == 3 ? "not asked"
                                                                               : "not requested"));
    }
    scenario_pending(sim, p[0]);
    scenario_pending(sim, p[1]);
    WAIT(sim, 100, scenario_is_over(p[0], PCCL_CALL_PENDING) && scenario_is_over(p[1], PCCL_CALL_PENDING));
}

/* Launches between the answer of a round and the missed view, by a peer alone in its group. */
CLUSTER_SCENARIO(alone_but_counted, 1, 1)
{
    scenario_update_all(sim, p, 1);
    struct pccl_peer_op *op = NULL;
    struct pccl_peer *machine = p[0]->machine;
    struct sim_request request = {.tag = 1, .step = 1, .count = 1 << 20, .reduction = PCCL_SUM};
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_TOO_FEW_PEERS);
    machine->attributes.epoch.inc += 100000; /* as from a restarted master that died before it sent the view */
    machine->last_attributes[PCCL_ROUND_UPDATE] = machine->attributes;
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_OK);
    scenario_restart_master(sim, 200);
    WAIT(sim, 5000, scenario_is_decided(op));
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_PEER_LOST);
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_TOO_FEW_PEERS);
}

/* A report that never ends: the run ends when its time is up, and the waiting peer creates another. */
CLUSTER_SCENARIO(endless_report, 2, 1)
{
    struct pccl_msg beat = {.type = PCCL_MSG_heartbeat};
    struct sim_conn *conn = lie_as(sim, p[0]);
    for (uint32_t waited_ms = 0; waited_ms < sim->plan.master.silence_ms + 1000; waited_ms += 200) {
        if (!conn->ends[0].ended)
            scenario_say(sim, conn, &beat, 0);
        scenario_run_ms(sim, 200);
    }
    MUST(sim, pccl_peer_is_connected(p[1]->machine) && sim->master->machine->member_count == 1);
}

/* ---- members that name operations without launches ---- */

/* `count` operations of the era that exist nowhere, from this one on. */
static void invent(const struct sim *sim, struct pccl_instance *instances, uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        instances[i] = (struct pccl_instance){.joint = pccl_master_joint(sim->master->machine), .tag = first + i};
}

static void acknowledge_inventions(struct sim *sim, struct sim_peer *peer, uint64_t first, uint32_t count)
{
    static struct pccl_instance instances[PCCL_OPS_HELD_MAX];
    invent(sim, instances, first, count);
    struct pccl_msg ack = {.type = PCCL_MSG_view_ack,
                           .as.view_ack = {.view = sim->master->machine->groups[0]->view,
                                           .instances = instances,
                                           .instances_count = count}};
    scenario_forge(sim, peer, &ack);
}

/* Views that never existed, with all possible names: no other peer must remember any of them. */
CLUSTER_SCENARIO(lying_views, 3, 1)
{
    scenario_lie(sim, p[2]);
    acknowledge_inventions(sim, p[2], 1000, PCCL_OPS_HELD_MAX);
    acknowledge_inventions(sim, p[2], 10000, PCCL_OPS_HELD_MAX);
    WAIT(sim, 1000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, scenario_departures(sim) == 1 && p[0]->machine->tombstone_count == 0);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* An existing view, and the most that can be in flight at once: four together cannot end the others. */
CLUSTER_SCENARIO(lying_views_together, 7, 1)
{
    for (uint32_t i = 2; i < 6; i++) {
        scenario_lie(sim, p[i]);
        scenario_control(sim, p[i], false); /* its machine would acknowledge the view itself */
    }
    sim_peer_kill(sim, p[6], false);
    WAIT(sim, 1000, p[0]->machine->group.count == 6);
    for (uint32_t i = 2; i < 6; i++) {
        acknowledge_inventions(sim, p[i], i * 10000, PCCL_OPS_HELD_MAX);
        scenario_control(sim, p[i], true);
    }
    WAIT(sim, 4000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, p[0]->machine->tombstone_count == 4 * PCCL_OPS_HELD_MAX);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* Operations that it claims to have finished and no other has launched: two of four fill no table of the others. */
SCENARIO(hoarding)
{
    static struct pccl_instance instance;
    scenario_cluster(sim, p, 4, 1);
    for (uint32_t i = 2; i < 4; i++) {
        scenario_lie(sim, p[i]);
        for (uint32_t n = 0; n < 2 * PCCL_OPS_PER_PEER_MAX; n++) {
            invent(sim, &instance, i * 100000 + n, 1);
            struct pccl_msg done = {.type = PCCL_MSG_done,
                                    .as.done = {.instance = instance,
                                                .view = p[i]->machine->view,
                                                .descriptor = {.count = 1 << 20, .datatype = 0}}};
            scenario_forge(sim, p[i], &done);
        }
    }
    struct pccl_peer_op *a = scenario_bulk(sim, p[0], 1, 1), *b = scenario_bulk(sim, p[1], 1, 1);
    WAIT(sim, 4000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    WAIT(sim, 1000, scenario_is_decided(a) && scenario_is_decided(b));
    MUST(sim, sim->master->machine->groups[0]->by_instance.count < 8 && scenario_departures(sim) == 2);
    MUST(sim, scenario_take(sim, p[0], a) == PCCL_CLASS_PEER_LOST);
    MUST(sim, scenario_take(sim, p[1], b) == PCCL_CLASS_PEER_LOST);
    scenario_commit_all(sim, p, 2, 2, 1);
}

/* The first one to acknowledge a view lists most launches: their number in one era does not matter. */
SCENARIO(many_killed)
{
    enum { EACH = PCCL_OPS_LONE_MAX / 2 + 1 };
    static struct pccl_peer_op *ops[3][EACH];
    scenario_cluster(sim, p, 5, 1);
    sim->bulk_by_hand = sim->mute_uses = true; /* more tags than are followed */
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < 3 * EACH; i++)
            ops[i % 3][i / 3] = scenario_bulk(sim, p[i % 3], i / 3, 1 + turn);
        scenario_run_ms(sim, 20);
        scenario_control(sim, p[1], false);
        scenario_control(sim, p[2], false);
        sim_peer_kill(sim, p[4 - turn], false);
        WAIT(sim, 1000, p[0]->machine->group.count == 4 - turn);
        scenario_run_ms(sim, 20); /* p[0] has reported the operations that the view has ended */
        scenario_control(sim, p[1], true);
        scenario_control(sim, p[2], true);
        scenario_run_ms(sim, 20);
        for (uint32_t i = 0; i < 3 * EACH; i++)
            MUST(sim, scenario_take(sim, p[i % 3], ops[i % 3][i / 3]) == PCCL_CLASS_PEER_LOST);
    }
    scenario_commit_all(sim, p, 3, EACH, 1);
    MUST(sim, scenario_departures(sim) == 2);
}

/* A report full of ends that no other member knows. */
CLUSTER_SCENARIO(lying_ends, 3, 1)
{
    struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
    struct pccl_instance instance;
    invent(sim, &instance, 0, 1);
    struct sim_conn *conn = lie_as(sim, p[2]);
    uint64_t sequence = 0;
    scenario_say(sim, conn, &report, ++sequence);
    for (uint32_t i = 0; i < 13000; i++) {
        struct pccl_msg op = {.type = PCCL_MSG_resume_operation,
                              .as.resume_operation = {.instance = instance,
                                                      .state = PCCL_RESUME_ABORTED,
                                                      .class = PCCL_CLASS_ABORTED,
                                                      .descriptor = {.count = 1}}};
        op.as.resume_operation.instance.tag = 1000 + i;
        scenario_say(sim, conn, &op, ++sequence);
    }
    scenario_say(sim, conn, &end, ++sequence);
    WAIT(sim, 8000, p[0]->machine->group.count == 2 && p[1]->machine->group.count == 2);
    MUST(sim, p[0]->machine->tombstone_count == 0);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* The first to report, after a restart, ends by two others, together more than one may have, is not blamed. */
SCENARIO(many_ended)
{
    enum { EACH = PCCL_OPS_LONE_MAX / 2 + 1 };
    scenario_cluster(sim, p, 3, 1);
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        struct pccl_peer_op *op = scenario_bulk(sim, p[i % 2], 1 + i % 64, 1 + i);
        scenario_abort(sim, p[i % 2], op, PCCL_CLASS_ABORTED);
        WAIT(sim, 1000, scenario_is_decided(op));
        MUST(sim, scenario_take(sim, p[i % 2], op) == PCCL_CLASS_ABORTED);
    }
    WAIT(sim, 1000, p[2]->machine->tombstone_count == 2 * EACH);
    scenario_control(sim, p[0], false);
    scenario_control(sim, p[1], false);
    scenario_restart_master(sim, 200);
    scenario_run_ms(sim, 1000);
    scenario_control(sim, p[0], true);
    scenario_control(sim, p[1], true);
    scenario_commit_all(sim, p, 3, 0, 1);
    MUST(sim, scenario_departures(sim) == 0 && p[2]->machine->tombstone_count == 2 * EACH);
}

/*
 * One has received the ends of the others' launches, together more than one may end alone, and they have not: half of
 * them they have finished, the other half are in progress. Operations that they have launched, too, do not count.
 */
SCENARIO(many_launched)
{
    enum { EACH = PCCL_OPS_LONE_MAX / 2 + 1 };
    static struct pccl_peer_op *ops[2][EACH], *own[EACH];
    scenario_cluster(sim, p, 3, 1);
    sim->mute_uses = true; /* more tags than are followed */
    for (uint32_t i = 0; i < 2 * EACH; i++)
        ops[i / EACH][i % EACH] = scenario_launch(sim, p[1 + i / EACH], i, 1, i < EACH, 0);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[1], false);
    scenario_control(sim, p[2], false);
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < EACH; i++)
            own[i] = scenario_launch(sim, p[0], half * EACH + i, 1, half == 0, 0);
        for (uint32_t i = 0; i < EACH; i++)
            scenario_abort(sim, p[0], own[i], PCCL_CLASS_ABORTED);
        for (uint32_t i = 0; i < EACH; i++) {
            WAIT(sim, 1000, scenario_is_decided(own[i]));
            MUST(sim, scenario_take(sim, p[0], own[i]) == PCCL_CLASS_ABORTED);
        }
    }
    sim_master_crash(sim, true);
    scenario_control(sim, p[1], true);
    scenario_control(sim, p[2], true);
    sim_master_start(sim);
    for (uint32_t i = 0; i < 2 * EACH; i++) {
        WAIT(sim, 5000, scenario_is_decided(ops[i / EACH][i % EACH]));
        MUST(sim, scenario_take(sim, p[1 + i / EACH], ops[i / EACH][i % EACH]) == PCCL_CLASS_ABORTED);
    }
    scenario_commit_all(sim, p, 3, 2 * EACH, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

/* ---- members that lie about links, and strangers ---- */

static void lose(struct sim *sim, struct sim_peer *peer, const struct sim_peer *to, enum pccl_link_end how)
{
    struct pccl_msg lost = {.type = PCCL_MSG_link_lost, .as.link_lost = {.peer = to->id, .how = (uint8_t)how}};
    scenario_forge(sim, peer, &lost);
}

/* The oldest reports that it cannot reach another one, whose port answers the master: it is removed itself. */
CLUSTER_SCENARIO(lying_link, 3, 1)
{
    scenario_lie(sim, p[0]);
    lose(sim, p[0], p[1], PCCL_LINK_TIMEOUT);
    WAIT(sim, 3000, p[1]->machine->group.count == 2 && p[2]->machine->group.count == 2);
    MUST(sim, scenario_departures(sim) == 1 && !pccl_peer_is_connected(p[0]->machine));
    scenario_commit_all(sim, p + 1, 2, 1, 1);
}

/* A member reports that another one is gone, whose control connection then breaks for a moment. */
CLUSTER_SCENARIO(lying_witness, 3, 1)
{
    lose(sim, p[0], p[1], PCCL_LINK_CLOSED);
    scenario_run_ms(sim, 5);
    sim_conn_reset(sim, p[1]->control);
    scenario_run_ms(sim, 5);
    lose(sim, p[0], p[1], PCCL_LINK_CLOSED);
    scenario_run_ms(sim, 500);
    MUST(sim, scenario_departures(sim) == 0);
    scenario_commit_all(sim, p, 3, 1, 1);
}

/* The same for three peers whose ports the master cannot reach: one report alone removes no peer. */
CLUSTER_SCENARIO(lying_witness_of_many, 5, 1)
{
    for (uint32_t i = 1; i < 4; i++) {
        pccl_master_find(sim->master->machine, &p[i]->id)->verified = false;
        lose(sim, p[0], p[i], PCCL_LINK_CLOSED);
    }
    scenario_run_ms(sim, 5);
    for (uint32_t i = 1; i < 4; i++)
        sim_conn_reset(sim, p[i]->control);
    scenario_run_ms(sim, 1000);
    MUST(sim, scenario_departures(sim) == 0);
    scenario_commit_all(sim, p, 5, 1, 1);
}

/*
 * After a restart of the master a member reports peers as dead that reconnect a moment later. The master believes this
 * of one only, and waits for the others.
 */
CLUSTER_SCENARIO(lying_witness_of_a_restart, 5, 1)
{
    struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
    struct pccl_id dead[] = {p[1]->id, p[2]->id, p[3]->id};
    end.as.resume_end.dead = dead;
    end.as.resume_end.dead_count = PCCL_COUNT_OF(dead);
    for (uint32_t i = 1; i < 4; i++)
        scenario_control(sim, p[i], false);
    struct sim_conn *conn = lie_as(sim, p[4]);
    scenario_say(sim, conn, &report, 1);
    scenario_say(sim, conn, &end, 2);
    scenario_run_ms(sim, 1000);
    for (uint32_t i = 1; i < 4; i++)
        scenario_control(sim, p[i], true);
    WAIT(sim, 20000, p[0]->machine->greeted && !p[0]->machine->resuming && p[0]->machine->member_count == 4);
    scenario_commit_all(sim, p, 4, 1, 1);
}

/*
 * During a recovery the master has reached no port. The control connections of three returned members break for a
 * moment. The word of a single member removes at most one of them.
 */
CLUSTER_SCENARIO(lying_witness_of_a_recovery, 6, 1)
{
    struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
    scenario_control(sim, p[0], false); /* the recovery waits for it */
    struct sim_conn *conn = lie_as(sim, p[5]);
    scenario_say(sim, conn, &report, 1);
    scenario_say(sim, conn, &end, 2);
    scenario_run_ms(sim, 300);
    MUST(sim, sim->master->machine->recovering);
    for (uint32_t i = 1; i < 4; i++) {
        struct pccl_remote *remote = pccl_master_find(sim->master->machine, &p[i]->id);
        MUST(sim, remote != NULL && remote->conn != 0);
        remote->verified = false;
        struct pccl_msg lost = {.type = PCCL_MSG_link_lost,
                                .as.link_lost = {.peer = p[i]->id, .how = PCCL_LINK_REFUSED}};
        scenario_say(sim, conn, &lost, 2 + i);
    }
    scenario_run_ms(sim, 5);
    for (uint32_t i = 1; i < 4; i++) {
        sim_conn_reset(sim, p[i]->control);
        scenario_run_ms(sim, 2);
    }
    scenario_run_ms(sim, 500);
    uint32_t gone = 0;
    for (uint32_t i = 1; i < 4; i++)
        gone += !pccl_peer_is_connected(p[i]->machine);
    if (gone > 1)
        sim_fail(sim, "one word has removed %u", gone);
}

/* Two members of another group, which have no links to it, wait for a control connection to break. */
CLUSTER_SCENARIO(witness_of_others, 4, 2)
{
    struct sim_peer *group[] = {p[0], p[2]};
    lose(sim, p[1], p[0], PCCL_LINK_CLOSED);
    lose(sim, p[3], p[0], PCCL_LINK_CLOSED);
    scenario_run_ms(sim, 5);
    sim_conn_reset(sim, p[0]->control);
    scenario_run_ms(sim, 500);
    MUST(sim, scenario_departures(sim) == 0);
    scenario_commit_all(sim, group, 2, 1, 1);
}

/* A newcomer, which is not a member yet, reports this; two of them. */
CLUSTER_SCENARIO(stranger_witness, 2, 1)
{
    for (uint32_t i = 2; i < 4; i++)
        p[i] = scenario_join(sim, 1 + i, 0);
    scenario_run_ms(sim, 100); /* their links are up, and they have reported that */
    for (uint32_t i = 2; i < 4; i++)
        lose(sim, p[i], p[1], PCCL_LINK_REFUSED);
    scenario_run_ms(sim, 5);
    sim_conn_reset(sim, p[1]->control);
    scenario_run_ms(sim, 500);
    MUST(sim, scenario_departures(sim) == 0);
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* ---- strangers that claim an older run ---- */

/* Sends the hello of a member of the run with this key, from a new process. */
static struct sim_conn *pretend(struct sim *sim, const struct pccl_id *key, struct pccl_id *itself)
{
    struct sim_peer *stranger = sim_peer_start(sim, 7, sim->next_port[7]++, 0, true);
    struct pccl_msg hello = scenario_hello_of(stranger, 4711);
    hello.as.hello.run_key = *key;
    *itself = stranger->id;
    struct sim_conn *conn = scenario_dial_master(sim);
    scenario_say(sim, conn, &hello, 0);
    scenario_lie(sim, stranger);
    sim_peer_kill(sim, stranger, false);
    return conn;
}

/* A run that has just begun is not driven away by one stranger's word. */
SCENARIO(pretender_young)
{
    sim_quiet_begin(sim);
    p[0] = scenario_join(sim, 1, 0);
    WAIT(sim, 1000, pccl_peer_is_connected(p[0]->machine));
    struct pccl_id stranger, invented = pccl_prng_id(&sim->prng);
    (void)pretend(sim, &invented, &stranger);
    scenario_run_ms(sim, 100);
    MUST(sim, p[0]->machine->state == PCCL_PEER_MEMBER && !sim->master->machine->recovering);
    p[1] = scenario_join(sim, 2, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 1000, pccl_peer_is_connected(p[1]->machine));
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* An empty master: connects wait for the run that a stranger announces, but not forever. */
CLUSTER_SCENARIO(pretender_empty, 1, 1)
{
    sim_app_leave(sim, p[0]);
    WAIT(sim, 1000, !sim->master->machine->founded);
    struct pccl_msg beat = {.type = PCCL_MSG_heartbeat};
    struct pccl_id stranger, invented = pccl_prng_id(&sim->prng);
    struct sim_peer *n = sim_peer_start(sim, 5, sim->next_port[5]++, 0, true);
    struct sim_conn *conn = pretend(sim, &invented, &stranger);
    scenario_run_ms(sim, 20);
    MUST(sim, sim->master->machine->recovering && sim_peer_call(sim, n, PCCL_CALL_CONNECT) == PCCL_OK);
    sim_process_arm(sim, &n->process);
    for (uint32_t waited_ms = 0; waited_ms < sim->plan.master.silence_ms + 400; waited_ms += 200) {
        if (!conn->ends[0].ended)
            scenario_say(sim, conn, &beat, 0);
        scenario_run_ms(sim, 200);
    }
    MUST(sim, pccl_peer_is_connected(n->machine));
}

/* One after another, and none finishes its report. */
SCENARIO(pretender_endless)
{
    sim_quiet_begin(sim);
    struct pccl_id stranger, invented = pccl_prng_id(&sim->prng);
    (void)pretend(sim, &invented, &stranger);
    scenario_run_ms(sim, 20);
    MUST(sim, sim->master->machine->recovering);
    p[0] = scenario_join(sim, 1, 0);
    for (uint32_t waited_ms = 0; waited_ms < sim->plan.master.recover_ms + 400; waited_ms += 200) {
        (void)pretend(sim, &invented, &stranger);
        scenario_run_ms(sim, 200);
    }
    MUST(sim, pccl_peer_is_connected(p[0]->machine));
}

/*
 * The first one at a restarted master is a stranger, with a complete report of a run with no other member: the members
 * return to their run.
 */
static void squat(struct sim *sim, const struct pccl_id *key)
{
    struct pccl_id run = p[0]->machine->lineage;
    sim_master_crash(sim, false);
    for (uint32_t i = 0; i < 2; i++)
        scenario_control(sim, p[i], false);
    sim_master_start(sim);
    struct pccl_member itself = {.admitted = 1};
    struct sim_conn *conn = pretend(sim, key, &itself.peer);
    struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
    report.as.resume.epoch.number++;
    report.as.resume.members = &itself;
    report.as.resume.ring = &itself.peer;
    report.as.resume.members_count = report.as.resume.ring_count = 1;
    scenario_say(sim, conn, &report, 1);
    scenario_say(sim, conn, &end, 2);
    scenario_run_ms(sim, 50);
    for (uint32_t i = 0; i < 2; i++)
        scenario_control(sim, p[i], true);
    WAIT(sim, 6000, sim->master->machine->member_count == 2 && !sim->master->machine->recovering);
    MUST(sim, pccl_id_equal(&sim->master->machine->lineage, &run));
    scenario_commit_all(sim, p, 2, 1, 1);
}

/* The words of one stranger do not keep the members of a run from a restarted master. */
CLUSTER_SCENARIO(pretender_first, 2, 1)
{
    struct pccl_id invented = pccl_prng_id(&sim->prng);
    squat(sim, &invented);
}

/* A stranger can know only the name of a run, which newcomers receive. */
CLUSTER_SCENARIO(squatter, 2, 1)
{
    struct pccl_id name = p[0]->machine->lineage;
    squat(sim, &name);
}

/* p[3], a member, returns in the name of p[1], which returns later. */
CLUSTER_SCENARIO(impostor, 4, 1)
{
    struct pccl_id run = p[0]->machine->lineage;
    sim_master_crash(sim, false);
    scenario_control(sim, p[1], false);
    struct pccl_msg hello = scenario_hello_of(p[1], p[1]->machine->boot), end = {.type = PCCL_MSG_resume_end};
    hello.as.hello.run_key = p[3]->machine->run_key;
    hello.as.hello.token = p[3]->machine->config.token;
    sim_peer_kill(sim, p[3], false);
    sim_master_start(sim);
    struct sim_conn *conn = scenario_dial_master(sim);
    scenario_say(sim, conn, &hello, 0);
    scenario_lie(sim, p[3]);
    struct pccl_msg report = report_of(p[1]->machine);
    scenario_say(sim, conn, &report, 1);
    scenario_say(sim, conn, &end, 2);
    scenario_run_ms(sim, 50);
    scenario_control(sim, p[1], true);
    WAIT(sim, 20000, sim->master->machine->member_count == 3 && !sim->master->machine->recovering);
    MUST(sim, pccl_id_equal(&sim->master->machine->lineage, &run) && p[1]->machine->state == PCCL_PEER_MEMBER);
    scenario_commit_all(sim, p, 3, 1, 1);
}

/* ---- subgroups that are not ---- */

static uint64_t found_two(struct sim *sim)
{
    struct pccl_id list[2] = {p[0]->id, p[1]->id};
    struct pccl_peer_op *ops[2];
    uint64_t name = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_request request = {
            .collective = PCCL_FOUND, .step = 1, .tiny = true, .count = 2, .members = list, .member_count = 2};
        MUST(sim, sim_app_launch(sim, p[i], &request, &ops[i]) == PCCL_OK);
        sim_process_arm(sim, &p[i]->process);
    }
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        name = pccl_peer_founded(p[i]->machine, ops[i])->name;
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
    return name;
}

/* Gives one subgroup other members, then reports one that no other does. Neither has an effect on others. */
CLUSTER_SCENARIO(subgroup_lying_reports, 5, 1)
{
    uint64_t name = found_two(sim);
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_peer *liar = p[4 - i];
        struct pccl_id list[2] = {p[0]->id, liar->id};
        uint8_t founded[PCCL_FOUNDED_COST_BYTES + 2 * PCCL_FOUNDED_SEAT_BYTES] = {0};
        struct pccl_instance founding = pccl_peer_subgroup(p[0]->machine, name)->founding;
        struct pccl_msg report = report_of(p[0]->machine), end = {.type = PCCL_MSG_resume_end};
        for (uint32_t rank = 0; rank < 2; rank++)
            pccl_founded_put_seat(founded, rank, &(struct pccl_founded_seat){list[rank], rank});
        pccl_ids_sort(list, 2);
        if (i == 1)
            founding.tag = pccl_founding_tag(list, 2);
        struct pccl_msg lie = {.type = PCCL_MSG_resume_subgroup,
                               .as.resume_subgroup = {.founding = founding, .founded = {founded, sizeof founded}}};
        struct sim_conn *conn = lie_as(sim, liar);
        scenario_say(sim, conn, &report, 1);
        scenario_say(sim, conn, &lie, 2);
        scenario_say(sim, conn, &end, 3);
        WAIT(sim, 15000, p[0]->machine->group.count == 4 - i && p[1]->machine->group.count == 4 - i);
        MUST(sim, !pccl_peer_subgroup(p[0]->machine, name)->all.ended &&
                      !pccl_peer_subgroup(p[1]->machine, name)->all.ended);
        MUST(sim, sim->master->machine->groups[0]->subgroups.count == 1);
    }
}

/* ---- invalid messages between peers, and to the master ---- */

/*
 * Operations over the link end for all, and no link is reported as lost. However often that happens, the link is dialed
 * again after pauses of up to dial_max_ms, 300 ms here; no member is removed, and the ring stays.
 */
SCENARIO(invalid_messages)
{
    struct pccl_peer_op *ops[4];
    scenario_cluster(sim, p, 4, 1);
    sim->bulk_by_hand = true;
    scenario_run_ms(sim, 1000);
    const struct pccl_epoch view = p[0]->machine->view;
    const struct pccl_id next = *pccl_peer_successor(p[0]->machine);
    for (uint32_t i = 0; i < 4; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    scenario_run_ms(sim, 20);
    MUST(sim, sim_peer_reject_link(sim, p[0], &next));
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 200, scenario_is_decided(ops[i]));
        MUST(sim, strstr(ops[i]->reason.bytes, "invalid") != NULL);
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_INTERNAL);
    }
    const uint32_t before = p[0]->dials;
    for (uint32_t ms = 0; ms < 30000; ms += 5) {
        scenario_run_ms(sim, 5);
        (void)sim_peer_reject_link(sim, p[0], &next);
    }
    if (p[0]->dials < before + 10 || p[0]->dials > before + 120)
        sim_fail(sim, "a link that is rejected was dialed %u times in 30 s", p[0]->dials - before);
    MUST(sim, sim->master->machine->edge_count == 0 && scenario_departures(sim) == 0);
    MUST(sim, pccl_epoch_equal(&p[0]->machine->view, &view));
    sim->bulk_by_hand = false;
    scenario_run_ms(sim, 15000);
    scenario_commit_all(sim, p, 4, 1, 2);
    for (uint32_t i = 0; i < 4; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 3);
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 2000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
}

/*
 * A member sends the master an invalid message. The connection ends. If the message is the next one of the session, the
 * master refuses to resume it; otherwise the second one ends the membership. The sender receives the reason.
 */
SCENARIO(invalid_message_to_master)
{
    struct pccl_msg lost = {.type = PCCL_MSG_link_lost, .as.link_lost = {.how = 99}};
    scenario_cluster(sim, p, 4, 1);
    lost.as.link_lost.peer = p[0]->id;
    for (uint32_t i = 2; i < 4; i++) {
        const struct pccl_text *last = pccl_peer_last_reason(p[i]->machine);
        struct pccl_peer_op *op = scenario_tiny(sim, p[0], i, 1);
        uint32_t dials = p[i]->master_dials;
        scenario_lie(sim, p[i]);
        scenario_run_ms(sim, 50);
        if (i == 2) {
            scenario_forge(sim, p[i], &lost);
        } else {
            scenario_say(sim, p[i]->control, &lost, 0);
            WAIT(sim, 100, p[i]->master_dials > dials && p[i]->machine->greeted);
            MUST(sim, scenario_departures(sim) == 1);
            scenario_say(sim, p[i]->control, &lost, 0);
        }
        WAIT(sim, 500, p[i]->machine->state == PCCL_PEER_OVER && scenario_is_decided(op));
        MUST(sim, strstr(last->bytes, i == 2 ? "its next message is invalid: " : "for the second time: ") != NULL);
        MUST(sim, strstr(last->bytes, "link_lost.how is 99") != NULL);
        MUST(sim, strstr(op->reason.bytes, "link_lost.how is 99") != NULL);
        MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_PEER_LOST);
        MUST(sim, p[i]->master_dials <= dials + 2 && scenario_departures(sim) == i - 1); /* a goodbye may be lost */
    }
    scenario_commit_all(sim, p, 2, 9, 1);
}

/* The master's next message is invalid: the peer ends at the second one, and the master receives the reason. */
SCENARIO(invalid_message_of_master)
{
    struct pccl_verdict verdict = {.class = 99};
    struct pccl_msg verdicts = {.type = PCCL_MSG_verdicts, .as.verdicts = {.verdicts = &verdict, .verdicts_count = 1}};
    scenario_cluster(sim, p, 3, 1);
    verdict.peer = p[1]->id;
    p[2]->end_checked = true; /* the master is at fault */
    scenario_lie(sim, p[2]);
    scenario_run_ms(sim, 15000); /* a connection that has lasted ends no row of losses that it begins */
    uint32_t dials = p[2]->master_dials;
    struct pccl_peer_op *op = scenario_tiny(sim, p[0], 1, 1);
    pccl_master_send(sim->master->machine, pccl_master_find(sim->master->machine, &p[2]->id), &verdicts, 0);
    WAIT(sim, 500, p[2]->machine->state == PCCL_PEER_OVER && scenario_is_decided(op));
    MUST(sim, p[2]->master_dials == dials + 1 && pccl_peer_why_over(p[2]->machine) == PCCL_MASTER_LOST);
    MUST(sim, strstr(pccl_peer_last_reason(p[2]->machine)->bytes, "verdict.class is 99") != NULL);
    MUST(sim, strstr(op->reason.bytes, "verdict.class is 99") != NULL);
    MUST(sim, scenario_take(sim, p[0], op) == PCCL_CLASS_PEER_LOST && scenario_departures(sim) == 1);
    scenario_commit_all(sim, p, 2, 2, 1);
}

/*
 * A master greets a member each time and cannot continue: the pauses grow as if it had not greeted, and the member
 * ends.
 */
CLUSTER_SCENARIO(greetings_alone, 2, 1)
{
    uint32_t dials = p[1]->master_dials, most = p[1]->config.master_lost_ms / p[1]->config.dial_max_ms + 20;
    uint64_t began = sim->now, patience = p[1]->config.master_lost_ms * SIM_MS;
    scenario_lie(sim, p[1]);
    while (p[1]->machine->state != PCCL_PEER_OVER && sim->now < began + 2 * patience &&
           p[1]->master_dials < dials + 2 * most) {
        if (p[1]->machine->greeted)
            sim_conn_reset(sim, p[1]->control);
        scenario_run_ms(sim, 1);
    }
    MUST(sim, p[1]->machine->state == PCCL_PEER_OVER && p[1]->master_dials < dials + most);
    MUST(sim, strstr(pccl_peer_last_reason(p[1]->machine)->bytes, "the master did not come back within ") != NULL);
}

/* A launch that no message can carry is refused and not numbered. */
SCENARIO(invalid_launch)
{
    struct pccl_text why = {0};
    struct pccl_launch launch = {
        .tag = 1, .descriptor = {.collective = PCCL_ALL_REDUCE, .datatype = 99, .count = 100000}, .refusal = &why};
    struct pccl_peer_event event = {.kind = PCCL_PEER_LAUNCH, .launch = &launch};
    scenario_cluster(sim, p, 2, 1);
    MUST(sim, sim_peer_step(sim, p[0], &event) == PCCL_INTERNAL && strstr(why.bytes, "datatype is 99") != NULL);
    launch.descriptor.datatype = PCCL_BOOL;
    launch.descriptor.operation = PCCL_AVG;
    MUST(sim, sim_peer_step(sim, p[0], &event) == PCCL_INTERNAL && strstr(why.bytes, "average") != NULL);
    scenario_commit_all(sim, p, 2, 1, 1);
}
