#include "master/pairs.h"

#include "master/subgroups.h"
#include "wire/subgroup.h"

static struct pccl_subgroup *find_pair(const struct pccl_peer_group *group, uint64_t name)
{
    struct pccl_table_node *node = pccl_table_find(&group->pairs, name);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name) : NULL;
}

/* NULL: none. Members that lie can have one number after a restart: then the first by id has it. */
static struct pccl_remote *numbered(const struct pccl_peer_group *group, uint64_t admitted)
{
    struct pccl_remote *found = NULL;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *remote = group->ring[i];
        if (remote->admitted == admitted && (found == NULL || pccl_id_compare(&remote->id, &found->id) < 0))
            found = remote;
    }
    return found;
}

enum pccl_pairing pccl_master_pairing(const struct pccl_peer_group *group, uint64_t name,
                                      const struct pccl_remote *remote)
{
    const struct pccl_subgroup *pair = find_pair(group, name);
    if (pair != NULL)
        return pccl_master_seat_in(pair, remote) < pair->count ? PCCL_PAIR_WHOLE : PCCL_PAIR_OF_OTHERS;
    const struct pccl_remote *source = numbered(group, pccl_pair_source(name));
    const struct pccl_remote *destination = numbered(group, pccl_pair_destination(name));
    if ((source == remote) == (destination == remote))
        return PCCL_PAIR_OF_OTHERS;
    return source != NULL && destination != NULL ? PCCL_PAIR_WHOLE : PCCL_PAIR_BROKEN;
}

bool pccl_master_fits_pair(const struct pccl_msg_done *done, const struct pccl_remote *from)
{
    bool is_source = pccl_pair_source(done->instance.subgroup) == from->admitted;
    return pccl_id_equal(&done->descriptor.root, &from->id) == is_source;
}

struct pccl_subgroup *pccl_master_enter_pair(struct pccl_master *m, struct pccl_peer_group *group, uint64_t name)
{
    struct pccl_subgroup *pair = find_pair(group, name);
    if (pair == NULL)
        pair = pccl_master_allocate_subgroup(m, name, 2);
    if (pair == NULL || pair->operations++ > 0)
        return pair;
    struct pccl_remote *source = numbered(group, pccl_pair_source(name));
    struct pccl_remote *destination = numbered(group, pccl_pair_destination(name));
    PCCL_ASSERT(source != NULL && destination != NULL && source != destination);
    uint32_t seat = pccl_id_compare(&source->id, &destination->id) < 0 ? 0 : 1;
    pair->members[pair->ring[0] = seat] = source;
    pair->members[pair->ring[1] = 1 - seat] = destination;
    pair->ranks[seat] = source->rank < destination->rank ? 0 : 1;
    pair->ranks[1 - seat] = 1 - pair->ranks[seat];
    pair->count = 2;
    pair->founded = true;
    pccl_table_insert(&group->pairs, &pair->by_name, name);
    return pair;
}

void pccl_master_leave_pair(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *pair)
{
    PCCL_ASSERT(pair->operations > 0);
    if (--pair->operations > 0)
        return;
    pccl_table_remove(&group->pairs, &pair->by_name);
    pccl_master_free_subgroup(m, pair);
}
