/*
 * What members of an older boot report after a restart of the master, and which reports are believed (PROTOCOL 12.2,
 * 12.3). A report is kept as it came and judged by the others alone: nothing here knows which one is law, or changes
 * groups, rounds or operations.
 */
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"

#include <string.h>

/*
 * What reports may name. The next epoch must exist; and members have slept through some recoveries, never through
 * hundreds: whoever is that far ahead of all others lies, and would use up the run's epochs.
 */
#define INC_MOST (UINT32_MAX - PCCL_INC_SPREAD)
enum { INC_AHEAD_MAX = 64 * PCCL_INC_SPREAD };
/* Numbers of rounds and outcomes, which begin at 0 and rise one by one, stay far below what would wrap. */
#define COUNTER_MOST (UINT64_MAX / 4)
#define DECISIONS_AHEAD_MAX (UINT64_C(1) << 32)

/* ---- what they say ---- */

void pccl_master_free_report(struct pccl_master *m, struct pccl_remote *remote)
{
    struct pccl_report *report = remote->report;
    if (report == NULL)
        return;
    pccl_release(&m->memory, report->members, report->fields.members_count * sizeof *report->members);
    pccl_release(&m->memory, report->ring, report->fields.ring_count * sizeof *report->ring);
    while (report->ops != NULL) {
        struct pccl_reported_op *op = report->ops;
        report->ops = op->next;
        pccl_release(&m->memory, op, sizeof *op + op->bytes_length);
    }
    while (report->subgroups != NULL) {
        struct pccl_reported_subgroup *subgroup = report->subgroups;
        report->subgroups = subgroup->next;
        pccl_release(&m->memory, subgroup, sizeof *subgroup + subgroup->length);
    }
    pccl_release(&m->memory, report, sizeof *report);
    remote->report = NULL;
}

static bool can_be_counted(const struct pccl_msg_resume *resume)
{
    for (uint32_t i = 0; i < resume->members_count; i++)
        if (resume->members[i].admitted >= COUNTER_MOST)
            return false;
    return resume->update < COUNTER_MOST && resume->optimize < COUNTER_MOST && resume->query < COUNTER_MOST &&
           resume->sync < COUNTER_MOST && resume->decisions < COUNTER_MOST;
}

/* MALFORMED: it does not make sense; MEMORY. */
static enum pccl_status take_resume(struct pccl_master *m, struct pccl_report *report,
                                    const struct pccl_msg_resume *resume)
{
    if (report->begun || resume->members_count == 0 || resume->ring_count == 0 || resume->epoch.inc > INC_MOST ||
        pccl_epoch_compare(&resume->view, &resume->epoch) > 0 || !can_be_counted(resume))
        return PCCL_MALFORMED;
    report->members = pccl_allocate(&m->memory, resume->members_count * sizeof *report->members);
    report->ring = pccl_allocate(&m->memory, resume->ring_count * sizeof *report->ring);
    if (report->members == NULL || report->ring == NULL) {
        pccl_release(&m->memory, report->members, resume->members_count * sizeof *report->members);
        pccl_release(&m->memory, report->ring, resume->ring_count * sizeof *report->ring);
        report->members = NULL;
        report->ring = NULL;
        return PCCL_MEMORY;
    }
    memcpy(report->members, resume->members, resume->members_count * sizeof *report->members);
    memcpy(report->ring, resume->ring, resume->ring_count * sizeof *report->ring);
    report->fields = *resume;
    report->fields.members = report->members;
    report->fields.ring = report->ring;
    report->begun = true;
    return PCCL_OK;
}

/*
 * What is told again later must be what it says; contributions are judged when it is known how many
 * they are of. The master before this one may have had another limit.
 */
static bool is_plausible(const struct pccl_msg_resume_operation *fields)
{
    if (fields->state == PCCL_RESUME_DONE)
        return true;
    if (fields->state != PCCL_RESUME_COMMITTED || fields->tiny == 0)
        return fields->payload.length == 0;
    return fields->world > 0 &&
           pccl_tiny_result_fits(&fields->descriptor, fields->world, &fields->payload, PCCL_TINY_BYTES_MAX);
}

/* The result of a founding that this peer took part in, and the name binds its members. */
static enum pccl_status judge_founded(struct pccl_master *m, const struct pccl_remote *from,
                                      const struct pccl_instance *founding, const struct pccl_bytes *founded)
{
    uint32_t count = pccl_founded_count(founded);
    uint32_t bytes = pccl_founding_bytes(count);
    if (count < 2 || !pccl_founded_has_ring(founded))
        return PCCL_MALFORMED;
    struct pccl_id *ids = pccl_allocate(&m->memory, bytes);
    if (ids == NULL)
        return PCCL_MEMORY;
    pccl_founded_list(founded, ids);
    bool valid = pccl_founding_is_valid(founding, &(struct pccl_bytes){ids->bytes, bytes}) &&
                 pccl_id_find(ids, count, &from->id) < count;
    pccl_release(&m->memory, ids, bytes);
    return valid ? PCCL_OK : PCCL_MALFORMED;
}

static enum pccl_status take_subgroup(struct pccl_master *m, struct pccl_remote *from,
                                      const struct pccl_msg_resume_subgroup *fields)
{
    struct pccl_report *report = from->report;
    uint32_t seats = pccl_founded_count(&fields->founded), length = fields->founded.length;
    if (!report->begun || report->subgroup_count == PCCL_SUBGROUPS_MAX ||
        report->seat_count + seats > PCCL_SUBGROUP_SEATS_MAX)
        return PCCL_MALFORMED;
    enum pccl_status status = judge_founded(m, from, &fields->founding, &fields->founded);
    if (status != PCCL_OK)
        return status;
    struct pccl_reported_subgroup *subgroup = pccl_allocate(&m->memory, sizeof *subgroup + length);
    if (subgroup == NULL)
        return PCCL_MEMORY;
    subgroup->founding = fields->founding;
    subgroup->length = length;
    memcpy(subgroup->founded, fields->founded.data, length);
    subgroup->next = report->subgroups;
    report->subgroups = subgroup;
    report->subgroup_count++;
    report->seat_count += seats;
    return PCCL_OK;
}

static enum pccl_status take_operation(struct pccl_master *m, struct pccl_remote *from,
                                       const struct pccl_msg_resume_operation *fields)
{
    struct pccl_report *report = from->report;
    uint32_t length = fields->payload.length + fields->reason.length;
    bool aborted = fields->state == PCCL_RESUME_ABORTED;
    if (!report->begun || report->op_count >= PCCL_OPS_PER_PEER_MAX + PCCL_TOMBSTONES_MAX ||
        (!aborted && report->launched_count >= PCCL_OPS_PER_PEER_MAX) || !is_plausible(fields))
        return PCCL_MALFORMED;
    if (fields->state == PCCL_RESUME_COMMITTED && fields->descriptor.collective == PCCL_FOUND) {
        enum pccl_status status = judge_founded(m, from, &fields->instance, &fields->payload);
        if (status != PCCL_OK)
            return status;
    }
    struct pccl_reported_op *op = pccl_allocate(&m->memory, sizeof *op + length);
    if (op == NULL)
        return PCCL_MEMORY;
    op->fields = *fields;
    op->bytes_length = length;
    if (fields->payload.length > 0)
        memcpy(op->bytes, fields->payload.data, fields->payload.length);
    if (fields->reason.length > 0)
        memcpy(op->bytes + fields->payload.length, fields->reason.data, fields->reason.length);
    if (fields->choice_count > 0)
        op->choice = fields->choice[0];
    op->fields.choice = &op->choice;
    op->fields.payload.data = op->bytes;
    op->fields.reason.data = op->bytes + fields->payload.length;
    op->next = report->ops;
    report->ops = op;
    report->op_count++;
    report->launched_count += !aborted;
    return PCCL_OK;
}

static enum pccl_status take_round(struct pccl_report *report, const struct pccl_msg_resume_round *round)
{
    if (round->attributes.epoch.inc > INC_MOST)
        return PCCL_MALFORMED;
    report->rounds[round->kind] = *round;
    report->rounds[round->kind].reason = (struct pccl_bytes){NULL, 0};
    report->round_known[round->kind] = true;
    pccl_text_clear(&report->round_reason[round->kind]);
    pccl_text_add_bytes(&report->round_reason[round->kind], (const char *)round->reason.data, round->reason.length);
    return PCCL_OK;
}

void pccl_master_resume_received(struct pccl_master *m, struct pccl_remote *from, const struct pccl_msg *msg)
{
    struct pccl_report *report = from->report;
    enum pccl_status status = PCCL_OK;
    report->heard_us = m->now_us;
    PCCL_ASSERT(m->recovering);
    switch (report->ended ? 0 : msg->type) {
    case PCCL_MSG_resume: status = take_resume(m, report, &msg->as.resume); break;
    case PCCL_MSG_resume_operation: status = take_operation(m, from, &msg->as.resume_operation); break;
    case PCCL_MSG_resume_subgroup: status = take_subgroup(m, from, &msg->as.resume_subgroup); break;
    case PCCL_MSG_resume_round: status = take_round(report, &msg->as.resume_round); break;
    case PCCL_MSG_resume_end:
        report->ended = report->begun;
        status = report->begun ? PCCL_OK : PCCL_MALFORMED;
        for (uint32_t i = 0; i < msg->as.resume_end.dead_count; i++)
            pccl_master_note_edge(m, &from->id, &msg->as.resume_end.dead[i], false, PCCL_LINK_REFUSED);
        pccl_master_mark(m, PCCL_STAGE_RECOVERY);
        break;
    default: status = PCCL_MALFORMED; break;
    }
    if (status == PCCL_MEMORY)
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for its report of the run");
    else if (status != PCCL_OK)
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "its report of the run cannot be used (%s)",
                           pccl_wire_name(msg->type));
}

/* ---- who is believed ---- */

/* What the others have heard of; nobody else is here: what it has itself. */
static uint32_t inc_known_besides(const struct pccl_master *m, const struct pccl_remote *besides)
{
    bool others = false;
    uint32_t inc = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote == besides || !pccl_master_has_reported(remote))
            continue;
        others = true;
        inc = pccl_max_u32(inc, remote->report->fields.epoch.inc);
    }
    return others ? inc : besides->report->fields.epoch.inc;
}

/*
 * A report is one run of messages: nothing else is said before its end, so somebody who lives is not silent about it
 * for long. When its time is over; UINT64_MAX: it has ended.
 */
static uint64_t report_due_us(const struct pccl_master *m, const struct pccl_report *report)
{
    if (report->ended)
        return UINT64_MAX;
    return pccl_min_u64(report->since_us + m->config.alone_ms * UINT64_C(1000),
                        report->heard_us + m->config.silence_ms * UINT64_C(1000));
}

/* Who names epochs that cannot be, and who does not come to the end of a report. */
void pccl_master_expel_bad_reporters(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_RESUMING || remote->departing)
            continue;
        uint64_t due_us = report_due_us(m, remote->report);
        if (m->now_us >= due_us)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                               "it did not report in time after the restart of the master");
        else if (!remote->report->ended)
            pccl_master_arm(m, due_us);
        else if (pccl_master_highest_inc(remote->report) > inc_known_besides(m, remote) + (uint64_t)INC_AHEAD_MAX)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported an impossible epoch");
    }
}

/*
 * The member that entry k of this report names; NULL: it has not reported. What a list names twice
 * counts once.
 */
static const struct pccl_remote *named_first(const struct pccl_master *m, const struct pccl_report *report, uint32_t k)
{
    const struct pccl_remote *named = pccl_master_find(m, &report->members[k].peer);
    if (named == NULL || named->report == NULL || named->report->named_by == report)
        return NULL;
    named->report->named_by = report;
    return named;
}

static void forget_counts(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL)
            continue;
        report->confirmed = report->contradicted = 0;
        report->named_by = NULL;
    }
}

/*
 * A member that lies has the key of the run, but not the others' tokens: who comes in the name of one that has not come
 * back yet is contradicted by those who know that one. False: there was none, and the reports can be law.
 */
bool pccl_master_expel_impostors(struct pccl_master *m)
{
    enum { own_word = 1 }; /* against that of a single other: either may lie */
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        for (uint32_t k = 0; report != NULL && report->ended && k < report->fields.members_count; k++) {
            const struct pccl_remote *named = named_first(m, report, k);
            if (named == NULL || named == m->remotes[i])
                continue;
            bool same = pccl_id_equal(&report->members[k].token_digest, &named->token_digest);
            ++*(same ? &named->report->confirmed : &named->report->contradicted);
        }
    }
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL || report->contradicted <= report->confirmed + own_word || m->remotes[i]->departing)
            continue;
        any = true;
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_IDENTITY,
                           "the other members know this member by another token");
    }
    forget_counts(m);
    return any;
}

/*
 * What this report counts, and what it may count at most, as another one says it: nobody can miss the end of two
 * rounds, since the later one needs its vote. Outcomes of its group are counted on while a member is away, but never so
 * far.
 */
enum { COUNTERS = PCCL_ROUND_KINDS + 1 };

static uint64_t counter_of(const struct pccl_report *report, uint32_t counter)
{
    const struct pccl_msg_resume *fields = &report->fields;
    switch (counter) {
    case PCCL_ROUND_UPDATE: return fields->update;
    case PCCL_ROUND_PENDING: return fields->query;
    case PCCL_ROUND_OPTIMIZE: return fields->optimize;
    case PCCL_ROUND_SYNC: return fields->sync;
    default: return fields->decisions;
    }
}

/* It is ahead of all others that its epoch has as members, and they are two at least: one may be the one that lies. */
static bool counts_too_much(const struct pccl_master *m, const struct pccl_remote *remote, uint32_t counter)
{
    bool of_group = counter == PCCL_ROUND_SYNC || counter == PCCL_ROUND_KINDS;
    uint64_t ahead = counter == PCCL_ROUND_KINDS ? DECISIONS_AHEAD_MAX : 1, most = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *other = m->remotes[i];
        if (other == remote || !pccl_master_has_reported(other) ||
            pccl_master_reported_member(remote->report, &other->id) == NULL ||
            (of_group && other->group_number != remote->group_number))
            continue;
        most = pccl_max_u64(most, counter_of(other->report, counter));
        others++;
    }
    return others > 1 && counter_of(remote->report, counter) > most + ahead;
}

/* Who names rounds or outcomes that cannot be. False: there was nobody. */
bool pccl_master_expel_miscounters(struct pccl_master *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        bool too_much = false;
        for (uint32_t counter = 0; pccl_master_has_reported(remote) && counter < COUNTERS && !too_much; counter++)
            too_much = counts_too_much(m, remote, counter);
        if (too_much)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported rounds or outcomes that cannot be");
        any = any || too_much;
    }
    return any;
}

/* ---- numbers of admission ---- */

static bool has_lists_alike(const struct pccl_report *a, const struct pccl_report *b)
{
    return a->fields.members_count == b->fields.members_count &&
           memcmp(a->members, b->members, a->fields.members_count * sizeof *a->members) == 0;
}

/*
 * Whether this report counts: its sender is in the list that is law. Others may know a number that
 * ended with an admission of which its peer never heard; it was admitted anew while they were away.
 */
static bool knows_numbers(const struct pccl_report *report)
{
    return report != NULL && report->ended && report->admitted != 0;
}

/* How many reports say of each member what the law says, and how many say something else. */
static void count_numbers(const struct pccl_master *m, const struct pccl_report *law)
{
    uint32_t alike = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL)
            continue;
        report->admitted = 0;
        report->renumbered = false;
    }
    for (uint32_t k = 0; k < law->fields.members_count; k++) {
        const struct pccl_remote *named = pccl_master_find(m, &law->members[k].peer);
        if (named != NULL && named->report != NULL)
            named->report->admitted = law->members[k].admitted;
    }
    for (uint32_t i = 0; i < m->remote_count; i++)
        alike += knows_numbers(m->remotes[i]->report) && has_lists_alike(m->remotes[i]->report, law);
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->report != NULL)
            m->remotes[i]->report->confirmed = alike;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        if (!knows_numbers(report) || has_lists_alike(report, law))
            continue;
        for (uint32_t k = 0; k < report->fields.members_count; k++) {
            const struct pccl_remote *named = named_first(m, report, k);
            if (named == NULL || named->report->admitted == 0)
                continue;
            bool same = report->members[k].admitted == named->report->admitted;
            ++*(same ? &named->report->confirmed : &named->report->contradicted);
        }
    }
}

/*
 * Members and their parts are in the order of these numbers, so all must have the same. Most say
 * what is right; where as many say one thing as another, the law stands, and whoever has said
 * something else is told.
 */
bool pccl_master_expel_misnumberers(struct pccl_master *m)
{
    struct pccl_remote *best = pccl_master_highest_report(m);
    const struct pccl_report *law = best->report;
    bool any = false;
    count_numbers(m, law);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (!knows_numbers(report) || has_lists_alike(report, law))
            continue;
        for (uint32_t k = 0; k < report->fields.members_count; k++) {
            const struct pccl_remote *remote = pccl_master_find(m, &report->members[k].peer);
            const struct pccl_report *named = remote != NULL ? remote->report : NULL;
            if (named == NULL || named->admitted == 0 || report->members[k].admitted == named->admitted)
                continue;
            report->renumbered = true;
            if (named->confirmed == named->contradicted)
                continue;
            any = true;
            pccl_master_remove(m, named->confirmed > named->contradicted ? m->remotes[i] : best, PCCL_REFUSAL_PROTOCOL,
                               "it reported another number of a member's admission than most");
        }
    }
    forget_counts(m);
    return any;
}
