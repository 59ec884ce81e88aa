/*
 * Figures of the links between the members of a group, one for each directed pair. A member keeps its place, the index
 * of its row and column, while others join and leave. Pure.
 */
#ifndef PCCL_TOPOLOGY_MATRIX_H
#define PCCL_TOPOLOGY_MATRIX_H

#include "core/base.h"
#include "core/memory.h"

enum pccl_figure_source {
    PCCL_FIGURE_NONE,        /* unknown */
    PCCL_FIGURE_TESTED,      /* from a test */
    PCCL_FIGURE_TRAFFIC,     /* from the rates of operations */
    PCCL_FIGURE_UNREACHABLE, /* no data arrives */
    PCCL_FIGURE_SOURCES,
};

struct pccl_figure {
    uint64_t rate;        /* bytes per second; 0 unless TESTED or TRAFFIC */
    uint64_t at_us;       /* time of the measurement */
    uint64_t tested_rate; /* rate of the last test; 0 if there was none */
    uint32_t rtt_us;
    uint8_t source; /* enum pccl_figure_source */
    bool judged;    /* TRAFFIC: true if the figure is from a verdict, not from a report */
};

struct pccl_matrix {
    struct pccl_memory memory;
    uint32_t places; /* number of rows and columns */
    struct pccl_figure *figures;
};

void pccl_matrix_init(struct pccl_matrix *matrix, const struct pccl_memory *memory);
void pccl_matrix_fini(struct pccl_matrix *matrix);
/*
 * Ensures that there are at least `places` places. Returns false, with no change, if out of memory. Invalidates all
 * pointers from pccl_matrix_at.
 */
PCCL_MUST_CHECK bool pccl_matrix_reserve(struct pccl_matrix *matrix, uint32_t places);
/*
 * Returns the figure of a pair, from != to. It is all zero (NONE) until the caller writes it. Returns NULL if the place
 * has not been reserved.
 */
struct pccl_figure *pccl_matrix_at(const struct pccl_matrix *matrix, uint32_t from, uint32_t to);
/* Deletes the figures of a member that has left its place. */
void pccl_matrix_forget(struct pccl_matrix *matrix, uint32_t place);

/*
 * Rounds a rate down to one of 64 steps per doubling (about 1 %), so that noise in rates does not outweigh latency in
 * the solver. Returns at least 2, because 0 and 1 mean none and unknown.
 */
uint64_t pccl_rate_rounded(uint64_t rate);

#endif
