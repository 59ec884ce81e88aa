/*
 * A link of the ring becomes slow (PROTOCOL 9.12): the ring leaves it at the next quiet round, which members are asked
 * for, and does not go to and fro.
 */
#include "scenarios.h"
#include "scenario_topology.h"
#include "peer/queries.h"

enum { SOUND_US = 30000, SLOW_US = 100000, MIB = 8 }; /* busy for each MiB, of as many as go over each link a second */

static uint64_t pace_us[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* by hosts */

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

/* A second of operations around the ring, as all report it. */
static void work(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_peer *to = next_of(sim, p[i]);
        struct pccl_seen_link link = {.peer = to->id,
                                      .bytes = MIB << 20,
                                      .busy_us = (uint32_t)(MIB * *pace_of(p[i], to)),
                                      .rtt_us = 1000,
                                      .lately_us = 1500};
        struct pccl_msg_sight sight = {.window_ms = 1000,
                                       .operations = 4,
                                       .took_us = 900000,
                                       .took_squares = UINT64_C(4) * 2250 * 2250,
                                       .links = &link,
                                       .links_count = 1};
        (void)sim_peer_step(sim, p[i], &(struct pccl_peer_event){.kind = PCCL_PEER_SIGHT, .sight = &sight});
    }
    scenario_run_ms(sim, 1100);
}

/* What all callers do before each step: they update the topology if the answer says so. */
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
    const struct pccl_peer_verdict *verdict = pccl_peer_verdicts(peer->machine, &told);
    return told > 0 ? verdict->action.bytes : "";
}

static void become_slow(struct sim *sim, uint32_t count)
{
    begin(sim, count);
    links_are_sound();
    work(sim, count);
    *pace_of(p[0], p[1]) = SLOW_US;
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, count); i++)
        work(sim, count);
    work(sim, count);
    MUST(sim, strstr(what_is_done(p[0]), "the next topology update takes a ring without it") != NULL);
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

/* Nobody optimizes, and no operation fails. The ring of three goes the other way round. */
void scenario_slow_link_is_left(struct sim *sim)
{
    become_slow(sim, 3);
    is_left(sim, 3);
}

/* What holds nothing any more is undone: the link is sound again before anybody updates. */
void scenario_slow_link_mends(struct sim *sim)
{
    become_slow(sim, 4);
    *pace_of(p[0], p[1]) = SOUND_US;
    for (uint32_t i = 0; i < 8 && what_is_done(p[0])[0] != '\0'; i++)
        work(sim, 4);
    MUST(sim, !is_asked_for(sim, 4));
    scenario_update_all(sim, p, 4);
    MUST(sim, uses(sim, p[0], p[1]));
}

/* Somebody dies when the better ring is known: it is void, and the next one is found. */
void scenario_slow_link_and_death(struct sim *sim)
{
    become_slow(sim, 5);
    sim_peer_kill(sim, p[3], false);
    WAIT(sim, 2000, sim->master->machine->member_count == 4);
    p[3] = p[4];
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 4); i++)
        work(sim, 4);
    is_left(sim, 4);
}

/* The master restarts then: it knows of nothing, and finds it anew. */
void scenario_slow_link_and_restart(struct sim *sim)
{
    become_slow(sim, 4);
    scenario_restart_master(sim, 100);
    WAIT(sim, 15000, what_is_done(p[0])[0] == '\0');
    scenario_commit_all(sim, p, 4, 1, 1);
    for (uint32_t i = 0; i < 8 && !is_asked_for(sim, 4); i++)
        work(sim, 4);
    is_left(sim, 4);
}

/* Many links are slow, each more or less: the ring tries few of them, and then stays. */
void scenario_slow_links_everywhere(struct sim *sim)
{
    begin(sim, 6);
    for (uint32_t i = 0; i < SIM_HOSTS_MAX; i++)
        for (uint32_t k = 0; k < SIM_HOSTS_MAX; k++)
            pace_us[i][k] = (i + 2 * k) % 3 == 0 ? SLOW_US + 1000 * i + 300 * k : SOUND_US;
    uint32_t changes = 0, version = sim->master->machine->groups[0]->ring_version, lately = 0;
    for (uint32_t i = 0; i < 120; i++) {
        work(sim, 6);
        if (is_asked_for(sim, 6))
            scenario_update_all(sim, p, 6);
        bool changed = sim->master->machine->groups[0]->ring_version != version;
        version = sim->master->machine->groups[0]->ring_version;
        changes += changed;
        lately += changed && i >= 60;
    }
    MUST(sim, changes > 0 && changes <= 12 && lately == 0);
}
