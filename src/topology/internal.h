/* Inside of the solver for rings (topology/solve.h). */
#ifndef PCCL_TOPOLOGY_INTERNAL_H
#define PCCL_TOPOLOGY_INTERNAL_H

#include "core/prng.h"
#include "topology/solve.h"

#define PCCL_SOLVE_NOBODY UINT32_MAX

/* ---- how much has been done (solve.c) ---- */

struct pccl_solve_work {
    bool (*go_on)(void *context);
    void *context;
    uint64_t used, limit; /* steps */
    uint64_t question_at; /* `used`, when go_on is to be asked next */
    bool stopped;         /* go_on said so */
};

/* So many steps were done. false: come to an end. */
bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps);

/* ---- few members: all rings are weighed (solve_exact.c) ---- */

/* count from 2 to PCCL_SOLVE_EXACT_MOST. *exists tells whether `ring` was written: a best one, from member 0 on. */
PCCL_MUST_CHECK enum pccl_status pccl_solve_exact(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, uint32_t *ring, bool *exists);

/* ---- ways that are fast enough, and cycles that cover all members (solve_cover.c) ---- */

/*
 * The ways of at least some rate as rows of bits, and a successor for each member such that the successors form cycles.
 * All arrays are borrowed.
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

/* The greatest rate at which nothing easily seen forbids a ring; 0: there is no ring at all. Stopped: just a rate. */
uint64_t pccl_cover_bound(struct pccl_cover *cover);
/* Looks for a ring of ways of at least this rate (at which bound() saw nothing amiss). false: not found. */
bool pccl_cover_find_ring(struct pccl_cover *cover, uint64_t least, uint32_t *ring);
/*
 * Another ring of ways of at least the rate that begin() was told, made from `ring` by exchanges that may go far.
 * false: none was found.
 */
void pccl_cover_begin(struct pccl_cover *cover, uint64_t least);
bool pccl_cover_vary(struct pccl_cover *cover, uint32_t *ring);
struct pccl_assign;
/* Joins cycles that pccl_assign() made to one ring, cheaply; with the ways that begin() was told. false: not found. */
bool pccl_cover_join(struct pccl_cover *cover, struct pccl_assign *assign, uint32_t *ring);
/* One of the rates above `low` and below `high`, drawn by their frequency; 0: there is none. */
uint64_t pccl_cover_rate_between(struct pccl_cover *cover, uint64_t low, uint64_t high);

/* ---- the cheapest cycles (solve_assign.c) ---- */

/* The cost of a way that is not to be used, and what it counts as: more than any ring of PCCL_PEERS_MAX members. */
#define PCCL_TOUR_BANNED UINT32_MAX
#define PCCL_TOUR_BANNED_COST (INT64_C(1) << 44)

struct pccl_assign {
    uint32_t count;
    const uint32_t *costs; /* borrowed, as the other arrays: count * count */
    int64_t *prices, *reached;
};
/* Sets the successors. false: the work's limit came first. Some set of cycles without banned ways must exist. */
bool pccl_assign(struct pccl_assign *assign, struct pccl_cover *cover, uint64_t *latency_us);
/*
 * Gives the member a successor from another one of the numbered cycles, by about the cheapest exchange; it may take
 * banned ways. The cover knows what has changed. false: the work's limit came first, and nothing has.
 */
bool pccl_assign_leave(struct pccl_assign *assign, struct pccl_cover *cover, uint32_t member);

/* ---- a ring of less latency (solve_latency.c) ---- */

enum {
    PCCL_TOUR_NEAR = 10, /* successors that a member would take most gladly */
    PCCL_TOUR_FAR_MOST = 48,
    PCCL_TOUR_CHANGES = 1024,
};

/* The parts of `first` members from `place` on and of `second` behind it changed places; second 0: one turned around.
 */
struct pccl_tour_change {
    uint32_t place, first, second;
};

/* A ring being improved. All arrays are borrowed; count each unless said otherwise. */
struct pccl_tour {
    const struct pccl_ring_problem *problem;
    struct pccl_solve_work *work;
    struct pccl_prng *prng;
    struct pccl_cover *cover; /* of the same ways */
    uint32_t count;
    uint32_t *costs; /* count * count */
    uint32_t *near;  /* PCCL_TOUR_NEAR each: successors by rising cost */
    uint8_t *near_count;
    uint32_t *order, *place, *moved; /* the ring, each one's place in it, room for a part */
    uint32_t *varied;                /* another ring */
    uint32_t *queue;                 /* a ring buffer of members whose way on is to be looked at */
    uint8_t *queued;
    uint32_t queue_first, queue_count;
    uint32_t far[PCCL_TOUR_FAR_MOST]; /* members to which a way leads that is not among the near ones */
    uint32_t far_count;
    struct pccl_tour_change *changes; /* PCCL_TOUR_CHANGES: what can be undone */
    uint32_t change_count;
    int64_t cost; /* of the ring */
};

/* Takes the ways of at least this rate. */
void pccl_tour_begin(struct pccl_tour *tour, uint64_t least);
/* Below this no ring of these ways is, as far as is easily seen. */
uint64_t pccl_tour_bound(const struct pccl_tour *tour);
/* Improves the ring, which is of these ways and stays so, until it is down to the bound or the work at its limit. */
void pccl_tour_improve(struct pccl_tour *tour, uint64_t bound, uint32_t *ring);

/* ---- many members (solve_local.c) ---- */

/* count >= 4. *ring holds the present ring, if *exists, and the best that was found, if *exists then. */
PCCL_MUST_CHECK enum pccl_status pccl_solve_local(const struct pccl_ring_problem *problem,
                                                  const struct pccl_memory *memory, struct pccl_solve_work *work,
                                                  uint32_t *ring, bool *exists, bool *proven);

#endif
