/* The life of an operation at a peer (PROTOCOL 5): launch, done, decided, released, forgotten. */
#include "peer/announcements.h"
#include "peer/calls.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/queries.h"
#include "peer/records.h"
#include "peer/roll.h"
#include "peer/where.h"
#include "wire/tiny.h"

#include <string.h>

#define GONE_ON_WITHOUT "this peer was removed from the run: an operation was committed without it"

/*
 * PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Callers hold no
 * operation then, as the call that ended it was quiet.
 */
void pccl_peer_change_era(struct pccl_peer *p)
{
    pccl_peer_forget_uses(p);
    pccl_peer_forget_stable(p);
    pccl_peer_drop_announcements(p, false);
}

/* ---- its caller ---- */

/* When the lengths of blobs are known, the operation that moves the blobs takes its place: room is kept for that. */
static bool is_followed(const struct pccl_descriptor *descriptor, bool tiny)
{
    return tiny && descriptor->collective == PCCL_ALL_GATHER_V;
}

static void let_go(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && op->state == PCCL_OP_DECIDED);
    pccl_table_remove(&p->by_tag, &op->by_tag);
    op->held = false;
    p->held_count--;
    p->followed_count -= is_followed(&op->descriptor, op->tiny);
}

void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op)
{
    let_go(p, op);
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

static bool is_root(const struct pccl_peer *p, const struct pccl_descriptor *descriptor)
{
    return pccl_id_equal(&descriptor->root, &p->config.id);
}

/* Of as many members as the caller counts on. */
static bool has_fitting_payload(const struct pccl_peer *p, const struct pccl_launch *launch)
{
    uint32_t world = launch->members != NULL ? launch->member_count : p->ring_count;
    if (launch->given_up != PCCL_CLASS_NONE)
        return true;
    if (!launch->tiny)
        return launch->descriptor.collective != PCCL_BARRIER;
    const struct pccl_bytes contribution = {launch->payload, launch->payload_bytes};
    return world > 0 && pccl_tiny_contribution_fits(&launch->descriptor, world, is_root(p, &launch->descriptor),
                                                    &contribution, p->tiny_bytes_max);
}

static enum pccl_status may_launch(struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (pccl_peer_is_in_quiet_call(p))
        return PCCL_USAGE; /* PROTOCOL 5.1: the era is about to change */
    if (pccl_peer_find_held(p, launch->tag) != NULL)
        return PCCL_ARGUMENT;
    if (!has_fitting_payload(p, launch))
        return PCCL_ARGUMENT;
    if (has_too_few_peers(p)) {
        struct pccl_attributes live = pccl_peer_live_attributes(p); /* so that the caller sees that it is alone */
        pccl_peer_set_attributes(p, &live, p->view_roll);
        return PCCL_TOO_FEW_PEERS;
    }
    return PCCL_OK;
}

static void hold(struct pccl_peer *p, struct pccl_peer_op *op, const struct pccl_launch *launch)
{
    PCCL_ASSERT(!op->held);
    uint32_t timeout_ms = launch->timeout_ms != 0 ? launch->timeout_ms : p->config.op_timeout_ms;
    op->held = true;
    p->held_count++;
    pccl_table_insert(&p->by_tag, &op->by_tag, launch->tag);
    op->known = p->attributes.epoch;
    op->descriptor = launch->descriptor;
    op->tiny = launch->tiny;
    op->user = launch->user;
    op->world = p->ring_count;
    p->followed_count += is_followed(&op->descriptor, op->tiny);
    op->launched_us = p->now_us;
    op->deadline_us = timeout_ms != 0 ? p->now_us + timeout_ms * UINT64_C(1000) : UINT64_MAX;
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
    if (launch->descriptor.collective == PCCL_ALL_GATHER_V)
        return PCCL_TINY_BYTES_MAX; /* however long the blobs of the others are */
    uint64_t result = pccl_tiny_sizes(&launch->descriptor, p->ring_count, false).result;
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
    (*op)->start_view = p->view;
    (*op)->state = PCCL_OP_RUNNING;
    return PCCL_OK;
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
    if (launch->members != NULL && !pccl_peer_has_members(p, launch->members, launch->member_count)) {
        op->abort_sent = true;
        op->abort_class = PCCL_CLASS_MEMBERS_CHANGED;
        pccl_peer_describe_members(p, launch->members, launch->member_count, &op->abort_reason);
    } else if (launch->tiny) {
        op->complete = true;
        op->state = PCCL_OP_DONE;
    } else if (!pccl_peer_is_alone(p)) {
        op->started = true;
        p->effects.op_start(p->effects.context, op);
    }
    pccl_peer_tell(p, op);
}

enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    if (launch->after != NULL) {
        let_go(p, launch->after);
        pccl_peer_forget_op(p, launch->after);
    }
    enum pccl_status status = may_launch(p, launch);
    if (status != PCCL_OK)
        return status;
    if (p->held_count >= PCCL_OPS_HELD_MAX)
        return PCCL_LIMIT;
    struct pccl_use *use = pccl_peer_need_use(p, launch->tag);
    if (use == NULL)
        return p->uses.count >= PCCL_TAGS_PER_ERA_MAX ? PCCL_LIMIT : PCCL_MEMORY;
    struct pccl_instance instance = {.group = p->config.group,
                                     .joint = pccl_peer_joint(p),
                                     .sync = p->rounds[PCCL_ROUND_SYNC],
                                     .tag = launch->tag,
                                     .use = use->launches};
    struct pccl_peer_op *tombstone = pccl_peer_find_instance(p, &instance);
    uint32_t needed = is_followed(&launch->descriptor, launch->tiny) ? 2 : 1;
    if (p->op_count - p->tombstone_count + p->followed_count + needed > PCCL_OPS_PER_PEER_MAX)
        return PCCL_LIMIT; /* also for a tombstone: launching it makes room for another one */
    if (tombstone != NULL) {
        PCCL_ASSERT(tombstone->state == PCCL_OP_TOMBSTONE);
        tombstone->state = PCCL_OP_DECIDED;
        p->tombstone_count--;
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

/* ---- what happens to it ---- */

void pccl_peer_op_await(struct pccl_peer *p, struct pccl_peer_op *op, bool blocked)
{
    if (op->awaited && !blocked && !pccl_peer_is_decided(op) &&
        p->now_us >= pccl_peer_first_where(p, op->launched_us, op->deadline_us))
        pccl_peer_ask_where(p, &(struct pccl_msg_where){.call = PCCL_CALL_NONE}); /* it does not wait any more */
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
    if (outcome->instance.use < pccl_peer_launches_of(p, outcome->instance.tag))
        return;
    if (outcome->class == PCCL_CLASS_NONE && outcome->tiny == 0)
        pccl_peer_give_up(p, PCCL_EXPELLED, GONE_ON_WITHOUT);
    else if (outcome->class == PCCL_CLASS_NONE)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master committed an operation that this peer never launched");
    else
        tombstone(p, outcome, reason);
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
    if (commit && op->tiny) {
        if (!take_result(op, outcome)) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's result has the wrong size");
            return;
        }
    }
    if (commit)
        op->world = outcome->world;
    decide(p, op, (enum pccl_class)outcome->class, reason);
}

void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome)
{
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &outcome->reason);
    p->decisions = pccl_max_u64(p->decisions, outcome->decision);
    if (outcome->instance.group == p->config.group && pccl_peer_is_current(p, &outcome->instance)) {
        struct pccl_peer_op *op = pccl_peer_find_instance(p, &outcome->instance);
        if (op != NULL)
            apply_outcome(p, op, outcome, &reason);
        else
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
        if (pccl_peer_is_decided(op) || pccl_epoch_compare(&op->start_view, &p->view) >= 0)
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

void pccl_peer_tick_operations(struct pccl_peer *p)
{
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op))
            continue;
        if (p->now_us >= op->deadline_us)
            pccl_peer_op_abort(p, op, PCCL_CLASS_DEADLINE, NULL);
        else
            pccl_peer_arm(p, op->deadline_us);
        if (!op->awaited)
            continue;
        if (p->now_us >= op->where_us) {
            pccl_peer_ask_where(p, &(struct pccl_msg_where){.call = PCCL_CALL_OPERATION,
                                                            .collective = op->descriptor.collective,
                                                            .instance = op->instance,
                                                            .since_us = p->now_us - op->launched_us});
            op->where_us = pccl_peer_next_where(p);
        }
        pccl_peer_arm(p, op->where_us);
    }
}
