/* Searches for the best ring: exactly for a few members, by local search for more (solve_local.c). */
#include "topology/solve.h"

#include "topology/internal.h"

#include <string.h>

/* Copies the ring so that it begins with member 0. */
static void copy_from_0(const uint32_t *ring, uint32_t count, uint32_t *to)
{
    uint32_t first = 0;
    while (ring[first] != 0)
        first++;
    PCCL_ASSERT(first < count);
    for (uint32_t i = 0; i < count; i++)
        to[i] = ring[(first + i) % count];
}

enum pccl_status pccl_ring_solve(const struct pccl_ring_problem *problem, const struct pccl_memory *memory,
                                 bool (*go_on)(void *context), void *context, uint32_t *ring,
                                 struct pccl_ring_answer *answer)
{
    uint32_t count = problem->count;
    PCCL_ASSERT(count >= 1);
    size_t bytes = count * sizeof *ring;
    uint32_t *found = pccl_allocate(memory, bytes);
    if (found == NULL)
        return PCCL_MEMORY;
    bool exists = false, proven = true;
    enum pccl_status status = PCCL_OK;
    struct pccl_ring_worth present = {0};
    if (problem->ring != NULL) {
        present = pccl_ring_worth(problem, problem->ring);
        memcpy(found, problem->ring, bytes);
    }
    if (count == 1) {
        exists = true;
    } else if (count <= PCCL_SOLVE_EXACT_MOST) {
        status = pccl_solve_exact(problem, memory, found, &exists);
    } else {
        struct pccl_solve_work work = {.go_on = go_on, .context = context, .limit = problem->steps};
        exists = present.exists;
        status = pccl_solve_local(problem, memory, &work, found, &exists, &proven);
    }
    if (status == PCCL_OK) {
        struct pccl_ring_worth worth = {0};
        if (exists)
            worth = pccl_ring_worth(problem, found);
        /* The present ring stays unless the new one is better. */
        if (present.exists && pccl_ring_worth_compare(&worth, &present) <= 0) {
            memcpy(found, problem->ring, bytes);
            worth = present;
        }
        if (worth.exists)
            copy_from_0(found, count, ring); /* not earlier, because `ring` may be problem->ring */
        *answer = (struct pccl_ring_answer){worth, proven};
    }
    pccl_release(memory, found, bytes);
    return status;
}
