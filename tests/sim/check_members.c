/* I1, I7, I9, I11, I12 and the attributes: the run as peers and master see it. */
#include "check.h"
#include "master/membership.h"
#include "peer/op_table.h"
#include "wire/cost.h"

#include <stdlib.h>
#include <string.h>

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    if (to == NULL)
        abort();
    memcpy(to, from, bytes);
    return to;
}

/* ---- I1: one list per epoch, one ring per view ---- */

static const struct epoch_seen *find_epoch(const struct sim *sim, const struct pccl_id *lineage,
                                           const struct pccl_epoch *epoch)
{
    for (const struct epoch_seen *seen = sim->checks->epochs; seen != NULL; seen = seen->next)
        if (pccl_epoch_equal(&seen->epoch, epoch) && pccl_id_equal(&seen->lineage, lineage))
            return seen;
    return NULL;
}

const struct view_seen *sim_view_find(const struct sim *sim, const struct pccl_id *lineage, uint32_t group,
                                      const struct pccl_epoch *view)
{
    for (const struct view_seen *seen = sim->checks->views; seen != NULL; seen = seen->next)
        if (seen->group == group && pccl_epoch_equal(&seen->view, view) && pccl_id_equal(&seen->lineage, lineage))
            return seen;
    return NULL;
}

static const struct pccl_member *find_member(const struct pccl_member *members, uint32_t count,
                                             const struct pccl_id *id)
{
    for (uint32_t i = 0; i < count; i++)
        if (pccl_id_equal(&members[i].peer, id))
            return &members[i];
    return NULL;
}

static bool has_member(const struct pccl_member *members, uint32_t count, const struct pccl_id *id)
{
    return find_member(members, count, id) != NULL;
}

static bool same_members(const struct pccl_member *a, uint32_t a_count, const struct pccl_member *b, uint32_t b_count)
{
    bool same = a_count == b_count;
    for (uint32_t i = 0; same && i < a_count; i++) {
        const struct pccl_member *other = find_member(b, b_count, &a[i].peer);
        same = other != NULL && other->admitted == a[i].admitted && other->group == a[i].group;
    }
    return same;
}

static void note_epoch(struct sim *sim, const char *who, uint32_t number, const struct pccl_id *lineage,
                       const struct pccl_epoch *epoch, const struct pccl_member *members, uint32_t count)
{
    const struct epoch_seen *seen = find_epoch(sim, lineage, epoch);
    if (seen != NULL) {
        if (!same_members(seen->members, seen->count, members, count))
            sim_fail(sim, "I1 %s %u has another member list for epoch %u.%llu", who, number, epoch->inc,
                     (unsigned long long)epoch->number);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (has_member(members + i + 1, count - i - 1, &members[i].peer))
            sim_fail(sim, "I1 %s %u lists a member twice in epoch %u.%llu", who, number, epoch->inc,
                     (unsigned long long)epoch->number);
    struct epoch_seen *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        abort();
    *fresh = (struct epoch_seen){sim->checks->epochs, *lineage, *epoch, copy(members, count * sizeof *members), count};
    sim->checks->epochs = fresh;
}

static bool same_cost(const struct pccl_cost *a, const struct pccl_cost *b)
{
    return a->mesh == b->mesh && a->rtt_us == b->rtt_us && a->rate == b->rate && a->mesh_rtt_us == b->mesh_rtt_us &&
           a->mesh_rate == b->mesh_rate && a->mesh_share == b->mesh_share && a->to_hubs == b->to_hubs &&
           a->from_hubs == b->from_hubs;
}

/* Notes a view; the lists of `fresh` are not kept. Returns true if no member has had this view before. */
static bool note_view(struct sim *sim, const char *who, uint32_t number, const struct view_seen *fresh)
{
    const struct pccl_epoch *view = &fresh->view;
    uint32_t group = fresh->group, count = fresh->count;
    const struct pccl_id *ring = fresh->ring;
    const struct view_seen *seen = sim_view_find(sim, &fresh->lineage, group, view);
    if (seen != NULL) {
        if (seen->count != count || memcmp(seen->ring, ring, count * sizeof *ring) != 0)
            sim_fail(sim, "I1 %s %u has another ring for view %u.%llu of group %u", who, number, view->inc,
                     (unsigned long long)view->number, group);
        if (memcmp(seen->order, fresh->order, count * sizeof *ring) != 0)
            sim_fail(sim, "I1 %s %u has the members of view %u.%llu of group %u in another order", who, number,
                     view->inc, (unsigned long long)view->number, group);
        if (!same_cost(&seen->cost, &fresh->cost))
            sim_fail(sim, "I1 %s %u has other cost data for view %u.%llu of group %u", who, number, view->inc,
                     (unsigned long long)view->number, group);
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count; k++)
            if (pccl_id_equal(&ring[i], &ring[k]))
                sim_fail(sim, "I1 %s %u: the ring of view %u.%llu names a member twice", who, number, view->inc,
                         (unsigned long long)view->number);
    struct view_seen *kept = copy(fresh, sizeof *fresh);
    kept->ring = copy(ring, count * sizeof *ring);
    kept->order = copy(fresh->order, count * sizeof *ring);
    kept->next = sim->checks->views;
    sim->checks->views = kept;
    return true;
}

/* ---- a peer ---- */

static void check_ring_is_group(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    uint32_t in_group = 0;
    for (uint32_t i = 0; i < p->member_count; i++)
        in_group += p->members[i].group == peer->group;
    bool mine = false;
    for (uint32_t i = 0; i < p->group.count; i++) {
        mine = mine || pccl_id_equal(&p->group.ring[i], &peer->id);
        if (!has_member(p->members, p->member_count, &p->group.ring[i]))
            sim_fail(sim, "I1 p%u: its ring names somebody who is no member", peer->process.number);
    }
    if (!mine || in_group != p->group.count)
        sim_fail(sim, "I1 p%u: its ring of %u is no permutation of its group of %u", peer->process.number,
                 p->group.count, in_group);
}

/*
 * I1: a remaining member keeps its number, and a new one has a higher number than all before. Members that lie to a
 * restarted master may change that.
 */
static void check_numbers(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    uint64_t highest = 0;
    for (uint32_t i = 0; i < peer->seen_count; i++) {
        const struct pccl_member *before = &peer->seen_members[i];
        const struct pccl_member *now = find_member(p->members, p->member_count, &before->peer);
        if (now != NULL && now->admitted != before->admitted && !sim->lies)
            sim_fail(sim, "I1 p%u: a member has another number than before", peer->process.number);
        highest = now != NULL ? pccl_max_u64(highest, now->admitted) : highest;
    }
    for (uint32_t i = 0; i < p->member_count && peer->seen_count > 0; i++)
        if (!has_member(peer->seen_members, peer->seen_count, &p->members[i].peer) &&
            p->members[i].admitted <= highest && !sim->lies)
            sim_fail(sim, "I1 p%u: a newcomer has a number that is not above those of the members",
                     peer->process.number);
    for (uint32_t i = 0; i < p->member_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (p->members[k].admitted == p->members[i].admitted && !sim->lies)
                sim_fail(sim, "I1 p%u: two members have one number", peer->process.number);
}

/* I1: the list of a view is its ring in the order of admission, and each rank knows its position. */
static void check_order(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    uint32_t count;
    const struct pccl_member *members = pccl_peer_view_members(p, &count);
    const uint32_t *positions = pccl_peer_participants(p, 0)->positions;
    bool right = count == p->group.count;
    for (uint32_t i = 0; right && i < count; i++) {
        const struct pccl_member *known = find_member(p->members, p->member_count, &members[i].peer);
        right = known != NULL && known->admitted == members[i].admitted && positions[i] < count &&
                pccl_id_equal(&members[positions[i]].peer, &p->group.ring[i]) &&
                (i == 0 || members[i - 1].admitted < members[i].admitted || sim->lies);
    }
    if (!right)
        sim_fail(sim, "I1 p%u: its group is not in the order of admission", peer->process.number);
}

/*
 * I9: a member removed from a peer's list never returns to it. The exception is a member that never received its
 * admission, because the master crashed at that moment: it has not been expelled, and is still a newcomer.
 */
static void check_gone(struct sim *sim, struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    for (uint32_t i = 0; i < p->member_count; i++)
        for (uint32_t k = 0; k < peer->gone_count; k++)
            if (pccl_id_equal(&p->members[i].peer, &peer->gone[k]))
                sim_fail(sim, "I9 p%u: %02x%02x is a member again", peer->process.number, peer->gone[k].bytes[0],
                         peer->gone[k].bytes[1]);
    for (uint32_t i = 0; i < peer->seen_count; i++) {
        if (has_member(p->members, p->member_count, &peer->seen_members[i].peer))
            continue;
        const struct sim_peer *removed = sim_peer_find(sim, &peer->seen_members[i].peer);
        if (removed != NULL && !removed->was_connected)
            continue;
        peer->gone = realloc(peer->gone, (peer->gone_count + 1u) * sizeof *peer->gone);
        if (peer->gone == NULL)
            abort();
        peer->gone[peer->gone_count++] = peer->seen_members[i].peer;
    }
}

static void see_members(struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    free(peer->seen_members);
    peer->seen_members = copy(p->members, p->member_count * sizeof *p->members);
    peer->seen_count = p->member_count;
}

/* Checks that the departures known to a peer are the differences between its epochs. */
static void check_departures(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    struct pccl_departed departed;
    pccl_peer_departed(p, &peer->seen_epoch, &p->epoch, &departed);
    uint32_t gone = 0;
    for (uint32_t i = 0; i < peer->seen_count; i++) {
        const struct pccl_member *before = &peer->seen_members[i];
        if (before->group != peer->group || has_member(p->members, p->member_count, &before->peer))
            continue;
        gone++;
        bool remembered =
            departed.count > PCCL_DEPARTED_LISTED_MAX; /* then it may be one of those that are not listed */
        for (uint32_t k = 0; k < departed.count && !remembered; k++)
            remembered = pccl_id_equal(&departed.ids[k], &before->peer);
        if (!remembered)
            sim_fail(sim, "DEPARTED p%u does not remember that %02x%02x left its group", peer->process.number,
                     before->peer.bytes[0], before->peer.bytes[1]);
    }
    if (departed.count != gone)
        sim_fail(sim, "DEPARTED p%u remembers that %u left its group, and %u did", peer->process.number, departed.count,
                 gone);
}

/* Returns true if other ids have the same digits; then only the first of them has a name. */
static bool shares_its_digits(const struct sim *sim, const struct pccl_id *id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->peer_count; i++)
        count += memcmp(sim->peers[i]->id.bytes, id->bytes, 4) == 0;
    return count > 1;
}

/* Checks that each peer that a message may mention has a name in it (while memory is not short). */
static void check_names(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    for (uint32_t i = 0; i < p->member_count && sim->oom_length == 0; i++) {
        const struct sim_peer *member = sim_peer_find(sim, &p->members[i].peer);
        const char *name = pccl_peer_name_of(p, &p->members[i].peer);
        bool right = name != NULL && member != NULL && strcmp(name, member->config.name) == 0;
        if (member != NULL && !right && !shares_its_digits(sim, &member->id))
            sim_fail(sim, "NAMES p%u knows p%u as %s", peer->process.number, member->process.number,
                     name != NULL ? name : "nobody");
    }
    for (uint32_t i = 0; i < peer->seen_count && sim->oom_length == 0; i++) {
        const struct pccl_member *before = &peer->seen_members[i];
        if (before->group == peer->group && pccl_peer_name_of(p, &before->peer) == NULL &&
            !shares_its_digits(sim, &before->peer))
            sim_fail(sim, "NAMES p%u does not know any more what one who has left its group is called",
                     peer->process.number);
    }
}

/* I7: no undecided operation survives a change of its era, and members are at most one era apart. */
static void check_era(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    uint64_t joint = pccl_peer_joint(p), sync = p->rounds[PCCL_ROUND_SYNC];
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer)
        if ((op->instance.joint != joint || op->instance.sync != sync) && !pccl_peer_is_decided(op))
            sim_fail(sim, "I7 p%u enters era %llu with %s undecided", peer->process.number, (unsigned long long)joint,
                     sim_instance_text(&op->instance));
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *other = sim->peers[i];
        if (!sim_is_survivor(sim, peer) || !sim_is_survivor(sim, other) ||
            !pccl_id_equal(&other->machine->lineage, &p->lineage))
            continue;
        uint64_t theirs = pccl_peer_joint(other->machine);
        if (theirs + 1 < joint || joint + 1 < theirs)
            sim_fail(sim, "I7 p%u is in era %llu and p%u in era %llu", peer->process.number, (unsigned long long)joint,
                     other->process.number, (unsigned long long)theirs);
        theirs = other->machine->rounds[PCCL_ROUND_SYNC];
        if (other->group == peer->group && (theirs + 1 < sync || sync + 1 < theirs))
            sim_fail(sim, "I7 p%u is in synchronization %llu and p%u in %llu", peer->process.number,
                     (unsigned long long)sync, other->process.number, (unsigned long long)theirs);
    }
}

/*
 * I8: a view moves only when its group's members, ring, kind of exchange or figures change. D6: if it only re-plans,
 * the ring alone.
 */
static void check_view_moved(struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_peer *p = peer->machine;
    const struct view_seen *before = sim_view_find(sim, &p->lineage, peer->group, &peer->seen_view);
    const struct view_seen *now = sim_view_find(sim, &p->lineage, peer->group, &p->view);
    if (before != NULL && now != NULL && now->replans &&
        (before->count != now->count || memcmp(before->order, now->order, now->count * sizeof *now->order) != 0 ||
         !same_cost(&before->cost, &now->cost)))
        sim_fail(sim, "D6 p%u: more than the ring of its group has changed, and what is under way goes on",
                 peer->process.number);
    if (before != NULL && before->count == p->group.count && before->cost.mesh == p->group.cost.mesh &&
        before->cost.to_hubs == p->group.cost.to_hubs && before->cost.from_hubs == p->group.cost.from_hubs &&
        !pccl_rtt_moved(before->cost.rtt_us, p->group.cost.rtt_us) &&
        !pccl_rate_moved(before->cost.rate, p->group.cost.rate) &&
        !pccl_rtt_moved(before->cost.mesh_rtt_us, p->group.cost.mesh_rtt_us) &&
        !pccl_rate_moved(before->cost.mesh_rate, p->group.cost.mesh_rate) &&
        !pccl_rate_moved(before->cost.mesh_share, p->group.cost.mesh_share) && p->view.inc == peer->seen_view.inc &&
        memcmp(before->ring, p->group.ring, p->group.count * sizeof *p->group.ring) == 0)
        sim_fail(sim, "I8 p%u: the view of its group moved although nothing of the group changed",
                 peer->process.number);
}

static void ids_of(const struct pccl_member *members, uint32_t count, struct pccl_id *ids)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = members[i].peer;
}

static uint64_t hash_of_list(const struct pccl_member *members, uint32_t count)
{
    static struct pccl_id ids[PCCL_PEERS_MAX];
    ids_of(members, count, ids);
    return sim_ring_hash(ids, count);
}

/* Returns true if the callers' list has the members of the peer's group in that epoch, in canonical order. */
static bool is_list_of(const struct sim *sim, const struct sim_peer *peer, const struct epoch_seen *epoch)
{
    uint32_t count, in_group = 0;
    const struct pccl_member *list = pccl_peer_members(peer->machine, &count);
    for (uint32_t i = 0; i < epoch->count; i++)
        in_group += epoch->members[i].group == peer->group;
    bool right = count == in_group;
    for (uint32_t i = 0; right && i < count; i++)
        right = has_member(epoch->members, epoch->count, &list[i].peer) &&
                (i == 0 || list[i - 1].admitted < list[i].admitted || sim->lies);
    return right;
}

/*
 * Checks that the callers' list belongs to the same epoch as the attributes; but a restarted master may send the answer
 * of an epoch that this peer has not received, or never will, since another master's replaced it. Then it is the list
 * of the current view.
 */
static void check_list(struct sim *sim, const struct sim_peer *peer, const struct epoch_seen *epoch)
{
    const struct pccl_epoch *present = &peer->machine->epoch;
    const struct epoch_seen *now = NULL;
    if (epoch->epoch.inc != present->inc || pccl_epoch_compare(&epoch->epoch, present) > 0)
        now = find_epoch(sim, &peer->machine->lineage, present);
    if (!is_list_of(sim, peer, epoch) && (now == NULL || !is_list_of(sim, peer, now)))
        sim_fail(sim, "R8 p%u: its members are not those of epoch %u.%llu", peer->process.number, epoch->epoch.inc,
                 (unsigned long long)epoch->epoch.number);
}

/* PROTOCOL 8: these attributes are the counts of the epoch. */
static void check_counts(struct sim *sim, const struct sim_peer *peer, const struct pccl_attributes *told,
                         const struct epoch_seen *epoch)
{
    uint32_t in_group = 0, groups = 0, largest = 0;
    for (uint32_t i = 0; i < epoch->count; i++) {
        uint32_t size = 0, first = 1;
        for (uint32_t k = 0; k < epoch->count; k++) {
            size += epoch->members[k].group == epoch->members[i].group;
            first = first && !(k < i && epoch->members[k].group == epoch->members[i].group);
        }
        in_group += epoch->members[i].group == peer->group;
        groups += first;
        largest = size > largest ? size : largest;
    }
    if (told->world != epoch->count || told->group_world != in_group || told->groups != groups ||
        told->largest_group != largest)
        sim_fail(sim, "R8 p%u: world %u, group %u, groups %u, largest %u, but epoch %u.%llu has %u, %u, %u, %u",
                 peer->process.number, told->world, told->group_world, told->groups, told->largest_group,
                 epoch->epoch.inc, (unsigned long long)epoch->epoch.number, epoch->count, in_group, groups, largest);
}

/* PROTOCOL 8: attributes, and the list of members, change only when a call returns, and agree with the epoch. */
static void check_attributes(struct sim *sim, struct sim_peer *peer)
{
    struct pccl_attributes now = pccl_peer_attributes(peer->machine), *seen = &peer->seen_attributes;
    bool same = pccl_epoch_equal(&now.epoch, &seen->epoch) && now.world == seen->world &&
                now.group_world == seen->group_world && now.groups == seen->groups &&
                now.largest_group == seen->largest_group;
    uint32_t count;
    const struct pccl_member *list = pccl_peer_members(peer->machine, &count);
    uint64_t roll = hash_of_list(list, count);
    same = same && roll == peer->seen_member_list;
    peer->seen_member_list = roll;
    bool may_change = peer->attributes_may_change;
    peer->attributes_may_change = false;
    if (same)
        return;
    if (!may_change)
        sim_fail(sim, "R8 p%u: its attributes changed while no call returned", peer->process.number);
    *seen = now;
    const struct epoch_seen *epoch = find_epoch(sim, &peer->machine->lineage, &now.epoch);
    if (epoch == NULL)
        return;
    check_list(sim, peer, epoch);
    check_counts(sim, peer, &now, epoch);
}

uint64_t sim_ring_hash(const struct pccl_id *ring, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t halves[2];
        memcpy(halves, ring[i].bytes, sizeof halves);
        hash = sim_mix(sim_mix(hash, halves[0]), halves[1]);
    }
    return hash;
}

static void note_view_of(struct sim *sim, const struct sim_peer *peer)
{
    static struct pccl_id order[PCCL_PEERS_MAX];
    const struct pccl_peer *p = peer->machine;
    uint32_t count;
    const struct pccl_member *members = pccl_peer_view_members(p, &count);
    check_order(sim, peer);
    ids_of(members, count, order);
    struct view_seen view = {.lineage = p->lineage,
                             .group = peer->group,
                             .view = p->view,
                             .ring = p->group.ring,
                             .order = order,
                             .count = count,
                             .cost = p->group.cost};
    (void)note_view(sim, "peer", peer->process.number, &view);
}

void sim_check_peer(struct sim *sim, struct sim_peer *peer)
{
    struct pccl_peer *p = peer->machine;
    sim_check_peer_state(sim, peer);
    check_attributes(sim, peer);
    sim_check_end_of_life(sim, peer);
    if (p->state != PCCL_PEER_MEMBER)
        return;
    peer->was_connected = true;
    int order = pccl_epoch_compare(&p->epoch, &peer->seen_epoch);
    if (order < 0)
        sim_fail(sim, "I1 p%u: its epoch fell from %u.%llu to %u.%llu", peer->process.number, peer->seen_epoch.inc,
                 (unsigned long long)peer->seen_epoch.number, p->epoch.inc, (unsigned long long)p->epoch.number);
    if (order > 0) {
        note_epoch(sim, "peer", peer->process.number, &p->lineage, &p->epoch, p->members, p->member_count);
        struct pccl_attributes now = pccl_peer_attributes_now(p);
        check_counts(sim, peer, &now, find_epoch(sim, &p->lineage, &p->epoch));
        check_departures(sim, peer);
        check_numbers(sim, peer);
        check_names(sim, peer);
        check_gone(sim, peer);
        see_members(peer);
        check_ring_is_group(sim, peer);
        peer->seen_epoch = p->epoch;
        sim_note(sim, "p%u: epoch %u.%llu view %u.%llu of %u (ring of %u)", peer->process.number, p->epoch.inc,
                 (unsigned long long)p->epoch.number, p->view.inc, (unsigned long long)p->view.number, p->member_count,
                 p->group.count);
    }
    if (!pccl_epoch_equal(&p->view, &peer->seen_view)) {
        if (pccl_epoch_compare(&p->view, &peer->seen_view) < 0)
            sim_fail(sim, "I1 p%u: its view fell", peer->process.number);
        note_view_of(sim, peer);
        check_view_moved(sim, peer);
        if (peer->told_ring != sim_ring_hash(p->group.ring, p->group.count))
            sim_fail(sim, "p%u: its data path was not told of the ring", peer->process.number);
        peer->seen_view = p->view;
    }
    if (pccl_peer_joint(p) != peer->seen_joint || p->rounds[PCCL_ROUND_SYNC] != peer->seen_sync) {
        if (pccl_peer_joint(p) < peer->seen_joint || p->rounds[PCCL_ROUND_SYNC] < peer->seen_sync)
            sim_fail(sim, "I7 p%u goes back to era %llu, %llu", peer->process.number,
                     (unsigned long long)pccl_peer_joint(p), (unsigned long long)p->rounds[PCCL_ROUND_SYNC]);
        peer->seen_joint = pccl_peer_joint(p);
        peer->seen_sync = p->rounds[PCCL_ROUND_SYNC];
        check_era(sim, peer);
    }
}

/* ---- the master ---- */

static void note_undone(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group)
{
    for (struct view_seen *seen = sim->checks->views; seen != NULL; seen = seen->next)
        if (seen->group == group->number && pccl_id_equal(&seen->lineage, &master->machine->lineage) &&
            pccl_epoch_compare(&seen->view, &group->view) > 0)
            seen->undone = true;
}

static void note_group(struct sim *sim, const struct sim_master *master, const struct pccl_peer_group *group)
{
    static struct pccl_id ring[PCCL_PEERS_MAX], order[PCCL_PEERS_MAX];
    for (uint32_t i = 0; i < group->ring_count; i++) {
        ring[i] = group->ring[i]->id;
        order[group->ring[i]->rank % group->ring_count] = group->ring[i]->id;
    }
    struct view_seen view = {.lineage = master->machine->lineage,
                             .group = group->number,
                             .view = group->view,
                             .ring = ring,
                             .order = order,
                             .count = group->ring_count,
                             .cost = group->cost,
                             .replans = !pccl_epoch_equal(&group->firm, &group->view)};
    if (note_view(sim, "master", master->process.number, &view))
        sim_check_new_view(sim, master, group);
    note_undone(sim, master, group);
}

/* ---- R10: no run beside one that lives ---- */

static void note_over(struct sim *sim, const struct pccl_id *lineage)
{
    sim->checks->over[sim->checks->over_count++ % PCCL_RUNS_OVER_MAX] = *lineage;
}

void sim_check_master_gone(struct sim *sim, const struct sim_master *master)
{
    const struct pccl_master *m = master->machine;
    for (uint32_t i = 0; i < PCCL_RUNS_OVER_MAX && i < m->over_count; i++)
        note_over(sim, &m->over[i]);
}

static bool has_ended(const struct sim *sim, const struct pccl_master *m, const struct pccl_id *lineage)
{
    for (uint32_t i = 0; i < PCCL_RUNS_OVER_MAX && i < sim->checks->over_count; i++)
        if (pccl_id_equal(&sim->checks->over[i], lineage))
            return true;
    return pccl_master_run_is_over(m, lineage);
}

/*
 * Checks a new run. A run whose members have not returned by then is over, and later masters do not wait for them. A
 * master that has continued a run does not wait either, when that run ends: it would have turned away the members of
 * other runs.
 */
static void check_founded(struct sim *sim, const struct sim_master *master)
{
    if (master->machine->founded && !master->machine->founded_by_newcomer && !master->machine->recovering)
        sim->checks->continued_boot = master->config.boot;
    if (!master->machine->founded_by_newcomer || pccl_id_equal(&sim->checks->founded, &master->machine->lineage))
        return;
    sim->checks->founded = master->machine->lineage;
    bool early = sim->now < master->started_at + master->config.recover_ms * SIM_MS &&
                 sim->checks->continued_boot != master->config.boot;
    for (uint32_t i = 0; i < sim->peer_count && sim->plan.keeps_run && !sim->lies; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive || peer->machine == NULL || peer->machine->state != PCCL_PEER_MEMBER ||
            pccl_id_equal(&peer->machine->lineage, &sim->checks->founded) ||
            has_ended(sim, master->machine, &peer->machine->lineage))
            continue;
        if (early)
            sim_fail(sim, "R10 a newcomer founds a run while p%u is a member of another one", peer->process.number);
        else
            note_over(sim, &peer->machine->lineage);
    }
}

void sim_check_master(struct sim *sim, struct sim_master *master)
{
    struct pccl_master *m = master->machine;
    struct sim_checks *checks = sim->checks;
    sim_check_master_state(sim, master);
    check_founded(sim, master);
    sim_check_removals(sim, master);
    if (checks->conflicts != NULL)
        sim_check_conflicts(sim);
    if (checks->master_boot != master->config.boot) {
        checks->master_boot = master->config.boot;
        checks->master_epoch = (struct pccl_epoch){0};
    }
    if (!m->founded || m->recovering)
        checks->master_joint = UINT64_MAX / 2; /* includes updates of other masters */
    if (!m->founded || m->recovering || m->departing_count > 0)
        return;
    sim_check_updated(sim, master);
    sim_check_topology(sim, master);
    sim_check_syncs(sim, master);
    if (pccl_epoch_equal(&m->epoch, &checks->master_epoch))
        return;
    struct pccl_member *members = calloc(m->remote_count + 1u, sizeof *members);
    if (members == NULL)
        abort();
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_MEMBER)
            members[count++] = pccl_master_as_member(m->remotes[i]);
    note_epoch(sim, "master", master->process.number, &m->lineage, &m->epoch, members, count);
    free(members);
    checks->master_epoch = m->epoch;
    sim_check_roll(sim, master);
    for (uint32_t i = 0; i < m->group_count; i++)
        note_group(sim, master, m->groups[i]);
}

/* ---- joint calls ---- */

void sim_check_asked(struct sim *sim, struct sim_peer *peer, enum pccl_round_kind kind)
{
    peer->asked_round[kind] = peer->machine->rounds[kind];
}

/*
 * Checks that all return from an update or an optimization with the same attributes. One exception: a whole group
 * missed the answer because the master crashed, the membership has changed since, and no peer reports a list of that
 * epoch to the next master (PROTOCOL 8).
 */
static void check_round_attributes(struct sim *sim, struct round_seen *seen, struct sim_peer *peer)
{
    struct pccl_attributes now = pccl_peer_attributes(peer->machine);
    if (!seen->has_attributes) {
        seen->has_attributes = true;
        seen->attributes = now;
        seen->by = peer;
    } else if (!pccl_epoch_equal(&now.epoch, &seen->attributes.epoch) && sim_is_survivor(sim, peer) &&
               sim_is_survivor(sim, seen->by) && (peer->group == seen->by->group || sim->totals.crashes == 0)) {
        sim_fail(sim, "R8 p%u and p%u return from round %llu with epochs %u.%llu and %u.%llu", peer->process.number,
                 seen->by->process.number, (unsigned long long)seen->round, now.epoch.inc,
                 (unsigned long long)now.epoch.number, seen->attributes.epoch.inc,
                 (unsigned long long)seen->attributes.epoch.number);
    }
}

void sim_check_call(struct sim *sim, struct sim_peer *peer, enum pccl_call call, enum pccl_status status, bool value)
{
    if (call == PCCL_CALL_SYNC)
        sim_check_sync_returned(sim, peer, status);
    if (call == PCCL_CALL_OPTIMIZE)
        sim_check_optimized(sim, peer, status);
    bool decided = status == PCCL_OK || status == PCCL_NO_RING;
    if (!decided || (call != PCCL_CALL_UPDATE && call != PCCL_CALL_PENDING && call != PCCL_CALL_OPTIMIZE))
        return;
    uint8_t kind = call == PCCL_CALL_UPDATE     ? PCCL_ROUND_UPDATE
                   : call == PCCL_CALL_OPTIMIZE ? PCCL_ROUND_OPTIMIZE
                                                : PCCL_ROUND_PENDING;
    uint64_t round = peer->asked_round[kind];
    struct round_seen *seen = sim->checks->rounds;
    while (seen != NULL &&
           !(seen->kind == kind && seen->round == round && pccl_id_equal(&seen->lineage, &peer->machine->lineage)))
        seen = seen->next;
    if (seen == NULL) {
        seen = calloc(1, sizeof *seen);
        if (seen == NULL)
            abort();
        *seen = (struct round_seen){.next = sim->checks->rounds,
                                    .lineage = peer->machine->lineage,
                                    .kind = kind,
                                    .round = round,
                                    .value = value,
                                    .by = peer};
        sim->checks->rounds = seen;
    }
    if (seen->value != value && sim_is_survivor(sim, peer) && sim_is_survivor(sim, seen->by))
        sim_fail(sim, "I2 p%u and p%u got different answers in round %llu of kind %u", peer->process.number,
                 seen->by->process.number, (unsigned long long)round, kind);
    if (kind != PCCL_ROUND_PENDING)
        check_round_attributes(sim, seen, peer);
}

/* ---- checks over time ---- */

/* I10: a peer that has waited long, while everything was in order, has learned for which members. */
static void check_wait(struct sim *sim, struct sim_peer *peer, uint64_t since, const char *what)
{
    uint64_t patience = 6 * sim->plan.peer.where_ms * SIM_MS + 3 * SIM_S; /* the query is repeated after five */
    if (sim->now < since + patience || sim->now < sim->healed_at + patience)
        return;
    if (pccl_peer_waiting(peer->machine)->length == 0)
        sim_fail(sim, "I10 p%u has waited %.1f s in %s and nobody is named", peer->process.number,
                 (double)(sim->now - since) / 1e6, what);
}

/* I10: a peer that does not wait is not reported as waiting. */
static void check_no_wait(struct sim *sim, const struct sim_peer *peer)
{
    bool waits = peer->machine->awaited_count > 0 || peer->machine->connect_outstanding;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        waits = waits || peer->machine->calls[kind].outstanding;
    if (!waits && pccl_peer_waiting(peer->machine)->length > 0)
        sim_fail(sim, "I10 p%u waits for nobody, and says: %s", peer->process.number,
                 pccl_peer_waiting(peer->machine)->bytes);
}

/* Returns true during an optimization: its tests take time, and then its answer is in flight. */
static bool is_optimizing(const struct sim *sim, const struct sim_peer *peer)
{
    const struct pccl_master *m = sim->master->machine;
    return m->optimizing || m->rounds[PCCL_ROUND_OPTIMIZE] != peer->machine->rounds[PCCL_ROUND_OPTIMIZE];
}

void sim_check_waiting(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->peer_count; i++)
        if (sim_is_survivor(sim, sim->peers[i]))
            check_no_wait(sim, sim->peers[i]);
    if (!sim->faults_stopped || sim->healed_at == 0 || !sim_master_is_up(sim))
        return;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        struct sim_peer *peer = sim->peers[i];
        struct sim_app *app = &peer->app;
        if (!sim_is_survivor(sim, peer))
            continue;
        if (app->state == SIM_APP_UPDATING && !app->call_over[PCCL_CALL_UPDATE])
            check_wait(sim, peer, app->since, "an update");
        if (app->state == SIM_APP_OPTIMIZING && !app->call_over[PCCL_CALL_OPTIMIZE] && !is_optimizing(sim, peer))
            check_wait(sim, peer, app->since, "an optimization");
        if (app->state == SIM_APP_SYNCING && app->sync_asked && !app->call_over[PCCL_CALL_SYNC])
            check_wait(sim, peer, app->since, "a synchronization");
        for (uint32_t tag = 0; tag < app->lane_count; tag++)
            if (app->lanes[tag].state == SIM_LANE_FLYING && !app->lanes[tag].decided && app->lanes[tag].op->awaited)
                check_wait(sim, peer, app->lanes[tag].since, "an operation");
    }
}

/* Checks after convergence that all members agree. */
void sim_check_converged(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive)
            continue;
        if (!peer->was_connected)
            continue; /* it arrived when the others were at rest already: it is not admitted */
        const struct pccl_peer *p = peer->machine;
        if (!pccl_epoch_equal(&p->epoch, &m->epoch))
            sim_fail(sim, "I1 p%u rests at epoch %u.%llu, the master at %u.%llu", peer->process.number, p->epoch.inc,
                     (unsigned long long)p->epoch.number, m->epoch.inc, (unsigned long long)m->epoch.number);
    }
    sim_check_conflicts(sim);
    sim_check_histories(sim);
    sim_check_subgroups_idle(sim);
}

/* I11: after a change of era and a few heartbeats no state is left. */
void sim_check_idle(struct sim *sim)
{
    const struct pccl_master *m = sim->master->machine;
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->by_instance.count != 0)
            sim_fail(sim, "I11 the master still holds %u operations of group %u", m->groups[i]->by_instance.count,
                     m->groups[i]->number);
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->session.queued_count != 0)
            sim_fail(sim, "I11 the master still queues %u messages", m->remotes[i]->session.queued_count);
    sim_check_sync_idle(sim);
    sim_check_topology_idle(sim);
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        const struct sim_peer *peer = sim->peers[i];
        if (!peer->process.alive)
            continue;
        const struct pccl_peer *p = peer->machine;
        if (p->op_count != 0 || p->uses.count != 0 || p->session.queued_count != 0 || p->announcements.count != 0)
            sim_fail(sim, "I11 p%u still holds %u operations, %u counters, %u messages, %u announcements",
                     peer->process.number, p->op_count, p->uses.count, p->session.queued_count, p->announcements.count);
    }
}

/* ---- life ---- */

void sim_check_init(struct sim *sim)
{
    sim->checks = calloc(1, sizeof *sim->checks);
    if (sim->checks == NULL)
        abort();
}

void sim_check_fini(struct sim *sim)
{
    struct sim_checks *checks = sim->checks;
    sim_check_operations_fini(sim);
    sim_check_subgroups_fini(sim);
    sim_check_conduct_fini(sim);
    sim_check_sync_fini(sim);
    sim_check_topology_fini(sim);
    while (checks->epochs != NULL) {
        struct epoch_seen *seen = checks->epochs;
        checks->epochs = seen->next;
        free(seen->members);
        free(seen);
    }
    while (checks->views != NULL) {
        struct view_seen *seen = checks->views;
        checks->views = seen->next;
        free(seen->ring);
        free(seen->order);
        free(seen);
    }
    while (checks->rounds != NULL) {
        struct round_seen *seen = checks->rounds;
        checks->rounds = seen->next;
        free(seen);
    }
    for (uint32_t i = 0; i < sim->peer_count; i++) {
        free(sim->peers[i]->seen_members);
        free(sim->peers[i]->gone);
        free(sim->peers[i]->heard);
    }
    free(checks);
    sim->checks = NULL;
}
