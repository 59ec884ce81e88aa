/* Scenarios of receives from any sender: the choice, and the outcomes of both ends in each phase. */
#include "master/roster.h"
#include "scenario.h"
#include "wire/subgroup.h"

#include <string.h>

static struct sim_peer *p[PCCL_MESH_PEERS_MAX + 2]; /* peers of the running scenario */

enum { TAG = 3 };

/* Launches a send, or a receive; `other` NULL: from any sender. */
static struct pccl_peer_op *launch(struct sim *sim, struct sim_peer *peer, const struct sim_peer *other, bool sends,
                                   uint64_t step, bool tiny)
{
    struct sim_request request = {.tag = TAG,
                                  .step = step,
                                  .collective = PCCL_SEND,
                                  .other = other != NULL ? other->id : (struct pccl_id){{0}},
                                  .sends = sends,
                                  .anybody = other == NULL,
                                  .tiny = tiny,
                                  .count = tiny ? 2 : 100000};
    return scenario_ask(sim, peer, &request);
}

static struct pccl_peer_op *send(struct sim *sim, uint32_t from, uint32_t to, uint64_t step, bool tiny)
{
    return launch(sim, p[from], p[to], true, step, tiny);
}

static struct pccl_peer_op *receive(struct sim *sim, uint32_t at, bool tiny)
{
    return launch(sim, p[at], NULL, false, 0, tiny);
}

static bool is_open(const struct pccl_peer_op *op) { return op->state == PCCL_OP_OPEN; }

static bool is_from(const struct pccl_peer_op *op, uint32_t source)
{
    return !is_open(op) && pccl_id_equal(&op->descriptor.root, &p[source]->id);
}

static void finish(struct sim *sim, uint32_t who, struct pccl_peer_op *op)
{
    if (!op->tiny)
        sim_bulk_finish(sim, p[who], op);
}

/* Both succeed, and it is that one's. */
static void must_meet(struct sim *sim, uint32_t from, struct pccl_peer_op *out, uint32_t at, struct pccl_peer_op *in)
{
    WAIT(sim, 3000, !is_open(in));
    MUST(sim, is_from(in, from) && in->instance.use == out->instance.use);
    finish(sim, from, out);
    finish(sim, at, in);
    scenario_must_end(sim, p[from], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[at], in, PCCL_CLASS_NONE, "");
}

/*
 * Many sends of one peer are there, and two others arrive later: all take turns. Receives that are launched first, or
 * last, match them in the same way; through the master and from peer to peer.
 */
CLUSTER_SCENARIO(anybody_turns, 4, 1)
{
    for (uint32_t tiny = 0; tiny < 2; tiny++) {
        static const uint32_t order[] = {0, 1, 2, 0, 0, 0};
        struct pccl_peer_op *out[6], *in[6];
        uint32_t next[3] = {0, 4, 5};
        for (uint32_t i = 0; i < 4; i++)
            out[i] = send(sim, 0, 3, 10 + i, tiny != 0);
        scenario_run_ms(sim, 20);
        out[4] = send(sim, 1, 3, 20, tiny != 0);
        scenario_run_ms(sim, 20);
        out[5] = send(sim, 2, 3, 30, tiny != 0);
        scenario_run_ms(sim, 20);
        if (tiny != 0) { /* from then on the master offers arriving sends */
            in[0] = receive(sim, 3, true);
            must_meet(sim, 0, out[next[0]++], 3, in[0]);
        }
        for (uint32_t i = tiny; i < 6; i++) {
            in[i] = receive(sim, 3, tiny != 0);
            uint32_t from = order[i];
            must_meet(sim, from, out[next[from]++], 3, in[i]);
        }
        for (uint32_t i = 0; i < 3; i++)
            in[i] = receive(sim, 3, tiny != 0);
        MUST(sim, is_open(in[0]) && is_open(in[1]) && is_open(in[2]));
        for (uint32_t i = 0; i < 3; i++) {
            out[i] = send(sim, 2 - i, 3, 40 + i, tiny != 0);
            must_meet(sim, 2 - i, out[i], 3, in[i]);
        }
    }
    MUST(sim, p[3]->machine->announcements.count == 0);
}

/* More sends of a tag than the master is asked for at once; and sends of another tag wait for its own receives. */
SCENARIO(anybody_many)
{
    enum { MANY = 3 * PCCL_EARLY_OFFERS };
    static struct pccl_peer_op *out[MANY];
    scenario_cluster(sim, p, 3, 1);
    for (uint32_t i = 0; i < MANY; i++)
        out[i] = send(sim, i % 2, 2, 10 + i, true);
    scenario_run_ms(sim, 50);
    for (uint32_t i = 0; i < MANY; i++) {
        struct pccl_peer_op *in = receive(sim, 2, true);
        WAIT(sim, 1000, scenario_is_decided(in));
        MUST(sim, in->class == PCCL_CLASS_NONE && p[2]->machine->announcements.count <= 2 * PCCL_EARLY_OFFERS);
        (void)scenario_take(sim, p[2], in);
    }
    for (uint32_t i = 0; i < MANY; i++)
        scenario_must_end(sim, p[i % 2], out[i], PCCL_CLASS_NONE, "");
}

/* A receive that names its peer takes the next use, and an open one continues with the use after it. */
CLUSTER_SCENARIO(anybody_mixed, 4, 1)
{
    for (uint32_t tiny = 0; tiny < 2; tiny++) {
        struct pccl_peer_op *named = launch(sim, p[3], p[0], false, 10, tiny != 0), *open = receive(sim, 3, tiny != 0);
        struct pccl_peer_op *first = send(sim, 0, 3, 10, tiny != 0), *second = send(sim, 0, 3, 11, tiny != 0);
        must_meet(sim, 0, second, 3, open);
        MUST(sim, named->instance.use == first->instance.use);
        finish(sim, 0, first);
        finish(sim, 3, named);
        scenario_must_end(sim, p[0], first, PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[3], named, PCCL_CLASS_NONE, "");
    }
}

/*
 * A sender dies before it is chosen: others are received. After that: its receive fails with its name, and others
 * continue.
 */
CLUSTER_SCENARIO(anybody_sender_dies, 6, 1)
{
    for (uint32_t tiny = 0; tiny < 2; tiny++) {
        uint32_t dies = tiny != 0 ? 5 : 4;
        struct pccl_peer_op *lost = send(sim, dies, 0, 10, tiny != 0);
        scenario_run_ms(sim, 20);
        sim_peer_kill(sim, p[dies], false);
        (void)lost;
        WAIT(sim, 1000,
             pccl_id_find(p[0]->machine->group.ring, p[0]->machine->group.count, &p[dies]->id) ==
                 p[0]->machine->group.count);
        struct pccl_peer_op *in = receive(sim, 0, tiny != 0);
        scenario_run_ms(sim, 100);
        MUST(sim, is_open(in));
        struct pccl_peer_op *out = send(sim, 1, 0, 20 + tiny, tiny != 0);
        must_meet(sim, 1, out, 0, in);
    }
    struct pccl_peer_op *in = receive(sim, 0, false), *next = receive(sim, 0, false);
    struct pccl_peer_op *out = send(sim, 3, 0, 30, false);
    WAIT(sim, 1000, is_from(in, 3));
    sim_bulk_finish(sim, p[3], out); /* it has left */
    sim_peer_kill(sim, p[3], false);
    scenario_must_end(sim, p[0], in, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[3]->id));
    MUST(sim, is_open(next));
    struct pccl_peer_op *late = send(sim, 2, 0, 40, false);
    must_meet(sim, 2, late, 0, next);
}

/* The receiver dies with unchosen and with chosen sends: their senders learn that, and continue. */
CLUSTER_SCENARIO(anybody_receiver_dies, 4, 1)
{
    (void)receive(sim, 3, false);
    struct pccl_peer_op *met = send(sim, 0, 3, 10, false), *waits = send(sim, 1, 3, 11, true);
    scenario_run_ms(sim, 50);
    sim_bulk_finish(sim, p[0], met);
    sim_peer_kill(sim, p[3], false);
    scenario_must_end(sim, p[0], met, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[3]->id));
    scenario_must_end(sim, p[1], waits, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[3]->id));
    struct pccl_peer_op *in = receive(sim, 2, true), *out = send(sim, 1, 2, 20, true);
    must_meet(sim, 1, out, 2, in);
    sim_peer_kill(sim, p[0], false);
    WAIT(sim, 1000, p[2]->machine->group.count == 2);
    struct pccl_peer_op *last = receive(sim, 2, true);
    sim_peer_kill(sim, p[1], false);
    scenario_must_end(sim, p[2], last, PCCL_CLASS_PEER_LOST, pccl_id_str(&p[1]->id));
}

/* A send given up by its source is skipped; a receive given up by its receiver concerns no other peer. */
CLUSTER_SCENARIO(anybody_given_up, 3, 1)
{
    for (uint32_t tiny = 0; tiny < 2; tiny++) {
        struct pccl_peer_op *lost = send(sim, 0, 2, 10, tiny != 0);
        scenario_abort(sim, p[0], lost, PCCL_CLASS_DEADLINE);
        scenario_must_end(sim, p[0], lost, PCCL_CLASS_DEADLINE, pccl_id_str(&p[2]->id));
        struct pccl_peer_op *next = send(sim, 0, 2, 11, tiny != 0), *in = receive(sim, 2, tiny != 0);
        must_meet(sim, 0, next, 2, in);
        in = receive(sim, 2, tiny != 0);
        scenario_run_ms(sim, 20);
        lost = send(sim, 0, 2, 12, tiny != 0);
        WAIT(sim, 1000, is_from(in, 0));
        scenario_abort(sim, p[0], lost, PCCL_CLASS_ABORTED); /* chosen: both learn it */
        scenario_must_end(sim, p[0], lost, PCCL_CLASS_ABORTED, "");
        scenario_must_end(sim, p[2], in, PCCL_CLASS_ABORTED, pccl_id_str(&p[0]->id));
        in = receive(sim, 2, tiny != 0);
        scenario_run_ms(sim, 20);
        scenario_abort(sim, p[2], in, PCCL_CLASS_DEADLINE);
        scenario_must_end(sim, p[2], in, PCCL_CLASS_DEADLINE, "no data arrived");
        next = send(sim, 1, 2, 20, tiny != 0);
        scenario_run_ms(sim, 50);
        MUST(sim, !scenario_is_decided(next));
        in = receive(sim, 2, tiny != 0);
        must_meet(sim, 1, next, 2, in);
    }
}

/* A chosen sender with another operation learns that, as does the receiver. */
CLUSTER_SCENARIO(anybody_mismatch, 3, 1)
{
    for (uint32_t tiny = 0; tiny < 2; tiny++) {
        struct pccl_peer_op *in = receive(sim, 2, tiny == 0), *out = send(sim, 0, 2, 10, tiny != 0);
        scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, " but peer ");
        scenario_must_end(sim, p[2], in, PCCL_CLASS_MISMATCH, " but peer ");
    }
    struct pccl_peer_op *in = receive(sim, 2, true), *out = send(sim, 0, 2, 20, true);
    must_meet(sim, 0, out, 2, in);
}

/*
 * The master restarts while receives are open and sends wait: the next master is asked again, and a chosen operation
 * ends.
 */
CLUSTER_SCENARIO(anybody_restart, 4, 1)
{
    struct pccl_peer_op *in = receive(sim, 3, true), *bulk = receive(sim, 3, false);
    scenario_run_ms(sim, 50);
    scenario_control(sim, p[0], false);
    struct pccl_peer_op *out = send(sim, 0, 3, 10, true); /* the master does not receive it */
    sim_master_crash(sim, true);
    struct pccl_peer_op *beside = send(sim, 1, 3, 20, false);
    scenario_run_ms(sim, 50);
    MUST(sim, is_from(in, 1)); /* the master need not know this one: it differs */
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    scenario_must_end(sim, p[1], beside, PCCL_CLASS_MISMATCH, "");
    scenario_must_end(sim, p[3], in, PCCL_CLASS_MISMATCH, "");
    MUST(sim, is_from(bulk, 0) || is_open(bulk));
    scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, "");
    scenario_must_end(sim, p[3], bulk, PCCL_CLASS_MISMATCH, "");
    out = send(sim, 2, 3, 30, true);
    scenario_run_ms(sim, 50);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    WAIT(sim, 10000, !sim->master->machine->recovering && !p[3]->machine->resuming);
    in = receive(sim, 3, true);
    must_meet(sim, 2, out, 3, in); /* by its source's report */
    in = receive(sim, 3, true);
    scenario_run_ms(sim, 50);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    WAIT(sim, 10000, !sim->master->machine->recovering && !p[3]->machine->resuming && !p[1]->machine->resuming);
    out = send(sim, 1, 3, 40, true);
    must_meet(sim, 1, out, 3, in); /* by the repeated request to the next master */
}

/*
 * A peer alone in its group misses the view that admits another one. A restarted master first sends it the answer of
 * its update: so it may launch, is still alone, and its launch matches the other one's send.
 */
CLUSTER_SCENARIO(anybody_alone, 2, 2)
{
    p[2] = scenario_join(sim, 5, 0);
    scenario_run_ms(sim, 200);
    scenario_update(sim, p[0]);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[0], false);
    scenario_update(sim, p[1]);
    WAIT(sim, 500, scenario_is_over(p[1], PCCL_CALL_UPDATE) && pccl_peer_is_connected(p[2]->machine));
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    WAIT(sim, 5000, p[0]->machine->resuming);
    scenario_deaf_after(sim, p[0], PCCL_MSG_round);
    WAIT(sim, 5000, scenario_is_over(p[0], PCCL_CALL_UPDATE));
    MUST(sim, p[0]->machine->group.count == 1 && p[0]->app.call_status[PCCL_CALL_UPDATE] == PCCL_OK);
    struct pccl_peer_op *bulk = receive(sim, 0, false), *in = receive(sim, 0, true);
    MUST(sim, is_open(bulk) && is_open(in));
    sim_conn_reset(sim, p[0]->control);
    WAIT(sim, 5000, p[0]->machine->group.count == 2 && p[2]->machine->group.count == 2);
    must_meet(sim, 2, send(sim, 2, 0, 10, false), 0, bulk);
    must_meet(sim, 2, send(sim, 2, 0, 20, true), 0, in);
}

/* A peer that requests the sends of too many tags is removed; it ignores offers for a pair that it is not in. */
CLUSTER_SCENARIO(anybody_liars, 4, 1)
{
    struct pccl_peer_op *out = send(sim, 0, 1, 10, true);
    scenario_lie(sim, p[3]);
    for (uint64_t tag = 0; tag <= PCCL_LISTENED_MAX && p[3]->machine->state == PCCL_PEER_MEMBER; tag++) {
        struct pccl_msg msg = {.type = PCCL_MSG_listen, .as.listen = {.tag = tag, .count = 1}};
        scenario_forge(sim, p[3], &msg);
    }
    WAIT(sim, 3000, sim->master->machine->member_count == 3 && p[1]->machine->group.count == 3);
    struct pccl_peer_op *in = receive(sim, 1, true);
    must_meet(sim, 0, out, 1, in);
}
