/* What the files of the ring solver (topology/solve.h) share. */
#ifndef PCCL_TOPOLOGY_INTERNAL_H
#define PCCL_TOPOLOGY_INTERNAL_H

#include "core/prng.h"
#include "topology/solve.h"

#define PCCL_SOLVE_NOBODY UINT32_MAX

/* ---- the limit on the work (solve_worth.c) ---- */

struct pccl_solve_work {
    bool (*go_on)(void *context);
    void *context;
    uint64_t used, limit; /* steps */
    uint64_t question_at; /* value of `used` at which go_on is asked next */
    bool stopped;         /* go_on said so */
};

/* Counts steps that were done. false: stop, with the best so far. */
bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps);

/* ---- few members: exact, over all rings (solve_exact.c) ---- */

/*
 * count from 2 to PCCL_SOLVE_EXACT_MOST. *exists: whether there is a ring; then `ring` holds a best
 * one, from member 0 on.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, uint32_t *ring, bool *exists);

/* ---- links that are fast enough, and cycles that cover all members (solve_cover.c) ---- */

/*
 * The links of at least some rate as rows of bits, and a successor for each member, so that the
 * successors form cycles. All arrays are borrowed.
 */
struct pccl_cover {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    uint32_t count, words; /* words: of a row */
    uint64_t *out, *in;    /* count rows each: whom a member reaches, who reaches it */
    uint64_t *unseen;      /* a row */
    uint32_t *next, *before;
    uint32_t *queue, *from, *cycle, *sizes; /* count each */
    uint32_t *changed;                      /* 2 * count: member and its old successor, of the last exchange */
    uint32_t change_count, cycle_count;
};

/*
 * The greatest rate at which the quick checks do not rule out a ring; 0: there is no ring at all.
 * If the work was stopped, any rate.
 */
uint64_t pccl_cover_bound(struct pccl_cover *cover);
/*
 * Looks for a ring of links of at least this rate (which bound() has not ruled out). false: not
 * found.
 */
bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring);
/*
 * Varies `ring` by exchanges that may reach far, over links of at least the rate given to begin().
 * false: no other ring was found.
 */
void pccl_cover_begin(struct pccl_cover *cover, uint64_t least);
bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring);
struct pccl_assign;
/*
 * Joins the cycles that pccl_assign() made into one ring, cheaply, over the links given to begin().
 * false: not found.
 */
bool pccl_cover_join(struct pccl_cover *cover, const struct pccl_assign *assign, uint32_t *ring);
/*
 * A rate between `low` and `high` (both excluded), drawn at random by frequency; 0: there is none.
 */
uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high);

/* ---- the cheapest cycles (solve_assign.c) ---- */

/*
 * Marks a link that must not be used; in sums it counts as more than any ring of PCCL_PEERS_MAX
 * members.
 */
#define PCCL_TOUR_BANNED UINT32_MAX
#define PCCL_TOUR_BANNED_COST (INT64_C(1) << 44)

struct pccl_assign {
    uint32_t count;
    const uint32_t *costs; /* borrowed, as the other arrays: count * count */
    int64_t *prices, *reached;
};
/*
 * Sets the cheapest successors. Some set of cycles without banned links must exist. false: the
 * limit on the work was reached.
 */
bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us);

/* ---- a ring of less latency (solve_latency.c) ---- */

enum { PCCL_TOUR_NEAR = 10 /* the cheapest successors of a member */ };

/* A ring being improved. All arrays are borrowed; count each unless said otherwise. */
struct pccl_tour {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    struct pccl_cover *cover; /* of the same links */
    uint32_t count;
    uint32_t *costs; /* count * count */
    uint32_t *near;  /* PCCL_TOUR_NEAR each: successors by rising cost */
    uint8_t *near_count;
    uint32_t *order, *place, *moved; /* the ring, each one's place in it, room for a part */
    uint32_t *varied;                /* another ring */
    uint32_t *queue;                 /* a ring buffer of members whose link to the next is to be improved */
    uint8_t *queued;
    uint32_t queue_first, queue_count;
    int64_t cost; /* of the ring */
};

/* Restricts the search to links of at least this rate. */
void pccl_tour_begin(struct pccl_tour *tour, uint64_t least);
/* A lower bound, quickly found, on the latency of a ring of these links. */
uint64_t pccl_tour_bound(const struct pccl_tour *tour);
/*
 * Improves the ring, which keeps to these links, until it is down to the bound or the work reaches
 * its limit.
 */
void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring);

/* ---- many members (solve_local.c) ---- */

/*
 * count >= 4. On entry *exists tells whether *ring holds a ring; on return, whether it holds the
 * best one found.
 */
PCCL_MUST_CHECK enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, struct pccl_solve_work *work,
                                                  uint32_t *ring, bool *exists, bool *proven);

#endif
