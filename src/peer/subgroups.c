#include "peer/subgroups.h"

#include "peer/links.h"
#include "peer/members.h"
#include "peer/output.h"
#include "peer/pairs.h"
#include "peer/queries.h"
#include "peer/member_list.h"
#include "wire/subgroup.h"

#include <string.h>

/* ---- the table ---- */

static struct pccl_peer_subgroup *of_node(struct pccl_table_node *node)
{
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_peer_subgroup, by_name) : NULL;
}

struct pccl_peer_subgroup *pccl_peer_find_subgroup(const struct pccl_peer *p, uint64_t name)
{
    return of_node(pccl_table_find(&p->subgroups, name));
}

const struct pccl_peer_participants *pccl_peer_all_of(const struct pccl_peer *p, uint64_t name)
{
    if (name == 0 || name == PCCL_FOUNDING)
        return &p->group;
    const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, name);
    return subgroup != NULL ? &subgroup->all : NULL;
}

bool pccl_peer_has_member(const struct pccl_peer *p, const struct pccl_peer_participants *all, const struct pccl_id *id)
{
    if (all == &p->group)
        return pccl_peer_is_in_group(p, id); /* faster, because the group has an index and may be large */
    return all != NULL && pccl_id_find(all->ring, all->count, id) < all->count;
}

const struct pccl_peer_participants *
pccl_peer_members_of(const struct pccl_peer *p, const struct pccl_instance *instance, struct pccl_peer_pair *pair)
{
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, instance->subgroup);
    return all == NULL || instance->pair == 0 ? all : pccl_peer_pair(p, instance->pair, pair);
}

bool pccl_peer_takes_part(const struct pccl_peer *p, const struct pccl_instance *instance, const struct pccl_id *id)
{
    struct pccl_peer_pair pair;
    return pccl_peer_has_member(p, pccl_peer_members_of(p, instance, &pair), id);
}

bool pccl_peer_has_future(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, instance->subgroup);
    return all != NULL && !all->ended && !all->closed && pccl_peer_pair_has_future(p, instance->pair);
}

static void free_subgroup(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup)
{
    pccl_release(&p->memory, subgroup->all.ring, subgroup->all.count * sizeof *subgroup->all.ring);
    pccl_release(&p->memory, subgroup->all.positions, subgroup->all.count * sizeof *subgroup->all.positions);
    pccl_release(&p->memory, subgroup, sizeof *subgroup);
}

void pccl_peer_forget_subgroup(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup)
{
    if (!subgroup->all.ended || !subgroup->all.closed)
        return;
    pccl_table_remove(&p->subgroups, &subgroup->by_name);
    free_subgroup(p, subgroup);
}

void pccl_peer_free_subgroups(struct pccl_peer *p)
{
    for (struct pccl_table_node *node; (node = pccl_table_first(&p->subgroups)) != NULL;) {
        pccl_table_remove(&p->subgroups, node);
        free_subgroup(p, of_node(node));
    }
}

bool pccl_peer_has_seats(const struct pccl_peer *p, uint32_t count)
{
    return p->founded_count < PCCL_SUBGROUPS_MAX && p->seat_count + count <= PCCL_SUBGROUP_SEATS_MAX;
}

void pccl_peer_count_seats(struct pccl_peer *p, uint32_t count, bool add)
{
    PCCL_ASSERT(add || (p->founded_count > 0 && p->seat_count >= count));
    p->founded_count = add ? p->founded_count + 1 : p->founded_count - 1;
    p->seat_count = add ? p->seat_count + count : p->seat_count - count;
}

/* ---- founding ---- */

/* Returns true if the ascending list contains the id. */
static bool has_id(const struct pccl_id *ids, uint32_t count, const struct pccl_id *id)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = pccl_id_compare(&ids[middle], id) < 0;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low < count && pccl_id_equal(&ids[low], id);
}

enum pccl_status pccl_peer_take_founders(const struct pccl_peer *p, const struct pccl_id *members, uint32_t count,
                                         struct pccl_id *ids)
{
    PCCL_ASSERT(p->member_list != NULL);
    uint32_t known = 0;
    memcpy(ids, members, count * sizeof *ids);
    pccl_ids_sort(ids, count);
    for (uint32_t i = 0; i + 1 < count; i++)
        if (pccl_id_equal(&ids[i], &ids[i + 1]))
            return PCCL_ARGUMENT;
    if (!has_id(ids, count, &p->config.id))
        return PCCL_ARGUMENT;
    for (uint32_t i = 0; i < p->member_list->count; i++)
        known += has_id(ids, count, &p->member_list->members[i].peer);
    return known == count ? PCCL_OK : PCCL_MEMBERS_CHANGED;
}

/*
 * Fills in the places and ranks of the members. Returns false unless they are exactly the members of the list, each in
 * a different place.
 */
static bool fill_in(const struct pccl_peer *p, struct pccl_peer_participants *all, const struct pccl_bytes *list,
                    const struct pccl_bytes *founded)
{
    if (!pccl_founded_has_ring(founded))
        return false;
    for (uint32_t rank = 0; rank < all->count; rank++) {
        struct pccl_founded_seat seat = pccl_founded_seat(founded, rank);
        all->ring[seat.place] = seat.id;
        all->positions[seat.place] = rank;
        if (pccl_id_equal(&seat.id, &p->config.id))
            all->place = seat.place;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        /* the ids in the list are distinct, so there is no other member */
        struct pccl_id id = pccl_founding_id(list, i);
        if (!pccl_peer_has_member(p, all, &id))
            return false;
    }
    return true;
}

/* Returns true if the subgroup needs the link from this peer to the member at this place in its ring. */
static bool relies_on(const struct pccl_peer_participants *all, uint32_t place)
{
    return place != all->place && (all->cost.mesh != 0 || place == (all->place + 1) % all->count);
}

static enum pccl_status want_links(struct pccl_peer *p, const struct pccl_peer_participants *all)
{
    for (uint32_t place = 0; place < all->count; place++)
        if (relies_on(all, place) && !pccl_peer_want_link(p, &all->ring[place]))
            return PCCL_MEMORY;
    return PCCL_OK;
}

enum pccl_status pccl_peer_add_subgroup(struct pccl_peer *p, const struct pccl_instance *founding,
                                        const struct pccl_bytes *list, const struct pccl_bytes *founded)
{
    uint32_t count = pccl_founded_count(founded);
    uint64_t name = pccl_subgroup_name(founding);
    if (list->length != pccl_founding_bytes(count) || pccl_peer_find_subgroup(p, name) != NULL)
        return PCCL_MALFORMED;
    struct pccl_peer_subgroup *subgroup = pccl_allocate(&p->memory, sizeof *subgroup);
    if (subgroup == NULL)
        return PCCL_MEMORY;
    subgroup->name = name;
    subgroup->founding = *founding;
    subgroup->all = (struct pccl_peer_participants){
        .count = count,
        .ring = pccl_allocate(&p->memory, count * sizeof *subgroup->all.ring),
        .positions = pccl_allocate(&p->memory, count * sizeof *subgroup->all.positions),
        .cost = pccl_founded_cost(founded),
    };
    bool made = subgroup->all.ring != NULL && subgroup->all.positions != NULL;
    if (!made || !fill_in(p, &subgroup->all, list, founded)) {
        free_subgroup(p, subgroup);
        return made ? PCCL_MALFORMED : PCCL_MEMORY;
    }
    pccl_table_insert(&p->subgroups, &subgroup->by_name, name);
    pccl_peer_count_seats(p, count, true);
    return want_links(p, &subgroup->all);
}

void pccl_peer_mark_ended(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup, const struct pccl_text *reason)
{
    struct pccl_peer_participants *all = &subgroup->all;
    PCCL_ASSERT(!all->ended);
    all->ended = true;
    subgroup->reason = *reason;
    pccl_peer_count_seats(p, all->count, false);
    for (uint32_t place = 0; place < all->count; place++)
        if (relies_on(all, place))
            pccl_peer_unwant_link(p, &all->ring[place]);
}

/* ---- closing, reporting ---- */

static void send_closed(struct pccl_peer *p, const struct pccl_peer_subgroup *subgroup)
{
    struct pccl_msg msg = {.type = PCCL_MSG_subgroup_end, .as.subgroup_end = {.subgroup = subgroup->name}};
    if (!p->resuming)
        pccl_peer_send(p, &msg);
}

void pccl_peer_close_subgroup(struct pccl_peer *p, uint64_t name)
{
    struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, name);
    PCCL_ASSERT(subgroup != NULL && !subgroup->all.closed);
    subgroup->all.closed = true;
    if (!subgroup->all.ended)
        send_closed(p, subgroup);
    pccl_peer_forget_subgroup(p, subgroup);
}

void pccl_peer_resend_closings(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->subgroups); node != NULL;
         node = pccl_table_after(&p->subgroups, node))
        if (of_node(node)->all.closed)
            send_closed(p, of_node(node));
}

static void report(struct pccl_peer *p, const struct pccl_peer_subgroup *subgroup)
{
    const struct pccl_peer_participants *all = &subgroup->all;
    uint32_t bytes = pccl_founded_bytes(all->count);
    uint8_t *founded = pccl_allocate(&p->memory, bytes);
    if (founded == NULL) {
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
        return;
    }
    pccl_founded_put_cost(founded, &all->cost);
    for (uint32_t place = 0; place < all->count; place++)
        pccl_founded_put_seat(founded, all->positions[place], &(struct pccl_founded_seat){all->ring[place], place});
    struct pccl_msg msg = {.type = PCCL_MSG_resume_subgroup,
                           .as.resume_subgroup = {.founding = subgroup->founding, .founded = {founded, bytes}}};
    pccl_peer_send(p, &msg);
    pccl_release(&p->memory, founded, bytes);
}

void pccl_peer_resume_subgroups(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->subgroups); node != NULL;
         node = pccl_table_after(&p->subgroups, node))
        if (!of_node(node)->all.ended && p->state == PCCL_PEER_MEMBER)
            report(p, of_node(node));
}

/* ---- queries ---- */

const struct pccl_peer_subgroup *pccl_peer_subgroup(const struct pccl_peer *p, uint64_t name)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, name);
    return subgroup != NULL && !subgroup->all.closed ? subgroup : NULL;
}

const struct pccl_peer_participants *pccl_peer_participants(const struct pccl_peer *p, uint64_t name)
{
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, name);
    return all != NULL && !all->closed ? all : NULL;
}

const struct pccl_peer_subgroup *pccl_peer_founded(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    bool founded =
        op->descriptor.collective == PCCL_FOUND && op->state == PCCL_OP_DECIDED && op->class == PCCL_CLASS_NONE;
    return founded ? pccl_peer_subgroup(p, pccl_subgroup_name(&op->instance)) : NULL;
}
