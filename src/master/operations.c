/* Decides each operation once (PROTOCOL 6), and forgets outcomes that are stable (2.3). */
#include "kernels/reduce.h"
#include "master/edges.h"
#include "master/eligibility.h"
#include "master/hubs.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/pairs.h"
#include "master/roster.h"
#include "master/subgroups.h"
#include "master/where.h"
#include "wire/choice.h"
#include "wire/describe.h"

#include <string.h>

/* ---- the table ---- */

static struct pccl_operation *find_operation(const struct pccl_peer_group *group, const struct pccl_instance *instance)
{
    struct pccl_table_node *node =
        pccl_table_find(&group->by_instance, pccl_instance_hash(group->by_instance.hash, instance));
    for (; node != NULL; node = pccl_table_find_next(node)) {
        struct pccl_operation *op = PCCL_CONTAINER_OF(node, struct pccl_operation, by_instance);
        if (pccl_instance_equal(&op->instance, instance))
            return op;
    }
    return NULL;
}

static void free_parts(struct pccl_master *m, struct pccl_operation *op)
{
    for (uint32_t i = 0; i < op->part_count; i++)
        pccl_release(&m->memory, op->parts[i].payload, op->parts[i].payload_bytes);
    pccl_release(&m->memory, op->parts, op->part_count * sizeof *op->parts);
    op->parts = NULL;
    op->part_count = 0;
}

static void release_hold(struct pccl_peer_group *group, struct pccl_operation *op)
{
    PCCL_ASSERT(op->held_until_us == 0 || group->held_count > 0);
    group->held_count -= op->held_until_us != 0;
    op->held_until_us = 0;
}

/* A founding that is not to be. */
static void give_up_founding(struct pccl_master *m, struct pccl_operation *op)
{
    if (op->instance.subgroup != PCCL_FOUNDING || op->subgroup == NULL || op->subgroup->founded)
        return;
    for (uint32_t i = 0; i < op->part_count; i++)
        if (op->parts[i].done)
            pccl_master_count_seats(op->subgroup->members[i], op->subgroup->world, false);
    pccl_master_free_subgroup(m, op->subgroup);
    op->subgroup = NULL;
}

/* Of a committed one: of the tensors, each counted once, however many members there are. */
static uint64_t bytes_of(const struct pccl_operation *op)
{
    const struct pccl_descriptor *descriptor = &op->descriptor;
    bool counts_bytes = descriptor->collective == PCCL_COALESCED || pccl_collective_is_of_blobs(descriptor->collective);
    if (descriptor->collective == PCCL_FOUND || descriptor->collective == PCCL_BARRIER)
        return 0;
    if (pccl_collective_is_of_blobs(descriptor->collective) && op->tiny)
        return op->result_bytes; /* the lengths, and the blobs if they are short */
    uint64_t size = counts_bytes ? 1 : pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype);
    return descriptor->count > UINT64_MAX / size ? 0 : descriptor->count * size;
}

/* An operation that nobody described is begun and ended at once. */
static void count_outcome(struct pccl_master *m, const struct pccl_operation *op, bool committed)
{
    uint32_t kind = op->described ? op->descriptor.collective : PCCL_COLLECTIVES;
    m->tally.begun[kind] += !op->described;
    pccl_tally_outcome(&m->tally, kind, committed, op->described ? bytes_of(op) : 0, m->now_us - op->first_us,
                       m->now_us);
}

static void free_operation(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    if (!op->decided) /* its view has ended: the members have aborted it by themselves */
        count_outcome(m, op, false);
    give_up_founding(m, op);
    pccl_table_remove(&group->by_instance, &op->by_instance);
    *(op->older != NULL ? &op->older->newer : &group->oldest) = op->newer;
    *(op->newer != NULL ? &op->newer->older : &group->newest) = op->older;
    release_hold(group, op);
    free_parts(m, op);
    pccl_master_free_result(m, op);
    if (op->instance.pair != 0)
        pccl_master_leave_pair(m, group, op->subgroup);
    pccl_release(&m->memory, op, sizeof *op);
}

static void put_last(struct pccl_peer_group *group, struct pccl_operation *op)
{
    op->older = group->newest;
    op->newer = NULL;
    *(group->newest != NULL ? &group->newest->newer : &group->oldest) = op;
    group->newest = op;
}

struct pccl_operation *pccl_master_operation(struct pccl_master *m, struct pccl_peer_group *group,
                                             const struct pccl_instance *instance, bool create)
{
    struct pccl_operation *op = find_operation(group, instance);
    if (op != NULL || !create)
        return op;
    op = pccl_allocate(&m->memory, sizeof *op);
    if (op == NULL)
        return NULL;
    op->instance = *instance;
    op->first_us = m->now_us;
    if (pccl_master_names_subgroup(instance)) {
        op->subgroup = pccl_master_find_subgroup(group, instance->subgroup);
        PCCL_ASSERT(op->subgroup != NULL);
    }
    if (instance->pair != 0) {
        op->subgroup = pccl_master_enter_pair(m, group, instance->pair);
        if (op->subgroup == NULL) {
            pccl_release(&m->memory, op, sizeof *op);
            return NULL;
        }
    }
    put_last(group, op);
    pccl_table_insert(&group->by_instance, &op->by_instance, pccl_instance_hash(group->by_instance.hash, instance));
    return op;
}

/* After a change of the ring, to which parts of the whole group do not fit any more. */
static void count_under_way(struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->ring[i]->under_way = 0;
    for (const struct pccl_operation *op = group->oldest; op != NULL; op = op->newer)
        for (uint32_t i = 0; op->subgroup != NULL && i < op->part_count; i++)
            op->subgroup->members[i]->under_way += op->parts[i].done;
}

void pccl_master_drop_undecided(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (!op->decided && pccl_is_of_whole_group(&op->instance))
            free_operation(m, group, op);
    }
    count_under_way(group);
}

void pccl_master_await_anew(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(group->held_count == 0);
    for (struct pccl_operation *op = group->oldest; op != NULL; op = op->newer) {
        if (op->decided || !pccl_is_of_whole_group(&op->instance))
            continue;
        free_parts(m, op);
        op->done_count = 0;
        op->launched_us = 0;
    }
    count_under_way(group);
}

void pccl_master_drop_operations(struct pccl_master *m, struct pccl_peer_group *group)
{
    while (group->oldest != NULL)
        free_operation(m, group, group->oldest);
    count_under_way(group);
}

static bool is_of_present_era(const struct pccl_master *m, const struct pccl_peer_group *group,
                              const struct pccl_instance *instance)
{
    return instance->joint == pccl_master_joint(m) && instance->sync == group->sync;
}

/* All operations of a group are of one era. */
void pccl_master_forget_ended_eras(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_peer_group *group = m->groups[i];
        if (group->oldest != NULL && !is_of_present_era(m, group, &group->oldest->instance))
            pccl_master_drop_operations(m, group);
    }
}

/* Frees an operation of a subgroup or a pair. */
static void drop_operation(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    for (uint32_t i = 0; i < op->part_count; i++)
        op->subgroup->members[i]->under_way -= op->parts[i].done;
    free_operation(m, group, op);
}

void pccl_master_drop_operations_of(struct pccl_master *m, struct pccl_peer_group *group,
                                    const struct pccl_subgroup *subgroup)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->instance.subgroup == subgroup->name) /* operations of its pairs included */
            drop_operation(m, group, op);
        else if (op->subgroup == subgroup) /* its founding is decided, and stays until all know the outcome */
            op->subgroup = NULL;
    }
}

void pccl_master_drop_departed_pairs(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->instance.pair != 0 && pccl_master_departing_of(op->subgroup) != NULL)
            drop_operation(m, group, op);
    }
}

/*
 * A member that has acknowledged all that it was told knows whatever was decided since, for that
 * does not concern it. `behind` the stable outcomes is one that is told something and knows nothing
 * later.
 */
static bool is_behind(const struct pccl_peer_group *group, const struct pccl_remote *remote)
{
    return remote->decision_known < remote->decision_told && remote->decision_known <= group->stable;
}

/*
 * Outcomes are numbered in each group. When every member that was told of one has acknowledged it,
 * members and master forget it. To be called when the ring has changed; otherwise note_known calls
 * it when the last member has caught up.
 */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group)
{
    uint64_t known = group->decisions;
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (group->ring[i]->decision_known < group->ring[i]->decision_told)
            known = pccl_min_u64(known, group->ring[i]->decision_known);
    group->stable = pccl_max_u64(group->stable, known);
    group->behind = 0;
    for (uint32_t i = 0; i < group->ring_count; i++)
        group->behind += is_behind(group, group->ring[i]);
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->decided && op->decision <= group->stable)
            free_operation(m, group, op);
    }
}

void pccl_master_note_known(struct pccl_master *m, struct pccl_remote *remote, uint64_t decision)
{
    struct pccl_peer_group *group = remote->group;
    if (decision <= remote->decision_known)
        return;
    bool was_behind = group != NULL && is_behind(group, remote);
    remote->decision_known = decision;
    bool catches_up = was_behind && !is_behind(group, remote);
    PCCL_ASSERT(!catches_up || group->behind > 0);
    if (catches_up && --group->behind == 0)
        pccl_master_advance_stable(m, group);
}

/* It is told this outcome. If it had caught up, it knows all before it. */
static void note_told(struct pccl_peer_group *group, struct pccl_remote *remote, uint64_t decision)
{
    group->behind -= is_behind(group, remote);
    if (remote->decision_known == remote->decision_told)
        remote->decision_known = decision - 1;
    remote->decision_told = decision;
    group->behind += is_behind(group, remote);
}

/* ---- decisions ---- */

static void send_outcome(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_operation *op)
{
    struct pccl_participants all = pccl_master_participants(group, op);
    PCCL_ASSERT(op->decided);
    struct pccl_msg msg = {
        .type = PCCL_MSG_outcome,
        .as.outcome = {.instance = op->instance,
                       .decision = op->decision,
                       .stable = group->stable,
                       .class = (uint8_t)op->class,
                       .world = op->world,
                       .tiny = op->combined,
                       .result = {op->result, op->result_bytes},
                       .choice = &op->choice,
                       .choice_count = op->class == PCCL_CLASS_NONE && op->choice.why != PCCL_CHOICE_NONE,
                       .reason = pccl_bytes_of_text(&op->reason)}};
    for (uint32_t i = 0; i < all.count; i++) {
        note_told(group, all.members[i], op->decision);
        pccl_master_send(m, all.members[i], &msg, op->decision);
    }
}

static void decide(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                   enum pccl_class class)
{
    struct pccl_participants all = pccl_master_participants(group, op);
    PCCL_ASSERT(!op->decided);
    op->decided = true;
    op->class = class;
    op->decision = ++group->decisions;
    release_hold(group, op);
    for (uint32_t i = 0; i < op->part_count; i++)
        all.members[i]->under_way -= op->parts[i].done;
    if (group->newest != op) { /* decided operations are listed in the order of decisions */
        *(op->older != NULL ? &op->older->newer : &group->oldest) = op->newer;
        op->newer->older = op->older;
        put_last(group, op);
    }
    count_outcome(m, op, class == PCCL_CLASS_NONE);
    for (uint32_t i = 0; i < all.count; i++) {
        struct pccl_msg_where *where = &all.members[i]->where;
        if (where->call == PCCL_CALL_OPERATION && pccl_instance_equal(&where->instance, &op->instance))
            where->call = PCCL_CALL_NONE;
    }
    send_outcome(m, group, op);
    give_up_founding(m, op);
    free_parts(m, op);
}

bool pccl_master_is_view_known(const struct pccl_peer_group *group)
{
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (group->ring[i]->owes_view_ack)
            return false;
    return true;
}

/* The abort is certain, but it is held. The first reason stays. */
static void hold(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op, enum pccl_class class,
                 const struct pccl_text *reason, uint64_t until_us)
{
    PCCL_ASSERT(!op->decided && until_us > 0);
    if (op->held_until_us != 0)
        return;
    op->held_until_us = until_us;
    op->held_class = class;
    op->reason = *reason;
    group->held_count++;
    pccl_master_arm(m, until_us);
}

/*
 * The class must be the same at all members. A member that has not acknowledged the latest view may
 * be about to decide this operation by it, as PEER_LOST, so an abort with another class is held
 * until all have. Views do not decide operations of subgroups.
 */
void pccl_master_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *reason)
{
    if (class != PCCL_CLASS_PEER_LOST && pccl_is_of_whole_group(&op->instance) && !pccl_master_is_view_known(group)) {
        hold(m, group, op, class, reason, UINT64_MAX);
        return;
    }
    op->reason = *reason;
    struct pccl_log_fields fields = {.has_operation = true,
                                     .group = group->number,
                                     .tag = op->instance.tag,
                                     .use = op->instance.use,
                                     .reason = reason->bytes};
    pccl_master_log(m, class == PCCL_CLASS_PEER_LOST ? PCCL_LOG_DEBUG : PCCL_LOG_INFO, &fields,
                    "group %u tag %" PRIu64 " use %u aborted: %s", group->number, op->instance.tag, op->instance.use,
                    reason->bytes);
    decide(m, group, op, class);
}

/* From the last launch to now, when it is committed. */
static uint32_t took_us(const struct pccl_master *m, const struct pccl_operation *op)
{
    if (op->launched_us == 0)
        return PCCL_TOOK_UNKNOWN;
    return (uint32_t)pccl_min_u64(m->now_us - op->launched_us, PCCL_TOOK_UNKNOWN - 1);
}

void pccl_master_commit(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    if (op->world == 0) { /* otherwise it is a reported outcome, told again after a restart */
        op->world = pccl_master_participants(group, op).count;
        if (op->choice.why != PCCL_CHOICE_NONE)
            op->choice = pccl_choice_next(&op->descriptor, &op->choice, took_us(m, op));
    }
    if (op->tiny && !op->combined && !pccl_master_combine(m, group, op)) {
        struct pccl_text reason;
        pccl_text_format(&reason, "the master is out of memory");
        pccl_master_abort(m, group, op, PCCL_CLASS_INTERNAL, &reason);
        return;
    }
    decide(m, group, op, PCCL_CLASS_NONE);
    pccl_master_note_direct_use(m, group, op);
}

/*
 * PROTOCOL 6.2, before a view without the departing. Tiny operations need the payloads of all
 * members of their view, and who sends and who receives need one another (16.3).
 */
void pccl_master_commit_remaining(struct pccl_master *m, struct pccl_peer_group *group)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->decided || op->tiny || op->done_count == 0 || op->instance.pair != 0)
            continue;
        struct pccl_participants them = pccl_master_participants(group, op);
        bool all = true, any = false;
        for (uint32_t i = 0; i < them.count; i++) {
            any = any || !them.members[i]->departing;
            all = all && (them.members[i]->departing || op->parts[i].done);
        }
        if (all && any)
            pccl_master_commit(m, group, op);
    }
}

/* ---- messages from peers ---- */

/* false: it is of a subgroup that has ended; or its sender is not in it, and is removed. */
static bool is_of_subgroup(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    const struct pccl_subgroup *subgroup = pccl_master_find_subgroup(from->group, instance->subgroup);
    if (subgroup == NULL)
        return false;
    if (pccl_master_seat_in(subgroup, from) < subgroup->count)
        return true;
    pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it named an operation of a subgroup that it is not in");
    return false;
}

/* false: the other one has gone, and the news is under way; or the sender is not in it, and is removed. */
static bool is_of_pair(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    enum pccl_pairing pairing = pccl_master_pairing(from->group, instance, from);
    if (pairing == PCCL_PAIR_OF_OTHERS)
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL,
                           "it named an operation of a pair that it is not in, or that is not in its subgroup");
    return pairing == PCCL_PAIR_WHOLE;
}

bool pccl_master_concerns(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    if (instance->joint > pccl_master_joint(m) || instance->sync > from->group->sync) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it named an operation of the future");
        return false;
    }
    if (!is_of_present_era(m, from->group, instance))
        return false;
    if (pccl_master_names_subgroup(instance) && !is_of_subgroup(m, from, instance))
        return false;
    return instance->pair == 0 || is_of_pair(m, from, instance);
}

/* false: it is in, or founds, too many subgroups, and is removed. */
static bool may_found(struct pccl_master *m, struct pccl_remote *from, uint32_t world)
{
    if (from->founded_count < PCCL_SUBGROUPS_MAX && from->seat_count + world <= PCCL_SUBGROUP_SEATS_MAX)
        return true;
    pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it founds too many subgroups");
    return false;
}

/*
 * PROTOCOL 7.12: who launched last waited for nobody. What a member says too much of its time makes its
 * launch an early one, which does not count; and no launch is later than its `done`.
 */
static void note_launch(const struct pccl_master *m, struct pccl_operation *op, const struct pccl_choice *choice)
{
    if (choice->since_us != PCCL_TOOK_UNKNOWN)
        op->launched_us = pccl_max_u64(op->launched_us, m->now_us - pccl_min_u64(choice->since_us, m->now_us));
    pccl_choice_hear(&op->choice, choice);
}

static void describe(struct pccl_master *m, struct pccl_operation *op, const struct pccl_remote *from,
                     const struct pccl_msg_done *done)
{
    op->descriptor = done->descriptor;
    op->described_by = from->id;
    op->described = true;
    op->tiny = done->tiny != 0;
    m->tally.begun[done->descriptor.collective]++;
}

void pccl_master_take_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                           const struct pccl_msg_done *done)
{
    bool founds = op->instance.subgroup == PCCL_FOUNDING;
    if (founds && from->departing)
        return; /* it is in nobody's list any more */
    if (founds && op->subgroup == NULL)
        op->subgroup = pccl_master_make_subgroup(m, from->group, &op->instance, &done->payload);
    if (founds && op->subgroup == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    if (op->parts == NULL) {
        uint32_t count = pccl_master_participants(from->group, op).count;
        op->parts = pccl_allocate(&m->memory, count * sizeof *op->parts);
        if (op->parts == NULL) {
            pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
            return;
        }
        op->part_count = count;
        if (!op->described)
            describe(m, op, from, done);
        if (done->choice_count > 0)
            op->choice = done->choice[0];
    }
    uint32_t seat = pccl_master_seat(op, from);
    struct pccl_part *part = &op->parts[seat];
    PCCL_ASSERT(!op->decided && seat < op->part_count);
    if (part->done || (founds && !may_found(m, from, op->subgroup->world)))
        return;
    if (from->under_way == PCCL_OPS_HELD_MAX) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it has too many operations in flight");
        return;
    }
    if (founds) { /* the list is known */
        pccl_master_count_seats(from, op->subgroup->world, true);
    } else if (done->payload.length > 0) {
        part->payload = pccl_allocate(&m->memory, done->payload.length);
        if (part->payload == NULL) {
            pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
            return;
        }
        part->payload_bytes = done->payload.length;
        memcpy(part->payload, done->payload.data, done->payload.length);
    }
    part->done = true;
    if (done->choice_count > 0)
        note_launch(m, op, &done->choice[0]);
    op->done_count++;
    from->under_way++;
}

/* Of as many members as the view, the subgroup, the pair or the list has; a list has its sender. */
static bool fits(const struct pccl_master *m, const struct pccl_remote *from, const struct pccl_msg_done *done)
{
    const struct pccl_instance *instance = &done->instance;
    uint32_t world = from->group->ring_count;
    if (pccl_master_names_subgroup(instance))
        world = pccl_master_find_subgroup(from->group, instance->subgroup)->world;
    if (instance->pair != 0)
        world = 2;
    if (instance->subgroup == PCCL_FOUNDING)
        world = (uint32_t)done->descriptor.count;
    return pccl_master_contribution_fits(done, from, world, m->config.tiny_bytes_max);
}

/* Of a founding by peers of whom some are no members. It counts as one that its sender ends. */
static void refuse_founding(struct pccl_master *m, struct pccl_remote *from, struct pccl_operation *op,
                            const struct pccl_bytes *list)
{
    struct pccl_text reason;
    pccl_text_clear(&reason);
    pccl_master_add_strangers(m, from->group, list, &reason);
    if (!pccl_master_exceeds_lone_aborts(m, from, op))
        pccl_master_abort(m, from->group, op, PCCL_CLASS_MEMBERS_CHANGED, &reason);
}

void pccl_master_done(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_done *done)
{
    if (!pccl_master_concerns(m, from, &done->instance))
        return;
    struct pccl_peer_group *group = from->group;
    int order = pccl_is_of_whole_group(&done->instance) ? pccl_epoch_compare(&done->view, &group->view) : 0;
    if (order < 0)
        return; /* PROTOCOL 6.5: launched before the view; a `view_ack` ends it */
    if (order > 0 || !fits(m, from, done)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it reported an impossible operation");
        return;
    }
    struct pccl_operation *op = pccl_master_operation(m, group, &done->instance, true);
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return;
    }
    if (op->decided)
        return;
    if (op->subgroup != NULL && pccl_master_seat_in(op->subgroup, from) == op->subgroup->count) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it founds a subgroup by two lists of one digest");
        return;
    }
    bool differs =
        op->described && (!pccl_descriptor_equal(&op->descriptor, &done->descriptor) || op->tiny != (done->tiny != 0));
    if (differs) {
        struct pccl_text reason;
        pccl_describe_difference(&reason, &(struct pccl_described){&op->described_by, &op->descriptor, op->tiny},
                                 &(struct pccl_described){&from->id, &done->descriptor, done->tiny != 0});
        pccl_master_abort(m, group, op, PCCL_CLASS_MISMATCH, &reason);
        return;
    }
    pccl_master_take_part(m, op, from, done);
    bool all = op->part_count > 0 && op->done_count == op->part_count;
    if (op->subgroup != NULL && op->part_count > 0 && op->subgroup->count < op->subgroup->world)
        refuse_founding(m, from, op, &done->payload);
    else if (all)
        pccl_master_commit(m, group, op);
    else
        pccl_master_offer(m, op);
}

/*
 * The other members have to remember what was aborted before they launched it. The limit keeps one
 * member, or several together, from making them remember more than they can.
 */
void pccl_master_note_lone_abort(struct pccl_remote *from, struct pccl_operation *op)
{
    PCCL_ASSERT(!op->decided);
    bool own = op->parts != NULL && op->parts[pccl_master_seat(op, from)].done;
    if (op->done_count > (own ? 1 : 0))
        return;
    op->ended_by = op->named_last = from->id;
    op->named_count = 1;
    from->lone_aborts++;
}

static void remove_over_limit(struct pccl_master *m, struct pccl_remote *from)
{
    pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it aborted %u operations that no other member had finished",
                       from->lone_aborts);
}

bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from, struct pccl_operation *op)
{
    pccl_master_note_lone_abort(from, op);
    if (from->lone_aborts <= PCCL_OPS_LONE_MAX)
        return false;
    remove_over_limit(m, from);
    return true;
}

/*
 * After a restart: only when all reports have been read is it known which ends several members
 * reported.
 */
void pccl_master_judge_lone_aborts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->group == NULL || remote->lone_aborts <= PCCL_OPS_LONE_MAX)
            continue;
        for (struct pccl_operation *op = remote->group->oldest, *next; op != NULL; op = next) {
            next = op->newer;
            if (pccl_id_equal(&op->ended_by, &remote->id) && op->named_count == 1)
                free_operation(m, remote->group, op); /* no other member knows an outcome */
        }
        remove_over_limit(m, remote);
    }
}

/*
 * An operation that most members say has ended was launched by them, so it does not count against
 * the member that named it first.
 */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op)
{
    if (pccl_id_is_zero(&op->ended_by) || pccl_id_equal(&op->named_last, &from->id))
        return;
    op->named_last = from->id;
    if (2 * ++op->named_count <= pccl_master_participants(from->group, op).count)
        return;
    struct pccl_remote *first = pccl_master_find(m, &op->ended_by);
    if (first != NULL && first->lone_aborts > 0)
        first->lone_aborts--;
    op->ended_by = (struct pccl_id){{0}};
}

/* The undecided operation that a failure or an abort is about; NULL: there is nothing to decide. */
static struct pccl_operation *undecided(struct pccl_master *m, struct pccl_remote *from,
                                        const struct pccl_instance *instance)
{
    if (!pccl_master_concerns(m, from, instance))
        return NULL;
    bool founds = instance->subgroup == PCCL_FOUNDING; /* then it has said `done`, and what the list is */
    struct pccl_operation *op = pccl_master_operation(m, from->group, instance, !founds);
    if (op == NULL && founds) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it ended a founding that it has no part in");
        return NULL;
    }
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    if (op->decided || !pccl_id_is_zero(&op->ended_by)) {
        pccl_master_confirm_end(m, from, op);
        return op->decided ? NULL : op;
    }
    return pccl_master_exceeds_lone_aborts(m, from, op) ? NULL : op;
}

/*
 * Appends the reason of a failure and the peer that gave it; the reason of a mismatch names both
 * peers itself.
 */
static void add_reported(struct pccl_text *reason, const struct pccl_remote *from, uint16_t class,
                         struct pccl_bytes reported, const char *otherwise)
{
    if (class != PCCL_CLASS_MISMATCH || reported.length == 0)
        pccl_text_append(reason, "peer %s: ", pccl_id_str(&from->id));
    if (reported.length > 0)
        pccl_text_add_bytes(reason, (const char *)reported.data, reported.length);
    else
        pccl_text_add(reason, otherwise);
}

/* PROTOCOL 6.3: it was said in a view that the group has only re-planned since, and is said again in the new one. */
static bool is_said_again(const struct pccl_remote *from, const struct pccl_instance *instance,
                          const struct pccl_epoch *view)
{
    const struct pccl_peer_group *group = from->group;
    return pccl_is_of_whole_group(instance) && pccl_epoch_compare(view, &group->view) < 0 &&
           pccl_epoch_compare(view, &group->firm) >= 0;
}

/*
 * PROTOCOL 6.3. A failure caused by a link is held until the view that removes the cause, so that
 * one death costs one failure. If no view comes within settle_ms, or the link stands again, the
 * operation is aborted on its own.
 */
void pccl_master_failed(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_failed *failed)
{
    if (is_said_again(from, &failed->instance, &failed->view))
        return;
    struct pccl_operation *op = undecided(m, from, &failed->instance);
    if (op == NULL)
        return;
    bool outdated = pccl_view_is_past(&op->instance, &failed->view, &from->group->view);
    enum pccl_class class = outdated ? PCCL_CLASS_PEER_LOST : (enum pccl_class)failed->class;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    add_reported(&reason, from, failed->class, failed->reason, "it failed");
    if (outdated || class != PCCL_CLASS_PEER_LOST) {
        pccl_master_abort(m, from->group, op, class, &reason);
    } else {
        op->failed_by = from->id;
        hold(m, from->group, op, PCCL_CLASS_PEER_LOST, &reason, m->now_us + m->config.settle_ms * UINT64_C(1000));
    }
}

/* Do all links that its group needs stand again from and to the peer that reported the failure? */
static bool is_mended(const struct pccl_master *m, const struct pccl_operation *op)
{
    const struct pccl_remote *remote = pccl_master_find(m, &op->failed_by);
    const struct pccl_peer_group *group = remote != NULL ? remote->group : NULL;
    for (uint32_t i = 0; group != NULL && i < group->ring_count; i++) {
        const struct pccl_remote *other = group->ring[i];
        if ((pccl_master_needs_link(remote, other) && !pccl_master_holds_link(remote, other)) ||
            (pccl_master_needs_link(other, remote) && !pccl_master_holds_link(other, remote)))
            return false;
    }
    return true;
}

/*
 * Is an abort that is held for a link held longer? It waits until all failed links of the peer are
 * decided.
 */
static bool has_to_wait(struct pccl_master *m, struct pccl_operation *op)
{
    if (m->now_us >= op->held_until_us && !is_mended(m, op))
        op->held_until_us = pccl_max_u64(op->held_until_us, pccl_master_link_decided_at(m, &op->failed_by));
    return m->departing_count > 0 || m->now_us < op->held_until_us; /* a view may be coming */
}

/* mended_a, mended_b: the ends of a link that has come up, or NULL. */
static void release_held(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_remote *mended_a,
                         const struct pccl_remote *mended_b)
{
    bool view_known = pccl_master_is_view_known(group);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL && group->held_count > 0;
         op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided || op->held_until_us == 0)
            continue;
        bool waits_for_view = op->held_class != PCCL_CLASS_PEER_LOST; /* never in a subgroup */
        bool concerned = mended_a != NULL &&
                         (pccl_id_equal(&mended_a->id, &op->failed_by) || pccl_id_equal(&mended_b->id, &op->failed_by));
        if (waits_for_view ? view_known : (concerned && is_mended(m, op)) || !has_to_wait(m, op)) {
            struct pccl_text reason = op->reason;
            pccl_master_abort(m, group, op, op->held_class, &reason);
        } else {
            pccl_master_arm(m, pccl_max_u64(m->now_us, op->held_until_us));
        }
    }
}

void pccl_master_release_held_aborts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        release_held(m, m->groups[i], NULL, NULL);
}

void pccl_master_link_mended(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from->group != NULL && from->group == to->group && from->group->held_count > 0)
        release_held(m, from->group, from, to);
}

/* Why its callers say so, if the peer gave no reason. */
static const char *default_reason(enum pccl_class class, const struct pccl_instance *instance)
{
    if (class != PCCL_CLASS_DEADLINE)
        return "its caller aborted the operation";
    return instance->subgroup == PCCL_FOUNDING
               ? "its deadline, the timeout of the founding or else op_timeout_ms, passed"
               : "its deadline, op_timeout_ms, passed";
}

void pccl_master_abort_requested(struct pccl_master *m, struct pccl_remote *from,
                                 const struct pccl_msg_abort_request *request)
{
    if (is_said_again(from, &request->instance, &request->view))
        return;
    struct pccl_operation *op = undecided(m, from, &request->instance);
    if (op == NULL)
        return;
    bool outdated = pccl_view_is_past(&op->instance, &request->view, &from->group->view);
    enum pccl_class class = outdated ? PCCL_CLASS_PEER_LOST : (enum pccl_class)request->class;
    struct pccl_text reason;
    pccl_text_clear(&reason);
    add_reported(&reason, from, request->class, request->reason, default_reason(class, &op->instance));
    if (class == PCCL_CLASS_DEADLINE && request->reason.length == 0)
        pccl_master_add_missing(m, from, &request->instance, &reason);
    pccl_master_abort(m, from->group, op, class, &reason);
}

/* Returns true if the master has sent this view to the member. */
static bool may_acknowledge(const struct pccl_remote *from, const struct pccl_msg_view_ack *ack)
{
    return from->views_owed > 0 && pccl_epoch_compare(&ack->view, &from->view_acknowledged) > 0 &&
           pccl_epoch_compare(&ack->view, &from->group->view) <= 0;
}

static void aborted_by_view(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    if (!pccl_is_of_whole_group(instance)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it let a view abort an operation of a subgroup or pair");
        return;
    }
    if (!pccl_master_concerns(m, from, instance))
        return;
    struct pccl_operation *op = pccl_master_operation(m, from->group, instance, true);
    if (op == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
    } else if (op->decided) {
        pccl_master_confirm_end(m, from, op);
    } else if (!pccl_master_exceeds_lone_aborts(m, from, op)) {
        struct pccl_text reason;
        pccl_text_format(&reason, "a peer of the group was lost during the operation");
        pccl_master_abort(m, from->group, op, PCCL_CLASS_PEER_LOST, &reason);
    }
}

/*
 * PROTOCOL 6.4: what the view aborted at one member is aborted for all, also for those that launch
 * it later.
 */
void pccl_master_view_acked(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg_view_ack *ack)
{
    if (!may_acknowledge(from, ack)) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it acknowledged a view that it never received");
        return;
    }
    from->views_owed--;
    from->view_acknowledged = ack->view;
    for (uint32_t i = 0; i < ack->instances_count && !from->departing; i++)
        aborted_by_view(m, from, &ack->instances[i]);
    if (from->departing || !pccl_epoch_equal(&ack->view, &from->group->view))
        return;
    from->owes_view_ack = false;
    if (from->group->held_count > 0)
        release_held(m, from->group, NULL, NULL);
}
