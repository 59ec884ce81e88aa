#include "topology/solve.h"

#include "topology/internal.h"

#include <string.h>

bool pccl_solve_spend(struct pccl_solve_work *work, uint64_t steps)
{
    enum { QUESTION_EVERY = 8192 };
    work->used += steps;
    if (work->used >= work->question_at && !work->stopped) {
        work->question_at = work->used + QUESTION_EVERY;
        work->stopped = work->go_on != NULL && !work->go_on(work->context);
    }
    return !work->stopped && work->used < work->limit;
}

struct pccl_ring_worth pccl_ring_worth(const struct pccl_ring_problem *problem, const uint32_t *ring)
{
    struct pccl_ring_worth worth = {true, UINT64_MAX, 0};
    uint32_t count = problem->count;
    for (uint32_t i = 0; i < count && count > 1; i++) {
        size_t link = (size_t)ring[i] * count + ring[i + 1 == count ? 0 : i + 1];
        worth.slowest = pccl_min_u64(worth.slowest, problem->rates[link]);
        worth.latency_us += problem->rtts_us[link];
    }
    worth.exists = worth.slowest != PCCL_RATE_NONE;
    return worth;
}

int pccl_ring_worth_compare(const struct pccl_ring_worth *a, const struct pccl_ring_worth *b)
{
    if (!a->exists || !b->exists)
        return (int)a->exists - (int)b->exists;
    if (a->slowest != b->slowest)
        return a->slowest > b->slowest ? 1 : -1;
    return a->latency_us == b->latency_us ? 0 : a->latency_us < b->latency_us ? 1 : -1;
}

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
        /* A ring that is no better is not worth a change. */
        if (present.exists && pccl_ring_worth_compare(&worth, &present) <= 0) {
            memcpy(found, problem->ring, bytes);
            worth = present;
        }
        if (worth.exists)
            copy_from_0(found, count, ring); /* `ring` may be problem->ring */
        *answer = (struct pccl_ring_answer){worth, proven};
    }
    pccl_release(memory, found, bytes);
    return status;
}
