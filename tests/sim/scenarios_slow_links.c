/*
 * A link of the ring becomes slow (PROTOCOL 9.12): the ring leaves it at the next quiet round, which the master
 * requests from members, and does not oscillate.
 */
#include "scenario.h"
#include "scenario_topology.h"
#include "master/topology.h"
#include "master/roster.h"
#include "peer/queries.h"

enum { SOUND_US = 30000, SLOW_US = 100000, MIB = 8, WORK_US = 900000 };
/* busy time for each MiB; MiB over a link in a second, and the time of operations in it */

static uint64_t pace_us[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* pace by hosts */
static uint64_t ring_bytes, ring_left;                 /* bytes of operations under way, as all report them */

static void links_are_sound(void)
{
    for (uint32_t i = 0; i < SIM_HOSTS_MAX; i++)
        for (uint32_t k = 0; k < SIM_HOSTS_MAX; k++)
            pace_us[i][k] = SOUND_US;
}

static uint64_t *pace_of(const struct sim_peer *from, const struct sim_peer *to)
{
    return &pace_us[from->process.host][to->process.host];
}

static bool is_in_use(struct sim *sim, uint32_t from, uint32_t to, bool directly)
{
    return directly ? from != to : p[to] == next_of(sim, p[from]);
}

/* Returns the number of bytes that each link carries in a second: the slowest link in use delays all. */
static uint64_t bytes_in_a_second(struct sim *sim, uint32_t count, bool directly)
{
    uint64_t slowest_us = SOUND_US;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (is_in_use(sim, i, k, directly))
                slowest_us = pccl_max_u64(slowest_us, *pace_of(p[i], p[k]));
    return ((uint64_t)MIB << 20) * WORK_US / (WORK_US - MIB * SOUND_US + MIB * slowest_us);
}

/* Sends the reports of all members for one second of operations, around the ring or over all links. */
static void work_over(struct sim *sim, uint32_t count, bool directly)
{
    uint64_t bytes = bytes_in_a_second(sim, count, directly);
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_seen_link links[MANY];
        uint32_t used = 0;
        for (uint32_t k = 0; k < count; k++)
            if (is_in_use(sim, i, k, directly))
                scenario_add_seen(links, &used,
                                  (struct pccl_seen_link){.peer = p[k]->id,
                                                          .bytes = bytes,
                                                          .busy_us = (uint32_t)(bytes * *pace_of(p[i], p[k]) >> 20),
                                                          .rtt_us = 1000,
                                                          .lately_us = 1500});
        struct pccl_msg_sight telemetry = {.window_ms = 1000,
                                           .operations = 4,
                                           .took_us = WORK_US,
                                           .links = links,
                                           .links_count = used,
                                           .ring_bytes = ring_bytes,
                                           .ring_left = ring_left};
        (void)sim_peer_step(sim, p[i], &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &telemetry});
    }
    scenario_run_ms(sim, 1100);
}

static void work(struct sim *sim, uint32_t count) { work_over(sim, count, false); }

/* Works until the usual figures of the links are known, because only a change is a verdict. */
static void be_sound(struct sim *sim, uint32_t count)
{
    links_are_sound();
    ring_bytes = ring_left = 0;
    for (uint32_t i = 0; i < PCCL_LINK_PAST_LEAST + 1; i++) /* the first comparison has only one report */
        work(sim, count);
}

/* Returns true if the answer requests an update, which all callers check before each step. */
static bool is_asked_for(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_pending(sim, p[i]);
    for (uint32_t i = 0; i < count; i++) {
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_PENDING));
        MUST(sim, p[i]->app.call_value[PCCL_CALL_PENDING] == p[0]->app.call_value[PCCL_CALL_PENDING]);
    }
    return p[0]->app.call_value[PCCL_CALL_PENDING];
}

static const char *what_is_done(const struct sim_peer *peer)
{
    uint32_t told;
    const struct pccl_peer_verdict *verdicts = pccl_peer_verdicts(peer->machine, &told);
    for (uint32_t i = 0; i < told; i++)
        if (verdicts[i].class == PCCL_VERDICT_SLOW_LINK)
            return verdicts[i].action.bytes;
    return "";
}

static void become_slow(struct sim *sim, uint32_t count)
{
    begin(sim, count);
    be_sound(sim, count);
    *pace_of(p[0], p[1]) = SLOW_US;
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, count); i++)
        work(sim, count);
    work(sim, count);
    MUST(sim, strstr(what_is_done(p[0]), "the next topology update adopts a ring without it") != NULL);
}

static void is_left(struct sim *sim, uint32_t count)
{
    MUST(sim, is_asked_for(sim, count));
    scenario_update_all(sim, p, count);
    must_agree(sim, count);
    MUST(sim, !uses(sim, p[0], p[1]));
    for (uint32_t i = 0; i < 8; i++) {
        work(sim, count);
        MUST(sim, !is_asked_for(sim, count));
    }
    MUST(sim, what_is_done(p[0])[0] == '\0');
    scenario_update_all(sim, p, count);
    MUST(sim, !uses(sim, p[0], p[1]));
    scenario_commit_all(sim, p, count, 1, 1);
}

/* No member optimizes, and no operation fails. The ring of three is reversed. */
SCENARIO(slow_link_is_left)
{
    become_slow(sim, 3);
    is_left(sim, 3);
}

/* Runs a second with these bytes under way. Returns true if the ring has changed during it. */
static bool changes_with(struct sim *sim, uint32_t count, uint64_t bytes, uint64_t left)
{
    uint32_t version = group_of(sim)->ring_version;
    ring_bytes = bytes;
    ring_left = left;
    work(sim, count);
    return group_of(sim)->ring_version != version;
}

/*
 * An operation under way gets the better ring if it gains enough by a restart, once in a while. No member updates, and
 * no operation fails.
 */
SCENARIO(slow_link_is_left_at_once)
{
    enum { ALL = 1 << 30 };
    struct pccl_peer_op *ops[4];
    become_slow(sim, 4);
    sim->bulk_by_hand = true;
    for (uint32_t i = 0; i < 4; i++)
        ops[i] = scenario_bulk(sim, p[i], 1, 1);
    MUST(sim, !changes_with(sim, 4, 0, 0));
    MUST(sim, !changes_with(sim, 4, ALL, ALL / 3));     /* the rest takes as long as all of it would */
    MUST(sim, !changes_with(sim, 4, 8 << 20, 8 << 20)); /* no second is gained */
    MUST(sim, changes_with(sim, 4, ALL, ALL) && !uses(sim, p[0], p[1]));
    MUST(sim, what_is_done(p[0])[0] == '\0' || strstr(what_is_done(p[0]), "does not use it") != NULL);
    for (uint32_t i = 0; i < 4; i++) {
        MUST(sim, pccl_epoch_equal(&ops[i]->start_view, &group_of(sim)->view));
        WAIT(sim, 1000, sim_bulk_is_moving(sim, p[i], ops[i]));
        sim_bulk_finish(sim, p[i], ops[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 1000, scenario_is_decided(ops[i]));
        MUST(sim, scenario_take(sim, p[i], ops[i]) == PCCL_CLASS_NONE);
    }
    *pace_of(p[2], next_of(sim, p[2])) = SLOW_US; /* another link, soon after */
    for (uint32_t i = 0; i < 10; i++)
        MUST(sim, !changes_with(sim, 4, ALL, ALL));
    for (uint32_t i = 0; i < 30 && !changes_with(sim, 4, ALL, ALL); i++)
        ;
    MUST(sim, sim->now > group_of(sim)->tuning.replanned_us && group_of(sim)->tuning.replanned_us != 0);
    must_agree(sim, 4);
    MUST(sim, scenario_departures(sim) == 0);
}

/* A reason that no longer holds is withdrawn: the link is sound again before any update. */
SCENARIO(slow_link_mends)
{
    become_slow(sim, 4);
    *pace_of(p[0], p[1]) = SOUND_US;
    for (uint32_t i = 0; i < 8 && what_is_done(p[0])[0] != '\0'; i++)
        work(sim, 4);
    MUST(sim, !is_asked_for(sim, 4));
    scenario_update_all(sim, p, 4);
    MUST(sim, uses(sim, p[0], p[1]));
}

/*
 * Operations show that the link carries more before any update. The update finds that the ring is as good as the better
 * one, and members that update while it is requested continue.
 */
SCENARIO(slow_link_is_worth_it_no_more)
{
    become_slow(sim, 3);
    MUST(sim, uses(sim, p[0], p[1]));
    for (uint32_t i = 0; i < 3; i++)
        sim_peer_measured(sim, p[i], &next_of(sim, p[i])->id, 1000, RATE);
    scenario_run_ms(sim, 100);
    MUST(sim, is_asked_for(sim, 3));
    scenario_update_all(sim, p, 3);
    MUST(sim, uses(sim, p[0], p[1]));
    MUST(sim, !is_asked_for(sim, 3));
    work(sim, 3);
    MUST(sim, strcmp(what_is_done(p[0]), "none: no better ring is known") == 0 && !is_asked_for(sim, 3));
}

static bool is_judged(const struct sim *sim, const struct sim_peer *from, const struct sim_peer *to)
{
    const struct pccl_master *m = sim->master->machine;
    return pccl_master_find_figure(pccl_master_find(m, &from->id), pccl_master_find(m, &to->id))->judged;
}

static void mends(struct sim *sim, uint32_t count)
{
    links_are_sound();
    for (uint32_t i = 0; i < 8 && what_is_done(p[0])[0] != '\0'; i++)
        work(sim, count);
    MUST(sim, what_is_done(p[0])[0] == '\0' && !is_asked_for(sim, count));
}

/* Two links are slow at a time: a ring without them is searched for once, not every second; and both recover. */
SCENARIO(slow_links_at_once)
{
    begin(sim, 6);
    be_sound(sim, 6);
    *pace_of(p[0], p[1]) = *pace_of(p[3], p[4]) = SLOW_US;
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 6); i++)
        work(sim, 6);
    MUST(sim, is_asked_for(sim, 6) && is_judged(sim, p[0], p[1]) && is_judged(sim, p[3], p[4]));
    uint64_t searches = sim->master->machine->last_ticket;
    for (uint32_t i = 0; i < 6; i++)
        work(sim, 6);
    MUST(sim, sim->master->machine->last_ticket == searches);
    mends(sim, 6);
    MUST(sim, !is_judged(sim, p[0], p[1]) && !is_judged(sim, p[3], p[4]));
}

static void one_more(struct sim *sim, uint32_t count)
{
    p[count] = scenario_join(sim, count + 1, 0);
    scenario_run_ms(sim, 500);
    scenario_update_all(sim, p, count);
    WAIT(sim, 1000, scenario_is_over(p[count], PCCL_CALL_CONNECT));
    MUST(sim, uses(sim, p[0], p[1]));
}

/*
 * A member joins when the better ring is known, so that another one is searched for; then the link recovers. Another
 * time a member joins when it has recovered, and before the verdict is over.
 */
SCENARIO(slow_link_and_newcomer)
{
    become_slow(sim, 4);
    one_more(sim, 4);
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 5); i++)
        work(sim, 5);
    MUST(sim, is_asked_for(sim, 5));
    mends(sim, 5);
    MUST(sim, !is_judged(sim, p[0], p[1]));
    one_more(sim, 5);
    *pace_of(p[0], p[1]) = SLOW_US;
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 6); i++)
        work(sim, 6);
    links_are_sound();
    for (uint32_t i = 0; i < 2; i++)
        work(sim, 6);
    one_more(sim, 6);
    MUST(sim, what_is_done(p[0])[0] != '\0');
    mends(sim, 7);
    MUST(sim, !is_judged(sim, p[0], p[1]));
}

/* A member dies when the better ring is known: it is void, and the next one is found. */
SCENARIO(slow_link_and_death)
{
    become_slow(sim, 5);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 2000, sim->master->machine->member_count == 4);
    p[3] = p[4];
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 4); i++)
        work(sim, 4);
    is_left(sim, 4);
}

/* The master restarts then: it has no knowledge, and finds the ring again. */
SCENARIO(slow_link_and_restart)
{
    become_slow(sim, 4);
    scenario_restart_master(sim, 100);
    WAIT(sim, 15000, what_is_done(p[0])[0] == '\0');
    scenario_commit_all(sim, p, 4, 1, 1);
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 4); i++)
        work(sim, 4);
    is_left(sim, 4);
}

/* Returns true for a verdict on a slow sender, as shown by the links that were tried. */
static bool is_a_slow_sender(const struct sim_peer *peer)
{
    uint32_t told;
    const struct pccl_peer_verdict *verdicts = pccl_peer_verdicts(peer->machine, &told);
    for (uint32_t i = 0; i < told; i++)
        if (verdicts[i].class == PCCL_VERDICT_SLOW_SENDER && pccl_id_equal(&verdicts[i].peer, &peer->id))
            return true;
    return false;
}

/* Runs a second, after which all update if requested. Returns true if the ring has changed. */
static bool work_and_update(struct sim *sim, uint32_t count)
{
    uint32_t version = group_of(sim)->ring_version;
    work(sim, count);
    if (is_asked_for(sim, count))
        scenario_update_all(sim, p, count);
    return group_of(sim)->ring_version != version;
}

/* All that one peer sends is slow, so that each ring has a slow link: each is tried, and the best one is kept. */
SCENARIO(slow_links_everywhere)
{
    begin(sim, 4);
    be_sound(sim, 4);
    for (uint32_t i = 0; i < 4; i++)
        *pace_of(p[2], p[i]) = SLOW_US + 10000 * i;
    uint32_t changes = 0, lately = 0;
    for (uint32_t i = 0; i < 80; i++) {
        bool changed = work_and_update(sim, 4);
        changes += changed;
        lately += changed && i >= 40;
    }
    MUST(sim, changes > 0 && changes <= 6 && lately == 0);
    MUST(sim, uses(sim, p[2], p[0]) && strcmp(what_is_done(p[0]), "none: no better ring is known") == 0);
    MUST(sim, is_a_slow_sender(p[2]));
}

static bool is_of_an_end(const struct sim_peer *peer)
{
    uint32_t told;
    const struct pccl_peer_verdict *verdicts = pccl_peer_verdicts(peer->machine, &told);
    for (uint32_t i = 0; i < told; i++)
        if (verdicts[i].class != PCCL_VERDICT_SLOW_LINK)
            return true;
    return false;
}

/* Returns true if a verdict names one of the fast peers as slow. */
static bool is_fast_one_accused(const struct sim_peer *slow)
{
    uint32_t told;
    const struct pccl_peer_verdict *verdicts = pccl_peer_verdicts(slow->machine, &told);
    for (uint32_t i = 0; i < told; i++)
        if (verdicts[i].class != PCCL_VERDICT_SLOW_LINK
                ? !pccl_id_equal(&verdicts[i].peer, &slow->id)
                : !pccl_id_equal(&verdicts[i].peer, &slow->id) && !pccl_id_equal(&verdicts[i].other, &slow->id))
            return true;
    return false;
}

static bool is_found(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_or_finding_at(&group_of(sim)->verdicts, n)) != NULL; n++)
        if (entry->finding && (pccl_id_equal(&entry->peer, &peer->id) || pccl_id_equal(&entry->other, &peer->id)))
            return true;
    return false;
}

/*
 * One of four peers has a tenth of the rate of the others from the start, and the links of the others to one another
 * share their lines. That is a finding about this peer, around the ring and directly, and no verdict. A link between
 * two of the others has a verdict once it becomes slow.
 */
SCENARIO(slow_peer_among_fast)
{
    begin(sim, 4);
    for (uint32_t directly = 0; directly < 2; directly++) {
        links_are_sound();
        for (uint32_t i = 0; i < 4; i++) {
            *pace_of(p[i], p[2]) = *pace_of(p[2], p[i]) = 10 * SOUND_US;
            if (i != 2) /* two flows to others */
                *pace_of(p[i], p[i == 0 ? 1 : 0]) = 2 * SOUND_US;
        }
        for (uint32_t i = 0; i < 12; i++) {
            work_over(sim, 4, directly != 0);
            MUST(sim, what_is_done(p[0])[0] == '\0' && !is_of_an_end(p[0]));
        }
        MUST(sim, is_found(sim, p[2]));
    }
    links_are_sound();
    for (uint32_t i = 0; i < 8; i++)
        work_over(sim, 4, true);
    MUST(sim, !is_of_an_end(p[0]) && !is_fast_one_accused(p[2]));
    *pace_of(p[0], p[1]) = 10 * SOUND_US;
    for (uint32_t i = 0; i < 8; i++)
        work_over(sim, 4, true);
    MUST(sim, what_is_done(p[3])[0] != '\0' && is_fast_one_accused(p[2]) && !is_of_an_end(p[3]));
}

/* Links between two sites become slow, so that each ring has two such: that is no peer's fault, whichever are tried. */
SCENARIO(slow_links_of_two_sites)
{
    uint32_t changes = 0;
    begin(sim, 4);
    be_sound(sim, 4);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < 4; k++)
            if (i / 2 != k / 2)
                *pace_of(p[i], p[k]) = SLOW_US + 10000 * i + 1000 * k;
    for (uint32_t i = 0; i < 80; i++) {
        changes += work_and_update(sim, 4);
        MUST(sim, !is_of_an_end(p[0]));
    }
    MUST(sim, changes > 0);
}

/* All that p[1] sends, or receives, is slow. The ring tries each link: only p[1] is expelled. */
static void end_of_ring_goes(struct sim *sim, uint32_t count, bool sends)
{
    begin(sim, count);
    be_sound(sim, count);
    sim->master->machine->config.expel_slow_peers = true;
    sim->master->machine->config.slow_peer_limit_s = 5;
    for (uint32_t i = 0; i < count; i++)
        *(sends ? pace_of(p[1], p[i]) : pace_of(p[i], p[1])) = SLOW_US + 10000 * i;
    for (uint32_t i = 0; i < 60 && sim->master->machine->member_count == count; i++) {
        work(sim, count);
        if (sim->master->machine->member_count == count && is_asked_for(sim, count))
            scenario_update_all(sim, p, count);
    }
    MUST(sim, p[1]->machine->state == PCCL_PEER_OVER && sim->master->machine->member_count == count - 1);
}

/* A ring whose links are tried shows the slow peer. */
SCENARIO(slow_sender_of_three_goes) { end_of_ring_goes(sim, 3, true); }
SCENARIO(slow_sender_of_four_goes) { end_of_ring_goes(sim, 4, true); }
SCENARIO(slow_sender_of_eight_goes) { end_of_ring_goes(sim, 8, true); }
SCENARIO(slow_receiver_of_three_goes) { end_of_ring_goes(sim, 3, false); }
SCENARIO(slow_receiver_of_four_goes) { end_of_ring_goes(sim, 4, false); }
SCENARIO(slow_receiver_of_eight_goes) { end_of_ring_goes(sim, 8, false); }
