/*
 * Reduces latency by local search. A step swaps two neighboring parts of the ring, which needs no link in the opposite
 * direction. When no step improves the ring, exchanges that use only permitted links (solve_cover.c) vary it, and the
 * search continues from there. A variation that leads to a worse ring is undone.
 */
#include "topology/internal.h"

#include <string.h>

#define BANNED PCCL_TOUR_BANNED
#define BANNED_COST PCCL_TOUR_BANNED_COST
static int64_t cost(const struct pccl_tour *tour, uint32_t from, uint32_t to)
{
    uint32_t known = tour->costs[(size_t)from * tour->count + to];
    return known == BANNED ? BANNED_COST : (int64_t)known;
}

static uint32_t wrap(const struct pccl_tour *tour, uint32_t place)
{
    return place >= tour->count ? place - tour->count : place;
}
static uint32_t at(const struct pccl_tour *tour, uint32_t place) { return tour->order[wrap(tour, place)]; }
static uint32_t after(const struct pccl_tour *tour, uint32_t member) { return at(tour, tour->place[member] + 1); }
static uint32_t before(const struct pccl_tour *tour, uint32_t member)
{
    return at(tour, tour->place[member] + tour->count - 1);
}
/* Returns the distance from `from` to `to` in the ring. */
static uint32_t distance(const struct pccl_tour *tour, uint32_t from, uint32_t to)
{
    return wrap(tour, tour->place[to] + tour->count - tour->place[from]);
}

uint64_t pccl_tour_bound(const struct pccl_tour *tour)
{
    uint64_t sum_out = 0, sum_in = 0;
    for (uint32_t m = 0; m < tour->count; m++) {
        int64_t out = BANNED_COST, in = BANNED_COST;
        for (uint32_t other = 0; other < tour->count; other++) {
            int64_t there = cost(tour, m, other), back = cost(tour, other, m);
            out = there < out ? there : out;
            in = back < in ? back : in;
        }
        sum_out += (uint64_t)out;
        sum_in += (uint64_t)in;
    }
    return pccl_max_u64(sum_out, sum_in);
}

/* ---- changes of the ring ---- */

static void put(struct pccl_tour *tour, uint32_t place, uint32_t member)
{
    place = wrap(tour, place);
    tour->order[place] = member;
    tour->place[member] = place;
}

/* Swaps the part of `first` members that begins at `place` with the following part of `second` members. */
static void swap_parts(struct pccl_tour *tour, uint32_t place, uint32_t first, uint32_t second)
{
    uint32_t both = first + second;
    for (uint32_t i = 0; i < both; i++)
        tour->moved[i] = at(tour, place + i);
    for (uint32_t i = 0; i < both; i++)
        put(tour, place + i, tour->moved[i < second ? first + i : i - second]);
    (void)pccl_solve_spend(tour->work, both);
}

/*
 * Swaps two of the three parts of the ring. Swapping any two gives the same ring, so the two shorter ones are swapped.
 */
static void exchange(struct pccl_tour *tour, uint32_t place, uint32_t first, uint32_t second, int64_t gain)
{
    uint32_t third = tour->count - first - second;
    if (first > second && first > third) {
        place += first;
        first = second;
        second = third;
    } else if (second > third) {
        place += first + second;
        second = first;
        first = third;
    }
    place %= tour->count;
    swap_parts(tour, place, first, second);
    tour->cost -= gain;
}

static void enqueue(struct pccl_tour *tour, uint32_t member)
{
    if (tour->queued[member] != 0)
        return;
    tour->queued[member] = 1;
    tour->queue[wrap(tour, tour->queue_first + tour->queue_count++)] = member;
}

/* ---- improvements ---- */

/*
 * Replaces the links a to a_next, b to b_next, c to c_next (in this order in the ring) by a to b_next, b to c_next, c
 * to a_next. a, b and the gain of the first exchange are given; searches for c.
 */
static bool improve_by_exchange(struct pccl_tour *tour, uint32_t a, uint32_t a_next, uint32_t b, uint32_t b_next,
                                int64_t gain)
{
    const uint32_t *near = tour->near + (size_t)b * PCCL_TOUR_NEAR;
    uint32_t length = distance(tour, a_next, b_next), i = 0;
    bool found = false;
    for (; !found && i < tour->near_count[b] && gain > cost(tour, b, near[i]); i++) {
        uint32_t c_next = near[i], both = distance(tour, a_next, c_next), c = before(tour, c_next);
        int64_t left = gain - cost(tour, b, c_next) + cost(tour, c, c_next) - cost(tour, c, a_next);
        if (both <= length || left <= 0)
            continue;
        exchange(tour, tour->place[a_next], length, both - length, left);
        const uint32_t ends[] = {a, b, c, a_next, b_next, c_next};
        for (size_t k = 0; k < PCCL_COUNT_OF(ends); k++)
            enqueue(tour, ends[k]);
        found = true;
    }
    (void)pccl_solve_spend(tour->work, 2 * (uint64_t)i);
    return found;
}

static bool improve_at(struct pccl_tour *tour, uint32_t a)
{
    const uint32_t *near = tour->near + (size_t)a * PCCL_TOUR_NEAR;
    uint32_t a_next = after(tour, a);
    int64_t gone = cost(tour, a, a_next);
    for (uint32_t i = 0; i < tour->near_count[a] && gone > cost(tour, a, near[i]); i++) {
        uint32_t b_next = near[i], b = before(tour, b_next);
        (void)pccl_solve_spend(tour->work, 4);
        if (improve_by_exchange(tour, a, a_next, b, b_next, gone - cost(tour, a, b_next) + cost(tour, b, b_next)))
            return true;
    }
    return false;
}

/* Improves the ring until the queue is empty. */
static void improve_all(struct pccl_tour *tour)
{
    while (tour->queue_count > 0 && pccl_solve_spend(tour->work, 1)) {
        uint32_t member = tour->queue[tour->queue_first];
        tour->queue_first = wrap(tour, tour->queue_first + 1);
        tour->queue_count--;
        tour->queued[member] = 0;
        if (improve_at(tour, member))
            enqueue(tour, member);
    }
}

/* ---- initial rings and variations ---- */

static void take_costs(struct pccl_tour *tour, uint64_t least)
{
    size_t links = (size_t)tour->count * tour->count;
    for (size_t link = 0; link < links; link++) {
        uint32_t rtt_us = tour->problem->rtts_us[link];
        bool taken = link / tour->count != link % tour->count && tour->problem->rates[link] >= least;
        tour->costs[link] = !taken ? BANNED : rtt_us == UINT32_MAX ? UINT32_MAX - 1 : rtt_us;
    }
    (void)pccl_solve_spend(tour->work, links);
}

static void find_near(struct pccl_tour *tour)
{
    uint32_t count = tour->count;
    for (uint32_t from = 0; from < count; from++) {
        uint32_t *near = tour->near + (size_t)from * PCCL_TOUR_NEAR, known = 0;
        for (uint32_t k = 1; k < count; k++) {
            uint32_t to = wrap(tour, from + k), i = known;
            int64_t here = cost(tour, from, to);
            if (here == BANNED_COST || (known == PCCL_TOUR_NEAR && here >= cost(tour, from, near[known - 1])))
                continue;
            if (known < PCCL_TOUR_NEAR)
                known++;
            else
                i--;
            for (; i > 0 && cost(tour, from, near[i - 1]) > here; i--)
                near[i] = near[i - 1];
            near[i] = to;
        }
        tour->near_count[from] = (uint8_t)known;
    }
    (void)pccl_solve_spend(tour->work, (uint64_t)count * count);
}

static void put_all(struct pccl_tour *tour, const uint32_t *ring)
{
    tour->cost = 0;
    for (uint32_t place = 0; place < tour->count; place++) {
        put(tour, place, ring[place]);
        tour->cost += cost(tour, ring[place], ring[wrap(tour, place + 1)]);
    }
    (void)pccl_solve_spend(tour->work, tour->count);
}

/* Improves a variation of the ring that uses no banned links. Restores the ring if the result is worse. */
static void vary(struct pccl_tour *tour)
{
    int64_t cost_before = tour->cost;
    uint32_t count = tour->count;
    memcpy(tour->varied, tour->order, count * sizeof *tour->varied);
    if (!pccl_cover_vary(tour->cover, tour->varied))
        return;
    for (uint32_t place = 0; place < count; place++) {
        uint32_t from = tour->varied[place], to = tour->varied[wrap(tour, place + 1)];
        if (after(tour, from) != to) {
            enqueue(tour, from);
            enqueue(tour, to);
        }
    }
    for (uint32_t place = 0; place < count; place++) {
        uint32_t kept = tour->order[place];
        put(tour, place, tour->varied[place]);
        tour->varied[place] = kept;
    }
    put_all(tour, tour->order);
    improve_all(tour);
    if (tour->cost > cost_before)
        put_all(tour, tour->varied);
}

void pccl_tour_begin(struct pccl_tour *tour, uint64_t least)
{
    take_costs(tour, least);
    find_near(tour);
    pccl_cover_begin(tour->cover, least);
}

void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring)
{
    put_all(tour, ring);
    for (uint32_t place = 0; place < tour->count; place++)
        enqueue(tour, ring[place]);
    improve_all(tour);
    while ((uint64_t)tour->cost > bound && pccl_solve_spend(tour->work, 1))
        vary(tour);
    memcpy(ring, tour->order, tour->count * sizeof *ring);
}
