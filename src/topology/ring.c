#include "topology/ring.h"

#include <string.h>

struct search {
    uint32_t *order;
    uint32_t count;
    bool (*bad)(void *context, uint32_t a, uint32_t b);
    void *context;
    uint64_t budget; /* remaining calls of bad() */
};

/* Returns true for a bad pair. Once the budget is used up, treats every pair as bad, so that the searches end. */
static bool is_bad(struct search *search, uint32_t a, uint32_t b)
{
    if (search->budget == 0) {
        return true;
    }
    search->budget--;
    return search->bad(search->context, a, b);
}

static uint32_t after(const struct search *search, uint32_t i) { return i + 1 == search->count ? 0 : i + 1; }

static void reverse(struct search *search, uint32_t first, uint32_t length)
{
    for (uint32_t k = 0; k < length / 2; k++) {
        uint32_t *x = &search->order[(first + k) % search->count];
        uint32_t *y = &search->order[(first + length - 1 - k) % search->count];
        uint32_t swapped = *x;
        *x = *y;
        *y = swapped;
    }
}

/*
 * Replaces the bad pair after place i: cuts the ring there and at a second place, and reverses the part in between.
 * Chooses the first suitable second place, starting `skip` steps further: one that leaves fewer bad pairs or, with
 * `sideways`, the same number. Returns false if none exists.
 */
static bool fix_pair(struct search *search, uint32_t i, uint32_t skip, bool sideways)
{
    uint32_t *order = search->order;
    uint32_t count = search->count, choices = count - 3; /* the second cut is neither at i nor next to it */
    uint32_t a = order[i], b = order[after(search, i)];
    for (uint32_t k = 0; k < choices; k++) {
        uint32_t length = 2 + (skip + k) % choices;
        uint32_t j = (i + length) % count;
        uint32_t c = order[j], d = order[after(search, j)];
        int more = is_bad(search, a, c) + is_bad(search, b, d) - 1; /* the pair a, b is removed */
        if (more >= (sideways ? 1 : 0)) {
            more -= is_bad(search, c, d);
        }
        if (more < (sideways ? 1 : 0) && search->budget > 0) {
            reverse(search, after(search, i), length);
            return true;
        }
    }
    return false;
}

/*
 * Returns the next number of a fixed pseudorandom sequence, so that the same arguments give the same ring on every
 * machine.
 */
static uint32_t next_arbitrary(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/*
 * Fixes bad pairs one by one, so that most of the ring stays unchanged. If that fails, a sideways step leads to another
 * ring with as many bad pairs. Returns true if no bad pair is left.
 */
static bool repair(struct search *search, bool sideways)
{
    uint64_t numbers = 1;
    uint32_t count = search->count;
    while (search->budget > 0) {
        uint32_t bad_count = 0, some = 0;
        bool progress = false;
        for (uint32_t i = 0; i < count; i++) {
            if (!is_bad(search, search->order[i], search->order[after(search, i)])) {
                continue;
            }
            progress = (count > 3 && fix_pair(search, i, 0, false)) || progress;
            if (next_arbitrary(&numbers) % ++bad_count == 0) {
                some = i; /* a random one of the bad pairs */
            }
        }
        if (bad_count == 0) {
            return true;
        }
        if (!progress && (!sideways || !fix_pair(search, some, next_arbitrary(&numbers), true))) {
            return false;
        }
    }
    return false;
}

/*
 * Searches all rings that begin with order[0], depth first. After each node, tries its old successor first. path[d] is
 * the place in `order` of the d-th node; the top bit of path[p] marks place p as taken.
 */
static bool backtrack(struct search *search, uint32_t *path)
{
    const uint32_t taken = UINT32_C(1) << 31, place = ~taken;
    const uint32_t *order = search->order;
    uint32_t count = search->count, depth = 1, tried = 0; /* tried: number of candidates tried at this depth */
    memset(path, 0, count * sizeof *path);
    path[0] = taken;
    while (depth > 0 && depth < count && search->budget > 0) {
        uint32_t before = path[depth - 1] & place;
        bool found = false;
        while (!found && tried + 1 < count) {
            uint32_t candidate = (before + 1 + tried++) % count;
            if ((path[candidate] & taken) == 0 && !is_bad(search, order[before], order[candidate]) &&
                (depth + 1 < count || !is_bad(search, order[candidate], order[0]))) {
                path[depth] = (path[depth] & taken) | candidate;
                path[candidate] |= taken;
                found = true;
            }
        }
        if (found) {
            depth++;
            tried = 0;
        } else if (--depth > 0) {
            uint32_t undone = path[depth] & place, previous = path[depth - 1] & place;
            path[undone] &= place;
            tried = (undone + count - previous - 1) % count + 1;
        }
    }
    if (depth < count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        path[i] = order[path[i] & place];
    }
    memcpy(search->order, path, count * sizeof *path);
    return true;
}

bool pccl_ring_avoiding(uint32_t *order, uint32_t count, bool (*bad)(void *context, uint32_t a, uint32_t b),
                        void *context, uint32_t *scratch)
{
    /* Enough to try all rings of 8 nodes or, with more nodes, to fix dozens of pairs. */
    enum { STEPS = 100000, STEPS_PER_NODE = 64, ALL_TRIED = 8 };
    struct search search = {order, count, bad, context, STEPS + (uint64_t)count * STEPS_PER_NODE};
    if (count < 2) {
        return true;
    }
    memcpy(scratch, order, count * sizeof *order);
    if (repair(&search, count > ALL_TRIED)) {
        return true;
    }
    memcpy(order, scratch, count * sizeof *order);
    search.budget = STEPS;
    return count > 3 && backtrack(&search, scratch);
}
