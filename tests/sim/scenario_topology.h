/* Tools for scenarios of the topology: rings, paths and votes, and groups too large for a mesh. */
#ifndef SIM_SCENARIO_TOPOLOGY_H
#define SIM_SCENARIO_TOPOLOGY_H

#include "scenario.h"

#include <string.h>

enum { MANY = PCCL_MESH_PEERS_MAX + 2, RATE = 100000000, SLOW = 1000000 };
static struct sim_peer *p[MANY]; /* peers of the running scenario; each file has its own */

/* ---- rings and paths ---- */

static inline void slow_pair(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    sim_path_set(sim, a, b, SLOW);
    sim_path_set(sim, b, a, SLOW);
}

static inline struct sim_peer *next_of(struct sim *sim, const struct sim_peer *peer)
{
    uint32_t i = 0;
    const struct pccl_id *ring = peer->machine->group.ring;
    while (!pccl_id_equal(&ring[i], &peer->id))
        i++;
    return sim_peer_find(sim, &ring[(i + 1) % peer->machine->group.count]);
}

static inline bool uses(struct sim *sim, const struct sim_peer *from, const struct sim_peer *to)
{
    return next_of(sim, from) == to;
}

static inline bool uses_pair(struct sim *sim, const struct sim_peer *a, const struct sim_peer *b)
{
    return uses(sim, a, b) || uses(sim, b, a);
}

/* Checks that all have the same ring, of `count` members. */
static inline void must_agree(struct sim *sim, uint32_t count)
{
    const struct pccl_id *first = p[0]->machine->group.ring;
    MUST(sim, p[0]->machine->group.count == count);
    for (uint32_t i = 1; i < count; i++) {
        const struct pccl_id *other = p[i]->machine->group.ring;
        MUST(sim, p[i]->machine->group.count == count && memcmp(first, other, count * sizeof *first) == 0);
        MUST(sim, pccl_peer_joint(p[i]->machine) == pccl_peer_joint(p[0]->machine));
    }
}

static inline struct sim_peer *at(struct sim *sim, uint32_t place)
{
    const struct pccl_id *ring = p[0]->machine->group.ring;
    return sim_peer_find(sim, &ring[place]);
}

/* Sorts p in ring order. */
static inline void sort(struct sim *sim, uint32_t count)
{
    struct sim_peer *sorted[MANY];
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = at(sim, i);
    memcpy(p, sorted, count * sizeof *sorted);
}

static inline void begin(struct sim *sim, uint32_t count)
{
    scenario_cluster(sim, p, count, 1);
    sort(sim, count);
}

/* The ring of p0 p1 p2 p3 has two slow pairs; p0 p2 p1 p3 has none. */
static inline void begin_four(struct sim *sim)
{
    begin(sim, 4);
    slow_pair(sim, p[0], p[1]);
    slow_pair(sim, p[2], p[3]);
}

static inline void must_be_best(struct sim *sim)
{
    must_agree(sim, 4);
    MUST(sim, !uses_pair(sim, p[0], p[1]) && !uses_pair(sim, p[2], p[3]));
    MUST(sim, p[0]->machine->group.cost.rate == RATE);
    scenario_commit_all(sim, p, 4, 1, 1);
    MUST(sim, scenario_departures(sim) == 0);
}

static inline const struct pccl_peer_group *group_of(const struct sim *sim) { return sim->master->machine->groups[0]; }

static inline uint32_t tests_running(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->master->machine->remote_count; i++)
        count += sim->master->machine->remotes[i]->test.running;
    return count;
}

static inline bool are_linking(const struct sim *sim) { return group_of(sim)->tuning.phase == PCCL_TUNING_LINKS; }

static inline void vote_all(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        scenario_optimize(sim, p[i]);
}

static inline void vote_and_test(struct sim *sim, uint32_t count)
{
    vote_all(sim, count);
    WAIT(sim, 100, tests_running(sim) > 0);
}

static inline void vote_and_search(struct sim *sim, uint32_t count)
{
    sim->searches_by_hand = true;
    vote_all(sim, count);
    WAIT(sim, 9000, sim_search_is_open(sim));
}

/* ---- more members than make a mesh: a link of a ring may have to be opened first ---- */

static inline void report_rate(struct sim *sim, struct sim_peer *from, uint64_t rate)
{
    sim_peer_measured(sim, from, &next_of(sim, from)->id, 1000, rate);
}

static inline void begin_many(struct sim *sim)
{
    scenario_cluster(sim, p, PCCL_MESH_PEERS_MAX, 1);
    for (uint32_t i = PCCL_MESH_PEERS_MAX; i < MANY; i++) {
        p[i] = scenario_join(sim, 1 + i, 0);
        scenario_run_ms(sim, 200);
        scenario_update_all(sim, p, i);
        WAIT(sim, 1000, scenario_is_over(p[i], PCCL_CALL_CONNECT));
    }
    scenario_run_ms(sim, 100);
    for (uint32_t i = 0; i < 3; i++)
        scenario_optimize_all(sim, p, MANY, PCCL_OK); /* one does not get through all pairs */
    scenario_run_ms(sim, 100);
    MUST(sim, !sim_search_is_open(sim));
    sort(sim, MANY);
    sim->totals.adoptions = 0;
    sim_path_set(sim, p[1], p[2], SLOW);
    for (uint32_t i = 0; i < MANY; i++)
        report_rate(sim, p[i], i == 1 ? SLOW : RATE);
}

/* Answers with the member at `place` behind p1: ... 0 1 place 2 3 ... */
static inline void answer_behind_1(struct sim *sim, uint32_t place)
{
    uint32_t ring[MANY], count = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (i != place)
            ring[count++] = i;
        if (i == 1)
            ring[count++] = place;
    }
    sim_search_answer(sim, ring, true);
}

#endif
