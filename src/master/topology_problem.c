/*
 * A group as a problem for the solver, which knows members by numbers. What is known of links is in
 * topology_estimates.c.
 */
#include "master/links.h"
#include "master/topology.h"

static uint64_t solver_rate(const struct pccl_tuning *tuning, const struct pccl_figure *figure)
{
    switch (figure->source) {
    case PCCL_FIGURE_UNREACHABLE: return PCCL_RATE_NONE;
    case PCCL_FIGURE_NONE:
        return tuning->assumed_rate != 0 ? pccl_rate_rounded(tuning->assumed_rate) : PCCL_RATE_UNKNOWN;
    default: return pccl_rate_rounded(figure->rate);
    }
}

static size_t problem_cells(uint32_t count) { return (size_t)count * count; }

/* The same for the same members, whatever the ring: so a search can be repeated after its answer was adopted. */
void pccl_master_number_members(struct pccl_peer_group *group)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < group->place_count; i++)
        if (group->by_place[i] != NULL)
            group->by_place[i]->number = number++;
    PCCL_ASSERT(number == group->ring_count);
}

bool pccl_master_build_ring_problem(struct pccl_master *m, struct pccl_peer_group *group,
                                    struct pccl_ring_problem *problem)
{
    uint32_t count = group->ring_count;
    size_t cells = problem_cells(count);
    PCCL_ASSERT(count > 0);
    uint64_t *rates = pccl_allocate(&m->memory, cells * sizeof *rates);
    uint32_t *rtts_us = pccl_allocate(&m->memory, cells * sizeof *rtts_us);
    uint32_t *ring = pccl_allocate(&m->memory, count * sizeof *ring);
    *problem = (struct pccl_ring_problem){.count = count, .rates = rates, .rtts_us = rtts_us, .ring = ring};
    if (rates == NULL || rtts_us == NULL || ring == NULL) {
        pccl_master_free_problem(m, problem);
        return false;
    }
    pccl_master_number_members(group);
    pccl_master_calibrate_tests(group);
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *from = group->ring[i];
        ring[i] = from->number;
        for (uint32_t k = 0; k < count; k++) {
            const struct pccl_remote *to = group->ring[k];
            size_t cell = (size_t)from->number * count + to->number;
            struct pccl_figure figure = i != k ? pccl_master_link_estimate(from, to) : (struct pccl_figure){0};
            rates[cell] = solver_rate(&group->tuning, &figure);
            rtts_us[cell] = figure.rtt_us;
        }
    }
    if (pccl_master_exclude_bad_links(m, group, rates))
        return true;
    pccl_master_free_problem(m, problem);
    return false;
}

void pccl_master_free_problem(struct pccl_master *m, struct pccl_ring_problem *problem)
{
    size_t cells = problem_cells(problem->count);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->rates, cells * sizeof *problem->rates);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->rtts_us, cells * sizeof *problem->rtts_us);
    pccl_release(&m->memory, (void *)(uintptr_t)problem->ring, problem->count * sizeof *problem->ring);
    *problem = (struct pccl_ring_problem){0};
}
