/* Shared by the files of the ring solver (topology/solve.h). */
#ifndef PCCL_TOPOLOGY_INTERNAL_H
#define PCCL_TOPOLOGY_INTERNAL_H

#include "core/prng.h"
#include "topology/solve.h"

#define PCCL_SOLVE_NO_MEMBER UINT32_MAX

/* ---- the limit on the work (solve_worth.c) ---- */

struct pccl_solve_work {
    bool (*go_on)(void *context);
    void *context;
    uint64_t used, limit; /* steps */
    uint64_t question_at; /* value of `used` for the next call of go_on */
    bool stopped;         /* go_on returned false */
};

/* Counts completed steps. Returns false if the search must stop, with the best ring so far. */
bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps);

/* ---- few members: exact, over all rings (solve_exact.c) ---- */

/*
 * Finds the best ring, for a count from 2 to PCCL_SOLVE_EXACT_MOST. *exists: true if there is a ring; then `ring` has a
 * best one, from member 0 on.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, uint32_t *ring, bool *exists);

/* ---- links that are fast enough, and cycles that cover all members (solve_cover.c) ---- */

/*
 * Links of at least some rate as rows of bits, and a successor for each member, so that the successors form cycles. All
 * arrays are borrowed.
 */
struct pccl_cover {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    uint32_t count, words; /* words: of a row */
    uint64_t *out, *in;    /* count rows each: members reached from a member, members that reach it */
    uint64_t *unseen;      /* a row */
    uint32_t *next, *before;
    uint32_t *queue, *from, *cycle, *sizes; /* count each */
    uint32_t *changed;                      /* 2 * count: members and their old successors, from the last exchange */
    uint32_t change_count, cycle_count;
};

/*
 * Returns the greatest rate at which the quick checks do not rule out a ring; 0: there is no ring at all. If the work
 * was stopped, any rate.
 */
uint64_t pccl_cover_bound(struct pccl_cover *cover);
/* Searches a ring of links of at least this rate (which bound() has not ruled out). Returns false if it finds none. */
bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring);
/*
 * Varies `ring` by exchanges that may reach far, over links of at least the rate given to begin(). Returns false if it
 * finds no other ring.
 */
void pccl_cover_begin(struct pccl_cover *cover, uint64_t least);
bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring);
struct pccl_assign;
/*
 * Joins the cycles from pccl_assign() into one ring, cheaply, over the links given to begin(). Returns false if it
 * finds none.
 */
bool pccl_cover_join(struct pccl_cover *cover, const struct pccl_assign *assign, uint32_t *ring);
/* Returns a rate between `low` and `high` (both excluded), drawn at random by frequency; 0 if there is no such rate. */
uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high);

/* ---- the cheapest cycles (solve_assign.c) ---- */

/* Cost of a link that must not be used; in sums it counts as more than any ring of PCCL_PEERS_MAX members. */
#define PCCL_TOUR_BANNED UINT32_MAX
#define PCCL_TOUR_BANNED_COST (INT64_C(1) << 44)

struct pccl_assign {
    uint32_t count;
    const uint32_t *costs; /* borrowed, like the other arrays: count * count */
    int64_t *prices, *reached;
};
/*
 * Sets the cheapest successors. A set of cycles without banned links must exist. Returns false if the limit on the work
 * was reached.
 */
bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us);

/* ---- a ring of less latency (solve_latency.c) ---- */

enum { PCCL_TOUR_NEAR = 10 /* cheapest successors of a member */ };

/* A ring under improvement. All arrays are borrowed; count each unless stated otherwise. */
struct pccl_tour {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    struct pccl_cover *cover; /* of the same links */
    uint32_t count;
    uint32_t *costs; /* count * count */
    uint32_t *near;  /* PCCL_TOUR_NEAR each: successors by rising cost */
    uint8_t *near_count;
    uint32_t *order, *place, *moved; /* the ring, the place of each member in it, room for a part */
    uint32_t *varied;                /* another ring */
    uint32_t *queue;                 /* a ring buffer of members whose link to the next is still to be improved */
    uint8_t *queued;
    uint32_t queue_first, queue_count;
    int64_t cost; /* of the ring */
};

/* Restricts the search to links of at least this rate. */
void pccl_tour_begin(struct pccl_tour *tour, uint64_t least);
/* Returns a quick lower bound on the latency of a ring of these links. */
uint64_t pccl_tour_bound(const struct pccl_tour *tour);
/* Improves the ring, which keeps to these links, until it reaches the bound or the work reaches its limit. */
void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring);

/* ---- many members (solve_local.c) ---- */

/*
 * Searches a ring for count >= 4. *exists: on entry true if *ring has a ring; on return true if it has the best one
 * found.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, struct pccl_solve_work *work,
                                                  uint32_t *ring, bool *exists, bool *proven);

#endif
