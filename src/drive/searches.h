/*
 * Searches for rings on worker threads of a loop. All functions, and `solved`, on the loop's
 * thread.
 */
#ifndef PCCL_DRIVE_SEARCHES_H
#define PCCL_DRIVE_SEARCHES_H

#include "topology/solve.h"

#include <uv.h>

struct pccl_search;

struct pccl_searches {
    uv_loop_t *loop;
    const struct pccl_memory *memory; /* must be thread-safe */
    void *context;
    /*
     * A search has ended without having been stopped. status not OK: it could not be carried out;
     * answer and ring are NULL.
     */
    void (*solved)(void *context, uint64_t ticket, enum pccl_status status, const struct pccl_ring_answer *answer,
                   const uint32_t *ring);
    /* the searches' own */
    struct pccl_search *newest;
    uint64_t refused_first, refused_end; /* range of tickets that could not be started: no memory or thread */
};

/*
 * Copies the problem. The answer comes by `solved`, never from inside this call. Tickets must rise.
 */
void pccl_searches_start(struct pccl_searches *searches, uint64_t ticket, const struct pccl_ring_problem *problem);
/* Nobody wants the answer any more. The search ends soon; the loop does not end before it. */
void pccl_searches_stop(struct pccl_searches *searches, uint64_t ticket);
void pccl_searches_stop_all(struct pccl_searches *searches);
/* Whether searches could not be started; the next function answers them. */
bool pccl_searches_has_results(const struct pccl_searches *searches);
void pccl_searches_deliver_results(struct pccl_searches *searches);

#endif
