/*
 * Rules about a peer's state that its functions rely on. They hold between two steps or calls, for any messages of a
 * correct master, and also if memory was short. This file must not know which events led to a state.
 */
#include "support/peer_check.h"

#include "core/rule.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/pairs.h"
#include "peer/queries.h"
#include "peer/op_table.h"
#include "peer/subgroups.h"
#include "wire/subgroup.h"

const struct pccl_id *pccl_peer_member_at(const struct pccl_peer_participants *all, uint32_t rank)
{
    for (uint32_t place = 0; place < all->count; place++)
        if (all->positions[place] == rank)
            return &all->ring[place];
    return NULL;
}

const struct pccl_peer_subgroup *pccl_peer_next_subgroup(const struct pccl_peer *p,
                                                         const struct pccl_peer_subgroup *after)
{
    struct pccl_table_node *node =
        after != NULL ? pccl_table_after(&p->subgroups, &after->by_name) : pccl_table_first(&p->subgroups);
    return node != NULL ? PCCL_CONTAINER_OF(node, struct pccl_peer_subgroup, by_name) : NULL;
}

/* ---- the master ---- */

static const char *check_master(const struct pccl_peer *p)
{
    bool lives = p->state != PCCL_PEER_IDLE && p->state != PCCL_PEER_OVER;
    PCCL_RULE(!p->dialing || !p->up, "a peer does not dial the master while it is connected");
    PCCL_RULE(!p->greeted || p->up, "a peer that the master has greeted is connected");
    PCCL_RULE(!p->resuming || p->state == PCCL_PEER_MEMBER, "only a member resumes");
    PCCL_RULE(!lives || p->up || p->dialing || p->redial_us != 0, "a peer that lost the master dials it again");
    PCCL_RULE(p->state != PCCL_PEER_OVER || (!p->up && !p->dialing && p->link_count == 0),
              "a peer whose life has ended has closed everything");
    PCCL_RULE(pccl_session_is_sound(&p->session), "a session keeps exactly the messages that are not acknowledged");
    return NULL;
}

/* ---- membership ---- */

static bool is_before(const struct pccl_member *a, const struct pccl_member *b)
{
    if (a->group != b->group)
        return a->group < b->group;
    return a->admitted != b->admitted ? a->admitted < b->admitted : pccl_id_compare(&a->peer, &b->peer) < 0;
}

static const char *check_members(const struct pccl_peer *p)
{
    const struct pccl_member *group = pccl_peer_group_members(p);
    uint32_t in_group = 0;
    if (p->state != PCCL_PEER_MEMBER)
        return NULL;
    for (uint32_t i = 0; i < p->member_count; i++) {
        PCCL_RULE(i == 0 || is_before(&p->members[i - 1], &p->members[i]), "members are sorted");
        PCCL_RULE(pccl_peer_knows_member(p, &p->members[i].peer), "the index has all members");
        in_group += p->members[i].group == p->config.group;
    }
    PCCL_RULE(p->group.count == in_group && p->live.group_world == in_group, "a ring has all members of the group");
    PCCL_RULE(pccl_id_equal(&p->group.ring[p->group.place], &p->config.id), "a peer knows its place in the ring");
    for (uint32_t i = 0; i < p->group.count; i++)
        PCCL_RULE(pccl_peer_position_of(p, &p->group.ring[i]) == p->group.positions[i] &&
                      pccl_id_equal(&group[p->group.positions[i]].peer, &p->group.ring[i]),
                  "a ring consists of members of the group, and knows their positions");
    PCCL_RULE(pccl_epoch_compare(&p->view, &p->epoch) <= 0, "a view is not newer than the epoch");
    return NULL;
}

/* ---- operations ---- */

static bool is_of_this_era(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    return instance->joint == pccl_peer_joint(p) && instance->sync == p->rounds[PCCL_ROUND_SYNC];
}

/* Returns true if the pair and the subgroup of the operation exist. The whole group always does. */
static bool lives(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    /* a restarted master sends an answer before the view that it belongs to (PROTOCOL 1.5) */
    bool is_alone = p->group.count < 2 && pccl_epoch_compare(&p->attributes.epoch, &p->epoch) <= 0;
    if (instance->pair == PCCL_OPEN_PAIR && is_alone)
        return false;
    if (instance->pair != 0 && instance->pair != PCCL_OPEN_PAIR && pccl_peer_other_of(p, instance->pair) == NULL)
        return false;
    const struct pccl_peer_participants *all = pccl_peer_all_of(p, instance->subgroup);
    return all != NULL && !all->ended;
}

static const char *check_open(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    PCCL_RULE(p->state == PCCL_PEER_MEMBER, "only a member has undecided operations");
    PCCL_RULE(op->held, "an undecided operation has a caller");
    PCCL_RULE(!pccl_is_of_whole_group(&op->instance) || pccl_epoch_equal(&op->start_view, &p->view),
              "an undecided operation of the whole group was launched in this view");
    PCCL_RULE(lives(p, &op->instance), "an undecided operation is of a subgroup or pair that lives");
    PCCL_RULE(op->complete || op->state != PCCL_OP_DONE, "an operation that is done is complete");
    PCCL_RULE(op->payload_bytes <= op->payload_capacity, "a payload is within its room");
    PCCL_RULE((op->state == PCCL_OP_OPEN) == (op->instance.pair == PCCL_OPEN_PAIR),
              "a receive from anybody has a name when somebody is chosen");
    PCCL_RULE(!op->tiny || op->complete || op->abort_sent || op->state == PCCL_OP_OPEN,
              "a tiny operation that never started is to be aborted");
    PCCL_RULE(pccl_list_is_empty(&op->in_unstable), "an undecided operation has no outcome");
    return NULL;
}

static const char *check_op(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    bool tombstone = op->state == PCCL_OP_TOMBSTONE;
    PCCL_RULE(p->state == PCCL_PEER_OVER || is_of_this_era(p, &op->instance), "all operations are of this era");
    PCCL_RULE(!op->started || !op->tiny, "a tiny operation moves no data");
    PCCL_RULE(!tombstone || (!op->held && op->class != PCCL_CLASS_NONE),
              "a tombstone is an abort that no caller holds");
    PCCL_RULE(pccl_list_is_empty(&op->in_unstable) || (op->confirmed && !tombstone && op->decision > p->stable),
              "an unstable outcome was told by the master and is not known to all members");
    PCCL_RULE(op->decision <= p->decisions, "no outcome is later than the latest one that was told");
    return pccl_peer_is_decided(op) ? NULL : check_open(p, op);
}

/* Returns the number of operations that callers hold, as the counters of launches have it. */
static uint32_t count_held(const struct pccl_peer *p)
{
    uint32_t held = 0;
    for (struct pccl_table_node *node = pccl_table_first(&p->uses); node != NULL;
         node = pccl_table_after(&p->uses, node))
        held += PCCL_CONTAINER_OF(node, const struct pccl_use, by_tag)->held;
    return held;
}

static const char *check_operations(const struct pccl_peer *p)
{
    const char *broken = NULL;
    const struct pccl_peer_op *before = NULL;
    uint32_t count = 0, held = 0, followed = 0, awaited = 0, tombstones = 0, unstable = 0;
    for (const struct pccl_peer_op *op = p->oldest; broken == NULL && op != NULL; before = op, op = op->newer) {
        PCCL_RULE(op->older == before, "operations are linked both ways");
        count++;
        held += op->held;
        followed += op->held && op->tiny && pccl_collective_is_of_blobs(op->descriptor.collective);
        awaited += op->awaited && !pccl_peer_is_decided(op);
        tombstones += op->state == PCCL_OP_TOMBSTONE;
        unstable += !pccl_list_is_empty(&op->in_unstable);
        broken = check_op(p, op);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(p->newest == before, "the last operation is the newest");
    PCCL_RULE(p->op_count == count && p->by_instance.count == count, "the number of operations is right");
    PCCL_RULE(p->held_count == held && count_held(p) == held, "the number of operations that callers hold is right");
    PCCL_RULE(p->followed_count == followed, "the number of operations that others may follow is right");
    PCCL_RULE(p->awaited_count == awaited, "the number of operations that callers wait in is right");
    PCCL_RULE(p->tombstone_count == tombstones, "the number of tombstones is right");
    before = NULL;
    for (struct pccl_list_node *node = p->unstable.next; node != &p->unstable; node = node->next, unstable--) {
        const struct pccl_peer_op *op = PCCL_CONTAINER_OF(node, struct pccl_peer_op, in_unstable);
        PCCL_RULE(node->previous->next == node, "unstable outcomes are linked both ways");
        PCCL_RULE(before == NULL || before->decision <= op->decision, "unstable outcomes are in order of decision");
        before = op;
    }
    PCCL_RULE(unstable == 0, "the list of unstable outcomes is complete");
    return NULL;
}

static const char *check_uses(const struct pccl_peer *p)
{
    for (const struct pccl_peer_op *op = p->oldest; op != NULL && p->state == PCCL_PEER_MEMBER; op = op->newer) {
        PCCL_RULE(pccl_peer_has_launched(p, &op->instance) == (op->state != PCCL_OP_TOMBSTONE),
                  "launches are counted, and a tombstone is of a launch to come");
    }
    for (struct pccl_table_node *node = pccl_table_first(&p->announcements); node != NULL;
         node = pccl_table_after(&p->announcements, node)) {
        const struct pccl_instance *instance =
            &PCCL_CONTAINER_OF(node, const struct pccl_announcement, by_instance)->instance;
        PCCL_RULE(p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER,
                  "announcements end with the peer's life");
        PCCL_RULE(pccl_peer_find_instance(p, instance) == NULL, "an announced operation is not launched here");
    }
    return NULL;
}

static const char *check_limits(const struct pccl_peer *p)
{
    PCCL_RULE(p->held_count <= PCCL_OPS_HELD_MAX, "operations that callers hold are within limits.h");
    PCCL_RULE(p->op_count - p->tombstone_count + p->followed_count <= PCCL_OPS_PER_PEER_MAX,
              "operations, and those that may follow, are within limits.h");
    PCCL_RULE(p->founded_count <= 2 * PCCL_SUBGROUPS_MAX && p->seat_count <= 2 * PCCL_SUBGROUP_SEATS_MAX,
              "subgroups, and their foundings, are within limits.h");
    PCCL_RULE(p->tombstone_count <= PCCL_TOMBSTONES_MAX, "tombstones are within limits.h");
    PCCL_RULE(p->asks.count <= PCCL_LISTENED_MAX, "tags that are asked for are within limits.h");
    PCCL_RULE(p->announcements.count <= PCCL_ANNOUNCED_SENDS_MAX, "announcements are within limits.h");
    PCCL_RULE(p->uses.count <= PCCL_TAGS_PER_ERA_MAX, "tags of an era are within limits.h");
    PCCL_RULE(p->choices.count <= PCCL_CHOICES_MAX, "choices are within limits.h");
    PCCL_RULE(p->link_count <= PCCL_PEERS_MAX, "links are within limits.h");
    return NULL;
}

/* ---- calls ---- */

static const char *check_calls(const struct pccl_peer *p)
{
    uint32_t outstanding = 0;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        PCCL_RULE(!p->calls[kind].outstanding || p->state == PCCL_PEER_MEMBER, "only members make joint calls");
        outstanding += p->calls[kind].outstanding;
    }
    PCCL_RULE(outstanding <= 1, "at most one joint call is outstanding");
    PCCL_RULE(!outstanding || p->calls[PCCL_ROUND_PENDING].outstanding || p->held_count == 0,
              "callers hold no operation in a call that ends the era");
    PCCL_RULE(!p->connect_outstanding || p->state == PCCL_PEER_CONNECTING || p->state == PCCL_PEER_PENDING,
              "connect ends when the peer is admitted or its life ends");
    PCCL_RULE(!p->describing || p->state == PCCL_PEER_MEMBER, "only members ask for topology reports");
    PCCL_RULE((!p->test.outstanding && !p->test.running && p->tested_count == 0) || p->state != PCCL_PEER_MEMBER ||
                  p->calls[PCCL_ROUND_OPTIMIZE].outstanding,
              "paths are tested, and results kept, only within an optimization");
    PCCL_RULE(!p->test.outstanding || p->test.running, "the master waits only for tests that run");
    return NULL;
}

/* ---- links ---- */

static const char *check_link(const struct pccl_peer *p, const struct pccl_peer_link *link)
{
    bool kept = link->idle_us != 0, down = link->out == PCCL_DIAL_DOWN;
    bool wanted = link->ring || link->mesh || link->warm || link->subgroups > 0 || link->sends > 0 || kept;
    const struct pccl_id *successor = pccl_peer_successor(p);
    PCCL_RULE(wanted || link->in_up, "a link is wanted here, or by the other end");
    PCCL_RULE(wanted || down, "a link that is not wanted here is neither dialed nor up");
    PCCL_RULE(!kept || (link->sends == 0 && !down), "a link that is kept after a send stands");
    PCCL_RULE(!kept || p->deadline_us <= link->idle_us + p->config.send_idle_ms * UINT64_C(1000),
              "a link that is kept has an end");
    PCCL_RULE(link->sends == 0 || link->asked || link->candidate_count > 0 || p->resuming || !p->greeted,
              "the master is asked for the link that a send needs");
    PCCL_RULE(down || link->retry_us == 0, "a link that is being dialed or stands is not due to be dialed");
    PCCL_RULE(!link->ring || !down || link->candidate_count == 0 || link->retry_us != 0,
              "a link to the successor that is down is due to be dialed");
    PCCL_RULE(!link->ring || (successor != NULL && pccl_id_equal(&link->id, successor)),
              "the link of the ring leads to the successor");
    return NULL;
}

/* New receives are at the end of a list: those without an ask follow those with one. */
static bool are_counted_in_order(const struct pccl_list_node *list)
{
    bool in_order = true, is_new = false;
    for (struct pccl_list_node *node = list->next; node != list; node = node->next) {
        bool counted = PCCL_CONTAINER_OF(node, struct pccl_peer_op, in_open)->ask != NULL;
        in_order = in_order && !(is_new && counted);
        is_new = is_new || !counted;
    }
    return in_order;
}

static bool is_in_list(const struct pccl_list_node *list, const struct pccl_peer_op *op)
{
    const struct pccl_list_node *node = list->next;
    while (node != list && node != &op->in_open)
        node = node->next;
    return node != list;
}

static uint32_t length_of(const struct pccl_list_node *list)
{
    uint32_t length = 0;
    for (const struct pccl_list_node *node = list->next; node != list; node = node->next)
        length++;
    return length;
}

static const char *check_sends(const struct pccl_peer *p)
{
    uint32_t begun = 0, counted = 0, listed = 0, asked = 0;
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        const bool moves = op->started && !pccl_peer_is_decided(op) && op->instance.pair != 0;
        const bool sends = moves && pccl_id_equal(&op->descriptor.root, &p->config.id);
        begun += sends;
        PCCL_RULE(!sends || !pccl_id_is_zero(&op->sends_to), "a bulk send needs a link");
        const bool receives = moves && !sends && op->state == PCCL_OP_RUNNING;
        const bool linked = receives && pccl_peer_has_link_from(p, &op->descriptor.root);
        PCCL_RULE(!receives || is_in_list(linked ? &p->linked : &p->unlinked, op),
                  "a bulk receive is in the list for the state of the link from its source");
        listed += !pccl_list_is_empty(&op->in_open) && op->state != PCCL_OP_OPEN;
        asked += op->ask != NULL;
        PCCL_RULE(op->ask == NULL || (op->ask->tag == op->instance.tag && op->ask->subgroup == op->instance.subgroup &&
                                      !pccl_list_is_empty(&op->in_open)),
                  "an ask counts receives of its tag that wait for an offer");
    }
    for (struct pccl_table_node *node = pccl_table_first(&p->asks); node != NULL;
         node = pccl_table_after(&p->asks, node))
        asked -= PCCL_CONTAINER_OF(node, struct pccl_ask, by_tag)->open;
    PCCL_RULE(p->resuming || (are_counted_in_order(&p->open) && are_counted_in_order(&p->unlinked)),
              "receives without an ask follow those with one");
    PCCL_RULE(asked == 0, "asks count the receives that refer to them");
    for (uint32_t i = 0; i < p->link_count; i++)
        counted += p->links[i].sends;
    PCCL_RULE(p->state != PCCL_PEER_MEMBER || counted == begun, "links count the sends that need them");
    PCCL_RULE(listed == length_of(&p->linked) + length_of(&p->unlinked), "the lists of bulk receives are complete");
    return NULL;
}

static const char *check_links(const struct pccl_peer *p)
{
    const char *broken = check_sends(p);
    uint32_t ring = 0;
    for (uint32_t i = 0; broken == NULL && i < p->link_count; i++) {
        ring += p->links[i].ring;
        broken = check_link(p, &p->links[i]);
    }
    if (broken != NULL)
        return broken;
    PCCL_RULE(p->state != PCCL_PEER_MEMBER || ring == (p->group.count > 1), "a member has one link to its successor");
    return NULL;
}

/* ---- subgroups ---- */

static bool relies_on(const struct pccl_peer_participants *all, const struct pccl_id *id)
{
    uint32_t place = pccl_id_find(all->ring, all->count, id);
    return !all->ended && place < all->count && place != all->place &&
           (all->cost.mesh != 0 || place == (all->place + 1) % all->count);
}

static const char *check_subgroups(const struct pccl_peer *p)
{
    uint32_t count = 0, seats = 0, links = 0;
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        count += op->seats > 0;
        seats += op->seats;
    }
    for (const struct pccl_peer_subgroup *s = NULL; (s = pccl_peer_next_subgroup(p, s)) != NULL;) {
        const struct pccl_peer_participants *all = &s->all;
        count += !all->ended;
        seats += all->ended ? 0 : all->count;
        links += all->ended || p->state != PCCL_PEER_MEMBER ? 0 : all->cost.mesh != 0 ? all->count - 1 : 1;
        PCCL_RULE(!all->ended || !all->closed, "a subgroup that has ended and is closed is forgotten");
        PCCL_RULE(all->ended || p->state == PCCL_PEER_MEMBER, "subgroups end with the peer's life");
        PCCL_RULE(pccl_id_equal(&all->ring[all->place], &p->config.id), "this peer is in its subgroups");
        for (uint32_t i = 0; i < all->count; i++) {
            PCCL_RULE(pccl_peer_member_at(all, i) != NULL, "each rank has a place in the ring");
            PCCL_RULE(all->ended || pccl_peer_is_in_group(p, &all->ring[i]), "a subgroup ends before a member leaves");
        }
    }
    PCCL_RULE(p->founded_count == count && p->seat_count == seats, "the number of subgroups is right");
    for (uint32_t i = 0; i < p->link_count; i++) {
        uint32_t rely = 0;
        for (const struct pccl_peer_subgroup *s = NULL; (s = pccl_peer_next_subgroup(p, s)) != NULL;)
            rely += relies_on(&s->all, &p->links[i].id);
        PCCL_RULE(p->links[i].subgroups == rely, "the number of subgroups that rely on a link is right");
        links -= rely;
    }
    PCCL_RULE(links == 0, "all links that subgroups rely on are there");
    return NULL;
}

/* ---- time: the machine is woken when something is due ---- */

static const char *check_deadlines_of_calls(const struct pccl_peer *p)
{
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        const struct pccl_vote_call *call = &p->calls[kind];
        PCCL_RULE(!call->outstanding || call->withdrawn || p->deadline_us <= call->deadline_us,
                  "a call ends at its deadline");
        PCCL_RULE(!call->outstanding || p->deadline_us <= call->where_us, "a call asks in time who is where");
    }
    PCCL_RULE(!p->connect_outstanding || p->deadline_us <= p->connect_deadline_us, "connect ends at its deadline");
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op))
            continue;
        PCCL_RULE(op->abort_sent || p->deadline_us <= op->deadline_us,
                  "an operation asks for an abort at its deadline");
        PCCL_RULE(!op->awaited || p->deadline_us <= op->where_us, "an operation asks in time who is where");
    }
    return NULL;
}

static const char *check_deadlines(const struct pccl_peer *p)
{
    if (p->state == PCCL_PEER_IDLE || p->state == PCCL_PEER_OVER)
        return NULL;
    PCCL_RULE(p->redial_us == 0 || p->deadline_us <= p->redial_us, "the master is dialed again when that is due");
    uint64_t patience_us =
        (p->state == PCCL_PEER_CONNECTING ? p->config.connect_retry_ms : p->config.master_lost_ms) * UINT64_C(1000);
    PCCL_RULE(p->lost_us == 0 || p->greeted || p->deadline_us <= p->lost_us + patience_us,
              "the peer gives up a lost master in time");
    PCCL_RULE(!p->up || p->deadline_us <= p->received_us + p->silence_ms * UINT64_C(1000),
              "silence is noticed in time");
    for (uint32_t i = 0; i < p->link_count; i++) {
        const struct pccl_peer_link *link = &p->links[i];
        PCCL_RULE(link->retry_us == 0 || p->deadline_us <= link->retry_us, "a link is dialed again when that is due");
        PCCL_RULE(!link->warm || p->state != PCCL_PEER_MEMBER ||
                      p->deadline_us <= pccl_max_u64(p->now_us, link->log_us),
                  "a newcomer that waits for admission is logged in time");
    }
    return check_deadlines_of_calls(p);
}

const char *pccl_peer_check(const struct pccl_peer *p)
{
    static const char *(*const checks[])(const struct pccl_peer *) = {check_master, check_members,   check_operations,
                                                                      check_uses,   check_limits,    check_calls,
                                                                      check_links,  check_subgroups, check_deadlines};
    const char *broken = NULL;
    for (size_t i = 0; broken == NULL && i < PCCL_COUNT_OF(checks); i++)
        broken = checks[i](p);
    return broken;
}
