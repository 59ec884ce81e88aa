/* Compares rings and counts the steps of all searches. */
#include "topology/internal.h"

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
