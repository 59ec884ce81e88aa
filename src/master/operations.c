/* Decides each operation once (PROTOCOL 6), and discards outcomes that every member has acknowledged (2.3). */
#include "kernels/reduce.h"
#include "master/operations_internal.h"
#include "master/links.h"
#include "master/output.h"
#include "master/roster.h"
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

/* Cancels the creation of a subgroup. */
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

/* Decrements the participant's count of undecided operations that it has finished. */
static void count_finished(struct pccl_remote *participant)
{
    PCCL_ASSERT(participant->under_way > 0);
    participant->under_way--;
}

/* Returns the payload bytes of a committed operation; each tensor counts once regardless of the number of members. */
static uint64_t bytes_of(const struct pccl_operation *op)
{
    const struct pccl_descriptor *descriptor = &op->descriptor;
    const enum pccl_matter of = pccl_collective(descriptor->collective)->of;
    if (of == PCCL_OF_NOTHING)
        return 0;
    if (of == PCCL_OF_BLOBS && op->tiny)
        return op->result_bytes; /* the lengths, followed by the blobs if they are short */
    uint64_t size = of == PCCL_OF_ELEMENTS ? pccl_datatype_bytes((enum pccl_datatype)descriptor->datatype) : 1;
    return descriptor->count > UINT64_MAX / size ? 0 : descriptor->count * size;
}

/* Counts an outcome. An operation without a descriptor also counts as begun now. */
static void count_outcome(struct pccl_master *m, const struct pccl_operation *op, bool committed)
{
    uint32_t kind = op->described ? op->descriptor.collective : PCCL_COLLECTIVES;
    m->tally.begun[kind] += !op->described;
    pccl_tally_outcome(&m->tally, kind, committed, op->described ? bytes_of(op) : 0, m->now_us - op->first_us,
                       m->now_us);
}

static void free_operation(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    if (!op->decided) /* its view has ended, so the members have aborted it by themselves */
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

/* Recounts the members' undecided operations after a change of the ring, which invalidates parts. */
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

void pccl_master_await_again(struct pccl_master *m, struct pccl_peer_group *group)
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

/* Checks only one operation of each group, because all operations of a group belong to the same era. */
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
    PCCL_ASSERT(op->subgroup != NULL);
    for (uint32_t i = 0; i < op->part_count; i++)
        if (op->parts[i].done)
            count_finished(op->subgroup->members[i]);
    free_operation(m, group, op);
}

void pccl_master_drop_operations_of(struct pccl_master *m, struct pccl_peer_group *group,
                                    const struct pccl_subgroup *subgroup)
{
    for (struct pccl_operation *op = group->oldest, *next; op != NULL; op = next) {
        next = op->newer;
        if (op->instance.subgroup == subgroup->name) /* including the operations of its pairs */
            drop_operation(m, group, op);
        /* its founding is decided, but kept until all have acknowledged the outcome */
        else if (op->subgroup == subgroup)
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
 * Returns true if the member was sent outcomes and has acknowledged none beyond the stable ones. A member that has
 * acknowledged everything sent to it is not behind, because later decisions were not sent to it.
 */
static bool is_behind(const struct pccl_peer_group *group, const struct pccl_remote *remote)
{
    return remote->decision_known < remote->decision_sent && remote->decision_known <= group->stable;
}

/*
 * Outcomes are numbered in each group. Once every recipient has acknowledged one, members and master forget it. Call
 * after a change of the ring; otherwise pccl_master_note_known calls it when the last member has caught up.
 */
void pccl_master_advance_stable(struct pccl_master *m, struct pccl_peer_group *group)
{
    uint64_t known = group->decisions;
    for (uint32_t i = 0; i < group->ring_count; i++)
        if (group->ring[i]->decision_known < group->ring[i]->decision_sent)
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

/* Records that this outcome is sent to the member. If it had caught up, it has acknowledged all earlier ones. */
static void note_sent(struct pccl_peer_group *group, struct pccl_remote *remote, uint64_t decision)
{
    PCCL_ASSERT(decision > remote->decision_sent && (group->behind > 0 || !is_behind(group, remote)));
    group->behind -= is_behind(group, remote);
    if (remote->decision_known == remote->decision_sent)
        remote->decision_known = decision - 1;
    remote->decision_sent = decision;
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
        note_sent(group, all.members[i], op->decision);
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
    PCCL_ASSERT(op->part_count <= all.count);
    for (uint32_t i = 0; i < op->part_count; i++)
        if (op->parts[i].done)
            count_finished(all.members[i]);
    if (group->newest != op) { /* decided operations are listed in the order in which they were decided */
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
        if (group->ring[i]->awaits_view_ack)
            return false;
    return true;
}

void pccl_master_hold_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                            enum pccl_class class, const struct pccl_text *reason, uint64_t until_us)
{
    PCCL_ASSERT(!op->decided && until_us > 0 && class != PCCL_CLASS_NONE);
    if (op->held_until_us != 0)
        return;
    op->held_until_us = until_us;
    op->held_class = class;
    op->reason = *reason;
    group->held_count++;
    pccl_master_arm(m, until_us);
}

/*
 * Aborts the operation with the same class at all members. A member that has not acknowledged the latest view may abort
 * the operation because of that view, as PEER_LOST, so an abort with another class is held until all have acknowledged
 * it. Views do not decide operations of subgroups.
 */
void pccl_master_abort(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op,
                       enum pccl_class class, const struct pccl_text *reason)
{
    PCCL_ASSERT(!op->decided && class != PCCL_CLASS_NONE);
    if (class != PCCL_CLASS_PEER_LOST && pccl_is_of_whole_group(&op->instance) && !pccl_master_is_view_known(group)) {
        pccl_master_hold_abort(m, group, op, class, reason, UINT64_MAX);
        return;
    }
    op->reason = *reason;
    struct pccl_log_fields fields = {.has_operation = true,
                                     .group = group->number,
                                     .tag = op->instance.tag,
                                     .use = op->instance.use,
                                     .reason = reason->bytes,
                                     .cause = PCCL_LOG_CAUSE_OPERATION};
    pccl_master_log(m, class == PCCL_CLASS_PEER_LOST ? PCCL_LOG_DEBUG : PCCL_LOG_INFO, &fields,
                    "group %u tag %" PRIu64 " use %u aborted: %s", group->number, op->instance.tag, op->instance.use,
                    reason->bytes);
    decide(m, group, op, class);
}

/* Returns the time from the last launch until now, the commit. */
static uint32_t took_us(const struct pccl_master *m, const struct pccl_operation *op)
{
    if (op->launched_us == 0)
        return PCCL_TOOK_UNKNOWN;
    return (uint32_t)pccl_min_u64(m->now_us - op->launched_us, PCCL_TOOK_UNKNOWN - 1);
}

void pccl_master_commit(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_operation *op)
{
    PCCL_ASSERT(!op->decided);
    if (op->world == 0) { /* otherwise the outcome was reported after a restart and is sent again */
        op->world = pccl_master_participants(group, op).count;
        if (op->choice.why != PCCL_CHOICE_NONE)
            op->choice = pccl_choice_next(&op->descriptor, &op->choice, took_us(m, op));
    }
    if (op->tiny && !op->combined && !pccl_master_combine(m, group, op)) {
        struct pccl_text reason = op->reason;
        if (reason.length == 0)
            pccl_text_format(&reason, "the master ran out of memory");
        pccl_master_abort(m, group, op, PCCL_CLASS_INTERNAL, &reason);
        return;
    }
    decide(m, group, op, PCCL_CLASS_NONE);
    pccl_master_note_direct_use(m, group, op);
}

/* ---- messages of members ---- */

enum pccl_standing pccl_master_standing(const struct pccl_remote *remote, const struct pccl_instance *instance)
{
    const struct pccl_subgroup *subgroup = NULL;
    if (pccl_master_names_subgroup(instance)) {
        subgroup = pccl_master_find_subgroup(remote->group, instance->subgroup);
        if (subgroup == NULL)
            return PCCL_STANDING_ENDED;
    } else if (instance->subgroup == PCCL_FOUNDING) {
        const struct pccl_operation *op = find_operation(remote->group, instance);
        subgroup = op != NULL ? op->subgroup : NULL;
    }
    if (subgroup != NULL && pccl_master_seat_in(subgroup, remote) == subgroup->count)
        return PCCL_STANDING_NONE;
    return instance->pair != 0 ? pccl_master_standing_in_pair(remote, subgroup, instance->pair) : PCCL_STANDING_MEMBER;
}

bool pccl_master_concerns(struct pccl_master *m, struct pccl_remote *from, const struct pccl_instance *instance)
{
    if (instance->joint > pccl_master_joint(m) || instance->sync > from->group->sync) {
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it referred to an operation that does not exist yet");
        return false;
    }
    if (!is_of_present_era(m, from->group, instance))
        return false;
    enum pccl_standing standing = pccl_master_standing(from, instance);
    if (standing == PCCL_STANDING_NONE)
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL,
                           "it referred to an operation of a subgroup or pair that it does not belong to");
    return standing == PCCL_STANDING_MEMBER;
}

/* Returns true if the member may take part in another subgroup of this size; otherwise removes it. */
static bool may_found(struct pccl_master *m, struct pccl_remote *from, uint32_t world)
{
    if (from->founded_count < PCCL_SUBGROUPS_MAX && from->seat_count + world <= PCCL_SUBGROUP_SEATS_MAX)
        return true;
    pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it creates too many subgroups");
    return false;
}

/*
 * Records the time of a launch (PROTOCOL 7.12). Only the latest launch counts, because the member that launched last
 * did not wait for others. A member that exaggerates the time since its launch only makes its launch earlier, and no
 * launch is later than its `done`.
 */
static void note_launch(const struct pccl_master *m, struct pccl_operation *op, const struct pccl_choice *choice)
{
    if (choice->since_us != PCCL_TOOK_UNKNOWN)
        op->launched_us = pccl_max_u64(op->launched_us, m->now_us - pccl_min_u64(choice->since_us, m->now_us));
    pccl_choice_merge(&op->choice, choice);
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
        return; /* no list contains it any longer */
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
    PCCL_ASSERT(!op->decided && seat < op->part_count);
    struct pccl_part *part = &op->parts[seat];
    if (part->done || (founds && !may_found(m, from, op->subgroup->world)))
        return;
    if (from->under_way == PCCL_OPS_HELD_MAX) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it has too many operations in flight");
        return;
    }
    if (founds) { /* the list was stored with the subgroup */
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

/*
 * The other members must remember an operation that was aborted before they launched it. The limit prevents one member,
 * or several together, from exhausting their memory.
 */
void pccl_master_note_lone_abort(struct pccl_remote *from, struct pccl_operation *op)
{
    PCCL_ASSERT(!op->decided && (op->parts == NULL || pccl_master_seat(op, from) < op->part_count));
    bool own = op->parts != NULL && op->parts[pccl_master_seat(op, from)].done;
    if (op->done_count > (own ? 1 : 0))
        return;
    op->ended_by = op->named_last = from->id;
    op->named_count = 1;
    from->sole_aborts++;
}

static void remove_over_limit(struct pccl_master *m, struct pccl_remote *from)
{
    pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "it aborted %u operations that no other member had finished",
                       from->sole_aborts);
}

bool pccl_master_exceeds_lone_aborts(struct pccl_master *m, struct pccl_remote *from, struct pccl_operation *op)
{
    pccl_master_note_lone_abort(from, op);
    if (from->sole_aborts <= PCCL_OPS_LONE_MAX)
        return false;
    remove_over_limit(m, from);
    return true;
}

/* Runs after a restart, because only all reports together show which aborts several members reported. */
void pccl_master_judge_lone_aborts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->group == NULL || remote->sole_aborts <= PCCL_OPS_LONE_MAX)
            continue;
        for (struct pccl_operation *op = remote->group->oldest, *next; op != NULL; op = next) {
            next = op->newer;
            if (pccl_id_equal(&op->ended_by, &remote->id) && op->named_count == 1)
                free_operation(m, remote->group, op); /* no other member has received an outcome */
        }
        remove_over_limit(m, remote);
    }
}

/*
 * Withdraws the record of a lone abort once most members report that the operation has ended: they had launched it, so
 * the abort does not count against the member that reported it first.
 */
void pccl_master_confirm_end(struct pccl_master *m, const struct pccl_remote *from, struct pccl_operation *op)
{
    if (pccl_id_is_zero(&op->ended_by) || pccl_id_equal(&op->named_last, &from->id))
        return;
    op->named_last = from->id;
    if (2 * ++op->named_count <= pccl_master_participants(from->group, op).count)
        return;
    struct pccl_remote *first = pccl_master_find(m, &op->ended_by);
    if (first != NULL && first->sole_aborts > 0)
        first->sole_aborts--;
    op->ended_by = (struct pccl_id){{0}};
}
