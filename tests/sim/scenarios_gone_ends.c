/*
 * Scenarios of a link that ends at its receiver only (PROTOCOL 7.4): the sender sees nothing, and a middlebox answers
 * for the receiver. The sender learns it over the master, and dials again.
 */
#include "master/roster.h"
#include "scenario.h"

enum { SOON_MS = 50 };             /* much less than any silence */
static struct sim_peer *p[3];      /* of the running scenario */
static struct pccl_peer_op *op[3]; /* of theirs */

static void begin(struct sim *sim)
{
    scenario_cluster(sim, p, PCCL_COUNT_OF(p), 1);
    sim->bulk_by_hand = false;
}

static struct sim_conn *link_of(const struct sim_peer *from, const struct sim_peer *to)
{
    for (uint32_t i = 0; i < from->link_count; i++)
        if (!from->links[i].incoming && from->links[i].up && pccl_id_equal(&from->links[i].peer, &to->id))
            return from->links[i].conn;
    return NULL;
}

static bool stands(const struct sim_peer *from, const struct sim_peer *to)
{
    const struct sim_conn *conn = link_of(from, to);
    bool received = false;
    for (uint32_t i = 0; i < to->link_count; i++)
        received = received || (to->links[i].incoming && to->links[i].up && to->links[i].conn == conn);
    return received && conn != NULL;
}

/* Breaks the link from the first to the second at its receiver. */
static void break_end(struct sim *sim) { sim_conn_half_reset(sim, link_of(p[0], p[1]), true); }

static void launch(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        op[i] = scenario_bulk(sim, p[i], 1, 1);
}

static bool are_decided(uint32_t count)
{
    bool decided = true;
    for (uint32_t i = 0; i < count; i++)
        decided = decided && scenario_is_decided(op[i]);
    return decided;
}

/* All of them have the same outcome: it has committed, or, if it was under way when the sender's end ended, failed. */
static void finish(struct sim *sim, uint32_t count, bool was_under_way, uint64_t within_ms)
{
    WAIT(sim, within_ms, are_decided(count));
    const enum pccl_class class = scenario_take(sim, p[0], op[0]);
    MUST(sim, class == PCCL_CLASS_NONE || (was_under_way && class == PCCL_CLASS_PEER_LOST));
    for (uint32_t i = 1; i < count; i++)
        MUST(sim, scenario_take(sim, p[i], op[i]) == class);
}

/* An operation launched at once ends, and one launched later commits. No member is removed. */
SCENARIO(end_gone)
{
    begin(sim);
    for (uint64_t turn = 0; turn < 8; turn++) {
        const struct sim_conn *old = link_of(p[0], p[1]);
        const bool at_once = turn % 2 != 0;
        break_end(sim);
        scenario_run_ms(sim, at_once ? 0 : SOON_MS);
        launch(sim, PCCL_COUNT_OF(p));
        finish(sim, PCCL_COUNT_OF(p), at_once, SOON_MS);
        WAIT(sim, SOON_MS, stands(p[0], p[1]) && link_of(p[0], p[1]) != old);
    }
    MUST(sim, scenario_departures(sim) == 0);
}

/* The sender's end breaks, too, and it has dialed again before it learns of the receiver's: that link stays. */
SCENARIO(end_gone_and_dialed)
{
    begin(sim);
    scenario_control(sim, p[1], false);
    break_end(sim);
    scenario_run_ms(sim, 1);
    sim_conn_shutdown(sim, link_of(p[0], p[1]), 0);
    WAIT(sim, SOON_MS, stands(p[0], p[1]));
    const struct sim_conn *newer = link_of(p[0], p[1]);
    scenario_control(sim, p[1], true);
    scenario_run_ms(sim, SOON_MS);
    MUST(sim, stands(p[0], p[1]) && link_of(p[0], p[1]) == newer);
    launch(sim, PCCL_COUNT_OF(p));
    finish(sim, PCCL_COUNT_OF(p), false, SOON_MS);
}

/* The sender has lost the master when its link breaks, and all have launched an operation. */
static void begin_without_word(struct sim *sim)
{
    begin(sim);
    scenario_control(sim, p[0], false);
    break_end(sim);
    scenario_run_ms(sim, SOON_MS);
    launch(sim, PCCL_COUNT_OF(p));
}

/* All wait until the master reaches the sender, and no longer. */
SCENARIO(end_gone_sender_away)
{
    begin_without_word(sim);
    scenario_run_ms(sim, SOON_MS);
    MUST(sim, !are_decided(PCCL_COUNT_OF(p)) && !stands(p[0], p[1]));
    scenario_control(sim, p[0], true);
    finish(sim, PCCL_COUNT_OF(p), true, SOON_MS);
    MUST(sim, scenario_departures(sim) == 0);
    scenario_commit_all(sim, p, PCCL_COUNT_OF(p), 2, 1);
}

/* One of the two dies before the sender learns it: the operation of the others ends, and the next one commits. */
static void one_dies(struct sim *sim, uint32_t who)
{
    begin(sim);
    struct sim_peer *victim = p[who];
    p[who] = p[2];
    break_end(sim);
    for (uint32_t i = 0; i < 2; i++)
        op[i] = scenario_bulk(sim, p[i], 1, 1);
    sim_peer_kill(sim, victim, false);
    WAIT(sim, 1000, are_decided(2));
    for (uint32_t i = 0; i < 2; i++)
        MUST(sim, scenario_take(sim, p[i], op[i]) == PCCL_CLASS_PEER_LOST);
    scenario_commit_all(sim, p, 2, 2, 1);
}
/* The sender or the receiver dies at that moment. */
SCENARIO(end_gone_sender_dies) { one_dies(sim, 0); }
SCENARIO(end_gone_receiver_dies) { one_dies(sim, 1); }

/* The master dies with the receiver's report, before the sender has it: the receiver repeats it to the next master. */
SCENARIO(end_gone_master_dies)
{
    begin_without_word(sim);
    sim_master_crash(sim, true);
    scenario_control(sim, p[0], true);
    sim_master_start(sim);
    finish(sim, PCCL_COUNT_OF(p), true, 3000);
    WAIT(sim, SOON_MS, stands(p[0], p[1]));
    scenario_commit_all(sim, p, PCCL_COUNT_OF(p), 2, 1);
}

/* A member that reports ends without number does not fill the queue of another one, and cuts only links to itself. */
SCENARIO(end_gone_lies)
{
    begin(sim);
    const struct sim_conn *theirs = link_of(p[0], p[1]), *own = link_of(p[0], p[2]);
    scenario_control(sim, p[0], false);
    scenario_run_ms(sim, SOON_MS);
    for (uint64_t i = 0; i < 2 * PCCL_GONE_QUEUE_MAX; i++) {
        struct pccl_msg gone = {.type = PCCL_MSG_link_gone,
                                .as.link_gone = {.peer = p[0]->id, .number = i < 2 ? theirs->id : own->id + i - 2}};
        scenario_forge(sim, p[2], &gone);
        if (i % 32 == 0)
            scenario_run_ms(sim, 1);
    }
    const struct pccl_remote *away = pccl_master_find(sim->master->machine, &p[0]->id);
    MUST(sim, away->session.queued_count == PCCL_GONE_QUEUE_MAX);
    scenario_control(sim, p[0], true);
    scenario_run_ms(sim, SOON_MS);
    MUST(sim, link_of(p[0], p[1]) == theirs && link_of(p[0], p[2]) != own);
    MUST(sim, stands(p[0], p[1]) && stands(p[0], p[2]) && scenario_departures(sim) == 0);
    launch(sim, PCCL_COUNT_OF(p));
    finish(sim, PCCL_COUNT_OF(p), false, SOON_MS);
}
