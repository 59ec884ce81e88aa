/* Searches for rings on the worker threads of a loop. All functions must be called on the loop's thread. */
#ifndef PCCL_DRIVE_SEARCHES_H
#define PCCL_DRIVE_SEARCHES_H

#include "topology/solve.h"

#include <uv.h>

struct pccl_search;

struct pccl_searches {
    uv_loop_t *loop;
    const struct pccl_memory *memory; /* must be thread-safe */
    /* Private: */
    struct pccl_search *newest;
    uint32_t ended;                      /* number of searches with results that have not been taken */
    struct pccl_search *taken;           /* search whose result was taken last */
    uint64_t refused_first, refused_end; /* range of tickets that failed to start for lack of memory or threads */
};

/* Result of a search that ended without being stopped. */
struct pccl_search_result {
    uint64_t ticket;
    enum pccl_status status;               /* OK, or the reason why the search failed */
    const struct pccl_ring_answer *answer; /* NULL unless OK, like `ring` */
    const uint32_t *ring;
};

/* Starts a search for a ring. Copies the problem. Tickets must increase. */
void pccl_searches_start(struct pccl_searches *searches, uint64_t ticket, const struct pccl_ring_problem *problem);
/* Stops a search whose answer is not needed. It ends soon; the loop does not end before the search does. */
void pccl_searches_stop(struct pccl_searches *searches, uint64_t ticket);
void pccl_searches_stop_all(struct pccl_searches *searches);
/* Returns true if there are results to take. They arrive while the loop polls or inside pccl_searches_start. */
bool pccl_searches_has_results(const struct pccl_searches *searches);
/* Takes a result, which is valid until the next call. Returns false if there are no results. */
PCCL_MUST_CHECK bool pccl_searches_take(struct pccl_searches *searches, struct pccl_search_result *result);

#endif
