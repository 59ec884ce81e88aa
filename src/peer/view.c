/*
 * The membership as this peer knows it: the list of all members, the ring of its group, and the
 * four attributes.
 */
#include "core/ticket.h"
#include "peer/links.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "peer/view.h"
#include "peer/where.h"

#include <string.h>

static int compare_members(const struct pccl_member *a, const struct pccl_member *b)
{
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return pccl_id_compare(&a->peer, &b->peer);
}

/* Insertion into the sorted list. false: out of memory. */
static bool add_member(struct pccl_peer *p, const struct pccl_member *member)
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

static void remove_member(struct pccl_peer *p, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < p->member_count; i++) {
        if (!pccl_id_equal(&p->members[i].peer, id))
            continue;
        p->member_count--;
        memmove(&p->members[i], &p->members[i + 1], (p->member_count - i) * sizeof *p->members);
        return;
    }
}

static bool replace_members(struct pccl_peer *p, const struct pccl_member *members, uint32_t count)
{
    p->member_count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!add_member(p, &members[i]))
            return false;
    return true;
}

static bool replace_ring(struct pccl_peer *p, const struct pccl_id *ids, uint32_t count)
{
    PCCL_ASSERT(count > 0);
    struct pccl_id *ring = pccl_grow(&p->memory, p->ring, &p->ring_capacity, count, sizeof *ring);
    if (ring == NULL)
        return false;
    p->ring = ring;
    memcpy(ring, ids, count * sizeof *ids);
    p->ring_count = count;
    p->effects.ring_changed(p->effects.context, ring, count);
    return true;
}

/* The list is sorted. */
bool pccl_peer_is_in_group(const struct pccl_peer *p, const struct pccl_id *id)
{
    const struct pccl_member wanted = {.peer = *id, .group = p->config.group};
    uint32_t low = 0, high = p->member_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_members(&p->members[middle], &wanted);
        if (order == 0)
            return true;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return false;
}

/* A ring is a permutation of the members of the group, including this peer (invariant I1). */
static bool is_ring(const struct pccl_peer *p, const struct pccl_id *ids, uint32_t count)
{
    uint32_t in_group = 0;
    for (uint32_t i = 0; i < p->member_count; i++)
        in_group += p->members[i].group == p->config.group;
    for (uint32_t i = 0; i < count; i++)
        if (!pccl_peer_is_in_group(p, &ids[i]))
            return false;
    return pccl_id_find(ids, count, &p->config.id) < count && count == in_group;
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

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome)
{
    if (p->state != PCCL_PEER_PENDING) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master welcomed a member");
        return;
    }
    bool kept = replace_members(p, welcome->members, welcome->members_count);
    if (kept && !is_ring(p, welcome->ring, welcome->ring_count)) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's welcome cannot be used");
        return;
    }
    if (!kept || !replace_ring(p, welcome->ring, welcome->ring_count)) {
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
        return;
    }
    struct pccl_id lineage = pccl_secret_digest(&welcome->run_key);
    bool other_run = !pccl_id_equal(&p->lineage, &lineage);
    p->state = PCCL_PEER_MEMBER;
    p->run_key = welcome->run_key;
    p->lineage = lineage;
    p->epoch = welcome->epoch;
    p->view = welcome->view;
    p->cost = welcome->cost;
    p->rounds[PCCL_ROUND_UPDATE] = welcome->update;
    p->rounds[PCCL_ROUND_PENDING] = welcome->query;
    p->rounds[PCCL_ROUND_OPTIMIZE] = welcome->optimize;
    p->rounds[PCCL_ROUND_SYNC] = welcome->sync;
    p->revision = welcome->revision;
    pccl_peer_drop_announcements(p, other_run);
    pccl_peer_links_follow_view(p);
    if (p->state == PCCL_PEER_OVER)
        return; /* no memory for a link: the call has failed */
    p->attributes = pccl_peer_live_attributes(p);
    p->round_known[PCCL_ROUND_UPDATE] = welcome->update > 0; /* the round that admitted this peer */
    p->last_outcome[PCCL_ROUND_UPDATE] = PCCL_ROUND_DONE;
    p->last_attributes[PCCL_ROUND_UPDATE] = p->attributes;
    p->connect_outstanding = false;
    pccl_peer_wait_ended(p);
    pccl_peer_arm(p, p->now_us); /* from now on it also logs that newcomers wait */
    pccl_peer_log(p, PCCL_LOG_INFO, "admitted to run %s: %u peers, %u in group %u", pccl_id_str(&p->lineage),
                  p->attributes.world, p->attributes.group_world, p->config.group);
    p->effects.call_done(p->effects.context, PCCL_CALL_CONNECT, PCCL_OK, false);
}

static bool apply_members(struct pccl_peer *p, const struct pccl_msg_epoch_change *change)
{
    if (change->full)
        return replace_members(p, change->added, change->added_count);
    for (uint32_t i = 0; i < change->removed_count; i++)
        remove_member(p, &change->removed[i]);
    for (uint32_t i = 0; i < change->added_count; i++)
        if (!add_member(p, &change->added[i]))
            return false;
    return true;
}

/* Those who are in the ring that is about to be replaced and no longer in the group. */
static void note_departures(struct pccl_peer *p)
{
    for (uint32_t i = 0; i < p->ring_count; i++)
        if (!pccl_peer_is_in_group(p, &p->ring[i]))
            p->departures[p->departure_count++ % PCCL_DEPARTED_MAX] = (struct pccl_departure){p->ring[i], p->epoch};
}

void pccl_peer_departed(const struct pccl_peer *p, const struct pccl_epoch *known, const struct pccl_epoch *until,
                        struct pccl_departed *departed)
{
    uint64_t forgotten = p->departure_count > PCCL_DEPARTED_MAX ? p->departure_count - PCCL_DEPARTED_MAX : 0;
    departed->count = 0;
    for (uint64_t n = forgotten; n < p->departure_count; n++) {
        const struct pccl_departure *departure = &p->departures[n % PCCL_DEPARTED_MAX];
        if (pccl_epoch_compare(&departure->epoch, known) <= 0 ||
            (until != NULL && pccl_epoch_compare(&departure->epoch, until) > 0))
            continue;
        if (departed->count < PCCL_DEPARTED_TOLD_MAX)
            departed->ids[departed->count] = departure->id;
        departed->count++;
    }
}

void pccl_peer_epoch_change(struct pccl_peer *p, const struct pccl_msg_epoch_change *change)
{
    PCCL_ASSERT(p->state == PCCL_PEER_MEMBER);
    struct pccl_text why;
    pccl_peer_take_reason(p, &why, &change->reason);
    if (pccl_epoch_compare(&change->epoch, &p->epoch) <= 0) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's epoch went backwards");
        return;
    }
    if (!apply_members(p, change)) {
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
        return;
    }
    p->epoch = change->epoch;
    if (change->view_changed) {
        if (!is_ring(p, change->ring, change->ring_count)) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's ring cannot be used");
            return;
        }
        note_departures(p); /* before operations end: their callers ask who has left */
        if (!replace_ring(p, change->ring, change->ring_count)) {
            pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
            return;
        }
        p->view = change->epoch;
        p->cost = change->cost;
        pccl_peer_log(p, PCCL_LOG_INFO, "%u peers in the group now: %s", p->ring_count, why.bytes);
        pccl_peer_view_aborts(p, &why);
        if (p->state == PCCL_PEER_OVER)
            return;
    }
    pccl_peer_links_follow_view(p);
}
