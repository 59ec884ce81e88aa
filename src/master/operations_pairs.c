#include "master/pairs.h"

#include "master/output.h"
#include "master/roster.h"
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

enum pccl_pairing pccl_master_pairing(const struct pccl_peer_group *group, const struct pccl_instance *instance,
                                      const struct pccl_remote *remote)
{
    PCCL_ASSERT(instance->pair != 0);
    const struct pccl_subgroup *pair = find_pair(group, instance->pair), *subgroup = NULL;
    const struct pccl_remote *source, *destination;
    if (pair != NULL) {
        source = pair->members[pair->ring[0]];
        destination = pair->members[pair->ring[1]];
    } else {
        source = numbered(group, pccl_pair_source(instance->pair));
        destination = numbered(group, pccl_pair_destination(instance->pair));
    }
    if ((source == remote) == (destination == remote))
        return PCCL_PAIR_OF_OTHERS;
    if (source == NULL || destination == NULL)
        return PCCL_PAIR_BROKEN;
    if (instance->subgroup != 0)
        subgroup = pccl_master_find_subgroup(group, instance->subgroup);
    bool apart = subgroup != NULL && (pccl_master_seat_in(subgroup, source) == subgroup->count ||
                                      pccl_master_seat_in(subgroup, destination) == subgroup->count);
    return apart ? PCCL_PAIR_OF_OTHERS : PCCL_PAIR_WHOLE;
}

bool pccl_master_fits_pair(const struct pccl_msg_done *done, const struct pccl_remote *from)
{
    bool is_source = pccl_pair_source(done->instance.pair) == from->admitted;
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

/* ---- offers ---- */

struct listen {
    struct pccl_table_node by_tag;
    uint64_t subgroup, tag;
    uint32_t count; /* how many more may be offered: 1 or more */
};

static struct listen *find_listen(const struct pccl_remote *remote, uint64_t subgroup, uint64_t tag)
{
    struct pccl_table_node *node = pccl_table_find(&remote->listens, subgroup + tag);
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct listen *listen = PCCL_CONTAINER_OF(node, struct listen, by_tag);
        if (listen->tag == tag && listen->subgroup == subgroup)
            return listen;
    }
    return NULL;
}

static void forget_listen(struct pccl_master *m, struct pccl_remote *remote, struct listen *listen)
{
    pccl_table_remove(&remote->listens, &listen->by_tag);
    pccl_release(&m->memory, listen, sizeof *listen);
}

void pccl_master_forget_listens(struct pccl_master *m, struct pccl_remote *remote)
{
    for (struct pccl_table_node *node; (node = pccl_table_first(&remote->listens)) != NULL;)
        forget_listen(m, remote, PCCL_CONTAINER_OF(node, struct listen, by_tag));
}

void pccl_master_offer(struct pccl_master *m, struct pccl_operation *op)
{
    if (op->instance.pair == 0 || op->decided || !op->tiny || op->offered || op->done_count != 1)
        return;
    const struct pccl_subgroup *pair = op->subgroup;
    uint32_t seat = pair->members[0]->admitted == pccl_pair_destination(op->instance.pair) ? 0 : 1;
    struct pccl_remote *receiver = pair->members[seat];
    struct listen *listen =
        op->parts[seat].done ? NULL : find_listen(receiver, op->instance.subgroup, op->instance.tag);
    if (listen == NULL)
        return;
    op->offered = true;
    if (--listen->count == 0)
        forget_listen(m, receiver, listen);
    struct pccl_msg msg = {.type = PCCL_MSG_offer, .as.offer = {.instance = op->instance}};
    pccl_master_send(m, receiver, &msg, 0);
}

void pccl_master_listen(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_listen *asked)
{
    struct listen *listen = find_listen(from, asked->subgroup, asked->tag);
    if (asked->count == 0) {
        if (listen != NULL)
            forget_listen(m, from, listen);
        return;
    }
    if (listen == NULL && from->listens.count == PCCL_LISTENED_MAX) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it asks for sends of too many tags");
        return;
    }
    if (listen == NULL) {
        listen = pccl_allocate(&m->memory, sizeof *listen);
        if (listen == NULL) {
            pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
            return;
        }
        listen->subgroup = asked->subgroup;
        listen->tag = asked->tag;
        pccl_table_insert(&from->listens, &listen->by_tag, asked->subgroup + asked->tag);
    }
    listen->count = asked->count;
    for (struct pccl_operation *op = from->group->oldest; op != NULL; op = op->newer)
        if (op->instance.tag == asked->tag && op->instance.subgroup == asked->subgroup &&
            pccl_pair_destination(op->instance.pair) == from->admitted)
            pccl_master_offer(m, op);
}
