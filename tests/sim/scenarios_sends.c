/*
 * Scenarios of bulk sends in a group too large for a mesh (PROTOCOL 16.4). The link from the source to the destination
 * is opened for them, and closed when it is idle. Other members do not notice.
 */
#include "master/roster.h"
#include "scenario.h"

#include <string.h>

enum { MANY = 40, PATIENCE_MS = 10000 };
static struct sim_peer *p[MANY]; /* peers of the running scenario */

/* ---- state of the members ---- */

static uint32_t links_of(const struct sim_peer *peer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < peer->link_count; i++)
        count += !peer->links[i].incoming && peer->links[i].up;
    return count;
}

static uint32_t all_links(uint32_t count)
{
    uint32_t links = 0;
    for (uint32_t i = 0; i < count; i++)
        links += p[i]->process.alive ? links_of(p[i]) : 0;
    return links;
}

static bool has_link(uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < p[from]->link_count; i++)
        if (!p[from]->links[i].incoming && pccl_id_equal(&p[from]->links[i].peer, &p[to]->id))
            return p[from]->links[i].up;
    return false;
}

static struct pccl_epoch view_of(uint32_t who) { return p[who]->machine->view; }

/* ---- operations ---- */

static void begin_of(struct sim *sim, uint32_t count)
{
    scenario_cluster(sim, p, count, 1);
    sim->bulk_by_hand = false;
    MUST(sim, all_links(count) == count);
}

/* Two that are not neighbors in the ring, in the order in which they joined. */
static uint32_t other_of(uint32_t who, uint32_t count) { return (who + count / 2) % count; }

static struct pccl_peer_op *send(struct sim *sim, uint32_t from, uint32_t to, uint64_t step)
{
    return scenario_send(sim, p[from], p[to], true, step, false);
}

static struct pccl_peer_op *receive(struct sim *sim, uint32_t at, uint32_t from, uint64_t step)
{
    return scenario_send(sim, p[at], p[from], false, step, false);
}

/* Both ends succeed. */
static void exchange(struct sim *sim, uint32_t from, uint32_t to, uint64_t step)
{
    struct pccl_peer_op *in = receive(sim, to, from, step), *out = send(sim, from, to, step);
    scenario_must_end(sim, p[from], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[to], in, PCCL_CLASS_NONE, "");
}

static void cut(struct sim *sim, uint32_t one, uint32_t other, enum sim_cut state)
{
    sim_net_cut(sim, p[one]->process.host, p[other]->process.host, SIM_DATA, state);
}

/* ---- the scenarios ---- */

/* Sends between any two. A link is opened once for several sends, and closed after the last one. No view changes. */
SCENARIO(sends_anywhere)
{
    begin_of(sim, MANY);
    struct pccl_epoch view = view_of(0);
    struct pccl_peer_op *out[MANY], *in[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t to = (i + 3 + i * 7 % 30) % MANY;
        out[i] = send(sim, i, to, 1);
        in[i] = receive(sim, to, i, 1);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        scenario_must_end(sim, p[i], out[i], PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[(i + 3 + i * 7 % 30) % MANY], in[i], PCCL_CLASS_NONE, "");
    }
    MUST(sim, all_links(MANY) > MANY && all_links(MANY) <= 2 * MANY);
    WAIT(sim, 3000, all_links(MANY) == MANY);
    exchange(sim, 0, 20, 11);
    uint32_t dials = p[0]->dials;
    for (uint32_t i = 0; i < 9; i++) {
        scenario_run_ms(sim, 200);
        exchange(sim, 0, 20, 12 + i);
    }
    MUST(sim, p[0]->dials == dials && has_link(0, 20) && !has_link(20, 0));
    WAIT(sim, 3000, all_links(MANY) == MANY);
    MUST(sim, pccl_epoch_equal(&view, &p[0]->machine->view));
}

/* Either end dies while the link is dialed, or before that. The send ends at the other one; other sends continue. */
SCENARIO(sends_end_dies)
{
    begin_of(sim, MANY);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t from = i, to = other_of(i, MANY);
        bool source_dies = i % 2 == 0;
        struct pccl_peer_op *beside = receive(sim, 10, 30, 50 + i);
        if (i < 2)
            cut(sim, from, to, SIM_DROP);
        struct pccl_peer_op *out = send(sim, from, to, 1 + i), *in = receive(sim, to, from, 1 + i);
        scenario_run_ms(sim, i < 2 ? 30 : 1);
        MUST(sim, !scenario_is_decided(out) && !has_link(from, to));
        sim_peer_kill(sim, p[source_dies ? from : to], false);
        scenario_must_end(sim, p[source_dies ? to : from], source_dies ? in : out, PCCL_CLASS_PEER_LOST,
                          pccl_id_str(&p[source_dies ? from : to]->id));
        MUST(sim, !scenario_is_decided(beside));
        struct pccl_peer_op *late = send(sim, 30, 10, 50 + i);
        scenario_must_end(sim, p[30], late, PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[10], beside, PCCL_CLASS_NONE, "");
    }
    WAIT(sim, 5000, all_links(MANY) == MANY - 4);
    MUST(sim, sim->master->machine->member_count == MANY - 4);
}

/*
 * Without a path between the two the send ends for both, with the cause, and no member is removed. The source still
 * sends to others, and to this one when there is a path again.
 */
SCENARIO(sends_no_path)
{
    begin_of(sim, MANY);
    struct pccl_epoch view = view_of(5);
    for (uint32_t i = 0; i < 2; i++) {
        WAIT(sim, 3000, all_links(MANY) == MANY);
        scenario_run_ms(sim, 20); /* so that the other end learns that, too */
        cut(sim, 0, 20, i == 0 ? SIM_REFUSE : SIM_DROP);
        struct pccl_peer_op *out = send(sim, 0, 20, 1 + i), *in = receive(sim, 20, 0, 1 + i);
        scenario_run_ms(sim, PATIENCE_MS / 2);
        exchange(sim, 0, 21, 20 + i);
        MUST(sim, !scenario_is_decided(out) && !scenario_is_decided(in));
        scenario_must_end(sim, p[0], out, PCCL_CLASS_PEER_LOST, i == 0 ? ": refused" : ": no answer");
        scenario_must_end(sim, p[20], in, PCCL_CLASS_PEER_LOST, "no link to peer");
        MUST(sim, sim->master->machine->member_count == MANY && pccl_epoch_equal(&view, &p[5]->machine->view));
        sim_net_cut(sim, p[0]->process.host, p[20]->process.host, SIM_DATA, SIM_WHOLE);
        exchange(sim, 0, 20, 30 + i);
    }
    WAIT(sim, 3000, all_links(MANY) == MANY);
}

/* The master is away when the link is asked for, or before it has answered; it is asked again. */
SCENARIO(sends_restart)
{
    begin_of(sim, MANY);
    struct pccl_peer_op *early = send(sim, 1, 21, 1), *in = receive(sim, 21, 1, 1);
    exchange(sim, 2, 22, 5); /* this link is up all the time */
    struct pccl_peer_op *posted = receive(sim, 22, 2, 6);
    struct pccl_peer_op *asked = send(sim, 3, 23, 7), *met = receive(sim, 23, 3, 7);
    sim_master_crash(sim, true);
    struct pccl_peer_op *out = send(sim, 0, 20, 9), *there = receive(sim, 20, 0, 9);
    scenario_run_ms(sim, 500);
    MUST(sim, !scenario_is_decided(out) && !has_link(0, 20));
    sim_master_start(sim);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[20], there, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[3], asked, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[23], met, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[1], early, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[21], in, PCCL_CLASS_NONE, "");
    struct pccl_peer_op *late = send(sim, 2, 22, 6);
    scenario_must_end(sim, p[2], late, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[22], posted, PCCL_CLASS_NONE, "");
    WAIT(sim, 3000, all_links(MANY) == MANY);
}

/* A send that is tiny at one end only, in each order of the launches, fails at both. */
SCENARIO(sends_mismatch)
{
    begin_of(sim, MANY);
    for (uint32_t i = 0; i < 4; i++) {
        bool tiny_source = i % 2 == 0, source_first = i < 2;
        struct pccl_peer_op *out = source_first ? scenario_send(sim, p[0], p[20], true, 1 + i, tiny_source) : NULL;
        scenario_run_ms(sim, 100);
        struct pccl_peer_op *in = scenario_send(sim, p[20], p[0], false, 1 + i, !tiny_source);
        scenario_run_ms(sim, 100);
        out = source_first ? out : scenario_send(sim, p[0], p[20], true, 1 + i, tiny_source);
        scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, pccl_id_str(&p[20]->id));
        scenario_must_end(sim, p[20], in, PCCL_CLASS_MISMATCH, pccl_id_str(&p[0]->id));
        WAIT(sim, 3000, all_links(MANY) == MANY);
    }
    /* the link is closed between the launches of the two */
    exchange(sim, 0, 20, 10);
    struct pccl_peer_op *in = receive(sim, 20, 0, 11);
    WAIT(sim, 3000, all_links(MANY) == MANY);
    struct pccl_peer_op *out = scenario_send(sim, p[0], p[20], true, 11, true);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, pccl_id_str(&p[20]->id));
    scenario_must_end(sim, p[20], in, PCCL_CLASS_MISMATCH, pccl_id_str(&p[0]->id));
}

/*
 * The master has offered a tiny send before the receive that does not meet it is launched, or chosen. It offers it
 * once.
 */
SCENARIO(sends_offered)
{
    begin_of(sim, MANY);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t tag = i + 1;
        bool link_stands = i == 1;
        struct pccl_peer_op *in = receive(sim, 20, 0, 10 * tag); /* it asks for more offers of this tag */
        scenario_run_ms(sim, 100);
        struct pccl_peer_op *out = send(sim, 0, 20, 10 * tag);
        scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[20], in, PCCL_CLASS_NONE, "");
        if (!link_stands)
            WAIT(sim, 3000, all_links(MANY) == MANY);
        out = scenario_send(sim, p[0], p[20], true, 10 * tag + 1, true);
        scenario_run_ms(sim, 100);
        MUST(sim, has_link(0, 20) == link_stands);
        cut(sim, 0, 20, SIM_DROP); /* so the receiver's messages over the link do not arrive */
        in = receive(sim, 20, 0, 10 * tag + 1);
        scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, "sends at most");
        scenario_must_end(sim, p[20], in, PCCL_CLASS_MISMATCH, "sends at most");
        sim_net_cut(sim, p[0]->process.host, p[20]->process.host, SIM_DATA, SIM_WHOLE);
    }
    struct pccl_peer_op *in = scenario_send(sim, p[21], NULL, false, 91, false);
    scenario_run_ms(sim, 100);
    struct pccl_peer_op *out = scenario_send(sim, p[0], p[21], true, 91, true);
    scenario_must_end(sim, p[21], in, PCCL_CLASS_MISMATCH, "send tag 9: peer ");
    scenario_must_end(sim, p[0], out, PCCL_CLASS_MISMATCH, "send tag 9: peer ");
}

/* A receive that has no sender yet does not fail when the link is closed. */
SCENARIO(sends_posted)
{
    begin_of(sim, MANY);
    struct pccl_peer_op *first = receive(sim, 20, 0, 1), *second = receive(sim, 20, 0, 2);
    struct pccl_peer_op *out = send(sim, 0, 20, 1);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[20], first, PCCL_CLASS_NONE, "");
    WAIT(sim, 3000, !has_link(0, 20));
    scenario_run_ms(sim, 2 * PATIENCE_MS);
    MUST(sim, !scenario_is_decided(second));
    out = send(sim, 0, 20, 2);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[20], second, PCCL_CLASS_NONE, "");
}

/* The link is lost while a send waits for its receiver, longer than the time in which a link must be opened. */
SCENARIO(sends_reset)
{
    begin_of(sim, MANY);
    struct pccl_peer_op *out = send(sim, 0, 20, 1);
    scenario_run_ms(sim, 2 * PATIENCE_MS);
    MUST(sim, has_link(0, 20));
    cut(sim, 0, 20, SIM_REFUSE);
    WAIT(sim, 5000, !has_link(0, 20));
    scenario_run_ms(sim, PATIENCE_MS / 2);
    MUST(sim, !scenario_is_decided(out));
    sim_net_cut(sim, p[0]->process.host, p[20]->process.host, SIM_DATA, SIM_WHOLE);
    WAIT(sim, 1000, has_link(0, 20));
    struct pccl_peer_op *in = receive(sim, 20, 0, 1);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[20], in, PCCL_CLASS_NONE, "");
}

/*
 * A send ends since its destination refuses the link, while a link from there stays up. That was not a sign of a death,
 * nor for a master that restarts later. The next send requests a path again.
 */
SCENARIO(sends_refused)
{
    begin_of(sim, MANY);
    struct sim_request request = {
        .tag = 1, .collective = PCCL_SEND, .other = p[20]->id, .sends = true, .count = 100000, .timeout_ms = 3000};
    p[0]->machine->config.dial_max_ms = 5000; /* it does not dial again before the deadline */
    p[20]->machine->config.send_idle_ms = 60000;
    exchange(sim, 0, 20, 30); /* a failure counts only after a success */
    struct pccl_peer_op *out = scenario_ask(sim, p[0], &request);
    cut(sim, 0, 20, SIM_REFUSE);
    sim_conn_reset(sim, sim_peer_link(p[0], &p[20]->id));
    scenario_run_ms(sim, 2700);
    sim_net_cut(sim, p[0]->process.host, p[20]->process.host, SIM_DATA, SIM_WHOLE);
    exchange(sim, 20, 0, 20);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_DEADLINE, "");
    MUST(sim, has_link(20, 0) && !has_link(0, 20));
    for (uint32_t i = 0; i < p[0]->machine->link_count; i++)
        MUST(sim, !pccl_id_equal(&p[0]->machine->links[i].id, &p[20]->id) ||
                      (p[0]->machine->links[i].candidate_count == 0 && p[0]->machine->links[i].retry_us == 0));
    scenario_control(sim, p[20], false);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    WAIT(sim, 5000, sim_master_is_up(sim) && sim->master->machine->recovering);
    scenario_run_ms(sim, 500);
    scenario_control(sim, p[20], true);
    WAIT(sim, 5000, !sim->master->machine->recovering);
    MUST(sim, sim->master->machine->member_count == MANY);
    exchange(sim, 0, 20, 30);
}

/*
 * A link that is lost as soon as it is up, each time, is dialed after a pause, and ends the send as a refused one does.
 */
SCENARIO(sends_closed_at_once)
{
    begin_of(sim, MANY);
    uint32_t dials = p[0]->dials;
    struct pccl_peer_op *out = send(sim, 0, 20, 1);
    while (!scenario_is_decided(out)) {
        uint32_t before = p[0]->dials;
        bool stands = has_link(0, 20);
        if (stands)
            sim_conn_reset(sim, sim_peer_link(p[0], &p[20]->id));
        scenario_run_ms(sim, 5);
        MUST(sim, !stands || p[0]->dials == before);
        MUST(sim, p[0]->dials - dials < PATIENCE_MS / 10);
    }
    scenario_must_end(sim, p[0], out, PCCL_CLASS_PEER_LOST, "no link to peer");
    MUST(sim, p[0]->dials - dials > 10 && sim->master->machine->member_count == MANY);
}

/* The source cannot dial: both ends learn the reason. It can again, and so can the next send. */
SCENARIO(sends_shortage)
{
    begin_of(sim, MANY);
    p[0]->process.starved = true;
    struct pccl_peer_op *out = send(sim, 0, 20, 1), *in = receive(sim, 20, 0, 1);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_PEER_LOST, sim_shortage.bytes);
    scenario_must_end(sim, p[20], in, PCCL_CLASS_PEER_LOST, sim_shortage.bytes);
    p[0]->process.starved = false;
    exchange(sim, 0, 20, 10);
    MUST(sim, sim->master->machine->member_count == MANY);
}

/* A receive from any peer finds bulk sends of peers that had no link to it. */
SCENARIO(sends_anybody)
{
    begin_of(sim, MANY);
    struct pccl_peer_op *in[3], *out[3];
    in[0] = scenario_send(sim, p[20], NULL, false, 1, false);
    for (uint32_t i = 0; i < 3; i++)
        out[i] = send(sim, i, 20, 1);
    scenario_must_end(sim, p[20], in[0], PCCL_CLASS_NONE, "");
    for (uint32_t i = 1; i < 3; i++)
        in[i] = scenario_send(sim, p[20], NULL, false, 1, false);
    for (uint32_t i = 0; i < 3; i++)
        scenario_must_end(sim, p[i], out[i], PCCL_CLASS_NONE, "");
    for (uint32_t i = 1; i < 3; i++)
        scenario_must_end(sim, p[20], in[i], PCCL_CLASS_NONE, "");
    WAIT(sim, 3000, all_links(MANY) == MANY);
}

/* A peer has few links for sends at a time. It closes one that is idle for a new one, and refuses if none is. */
SCENARIO(sends_limit)
{
    begin_of(sim, MANY);
    p[0]->machine->config.send_links_max = 2;
    p[0]->machine->config.send_idle_ms = 60000;
    exchange(sim, 0, 10, 1);
    exchange(sim, 0, 20, 2);
    struct pccl_peer_op *out[2] = {send(sim, 0, 20, 3), send(sim, 0, 30, 4)}, *none = NULL;
    WAIT(sim, 1000, has_link(0, 20) && has_link(0, 30) && !has_link(0, 10));
    struct sim_request request = {
        .tag = 9, .collective = PCCL_SEND, .other = p[10]->id, .sends = true, .count = 100000};
    MUST(sim, sim_app_launch(sim, p[0], &request, &none) == PCCL_LIMIT);
    struct pccl_peer_op *in[2] = {receive(sim, 20, 0, 3), receive(sim, 30, 0, 4)};
    for (uint32_t i = 0; i < 2; i++) {
        scenario_must_end(sim, p[0], out[i], PCCL_CLASS_NONE, "");
        scenario_must_end(sim, p[20 + 10 * i], in[i], PCCL_CLASS_NONE, "");
    }
    exchange(sim, 0, 10, 5);
    MUST(sim, scenario_links(p, 1) == 3);
}

/* A new view does not need the link; the send under way still does. */
SCENARIO(sends_views)
{
    begin_of(sim, MANY);
    sim->bulk_by_hand = true;
    struct pccl_peer_op *out = send(sim, 0, 20, 1), *in = receive(sim, 20, 0, 1);
    WAIT(sim, 1000, has_link(0, 20));
    sim_peer_kill(sim, p[MANY - 1], false);
    WAIT(sim, 1000, p[0]->machine->group.count == MANY - 1 && p[20]->machine->group.count == MANY - 1);
    scenario_run_ms(sim, PATIENCE_MS + 2000);
    MUST(sim, has_link(0, 20) && !scenario_is_decided(out) && !scenario_is_decided(in));
    sim_bulk_finish(sim, p[0], out);
    sim_bulk_finish(sim, p[20], in);
    scenario_must_end(sim, p[0], out, PCCL_CLASS_NONE, "");
    scenario_must_end(sim, p[20], in, PCCL_CLASS_NONE, "");
    WAIT(sim, 3000, all_links(MANY - 1) == MANY - 1);
}

/* A member that requests a link to itself is removed. One that requests a link to a stranger gets no answer. */
SCENARIO(sends_liars)
{
    begin_of(sim, 18);
    struct pccl_msg itself = {.type = PCCL_MSG_want_link, .as.want_link = {.peer = p[17]->id}};
    struct pccl_msg nobody = {.type = PCCL_MSG_want_link, .as.want_link = {.peer = {{1, 2, 3}}}};
    scenario_lie(sim, p[16]);
    scenario_forge(sim, p[16], &nobody);
    scenario_run_ms(sim, 100);
    MUST(sim, sim->master->machine->member_count == 18);
    scenario_lie(sim, p[17]);
    scenario_forge(sim, p[17], &itself);
    WAIT(sim, 1000, sim->master->machine->member_count == 17);
}
