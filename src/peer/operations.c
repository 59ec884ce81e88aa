/* Operations at a peer after their launch (PROTOCOL 5): outcomes, views, aborts, and the end of subgroups and pairs. */
#include "peer/announcements.h"
#include "peer/choices.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/operations.h"
#include "peer/output.h"
#include "peer/progress.h"
#include "peer/op_table.h"
#include "peer/member_list.h"
#include "peer/subgroups.h"
#include "peer/where.h"
#include "wire/describe.h"
#include "wire/tiny.h"

#include <string.h>

#define GONE_ON_WITHOUT "this peer was removed from the run: an operation was committed without it"

/*
 * Begins an era (PROTOCOL 1.5, 2.1): counters, outcomes and tombstones end with the previous one. All operations are
 * released by then, because the call that ended the era was quiet.
 */
void pccl_peer_change_era(struct pccl_peer *p)
{
    pccl_peer_forget_uses(p);
    pccl_peer_forget_old_choices(p);
    pccl_peer_forget_stable(p);
    pccl_peer_drop_announcements(p, false);
}

/* ---- calls for an operation ---- */

void pccl_peer_op_release(struct pccl_peer *p, struct pccl_peer_op *op)
{
    PCCL_ASSERT(op->held && op->state == PCCL_OP_DECIDED);
    pccl_peer_release_op(p, op);
    if (pccl_epoch_compare(&op->attributes.epoch, &p->attributes.epoch) > 0)
        pccl_peer_set_attributes(p, &op->attributes, op->member_list);
    pccl_peer_forget_op(p, op);
}

/* ---- waiting callers ---- */

/*
 * Withdraws the report that this peer waits in the operation, even if the outcome arrived while that report was under
 * way.
 */
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

void pccl_peer_note_members(struct pccl_peer *p, struct pccl_peer_op *op)
{
    op->attributes = pccl_peer_live_attributes(p);
    op->member_list = pccl_peer_hold_member_list(p);
}

static void decide(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class, const struct pccl_text *reason)
{
    PCCL_ASSERT(!pccl_peer_is_decided(op));
    PCCL_ASSERT(!op->awaited || p->awaited_count > 0);
    pccl_peer_unlist(op);
    if (op->state != PCCL_OP_OPEN && op->awaited)
        end_where(p, op);
    op->state = PCCL_OP_DECIDED;
    op->class = class;
    op->reason = *reason;
    pccl_peer_note_members(p, op);
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
    struct pccl_peer_op *op =
        p->tombstone_count < PCCL_TOMBSTONES_MAX ? pccl_peer_add_op(p, &outcome->instance, 0) : NULL;
    if (op == NULL) {
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory for an outcome");
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
 * Handles the outcome of an instance that is not in the table, because it was never launched here or was forgotten when
 * all members knew it.
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

/* Adds the founded subgroup. If the result is invalid or memory runs out, gives up and returns false. */
static bool found(struct pccl_peer *p, const struct pccl_peer_op *op, const struct pccl_bytes *founded)
{
    const struct pccl_bytes list = {op->payload, op->payload_bytes};
    enum pccl_status status = pccl_peer_add_subgroup(p, &op->instance, &list, founded);
    if (status == PCCL_MALFORMED)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master created a different subgroup than its members");
    else if (status != PCCL_OK)
        pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
    return status == PCCL_OK;
}

/* Copies the result. Returns false if it does not match the operation's descriptor. */
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
            pccl_peer_give_up(p, PCCL_INTERNAL, "the master reported two different outcomes of an operation");
        return;
    }
    if (commit && !op->complete) {
        /*
         * PROTOCOL 6.2: this commit requires a view without this peer, and the master crashed before it sent that view
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

void pccl_peer_outcome(struct pccl_peer *p, const struct pccl_msg_outcome *outcome)
{
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &outcome->reason);
    p->decisions = pccl_max_u64(p->decisions, outcome->decision);
    if (pccl_peer_is_current(p, &outcome->instance)) {
        struct pccl_peer_op *op = pccl_peer_find_instance(p, &outcome->instance);
        if (op != NULL && op->lost_by == PCCL_OK)
            apply_outcome(p, op, outcome, &reason);
        else if (op == NULL && pccl_peer_has_future(p, &outcome->instance))
            unknown_outcome(p, outcome, &reason);
    }
    pccl_peer_set_stable(p, outcome->stable);
}

/*
 * Aborts the operations launched before the view (PROTOCOL 5.4). The master aborts them for all when it receives the
 * `view_ack`.
 */
void pccl_peer_view_aborts(struct pccl_peer *p, const struct pccl_text *why)
{
    PCCL_ASSERT(p->state == PCCL_PEER_MEMBER);
    uint32_t count = 0, capacity = 0;
    struct pccl_instance *aborted = NULL;
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op) || !pccl_view_is_past(&op->instance, &op->start_view, &p->view))
            continue;
        struct pccl_instance *more = pccl_grow(&p->memory, aborted, &capacity, count + 1, sizeof *aborted);
        if (more == NULL) {
            pccl_release(&p->memory, aborted, capacity * sizeof *aborted);
            pccl_peer_give_up(p, PCCL_MEMORY, "out of memory");
            return;
        }
        aborted = more;
        aborted[count++] = op->instance;
        decide(p, op, PCCL_CLASS_PEER_LOST, why);
    }
    struct pccl_msg msg = {.type = PCCL_MSG_view_ack,
                           .as.view_ack = {.view = p->view, .instances = aborted, .instances_count = count}};
    /* sent even if nothing was aborted, because until then the master delays aborts with another class */
    pccl_peer_send(p, &msg);
    pccl_release(&p->memory, aborted, capacity * sizeof *aborted);
}

/*
 * Starts the operation again in the new view. If it failed locally or its caller requested an abort, sends that report
 * again, because the first one may have reached the master too late. A failure caused by a link is dropped, because the
 * new ring may not use that link.
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
    pccl_peer_report_progress(p, op);
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

/* Ends an operation whose subgroup or pair has ended; that aborts undecided operations for all members. */
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
        struct pccl_peer_pair pair;
        const struct pccl_peer_participants *all = pccl_peer_members_of(p, &op->instance, &pair);
        next = op->newer;
        if (all == NULL || all->ended)
            end_with(p, op, why);
    }
}

/* ---- receives from any peer, which other peers do not know of until a sender is chosen ---- */

void pccl_peer_end_open(struct pccl_peer *p, struct pccl_peer_op *op, enum pccl_class class,
                        const struct pccl_text *reason)
{
    struct pccl_text words;
    PCCL_ASSERT(op->state == PCCL_OP_OPEN);
    pccl_text_format(&words, "%s",
                     class == PCCL_CLASS_DEADLINE ? "no data arrived before its deadline (op_timeout_ms)"
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
 * Later outcomes of these operations are ignored, and a restarted master receives no report of them, because only this
 * peer has ended them, and another member may have received a commit.
 */
void pccl_peer_end_closed(struct pccl_peer *p)
{
    struct pccl_text reason;
    if (p->state != PCCL_PEER_MEMBER || (p->greeted && !p->resuming))
        return;
    pccl_text_format(&reason, "this peer closed the subgroup while the master was away");
    for (struct pccl_peer_op *op = p->oldest; op != NULL; op = op->newer) {
        if (pccl_peer_is_decided(op) || !pccl_peer_all_of(p, op->instance.subgroup)->closed)
            continue;
        op->lost_by = PCCL_PEER_LOST;
        op->orphaned = true;
        decide(p, op, PCCL_CLASS_PEER_LOST, &reason);
    }
}

/*
 * Ends a subgroup. The session delivers the master's decisions in order, so an operation that is undecided here was not
 * decided before the end of the subgroup, which aborts it for all members.
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
    pccl_peer_forget_choices_of(p, name);
    if (!subgroup->all.closed)
        p->effects.subgroup_ended(p->effects.context, name);
    pccl_peer_forget_subgroup(p, subgroup);
}

void pccl_peer_subgroup_ended(struct pccl_peer *p, const struct pccl_msg_subgroup_ended *ended)
{
    struct pccl_peer_subgroup *subgroup = pccl_peer_find_subgroup(p, ended->subgroup);
    struct pccl_text reason;
    pccl_peer_take_reason(p, &reason, &ended->reason);
    if (subgroup == NULL || subgroup->all.ended)
        pccl_peer_give_up(p, PCCL_MASTER_LOST, "the master ended a subgroup that this peer is not in");
    else
        end_subgroup(p, subgroup, &reason);
}

void pccl_peer_end_subgroups(struct pccl_peer *p)
{
    for (struct pccl_table_node *node = pccl_table_first(&p->subgroups), *next; node != NULL; node = next) {
        next = pccl_table_after(&p->subgroups, node);
        struct pccl_peer_subgroup *subgroup = PCCL_CONTAINER_OF(node, struct pccl_peer_subgroup, by_name);
        if (!subgroup->all.ended)
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

/*
 * Fails a send whose link cannot be opened, because no view reports that failure (PROTOCOL 16.4). The later loss of a
 * link fails the operations over it.
 */
static void look_for_link(struct pccl_peer *p, struct pccl_peer_op *op)
{
    struct pccl_text reason;
    enum pccl_link_end how;
    bool is_hopeless;
    if (pccl_id_is_zero(&op->sends_to) || op->state != PCCL_OP_RUNNING)
        return;
    uint64_t since_us = pccl_peer_unreached_since(p, &op->sends_to, &how, &is_hopeless);
    if (since_us == UINT64_MAX)
        return;
    since_us = pccl_max_u64(since_us, op->launched_us);
    if (!is_hopeless && p->now_us < since_us + PCCL_SEND_PATIENCE_US) {
        pccl_peer_arm(p, since_us + PCCL_SEND_PATIENCE_US);
        return;
    }
    const char *why = how == PCCL_LINK_UNREACHABLE ? "no route" : pccl_link_end_name(how);
    if (how == 0)
        why = p->shortage_us >= since_us ? p->shortage.bytes : "no answer yet";
    pccl_text_format(&reason, "no link to peer %s", pccl_id_str(&op->sends_to));
    if (!is_hopeless)
        pccl_text_append(&reason, " for %s", pccl_duration_str(p->now_us - since_us));
    pccl_text_append(&reason, ": %s", why);
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
            pccl_peer_wait_for_any(p, op);
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
