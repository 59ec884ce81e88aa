#include "topology/matrix.h"

#include "core/limits.h"

#include <string.h>

enum { PLACES_LEAST = 8, GROWTH_PART = 4, STEPS_PER_DOUBLING = 64 };

void pccl_matrix_init(struct pccl_matrix *matrix, const struct pccl_memory *memory)
{
    *matrix = (struct pccl_matrix){.memory = *memory};
}

static size_t bytes_of(uint32_t places) { return (size_t)places * places * sizeof(struct pccl_figure); }

void pccl_matrix_fini(struct pccl_matrix *matrix)
{
    pccl_release(&matrix->memory, matrix->figures, bytes_of(matrix->places));
    matrix->figures = NULL;
    matrix->places = 0;
}

/*
 * Returns the number of places to allocate: more than needed, because members arrive one by one, but at most as many as
 * a run can have.
 */
static uint32_t places_for(const struct pccl_matrix *matrix, uint32_t needed)
{
    uint64_t roomy = pccl_max_u64((uint64_t)matrix->places + matrix->places / GROWTH_PART, PLACES_LEAST);
    return (uint32_t)pccl_max_u64(needed, pccl_min_u64(roomy, PCCL_PEERS_MAX));
}

/*
 * Moves the rows of a matrix of `before` columns to their places in one of `now` columns, in the same memory. Starts
 * with the last row, so that no row is overwritten before it has moved.
 */
static void spread_rows(struct pccl_figure *figures, uint32_t before, uint32_t now)
{
    for (uint32_t row = now; row-- > 0;) {
        struct pccl_figure *to = figures + (size_t)row * now;
        uint32_t kept = row < before ? before : 0;
        if (kept > 0)
            memmove(to, figures + (size_t)row * before, kept * sizeof *to);
        memset(to + kept, 0, (now - kept) * sizeof *to);
    }
}

bool pccl_matrix_reserve(struct pccl_matrix *matrix, uint32_t places)
{
    if (places <= matrix->places)
        return true;
    uint32_t now = places_for(matrix, places);
    if (now > SIZE_MAX / sizeof(struct pccl_figure) / now)
        return false;
    struct pccl_figure *figures =
        matrix->memory.resize(matrix->memory.context, matrix->figures, bytes_of(matrix->places), bytes_of(now));
    if (figures == NULL)
        return false;
    spread_rows(figures, matrix->places, now);
    matrix->figures = figures;
    matrix->places = now;
    return true;
}

/* Returns a figure. Both places must exist. */
static struct pccl_figure *cell(const struct pccl_matrix *matrix, uint32_t from, uint32_t to)
{
    return matrix->figures + (size_t)from * matrix->places + to;
}

struct pccl_figure *pccl_matrix_at(const struct pccl_matrix *matrix, uint32_t from, uint32_t to)
{
    PCCL_ASSERT(from != to);
    return from < matrix->places && to < matrix->places ? cell(matrix, from, to) : NULL;
}

void pccl_matrix_forget(struct pccl_matrix *matrix, uint32_t place)
{
    static const struct pccl_figure nothing = {.source = PCCL_FIGURE_NONE};
    for (uint32_t other = 0; place < matrix->places && other < matrix->places; other++) {
        *cell(matrix, place, other) = nothing;
        *cell(matrix, other, place) = nothing;
    }
}

uint64_t pccl_rate_rounded(uint64_t rate)
{
    uint32_t shift = 0;
    while (rate >> shift >= UINT64_C(2) * STEPS_PER_DOUBLING)
        shift++;
    return pccl_max_u64(rate >> shift << shift, 2);
}
