/* Callbacks that give the comparison of reports (verdicts.h) the facts about the group's members. */
#include "master/diagnosis_internal.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/roster.h"

static uint32_t position_of(const void *context, const struct pccl_id *id)
{
    const struct pccl_reported *all = context;
    const struct pccl_remote *remote = pccl_master_find(all->m, id);
    return remote != NULL && remote->group == all->group ? remote->position : all->group->ring_count;
}

/*
 * Returns true if the member takes part in the operation. For a pair, returns true for all members of the group: one
 * end always arrives first, so only the waits of other members show a problem.
 */
static bool takes_part(const void *context, uint32_t position, const struct pccl_instance *instance)
{
    const struct pccl_reported *all = context;
    return instance->pair != 0 || pccl_master_standing(all->group->ring[position], instance) != PCCL_STANDING_NONE;
}

/* Returns true if operations use this link: along the ring, directly, or in a subgroup. */
static bool uses(const void *context, uint32_t from, uint32_t to)
{
    const struct pccl_reported *all = context;
    return pccl_master_needs_link(all->group->ring[from], all->group->ring[to]);
}

bool pccl_master_gather_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses)
{
    const struct pccl_peer_group *group = all->group;
    *witnesses = (struct pccl_witnesses){
        .count = group->ring_count, .find = position_of, .takes_part = takes_part, .uses = uses, .context = all};
    witnesses->all = pccl_allocate(&all->m->memory, group->ring_count * sizeof *witnesses->all);
    for (uint32_t i = 0; i < group->ring_count && witnesses->all != NULL; i++)
        witnesses->all[i] = group->ring[i]->witness;
    return witnesses->all != NULL;
}

void pccl_master_drop_witnesses(const struct pccl_reported *all, struct pccl_witnesses *witnesses)
{
    pccl_release(&all->m->memory, witnesses->all, witnesses->count * sizeof *witnesses->all);
}
