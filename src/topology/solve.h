/*
 * Finds the best ring of the members of a group from the figures of their links. Pure: the same problem gives the same
 * ring on every machine.
 *
 * The best ring is the one with the fastest slowest link; among equals, the one with the smallest sum of round trips.
 * Links are directed, and a ring uses only each member's link to the next one. A link without bandwidth is never used.
 * A link of unknown rate counts as slower than any known one, so it is used only if no ring of known links is found.
 *
 * Solving takes a long time and needs a separate thread. A step takes 4 to 7 ns; the work besides the steps (the upper
 * bound on the rate of a ring) takes less than a second for 1,000 members. Memory: 4.4 bytes per link at 1,000 members,
 * 180 KiB up to PCCL_SOLVE_EXACT_MOST, in a few blocks.
 */
#ifndef PCCL_TOPOLOGY_SOLVE_H
#define PCCL_TOPOLOGY_SOLVE_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"

#define PCCL_RATE_NONE UINT64_C(0)    /* rate of a link over which no data arrives */
#define PCCL_RATE_UNKNOWN UINT64_C(1) /* rate of a link without a figure */

enum { PCCL_SOLVE_EXACT_MOST = 12 }; /* with at most this many members, the ring is always proven optimal */

struct pccl_ring_problem {
    uint32_t count;          /* number of members, at least 1 */
    const uint64_t *rates;   /* bytes per second or PCCL_RATE_*, at [from * count + to]; the diagonal is not read */
    const uint32_t *rtts_us; /* at the same indices; 0 if unknown, which adds nothing */
    /* present ring, each member once; NULL if none exists. May use links without bandwidth */
    const uint32_t *ring;
    uint64_t seed;
    uint64_t steps; /* search limit for more than PCCL_SOLVE_EXACT_MOST members; a step examines about one link */
};

/* Quality of a ring. */
struct pccl_ring_worth {
    bool exists;         /* true if all its links have bandwidth */
    uint64_t slowest;    /* rate of the slowest link; UINT64_MAX for a single member, which has no link */
    uint64_t latency_us; /* sum of the round trips */
};
struct pccl_ring_worth pccl_ring_worth(const struct pccl_ring_problem *problem, const uint32_t *ring);
/* Returns a negative value if a is worse than b, 0 if equal, a positive value if better. */
int pccl_ring_worth_compare(const struct pccl_ring_worth *a, const struct pccl_ring_worth *b);

struct pccl_ring_answer {
    struct pccl_ring_worth worth; /* `exists` is false if no ring exists or, unless `proven`, none was found */
    bool proven;                  /* true if it is certain that there is no better ring */
};

/* Usual step limits: while a call waits (at most 0.3 s), and in the background (a few seconds). */
#define PCCL_SOLVE_STEPS_QUICK UINT64_C(40000000)
#define PCCL_SOLVE_STEPS_LONG UINT64_C(500000000)

/*
 * Solves the problem. `ring` has room for `count` numbers, may be problem->ring, and receives the best ring, beginning
 * with member 0; if there is no ring, it is unchanged. If nothing better is found, the result is the present ring. With
 * more than PCCL_SOLVE_EXACT_MOST members, go_on (may be NULL) is called about every ten microseconds. If it returns
 * false, the search ends with the best ring so far, within about ten milliseconds for 1,000 members. Returns MEMORY,
 * with `ring` and *answer unchanged, if memory runs out.
 */
PCCL_MUST_CHECK enum pccl_status pccl_ring_solve(const struct pccl_ring_problem *problem,
                                                 const struct pccl_memory *memory, bool (*go_on)(void *context),
                                                 void *context, uint32_t *ring, struct pccl_ring_answer *answer);

#endif
