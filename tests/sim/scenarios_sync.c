/* Scenarios of shared state (PROTOCOL 10.5, F25; the contract's scenarios 22 to 47). */
#include "scenario.h"
#include "master/rounds_election.h"
#include "master/roster.h"

#include <string.h>

enum { RECEIVE = PCCL_RECEIVE_ONLY, SEND = PCCL_SEND_ONLY, ENFORCE = PCCL_ENFORCE_POPULAR };
enum { OTHERS = 500, OURS = 700 }; /* contents */

static struct sim_peer *p[8]; /* peers of the running scenario */

/* Members that all hold the same, of revision 0. */
static void begin(struct sim *sim, uint32_t count, uint32_t groups)
{
    scenario_cluster(sim, p, count, groups);
    sim->state_by_hand = true;
    for (uint32_t i = 0; i < count; i++)
        scenario_hold(p[i], OURS, 0);
}

static void sync_some(struct sim *sim, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        scenario_sync(sim, p[i], ENFORCE);
}

static bool is_over(const struct sim_peer *peer) { return scenario_is_over(peer, PCCL_CALL_SYNC); }

/* Members `first` to `end` succeed and hold the content. */
static void must_hold(struct sim *sim, uint32_t first, uint32_t end, uint64_t within_ms, uint64_t content)
{
    for (uint32_t i = first; i < end; i++) {
        WAIT(sim, within_ms, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK && p[i]->state.content == content);
    }
}

/* The first member has the content that wins, and all others fetch it. */
static void begin_fetching(struct sim *sim, uint32_t count)
{
    begin(sim, count, 1);
    scenario_hold(p[0], OURS, 4);
    for (uint32_t i = 1; i < count; i++)
        scenario_hold(p[i], OTHERS, 0);
    sync_some(sim, 0, count);
    for (uint32_t i = 1; i < count; i++)
        WAIT(sim, 100, p[i]->state.fetching && p[i]->state.donor_count == 1);
}

/* The third member has another content, has voted, and is cut off. */
static void begin_cut_off(struct sim *sim)
{
    begin(sim, 3, 1);
    scenario_hold(p[2], OTHERS, 0);
    scenario_sync(sim, p[2], ENFORCE);
    scenario_run_ms(sim, 20);
    scenario_control(sim, p[2], false);
}

static bool is_out(const struct sim_peer *peer) { return peer->machine->state == PCCL_PEER_OVER; }

static bool says(const struct sim_peer *peer, const char *reason)
{
    return strstr(pccl_peer_last_reason(peer->machine)->bytes, reason) != NULL;
}

/* Prepares the next synchronization: all have advanced the common content. */
static void advance(struct sim_peer **peers, uint32_t count, uint64_t content, uint64_t revision)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_hold(peers[i], content, revision);
}

static void must_fail_for_all(struct sim *sim, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        WAIT(sim, 4000, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_STATE);
        MUST(sim,
             strcmp(pccl_peer_last_reason(p[i]->machine)->bytes, pccl_peer_last_reason(p[first]->machine)->bytes) == 0);
    }
}

/* All hold the same: no plan, one answer to each vote; and step after step. */
SCENARIO(sync_equal)
{
    begin(sim, 3, 1);
    for (uint64_t step = 0; step < 5; step++) {
        advance(p, 3, OURS + step, step);
        scenario_sync_all(sim, p, 3, OURS + step, step);
        for (uint32_t i = 0; i < 3; i++)
            MUST(sim, !p[i]->machine->sync.planned && p[i]->machine->revision == step + 1);
    }
    MUST(sim, sim->totals.fetches == 0);
}

/* One of three differs: it is overwritten, in whatever order they vote. */
SCENARIO(sync_minority)
{
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    begin(sim, 3, 1);
    for (uint64_t step = 0; step < 6; step++) {
        advance(p, 3, OURS + step, step);
        scenario_hold(p[2], OTHERS, step);
        for (uint32_t i = 0; i < 3; i++) {
            scenario_sync(sim, p[orders[step][i]], ENFORCE);
            scenario_run_ms(sim, 10);
        }
        WAIT(sim, 100, p[2]->state.fetching && p[2]->state.donor_count == 2);
        MUST(sim, !p[0]->state.fetching && !is_over(p[0]));
        sim_state_touch(sim, p[2]);
        MUST(sim, sim_state_finish(sim, p[2]));
        for (uint32_t i = 0; i < 3; i++) {
            WAIT(sim, 100, is_over(p[i]));
            MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK && p[i]->state.content == OURS + step);
        }
    }
}

/* A newcomer without state gets the group's content; one that does not count follows. */
SCENARIO(sync_newcomer)
{
    begin(sim, 2, 1);
    scenario_sync_all(sim, p, 2, OURS, 0);
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    advance(p, 2, OURS + 1, 1);
    scenario_hold(p[2], OTHERS, 0);
    scenario_sync_all(sim, p, 3, OURS + 1, 1);
    advance(p, 2, OURS + 2, 2);
    scenario_sync_all(sim, p, 3, OURS + 2, 2); /* the third still holds revision 1 */
    scenario_commit_all(sim, p, 3, 1, 1);
}

/*
 * One of the holders of the elected content lies: it has other content with the same digest. It is the first to send
 * the proof, and no member receives this proof, also when a master that knew it dies.
 */
SCENARIO(sync_liar)
{
    begin(sim, 5, 1);
    for (uint64_t step = 0; step < 2; step++) {
        advance(p, 5, OURS + step, step);
        scenario_hold(p[4], OTHERS, step);
        scenario_hold(p[2], OTHERS + 1, step);
        p[2]->state.mimics = OURS + step;
        for (uint32_t i = 0; i < 5; i++)
            p[i]->state.prove_us = i == 2 ? SIM_MS : 50 * SIM_MS;
        sync_some(sim, 0, 5);
        scenario_run_ms(sim, 40);
        MUST(sim, p[4]->state.fetching && p[4]->state.donor_count == 0);
        if (step == 1)
            scenario_restart_master(sim, 20);
        WAIT(sim, 5000, p[4]->state.fetching && p[4]->state.donor_count == 3);
        MUST(sim, sim_state_finish(sim, p[4]));
        for (uint32_t i = 0; i < 5; i++) {
            WAIT(sim, 100, is_over(p[i]));
            MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK);
        }
        MUST(sim, p[4]->state.content == OURS + step);
    }
}

/* F25: a donor dies in the middle, another one is there. */
SCENARIO(sync_donor_dies)
{
    begin(sim, 4, 1);
    scenario_hold(p[3], OTHERS, 0);
    scenario_hold(p[1], OTHERS, 0);
    scenario_hold(p[2], OURS, 0);
    p[1]->state.revision = p[3]->state.revision = 0;
    p[0]->state.revision = p[2]->state.revision = 3; /* both are elected */
    sync_some(sim, 0, 4);
    WAIT(sim, 100, p[3]->state.donor_count == 2 && p[1]->state.donor_count == 2);
    sim_state_touch(sim, p[3]);
    MUST(sim, sim_state_finish(sim, p[1]));
    WAIT(sim, 100, p[3]->state.donor_count == 3); /* holders give it */
    sim_peer_kill(sim, p[0], false);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 500, p[3]->machine->member_count == 2);
    MUST(sim, !is_over(p[3]) && sim_state_finish(sim, p[3]));
    WAIT(sim, 100, is_over(p[1]) && is_over(p[3]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && scenario_synced(sim, p[3]) == PCCL_OK);
    MUST(sim, p[3]->state.content == OURS && pccl_peer_sync_revision(p[3]->machine) == 3);
}

/*
 * F25: all holders of the elected content die: it fails for all in the same way; the next one takes a complete content.
 */
SCENARIO(sync_donors_die)
{
    begin_fetching(sim, 3);
    sim_state_touch(sim, p[1]);
    sim_peer_kill(sim, p[0], false);
    must_fail_for_all(sim, 1, 2);
    MUST(sim, p[1]->machine->sync.torn && !p[2]->machine->sync.torn && p[1]->machine->revision == 0);
    scenario_sync_all(sim, p + 1, 2, OTHERS, 0);
    MUST(sim, !p[1]->machine->sync.torn);
    scenario_commit_all(sim, p + 1, 2, 1, 1);
}

/* The others do not wait for a fetching member that dies. */
SCENARIO(sync_requester_dies)
{
    begin(sim, 3, 1);
    scenario_hold(p[2], OTHERS, 0);
    sync_some(sim, 0, 3);
    WAIT(sim, 100, p[2]->state.fetching);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 500, is_over(p[0]) && is_over(p[1]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[1]) == PCCL_OK);
    MUST(sim, p[0]->machine->revision == 1 && p[1]->machine->revision == 1);
}

/* One's own failure is its own: it is behind the next time, and gets it then. */
SCENARIO(sync_own_failure)
{
    begin(sim, 3, 1);
    scenario_hold(p[2], OTHERS, 0);
    sync_some(sim, 0, 3);
    WAIT(sim, 100, p[2]->state.fetching);
    sim_state_touch(sim, p[2]);
    sim_state_break(sim, p[2]);
    WAIT(sim, 100, is_over(p[0]) && is_over(p[1]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[2]) == PCCL_STATE);
    MUST(sim, says(p[2], "broken by hand") && p[2]->machine->sync.torn && p[2]->machine->revision == 1);
    scenario_commit_all(sim, p, 3, 1, 1);
    advance(p, 2, OURS + 1, 1);
    scenario_sync_all(sim, p, 3, OURS + 1, 1);
    MUST(sim, !p[2]->machine->sync.torn);
}

/*
 * All fetching members fail, and the only donor dies at the same moment. If the master learns of the death before the
 * last failure, it has failed for all, and the revision stays: no member has the elected content. (The order of reading
 * is random.)
 */
SCENARIO(sync_both_fail)
{
    uint32_t failed = 0;
    begin(sim, 8, 2);
    for (uint32_t first = 0; first < 2; first++) {
        for (uint32_t i = first; i < 8; i += 2) {
            scenario_hold(p[i], i == first ? OURS : OTHERS, i == first ? 4 : 0);
            scenario_sync(sim, p[i], ENFORCE);
        }
        for (uint32_t i = first + 2; i < 8; i += 2)
            WAIT(sim, 100, p[i]->state.fetching);
        sim_process_stop(sim, &sim->master->process, sim->now + 300 * SIM_MS);
        sim_peer_kill(sim, p[first], false);
        scenario_run_ms(sim, 50);
        for (uint32_t i = first + 2; i < 8; i += 2)
            sim_state_break(sim, p[i]);
        for (uint32_t i = first + 2; i < 8; i += 2) {
            WAIT(sim, 2000, is_over(p[i]));
            MUST(sim, scenario_synced(sim, p[i]) == PCCL_STATE);
        }
        if (p[first + 2]->machine->revision != 0)
            continue;
        failed++;
        struct sim_peer *left[3] = {p[first + 2], p[first + 4], p[first + 6]};
        scenario_sync_all(sim, left, 3, OTHERS, 0);
    }
    MUST(sim, failed > 0);
}

/* The master dies before the last vote: all vote again. */
SCENARIO(sync_restart_votes)
{
    begin(sim, 3, 1);
    scenario_hold(p[0], OTHERS, 0);
    sync_some(sim, 0, 2);
    scenario_run_ms(sim, 20);
    scenario_restart_master(sim, 200);
    scenario_run_ms(sim, 100);
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 5000, p[0]->state.fetching && p[0]->state.donor_count == 2);
    MUST(sim, sim_state_finish(sim, p[0]));
    must_hold(sim, 0, 3, 100, OURS);
}

/* ... during transfers, one of which has written: another plan, and it continues. */
SCENARIO(sync_restart_torn)
{
    begin_fetching(sim, 3);
    sim_state_touch(sim, p[1]);
    uint64_t before[2] = {p[1]->state.generation, p[2]->state.generation};
    scenario_restart_master(sim, 100);
    WAIT(sim, 5000, p[1]->state.generation != before[0] && p[2]->state.generation != before[1]);
    WAIT(sim, 100, p[1]->state.donor_count == 1 && p[2]->state.donor_count == 1);
    MUST(sim, sim_state_finish(sim, p[1]) && sim_state_finish(sim, p[2]));
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 100, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK && p[i]->state.content == OURS);
        MUST(sim, pccl_peer_sync_revision(p[i]->machine) == 4 && !p[i]->machine->sync.torn);
    }
}

/*
 * ... and with it the only holder of the elected content. B had not been written when it voted again, but its transfer
 * continues until it learns of another plan: no member may take B's old content. The end is the same for both.
 */
SCENARIO(sync_restart_untouched)
{
    begin(sim, 3, 1);
    scenario_hold(p[0], OURS, 4);
    scenario_hold(p[1], OTHERS, 0);
    scenario_hold(p[2], OTHERS + 1, 0);
    sync_some(sim, 0, 3);
    WAIT(sim, 100, p[1]->state.fetching && p[2]->state.fetching);
    sim_peer_kill(sim, p[0], false);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    WAIT(sim, 5000, p[1]->machine->resuming && p[2]->machine->resuming);
    for (uint32_t i = 1; i < 3; i++) {
        WAIT(sim, 5000, !p[i]->machine->resuming || is_over(p[i]));
        if (p[i]->state.fetching)
            sim_state_touch(sim, p[i]); /* behind its vote */
    }
    scenario_run_ms(sim, 200);
    for (uint32_t i = 1; i < 3; i++)
        if (!is_over(p[i]) && p[i]->state.fetching)
            MUST(sim, sim_state_finish(sim, p[i]));
    WAIT(sim, 1000, is_over(p[1]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[1]) == scenario_synced(sim, p[2]));
}

/* ... and nothing was written: that round fails, but no state is torn, and the next one works. */
SCENARIO(sync_restart_harmless)
{
    begin_fetching(sim, 3);
    sim_peer_kill(sim, p[0], false);
    sim_master_crash(sim, true);
    sim_master_start(sim);
    must_fail_for_all(sim, 1, 2);
    MUST(sim, !p[1]->machine->sync.torn && !p[2]->machine->sync.torn);
    sync_some(sim, 1, 2);
    must_hold(sim, 1, 3, 1000, OTHERS);
}

/* ... when all transfers are complete and no member has received that. */
SCENARIO(sync_restart_complete)
{
    begin_fetching(sim, 2);
    sim_master_crash(sim, true);
    sim_state_touch(sim, p[1]);
    MUST(sim, sim_state_finish(sim, p[1]));
    sim_master_start(sim);
    must_hold(sim, 0, 2, 5000, OURS);
    MUST(sim, p[0]->machine->revision == 5 && p[1]->machine->revision == 5 && sim->totals.fetches == 1);
}

/* F10: ... when one has received the end of the round, and is in the next one: the other receives it, too. */
SCENARIO(sync_restart_round)
{
    begin_fetching(sim, 2);
    sim_state_touch(sim, p[1]);
    MUST(sim, sim_state_finish(sim, p[1]));
    scenario_control(sim, p[1], false); /* its message is in flight, but not the answer */
    sim_net_cut(sim, p[1]->process.host, 0, SIM_CONTROL, SIM_WHOLE);
    scenario_deaf_after(sim, p[1], PCCL_MSG_sync_donor);
    if (p[1]->control != NULL)
        sim_conn_blackhole(sim, p[1]->control, 1);
    WAIT(sim, 500, is_over(p[0]));
    MUST(sim, !is_over(p[1]));
    scenario_hold(p[0], OURS + 1, 5);
    scenario_sync(sim, p[0], ENFORCE);
    scenario_run_ms(sim, 20);
    scenario_restart_master(sim, 20);
    WAIT(sim, 6000, is_over(p[1]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && p[1]->state.content == OURS && !is_over(p[0]));
    MUST(sim, pccl_peer_sync_revision(p[1]->machine) == 4);
    scenario_hold(p[1], OURS + 1, 5);
    scenario_sync(sim, p[1], ENFORCE);
    WAIT(sim, 500, is_over(p[0]) && is_over(p[1]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[1]) == PCCL_OK);
    MUST(sim, p[0]->machine->revision == 6 && p[1]->machine->revision == 6);
}

/* A round that failed for all is reported as failed by a restarted master. */
SCENARIO(sync_restart_failed)
{
    begin_fetching(sim, 3);
    sim_conn_blackhole(sim, p[2]->control, 1);
    sim_peer_kill(sim, p[0], false);
    WAIT(sim, 1000, is_over(p[1]));
    MUST(sim, !is_over(p[2]));
    scenario_restart_master(sim, 20);
    must_fail_for_all(sim, 1, 2);
    scenario_sync_all(sim, p + 1, 2, OTHERS, 0);
}

/* A revision that jumps costs its peer the run; the others continue in the same round. */
SCENARIO(sync_jump)
{
    begin(sim, 3, 1);
    scenario_sync_all(sim, p, 3, OURS, 0);
    advance(p, 3, OURS + 1, 1);
    p[1]->state.revision = 2;
    sync_some(sim, 0, 3);
    WAIT(sim, 500, is_out(p[1]) && is_over(p[0]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_EXPELLED && says(p[1], "revision 2"));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[2]) == PCCL_OK);
    MUST(sim, p[0]->machine->rounds[PCCL_ROUND_SYNC] == 2 && p[0]->machine->member_count == 2);
}

/* A member with other tensors, at any place in the ring. */
SCENARIO(sync_structure)
{
    begin(sim, 4, 1);
    for (uint32_t odd = 3; odd > 1; odd--) {
        p[odd]->state.odd = true;
        sync_some(sim, 0, odd + 1);
        WAIT(sim, 500, is_out(p[odd]));
        MUST(sim, scenario_synced(sim, p[odd]) == PCCL_EXPELLED && says(p[odd], "list of tensors"));
        MUST(sim, says(p[odd], "number 2 (counted from 0)") &&
                      says(p[odd], "it has 'c', f32 of 4 where others have 'c', u8 of 3"));
        for (uint32_t i = 0; i < odd; i++) {
            WAIT(sim, 500, is_over(p[i]));
            MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK);
            p[i]->state.revision++;
        }
    }
}

/* A member that enforces the popular content does not fit one that only sends or receives. */
SCENARIO(sync_strategies)
{
    begin(sim, 4, 1);
    scenario_sync(sim, p[0], ENFORCE);
    scenario_sync(sim, p[1], RECEIVE);
    scenario_sync(sim, p[2], SEND);
    scenario_sync(sim, p[3], ENFORCE);
    WAIT(sim, 500, is_out(p[1]) && is_out(p[2]) && is_over(p[0]) && is_over(p[3]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && scenario_synced(sim, p[3]) == PCCL_OK);
    MUST(sim, says(p[1], "ENFORCE_POPULAR") && p[0]->machine->member_count == 2);
}

/* A sender wins over a majority of members that only receive; of senders with different contents one stays. */
SCENARIO(sync_senders)
{
    begin(sim, 4, 1);
    advance(p + 1, 3, OTHERS, 0);
    scenario_sync(sim, p[0], SEND);
    for (uint32_t i = 1; i < 4; i++)
        scenario_sync(sim, p[i], RECEIVE);
    for (uint32_t i = 1; i < 4; i++) {
        WAIT(sim, 100, p[i]->state.fetching && p[i]->state.donor_count == 1);
        MUST(sim, sim_state_finish(sim, p[i]));
    }
    WAIT(sim, 100, is_over(p[0]) && is_over(p[1]) && is_over(p[2]) && is_over(p[3]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_OK && p[3]->state.content == OURS);
    advance(p, 4, OURS + 1, 1);
    scenario_hold(p[1], OTHERS, 1);
    scenario_hold(p[2], OTHERS, 1);
    scenario_sync(sim, p[0], SEND);
    scenario_sync(sim, p[1], SEND);
    scenario_sync(sim, p[2], SEND);
    scenario_sync(sim, p[3], RECEIVE);
    WAIT(sim, 500, is_out(p[0]) && p[3]->state.fetching && p[3]->state.donor_count == 2);
    MUST(sim, sim_state_finish(sim, p[3]));
    WAIT(sim, 500, is_over(p[1]) && is_over(p[2]) && is_over(p[3]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && scenario_synced(sim, p[3]) == PCCL_OK);
    MUST(sim, p[3]->state.content == OTHERS);
}

/* No member offers content: all are removed, and the run ends. One alone synchronizes with itself. */
SCENARIO(sync_alone)
{
    begin(sim, 1, 1);
    scenario_sync_all(sim, p, 1, OURS, 0);
    scenario_hold(p[0], OURS, 1);
    scenario_sync_all(sim, p, 1, OURS, 1);
    scenario_sync(sim, p[0], SEND); /* it has not counted on */
    must_fail_for_all(sim, 0, 1);
    MUST(sim, says(p[0], "revision 2"));
    scenario_sync(sim, p[0], RECEIVE);
    WAIT(sim, 500, is_out(p[0]));
    MUST(sim, scenario_synced(sim, p[0]) == PCCL_EXPELLED && says(p[0], "no member offers"));
}

/* Two groups at once, in different rounds, one of which removes a member: the other is unaffected. */
SCENARIO(sync_groups)
{
    begin(sim, 6, 2); /* 0 2 4 | 1 3 5 */
    struct sim_peer *even[3] = {p[0], p[2], p[4]}, *odd[3] = {p[1], p[3], p[5]};
    scenario_sync_all(sim, even, 3, OURS, 0);
    advance(even, 3, OURS + 1, 1);
    scenario_hold(p[4], OTHERS, 0);
    p[5]->state.odd = true;
    scenario_hold(p[1], OTHERS, 0);
    scenario_hold(p[3], OTHERS, 0);
    struct pccl_epoch view = p[0]->machine->view;
    sync_some(sim, 0, 6);
    WAIT(sim, 500, is_out(p[5]) && is_over(p[1]) && is_over(p[3]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && scenario_synced(sim, p[3]) == PCCL_OK);
    WAIT(sim, 10, p[4]->state.fetching);
    MUST(sim, !is_over(p[0]) && pccl_epoch_equal(&view, &p[0]->machine->view));
    struct sim_peer *left[2] = {odd[0], odd[1]};
    scenario_commit_all(sim, left, 2, 1, 1);
    MUST(sim, sim_state_finish(sim, p[4]));
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 500, is_over(even[i]));
        MUST(sim, scenario_synced(sim, even[i]) == PCCL_OK && even[i]->machine->revision == 2);
    }
    MUST(sim, p[1]->machine->revision == 1 && p[1]->machine->rounds[PCCL_ROUND_SYNC] == 1);
}

/* Given up before the election: the vote is taken back, the round is open. After it: it ends with the round. */
SCENARIO(sync_withdraw)
{
    begin(sim, 3, 1);
    scenario_hold(p[2], OTHERS, 0);
    sync_some(sim, 1, 2);
    scenario_run_ms(sim, 20);
    scenario_withdraw(sim, p[2], PCCL_CALL_SYNC);
    WAIT(sim, 200, is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[2]) == PCCL_ABORTED && p[2]->machine->rounds[PCCL_ROUND_SYNC] == 0);
    scenario_sync(sim, p[0], ENFORCE);
    scenario_run_ms(sim, 50);
    MUST(sim, !is_over(p[0]) && !is_over(p[1]));
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 100, p[2]->state.fetching);
    sim_state_touch(sim, p[2]);
    scenario_withdraw(sim, p[2], PCCL_CALL_SYNC);
    scenario_withdraw(sim, p[1], PCCL_CALL_SYNC); /* nothing of it is left to be given up */
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 200, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == (i == 2 ? PCCL_ABORTED : PCCL_OK));
        MUST(sim, p[i]->machine->rounds[PCCL_ROUND_SYNC] == 1);
    }
    advance(p, 2, OURS + 1, 1);
    scenario_sync_all(sim, p, 3, OURS + 1, 1);
}

/* Given up while the plan is in flight: its memory is not written. */
SCENARIO(sync_withdraw_early)
{
    begin_cut_off(sim);
    sync_some(sim, 0, 2);
    scenario_run_ms(sim, 50);
    scenario_withdraw(sim, p[2], PCCL_CALL_SYNC);
    scenario_control(sim, p[2], true);
    WAIT(sim, 500, is_over(p[0]) && is_over(p[1]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[2]) == PCCL_ABORTED && p[2]->state.content == OTHERS);
    MUST(sim, !p[2]->machine->sync.torn && p[2]->state.generation == 1 && scenario_synced(sim, p[0]) == PCCL_OK);
}

/* R9.3: a member in grace is waited for, its vote remains, and it gets its plan when it is back. */
SCENARIO(sync_grace)
{
    begin_cut_off(sim);
    sim_conn_reset(sim, p[2]->control);
    sync_some(sim, 0, 2);
    scenario_run_ms(sim, 800);
    MUST(sim, !is_over(p[0]) && !p[2]->state.fetching);
    scenario_control(sim, p[2], true);
    WAIT(sim, 1000, p[2]->state.fetching && p[2]->state.donor_count == 2);
    MUST(sim, sim_state_finish(sim, p[2]));
    for (uint32_t i = 0; i < 3; i++) {
        WAIT(sim, 500, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK);
    }
    MUST(sim, scenario_departures(sim) == 0);
}

/* A vote dies with its peer, also if it would have won. */
SCENARIO(sync_dead_vote)
{
    begin(sim, 3, 1);
    scenario_hold(p[0], OTHERS, 9);
    sync_some(sim, 0, 2);
    scenario_run_ms(sim, 20);
    sim_peer_kill(sim, p[0], false);
    WAIT(sim, 500, p[1]->machine->member_count == 2);
    MUST(sim, !is_over(p[1]));
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 200, is_over(p[1]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && pccl_peer_sync_revision(p[1]->machine) == 0);
}

/* ... also if the master removes the peer right before it reads the last vote: the view precedes the election. */
SCENARIO(sync_departing_vote)
{
    begin(sim, 3, 1);
    sim->plan.timers_first_percent = 0; /* the vote is read before the view is made */
    scenario_hold(p[0], OTHERS, 9);
    sync_some(sim, 0, 2);
    scenario_run_ms(sim, 20);
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 100, p[2]->control->ends[1].queued);
    sim_master_revoke(sim, p[0]->process.host);
    WAIT(sim, 200, is_over(p[1]) && is_over(p[2]));
    MUST(sim, scenario_synced(sim, p[1]) == PCCL_OK && pccl_peer_sync_revision(p[1]->machine) == 0);
}

/* One vote against one: the older member wins over the newcomer, for any ids. */
SCENARIO(sync_tie)
{
    begin(sim, 1, 1);
    for (uint32_t i = 1; i < 5; i++) {
        uint64_t step = 2 * (uint64_t)i;
        scenario_hold(p[0], OURS + step, step - 2);
        if (i == 1)
            scenario_sync_all(sim, p, 1, OURS + step, step - 2);
        p[1] = scenario_join(sim, 4 + i, 0);
        scenario_run_ms(sim, 100);
        scenario_update_all(sim, p, 1);
        WAIT(sim, 1000, pccl_peer_is_connected(p[1]->machine));
        uint64_t due = p[0]->machine->revision;
        scenario_hold(p[0], OURS + step, due);
        scenario_hold(p[1], OTHERS + step, due);
        scenario_sync_all(sim, p, 2, OURS + step, due);
        sim_peer_kill(sim, p[1], false);
        WAIT(sim, 500, p[0]->machine->member_count == 1);
        due = p[0]->machine->revision;
        scenario_hold(p[0], OURS + step + 1, due);
        scenario_sync_all(sim, p, 1, OURS + step + 1, due);
    }
}

/* Tensors that need not be the same: a newcomer gets them once, from one that has been in before. */
SCENARIO(sync_unequal)
{
    begin(sim, 2, 1);
    p[0]->state.unequal = p[1]->state.unequal = true;
    uint64_t own = p[1]->state.own;
    scenario_sync_all(sim, p, 2, OURS, 0); /* no older member: all keep their own */
    MUST(sim, p[1]->state.own == own && sim->totals.fetches == 0);
    p[2] = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 2);
    WAIT(sim, 1000, pccl_peer_is_connected(p[2]->machine));
    p[2]->state.unequal = true;
    advance(p, 3, OURS + 1, 1);
    scenario_sync_all(sim, p, 3, OURS + 1, 1); /* the same content, and yet it fetches */
    MUST(sim, sim->totals.fetches == 1 && (p[2]->state.own == p[0]->state.own || p[2]->state.own == own));
    MUST(sim, p[1]->state.own == own);
    advance(p, 3, OURS + 2, 2);
    scenario_sync_all(sim, p, 3, OURS + 2, 2);
    MUST(sim, sim->totals.fetches == 1);
    p[3] = scenario_join(sim, 7, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 3);
    WAIT(sim, 1000, pccl_peer_is_connected(p[3]->machine));
    p[3]->state.unequal = true;
    advance(p, 4, OURS + 3, 3);
    for (uint32_t i = 0; i < 4; i++)
        scenario_sync(sim, p[i], SEND); /* a newcomer that only sends keeps its own */
    for (uint32_t i = 0; i < 4; i++) {
        WAIT(sim, 500, is_over(p[i]));
        MUST(sim, scenario_synced(sim, p[i]) == PCCL_OK && !p[i]->machine->sync.planned);
    }
}

/* `count` newcomers that have such tensors, and another content: p[first] and on. p[member] is alone in the run. */
static void let_in(struct sim *sim, uint32_t member, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        p[i] = scenario_join(sim, 5 + i, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p + member, 1);
    for (uint32_t i = first; i < first + count; i++) {
        WAIT(sim, 1000, pccl_peer_is_connected(p[i]->machine));
        p[i]->state.unequal = true;
        scenario_hold(p[i], OTHERS, 0);
    }
}

/* Lets the master and p[from], the source, die, and restarts the master. */
static void lose(struct sim *sim, uint32_t from)
{
    sim_peer_kill(sim, p[from], false);
    sim_master_crash(sim, true);
    sim_master_start(sim);
}

/*
 * Checks that a member that got them before a restart of the master gives them after it: the only other holder is dead.
 */
static void check_handed_on(struct sim *sim, uint32_t member, uint32_t first, uint64_t content, uint64_t revision)
{
    uint64_t own = p[member]->state.own;
    let_in(sim, member, first, 2);
    struct sim_peer *had = p[first], *torn = p[first + 1];
    scenario_hold(p[member], content, revision);
    sync_some(sim, member, 1);
    sync_some(sim, first, 2);
    WAIT(sim, 200, had->state.donor_count == 1 && torn->state.donor_count == 1);
    sim_state_touch(sim, torn);
    MUST(sim, sim_state_finish(sim, had));
    uint64_t before = torn->state.generation;
    lose(sim, member);
    WAIT(sim, 5000, torn->state.generation != before && torn->state.donor_count == 1);
    MUST(sim, torn->state.plan.takes_unequal && sim_state_finish(sim, torn));
    WAIT(sim, 500, is_over(had) && is_over(torn));
    MUST(sim, scenario_synced(sim, had) == PCCL_OK && scenario_synced(sim, torn) == PCCL_OK);
    MUST(sim, had->state.own == own && torn->state.own == own);
}

/*
 * Checks the loss of all holders, with half of them overwritten: members that need them fail with a reason; the others
 * continue.
 */
static void check_half_lost(struct sim *sim, uint32_t member, uint32_t first, uint64_t content, uint64_t revision)
{
    let_in(sim, member, first, 2);
    struct sim_peer *sends = p[first], *torn = p[first + 1];
    scenario_hold(p[member], content, revision);
    scenario_hold(sends, content, revision);
    scenario_sync(sim, p[member], SEND);
    scenario_sync(sim, sends, SEND);
    scenario_sync(sim, torn, RECEIVE);
    WAIT(sim, 200, torn->state.donor_count == 2);
    sim_state_touch(sim, torn);
    lose(sim, member);
    WAIT(sim, 5000, is_over(sends) && is_over(torn));
    MUST(sim, scenario_synced(sim, sends) == PCCL_OK && scenario_synced(sim, torn) == PCCL_STATE);
    MUST(sim, says(torn, "restore them from a checkpoint") && sends->machine->revision == revision + 1);
}

/* ... and their holder dies before it has them: it fails, and the next time there is nothing to fetch. */
SCENARIO(sync_unequal_lost)
{
    begin(sim, 1, 1);
    p[0]->state.unequal = true;
    scenario_sync_all(sim, p, 1, OURS, 0);
    p[1] = scenario_join(sim, 6, 0);
    p[2] = scenario_join(sim, 7, 0);
    scenario_run_ms(sim, 100);
    scenario_update_all(sim, p, 1);
    WAIT(sim, 1000, pccl_peer_is_connected(p[1]->machine) && pccl_peer_is_connected(p[2]->machine));
    p[1]->state.unequal = p[2]->state.unequal = true;
    advance(p, 3, OURS + 1, 1);
    sync_some(sim, 0, 3);
    WAIT(sim, 200, p[1]->state.fetching && p[1]->state.donor_count == 1);
    sim_peer_kill(sim, p[0], false);
    must_fail_for_all(sim, 1, 2);
    scenario_sync_all(sim, p + 1, 2, OURS + 1, 1);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 500, p[1]->machine->member_count == 1);
    check_handed_on(sim, 1, 3, OURS + 2, 2);
    sim_peer_kill(sim, p[4], false);
    WAIT(sim, 500, p[3]->machine->member_count == 1);
    check_half_lost(sim, 3, 5, OURS + 3, 3);
}

/* F20: the era changes with the round: uses start over, and launches at its end are refused. */
SCENARIO(sync_era)
{
    begin(sim, 3, 1);
    scenario_commit_all(sim, p, 3, 1, 1);
    struct pccl_peer_op *aborted = scenario_tiny(sim, p[0], 2, 1);
    scenario_run_ms(sim, 20);
    scenario_abort(sim, p[0], aborted, PCCL_CLASS_ABORTED);
    WAIT(sim, 300, scenario_is_decided(aborted));
    MUST(sim, scenario_take(sim, p[0], aborted) == PCCL_CLASS_ABORTED);
    scenario_run_ms(sim, 20);
    MUST(sim, p[1]->machine->tombstone_count == 1);
    scenario_sync(sim, p[0], ENFORCE);
    struct sim_request request = {.tag = 1, .tiny = true, .count = 1};
    struct pccl_peer_op *op = NULL;
    MUST(sim, sim_app_launch(sim, p[0], &request, &op) == PCCL_USAGE);
    MUST(sim, sim_peer_call(sim, p[0], PCCL_CALL_UPDATE) == PCCL_USAGE);
    scenario_sync(sim, p[1], ENFORCE);
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 500, is_over(p[0]) && is_over(p[1]) && is_over(p[2]));
    MUST(sim, p[1]->machine->tombstone_count == 0 && p[1]->machine->uses.count == 0);
    scenario_commit_all(sim, p, 3, 2, 2);
    scenario_update(sim, p[0]);
    MUST(sim, sim_sync_ask(sim, p[0]) == PCCL_USAGE);
    scenario_update(sim, p[1]);
    scenario_update(sim, p[2]);
    WAIT(sim, 500, scenario_is_over(p[0], PCCL_CALL_UPDATE) && scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_run_ms(sim, 2000);
    sim_check_idle(sim);
}

/*
 * A bulk operation of the new era is announced to a member that has not received it yet, and launches it as a tiny one.
 */
SCENARIO(sync_announced)
{
    begin(sim, 2, 1);
    sync_some(sim, 0, 1);
    scenario_run_ms(sim, 20);
    sync_some(sim, 1, 1);
    scenario_run_ms(sim, 0);
    scenario_control(sim, p[1], true);
    sim_process_stop(sim, &p[1]->process, sim->now);
    struct sim_conn *control = p[1]->control;
    control->slow_until = sim->now + 100 * SIM_MS;
    control->slow_by = 60 * SIM_MS;
    WAIT(sim, 50, is_over(p[0]) && !is_over(p[1]));
    struct pccl_peer_op *bulk = scenario_bulk(sim, p[0], 1, 1);
    WAIT(sim, 500, is_over(p[1]));
    struct pccl_peer_op *tiny = scenario_tiny(sim, p[1], 1, 1);
    WAIT(sim, 500, scenario_is_decided(bulk) && scenario_is_decided(tiny));
    MUST(sim, scenario_take(sim, p[0], bulk) == PCCL_CLASS_MISMATCH);
    MUST(sim, scenario_take(sim, p[1], tiny) == PCCL_CLASS_MISMATCH);
}

static bool is_lost(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_remote *remote = pccl_master_find(sim->master->machine, &peer->id);
    return remote == NULL || remote->conn == 0;
}

/* All voters are gone, and a newcomer is admitted at that moment: the round has not taken place. */
SCENARIO(sync_abandoned)
{
    begin(sim, 3, 2); /* 0 2 | 1 */
    scenario_hold(p[0], OURS, 4);
    scenario_hold(p[2], OTHERS, 0);
    scenario_sync(sim, p[0], ENFORCE);
    scenario_sync(sim, p[2], ENFORCE);
    WAIT(sim, 100, p[2]->state.fetching);
    struct sim_peer *n = scenario_join(sim, 6, 0);
    scenario_run_ms(sim, 200);
    scenario_update(sim, p[1]);
    sim_process_stop(sim, &sim->master->process, sim->now + 100 * SIM_MS);
    sim_peer_kill(sim, p[0], false);
    sim_peer_kill(sim, p[2], false);
    WAIT(sim, 3000, is_lost(sim, p[0]) && is_lost(sim, p[2]));
    sim_process_stop(sim, &sim->master->process, sim->now + 10 * SIM_MS); /* it answers neither probe: both at once */
    WAIT(sim, 3000, scenario_is_over(p[1], PCCL_CALL_UPDATE));
    scenario_run_ms(sim, 10); /* its welcome is in flight, if it is in */
    if (!pccl_peer_is_connected(n->machine)) {
        scenario_run_ms(sim, 300);
        scenario_update_all(sim, p + 1, 1);
    }
    WAIT(sim, 1000, pccl_peer_is_connected(n->machine));
    scenario_hold(n, OTHERS, 0);
    scenario_sync_all(sim, &n, 1, OTHERS, 0);
}
