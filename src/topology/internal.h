/* Types and functions that the files of the ring solver (topology/solve.h) share. */
#ifndef PCCL_TOPOLOGY_INTERNAL_H
#define PCCL_TOPOLOGY_INTERNAL_H

#include "core/prng.h"
#include "topology/solve.h"

#define PCCL_SOLVE_NO_MEMBER UINT32_MAX

/* ---- the limit on the work (solve_worth.c) ---- */

struct pccl_solve_work {
    bool (*go_on)(void *context);
    void *context;
    uint64_t used, limit; /* numbers of steps */
    uint64_t question_at; /* value of `used` at which go_on is called next */
    bool stopped;         /* true if go_on returned false */
};

/* Counts completed steps. Returns false if the search must stop and return the best ring so far. */
bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps);

/* ---- few members: exact, over all rings (solve_exact.c) ---- */

/*
 * Finds the best ring, for a count from 2 to PCCL_SOLVE_EXACT_MOST. If *exists is set, `ring` is a best ring, beginning
 * with member 0.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, uint32_t *ring, bool *exists);

/* ---- links that are fast enough, and cycles that cover all members (solve_cover.c) ---- */

/*
 * Links of at least some rate, as bit rows, and a successor for each member, so that the successors form cycles. All
 * arrays are borrowed.
 */
struct pccl_cover {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    uint32_t count, words; /* words: 64-bit words per row */
    uint64_t *out, *in;    /* `count` rows each: members reached from a member, members that reach it */
    uint64_t *unseen;      /* one row */
    uint32_t *next, *before;
    uint32_t *queue, *from, *cycle, *sizes; /* `count` items each */
    /* 2 * count items: members and their old successors, in the last exchange */
    uint32_t *changed;
    uint32_t change_count, cycle_count;
};

/*
 * Returns the greatest rate at which the quick checks do not rule out a ring; 0 if there is no ring at all. If the work
 * was stopped, the rate is arbitrary.
 */
uint64_t pccl_cover_bound(struct pccl_cover *cover);
/*
 * Searches for a ring of links of at least this rate, which pccl_cover_bound must not have ruled out. Returns false if
 * it finds none.
 */
bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring);
/*
 * pccl_cover_vary changes `ring` by exchanges, possibly between distant places, using links of at least the rate passed
 * to pccl_cover_begin. Returns false if it finds no other ring.
 */
void pccl_cover_begin(struct pccl_cover *cover, uint64_t least);
bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring);
struct pccl_assign;
/*
 * Joins the cycles from pccl_assign into one ring at low cost, using the links selected by pccl_cover_begin. Returns
 * false if it finds none.
 */
bool pccl_cover_join(struct pccl_cover *cover, const struct pccl_assign *assign, uint32_t *ring);
/*
 * Returns a random rate of a link between `low` and `high`, both excluded; 0 if none exists. Frequent rates are more
 * likely.
 */
uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high);

/* ---- the cheapest cycles (solve_assign.c) ---- */

/* Cost of a banned link; in sums it is higher than the cost of any ring of PCCL_PEERS_MAX members. */
#define PCCL_TOUR_BANNED UINT32_MAX
#define PCCL_TOUR_BANNED_COST (INT64_C(1) << 44)

struct pccl_assign {
    uint32_t count;
    const uint32_t *costs; /* borrowed, like the other arrays: count * count */
    int64_t *prices, *reached;
};
/*
 * Sets the cheapest successors. There must be a set of cycles without banned links. Returns false if the limit on the
 * work was reached.
 */
bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us);

/* ---- a ring with less latency (solve_latency.c) ---- */

enum { PCCL_TOUR_NEAR = 10 /* number of cheapest successors per member */ };

/* A ring under improvement. All arrays are borrowed, and have `count` items unless stated otherwise. */
struct pccl_tour {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    struct pccl_cover *cover; /* uses the same links */
    uint32_t count;
    uint32_t *costs; /* count * count items */
    uint32_t *near;  /* PCCL_TOUR_NEAR items per member: successors by increasing cost */
    uint8_t *near_count;
    uint32_t *order, *place, *moved; /* the ring, the place of each member in it, a buffer for a part of it */
    uint32_t *varied;                /* another ring */
    uint32_t *queue;                 /* circular buffer of the members whose link to the next may be improved */
    uint8_t *queued;
    uint32_t queue_first, queue_count;
    int64_t cost; /* cost of the ring */
};

/* Restricts the search to links of at least this rate. */
void pccl_tour_begin(struct pccl_tour *tour, uint64_t least);
/* Returns a quick lower bound on the latency of a ring of these links. */
uint64_t pccl_tour_bound(const struct pccl_tour *tour);
/* Improves the ring, using only these links, until it reaches the bound or the work reaches its limit. */
void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring);

/* ---- many members (solve_local.c) ---- */

/*
 * Searches for a ring, for count >= 4. *exists is true on entry if `ring` contains a ring, and on return if it contains
 * the best one found.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, struct pccl_solve_work *work,
                                                  uint32_t *ring, bool *exists, bool *proven);

#endif
