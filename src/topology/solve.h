/*
 * The best ring over the members of a group, given what the ways between them carry. Pure: the same problem gives the
 * same ring on every machine.
 *
 * Best: the slowest of its ways is as fast as it can be; among those, the sum of the round trips is the least. Ways are
 * directed, and a ring uses each member's way to the next one only. A way without bandwidth is never used. One of
 * unknown rate is used only where no ring of known ways is found: it counts as slower than any known one.
 *
 * It takes long: for a thread of its own. A step takes 4 to 7 ns; what is done besides the steps (the greatest rate at
 * which there might be a ring) takes less than a second for 1,000 members. Memory: 4.4 bytes for each way at 1,000
 * members, 180 KiB up to PCCL_SOLVE_EXACT_MOST, in few blocks.
 */
#ifndef PCCL_TOPOLOGY_SOLVE_H
#define PCCL_TOPOLOGY_SOLVE_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"

#define PCCL_RATE_NONE UINT64_C(0)    /* a rate: nothing gets through */
#define PCCL_RATE_UNKNOWN UINT64_C(1) /* a rate */

enum { PCCL_SOLVE_EXACT_MOST = 12 }; /* up to so many members the answer is proven */

struct pccl_ring_problem {
    uint32_t count;          /* members, >= 1 */
    const uint64_t *rates;   /* [from * count + to]: bytes per second, or PCCL_WAY_*; the diagonal is not read */
    const uint32_t *rtts_us; /* the same; 0: unknown, counts as nothing */
    const uint32_t *ring;    /* all members once: the ring as it is; NULL: none. May use ways without bandwidth */
    uint64_t seed;
    uint64_t steps; /* about how much the search above PCCL_SOLVE_EXACT_MOST may do: ways looked at */
};

/* What a ring is worth. */
struct pccl_ring_worth {
    bool exists;         /* none of its ways is without bandwidth */
    uint64_t slowest;    /* rate of its slowest way; of one member, who needs none: UINT64_MAX */
    uint64_t latency_us; /* sum of its round trips */
};
struct pccl_ring_worth pccl_ring_worth(const struct pccl_ring_problem *problem, const uint32_t *ring);
/* < 0: a is worth less than b, 0: the same, > 0: more. */
int pccl_ring_worth_compare(const struct pccl_ring_worth *a, const struct pccl_ring_worth *b);

struct pccl_ring_answer {
    struct pccl_ring_worth worth; /* exists false: no ring exists, or, if not `proven`, none was found */
    bool proven;                  /* there is no better one */
};

/* Steps that are worth their time: for somebody who waits (0.3 s at most), and where there is time (some seconds). */
#define PCCL_SOLVE_STEPS_QUICK UINT64_C(40000000)
#define PCCL_SOLVE_STEPS_LONG UINT64_C(500000000)

/*
 * ring: room for `count` numbers, may be problem->ring; the answer, which begins with member 0; without one it is left
 * as it was. The present ring is the answer (turned to begin with member 0) if nothing better is found. go_on (may be
 * NULL) is asked every some ten microseconds, above PCCL_SOLVE_EXACT_MOST; false: end with the best so far, within
 * some ten milliseconds for 1,000 members.
 * MEMORY: nothing was found for want of memory, `ring` and *answer are as they were.
 */
PCCL_MUST_CHECK enum pccl_status pccl_ring_solve(const struct pccl_ring_problem *problem,
                                                 const struct pccl_memory *memory, bool (*go_on)(void *context),
                                                 void *context, uint32_t *ring, struct pccl_ring_answer *answer);

#endif
