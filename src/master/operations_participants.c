/* Subgroups: their members, founding and links; pairs and their offers. operations_ends.c ends subgroups. */
#include "master/operations_internal.h"
#include "master/links.h"
#include "master/output.h"
#include "master/roster.h"
#include "wire/cost.h"
#include "wire/subgroup.h"

#include <string.h>

/* ---- members ---- */

struct pccl_subgroup *pccl_master_find_subgroup(const struct pccl_peer_group *group, uint64_t name)
{
    struct pccl_table_node *node = pccl_table_find(&group->subgroups, name);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name) : NULL;
}

uint32_t pccl_master_seat_in(const struct pccl_subgroup *subgroup, const struct pccl_remote *remote)
{
    uint32_t low = 0, high = subgroup->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = pccl_id_compare(&subgroup->members[middle]->id, &remote->id) < 0;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low < subgroup->count && subgroup->members[low] == remote ? low : subgroup->count;
}

/* Returns the size of the block that contains the struct and its arrays. */
static size_t bytes_of(uint32_t world)
{
    const struct pccl_subgroup *lists = NULL;
    return sizeof *lists +
           world * (sizeof *lists->members + sizeof *lists->ring + sizeof *lists->ranks + sizeof *lists->knows);
}

void pccl_master_free_subgroup(struct pccl_master *m, struct pccl_subgroup *subgroup)
{
    pccl_release(&m->memory, subgroup, bytes_of(subgroup->world));
}

/* Allocates a subgroup without members. Returns NULL if out of memory. */
static struct pccl_subgroup *allocate_subgroup(struct pccl_master *m, uint64_t name, uint32_t world)
{
    struct pccl_subgroup *subgroup = pccl_allocate(&m->memory, bytes_of(world));
    if (subgroup == NULL)
        return NULL;
    subgroup->name = name;
    subgroup->world = world;
    subgroup->members = (void *)&subgroup[1];
    subgroup->ring = (void *)&subgroup->members[world];
    subgroup->ranks = &subgroup->ring[world];
    subgroup->knows = (void *)&subgroup->ranks[world];
    return subgroup;
}

void pccl_master_count_seats(struct pccl_remote *remote, uint32_t count, bool add)
{
    PCCL_ASSERT(add || (remote->founded_count > 0 && remote->seat_count >= count));
    remote->founded_count = add ? remote->founded_count + 1 : remote->founded_count - 1;
    remote->seat_count = add ? remote->seat_count + count : remote->seat_count - count;
}

static void enter(struct pccl_peer_group *group, struct pccl_subgroup *subgroup)
{
    PCCL_ASSERT(!subgroup->founded && pccl_master_find_subgroup(group, subgroup->name) == NULL);
    subgroup->founded = true;
    pccl_table_insert(&group->subgroups, &subgroup->by_name, subgroup->name);
}

/* Returns the living member of the group with this id; NULL if none exists. */
static struct pccl_remote *member_of(const struct pccl_master *m, const struct pccl_peer_group *group,
                                     const struct pccl_id *id)
{
    struct pccl_remote *remote = pccl_master_find(m, id);
    return remote != NULL && pccl_master_is_living_member(remote) && remote->group == group ? remote : NULL;
}

struct pccl_subgroup *pccl_master_make_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                const struct pccl_instance *founding, const struct pccl_bytes *list)
{
    uint32_t world = list->length / (uint32_t)sizeof(struct pccl_id);
    struct pccl_subgroup *subgroup = allocate_subgroup(m, pccl_subgroup_name(founding), world);
    if (subgroup != NULL)
        subgroup->founding = *founding;
    for (uint32_t i = 0; subgroup != NULL && i < world; i++) {
        struct pccl_id id = pccl_founding_id(list, i);
        struct pccl_remote *remote = member_of(m, group, &id);
        if (remote != NULL)
            subgroup->members[subgroup->count++] = remote;
    }
    return subgroup;
}

void pccl_master_add_strangers(const struct pccl_master *m, const struct pccl_peer_group *group,
                               const struct pccl_bytes *list, struct pccl_text *reason)
{
    enum { NAMED_MAX = 4 };
    uint32_t strangers = 0;
    pccl_text_add(reason, "not a current member: ");
    for (uint32_t i = 0; i < list->length / sizeof(struct pccl_id); i++) {
        struct pccl_id id = pccl_founding_id(list, i);
        if (member_of(m, group, &id) != NULL)
            continue;
        if (++strangers <= NAMED_MAX)
            pccl_text_append(reason, "%speer %s", strangers > 1 ? ", " : "", pccl_id_str(&id));
        else if (strangers == NAMED_MAX + 1)
            pccl_text_add(reason, ", ...");
    }
}

/* ---- links ---- */

/*
 * Returns the first place, starting at `after`, whose member needs a link from the member at place `from`;
 * subgroup->count if no member does.
 */
static uint32_t next_wanted(const struct pccl_subgroup *subgroup, uint32_t from, uint32_t after)
{
    for (uint32_t place = after; place < subgroup->count; place++)
        if (place != from && (subgroup->cost.mesh != 0 || place == (from + 1) % subgroup->count))
            return place;
    return subgroup->count;
}

void pccl_master_count_subgroup_links(struct pccl_master *m, struct pccl_subgroup *subgroup, bool more)
{
    if (subgroup->holds_links == more)
        return;
    subgroup->holds_links = more;
    for (uint32_t from = 0; from < subgroup->count; from++)
        for (uint32_t to = next_wanted(subgroup, from, 0); to < subgroup->count;
             to = next_wanted(subgroup, from, to + 1))
            pccl_master_count_link(m, subgroup->members[subgroup->ring[from]], subgroup->members[subgroup->ring[to]],
                                   more);
}

/* ---- founding ---- */

/*
 * Sets the subgroup's ring, in the group's ring order as far as its members can be linked, and its ranks, by admission.
 * Returns NONE, with two members that cannot be linked in `reason`, if there is no ring.
 */
static enum pccl_order_end order_members(struct pccl_master *m, const struct pccl_peer_group *group,
                                         struct pccl_subgroup *subgroup, struct pccl_text *reason)
{
    uint32_t places = 0, ranks = 0;
    size_t bytes = group->ring_count * sizeof(uint32_t);
    /* by rank in the group: 1 + seat in the subgroup; 0: not in the subgroup */
    uint32_t *by_rank = pccl_allocate(&m->memory, bytes);
    if (by_rank == NULL)
        return PCCL_ORDER_MEMORY;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        uint32_t seat = pccl_master_seat_in(subgroup, group->ring[i]);
        if (seat == subgroup->count)
            continue;
        subgroup->ring[places++] = seat;
        by_rank[group->ring[i]->rank] = seat + 1;
    }
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (by_rank[i] != 0)
            subgroup->ranks[by_rank[i] - 1] = ranks++;
    pccl_release(&m->memory, by_rank, bytes);
    PCCL_ASSERT(places == subgroup->count && ranks == places);
    const struct pccl_remote *one, *other;
    enum pccl_order_end end = pccl_master_order_apart(m, subgroup->members, subgroup->ring, subgroup->count);
    if (end == PCCL_ORDER_NONE && pccl_master_find_unlinkable(subgroup->members, subgroup->count, &one, &other))
        pccl_text_format(reason,
                         "no ring of these members exists: peers %s and %s cannot be linked, because the master can "
                         "reach the port of neither",
                         pccl_id_str(&one->id), pccl_id_str(&other->id));
    return end;
}

static void write_result(const struct pccl_subgroup *subgroup, uint8_t *founded)
{
    pccl_founded_put_cost(founded, &subgroup->cost);
    for (uint32_t place = 0; place < subgroup->count; place++) {
        uint32_t seat = subgroup->ring[place];
        pccl_founded_put_seat(founded, subgroup->ranks[seat],
                              &(struct pccl_founded_seat){subgroup->members[seat]->id, place});
    }
}

bool pccl_master_found(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    struct pccl_subgroup *subgroup = op->subgroup;
    PCCL_ASSERT(subgroup->count == subgroup->world && op->result_bytes == pccl_founded_bytes(subgroup->count));
    if (pccl_master_find_subgroup(group, subgroup->name) != NULL ||
        order_members(m, group, subgroup, &op->reason) != PCCL_ORDER_FOUND)
        return false;
    subgroup->cost = group->cost; /* a part of a mesh is a mesh */
    subgroup->cost.mesh = pccl_cost_has_all_pairs(&group->cost, group->ring_count);
    write_result(subgroup, op->result);
    subgroup->cost = pccl_founded_cost(&(struct pccl_bytes){op->result, op->result_bytes});
    for (uint32_t i = 0; i < subgroup->count; i++)
        subgroup->knows[i] = true;
    enter(group, subgroup);
    subgroup->living = true;
    pccl_master_count_subgroup_links(m, subgroup, true);
    return true;
}

/* ---- the end of subgroups ---- */

void pccl_master_forget_subgroup(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup)
{
    PCCL_ASSERT(subgroup->founded);
    pccl_table_remove(&group->subgroups, &subgroup->by_name);
    pccl_master_free_subgroup(m, subgroup);
}

const struct pccl_remote *pccl_master_departing_of(const struct pccl_subgroup *subgroup)
{
    for (uint32_t i = 0; i < subgroup->count; i++)
        if (subgroup->members[i]->departing)
            return subgroup->members[i];
    return NULL;
}

void pccl_master_drop_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_table_node *node; (node = pccl_table_first(&group->subgroups)) != NULL;)
        pccl_master_forget_subgroup(m, group, PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name));
}

/* ---- after a restart ---- */

struct pccl_subgroup *pccl_master_reported_subgroup(struct pccl_master *m, struct pccl_peer_group *group,
                                                    const struct pccl_instance *founding,
                                                    const struct pccl_bytes *founded)
{
    struct pccl_subgroup *subgroup = pccl_master_find_subgroup(group, pccl_subgroup_name(founding));
    if (subgroup != NULL)
        return subgroup;
    uint32_t world = pccl_founded_count(founded);
    size_t bytes = pccl_founding_bytes(world);
    struct pccl_id *ids = pccl_allocate(&m->memory, bytes);
    if (ids == NULL)
        return NULL;
    pccl_founded_list(founded, ids);
    subgroup = pccl_master_make_subgroup(m, group, founding, &(struct pccl_bytes){ids->bytes, (uint32_t)bytes});
    pccl_release(&m->memory, ids, bytes);
    if (subgroup == NULL)
        return NULL;
    subgroup->cost = pccl_founded_cost(founded);
    for (uint32_t rank = 0, present = 0; rank < world; rank++) {
        struct pccl_founded_seat seat = pccl_founded_seat(founded, rank);
        const struct pccl_remote *remote = member_of(m, group, &seat.id);
        if (remote == NULL)
            continue;
        subgroup->ranks[pccl_master_seat_in(subgroup, remote)] = present++;
        if (subgroup->count == world)
            subgroup->ring[seat.place] = pccl_master_seat_in(subgroup, remote);
    }
    for (uint32_t i = 0; subgroup->count < world && i < subgroup->count; i++)
        subgroup->ring[i] = i; /* its members are incomplete, so it will end */
    enter(group, subgroup);
    return subgroup;
}

void pccl_master_vouch(struct pccl_subgroup *subgroup, const struct pccl_remote *remote)
{
    uint32_t seat = pccl_master_seat_in(subgroup, remote);
    if (seat < subgroup->count)
        subgroup->knows[seat] = true;
}

void pccl_master_request_subgroup_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); node != NULL;
         node = pccl_table_after(&group->subgroups, node))
        pccl_master_count_subgroup_links(m, PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name),
                                         true); /* no effect on a subgroup that was founded just now */
}

/* ---- pairs (PROTOCOL 16) ---- */

static struct pccl_subgroup *find_pair(const struct pccl_peer_group *group, uint64_t name)
{
    struct pccl_table_node *node = pccl_table_find(&group->pairs, name);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name) : NULL;
}

/*
 * Returns the member with this admission number; NULL if none exists. After a restart, lying members can share a
 * number; it then belongs to the lowest id.
 */
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

enum pccl_standing pccl_master_standing_in_pair(const struct pccl_remote *remote, const struct pccl_subgroup *subgroup,
                                                uint64_t name)
{
    const struct pccl_peer_group *group = remote->group;
    const struct pccl_subgroup *pair = find_pair(group, name);
    const struct pccl_remote *source, *destination;
    if (pair != NULL) {
        source = pair->members[pair->ring[0]];
        destination = pair->members[pair->ring[1]];
    } else {
        source = numbered(group, pccl_pair_source(name));
        destination = numbered(group, pccl_pair_destination(name));
    }
    if ((source == remote) == (destination == remote))
        return PCCL_STANDING_NONE;
    if (source == NULL || destination == NULL)
        return PCCL_STANDING_ENDED;
    const struct pccl_remote *other = source == remote ? destination : source;
    bool apart = subgroup != NULL && pccl_master_seat_in(subgroup, other) == subgroup->count;
    return apart ? PCCL_STANDING_NONE : PCCL_STANDING_MEMBER;
}

struct pccl_subgroup *pccl_master_enter_pair(struct pccl_master *m, struct pccl_peer_group *group, uint64_t name)
{
    struct pccl_subgroup *pair = find_pair(group, name);
    if (pair == NULL)
        pair = allocate_subgroup(m, name, 2);
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
    uint32_t count; /* remaining offers, at least 1 */
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
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it announced receives for too many tags");
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
