#include "master/subgroups.h"

#include "master/eligibility.h"
#include "master/hubs.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/roster.h"
#include "wire/cost.h"
#include "wire/subgroup.h"

#include <string.h>

/* ---- who is in them ---- */

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

void pccl_master_free_subgroup(struct pccl_master *m, struct pccl_subgroup *subgroup)
{
    pccl_release(&m->memory, subgroup->members, subgroup->world * sizeof *subgroup->members);
    pccl_release(&m->memory, subgroup->knows, subgroup->world * sizeof *subgroup->knows);
    pccl_release(&m->memory, subgroup->ring, subgroup->world * sizeof *subgroup->ring);
    pccl_release(&m->memory, subgroup->ranks, subgroup->world * sizeof *subgroup->ranks);
    pccl_release(&m->memory, subgroup, sizeof *subgroup);
}

struct pccl_subgroup *pccl_master_allocate_subgroup(struct pccl_master *m, uint64_t name, uint32_t world)
{
    struct pccl_subgroup *subgroup = pccl_allocate(&m->memory, sizeof *subgroup);
    if (subgroup == NULL)
        return NULL;
    subgroup->name = name;
    subgroup->world = world;
    subgroup->members = pccl_allocate(&m->memory, world * sizeof *subgroup->members);
    subgroup->knows = pccl_allocate(&m->memory, world * sizeof *subgroup->knows);
    subgroup->ring = pccl_allocate(&m->memory, world * sizeof *subgroup->ring);
    subgroup->ranks = pccl_allocate(&m->memory, world * sizeof *subgroup->ranks);
    if (subgroup->members != NULL && subgroup->knows != NULL && subgroup->ring != NULL && subgroup->ranks != NULL)
        return subgroup;
    pccl_master_free_subgroup(m, subgroup);
    return NULL;
}

static void enter(struct pccl_peer_group *group, struct pccl_subgroup *subgroup)
{
    subgroup->founded = true;
    pccl_table_insert(&group->subgroups, &subgroup->by_name, subgroup->name);
}

/* NULL: no living member of the group. */
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
    struct pccl_subgroup *subgroup = pccl_master_allocate_subgroup(m, pccl_subgroup_name(founding), world);
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
    pccl_text_add(reason, "no member (any more): ");
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

/* The place in its ring of a member whose link from the one at `from` is wanted, behind `after`. */
static uint32_t next_wanted(const struct pccl_subgroup *subgroup, uint32_t from, uint32_t after)
{
    for (uint32_t place = after; place < subgroup->count; place++)
        if (place != from && (subgroup->cost.mesh != 0 || place == (from + 1) % subgroup->count))
            return place;
    return subgroup->count;
}

/* Adds the subgroup's links to the counts, or removes them. Does nothing if that is already so. */
static void count_links(struct pccl_master *m, struct pccl_subgroup *subgroup, bool more)
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

static bool relies_on(const struct pccl_subgroup *subgroup, const struct pccl_remote *from,
                      const struct pccl_remote *to)
{
    uint32_t one = pccl_master_seat_in(subgroup, from), other = pccl_master_seat_in(subgroup, to);
    if (one == subgroup->count || other == subgroup->count || one == other)
        return false;
    for (uint32_t place = 0; place < subgroup->count; place++)
        if (subgroup->ring[place] == one && subgroup->ring[(place + 1) % subgroup->count] == other)
            return true;
    return subgroup->cost.mesh != 0;
}

/* ---- founding ---- */

/* Members in the order of the group's ring, and in that of their admission. false: out of memory. */
static bool order_members(struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_subgroup *subgroup)
{
    uint32_t places = 0, ranks = 0;
    size_t bytes = group->ring_count * sizeof(uint32_t);
    uint32_t *by_rank = pccl_allocate(&m->memory, bytes); /* the seat of each member of the group, and 1; 0: none */
    if (by_rank == NULL)
        return false;
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
    return true;
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
    if (pccl_master_find_subgroup(group, subgroup->name) != NULL || !order_members(m, group, subgroup))
        return false;
    subgroup->cost = group->cost; /* a part of a mesh is a mesh */
    subgroup->cost.mesh = pccl_cost_has_all_pairs(&group->cost, group->ring_count);
    write_result(subgroup, op->result);
    subgroup->cost = pccl_founded_cost(&(struct pccl_bytes){op->result, op->result_bytes});
    for (uint32_t i = 0; i < subgroup->count; i++)
        subgroup->knows[i] = true;
    enter(group, subgroup);
    subgroup->living = true;
    count_links(m, subgroup, true);
    return true;
}

/* ---- the end ---- */

static void forget(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup)
{
    pccl_table_remove(&group->subgroups, &subgroup->by_name);
    pccl_master_free_subgroup(m, subgroup);
}

/* Once, for all who know of it; each session has the outcomes that were decided before. */
static void end(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_subgroup *subgroup,
                const struct pccl_text *reason)
{
    struct pccl_log_fields fields = {.reason = reason->bytes};
    pccl_master_log(m, PCCL_LOG_INFO, &fields, "a subgroup of %u in group %u ended: %s", subgroup->world, group->number,
                    reason->bytes);
    pccl_master_drop_operations_of(m, group, subgroup);
    struct pccl_msg msg = {.type = PCCL_MSG_subgroup_ended,
                           .as.subgroup_ended = {.subgroup = subgroup->name, .reason = pccl_bytes_of_text(reason)}};
    for (uint32_t i = 0; i < subgroup->count; i++) {
        struct pccl_remote *remote = subgroup->members[i];
        if (remote->where.instance.subgroup == subgroup->name)
            remote->where.call = PCCL_CALL_NONE;
        if (subgroup->living)
            pccl_master_count_seats(remote, subgroup->world, false);
        if (subgroup->knows[i])
            pccl_master_send(m, remote, &msg, 0);
    }
    count_links(m, subgroup, false);
    pccl_master_request_better_links(m, group); /* some may have been counted on */
    pccl_master_request_hub_links(m, group);
    forget(m, group, subgroup);
}

void pccl_master_subgroup_closed(struct pccl_master *m, struct pccl_remote *from, uint64_t name)
{
    struct pccl_subgroup *subgroup = pccl_master_find_subgroup(from->group, name);
    if (subgroup == NULL)
        return; /* it has ended, and the news is under way */
    if (pccl_master_seat_in(subgroup, from) == subgroup->count) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it closed a subgroup that it is not in");
        return;
    }
    struct pccl_text reason;
    pccl_text_format(&reason, "peer %s closed the subgroup", pccl_id_str(&from->id));
    end(m, from->group, subgroup, &reason);
}

const struct pccl_remote *pccl_master_departing_of(const struct pccl_subgroup *subgroup)
{
    for (uint32_t i = 0; i < subgroup->count; i++)
        if (subgroup->members[i]->departing)
            return subgroup->members[i];
    return NULL;
}

void pccl_master_end_departed_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text reason;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        const struct pccl_remote *gone = pccl_master_departing_of(subgroup);
        if (gone == NULL)
            continue;
        pccl_text_format(&reason, "a member of the subgroup is gone: peer %s: %s", pccl_id_str(&gone->id),
                         gone->reason.bytes);
        end(m, group, subgroup, &reason);
    }
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        const struct pccl_remote *gone = !op->decided && op->instance.subgroup == PCCL_FOUNDING && op->subgroup != NULL
                                             ? pccl_master_departing_of(op->subgroup)
                                             : NULL;
        if (gone == NULL)
            continue;
        pccl_text_format(&reason, "no member (any more): peer %s: %s", pccl_id_str(&gone->id), gone->reason.bytes);
        pccl_master_abort(m, group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
    }
}

void pccl_master_end_linked_subgroups(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_remote *to)
{
    struct pccl_peer_group *group = from->group;
    struct pccl_text reason;
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        if (!relies_on(subgroup, from, to))
            continue;
        pccl_text_format(&reason, "the link from peer %s to peer %s failed", pccl_id_str(&from->id),
                         pccl_id_str(&to->id));
        end(m, group, subgroup, &reason);
    }
}

void pccl_master_drop_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_table_node *node; (node = pccl_table_first(&group->subgroups)) != NULL;)
        forget(m, group, PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name));
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
        subgroup->ring[i] = i; /* it is about to end */
    enter(group, subgroup);
    return subgroup;
}

void pccl_master_vouch(struct pccl_subgroup *subgroup, const struct pccl_remote *remote)
{
    uint32_t seat = pccl_master_seat_in(subgroup, remote);
    if (seat < subgroup->count)
        subgroup->knows[seat] = true;
}

static bool is_whole(const struct pccl_subgroup *subgroup)
{
    uint32_t knows = 0;
    for (uint32_t i = 0; i < subgroup->count; i++)
        knows += subgroup->knows[i] && !subgroup->members[i]->departing;
    return knows == subgroup->world;
}

void pccl_master_judge_reported_subgroups(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text reason;
    pccl_text_format(&reason, "not all members of the subgroup came back after the restart of the master");
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&group->subgroups, node);
        struct pccl_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name);
        if (subgroup->living)
            continue; /* founded just now */
        if (!is_whole(subgroup)) {
            end(m, group, subgroup, &reason);
            continue;
        }
        subgroup->living = true;
        for (uint32_t i = 0; i < subgroup->count; i++)
            pccl_master_count_seats(subgroup->members[i], subgroup->world, true);
    }
}

void pccl_master_request_subgroup_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_table_node *node = pccl_table_first(&group->subgroups); node != NULL;
         node = pccl_table_after(&group->subgroups, node))
        count_links(m, PCCL_CONTAINER_OF(node, struct pccl_subgroup, by_name),
                    true); /* except for a subgroup founded just now */
}
