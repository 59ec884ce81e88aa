/*
 * Searches for the best ring of a group that has too many rings to try all of them. First finds the greatest rate at
 * which the search finds a ring, from the upper bound down; then reduces latency with links of at least that rate.
 */
#include "topology/internal.h"

/* Memory shared by the two searches: one block, proportional to count * count. */
struct local {
    struct pccl_cover cover;
    struct pccl_tour tour;
    struct pccl_assign assign;
    uint32_t *ring; /* last ring found */
    size_t bytes;
    unsigned char *block;
};

/* Returns a part of the block. If `block` is NULL, only adds up the size. */
static void *part(unsigned char *block, size_t *used, size_t count, size_t item_bytes)
{
    size_t start = *used;
    *used += (count * item_bytes + 15) / 16 * 16;
    return block == NULL ? NULL : block + start;
}

static void lay_out(struct local *local, uint32_t count, unsigned char *block)
{
    struct pccl_cover *cover = &local->cover;
    struct pccl_tour *tour = &local->tour;
    size_t *used = &local->bytes, row = cover->words;
    *used = 0;
    cover->out = part(block, used, count * row, sizeof *cover->out);
    cover->in = part(block, used, count * row, sizeof *cover->in);
    cover->unseen = part(block, used, row, sizeof *cover->unseen);
    uint32_t **arrays[] = {&cover->next, &cover->before, &cover->queue, &cover->from, &cover->cycle, &cover->sizes,
                           &tour->order, &tour->place,   &tour->moved,  &tour->queue, &tour->varied, &local->ring};
    for (size_t i = 0; i < PCCL_COUNT_OF(arrays); i++)
        *arrays[i] = part(block, used, count, sizeof **arrays[i]);
    local->assign.prices = part(block, used, count, sizeof *local->assign.prices);
    local->assign.reached = part(block, used, count, sizeof *local->assign.reached);
    cover->changed = part(block, used, 2 * (size_t)count, sizeof *cover->changed);
    tour->costs = part(block, used, (size_t)count * count, sizeof *tour->costs);
    local->assign.costs = tour->costs;
    tour->near = part(block, used, (size_t)count * PCCL_TOUR_NEAR, sizeof *tour->near);
    tour->near_count = part(block, used, count, sizeof *tour->near_count);
    tour->queued = part(block, used, count, sizeof *tour->queued);
}

/* Stores the found ring if it is better than the best one so far. */
static void keep(const struct pccl_ring_problem *problem, const uint32_t *found, uint32_t *ring,
                 struct pccl_ring_worth *best)
{
    struct pccl_ring_worth worth = pccl_ring_worth(problem, found);
    if (pccl_ring_worth_compare(&worth, best) <= 0)
        return;
    *best = worth;
    for (uint32_t i = 0; i < problem->count; i++)
        ring[i] = found[i];
}

/*
 * Searches for a ring whose slowest link is as fast as the bound allows, then for slower ones by bisection between the
 * rates at which a ring was and was not found. Each search may use part of the steps, and all together may use half of
 * them; the rest is for reducing the latency.
 */
static void find_rate(struct local *local, uint64_t bound, uint32_t *ring, struct pccl_ring_worth *best)
{
    struct pccl_cover *cover = &local->cover;
    struct pccl_solve_work *work = cover->work;
    uint64_t limit = work->limit, rate = bound, high = bound;
    while (rate > 0 && (best->exists ? best->slowest : 0) < rate && work->used < limit / 2 && !work->stopped) {
        work->limit = work->used + (limit / 2 - work->used) / 4 + 1;
        if (pccl_cover_find_ring(cover, rate, local->ring))
            keep(cover->problem, local->ring, ring, best);
        else
            high = rate;
        rate = pccl_cover_rate_between(cover, best->exists ? best->slowest : 0, high);
    }
    work->limit = limit;
}

/*
 * Reduces latency with the links that are at least as fast as the best ring's slowest link. Begins with that ring, or
 * with a ring made of the cheapest cycles. Returns a lower bound on the latency of rings of these links.
 */
static uint64_t find_latency(struct local *local, uint32_t *ring, struct pccl_ring_worth *best)
{
    const struct pccl_ring_problem *problem = local->cover.problem;
    struct pccl_solve_work *work = local->cover.work;
    pccl_tour_begin(&local->tour, best->slowest);
    uint64_t bound = pccl_tour_bound(&local->tour), cheapest = 0, limit = work->limit;
    if (best->latency_us > bound && work->used < limit) {
        work->limit = work->used + (limit - work->used) / 2;
        if (pccl_assign(&local->assign, &local->cover, &cheapest)) {
            bound = pccl_max_u64(bound, cheapest);
            if (pccl_cover_join(&local->cover, &local->assign, local->ring))
                keep(problem, local->ring, ring, best);
        }
        work->limit = limit;
    }
    for (uint32_t i = 0; i < problem->count; i++)
        local->ring[i] = ring[i];
    pccl_tour_improve(&local->tour, bound, local->ring);
    keep(problem, local->ring, ring, best);
    return bound;
}

static void search(struct local *local, uint32_t *ring, bool *exists, bool *proven)
{
    const struct pccl_ring_problem *problem = local->cover.problem;
    struct pccl_solve_work *work = local->cover.work;
    struct pccl_ring_worth best = {0};
    if (*exists)
        best = pccl_ring_worth(problem, ring);
    *proven = false;
    uint64_t bound = pccl_cover_bound(&local->cover);
    work->used = work->question_at = 0;
    if (work->stopped)
        return;
    find_rate(local, bound, ring, &best);
    *exists = best.exists;
    *proven = bound == 0;
    if (best.exists && !work->stopped) {
        uint64_t slowest = best.slowest, latency_us = find_latency(local, ring, &best);
        *proven = slowest == bound && best.latency_us == latency_us;
    }
}

enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem, const struct pccl_memory *memory,
                                  struct pccl_solve_work *work, uint32_t *ring, bool *exists, bool *proven)
{
    uint32_t count = problem->count;
    PCCL_ASSERT(count >= 4);
    struct pccl_prng prng;
    pccl_prng_seed(&prng, problem->seed);
    struct local local = {
        .cover = {.problem = problem, .work = work, .prng = &prng, .count = count, .words = (count + 63) / 64},
        .tour = {.problem = problem, .work = work, .prng = &prng, .count = count},
    };
    local.tour.cover = &local.cover;
    local.assign.count = count;
    lay_out(&local, count, NULL);
    local.block = pccl_allocate(memory, local.bytes);
    if (local.block == NULL)
        return PCCL_MEMORY;
    lay_out(&local, count, local.block);
    search(&local, ring, exists, proven);
    pccl_release(memory, local.block, local.bytes);
    return PCCL_OK;
}
