/* Sorted list of the members of the run with an index by id, and queries about the members. */
#include "peer/members.h"

#include <string.h>

/*
 * Compares two members in the order of the list. Admission numbers are distinct, unless members have lied to a
 * restarted master.
 */
static bool is_before(const struct pccl_member *a, const struct pccl_member *b)
{
    if (a->group != b->group)
        return a->group < b->group;
    return a->admitted != b->admitted ? a->admitted < b->admitted : pccl_id_compare(&a->peer, &b->peer) < 0;
}

/* ---- the index by id ---- */

static uint32_t slot_of(const struct pccl_peer *p, const struct pccl_id *id)
{
    return (uint32_t)(pccl_id_hash(&p->hash, id) >> p->slot_shift);
}

static uint32_t slot_after(const struct pccl_peer *p, uint32_t slot)
{
    return (slot + 1) & (uint32_t)(UINT64_MAX >> p->slot_shift);
}

/* Returns the shift with which there are at least twice as many slots as members. */
static uint32_t shift_for(uint32_t count)
{
    uint32_t shift = 60;
    while (UINT64_MAX >> shift < 2 * (uint64_t)count)
        shift--;
    return shift;
}

/*
 * Adds the members from position `from` on to the index; with 0, rebuilds the index. Returns false if an id occurs
 * twice.
 */
static bool index_members(struct pccl_peer *p, uint32_t from)
{
    if (from == 0) {
        p->slot_shift = shift_for(p->member_count);
        memset(p->slots, 0, ((size_t)(UINT64_MAX >> p->slot_shift) + 1) * sizeof *p->slots);
    }
    for (uint32_t i = from; i < p->member_count; i++) {
        uint32_t slot = slot_of(p, &p->members[i].peer);
        for (; p->slots[slot] != 0; slot = slot_after(p, slot))
            if (pccl_id_equal(&p->members[p->slots[slot] - 1].peer, &p->members[i].peer))
                return false;
        p->slots[slot] = i + 1;
    }
    return true;
}

/* Returns the member's position in the list; member_count if it is not a member. */
static uint32_t find(const struct pccl_peer *p, const struct pccl_id *id)
{
    if (p->member_count == 0)
        return 0;
    for (uint32_t slot = slot_of(p, id); p->slots[slot] != 0; slot = slot_after(p, slot))
        if (pccl_id_equal(&p->members[p->slots[slot] - 1].peer, id))
            return p->slots[slot] - 1;
    return p->member_count;
}

/* ---- changing the list ---- */

/*
 * Merges the two sorted parts of a list, which begin at 0 and at `middle`. `room` is a buffer for the second part.
 * Returns true if a member of the first part has moved.
 */
static bool merge(struct pccl_member *list, uint32_t middle, uint32_t count, struct pccl_member *room)
{
    if (middle == 0 || middle == count || is_before(&list[middle - 1], &list[middle]))
        return false;
    uint32_t left = middle, right = count - middle, at = count;
    memcpy(room, &list[middle], right * sizeof *room);
    while (right > 0)
        list[--at] = left > 0 && is_before(&room[right - 1], &list[left - 1]) ? list[--left] : room[--right];
    return true;
}

static void sort(struct pccl_member *list, uint32_t count, struct pccl_member *room)
{
    for (uint32_t width = 1; width < count; width *= 2)
        for (uint32_t at = 0; at + width < count; at += 2 * width)
            (void)merge(&list[at], width, (uint32_t)pccl_min_u64(2 * width, count - at), room);
}

static void take_out(struct pccl_peer *p, const struct pccl_id *removed, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = find(p, &removed[i]);
        if (at < p->member_count)
            p->members[at].peer = (struct pccl_id){{0}}; /* marks it for removal, because no peer has this id */
    }
    for (uint32_t i = 0; count > 0 && i < p->member_count; i++)
        if (!pccl_id_is_zero(&p->members[i].peer))
            p->members[left++] = p->members[i];
    p->member_count = count > 0 ? left : p->member_count;
}

static void count_groups(struct pccl_peer *p)
{
    struct pccl_attributes live = {.world = p->member_count};
    for (uint32_t i = 0, start = 0; i < p->member_count; i++) {
        if (i + 1 < p->member_count && p->members[i + 1].group == p->members[start].group)
            continue;
        uint32_t size = i + 1 - start;
        live.groups++;
        live.largest_group = size > live.largest_group ? size : live.largest_group;
        if (p->members[start].group == p->config.group) {
            live.group_world = size;
            p->first_of_group = start;
        }
        start = i + 1;
    }
    p->live = live;
}

static bool has_room(struct pccl_peer *p, uint32_t count)
{
    uint32_t slot_count = (uint32_t)(UINT64_MAX >> shift_for(count)) + 1;
    struct pccl_member *members = pccl_grow(&p->memory, p->members, &p->member_capacity, count, sizeof *members);
    uint32_t *slots = pccl_grow(&p->memory, p->slots, &p->slot_capacity, slot_count, sizeof *slots);
    p->members = members != NULL ? members : p->members;
    p->slots = slots != NULL ? slots : p->slots;
    return members != NULL && slots != NULL;
}

enum pccl_status pccl_peer_change_members(struct pccl_peer *p, const struct pccl_id *removed, uint32_t removed_count,
                                          const struct pccl_member *added, uint32_t added_count)
{
    enum pccl_status status = PCCL_MEMORY;
    const size_t room_bytes = pccl_max_u64(1, added_count) * sizeof *added;
    struct pccl_member *room = pccl_allocate(&p->memory, room_bytes);
    if (room != NULL && has_room(p, p->member_count + added_count)) {
        take_out(p, removed, removed_count);
        const uint32_t before = p->member_count;
        if (added_count > 0)
            memcpy(&p->members[before], added, added_count * sizeof *added);
        sort(&p->members[before], added_count, room);
        p->member_count += added_count;
        const bool moved = merge(p->members, before, p->member_count, room) || removed_count > 0;
        const bool remade = moved || shift_for(p->member_count) != p->slot_shift;
        status = index_members(p, remade ? 0 : before) ? PCCL_OK : PCCL_MALFORMED;
        count_groups(p);
    }
    pccl_release(&p->memory, room, room_bytes);
    return status;
}

enum pccl_status pccl_peer_replace_members(struct pccl_peer *p, const struct pccl_member *members, uint32_t count)
{
    p->member_count = 0;
    return pccl_peer_change_members(p, NULL, 0, members, count);
}

/* ---- queries ---- */

uint32_t pccl_peer_position_of(const struct pccl_peer *p, const struct pccl_id *id)
{
    uint32_t at = find(p, id);
    bool in_group = at < p->member_count && p->members[at].group == p->config.group;
    return in_group ? at - p->first_of_group : p->live.group_world;
}

bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id)
{
    return pccl_peer_position_of(p, id) < p->live.group_world;
}

bool pccl_peer_knows_member(const struct pccl_peer *p, const struct pccl_id *id)
{
    return find(p, id) < p->member_count;
}

const struct pccl_member *pccl_peer_group_members(const struct pccl_peer *p) { return &p->members[p->first_of_group]; }

struct pccl_attributes pccl_peer_live_attributes(const struct pccl_peer *p)
{
    struct pccl_attributes live = p->live;
    live.epoch = p->epoch;
    return live;
}

const struct pccl_id *pccl_peer_successor(const struct pccl_peer *p)
{
    if (p->group.count < 2)
        return NULL;
    return &p->group.ring[(p->group.place + 1) % p->group.count];
}
