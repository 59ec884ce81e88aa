/* Views of the membership: the list of all members, the ring of this peer's group, and the attributes. */
#include "core/ticket.h"
#include "peer/announcements.h"
#include "peer/choices.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "peer/member_list.h"
#include "peer/view.h"
#include "peer/where.h"

#include <string.h>

static bool replace_ring(struct pccl_peer *p, const struct pccl_id *ids, uint32_t count)
{
    PCCL_ASSERT(count > 0);
    struct pccl_id *ring = pccl_grow(&p->memory, p->group.ring, &p->ring_capacity, count, sizeof *ring);
    if (ring == NULL)
        return false;
    p->group.ring = ring;
    memcpy(ring, ids, count * sizeof *ids);
    p->group.count = count;
    p->effects.ring_changed(p->effects.context, ring, count);
    return true;
}

/* Returns true if no member has left, so that the previous view's list is the beginning of the current one. */
static bool has_only_grown(const struct pccl_peer *p)
{
    const struct pccl_member_list *before = p->view_member_list;
    return before != NULL && before->count <= p->live.group_world &&
           memcmp(before->members, pccl_peer_group_members(p), before->count * sizeof *before->members) == 0;
}

/*
 * Sets the ranks by place in the ring. Returns MALFORMED unless the ring is a permutation of the members of the group,
 * including this peer (invariant I1).
 */
static enum pccl_status place_ring(struct pccl_peer *p, const struct pccl_id *ids, uint32_t count)
{
    enum { BITS = 64 };
    uint64_t seen[PCCL_PEERS_MAX / BITS + 1] = {0};
    const uint32_t own = pccl_peer_position_of(p, &p->config.id);
    if (count != p->live.group_world || own == count)
        return PCCL_MALFORMED;
    uint32_t *positions = pccl_grow(&p->memory, p->group.positions, &p->position_capacity, count, sizeof *positions);
    if (positions == NULL)
        return PCCL_MEMORY;
    p->group.positions = positions;
    /* If newcomers are last in the list and in the ring, the other ranks are unchanged. */
    bool kept = has_only_grown(p) && memcmp(ids, p->group.ring, p->group.count * sizeof *ids) == 0;
    const uint32_t first = kept ? p->group.count : 0;
    for (uint32_t i = first; i < count; i++) {
        const uint32_t position = positions[i] = pccl_peer_position_of(p, &ids[i]);
        const uint64_t bit = UINT64_C(1) << position % BITS;
        if (position < first || position == count || (seen[position / BITS] & bit) != 0)
            return PCCL_MALFORMED;
        seen[position / BITS] |= bit;
        p->group.place = position == own ? i : p->group.place;
    }
    return PCCL_OK;
}

/* Returns true if the status is OK. Otherwise gives up, because the master's message is invalid or memory runs out. */
static bool could_use(struct pccl_peer *p, const char *sent, enum pccl_status status)
{
    if (status == PCCL_MALFORMED)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "invalid %s from the master", sent);
    else if (status != PCCL_OK)
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
    return status == PCCL_OK;
}

/* Sets the ring and the member list of a view whose members have been set. Returns false if the peer gave up. */
static bool take_ring(struct pccl_peer *p, const struct pccl_id *ids, uint32_t count, const char *message)
{
    enum pccl_status status = place_ring(p, ids, count);
    if (status == PCCL_OK && (!replace_ring(p, ids, count) || !pccl_peer_make_member_list(p)))
        status = PCCL_MEMORY;
    return could_use(p, message, status);
}

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome)
{
    if (p->state != PCCL_PEER_PENDING) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master admitted a peer that is already a member");
        return;
    }
    enum pccl_status status = pccl_peer_replace_members(p, welcome->members, welcome->members_count);
    if (!could_use(p, "list of members", status) || !take_ring(p, welcome->ring, welcome->ring_count, "welcome"))
        return;
    struct pccl_id lineage = pccl_secret_digest(&welcome->run_key);
    bool other_run = !pccl_id_equal(&p->lineage, &lineage);
    p->state = PCCL_PEER_MEMBER;
    p->run_key = welcome->run_key;
    p->lineage = lineage;
    p->epoch = welcome->epoch;
    p->view = welcome->view;
    p->group.cost = welcome->cost;
    p->rounds[PCCL_ROUND_UPDATE] = welcome->update;
    p->rounds[PCCL_ROUND_PENDING] = welcome->query;
    p->rounds[PCCL_ROUND_OPTIMIZE] = welcome->optimize;
    p->rounds[PCCL_ROUND_SYNC] = welcome->sync;
    p->revision = welcome->revision;
    pccl_peer_drop_announcements(p, other_run);
    pccl_peer_links_follow_view(p, true);
    if (p->state == PCCL_PEER_OVER)
        return; /* out of memory for a link, so the call has failed */
    struct pccl_attributes live = pccl_peer_live_attributes(p);
    pccl_peer_set_attributes(p, &live, p->view_member_list);
    p->round_known[PCCL_ROUND_UPDATE] = welcome->update > 0; /* the result of that round was this peer's admission */
    p->last_outcome[PCCL_ROUND_UPDATE] = PCCL_ROUND_DONE;
    p->last_attributes[PCCL_ROUND_UPDATE] = p->attributes;
    p->connect_outstanding = false;
    pccl_peer_wait_ended(p);
    pccl_peer_arm(p, p->now_us); /* as a member it also logs that newcomers wait */
    pccl_peer_log(p, PCCL_LOG_INFO, "admitted to run %s: %u peers, %u in group %u", pccl_id_str(&p->lineage),
                  p->attributes.world, p->attributes.group_world, p->config.group);
    p->effects.call_done(p->effects.context, PCCL_CALL_CONNECT, PCCL_OK, false);
}

/* Applies the changes of the membership. Returns false if the peer gave up. */
static bool apply_members(struct pccl_peer *p, const struct pccl_msg_epoch_change *change)
{
    enum pccl_status status = change->full ? pccl_peer_replace_members(p, change->added, change->added_count)
                                           : pccl_peer_change_members(p, change->removed, change->removed_count,
                                                                      change->added, change->added_count);
    if (!could_use(p, "list of members", status))
        return false;
    for (uint32_t i = 0; !change->full && i < change->removed_count; i++)
        /* links requested for it as a newcomer are no longer wanted */
        pccl_peer_forget(p, &change->removed[i]);
    return true;
}

/* Records which members of the previous view have left the group. Returns true if the new view has newcomers. */
static bool note_departures(struct pccl_peer *p)
{
    const struct pccl_member_list *before = p->view_member_list;
    PCCL_ASSERT(before != NULL);
    uint32_t kept = has_only_grown(p) ? before->count : 0;
    for (uint32_t i = kept; i < before->count; i++) {
        const struct pccl_id *id = &before->members[i].peer;
        if (pccl_peer_is_in_group(p, id))
            kept++;
        else
            p->departures[p->departure_count++ % PCCL_DEPARTED_MAX] = (struct pccl_departure){*id, p->epoch};
    }
    return kept < p->live.group_world;
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
        if (departed->count < PCCL_DEPARTED_LISTED_MAX)
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
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's epoch decreased");
        return;
    }
    if (!apply_members(p, change))
        return;
    p->epoch = change->epoch;
    if (change->view_changed) {
        /* before operations end, because their callers query the departures */
        bool has_newcomers = note_departures(p);
        bool restarted = change->epoch.inc != p->view.inc; /* members may have different previous views */
        if (!change->replans && (has_newcomers || restarted))
            pccl_peer_forget_choices_of(p, 0); /* newcomers know no choices */
        if (!take_ring(p, change->ring, change->ring_count, "ring"))
            return;
        p->view = change->epoch;
        p->group.cost = change->cost;
        pccl_peer_log(p, PCCL_LOG_INFO, "%u peers in the group now: %s", p->group.count, why.bytes);
        p->has_news = true;
        pccl_peer_end_pairs(p, &why);
        if (change->replans)
            pccl_peer_view_replans(p);
        else
            pccl_peer_view_aborts(p, &why);
        if (p->state == PCCL_PEER_OVER)
            return;
    }
    pccl_peer_links_follow_view(p, change->view_changed);
}
