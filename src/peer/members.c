/* The members of the run, sorted by group and id, and what follows from that list and the ring. */
#include "peer/members.h"

#include <string.h>

static int compare_members(const struct pccl_member *a, const struct pccl_member *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return pccl_id_compare(&a->peer, &b->peer);
}

bool pccl_peer_add_member(struct pccl_peer *p, const struct pccl_member *member)
{
    struct pccl_member *members =
        pccl_grow(&p->memory, p->members, &p->member_capacity, p->member_count + 1, sizeof *members);
    if (members == NULL)
        return false;
    p->members = members;
    uint32_t at = p->member_count;
    while (at > 0 && compare_members(&members[at - 1], member) > 0)
        at--;
    if (at > 0 && compare_members(&members[at - 1], member) == 0)
        return true;
    memmove(&members[at + 1], &members[at], (p->member_count - at) * sizeof *members);
    members[at] = *member;
    p->member_count++;
    return true;
}

void pccl_peer_remove_member(struct pccl_peer *p, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (!pccl_id_equal(&p->members[i].peer, id))
            continue;
        p->member_count--;
        memmove(&p->members[i], &p->members[i + 1], (p->member_count - i) * sizeof *p->members);
        return;
    }
}

bool pccl_peer_replace_members(struct pccl_peer *p, const struct pccl_member *members, uint32_t count)
{
    p->member_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!pccl_peer_add_member(p, &members[i]))
            return false;
    return true;
}

/* The first one of the list, which is sorted, that is not before this one. */
static uint32_t first_from(const struct pccl_peer *p, const struct pccl_member *wanted)
{
    uint32_t low = 0, high = p->member_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = compare_members(&p->members[middle], wanted) < 0;
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    return low;
}

uint32_t pccl_peer_first_of_group(const struct pccl_peer *p)
{
    return first_from(p, &(struct pccl_member){.group = p->config.group});
}

uint32_t pccl_peer_find_in_group(const struct pccl_peer *p, const struct pccl_id *id)
{
    const struct pccl_member wanted = {.peer = *id, .group = p->config.group};
    uint32_t at = first_from(p, &wanted);
    return at < p->member_count && compare_members(&p->members[at], &wanted) == 0 ? at : p->member_count;
}

bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id)
{
    return pccl_peer_find_in_group(p, id) < p->member_count;
}

bool pccl_peer_knows_member(const struct pccl_peer *p, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < p->member_count; i++)
        if (pccl_id_equal(&p->members[i].peer, id))
            return true;
    return false;
}

struct pccl_attributes pccl_peer_live_attributes(const struct pccl_peer *p)
{
    struct pccl_attributes live = {.epoch = p->epoch, .world = p->member_count};
    for (uint32_t i = 0, start = 0; i < p->member_count; i++) {
        if (p->members[i].group != p->members[start].group)
            start = i;
        live.groups += i == start;
        uint32_t size = i - start + 1;
        live.largest_group = size > live.largest_group ? size : live.largest_group;
        live.group_world += p->members[i].group == p->config.group;
    }
    return live;
}

const struct pccl_id *pccl_peer_successor(const struct pccl_peer *p)
{
    if (p->ring_count < 2)
        return NULL;
    return &p->ring[(pccl_id_find(p->ring, p->ring_count, &p->config.id) + 1) % p->ring_count];
}
