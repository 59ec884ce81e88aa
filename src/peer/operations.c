/* The life of an operation at a peer (PROTOCOL 5): launch, done, decided, released, forgotten. */
#include "kernels/reduce.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/queries.h"
#include "peer/rounds.h"
#include "peer/view.h"
#include "peer/where.h"

#include <string.h>

#define GONE_ON_WITHOUT "this peer was removed from the run: an operation was committed without it"

/* ---- the table ---- */

static struct pccl_peer_op *op_of_node(struct pccl_table_node *node)
{
    return PCCL_CONTAINER_OF(node, struct pccl_peer_op, by_instance);
}

struct pccl_peer_op *pccl_peer_find_instance(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_table_node *node = pccl_table_find(&p->by_instance, pccl_instance_hash(&p->hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node))
        if (pccl_instance_equal(&op_of_node(node)->instance, instance))
            return op_of_node(node);
    return NULL;
}

/* The operation that holds this tag, or NULL. */
static struct pccl_peer_op *find_held(const struct pccl_peer *p, uint64_t tag)
{
    struct pccl_table_node *node = pccl_table_find(&p->by_tag, tag);
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_peer_op *op = PCCL_CONTAINER_OF(node, struct pccl_peer_op, by_tag);
        if (op->instance.tag == tag)
            return op;
    }
    return NULL;
}

bool pccl_peer_is_decided(const struct pccl_peer_op *op)
{
    return op->state == PCCL_OP_DECIDED || op->state == PCCL_OP_TOMBSTONE;
}

static struct pccl_peer_op *add_op(struct pccl_peer *p, const struct pccl_instance *instance)
{
    struct pccl_peer_op *op = pccl_allocate(&p->memory, sizeof *op);
    if (op == NULL)
        return NULL;
    op->instance = *instance;
    op->older = p->newest;
    *(p->newest != NULL ? &p->newest->newer : &p->oldest) = op;
    p->newest = op;
    pccl_table_insert(&p->by_instance, &op->by_instance, pccl_instance_hash(&p->hash, instance));
    p->op_count++;
    return op;
}

/* ---- outcomes that not all members know yet, in order of decision ---- */

static void await_stability(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->confirmed && !op->unstable);
    struct pccl_peer_op *before =
        p->last_unstable; /* decisions come in order, except for a late launch of a tombstone */
    while (before != NULL && before->decision > op->decision)
        before = before->before;
    op->before = before;
    op->after = before != NULL ? before->after : p->first_unstable;
    *(op->before != NULL ? &op->before->after : &p->first_unstable) = op;
    *(op->after != NULL ? &op->after->before : &p->last_unstable) = op;
    op->unstable = true;
}

static void be_stable(struct pccl_peer *p, struct pccl_peer_op *op)
{
    if (!op->unstable)
        return;
    *(op->before != NULL ? &op->before->after : &p->first_unstable) = op->after;
    *(op->after != NULL ? &op->after->before : &p->last_unstable) = op->before;
    op->unstable = false;
}

/* The master has told the outcome; a restarted master tells it again, with another number. */
static void confirm(struct pccl_peer *p, struct pccl_peer_op *op, uint64_t decision)
{
    be_stable(p, op);
    op->decision = decision;
    op->confirmed = true;
    if (op->state != PCCL_OP_TOMBSTONE && decision > p->stable)
        await_stability(p, op);
}

static void free_op(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(p->op_count > 0);
    be_stable(p, op);
    pccl_table_remove(&p->by_instance, &op->by_instance);
    if (op->held) {
        pccl_table_remove(&p->by_tag, &op->by_tag);
        p->held_count--;
    }
    *(op->older != NULL ? &op->older->newer : &p->oldest) = op->newer;
    *(op->newer != NULL ? &op->newer->older : &p->newest) = op->older;
    p->tombstone_count -= op->state == PCCL_OP_TOMBSTONE;
    pccl_release(&p->memory, op->payload, op->payload_capacity);
    pccl_release(&p->memory, op, sizeof *op);
    p->op_count--;
}

static bool is_current(const struct pccl_peer *p, const struct pccl_instance *instance)
{
    return instance->joint == pccl_peer_joint(p) && instance->sync == p->rounds[PCCL_ROUND_SYNC];
}

/*
 * An outcome may be forgotten when all members know it; a tombstone only when its era ends or the
 * instance is launched.
 */
static bool may_forget(const struct pccl_peer *p, const struct pccl_peer_op *op)
{
    if (op->held || !pccl_peer_is_decided(op))
        return false;
    if (!is_current(p, &op->instance) || p->state == PCCL_PEER_OVER)
        return true;
    return op->state == PCCL_OP_DECIDED && op->confirmed && op->decision <= p->stable;
}

/* At the end of an era. */
static void forget_stable(struct pccl_peer *p)
{
    for (struct pccl_peer_op *op = p->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (may_forget(p, op))
            free_op(p, op);
    }
}

/*
 * Ignored between `resume` and `recovered`: meanwhile a restarted master gives the outcomes new
 * numbers one by one.
 */
void pccl_peer_set_stable(struct pccl_peer *p, uint64_t stable)
{
    if (p->resuming || stable <= p->stable)
        return;
    p->stable = stable;
    while (p->first_unstable != NULL && p->first_unstable->decision <= stable) {
        struct pccl_peer_op *op = p->first_unstable;
        be_stable(p, op);
        if (may_forget(p, op))
            free_op(p, op);
    }
}

static void free_uses(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->uses), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->uses, node);
        pccl_table_remove(&p->uses, node);
        pccl_release(&p->memory, PCCL_CONTAINER_OF(node, struct pccl_use, by_tag), sizeof(struct pccl_use));
    }
}

void pccl_peer_free_operations(struct pccl_peer *p)
{
    while (p->oldest != NULL)
        free_op(p, p->oldest);
    free_uses(p);
    pccl_peer_drop_announcements(p, true);
}

/*
 * PROTOCOL 1.5, 2.1: counters, outcomes and tombstones end with their era. Callers hold no
 * operation then, as the call that ended it was quiet.
 */
void pccl_peer_change_era(struct pccl_peer *p)
{
    free_uses(p);
    forget_stable(p);
    pccl_peer_drop_announcements(p, false);
}

/*
 * The counter of launches of this tag in this era. The hash spreads tags; the node keeps the tag
 * itself.
 */
static struct pccl_use *use_of(struct pccl_peer *p, uint64_t tag, bool create)
{
    struct pccl_table_node *node = pccl_table_find(&p->uses, tag);
    if (node != NULL)
        return PCCL_CONTAINER_OF(node, struct pccl_use, by_tag);
    if (!create || p->uses.count >= PCCL_TAGS_PER_ERA_MAX)
        return NULL;
    struct pccl_use *use = pccl_allocate(&p->memory, sizeof *use);
    if (use != NULL)
        pccl_table_insert(&p->uses, &use->by_tag, tag);
    return use;
}

uint32_t pccl_peer_launches_of(struct pccl_peer *p, uint64_t tag)
{
    const struct pccl_use *use = use_of(p, tag, false);
    return use != NULL ? use->launches : 0;
}

/* ---- telling the master ---- */

static void send_done(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    struct pccl_msg msg = {.type = PCCL_MSG_done,
                           .as.done = {.instance = op->instance,
                                       .view = op->start_view,
                                       .descriptor = op->descriptor,
                                       .tiny = op->tiny,
                                       .payload = {op->payload, op->tiny ? op->payload_bytes : 0}}};
    pccl_peer_send(p, &msg);
}

static void send_failed(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->state == PCCL_OP_FAILED);
    struct pccl_msg msg = {.type = PCCL_MSG_failed,
                           .as.failed = {.instance = op->instance,
                                         .view = op->start_view,
                                         .class = (uint8_t)op->class,
                                         .reason = pccl_bytes_of_text(&op->reason)}};
    pccl_peer_send(p, &msg);
}

static void send_abort_request(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    struct pccl_msg msg = {.type = PCCL_MSG_abort_request,
                           .as.abort_request = {.instance = op->instance,
                                                .view = op->start_view,
                                                .class = (uint8_t)op->abort_class,
                                                .reason = pccl_bytes_of_text(&op->abort_reason)}};
    pccl_peer_send(p, &msg);
}

/*
 * Tells the master what is open, for the first time or again; but nothing while a restarted master
 * collects reports.
 */
static void tell(struct pccl_peer *p, const struct pccl_peer_op *op)
{
    if (p->resuming || p->state != PCCL_PEER_MEMBER)
        return;
    if (op->complete)
        send_done(p, op);
    if (op->state == PCCL_OP_FAILED)
        send_failed(p, op);
    if (op->abort_sent)
        send_abort_request(p, op);
}

void pccl_peer_resend_operations(struct pccl_peer *p)
{
    for (const struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer)
        if (!pccl_peer_is_decided(op))
            tell(p, op);
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
    if (find_held(p, launch->tag) != NULL)
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
    *op = add_op(p, instance);
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
    struct pccl_use *use = use_of(p, launch->tag, true);
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
        if (tombstone->decision > p->stable)
            await_stability(p, tombstone);
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
        tell(p, *op);
    struct pccl_announcement *announcement = pccl_peer_announcement(p, &instance);
    if (announcement != NULL) {
        if (launch->tiny)
            pccl_peer_refuse_announced(p, *op, announcement);
        pccl_peer_drop_announcement(p, announcement);
    }
    return PCCL_OK;
}

/* ---- what happens to it ---- */

void pccl_peer_op_done(struct pccl_peer *p, struct pccl_peer_op *op)
{
    if (op->state != PCCL_OP_RUNNING)
        return;
    op->complete = true;
    PCCL_ASSERT(!op->tiny);
    op->state = PCCL_OP_DONE;
    tell(p, op);
}

void pccl_peer_op_failed(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                         const struct pccl_text *reason)
{
    if (op->tiny || (op->state != PCCL_OP_RUNNING && op->state != PCCL_OP_DONE))
        return;
    op->state = PCCL_OP_FAILED;
    op->class = class;
    op->reason = *reason;
    tell(p, op);
}

void pccl_peer_op_abort(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason)
{
    if (pccl_peer_is_decided(op) || op->abort_sent)
        return;
    op->abort_sent = true;
    op->abort_class = class;
    pccl_text_clear(&op->abort_reason);
    if (reason != NULL)
        op->abort_reason = *reason;
    if (!p->resuming && p->state == PCCL_PEER_MEMBER)
        send_abort_request(p, op);
}

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
    if (may_forget(p, op))
        free_op(p, op);
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
    struct pccl_peer_op *op = p->tombstone_count < PCCL_TOMBSTONES_MAX ? add_op(p, &outcome->instance) : NULL;
    if (op == NULL) {
        pccl_peer_give_up(p, PCCL_MEMORY, "no memory to remember an outcome");
        return;
    }
    op->state = PCCL_OP_TOMBSTONE;
    p->tombstone_count++;
    op->class = (enum pccl_class)outcome->class;
    op->reason = *reason;
    confirm(p, op, outcome->decision);
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
    const struct pccl_use *use = use_of(p, outcome->instance.tag, false);
    if (use != NULL && outcome->instance.use < use->launches)
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
    confirm(p, op, outcome->decision);
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
    if (outcome->instance.group == p->config.group && is_current(p, &outcome->instance)) {
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
    forget_stable(p);
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
