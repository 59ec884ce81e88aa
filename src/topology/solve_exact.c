/*
 * Finds the best ring by dynamic programming over the sets of members that a path from member 0 has visited: first the
 * greatest rate at which a ring exists, then the smallest latency with links of at least that rate. A set excludes
 * member 0; bit m - 1 represents member m.
 */
#include "topology/internal.h"

enum { OTHERS_MOST = PCCL_SOLVE_EXACT_MOST - 1, RATES_MOST = PCCL_SOLVE_EXACT_MOST * (PCCL_SOLVE_EXACT_MOST - 1) };
_Static_assert(OTHERS_MOST <= 16, "sets are 16 bits");

struct exact {
    const struct pccl_ring_problem *problem;
    uint32_t count, others, all; /* all: the set of all members except 0 */
    /* by member: set of the members to which it has a sufficiently fast link; bit 31: member 0 */
    uint32_t reached[PCCL_SOLVE_EXACT_MOST];
};
static const uint32_t ZERO = UINT32_C(1) << 31;

static uint64_t rate_of(const struct exact *exact, uint32_t from, uint32_t to)
{
    return exact->problem->rates[from * exact->count + to];
}

/* Lists the distinct rates of all links, except 0, in ascending order. */
static uint32_t sort_rates(const struct exact *exact, uint64_t *rates)
{
    uint32_t sorted = 0;
    for (uint32_t link = 0; link < exact->count * exact->count; link++) {
        uint32_t from = link / exact->count, to = link % exact->count, i = sorted;
        uint64_t rate = from == to ? PCCL_RATE_NONE : rate_of(exact, from, to);
        while (i > 0 && rates[i - 1] > rate)
            i--;
        if (rate == PCCL_RATE_NONE || (i > 0 && rates[i - 1] == rate))
            continue;
        for (uint32_t k = sorted++; k > i; k--)
            rates[k] = rates[k - 1];
        rates[i] = rate;
    }
    return sorted;
}

static void take_links(struct exact *exact, uint64_t least)
{
    for (uint32_t from = 0; from < exact->count; from++) {
        exact->reached[from] = 0;
        for (uint32_t to = 0; to < exact->count; to++)
            if (from != to && rate_of(exact, from, to) >= least)
                exact->reached[from] |= to == 0 ? ZERO : UINT32_C(1) << (to - 1);
    }
}

/*
 * Returns true if there is a ring. Sets ends[set] to the members at which a path from 0 through the whole set can end.
 */
static bool ring_exists(struct exact *exact, uint64_t least, uint16_t *ends)
{
    take_links(exact, least);
    for (uint32_t set = 1; set <= exact->all; set++) {
        uint32_t here = (set & (set - 1)) == 0 ? exact->reached[0] & set : 0;
        for (uint32_t m = 1; m < exact->count; m++) {
            uint32_t bit = UINT32_C(1) << (m - 1);
            if ((set & bit) == 0)
                continue;
            for (uint32_t before = 1; before < exact->count; before++)
                if ((ends[set ^ bit] >> (before - 1) & 1) != 0 && (exact->reached[before] & bit) != 0)
                    here |= bit;
        }
        ends[set] = (uint16_t)here;
    }
    for (uint32_t m = 1; m < exact->count; m++)
        if ((ends[exact->all] >> (m - 1) & 1) != 0 && (exact->reached[m] & ZERO) != 0)
            return true;
    return false;
}

/* Returns the greatest rate that the slowest link of a ring can have; 0 if there is no ring. */
static uint64_t best_rate(struct exact *exact, uint16_t *ends)
{
    uint64_t rates[RATES_MOST];
    /* rings exist with rates[i] for i < low, but not for i >= high */
    uint32_t low = 0, high = sort_rates(exact, rates);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ring_exists(exact, rates[middle], ends))
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? PCCL_RATE_NONE : rates[low - 1];
}

static uint64_t latency_of(const struct exact *exact, uint32_t from, uint32_t to)
{
    bool taken = (exact->reached[from] & (to == 0 ? ZERO : UINT32_C(1) << (to - 1))) != 0;
    return taken ? exact->problem->rtts_us[from * exact->count + to] : UINT64_MAX;
}

static uint64_t sum(uint64_t a, uint64_t b) { return a == UINT64_MAX || b == UINT64_MAX ? UINT64_MAX : a + b; }

/* Returns the last member of the set on the cheapest path that visits the whole set and then `to`. */
static uint32_t cheapest_end(const struct exact *exact, const uint64_t *latencies, uint32_t set, uint32_t to,
                             uint64_t *latency)
{
    uint32_t end = 0;
    *latency = UINT64_MAX;
    for (uint32_t m = 1; m < exact->count; m++) {
        if ((set >> (m - 1) & 1) == 0)
            continue;
        uint64_t here = sum(latencies[set * exact->others + m - 1], latency_of(exact, m, to));
        if (here < *latency) {
            *latency = here;
            end = m;
        }
    }
    return end;
}

/*
 * Finds the ring. latencies[set * others + m - 1] is the latency of the cheapest path from 0 through the set that ends
 * at m.
 */
static void find_ring(const struct exact *exact, uint64_t *latencies, uint32_t *ring)
{
    for (uint32_t set = 1; set <= exact->all; set++) {
        for (uint32_t m = 1; m < exact->count; m++) {
            uint32_t bit = UINT32_C(1) << (m - 1);
            uint64_t *latency = &latencies[set * exact->others + m - 1];
            *latency = UINT64_MAX;
            if (set == bit)
                *latency = latency_of(exact, 0, m);
            else if ((set & bit) != 0)
                (void)cheapest_end(exact, latencies, set ^ bit, m, latency);
        }
    }
    uint64_t unused;
    uint32_t set = exact->all, to = 0;
    ring[0] = 0;
    for (uint32_t i = exact->count - 1; i > 0; i--) {
        to = cheapest_end(exact, latencies, set, to, &unused);
        PCCL_ASSERT(to != 0);
        ring[i] = to;
        set ^= UINT32_C(1) << (to - 1);
    }
}

enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem, const struct pccl_memory *memory,
                                  uint32_t *ring, bool *exists)
{
    struct exact exact = {.problem = problem, .count = problem->count, .others = problem->count - 1};
    PCCL_ASSERT(problem->count >= 2 && problem->count <= PCCL_SOLVE_EXACT_MOST);
    exact.all = (UINT32_C(1) << exact.others) - 1;
    size_t sets = (size_t)exact.all + 1, bytes = sets * exact.others * sizeof(uint64_t);
    size_t ends_bytes = sets * sizeof(uint16_t);
    uint64_t *latencies = pccl_allocate(memory, bytes);
    uint16_t *ends = pccl_allocate(memory, ends_bytes);
    enum pccl_status status = latencies == NULL || ends == NULL ? PCCL_MEMORY : PCCL_OK;
    if (status == PCCL_OK) {
        uint64_t least = best_rate(&exact, ends);
        *exists = least != PCCL_RATE_NONE;
        take_links(&exact, least);
        if (*exists)
            find_ring(&exact, latencies, ring);
    }
    pccl_release(memory, ends, ends_bytes);
    pccl_release(memory, latencies, bytes);
    return status;
}
