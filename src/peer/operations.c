/* The life of an operation at a peer (PROTOCOL 5): launch, done, decided, released, forgotten. */
#include "peer/announcements.h"
#include "peer/calls.h"
#include "peer/choices.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/pairs.h"
#include "peer/progress.h"
#include "peer/queries.h"
#include "peer/op_table.h"
#include "peer/roll.h"
#include "peer/subgroups.h"
#include "peer/where.h"
#include "wire/choice.h"
#include "wire/describe.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"

#include <string.h>

enum { PATIENCE_US = 10000000 }; /* with the link to whom something is sent, once it is known how to dial it */

#define GONE_ON_WITHOUT "this peer was removed from the run: an operation was committed without it"

/*
 * PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Callers hold no
 * operation then, as the call that ended it was quiet.
 */
void pccl_peer_change_era(struct pccl_peer *p)
{
    pccl_peer_forget_uses(p);
    pccl_peer_forget_old_choices(p);
    pccl_peer_forget_stable(p);
    pccl_peer_drop_announcements(p, false);
}

/* ---- its caller ---- */

void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && op->state == PCCL_OP_DECIDED);
    pccl_peer_let_op_go(p, op);
    if (pccl_epoch_compare(&op->attributes.epoch, &p->attributes.epoch) > 0)
        pccl_peer_set_attributes(p, &op->attributes, op->roll);
    pccl_peer_forget_op(p, op);
}

/* ---- launching ---- */

/* What the caller will see of the membership when it releases the operation. */
static void note_members(struct pccl_peer *p, struct pccl_peer_op *op)
{
    op->attributes = pccl_peer_live_attributes(p);
    op->roll = pccl_peer_hold_roll(p);
}

bool pccl_peer_is_alone(const struct pccl_peer *p) { return p->ring_count < 2; }

/*
 * A restarted master tells how a round ended before it tells the views that this peer missed, so
 * the answer may count members that are not in its view yet. A launch is numbered then, as it is at
 * those members, and the missing view aborts it for all.
 */
static bool has_too_few_peers(const struct pccl_peer *p)
{
    return pccl_peer_is_alone(p) && pccl_epoch_compare(&p->attributes.epoch, &p->epoch) <= 0;
}

/* The caller sees the members of whom it counted on more. */
static enum pccl_status refuse_and_show(struct pccl_peer *p, enum pccl_status status)
{
    struct pccl_attributes live = pccl_peer_live_attributes(p);
    if (pccl_epoch_compare(&p->attributes.epoch, &live.epoch) <= 0)
        pccl_peer_set_attributes(p, &live, p->view_roll);
    return status;
}

static bool is_root(const struct pccl_peer *p, const struct pccl_descriptor *descriptor)
{
    return pccl_id_equal(&descriptor->root, &p->config.id);
}

/* How many take part; 0: there is no such subgroup. */
static uint32_t world_of(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (launch->pair != 0)
        return 2;
    if (launch->subgroup == 0)
        return p->ring_count;
    if (launch->subgroup == PCCL_FOUNDING)
        return (uint32_t)launch->descriptor.count;
    const struct pccl_peer_subgroup *subgroup = pccl_peer_open_subgroup(p, launch->subgroup);
    return subgroup != NULL ? subgroup->count : 0;
}

/* Of as many members as the caller counts on. */
static bool has_fitting_payload(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    uint32_t world = launch->members != NULL ? launch->member_count : world_of(p, launch);
    if (launch->given_up != PCCL_CLASS_NONE)
        return true;
    if (!launch->tiny)
        return pccl_collective(launch->descriptor.collective)->of != PCCL_OF_NOTHING;
    const struct pccl_bytes contribution = {launch->payload, launch->payload_bytes};
    return world > 0 && pccl_tiny_contribution_fits(&launch->descriptor, world, is_root(p, &launch->descriptor),
                                                    &contribution, p->tiny_bytes_max);
}

/* Of an operation in a subgroup (PROTOCOL 15.3). */
static enum pccl_status may_launch_in(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    const struct pccl_peer_subgroup *subgroup = pccl_peer_subgroup(p, launch->subgroup);
    if (subgroup == NULL)
        return PCCL_ARGUMENT;
    if (subgroup->ended)
        return PCCL_PEER_LOST;
    bool is_send = launch->descriptor.collective == PCCL_SEND;
    bool names_one =
        is_send ? !pccl_id_is_zero(&launch->other)
                : pccl_collective_has_root(launch->descriptor.collective) && launch->given_up == PCCL_CLASS_NONE;
    const struct pccl_id *one = is_send ? &launch->other : &launch->descriptor.root;
    return names_one && !pccl_peer_is_in_subgroup(p, launch->subgroup, one) ? PCCL_ARGUMENT : PCCL_OK;
}

static enum pccl_status may_launch(struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (pccl_peer_is_in_quiet_call(p))
        return PCCL_USAGE; /* PROTOCOL 5.1: the era is about to change */
    if (launch->subgroup != 0 && launch->subgroup != PCCL_FOUNDING) {
        enum pccl_status status = may_launch_in(p, launch);
        if (status != PCCL_OK)
            return status;
    }
    if (launch->pair == 0 && pccl_peer_find_held(p, launch->subgroup, launch->tag) != NULL)
        return PCCL_ARGUMENT;
    if (!has_fitting_payload(p, launch))
        return PCCL_ARGUMENT;
    return launch->subgroup == 0 && has_too_few_peers(p) ? refuse_and_show(p, PCCL_TOO_FEW_PEERS) : PCCL_OK;
}

static void hold(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_launch *launch)
{
    uint32_t timeout_ms = launch->timeout_ms != 0 ? launch->timeout_ms : p->config.op_timeout_ms;
    pccl_peer_hold_op(p, op);
    op->known = p->attributes.epoch;
    op->descriptor = launch->descriptor;
    op->given_up = launch->given_up != PCCL_CLASS_NONE;
    op->choice = launch->choice;
    if (pccl_choice_is_automatic(&op->descriptor) && !launch->tiny)
        op->choice.gap_us = pccl_peer_take_gap(p, launch->subgroup, launch->tag);
    op->tiny = launch->tiny;
    op->user = launch->user;
    op->world = world_of(p, launch);
    p->followed_count += pccl_peer_is_followed(&op->descriptor, op->tiny);
    op->launched_us = op->begun_us = p->now_us;
    op->deadline_us = timeout_ms != 0 ? p->now_us + timeout_ms * UINT64_C(1000) : UINT64_MAX;
    if (launch->deadline_us != 0)
        op->deadline_us = pccl_max_u64(p->now_us, launch->deadline_us);
    op->where_us = pccl_peer_first_where(p, op->launched_us, op->deadline_us);
    pccl_peer_arm(p, pccl_min_u64(op->deadline_us, op->where_us));
}

/* For what this member contributes, and for the result behind it. */
static uint32_t room_for(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (!launch->tiny)
        return 0;
    if (launch->descriptor.collective == PCCL_ALL_REDUCE)
        return launch->payload_bytes;
    if (pccl_collective_is_of_blobs(launch->descriptor.collective))
        return PCCL_TINY_BYTES_MAX; /* however long the blobs of the others are */
    uint64_t result = pccl_tiny_sizes(&launch->descriptor, world_of(p, launch), false).result;
    if (launch->subgroup == PCCL_FOUNDING)
        return (uint32_t)result;
    return pccl_max_u32(launch->payload_bytes, (uint32_t)pccl_min_u64(result, p->tiny_bytes_max));
}

/* From here on the operation exists under this name, for all peers. */
static enum pccl_status create(struct pccl_peer *p, const struct pccl_instance *instance,
                               const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    uint32_t room = room_for(p, launch);
    uint8_t *payload = room > 0 ? pccl_allocate(&p->memory, room) : NULL;
    *op = room == 0 || payload != NULL ? pccl_peer_add_op(p, instance) : NULL;
    if (*op == NULL) {
        pccl_release(&p->memory, payload, room);
        return PCCL_MEMORY;
    }
    if (payload != NULL && launch->payload_bytes > 0)
        memcpy(payload, launch->payload, launch->payload_bytes);
    (*op)->payload = payload;
    (*op)->payload_bytes = launch->tiny ? launch->payload_bytes : 0;
    (*op)->payload_capacity = room;
    if (pccl_is_of_whole_group(instance))
        (*op)->start_view = p->view;
    (*op)->state = PCCL_OP_RUNNING;
    return PCCL_OK;
}

/*
 * PROTOCOL 16.4: a bulk send needs the link to its destination. Without the link from its source a receive learns only
 * from the master that the source has launched a tiny send.
 */
static void begin_pair(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_id *other)
{
    if (!is_root(p, &op->descriptor)) {
        if (!pccl_peer_has_link_from(p, other))
            pccl_list_append(&p->unlinked, &op->in_open);
    } else if (pccl_peer_send_begins(p, other)) {
        op->sends_to = *other;
        pccl_peer_arm(p, p->now_us + PATIENCE_US);
    }
}

/* other: of a pair. */
static void begin(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_id *other)
{
    if (op->tiny) {
        op->complete = true;
        op->state = PCCL_OP_DONE;
    } else if (op->world > 1) {
        op->started = true;
        p->effects.op_start(p->effects.context, op);
        if (op->instance.pair != 0)
            begin_pair(p, op, other);
    }
}

/*
 * PROTOCOL 5.1: it is under way here, unless its caller gives it up, or counts on other members than
 * the view has. Then it never starts, and the master is asked to abort it for all.
 */
static void start(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_launch *launch)
{
    if (launch->given_up != PCCL_CLASS_NONE) {
        pccl_peer_op_abort(p, op, launch->given_up, launch->reason);
        return;
    }
    if (launch->pair == PCCL_OPEN_PAIR) {
        op->state = PCCL_OP_OPEN;
        op->from_anybody = true;
        pccl_list_append(&p->open, &op->in_open);
        return;
    }
    if (launch->members != NULL && !pccl_peer_has_members(p, launch->members, launch->member_count)) {
        op->abort_sent = true;
        op->abort_class = PCCL_CLASS_MEMBERS_CHANGED;
        pccl_peer_describe_members(p, launch->members, launch->member_count, &op->abort_reason);
    } else {
        begin(p, op, &launch->other);
    }
    pccl_peer_tell(p, op);
}

/*
 * Refuses a launch whose messages the other side could not decode: it would close the connection, and this peer would
 * send them again. The root of a receive from any peer is not known yet.
 */
static enum pccl_status check_descriptor(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    const struct pccl_descriptor *descriptor = &launch->descriptor;
    struct pccl_descriptor chosen;
    struct pccl_text why;
    if (launch->given_up != PCCL_CLASS_NONE)
        return PCCL_OK; /* its descriptor is not sent */
    if (launch->pair == PCCL_OPEN_PAIR) {
        chosen = *descriptor;
        chosen.root = p->config.id;
        descriptor = &chosen;
    }
    if (pccl_wire_check_descriptor(descriptor, launch->tiny, &why) == PCCL_OK)
        return PCCL_OK;
    if (launch->refusal != NULL)
        pccl_text_format(launch->refusal, "invalid descriptor: %s", why.bytes);
    return PCCL_INTERNAL;
}

static enum pccl_status launch_one(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    if (launch->after != NULL) {
        PCCL_ASSERT(launch->after->state == PCCL_OP_DECIDED);
        pccl_peer_let_op_go(p, launch->after);
        pccl_peer_forget_op(p, launch->after);
    }
    enum pccl_status status = may_launch(p, launch);
    if (status == PCCL_OK)
        status = check_descriptor(p, launch);
    if (status != PCCL_OK)
        return status;
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
    struct pccl_peer_op *tombstone = pccl_peer_find_instance(p, &instance);
    uint32_t needed = pccl_peer_is_followed(&launch->descriptor, launch->tiny) ? 2 : 1;
    if (p->op_count - p->tombstone_count + p->followed_count + needed > PCCL_OPS_PER_PEER_MAX)
        return PCCL_LIMIT; /* also for a tombstone: launching it makes room for another one */
    if (tombstone != NULL) {
        PCCL_ASSERT(tombstone->state == PCCL_OP_TOMBSTONE);
        tombstone->state = PCCL_OP_DECIDED;
        p->tombstone_count--;
        if (launch->pair == 0)
            (void)pccl_peer_take_gap(p, launch->subgroup, launch->tag);
        note_members(p, tombstone);
        pccl_peer_confirm(p, tombstone, tombstone->decision);
        *op = tombstone;
    } else {
        status = create(p, &instance, launch, op);
        if (status != PCCL_OK)
            return status; /* not numbered: nobody waits for it */
    }
    use->launches++;
    hold(p, *op, launch);
    if (tombstone == NULL)
        start(p, *op, launch);
    struct pccl_announcement *announcement = pccl_peer_announcement(p, &instance);
    if (announcement != NULL) {
        if (launch->tiny)
            pccl_peer_refuse_announced(p, *op, announcement);
        pccl_peer_drop_announcement(p, announcement);
    }
    return PCCL_OK;
}

/* The contribution is the list; the master makes of it what all keep (PROTOCOL 15.2). */
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
        status = launch_one(p, &founding, op);
    }
    pccl_release(&p->memory, ids, pccl_founding_bytes(count));
    if (status == PCCL_OK) {
        (*op)->seats = count;
        pccl_peer_count_seats(p, count, true);
    }
    return status;
}

/* PROTOCOL 16.2. */
static enum pccl_status launch_send(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    struct pccl_launch send = *launch;
    bool sends = is_root(p, &launch->descriptor);
    if (p->state != PCCL_PEER_MEMBER || pccl_peer_is_in_quiet_call(p))
        return PCCL_USAGE;
    if (!pccl_id_equal(&launch->descriptor.root, sends ? &p->config.id : &launch->other) ||
        pccl_id_equal(&launch->other, &p->config.id))
        return PCCL_ARGUMENT;
    if (launch->subgroup == 0 && has_too_few_peers(p))
        return refuse_and_show(p, PCCL_TOO_FEW_PEERS);
    enum pccl_status status = launch->subgroup != 0 ? may_launch_in(p, launch) : PCCL_OK;
    if (status != PCCL_OK)
        return status;
    send.members = NULL;
    p->has_news = true;
    if (!sends && pccl_id_is_zero(&launch->other)) {
        send.pair = PCCL_OPEN_PAIR;
        return launch_one(p, &send, op);
    }
    status = pccl_peer_name_pair(p, &launch->other, sends, &send.pair);
    if (status != PCCL_OK)
        return status == PCCL_PEER_LOST ? refuse_and_show(p, status) : status;
    if (sends && !launch->tiny && !pccl_peer_can_send_to(p, &launch->other)) {
        if (launch->refusal != NULL)
            pccl_text_format(launch->refusal, "this peer sends more than %u bytes to %u other peers already",
                             p->tiny_bytes_max, p->config.send_links_max);
        return PCCL_LIMIT;
    }
    return launch_one(p, &send, op);
}

enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    switch (launch->descriptor.collective) {
    case PCCL_FOUND: return launch_founding(p, launch, op);
    case PCCL_SEND: return launch_send(p, launch, op);
    default: return launch_one(p, launch, op);
    }
}

/* ---- what happens to it ---- */

/* Takes back what this peer may have said of a wait, also if the outcome and the `where` have crossed. */
static void end_where(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    if (p->now_us >= pccl_peer_first_where(p, op->launched_us, op->deadline_us))
        pccl_peer_ask_where(p, &(struct pccl_msg_where){.call = PCCL_CALL_NONE});
}

void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked)
{
    if (op->awaited && !blocked && !pccl_peer_is_decided(op))
        end_where(p, op);
    if (!pccl_peer_is_decided(op))
        p->awaited_count += (uint32_t)blocked - (uint32_t)op->awaited;
    op->awaited = blocked;
    if (blocked)
        pccl_peer_arm(p, op->where_us);
    else
        pccl_peer_wait_ended(p);
}

/* ---- decisions ---- */

static void decide(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class, const struct pccl_text *reason)
{
    PCCL_ASSERT(!pccl_peer_is_decided(op));
    PCCL_ASSERT(!op->awaited || p->awaited_count > 0);
    pccl_list_remove(&op->in_open);
    if (op->state != PCCL_OP_OPEN && op->awaited)
        end_where(p, op);
    op->state = PCCL_OP_DECIDED;
    op->class = class;
    op->reason = *reason;
    note_members(p, op);
    if (op->awaited) {
        p->awaited_count--;
        pccl_peer_wait_ended(p);
    }
    if (op->started)
        p->effects.op_stop(p->effects.context, op);
    if (!pccl_id_is_zero(&op->sends_to))
        pccl_peer_send_ended(p, &op->sends_to);
    if (op->held)
        p->effects.op_decided(p->effects.context, op);
}

static void tombstone(struct pccl_peer *p, const struct pccl_msg_outcome *outcome, const struct pccl_text *reason)
{
    struct pccl_peer_op *op = p->tombstone_count < PCCL_TOMBSTONES_MAX ? pccl_peer_add_op(p, &outcome->instance) : NULL;
    if (op == NULL) {
        pccl_peer_give_up(p, PCCL_MEMORY, "no memory to remember an outcome");
        return;
    }
    op->state = PCCL_OP_TOMBSTONE;
    p->tombstone_count++;
    p->has_news = true;
    op->class = (enum pccl_class)outcome->class;
    op->reason = *reason;
    pccl_peer_confirm(p, op, outcome->decision);
    p->effects.op_gone(p->effects.context, &op->instance);
    struct pccl_announcement *announcement = pccl_peer_announcement(p, &outcome->instance);
    if (announcement != NULL)
        pccl_peer_drop_announcement(p, announcement);
}

/*
 * An outcome of an instance that is not in the table: never launched here, or forgotten since all
 * members knew it.
 */
static void unknown_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome, const struct pccl_text *reason)
{
    if (pccl_peer_has_launched(p, &outcome->instance))
        return;
    if (outcome->class == PCCL_CLASS_NONE && outcome->tiny == 0)
        pccl_peer_give_up(p, PCCL_EXPELLED, GONE_ON_WITHOUT);
    else if (outcome->class == PCCL_CLASS_NONE)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master committed an operation that this peer never launched");
    else
        tombstone(p, outcome, reason);
}

/* false: the result is none, or there is no memory, and the peer gave up. */
static bool found(struct pccl_peer *p, const struct pccl_peer_op *op, const struct pccl_bytes *founded)
{
    const struct pccl_bytes list = {op->payload, op->payload_bytes};
    enum pccl_status status = pccl_peer_add_subgroup(p, &op->instance, &list, founded);
    if (status == PCCL_MALFORMED)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master founded another subgroup than its members did");
    else if (status != PCCL_OK)
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
    return status == PCCL_OK;
}

/* false: it is not what the operation's descriptor says. */
static bool take_result(struct pccl_peer_op *op, const struct pccl_msg_outcome *outcome)
{
    const struct pccl_bytes *result = &outcome->result;
    if (outcome->world != op->world || result->length > op->payload_capacity ||
        !pccl_tiny_result_fits(&op->descriptor, op->world, result, PCCL_TINY_BYTES_MAX))
        return false;
    op->payload_bytes = result->length;
    if (result->length > 0)
        memcpy(op->payload, result->data, result->length);
    return true;
}

static void apply_outcome(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_msg_outcome *outcome,
                          const struct pccl_text *reason)
{
    bool commit = outcome->class == PCCL_CLASS_NONE;
    pccl_peer_confirm(p, op, outcome->decision);
    if (pccl_peer_is_decided(op)) {
        if (commit != (op->class == PCCL_CLASS_NONE)) /* PROTOCOL 5.3 */
            pccl_peer_give_up(p, PCCL_INTERNAL, "the master decided an operation twice, differently");
        return;
    }
    if (commit && !op->complete) {
        /*
         * PROTOCOL 6.2: only a view without this peer can have allowed that commit; the master
         * crashed before it said so
         */
        pccl_peer_give_up(p, PCCL_EXPELLED, GONE_ON_WITHOUT);
        return;
    }
    if (commit && op->instance.subgroup == PCCL_FOUNDING && !found(p, op, &outcome->result))
        return;
    if (commit && op->tiny) {
        if (!take_result(op, outcome)) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's result has the wrong size");
            return;
        }
    }
    if (commit) {
        op->world = outcome->world;
        if (outcome->choice_count > 0)
            pccl_peer_keep_choice(p, op, &outcome->choice[0]);
    }
    decide(p, op, (enum pccl_class)outcome->class, reason);
}

/* Returns true if operations can still be launched in the subgroup and the pair of this instance. */
static bool has_future(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    if (instance->subgroup != 0 && instance->subgroup != PCCL_FOUNDING &&
        pccl_peer_open_subgroup(p, instance->subgroup) == NULL)
        return false;
    return instance->pair == 0 || pccl_peer_pair_has_future(p, instance->pair);
}

void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome)
{
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &outcome->reason);
    p->decisions = pccl_max_u64(p->decisions, outcome->decision);
    if (pccl_peer_is_current(p, &outcome->instance)) {
        struct pccl_peer_op *op = pccl_peer_find_instance(p, &outcome->instance);
        if (op != NULL && op->lost_by == PCCL_OK)
            apply_outcome(p, op, outcome, &reason);
        else if (op == NULL && has_future(p, &outcome->instance))
            unknown_outcome(p, outcome, &reason);
    }
    pccl_peer_set_stable(p, outcome->stable);
}

/*
 * PROTOCOL 5.4: the view aborts what was launched before it; by the `view_ack` the master aborts it
 * for all.
 */
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why)
{
    PCCL_ASSERT(p->state == PCCL_PEER_MEMBER);
    uint32_t count = 0, capacity = 0;
    struct pccl_instance *killed = NULL;
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op) || !pccl_view_is_past(&op->instance, &op->start_view, &p->view))
            continue;
        struct pccl_instance *more = pccl_grow(&p->memory, killed, &capacity, count + 1, sizeof *killed);
        if (more == NULL) {
            pccl_release(&p->memory, killed, capacity * sizeof *killed);
            pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
            return;
        }
        killed = more;
        killed[count++] = op->instance;
        decide(p, op, PCCL_CLASS_PEER_LOST, why);
    }
    struct pccl_msg msg = {.type = PCCL_MSG_view_ack,
                           .as.view_ack = {.view = p->view, .instances = killed, .instances_count = count}};
    pccl_peer_send(p, &msg); /* also if nothing was aborted: until it comes the master holds aborts of another class */
    pccl_release(&p->memory, killed, capacity * sizeof *killed);
}

/*
 * Its own failure, or its caller's wish, ends it in this view, too: that is said again, since the master may have heard
 * of it too late. What a link has failed, may not fail in the other ring.
 */
static void begin_again(struct pccl_peer *p, struct pccl_peer_op *op)
{
    op->start_view = p->view;
    if (op->state == PCCL_OP_FAILED && op->class == PCCL_CLASS_PEER_LOST) {
        op->class = PCCL_CLASS_NONE;
        op->state = PCCL_OP_RUNNING;
    }
    if (op->started) {
        op->complete = false;
        op->begun_us = p->now_us;
        op->state = op->state == PCCL_OP_DONE ? PCCL_OP_RUNNING : op->state;
        if (op->state == PCCL_OP_RUNNING) {
            op->restarts++;
            p->effects.op_restart(p->effects.context, op);
        }
    }
    pccl_peer_tell(p, op);
}

void pccl_peer_view_replans(struct pccl_peer *p)
{
    PCCL_ASSERT(p->state == PCCL_PEER_MEMBER);
    struct pccl_msg msg = {.type = PCCL_MSG_view_ack, .as.view_ack = {.view = p->view}};
    pccl_peer_send(p, &msg);
    for (struct pccl_peer_op *op = p->oldest; op != NULL && p->state == PCCL_PEER_MEMBER; op = op->newer)
        if (!pccl_peer_is_decided(op) && pccl_view_is_past(&op->instance, &op->start_view, &p->view))
            begin_again(p, op);
}

/* What is undecided of it is aborted for all by the end of its subgroup or pair. */
static void end_with(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_text *reason)
{
    op->orphaned = true;
    if (!pccl_peer_is_decided(op))
        decide(p, op, PCCL_CLASS_PEER_LOST, reason);
    pccl_peer_forget_op(p, op);
}

void pccl_peer_end_pairs(struct pccl_peer *p, const struct pccl_text *why)
{
    for (struct pccl_peer_op *op = p->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        bool open = op->state == PCCL_OP_OPEN;
        if (open ? pccl_peer_is_alone(p) : op->instance.pair != 0 && pccl_peer_other_of(p, op->instance.pair) == NULL)
            end_with(p, op, why);
    }
}

/* ---- receives from anybody: nobody else knows of one for which nobody is chosen ---- */

void pccl_peer_end_open(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason)
{
    struct pccl_text words;
    PCCL_ASSERT(op->state == PCCL_OP_OPEN);
    pccl_text_format(&words, "%s",
                     class == PCCL_CLASS_DEADLINE ? "nobody has sent to this peer before its deadline, op_timeout_ms"
                                                  : "its caller aborted the operation");
    op->orphaned = true;
    decide(p, op, class, reason != NULL ? reason : &words);
}

void pccl_peer_op_cancel(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason)
{
    if (op->state == PCCL_OP_OPEN)
        pccl_peer_end_open(p, op, class, reason);
    else
        pccl_peer_op_abort(p, op, class, reason);
}

void pccl_peer_op_choose(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_instance *instance,
                         const struct pccl_id *source)
{
    const struct pccl_announcement announced = *pccl_peer_announcement(p, instance);
    pccl_list_remove(&op->in_open);
    pccl_peer_drop_announcement(p, pccl_peer_announcement(p, instance));
    pccl_peer_rename_op(p, op, instance);
    op->descriptor.root = *source;
    op->state = PCCL_OP_RUNNING;
    op->launched_us = p->now_us;
    op->where_us = pccl_peer_first_where(p, op->launched_us, op->deadline_us);
    pccl_peer_arm(p, op->where_us);
    begin(p, op, source);
    pccl_peer_tell(p, op);
    if (op->tiny)
        pccl_peer_refuse_announced(p, op, &announced);
}

void pccl_peer_pass_over(struct pccl_peer *p, struct pccl_peer_op *tombstone)
{
    PCCL_ASSERT(tombstone->state == PCCL_OP_TOMBSTONE);
    tombstone->state = PCCL_OP_DECIDED;
    p->tombstone_count--;
    pccl_peer_confirm(p, tombstone, tombstone->decision);
    pccl_peer_forget_op(p, tombstone);
}

/* ---- the end of a subgroup (PROTOCOL 15.4) ---- */

/*
 * What comes of these for the others is ignored, and a restarted master is not told of them: this
 * peer alone knows that they are over, and somebody else may have heard of a commit.
 */
void pccl_peer_end_closed(struct pccl_peer *p)
{
    struct pccl_text reason;
    if (p->state != PCCL_PEER_MEMBER || (p->greeted && !p->resuming))
        return;
    pccl_text_format(&reason, "this peer closed the subgroup while the master was away");
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        const struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, op->instance.subgroup);
        if (subgroup == NULL || !subgroup->closed || pccl_peer_is_decided(op))
            continue;
        op->lost_by = PCCL_PEER_LOST;
        op->orphaned = true;
        decide(p, op, PCCL_CLASS_PEER_LOST, &reason);
    }
}

/*
 * The order in the session is that of the master's decisions, so whatever is undecided here was not
 * decided before the end, and is aborted for all members by it.
 */
static void end_subgroup(struct pccl_peer *p, struct pccl_peer_subgroup *subgroup, const struct pccl_text *reason)
{
    uint64_t name = subgroup->name;
    pccl_peer_mark_ended(p, subgroup, reason);
    for (struct pccl_peer_op *op = p->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->instance.subgroup == name)
            end_with(p, op, reason);
    }
    pccl_peer_drop_announcements(p, false);
    if (!subgroup->closed)
        p->effects.subgroup_ended(p->effects.context, name);
    pccl_peer_forget_subgroup(p, subgroup);
}

void pccl_peer_subgroup_ended(struct pccl_peer *p, const struct pccl_msg_subgroup_ended *ended)
{
    struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, ended->subgroup);
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &ended->reason);
    if (subgroup == NULL || subgroup->ended)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master ended a subgroup that this peer is not in");
    else
        end_subgroup(p, subgroup, &reason);
}

void pccl_peer_end_subgroups(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->subgroups, node);
        struct pccl_peer_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_peer_subgroup, by_name);
        if (!subgroup->ended)
            end_subgroup(p, subgroup, &p->last_reason);
    }
}

void pccl_peer_end_operations(struct pccl_peer *p)
{
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op))
            continue;
        op->lost_by = p->why_over;
        decide(p, op, PCCL_CLASS_PEER_LOST, &p->last_reason);
    }
    pccl_peer_forget_stable(p);
    pccl_peer_drop_announcements(p, true);
}

/* PROTOCOL 16.4: no view tells of the failure of such a link. One that is lost later fails the operations over it. */
static void look_for_link(struct pccl_peer *p, struct pccl_peer_op *op)
{
    struct pccl_text reason;
    enum pccl_link_end how;
    if (pccl_id_is_zero(&op->sends_to) || op->state != PCCL_OP_RUNNING)
        return;
    uint64_t since_us = pccl_peer_unreached_since(p, &op->sends_to, &how);
    if (since_us == UINT64_MAX)
        return;
    since_us = pccl_max_u64(since_us, op->launched_us);
    if (p->now_us < since_us + PATIENCE_US) {
        pccl_peer_arm(p, since_us + PATIENCE_US);
        return;
    }
    const char *why = how == PCCL_LINK_UNREACHABLE ? "no route" : pccl_link_end_name(how);
    if (how == 0)
        why = p->shortage.length > 0 ? p->shortage.bytes : "no answer yet";
    pccl_text_format(&reason, "it has had no link to peer %s for %s: %s", pccl_id_str(&op->sends_to),
                     pccl_duration_str(p->now_us - since_us), why);
    pccl_peer_op_failed(p, op, PCCL_CLASS_PEER_LOST, &reason);
}

void pccl_peer_tick_operations(struct pccl_peer *p)
{
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op))
            continue;
        if (p->now_us >= op->deadline_us)
            pccl_peer_op_cancel(p, op, PCCL_CLASS_DEADLINE, NULL);
        else
            pccl_peer_arm(p, op->deadline_us);
        look_for_link(p, op);
        if (!op->awaited || pccl_peer_is_decided(op))
            continue;
        if (p->now_us >= op->where_us && op->state == PCCL_OP_OPEN) {
            pccl_peer_wait_for_anybody(p, op);
        } else if (p->now_us >= op->where_us) {
            pccl_peer_ask_where(p, &(struct pccl_msg_where){.call = PCCL_CALL_OPERATION,
                                                            .collective = op->descriptor.collective,
                                                            .instance = op->instance,
                                                            .since_us = p->now_us - op->launched_us});
            op->where_us = pccl_peer_next_where(p);
        }
        pccl_peer_arm(p, op->where_us);
    }
}
