/* The life of an operation at a peer (PROTOCOL 5): launch, done, decided, released, forgotten. */
#include "kernels/reduce.h"
#include "peer/announcements.h"
#include "peer/calls.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/queries.h"
#include "peer/records.h"
#include "peer/where.h"

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

/* ---- launching ---- */

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

static enum pccl_status may_launch(struct pccl_peer *p, const struct pccl_launch *launch)
{
    if (p->state != PCCL_PEER_MEMBER)
        return PCCL_USAGE;
    if (pccl_peer_is_in_quiet_call(p))
        return PCCL_USAGE; /* PROTOCOL 5.1: the era is about to change */
    if (pccl_peer_find_held(p, launch->tag) != NULL)
        return PCCL_ARGUMENT;
    if (launch->tiny && (launch->payload_bytes == 0 || launch->payload_bytes > p->tiny_bytes_max))
        return PCCL_ARGUMENT;
    if (has_too_few_peers(p)) {
        p->attributes = pccl_peer_live_attributes(p); /* so that the caller sees that it is alone */
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
    op->launched_us = p->now_us;
    op->deadline_us = timeout_ms != 0 ? p->now_us + timeout_ms * UINT64_C(1000) : UINT64_MAX;
    op->where_us = pccl_peer_first_where(p, op->launched_us, op->deadline_us);
    pccl_peer_arm(p, pccl_min_u64(op->deadline_us, op->where_us));
}

/* From here on the operation exists under this name, for all peers. */
static enum pccl_status create(struct pccl_peer *p, const struct pccl_instance *instance,
                               const struct pccl_launch *launch, struct pccl_peer_op **op)
{
    uint8_t *payload = NULL;
    if (launch->tiny) {
        payload = pccl_allocate(&p->memory, launch->payload_bytes);
        if (payload == NULL)
            return PCCL_MEMORY;
        memcpy(payload, launch->payload, launch->payload_bytes);
    }
    *op = pccl_peer_add_op(p, instance);
    if (*op == NULL) {
        pccl_release(&p->memory, payload, launch->payload_bytes);
        return PCCL_MEMORY;
    }
    (*op)->payload = payload;
    (*op)->payload_bytes = (*op)->payload_capacity = launch->tiny ? launch->payload_bytes : 0;
    (*op)->start_view = p->view;
    (*op)->complete = launch->tiny;
    (*op)->state = launch->tiny ? PCCL_OP_DONE : PCCL_OP_RUNNING;
    return PCCL_OK;
}

enum pccl_status pccl_peer_launch(struct pccl_peer *p, const struct pccl_launch *launch, struct pccl_peer_op **op)
{
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
    if (p->op_count - p->tombstone_count >= PCCL_OPS_PER_PEER_MAX)
        return PCCL_LIMIT; /* also for a tombstone: launching it makes room for another one */
    if (tombstone != NULL) {
        PCCL_ASSERT(tombstone->state == PCCL_OP_TOMBSTONE);
        tombstone->state = PCCL_OP_DECIDED;
        p->tombstone_count--;
        tombstone->attributes = pccl_peer_live_attributes(p);
        pccl_peer_confirm(p, tombstone, tombstone->decision);
        *op = tombstone;
    } else {
        status = create(p, &instance, launch, op);
        if (status != PCCL_OK)
            return status; /* not numbered: nobody waits for it */
    }
    use->launches++;
    hold(p, *op, launch);
    (*op)->started = tombstone == NULL && !launch->tiny && !pccl_peer_is_alone(p);
    if ((*op)->started)
        p->effects.op_start(p->effects.context, *op);
    if (tombstone == NULL)
        pccl_peer_tell(p, *op);
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
        pccl_peer_ask_where(p, PCCL_CALL_NONE, &op->instance, 0, 0); /* this peer does not wait any more */
    if (!pccl_peer_is_decided(op))
        p->awaited_count += (uint32_t)blocked - (uint32_t)op->awaited;
    op->awaited = blocked;
    if (blocked)
        pccl_peer_arm(p, op->where_us);
    else
        pccl_peer_wait_ended(p);
}

void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && op->state == PCCL_OP_DECIDED);
    pccl_table_remove(&p->by_tag, &op->by_tag);
    op->held = false;
    p->held_count--;
    if (pccl_epoch_compare(&op->attributes.epoch, &p->attributes.epoch) > 0)
        p->attributes = op->attributes;
    pccl_peer_forget_op(p, op);
}

/* ---- decisions ---- */

static void decide(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class, const struct pccl_text *reason)
{
    PCCL_ASSERT(!pccl_peer_is_decided(op));
    PCCL_ASSERT(!op->awaited || p->awaited_count > 0);
    op->state = PCCL_OP_DECIDED;
    op->class = class;
    op->reason = *reason;
    op->attributes = pccl_peer_live_attributes(p);
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
    if (outcome->class == PCCL_CLASS_NONE && outcome->result.length == 0)
        pccl_peer_give_up(p, PCCL_EXPELLED, GONE_ON_WITHOUT);
    else if (outcome->class == PCCL_CLASS_NONE)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master committed an operation that this peer never launched");
    else
        tombstone(p, outcome, reason);
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
        if (outcome->result.length != op->payload_bytes) {
            pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master's result has the wrong size");
            return;
        }
        memcpy(op->payload, outcome->result.data, op->payload_bytes);
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
            pccl_peer_ask_where(p, PCCL_CALL_REDUCE, &op->instance, 0, p->now_us - op->launched_us);
            op->where_us = pccl_peer_next_where(p);
        }
        pccl_peer_arm(p, op->where_us);
    }
}
