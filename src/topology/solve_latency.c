/*
 * Reduces latency by local search. Two neighboring parts of the ring are swapped, which needs no
 * link in the opposite direction; or one part is reversed, which helps where round trips are the
 * same in both directions. When no such change improves the ring, three short neighboring parts are
 * put in the opposite order (or, if few links may be used, the ring is varied by exchanges that
 * keep to them), and the search goes on from there; that is undone if the ring has become worse.
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
/* How many places `to` is behind `from` in the ring. */
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

/* Swaps the part of `first` members from `place` on with the part of `second` members behind it. */
static void swap_parts(struct pccl_tour *tour, uint32_t place, uint32_t first, uint32_t second)
{
    uint32_t both = first + second;
    for (uint32_t i = 0; i < both; i++)
        tour->moved[i] = at(tour, place + i);
    for (uint32_t i = 0; i < both; i++)
        put(tour, place + i, tour->moved[i < second ? first + i : i - second]);
    (void)pccl_solve_spend(tour->work, both);
}

static void turn_part(struct pccl_tour *tour, uint32_t place, uint32_t length)
{
    for (uint32_t i = 0; i < length / 2; i++) {
        uint32_t a = at(tour, place + i), b = at(tour, place + length - 1 - i);
        put(tour, place + i, b);
        put(tour, place + length - 1 - i, a);
    }
    (void)pccl_solve_spend(tour->work, length);
}

/*
 * Records a change so that it can be undone. second 0: a part was reversed. gain: the cost saved.
 */
static void note(struct pccl_tour *tour, uint32_t place, uint32_t first, uint32_t second, int64_t gain)
{
    PCCL_ASSERT(tour->change_count < PCCL_TOUR_CHANGES);
    tour->changes[tour->change_count++] = (struct pccl_tour_change){place, first, second};
    tour->cost -= gain;
}

static void undo_all(struct pccl_tour *tour)
{
    while (tour->change_count > 0) {
        const struct pccl_tour_change *change = &tour->changes[--tour->change_count];
        if (change->second == 0)
            turn_part(tour, change->place, change->first);
        else
            swap_parts(tour, change->place, change->second, change->first);
    }
}

/*
 * The ring is cut into three parts. Swapping any two gives the same ring, so the two shorter ones
 * are swapped.
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
    note(tour, place, first, second, gain);
}

static void look_at(struct pccl_tour *tour, uint32_t member)
{
    if (tour->queued[member] != 0)
        return;
    tour->queued[member] = 1;
    tour->queue[wrap(tour, tour->queue_first + tour->queue_count++)] = member;
}

/* ---- improvements ---- */

static bool is_near(const struct pccl_tour *tour, uint32_t from, uint32_t to)
{
    uint32_t near_count = tour->near_count[from];
    return near_count > 0 &&
           cost(tour, from, to) <= cost(tour, from, tour->near[(size_t)from * PCCL_TOUR_NEAR + near_count - 1]);
}

/*
 * Finds members that the ring enters by a link that is not near: the entrances to groups of near
 * members. Such a link can be exchanged only for another one of its kind. If there are many, takes
 * some of them.
 */
static void find_far(struct pccl_tour *tour)
{
    uint32_t seen = 0;
    tour->far_count = 0;
    for (uint32_t place = 0; place < tour->count; place++) {
        uint32_t from = tour->order[place], to = at(tour, place + 1);
        if (is_near(tour, from, to))
            continue;
        seen++;
        if (tour->far_count < PCCL_TOUR_FAR_MOST)
            tour->far[tour->far_count++] = to;
        else if (pccl_prng_below(tour->prng, seen) < PCCL_TOUR_FAR_MOST)
            tour->far[pccl_prng_below(tour->prng, PCCL_TOUR_FAR_MOST)] = to;
    }
    (void)pccl_solve_spend(tour->work, tour->count);
}

/* The i-th successor to try, near ones first, by rising cost; NOBODY: there is no more. */
static uint32_t successor(const struct pccl_tour *tour, uint32_t from, uint32_t i, bool far)
{
    uint32_t near_count = tour->near_count[from];
    if (i < near_count)
        return tour->near[(size_t)from * PCCL_TOUR_NEAR + i];
    i -= near_count;
    return far && i < tour->far_count ? tour->far[i] : PCCL_SOLVE_NOBODY;
}

/*
 * Reverses the part from a to b if that makes the ring cheaper. `gain` is what the links into and
 * out of it save; those within are counted here.
 */
static bool try_turn(struct pccl_tour *tour, uint32_t a, uint32_t b, int64_t gain)
{
    uint32_t place = tour->place[a], length = distance(tour, a, b) + 1, i = 0;
    for (; i + 1 < length && gain > 0; i++) {
        uint32_t x = at(tour, place + i), y = at(tour, place + i + 1);
        gain += cost(tour, x, y) - cost(tour, y, x);
    }
    (void)pccl_solve_spend(tour->work, 2 * (uint64_t)i);
    if (gain <= 0)
        return false;
    turn_part(tour, place, length);
    note(tour, place, length, 0, gain);
    return true;
}

/* Takes the link a to b instead of a to a_next, and reverses the part in between. */
static bool improve_by_turn(struct pccl_tour *tour, uint32_t a, uint32_t a_next, uint32_t b)
{
    uint32_t b_next = after(tour, b);
    if (b_next == a || b == a_next)
        return false;
    int64_t gone = cost(tour, a, a_next) + cost(tour, b, b_next);
    bool is_short = distance(tour, a_next, b) < tour->count / 2;
    int64_t come =
        is_short ? cost(tour, a, b) + cost(tour, a_next, b_next) : cost(tour, b, a) + cost(tour, b_next, a_next);
    if (gone <= come || !try_turn(tour, is_short ? a_next : b_next, is_short ? b : a, gone - come))
        return false;
    look_at(tour, a);
    look_at(tour, a_next);
    look_at(tour, b);
    look_at(tour, b_next);
    return true;
}

/*
 * The links a to a_next, b to b_next, c to c_next (in this order in the ring) become a to b_next, b
 * to c_next, c to a_next. Given a, b and what the first exchange gains, looks for c.
 */
static bool improve_by_exchange(struct pccl_tour *tour, uint32_t a, uint32_t a_next, uint32_t b, uint32_t b_next,
                                int64_t gain)
{
    uint32_t length = distance(tour, a_next, b_next), c_next, i = 0;
    bool far = !is_near(tour, b, b_next), found = false;
    for (; !found && (c_next = successor(tour, b, i, far)) != PCCL_SOLVE_NOBODY; i++) {
        int64_t left = gain - cost(tour, b, c_next);
        if (left <= 0) {
            if (!far)
                break;
            continue;
        }
        uint32_t both = distance(tour, a_next, c_next);
        if (both <= length)
            continue;
        uint32_t c = before(tour, c_next);
        left += cost(tour, c, c_next) - cost(tour, c, a_next);
        if (left <= 0)
            continue;
        exchange(tour, tour->place[a_next], length, both - length, left);
        const uint32_t ends[] = {a, b, c, a_next, b_next, c_next};
        for (size_t k = 0; k < PCCL_COUNT_OF(ends); k++)
            look_at(tour, ends[k]);
        found = true;
    }
    (void)pccl_solve_spend(tour->work, 2 * (uint64_t)i);
    return found;
}

static bool improve_at(struct pccl_tour *tour, uint32_t a)
{
    uint32_t a_next = after(tour, a), b_next;
    int64_t gone = cost(tour, a, a_next);
    bool far = !is_near(tour, a, a_next);
    for (uint32_t i = 0; (b_next = successor(tour, a, i, far)) != PCCL_SOLVE_NOBODY; i++) {
        int64_t gain = gone - cost(tour, a, b_next);
        (void)pccl_solve_spend(tour->work, 4);
        if (gain <= 0 && !far)
            break;
        if (gain <= 0 || b_next == a_next || b_next == a)
            continue;
        uint32_t b = before(tour, b_next);
        if (improve_by_exchange(tour, a, a_next, b, b_next, gain + cost(tour, b, b_next)) ||
            improve_by_turn(tour, a, a_next, b_next))
            return true;
    }
    return false;
}

/*
 * Improves until nothing is left to look at, or until no more changes could be recorded for
 * undoing.
 */
static void improve_all(struct pccl_tour *tour)
{
    while (tour->queue_count > 0 && tour->change_count < PCCL_TOUR_CHANGES && pccl_solve_spend(tour->work, 1)) {
        uint32_t member = tour->queue[tour->queue_first];
        tour->queue_first = wrap(tour, tour->queue_first + 1);
        tour->queue_count--;
        tour->queued[member] = 0;
        if (improve_at(tour, member))
            look_at(tour, member);
    }
}

/* ---- initial rings and disturbances ---- */

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

/*
 * Puts three neighboring parts B C D in the order D C B at a random place. false: that would use
 * banned links.
 */
static bool disturb(struct pccl_tour *tour)
{
    enum { PART_MOST = 30, TRIES = 8 };
    uint32_t most = (tour->count - 1) / 3, place = 0, length[4], ends[8];
    most = most < PART_MOST ? most : PART_MOST;
    int64_t more = 0;
    for (int tries = 0; tries < TRIES && (tries == 0 || more >= BANNED_COST / 2); tries++) {
        place = (uint32_t)pccl_prng_below(tour->prng, tour->count);
        for (uint32_t i = 0, end = place; i < 4; i++) {
            ends[2 * i] = at(tour, end + tour->count - 1);
            ends[2 * i + 1] = at(tour, end);
            length[i] = 1 + (uint32_t)pccl_prng_below(tour->prng, most);
            end = wrap(tour, end + length[i]);
        }
        more = cost(tour, ends[0], ends[5]) + cost(tour, ends[6], ends[3]) + cost(tour, ends[4], ends[1]) +
               cost(tour, ends[2], ends[7]);
        for (size_t k = 0; k < PCCL_COUNT_OF(ends); k += 2)
            more -= cost(tour, ends[k], ends[k + 1]);
        (void)pccl_solve_spend(tour->work, 8);
    }
    if (more >= BANNED_COST / 2) /* the links that are removed cost far less */
        return false;
    exchange(tour, place, length[0], length[1] + length[2], -more);
    exchange(tour, tour->place[ends[3]], length[1], length[2], 0);
    for (size_t k = 0; k < PCCL_COUNT_OF(ends); k++)
        look_at(tour, ends[k]);
    return true;
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

/*
 * Continues from a variation of the ring without banned links; goes back if that leads to no ring
 * as good.
 */
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
            look_at(tour, from);
            look_at(tour, to);
        }
    }
    for (uint32_t place = 0; place < count; place++) {
        uint32_t kept = tour->order[place];
        put(tour, place, tour->varied[place]);
        tour->varied[place] = kept;
    }
    put_all(tour, tour->order);
    tour->change_count = 0;
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
    enum { FAR_EVERY = 64, VARY_EVERY = 8 };
    put_all(tour, ring);
    for (uint32_t place = 0; place < tour->count; place++)
        look_at(tour, ring[place]);
    find_far(tour);
    while (tour->queue_count > 0 && pccl_solve_spend(tour->work, 1)) {
        tour->change_count = 0;
        improve_all(tour);
    }
    for (uint32_t round = 1; (uint64_t)tour->cost > bound && pccl_solve_spend(tour->work, 1); round++) {
        if (round % FAR_EVERY == 0)
            find_far(tour);
        int64_t cost_before = tour->cost;
        tour->change_count = 0;
        if (round % VARY_EVERY == 0 || !disturb(tour)) {
            vary(tour);
            continue;
        }
        improve_all(tour);
        if (tour->cost > cost_before) {
            undo_all(tour);
            tour->cost = cost_before;
        }
    }
    memcpy(ring, tour->order, tour->count * sizeof *ring);
}
