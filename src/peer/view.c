/*
 * The membership as this peer knows it: the list of all members, the ring of its group, and the
 * four attributes.
 */
#include "core/ticket.h"
#include "peer/announcements.h"
#include "peer/choices.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "peer/roll.h"
#include "peer/view.h"
#include "peer/where.h"

#include <string.h>

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

void pccl_peer_welcome(struct pccl_peer *p, const struct pccl_msg_welcome *welcome)
{
    if (p->state != PCCL_PEER_PENDING) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master welcomed a member");
        return;
    }
    bool kept = pccl_peer_replace_members(p, welcome->members, welcome->members_count);
    if (kept && !is_ring(p, welcome->ring, welcome->ring_count)) {
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's welcome cannot be used");
        return;
    }
    if (!kept || !replace_ring(p, welcome->ring, welcome->ring_count) || !pccl_peer_make_roll(p)) {
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
    pccl_peer_links_follow_view(p, true);
    if (p->state == PCCL_PEER_OVER)
        return; /* no memory for a link: the call has failed */
    struct pccl_attributes live = pccl_peer_live_attributes(p);
    pccl_peer_set_attributes(p, &live, p->view_roll);
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
        return pccl_peer_replace_members(p, change->added, change->added_count);
    for (uint32_t i = 0; i < change->removed_count; i++) {
        pccl_peer_remove_member(p, &change->removed[i]);
        pccl_peer_forget(p, &change->removed[i]); /* it is no newcomer, if it was asked to be linked to */
    }
    for (uint32_t i = 0; i < change->added_count; i++)
        if (!pccl_peer_add_member(p, &change->added[i]))
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

/*
 * Who has come knows no choices. And members that were told other views before a restart of the
 * master may have forgotten theirs, or not.
 */
static bool has_common_past(const struct pccl_peer *p, const struct pccl_msg_epoch_change *change)
{
    for (uint32_t i = 0; i < change->ring_count; i++)
        if (pccl_id_find(p->ring, p->ring_count, &change->ring[i]) == p->ring_count)
            return false;
    return change->epoch.inc == p->view.inc;
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
        if (!change->replans && !has_common_past(p, change))
            pccl_peer_forget_choices_of_group(p);
        note_departures(p); /* before operations end: their callers ask who has left */
        if (!replace_ring(p, change->ring, change->ring_count) || !pccl_peer_make_roll(p)) {
            pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
            return;
        }
        p->view = change->epoch;
        p->cost = change->cost;
        pccl_peer_log(p, PCCL_LOG_INFO, "%u peers in the group now: %s", p->ring_count, why.bytes);
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
