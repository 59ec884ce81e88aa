/*
 * The best ring over the members of a group, given the figures of their links. Pure: the same problem gives the same
 * ring on every machine.
 *
 * Best means that the slowest of its links is as fast as possible and, among such rings, that the sum of the round
 * trips is the least. Links are directed, and a ring uses each member's link to the next one only. A link without
 * bandwidth is never used. One of unknown rate counts as slower than any known one, so it is used only where no ring of
 * known links is found.
 *
 * Solving takes long and needs a separate thread. A step takes 4 to 7 ns; the work besides the steps (the upper bound
 * on the rate of a ring) takes less than a second for 1,000 members. Memory: 4.4 bytes for each link at 1,000 members,
 * 180 KiB up to PCCL_SOLVE_EXACT_MOST, in a few blocks.
 */
#ifndef PCCL_TOPOLOGY_SOLVE_H
#define PCCL_TOPOLOGY_SOLVE_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"

#define PCCL_RATE_NONE UINT64_C(0)    /* a rate: no data gets through */
#define PCCL_RATE_UNKNOWN UINT64_C(1) /* a rate */

enum { PCCL_SOLVE_EXACT_MOST = 12 }; /* up to this many members the answer is always proven */

struct pccl_ring_problem {
    uint32_t count;          /* members, >= 1 */
    const uint64_t *rates;   /* [from * count + to]: bytes per second, or PCCL_RATE_*; the diagonal is not read */
    const uint32_t *rtts_us; /* likewise; 0: unknown, which adds nothing */
    const uint32_t *ring;    /* present ring, each member once; NULL: none. It may use links without bandwidth */
    uint64_t seed;
    uint64_t steps; /* limit of the search above PCCL_SOLVE_EXACT_MOST: roughly the links examined */
};

/* Quality of a ring. */
struct pccl_ring_worth {
    bool exists;         /* all its links have bandwidth */
    uint64_t slowest;    /* rate of its slowest link; UINT64_MAX for a single member, which needs none */
    uint64_t latency_us; /* sum of its round trips */
};
struct pccl_ring_worth pccl_ring_worth(const struct pccl_ring_problem *problem, const uint32_t *ring);
/* Returns < 0 if a is worth less than b, 0 if the same, > 0 if more. */
int pccl_ring_worth_compare(const struct pccl_ring_worth *a, const struct pccl_ring_worth *b);

struct pccl_ring_answer {
    struct pccl_ring_worth worth; /* exists false: no ring exists or, if not `proven`, none was found */
    bool proven;                  /* there is no better one */
};

/* Sensible limits: while a call waits (0.3 s at most), and in the background (a few seconds). */
#define PCCL_SOLVE_STEPS_QUICK UINT64_C(40000000)
#define PCCL_SOLVE_STEPS_LONG UINT64_C(500000000)

/*
 * Solves the problem. `ring` has room for `count` numbers, may be problem->ring, and receives the answer, which begins
 * with member 0; without an answer it is unchanged. If nothing better is found, the answer is the present ring, from
 * member 0 on. Above PCCL_SOLVE_EXACT_MOST go_on (may be NULL) is called every ten microseconds or so; when it returns
 * false the search ends with the best ring so far, within about ten milliseconds for 1,000 members. Returns MEMORY,
 * with `ring` and *answer unchanged, if memory is short.
 */
PCCL_MUST_CHECK enum pccl_status pccl_ring_solve(const struct pccl_ring_problem *problem,
                                                 const struct pccl_memory *memory, bool (*go_on)(void *context),
                                                 void *context, uint32_t *ring, struct pccl_ring_answer *answer);

#endif
