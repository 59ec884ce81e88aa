/*
 * Finds rings in the graph of the members and the links that are fast enough.
 *
 * A set of cycles that visits every member once is found quickly (a perfect matching of members to successors). If
 * there is no such set, there is no ring. Cycles are then joined: two at a time if two links allow it, otherwise by
 * random exchanges of successors along an alternating path, which change the cycles and leave each member exactly one
 * successor.
 */
#include "topology/internal.h"

#include <string.h>

#define NO_MEMBER PCCL_SOLVE_NO_MEMBER

static uint64_t bit_of(uint32_t member) { return UINT64_C(1) << (member & 63); }
static uint32_t lowest(uint64_t word)
{
#if defined(__GNUC__)
    return (uint32_t)__builtin_ctzll(word);
#else
    uint32_t at = 0;
    for (; (word & 1) == 0; word >>= 1)
        at++;
    return at;
#endif
}
static uint64_t *out_of(const struct pccl_cover *cover, uint32_t member)
{
    return cover->out + (size_t)member * cover->words;
}
static bool leads(const struct pccl_cover *cover, uint32_t from, uint32_t to)
{
    return (out_of(cover, from)[to / 64] & bit_of(to)) != 0;
}

static void take_links(struct pccl_cover *cover, uint64_t least)
{
    uint32_t count = cover->count, words = cover->words;
    memset(cover->out, 0, (size_t)count * words * sizeof *cover->out);
    memset(cover->in, 0, (size_t)count * words * sizeof *cover->in);
    for (uint32_t from = 0; from < count; from++) {
        const uint64_t *rates = cover->problem->rates + (size_t)from * count;
        for (uint32_t to = 0; to < count; to++) {
            if (from != to && rates[to] >= least) {
                cover->out[(size_t)from * words + to / 64] |= bit_of(to);
                cover->in[(size_t)to * words + from / 64] |= bit_of(from);
            }
        }
    }
    (void)pccl_solve_spend(cover->work, (uint64_t)count * count);
}

static void mark_all_unseen(struct pccl_cover *cover)
{
    memset(cover->unseen, 0xff, cover->words * sizeof *cover->unseen);
    if (cover->count % 64 != 0)
        cover->unseen[cover->words - 1] = bit_of(cover->count) - 1;
}

/* ---- checks that rule out a ring ---- */

/* Marks the unseen members that these links reach from `start`, and `start` itself, as seen. Returns their number. */
static uint32_t reach(struct pccl_cover *cover, const uint64_t *rows, uint32_t start, uint32_t wanted)
{
    uint32_t seen = 1, done = 0;
    cover->unseen[start / 64] &= ~bit_of(start);
    cover->queue[0] = start;
    while (done < seen && seen < wanted) {
        const uint64_t *row = rows + (size_t)cover->queue[done++] * cover->words;
        for (uint32_t w = 0; w < cover->words; w++) {
            uint64_t fresh = row[w] & cover->unseen[w];
            cover->unseen[w] &= ~fresh;
            for (; fresh != 0; fresh &= fresh - 1)
                cover->queue[seen++] = w * 64 + lowest(fresh);
        }
    }
    (void)pccl_solve_spend(cover->work, (uint64_t)done * cover->words + cover->words);
    return seen;
}

static bool is_connected(struct pccl_cover *cover)
{
    mark_all_unseen(cover);
    if (reach(cover, cover->out, 0, cover->count) < cover->count)
        return false;
    mark_all_unseen(cover);
    return reach(cover, cover->in, 0, cover->count) == cover->count;
}

/* Returns true if some member reaches all others over these links when `without` is removed. */
static bool has_root(struct pccl_cover *cover, const uint64_t *rows, uint32_t without)
{
    uint32_t wanted = cover->count - 1, seen = 0, root = 0;
    mark_all_unseen(cover);
    cover->unseen[without / 64] &= ~bit_of(without);
    for (uint32_t m = 0; seen < wanted; m++) {
        if ((cover->unseen[m / 64] & bit_of(m)) == 0)
            continue;
        uint32_t here = reach(cover, rows, m, wanted - seen);
        if (here == wanted)
            return true;
        seen += here;
        root = m; /* if there is a root, it is the last member from which a search found new members */
    }
    mark_all_unseen(cover);
    cover->unseen[without / 64] &= ~bit_of(without);
    return reach(cover, rows, root, wanted) == wanted;
}

/*
 * Assigns a successor to `start`, which has none, by an exchange along an alternating path that is searched in random
 * order. The successor is `wanted` or, if that is NO_MEMBER, any member without a predecessor. `wanted` must not be the
 * previous successor of `start`. Returns false, with no change, if there is no such path.
 */
static bool exchange(struct pccl_cover *cover, uint32_t start, uint32_t wanted)
{
    uint32_t words = cover->words, done = 0, seen = 1, end = NO_MEMBER, target = wanted;
    uint64_t random = pccl_prng_u64(cover->prng);
    uint32_t first_word = (uint32_t)((random >> 32) % words), turn = random & 63;
    bool bag = (random >> 6 & 1) != 0; /* take a random waiting member instead of the first */
    mark_all_unseen(cover);
    if (wanted != NO_MEMBER)
        cover->unseen[wanted / 64] &= ~bit_of(wanted);
    cover->queue[0] = start;
    while (end == NO_MEMBER && done < seen) {
        if (bag) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint32_t other = done + (uint32_t)((random >> 33) % (seen - done)), kept = cover->queue[done];
            cover->queue[done] = cover->queue[other];
            cover->queue[other] = kept;
        }
        uint32_t member = cover->queue[done++];
        const uint64_t *row = out_of(cover, member);
        if (wanted != NO_MEMBER && member != start && leads(cover, member, wanted))
            end = member;
        for (uint32_t k = 0, w = first_word; k < words && end == NO_MEMBER; k++, w = w + 1 == words ? 0 : w + 1) {
            uint64_t fresh = row[w] & cover->unseen[w];
            cover->unseen[w] &= ~fresh;
            for (fresh = fresh >> turn | fresh << (-turn & 63); fresh != 0; fresh &= fresh - 1) {
                uint32_t to = w * 64 + ((lowest(fresh) + turn) & 63), owner = cover->before[to];
                if (owner == NO_MEMBER) {
                    end = member;
                    target = to;
                    break;
                }
                cover->from[owner] = member;
                cover->queue[seen++] = owner;
            }
        }
    }
    (void)pccl_solve_spend(cover->work, (uint64_t)done * words + seen);
    if (end == NO_MEMBER)
        return false;
    cover->change_count = 0;
    for (uint32_t member = end;; member = cover->from[member]) {
        uint32_t given_up = cover->next[member];
        cover->changed[2 * cover->change_count] = member;
        cover->changed[2 * cover->change_count++ + 1] = given_up;
        cover->next[member] = target;
        cover->before[target] = member;
        if (member == start)
            return true;
        target = given_up;
    }
}

/* Assigns every member a different successor. Returns false if that is impossible. */
static bool cover_all(struct pccl_cover *cover)
{
    for (uint32_t m = 0; m < cover->count; m++)
        cover->next[m] = cover->before[m] = NO_MEMBER;
    for (uint32_t m = 0; m < cover->count; m++)
        if (!exchange(cover, m, NO_MEMBER))
            return false;
    return true;
}

/*
 * Returns true if the quick checks do not rule out a ring of links of at least this rate. `thorough` also checks that
 * no single member separates the others. A ring without one member is a path, so one end must reach all others, and all
 * must reach the other end.
 */
static bool is_possible(struct pccl_cover *cover, uint64_t least, bool thorough)
{
    take_links(cover, least);
    if (!is_connected(cover) || !cover_all(cover))
        return false;
    for (uint32_t m = 0; thorough && m < cover->count && !cover->work->stopped; m++)
        if (!has_root(cover, cover->out, m) || !has_root(cover, cover->in, m))
            return false;
    return true;
}

uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high)
{
    uint64_t chosen = 0, seen = 0;
    uint32_t count = cover->count;
    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            uint64_t rate = cover->problem->rates[(size_t)from * count + to];
            if (from != to && rate > low && rate < high && pccl_prng_u64(cover->prng) % ++seen == 0)
                chosen = rate;
        }
    }
    (void)pccl_solve_spend(cover->work, (uint64_t)count * count);
    return chosen;
}

/* Returns the greatest rate up to `high` for which is_possible returns true; 0 if none exists. */
static uint64_t possible_rate(struct pccl_cover *cover, uint64_t high, bool thorough)
{
    if (high == 0 || is_possible(cover, high, thorough))
        return high;
    uint64_t low = 0, middle;
    while (!cover->work->stopped && (middle = pccl_cover_rate_between(cover, low, high)) != 0) {
        if (is_possible(cover, middle, thorough))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the minimum, over all members, of the rates of a member's best outgoing and best incoming link. */
static uint64_t rate_of_ends(const struct pccl_ring_problem *problem)
{
    uint64_t least = UINT64_MAX;
    uint32_t count = problem->count;
    for (uint32_t m = 0; m < count; m++) {
        uint64_t out = 0, in = 0;
        for (uint32_t other = 0; other < count; other++) {
            if (other != m) {
                out = pccl_max_u64(out, problem->rates[(size_t)m * count + other]);
                in = pccl_max_u64(in, problem->rates[(size_t)other * count + m]);
            }
        }
        least = pccl_min_u64(least, pccl_min_u64(out, in));
    }
    return least;
}

uint64_t pccl_cover_bound(struct pccl_cover *cover)
{
    return possible_rate(cover, possible_rate(cover, rate_of_ends(cover->problem), false), true);
}

/* ---- joining the cycles ---- */

static void number_cycles(struct pccl_cover *cover)
{
    cover->cycle_count = 0;
    memset(cover->cycle, 0xff, cover->count * sizeof *cover->cycle);
    for (uint32_t m = 0; m < cover->count; m++) {
        if (cover->cycle[m] != NO_MEMBER)
            continue;
        uint32_t size = 0;
        for (uint32_t at = m; cover->cycle[at] == NO_MEMBER; at = cover->next[at], size++)
            cover->cycle[at] = cover->cycle_count;
        cover->sizes[cover->cycle_count++] = size;
    }
    (void)pccl_solve_spend(cover->work, cover->count);
}

/* Joins two cycles: the members of the smaller one get the number of the other. */
static void join(struct pccl_cover *cover, uint32_t a, uint32_t b)
{
    uint32_t gone = cover->cycle[a], kept = cover->cycle[b];
    if (cover->sizes[gone] > cover->sizes[kept]) {
        uint32_t swapped = gone;
        gone = kept;
        kept = swapped;
        a = b;
    }
    cover->sizes[kept] += cover->sizes[gone];
    (void)pccl_solve_spend(cover->work, cover->sizes[gone]);
    for (; cover->cycle[a] == gone; a = cover->next[a])
        cover->cycle[a] = kept;
    cover->sizes[gone] = 0;
    cover->cycle_count--;
}

/* Exchanges the successors of the two members. */
static void join_both(struct pccl_cover *cover, uint32_t a, uint32_t b)
{
    uint32_t a_next = cover->next[a], b_next = cover->next[b];
    join(cover, a, b); /* while they are still separate cycles */
    cover->next[a] = b_next;
    cover->before[b_next] = a;
    cover->next[b] = a_next;
    cover->before[a_next] = b;
}

/* Joins the member's cycle with another one if two links allow it. */
static bool join_at(struct pccl_cover *cover, uint32_t member)
{
    const uint64_t *row = out_of(cover, member);
    uint32_t next = cover->next[member], looked = 0;
    bool joined = false;
    for (uint32_t w = 0; w < cover->words && !joined; w++) {
        for (uint64_t left = row[w]; left != 0 && !joined; left &= left - 1) {
            uint32_t to = w * 64 + lowest(left), other = cover->before[to];
            looked++;
            if (cover->cycle[to] == cover->cycle[member] || !leads(cover, other, next))
                continue;
            joined = true;
            join_both(cover, member, other);
        }
    }
    (void)pccl_solve_spend(cover->work, cover->words + looked);
    return joined;
}

static void join_where_possible(struct pccl_cover *cover)
{
    uint32_t start = (uint32_t)pccl_prng_below(cover->prng, cover->count), largest = 0;
    for (uint32_t c = 0; c < cover->cycle_count; c++)
        if (cover->sizes[c] > cover->sizes[largest])
            largest = c;
    for (uint32_t i = 0; i < cover->count && cover->cycle_count > 1; i++) {
        uint32_t member = (start + i) % cover->count;
        if (cover->cycle[member] != largest)
            while (cover->cycle_count > 1 && join_at(cover, member))
                ;
    }
}

static void undo(struct pccl_cover *cover)
{
    for (uint32_t i = 0; i < cover->change_count; i++) {
        uint32_t member = cover->changed[2 * i], next = cover->changed[2 * i + 1];
        cover->next[member] = next;
        cover->before[next] = member;
    }
}

/* Changes the set of cycles, usually without adding cycles. Returns false if it is unchanged. */
static bool perturb(struct pccl_cover *cover)
{
    enum { MORE_PER_MILLION = 60000 };
    uint32_t before = cover->cycle_count, member = (uint32_t)pccl_prng_below(cover->prng, cover->count);
    if (!exchange(cover, member, cover->next[member]))
        return false;
    number_cycles(cover);
    if (cover->cycle_count <= before || pccl_prng_chance(cover->prng, MORE_PER_MILLION))
        return true;
    undo(cover);
    number_cycles(cover);
    return false;
}

/* Writes the ring. Returns false if there is more than one cycle. */
static bool take_ring(const struct pccl_cover *cover, uint32_t *ring)
{
    if (cover->cycle_count > 1)
        return false;
    for (uint32_t i = 0, member = 0; i < cover->count; i++, member = cover->next[member])
        ring[i] = member;
    return true;
}

/* Joins and perturbs cycles until only one is left. */
static bool search_ring(struct pccl_cover *cover, uint32_t *ring)
{
    number_cycles(cover);
    join_where_possible(cover);
    while (cover->cycle_count > 1 && pccl_solve_spend(cover->work, 1))
        if (perturb(cover))
            join_where_possible(cover);
    return take_ring(cover, ring);
}

bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring)
{
    take_links(cover, least);
    bool possible = cover_all(cover);
    PCCL_ASSERT(possible);
    return search_ring(cover, ring);
}

void pccl_cover_begin(struct pccl_cover *cover, uint64_t least) { take_links(cover, least); }

bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring)
{
    enum { TRIES = 32 };
    uint32_t count = cover->count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = ring[i + 1 == count ? 0 : i + 1];
        cover->next[ring[i]] = next;
        cover->before[next] = ring[i];
    }
    uint32_t member = (uint32_t)pccl_prng_below(cover->prng, count);
    if (!exchange(cover, member, cover->next[member]))
        return false;
    number_cycles(cover);
    join_where_possible(cover);
    for (uint32_t tries = 0; cover->cycle_count > 1 && tries < TRIES && pccl_solve_spend(cover->work, 1); tries++)
        if (perturb(cover))
            join_where_possible(cover);
    return take_ring(cover, ring);
}

static int64_t cost(const struct pccl_cover *cover, const uint32_t *costs, uint32_t from, uint32_t to)
{
    return costs[(size_t)from * cover->count + to];
}

/* Joins the cycle of this member with another one at the lowest cost. Returns false if that is impossible. */
static bool join_cheaply(struct pccl_cover *cover, const uint32_t *costs, uint32_t any)
{
    int64_t least = INT64_MAX;
    uint32_t best = NO_MEMBER, best_other = NO_MEMBER, member = any;
    do {
        uint32_t next = cover->next[member];
        const uint64_t *row = out_of(cover, member);
        for (uint32_t w = 0; w < cover->words; w++) {
            for (uint64_t left = row[w]; left != 0; left &= left - 1) {
                uint32_t to = w * 64 + lowest(left), other = cover->before[to];
                if (cover->cycle[to] == cover->cycle[member] || !leads(cover, other, next))
                    continue;
                int64_t more = cost(cover, costs, member, to) + cost(cover, costs, other, next) -
                               cost(cover, costs, member, next) - cost(cover, costs, other, to);
                if (more < least) {
                    least = more;
                    best = member;
                    best_other = other;
                }
            }
        }
        (void)pccl_solve_spend(cover->work, cover->count);
        member = next;
    } while (member != any);
    if (best != NO_MEMBER)
        join_both(cover, best, best_other);
    return best != NO_MEMBER;
}

/*
 * Joins small cycles first, because the cost of a search is proportional to the length of the cycle, and the smaller of
 * two cycles is renumbered.
 */
static void join_all_cheaply(struct pccl_cover *cover, const uint32_t *costs)
{
    uint32_t *failed = cover->queue; /* by number of the cycle: true if it could not be joined */
    for (uint64_t most = 2; most < 2 * (uint64_t)cover->count && cover->cycle_count > 1; most *= 2) {
        memset(failed, 0, cover->count * sizeof *failed);
        for (uint32_t m = 0; m < cover->count && cover->cycle_count > 1 && pccl_solve_spend(cover->work, 1); m++) {
            uint32_t number = cover->cycle[m];
            if (cover->sizes[number] <= most && failed[number] == 0)
                failed[number] = !join_cheaply(cover, costs, m);
        }
    }
}

bool pccl_cover_join(struct pccl_cover *cover, const struct pccl_assign *assign, uint32_t *ring)
{
    number_cycles(cover);
    join_all_cheaply(cover, assign->costs);
    return search_ring(cover, ring);
}
