/*
 * Members that lie in their reports, at a master that expels slow peers (PROTOCOL 9.8, 9.11): no other member leaves.
 * Real machines send the reports; scenarios_verdicts.c tests the comparison alone against random liars.
 */
#include "scenario.h"
#include "scenario_topology.h"
#include "master/verdicts.h"
#include "peer/queries.h"

enum { LIMIT_S = 5, LONG_S = 3 * LIMIT_S, ROUNDS = 4, SOUND_MS = 40, SLOW_MS = 100, FAST_MS = 1, MIB = 8 };

/* A report of one second. */
struct report {
    struct pccl_msg_sight telemetry;
    struct pccl_seen_link links[PCCL_TELEMETRY_LINKS_MAX];
    struct pccl_seen_round rounds[ROUNDS];
};

static struct report report_of(struct sim *sim, uint32_t took_ms)
{
    struct report report = {.telemetry = {.window_ms = 1000,
                                          .operations = ROUNDS,
                                          .took_us = ROUNDS * (uint64_t)took_ms * 1000,
                                          .rounds_count = ROUNDS}};
    for (uint32_t i = 0; i < ROUNDS; i++) /* the same operations at all members that report in this second */
        report.rounds[i] = (struct pccl_seen_round){sim->now / 500000 * ROUNDS + i, took_ms * 1000, 0};
    return report;
}

/* Adds a link with this busy time for each MiB. A slow one carries less. */
static void add(struct report *report, const struct sim_peer *to, uint32_t ms)
{
    scenario_add_seen(report->links, &report->telemetry.links_count,
                      (struct pccl_seen_link){.peer = to->id,
                                              .bytes = (MIB << 20) * SOUND_MS / (ms > SOUND_MS ? ms : SOUND_MS),
                                              .busy_us = MIB * 1000 * (ms < SOUND_MS ? ms : SOUND_MS),
                                              .rtt_us = 1000,
                                              .lately_us = 1500});
}

/* Returns the busy time of a link that becomes slow once its usual pace is known, because only a change is a verdict.
 */
static uint32_t later_slow_ms(uint32_t second) { return second <= PCCL_LINK_PAST_LEAST ? SOUND_MS : SLOW_MS; }

static void tell(struct sim *sim, struct sim_peer *peer, struct report *report)
{
    report->telemetry.links = report->links;
    report->telemetry.rounds = report->rounds;
    (void)sim_peer_step(sim, peer,
                        &(struct pccl_peer_event){.kind = PCCL_PEER_TELEMETRY, .telemetry = &report->telemetry});
}

/* Sends the report of an honest member: its link in the ring, or its links to all. */
static void tell_truth(struct sim *sim, uint32_t i, uint32_t count, bool mesh)
{
    struct report report = report_of(sim, 225);
    for (uint32_t k = 0; k < count; k++)
        if (mesh ? k != i : p[k] == next_of(sim, p[i]))
            add(&report, p[k], SOUND_MS);
    tell(sim, p[i], &report);
}

static bool is_out(const struct sim_peer *peer) { return peer->machine->state == PCCL_PEER_OVER; }

/* Starts `count` members and a master that expels slow peers. Members from `honest` on lie. */
static void begin_group(struct sim *sim, uint32_t honest, uint32_t count)
{
    struct pccl_master_config *config;
    scenario_cluster(sim, p, count, 1);
    config = &sim->master->machine->config;
    config->expel_slow_peers = true;
    config->slow_peer_limit_s = LIMIT_S;
    config->slow_peer_floor = 1;
    for (uint32_t i = honest; i < count; i++)
        scenario_lie(sim, p[i]);
}

static void end_second(struct sim *sim, uint32_t honest)
{
    scenario_run_ms(sim, 1100);
    for (uint32_t i = 0; i < honest; i++)
        MUST(sim, !is_out(p[i]));
}

static uint32_t verdicts_of(const struct sim_peer *peer)
{
    uint32_t count = 0, found = 0;
    const struct pccl_peer_verdict *all = pccl_peer_verdicts(peer->machine, &count);
    for (uint32_t i = 0; i < count; i++)
        found += pccl_id_equal(&all[i].peer, &peer->id);
    return found;
}

/* A report lists one peer eight times; then another member sends the same. */
SCENARIO(accuser_repeats)
{
    begin_group(sim, 3, 4);
    for (uint32_t second = 0; second < 3 * LONG_S; second++) {
        struct report lie = report_of(sim, 225);
        uint32_t accused = second / LONG_S, other = (accused + 1) % 3;
        uint32_t slow_ms = later_slow_ms(second % LONG_S);
        lie.telemetry.links_count = 16;
        for (uint32_t k = 0; k < 16; k++)
            lie.links[k] = (struct pccl_seen_link){.peer = p[k < 8 ? accused : other]->id,
                                                   .bytes = (MIB << 20) * (k < 8 ? SOUND_MS : slow_ms) / slow_ms,
                                                   .busy_us = MIB * 1000 * SOUND_MS};
        for (uint32_t i = 0; i < 3; i++)
            tell_truth(sim, i, 4, false);
        if (!is_out(p[3]))
            tell(sim, p[3], &lie);
        end_second(sim, 3);
    }
}

/*
 * Two of five report that all links to a third one are slow. Each pair has a link, but operations go around the ring.
 * Then one more member reports the same for a moment.
 */
SCENARIO(accusers_of_a_receiver)
{
    begin_group(sim, 3, 5);
    for (uint32_t second = 0; second < 3 * LONG_S; second++) {
        bool moment = second > 2 * LONG_S && second < 2 * LONG_S + LIMIT_S;
        for (uint32_t i = 0; i < 3; i++) {
            struct report report = report_of(sim, 225);
            add(&report, next_of(sim, p[i]), SOUND_MS);
            if (i == 1 && next_of(sim, p[i]) != p[0])
                add(&report, p[0], moment ? SLOW_MS : SOUND_MS);
            tell(sim, p[i], &report);
        }
        for (uint32_t i = 3; i < 5; i++) {
            struct report lie = report_of(sim, 225);
            add(&lie, p[0], later_slow_ms(second));
            add(&lie, p[1], SOUND_MS);
            tell(sim, p[i], &lie);
        }
        end_second(sim, 3);
    }
}

/* The same for links that no operation uses, as the group is too large for links between all pairs. */
SCENARIO(accusers_without_links)
{
    begin_group(sim, MANY - 2, MANY);
    struct sim_peer *accused = p[5];
    for (uint32_t second = 0; second < LONG_S; second++) {
        for (uint32_t i = 0; i < MANY - 2; i++)
            tell_truth(sim, i, MANY, false);
        for (uint32_t i = MANY - 2; i < MANY; i++) {
            struct report lie = report_of(sim, 225);
            add(&lie, accused, later_slow_ms(second));
            tell(sim, p[i], &lie);
        }
        end_second(sim, MANY - 2);
        MUST(sim, verdicts_of(accused) == 0);
    }
}

/* Two of five report that they send very fast, while the links of the member that does send become slow. */
SCENARIO(accusers_of_a_sender)
{
    begin_group(sim, 3, 5);
    for (uint32_t second = 0; second < LONG_S; second++) {
        struct report truth = report_of(sim, 225);
        for (uint32_t k = 1; k < 5; k++)
            add(&truth, p[k], later_slow_ms(second));
        tell(sim, p[0], &truth);
        for (uint32_t i = 1; i < 5; i++) {
            struct report report = report_of(sim, 225);
            for (uint32_t k = 0; i >= 3 && k < 5; k++)
                if (k != i)
                    add(&report, p[k], FAST_MS);
            tell(sim, p[i], &report);
        }
        end_second(sim, 3);
    }
    MUST(sim, verdicts_of(p[0]) == 1);
}

/*
 * One of five reports many fast links, each of the others only one: it has one vote, like them. Then the network is
 * slower, except for the reported links.
 */
SCENARIO(accuser_with_many_links)
{
    begin_group(sim, 4, 5);
    for (uint32_t second = 0; second < LONG_S; second++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct report truth = report_of(sim, 225);
            add(&truth, next_of(sim, p[i]), later_slow_ms(second));
            tell(sim, p[i], &truth);
        }
        struct report lie = report_of(sim, 225);
        for (uint32_t k = 0; k < 4; k++)
            add(&lie, p[k], FAST_MS);
        tell(sim, p[4], &lie);
        end_second(sim, 4);
        for (uint32_t i = 0; i < 4; i++)
            MUST(sim, verdicts_of(p[i]) == 0);
    }
}

/* One of two reports longer operations: a verdict that does not suffice. With a third member it does. */
SCENARIO(accuser_of_two)
{
    begin_group(sim, 1, 2);
    for (uint32_t second = 0; second < LONG_S; second++) {
        struct report truth = report_of(sim, 100), lie = report_of(sim, 400);
        tell(sim, p[0], &truth);
        tell(sim, p[1], &lie);
        end_second(sim, 1);
    }
    MUST(sim, verdicts_of(p[0]) == 1);
}

/* A member accuses each of the others in turn, then itself, and is expelled. */
SCENARIO(accuser_of_itself)
{
    begin_group(sim, 3, 4);
    for (uint32_t second = 0; second < 4 * LONG_S && !is_out(p[3]); second++) {
        struct report lie = report_of(sim, 225);
        uint32_t accused = second / LONG_S;
        for (uint32_t k = 0; k < 3; k++)
            add(&lie, p[k], accused == k || accused == 3 ? SLOW_MS : SOUND_MS);
        for (uint32_t i = 0; i < 3; i++)
            tell_truth(sim, i, 4, true);
        tell(sim, p[3], &lie);
        end_second(sim, 3);
        MUST(sim, !is_out(p[3]) || second >= 3 * LONG_S);
    }
    MUST(sim, is_out(p[3]) && sim->master->machine->member_count == 3);
}

/* Two stall and report it: one is expelled, and the other one after a second limit. */
SCENARIO(slow_peers_one_by_one)
{
    uint64_t gone_us = 0;
    begin_group(sim, 6, 6);
    for (uint32_t second = 0; second < 4 * LONG_S && (!is_out(p[0]) || !is_out(p[1])); second++) {
        for (uint32_t i = 0; i < 6; i++) {
            struct report report = report_of(sim, 225);
            report.telemetry.stalled_ms = i < 2 ? 600 : 0;
            if (!is_out(p[i]))
                tell(sim, p[i], &report);
        }
        scenario_run_ms(sim, 1100);
        if (gone_us == 0 && (is_out(p[0]) || is_out(p[1])))
            gone_us = sim->now;
        MUST(sim, !is_out(p[0]) || !is_out(p[1]) || sim->now + 1100000 >= gone_us + LIMIT_S * UINT64_C(1000000));
    }
    MUST(sim, is_out(p[0]) && is_out(p[1]) && sim->master->machine->member_count == 4);
    scenario_commit_all(sim, &p[2], 4, 1, 1);
}
