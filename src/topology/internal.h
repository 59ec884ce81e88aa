/* Types and functions shared by the files of the ring solver (topology/solve.h). */
#ifndef PCCL_TOPOLOGY_INTERNAL_H
#define PCCL_TOPOLOGY_INTERNAL_H

#include "core/prng.h"
#include "topology/solve.h"

#define PCCL_SOLVE_NO_MEMBER UINT32_MAX

/* ---- work limit (solve_worth.c) ---- */

struct pccl_solve_work {
    bool (*go_on)(void *context);
    void *context;
    uint64_t used, limit; /* in steps */
    uint64_t question_at; /* value of `used` at which go_on is called next */
    bool stopped;         /* true if go_on returned false */
};

/* Counts completed steps. Returns false if the search must stop and return the best ring so far. */
bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps);

/* ---- few members: exact, over all rings (solve_exact.c) ---- */

/*
 * Finds the best ring of 2 to PCCL_SOLVE_EXACT_MOST members. Sets *exists if there is a ring; `ring` then contains the
 * best one, beginning with member 0.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, uint32_t *ring, bool *exists);

/* ---- sufficiently fast links, and cycles that cover all members (solve_cover.c) ---- */

/*
 * The links of at least a given rate, as bit matrices, and one successor for each member; the successors form cycles.
 * All arrays are borrowed.
 */
struct pccl_cover {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    uint32_t count, words; /* words: 64-bit words per row */
    uint64_t *out, *in;    /* `count` rows each: a member's links to others, and from others */
    uint64_t *unseen;      /* one row */
    uint32_t *next, *before;
    uint32_t *queue, *from, *cycle, *sizes; /* `count` items each */
    /* 2 * count items: the members that the last exchange changed, each followed by its previous successor */
    uint32_t *changed;
    uint32_t change_count, cycle_count;
};

/*
 * Returns the greatest rate at which the quick checks do not rule out a ring; 0 if there is no ring at all. If the work
 * was stopped, the rate is arbitrary.
 */
uint64_t pccl_cover_bound(struct pccl_cover *cover);
/*
 * Searches for a ring of links of at least the rate `least`, which must not exceed the result of pccl_cover_bound.
 * Returns false if it finds none.
 */
bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring);
/*
 * pccl_cover_begin selects the links of at least the rate `least`. pccl_cover_vary turns `ring` into another ring of
 * these links by exchanging the successors of members, which may be far apart in it. Returns false if it finds no other
 * ring.
 */
void pccl_cover_begin(struct pccl_cover *cover, uint64_t least);
bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring);
struct pccl_assign;
/*
 * Joins the cycles from pccl_assign into one ring at low cost, using the links selected by pccl_cover_begin. Returns
 * false if it finds none.
 */
bool pccl_cover_join(struct pccl_cover *cover, const struct pccl_assign *assign, uint32_t *ring);
/* Returns the rate of a random link among those with a rate above `low` and below `high`; 0 if none exists. */
uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high);

/* ---- the cheapest cycles (solve_assign.c) ---- */

/* Cost of a banned link. A sum that includes it exceeds the cost of any ring of PCCL_PEERS_MAX members. */
#define PCCL_TOUR_BANNED UINT32_MAX
#define PCCL_TOUR_BANNED_COST (INT64_C(1) << 44)

struct pccl_assign {
    uint32_t count;
    const uint32_t *costs; /* borrowed, like the other arrays: count * count */
    int64_t *prices, *reached;
};
/*
 * Sets the successors with the lowest total cost. A solution without banned links must exist. Returns false if the work
 * limit was reached.
 */
bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us);

/* ---- a ring with less latency (solve_latency.c) ---- */

enum { PCCL_TOUR_NEAR = 10 /* number of cheapest successors per member */ };

/* A ring that is being improved. All arrays are borrowed, and have `count` items unless stated otherwise. */
struct pccl_tour {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    struct pccl_cover *cover; /* cover of the same links */
    uint32_t count;
    uint32_t *costs; /* count * count items */
    uint32_t *near;  /* PCCL_TOUR_NEAR items per member: its cheapest successors, by increasing cost */
    uint8_t *near_count;
    uint32_t *order, *place, *moved; /* the ring, the place of each member in it, a buffer for a part of it */
    uint32_t *varied;                /* another ring */
    uint32_t *queue;                 /* circular buffer: members whose link to the next one may be improved */
    uint8_t *queued;
    uint32_t queue_first, queue_count;
    int64_t cost;
};

/* Restricts the search to links of at least this rate. */
void pccl_tour_begin(struct pccl_tour *tour, uint64_t least);
/* Returns a lower bound on the latency of any ring of these links, without a search. */
uint64_t pccl_tour_bound(const struct pccl_tour *tour);
/* Improves the ring, using only these links, until it reaches the bound or the work reaches its limit. */
void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring);

/* ---- many members (solve_local.c) ---- */

/*
 * Searches for the best ring of at least 4 members. *exists is true on entry if `ring` contains a ring, and on return
 * if it contains the best one found.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, struct pccl_solve_work *work,
                                                  uint32_t *ring, bool *exists, bool *proven);

#endif
