/*
 * Launches of operations (PROTOCOL 1.5, 5.1). Choosing the sender of an open receive is also a launch (PROTOCOL 16.6).
 */
#include "peer/announcements.h"
#include "peer/calls.h"
#include "peer/choices.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/pairs.h"
#include "peer/progress.h"
#include "peer/op_table.h"
#include "peer/member_list.h"
#include "peer/subgroups.h"
#include "peer/where.h"
#include "wire/choice.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"

#include <string.h>

/*
 * Returns true if a launch must be refused because this peer is alone. A restarted master reports the end of a round
 * before the views that this peer missed, so the answer may include members that this peer's view lacks. In that case
 * the launch gets the same number as at the other members, and the missing view aborts it for all.
 */
static bool has_too_few_peers(const struct pccl_peer *p)
{
    return pccl_peer_is_alone(p) && pccl_epoch_compare(&p->attributes.epoch, &p->epoch) <= 0;
}

/* Refuses a launch because members have left, and updates the attributes and the member list that the caller sees. */
static enum pccl_status refuse_and_show(struct pccl_peer *p, enum pccl_status status)
{
    struct pccl_attributes live = pccl_peer_live_attributes(p);
    if (pccl_epoch_compare(&p->attributes.epoch, &live.epoch) <= 0)
        pccl_peer_set_attributes(p, &live, p->view_member_list);
    return status;
}

static bool is_root(const struct pccl_peer *p, const struct pccl_descriptor *descriptor)
{
    return pccl_id_equal(&descriptor->root, &p->config.id);
}

/*
 * Returns true if the payload fits the number of members that the launch lists or, if it lists none, `world` members.
 */
static bool has_fitting_payload(const struct pccl_peer *p, const struct pccl_launch *launch, uint32_t world)
{
    world = launch->members != NULL ? launch->member_count : world;
    if (launch->given_up != PCCL_CLASS_NONE)
        return true;
    if (!launch->tiny)
        return pccl_collective(launch->descriptor.collective)->of != PCCL_OF_NOTHING;
    const struct pccl_bytes contribution = {launch->payload, launch->payload_bytes};
    return pccl_tiny_contribution_fits(&launch->descriptor, world, is_root(p, &launch->descriptor), &contribution,
                                       p->tiny_bytes_max);
}

/* Returns OK if an operation may be launched in this group (PROTOCOL 15.3). */
static enum pccl_status may_launch_in(struct pccl_peer *p, uint64_t group)
{
    const struct pccl_peer_participants *all = pccl_peer_participants(p, group);
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (pccl_peer_is_in_quiet_call(p))
        return PCCL_USAGE; /* PROTOCOL 5.1: the era is about to change */
    if (all == NULL)
        return PCCL_ARGUMENT;
    if (all->ended)
        return PCCL_PEER_LOST;
    return group == 0 && has_too_few_peers(p) ? refuse_and_show(p, PCCL_TOO_FEW_PEERS) : PCCL_OK;
}

/* Returns true if the root is not a member. If the launch lists members, the master compares the list with the view. */
static bool has_root_elsewhere(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    const struct pccl_id *root = &launch->descriptor.root;
    return launch->members == NULL && launch->given_up == PCCL_CLASS_NONE &&
           pccl_collective_has_root(launch->descriptor.collective) &&
           !pccl_peer_has_member(p, pccl_peer_all_of(p, launch->subgroup), root);
}

/* Returns true if a caller holds an operation of all members of this group with this tag. */
static bool is_tag_in_use(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    const struct pccl_use *use =
        pccl_peer_find_use(p, &(struct pccl_instance){.subgroup = launch->subgroup, .tag = launch->tag});
    return use != NULL && use->held > 0;
}

static void hold(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_launch *launch, struct pccl_use *use)
{
    uint32_t timeout_ms = launch->timeout_ms != 0 ? launch->timeout_ms : p->config.op_timeout_ms;
    pccl_peer_hold_op(p, op, use);
    op->known = p->attributes.epoch;
    op->descriptor = launch->descriptor;
    op->given_up = launch->given_up != PCCL_CLASS_NONE;
    op->choice = launch->choice;
    if (pccl_choice_is_automatic(&op->descriptor) && !launch->tiny)
        op->choice.gap_us = pccl_peer_take_gap(p, launch->subgroup, launch->tag);
    op->tiny = launch->tiny;
    op->user = launch->user;
    op->followed = launch->followed;
    p->followed_count += op->followed;
    op->launched_us = op->begun_us = p->now_us;
    op->deadline_us = timeout_ms != 0 ? p->now_us + timeout_ms * UINT64_C(1000) : UINT64_MAX;
    if (launch->deadline_us != 0)
        op->deadline_us = pccl_max_u64(p->now_us, launch->deadline_us);
    op->where_us = pccl_peer_first_where(p, op->launched_us, op->deadline_us);
    pccl_peer_arm(p, pccl_min_u64(op->deadline_us, op->where_us));
}

/* Returns the size of the buffer for this member's contribution and for the result, which replaces it. */
static uint32_t room_for(const struct pccl_peer *p, const struct pccl_launch *launch, uint32_t world)
{
    if (!launch->tiny)
        return 0;
    if (launch->descriptor.collective == PCCL_ALL_REDUCE)
        return launch->payload_bytes;
    if (launch->followed)
        return PCCL_TINY_BYTES_MAX; /* the contributions of the other members may have any length */
    uint64_t result = pccl_tiny_sizes(&launch->descriptor, world, false).result;
    if (launch->subgroup == PCCL_FOUNDING)
        return (uint32_t)result;
    return pccl_max_u32(launch->payload_bytes, (uint32_t)pccl_min_u64(result, p->tiny_bytes_max));
}

/* Adds the operation to the table. From then on the instance exists for all peers. */
static enum pccl_status create(struct pccl_peer *p, const struct pccl_instance *instance,
                               const struct pccl_launch *launch, uint32_t world, struct pccl_peer_op **op)
{
    *op = pccl_peer_add_op(p, instance, room_for(p, launch, world));
    if (*op == NULL)
        return PCCL_MEMORY;
    (*op)->payload_bytes = launch->tiny ? launch->payload_bytes : 0;
    if ((*op)->payload_bytes > 0)
        memcpy((*op)->payload, launch->payload, launch->payload_bytes);
    if (pccl_is_of_whole_group(instance))
        (*op)->start_view = p->view;
    (*op)->state = PCCL_OP_RUNNING;
    return PCCL_OK;
}

/*
 * Begins the operation of a pair (PROTOCOL 16.4). A bulk send needs the link to its destination. A receiver without a
 * link from the source can learn only from the master that the source has launched a tiny send.
 */
static void need_link(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_id *other)
{
    if (!op->started)
        return;
    if (!is_root(p, &op->descriptor)) {
        pccl_list_append(pccl_peer_has_link_from(p, other) ? &p->linked : &p->unlinked, &op->in_open);
    } else if (pccl_peer_send_begins(p, other)) {
        op->sends_to = *other;
        pccl_peer_arm(p, p->now_us + PCCL_SEND_PATIENCE_US);
    }
}

static void begin(struct pccl_peer *p, struct pccl_peer_op *op)
{
    if (op->tiny) {
        op->complete = true;
        op->state = PCCL_OP_DONE;
    } else if (op->world > 1) {
        op->started = true;
        p->effects.op_start(p->effects.context, op);
    }
}

/*
 * Begins the operation unless its caller gives it up or expects other members than the view has (PROTOCOL 5.1). In
 * these cases it never starts, and the peer requests an abort for all from the master.
 */
static void start(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_launch *launch)
{
    if (launch->given_up != PCCL_CLASS_NONE) {
        pccl_peer_op_abort(p, op, launch->given_up, launch->reason);
        return;
    }
    if (launch->members != NULL && !pccl_peer_has_members(p, launch->members, launch->member_count)) {
        op->abort_sent = true;
        op->abort_class = PCCL_CLASS_MEMBERS_CHANGED;
        pccl_peer_describe_members(p, launch->members, launch->member_count, &op->abort_reason);
    } else {
        begin(p, op);
    }
    pccl_peer_report_progress(p, op);
}

/*
 * Checks the payload for `world` participants, and the descriptor. Refuses a launch whose messages the other side could
 * not decode: it would close the connection, and this peer would send them again.
 */
static enum pccl_status check(const struct pccl_peer *p, const struct pccl_launch *launch,
                              const struct pccl_descriptor *descriptor, uint32_t world)
{
    struct pccl_text why;
    if (!has_fitting_payload(p, launch, world))
        return PCCL_ARGUMENT;
    if (launch->given_up != PCCL_CLASS_NONE)
        return PCCL_OK; /* the descriptor is not sent */
    if (pccl_wire_check_descriptor(descriptor, launch->tiny, &why) == PCCL_OK)
        return PCCL_OK;
    if (launch->refusal != NULL)
        pccl_text_format(launch->refusal, "invalid descriptor: %s", why.bytes);
    return PCCL_INTERNAL;
}

/*
 * Names, counts and adds the operation, which is already decided if its outcome has arrived. `world` is the number of
 * participants.
 */
static enum pccl_status add(struct pccl_peer *p, const struct pccl_launch *launch, uint32_t world,
                            struct pccl_peer_op **op)
{
    enum pccl_status status = PCCL_OK;
    if (p->held_count >= PCCL_OPS_HELD_MAX)
        return PCCL_LIMIT;
    if (launch->choice.why != PCCL_CHOICE_NONE)
        status = pccl_peer_need_choice(p, launch->subgroup, launch->tag);
    if (status != PCCL_OK)
        return status;
    struct pccl_instance instance = {.subgroup = launch->subgroup,
                                     .pair = launch->pair,
                                     .joint = pccl_peer_joint(p),
                                     .sync = p->rounds[PCCL_ROUND_SYNC],
                                     .tag = launch->tag};
    struct pccl_use *use = pccl_peer_need_use(p, &instance);
    if (use == NULL)
        return p->uses.count >= PCCL_TAGS_PER_ERA_MAX ? PCCL_LIMIT : PCCL_MEMORY;
    instance.use = use->launches;
    struct pccl_peer_op *tombstone = p->tombstone_count > 0 ? pccl_peer_find_instance(p, &instance) : NULL;
    uint32_t needed = launch->followed ? 2 : 1;
    if (p->op_count - p->tombstone_count + p->followed_count + needed > PCCL_OPS_PER_PEER_MAX)
        /* even if a tombstone for it exists, because launching it makes room for another tombstone */
        return PCCL_LIMIT;
    if (tombstone != NULL) {
        PCCL_ASSERT(tombstone->state == PCCL_OP_TOMBSTONE);
        tombstone->state = PCCL_OP_DECIDED;
        p->tombstone_count--;
        pccl_peer_note_members(p, tombstone);
        pccl_peer_confirm(p, tombstone, tombstone->decision);
        *op = tombstone;
    } else {
        status = create(p, &instance, launch, world, op);
        if (status != PCCL_OK)
            return status; /* the launch has no number yet, so no member waits for it */
    }
    use->launches++;
    (*op)->world = world;
    hold(p, *op, launch, use);
    return PCCL_OK;
}

/* If another peer has launched the operation in a way that differs, aborts it. */
static void meet_announcement(struct pccl_peer *p, struct pccl_peer_op *op)
{
    struct pccl_announcement *announcement = pccl_peer_announcement(p, &op->instance);
    if (announcement == NULL)
        return;
    pccl_peer_refuse_announced(p, op, announcement);
    pccl_peer_drop_announcement(p, announcement);
}

/* Launches an operation of all members of a group. */
static enum pccl_status launch_together(struct pccl_peer *p, const struct pccl_launch *launch, uint32_t world,
                                        struct pccl_peer_op **op)
{
    if (launch->after != NULL) {
        PCCL_ASSERT(launch->after->state == PCCL_OP_DECIDED);
        pccl_peer_release_op(p, launch->after);
        pccl_peer_forget_op(p, launch->after);
    }
    enum pccl_status status = may_launch_in(p, launch->subgroup);
    if (status != PCCL_OK)
        return status;
    if (is_tag_in_use(p, launch) || has_root_elsewhere(p, launch))
        return PCCL_ARGUMENT;
    status = check(p, launch, &launch->descriptor, world);
    if (status == PCCL_OK)
        status = add(p, launch, world, op);
    if (status != PCCL_OK)
        return status;
    if (pccl_peer_is_decided(*op))
        (void)pccl_peer_take_gap(p, launch->subgroup, launch->tag);
    else
        start(p, *op, launch);
    meet_announcement(p, *op);
    return PCCL_OK;
}

/*
 * Launches a founding. The contribution is the list of founders; the master computes the result that all of them store
 * (PROTOCOL 15.2).
 */
static enum pccl_status launch_founding(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    uint32_t count = launch->member_count;
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (count < 2 || count > PCCL_PEERS_MAX || launch->descriptor.count != count)
        return PCCL_ARGUMENT;
    if (!pccl_peer_has_seats(p, count))
        return PCCL_LIMIT;
    struct pccl_id *ids = pccl_allocate(&p->memory, pccl_founding_bytes(count));
    if (ids == NULL)
        return PCCL_MEMORY;
    enum pccl_status status = pccl_peer_take_founders(p, launch->members, count, ids);
    if (status == PCCL_OK) {
        struct pccl_launch founding = *launch;
        founding.subgroup = PCCL_FOUNDING;
        founding.tag = pccl_founding_tag(ids, count);
        founding.tiny = true;
        founding.payload = ids->bytes;
        founding.payload_bytes = pccl_founding_bytes(count);
        founding.members = NULL;
        status = launch_together(p, &founding, count, op);
    }
    pccl_release(&p->memory, ids, pccl_founding_bytes(count));
    if (status == PCCL_OK) {
        (*op)->seats = count;
        pccl_peer_count_seats(p, count, true);
    }
    return status;
}

/* Launches a receive from any peer. */
static enum pccl_status launch_open(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    PCCL_ASSERT(launch->given_up == PCCL_CLASS_NONE);
    enum pccl_status status = add(p, launch, 2, op);
    if (status != PCCL_OK)
        return status;
    (*op)->state = PCCL_OP_OPEN;
    (*op)->from_any = true;
    pccl_list_append(&p->open, &(*op)->in_open);
    p->has_receive = true;
    return PCCL_OK;
}

/* Launches an operation of a pair. */
static enum pccl_status launch_in_pair(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    enum pccl_status status = add(p, launch, 2, op);
    if (status != PCCL_OK)
        return status;
    p->has_news = true;
    if (!pccl_peer_is_decided(*op)) {
        start(p, *op, launch);
        need_link(p, *op, &launch->other);
    }
    meet_announcement(p, *op);
    return PCCL_OK;
}

/* Returns OK if this peer may send to that member. */
static enum pccl_status may_send_to(struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (launch->tiny || pccl_peer_can_send_to(p, &launch->other))
        return PCCL_OK;
    if (launch->refusal != NULL)
        pccl_text_format(launch->refusal,
                         "too many sends: this peer is already sending more than %u bytes to %u other peers",
                         p->tiny_bytes_max, p->config.send_links_max);
    return PCCL_LIMIT;
}

/* Launches a send, or a receive from a named peer or from any peer, whose root is unknown (PROTOCOL 16.2). */
static enum pccl_status launch_send(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    struct pccl_launch send = *launch;
    struct pccl_descriptor known = launch->descriptor;
    const bool sends = is_root(p, &launch->descriptor), open = !sends && pccl_id_is_zero(&launch->other);
    enum pccl_status status = may_launch_in(p, launch->subgroup);
    if (status != PCCL_OK)
        return status;
    if (!pccl_id_equal(&launch->descriptor.root, sends ? &p->config.id : &launch->other) ||
        pccl_id_equal(&launch->other, &p->config.id))
        return PCCL_ARGUMENT;
    send.members = NULL;
    if (open)
        known.root = p->config.id;
    status = check(p, &send, &known, 2);
    if (status != PCCL_OK)
        return status;
    if (open) {
        send.pair = PCCL_OPEN_PAIR;
        return launch_open(p, &send, op);
    }
    status = pccl_peer_name_pair(p, &launch->other, sends, &send.pair);
    if (status != PCCL_OK)
        return status == PCCL_PEER_LOST ? refuse_and_show(p, status) : status;
    if (!pccl_peer_has_member(p, pccl_peer_all_of(p, launch->subgroup), &launch->other))
        return PCCL_ARGUMENT;
    status = sends ? may_send_to(p, launch) : PCCL_OK;
    return status == PCCL_OK ? launch_in_pair(p, &send, op) : status;
}

enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    const struct pccl_peer_participants *all = pccl_peer_participants(p, launch->subgroup);
    switch (launch->descriptor.collective) {
    case PCCL_FOUND: return launch_founding(p, launch, op);
    case PCCL_SEND: return launch_send(p, launch, op);
    default: return launch_together(p, launch, all != NULL ? all->count : 0, op);
    }
}

void pccl_peer_op_choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance,
                         const struct pccl_id *source)
{
    const struct pccl_announcement announced = *pccl_peer_announcement(p, instance);
    pccl_peer_unlist(op);
    pccl_peer_drop_announcement(p, pccl_peer_announcement(p, instance));
    pccl_peer_rename_op(p, op, instance);
    op->descriptor.root = *source;
    op->state = PCCL_OP_RUNNING;
    op->launched_us = p->now_us;
    op->where_us = pccl_peer_first_where(p, op->launched_us, op->deadline_us);
    pccl_peer_arm(p, op->where_us);
    begin(p, op);
    need_link(p, op, source);
    pccl_peer_report_progress(p, op);
    pccl_peer_refuse_announced(p, op, &announced);
}
