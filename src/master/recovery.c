/*
 * A restarted master (PROTOCOL 12): it knows nothing, collects what the members of the old run report, and decides
 * nothing until all of them have reported, or are dead by evidence, or the time for it is over. Who has not reported by
 * then is removed and never taken back.
 */
#include "core/ticket.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/newcomers.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/rounds.h"
#include "master/sync.h"
#include "master/views.h"

#include <string.h>

/*
 * Two recoveries that do not know of each other (the second with members that slept through the first, after T_alone)
 * must not make the same epoch with different contents: if both meet again, one has to be the higher. So inc takes a
 * random step.
 */
enum { INC_SPREAD = 4096 };
/*
 * What reports may name. The next epoch must exist; and members have slept through some recoveries, never through
 * hundreds: whoever is that far ahead of all others lies, and would use up the run's epochs.
 */
#define INC_MOST (UINT32_MAX - INC_SPREAD)
enum { INC_AHEAD_MAX = 256 * INC_SPREAD };
/* Numbers of rounds and outcomes, which begin at 0 and rise one by one, stay far below what would wrap. */
#define COUNTER_MOST (UINT64_MAX / 4)
#define DECISIONS_AHEAD_MAX (UINT64_C(1) << 32)

/* ---- reports ---- */

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
    pccl_release(&m->memory, report, sizeof *report);
    remote->report = NULL;
}

static bool can_be_counted(const struct pccl_msg_resume *resume)
{
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

/* What is folded or told again later must be what it says. The master before this one may have had another limit. */
static bool is_plausible(const struct pccl_msg_resume_operation *fields)
{
    if (fields->state != PCCL_RESUME_DONE && fields->state != PCCL_RESUME_COMMITTED)
        return fields->payload.length == 0;
    return pccl_master_payload_fits(&fields->descriptor, fields->tiny != 0, fields->payload.length,
                                    PCCL_TINY_BYTES_MAX);
}

static enum pccl_status take_operation(struct pccl_master *m, struct pccl_report *report,
                                       const struct pccl_msg_resume_operation *fields)
{
    uint32_t length = fields->payload.length + fields->reason.length;
    bool aborted = fields->state == PCCL_RESUME_ABORTED;
    if (!report->begun || report->op_count >= PCCL_OPS_PER_PEER_MAX + PCCL_TOMBSTONES_MAX ||
        (!aborted && report->launched_count >= PCCL_OPS_PER_PEER_MAX) || !is_plausible(fields))
        return PCCL_MALFORMED;
    struct pccl_reported_op *op = pccl_allocate(&m->memory, sizeof *op + length);
    if (op == NULL)
        return PCCL_MEMORY;
    op->fields = *fields;
    op->bytes_length = length;
    if (fields->payload.length > 0)
        memcpy(op->bytes, fields->payload.data, fields->payload.length);
    if (fields->reason.length > 0)
        memcpy(op->bytes + fields->payload.length, fields->reason.data, fields->reason.length);
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
    case PCCL_MSG_resume_operation: status = take_operation(m, report, &msg->as.resume_operation); break;
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

/* ---- beginning ---- */

bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key)
{
    if (m->founded) { /* PROTOCOL 12.1: the older lineage wins; newcomers were here first */
        for (uint32_t i = 0; i < m->remote_count; i++)
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_LINEAGE, "an older run came back to this master");
        while (m->departing_count > 0)
            pccl_master_expel_departing(m);
        pccl_master_end_run(m);
    }
    m->claim_count = 0;
    m->founded = m->recovering = true;
    m->founded_by_newcomer = m->older_run_expected = false;
    m->run_key = *run_key;
    m->lineage = pccl_secret_digest(run_key);
    m->recovering_since_us = m->now_us;
    pccl_master_arm(m, m->now_us + m->config.recover_ms * UINT64_C(1000));
    pccl_master_log(m, PCCL_LOG_INFO, NULL, "run %s is older than this master: collecting reports from its members",
                    pccl_id_str(&m->lineage));
    return true;
}

/* ---- who is law, and who is missing ---- */

static bool has_reported(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_RESUMING && !remote->departing && remote->report != NULL &&
           remote->report->ended;
}

/* Of all epochs that this report names: an answered round may be of a later one than its sender has heard of. */
static uint32_t highest_inc(const struct pccl_report *report)
{
    uint32_t inc = report->fields.epoch.inc;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (report->round_known[kind])
            inc = pccl_max_u32(inc, report->rounds[kind].attributes.epoch.inc);
    return inc;
}

/* What the others have heard of; nobody else is here: what it has itself. */
static uint32_t inc_known_besides(const struct pccl_master *m, const struct pccl_remote *besides)
{
    bool others = false;
    uint32_t inc = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote == besides || !has_reported(remote))
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
static void expel_bad_reporters(struct pccl_master *m)
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
        else if (highest_inc(remote->report) > inc_known_besides(m, remote) + (uint64_t)INC_AHEAD_MAX)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported an impossible epoch");
    }
}

/* Nobody who resumes comes to the end of a report, though all had the time for it, and newcomers wait. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m)
{
    if (!m->recovering || m->newcomer_count == 0 ||
        m->now_us < m->recovering_since_us + m->config.recover_ms * UINT64_C(1000))
        return false;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (has_reported(m->remotes[i]))
            return false;
    return true;
}

static void expel_if_hopeless(struct pccl_master *m)
{
    if (!pccl_master_recovery_is_hopeless(m))
        return;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state == PCCL_REMOTE_RESUMING)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                               "no member reported in time after the restart of the master");
    }
}

static struct pccl_remote *highest_report(const struct pccl_master *m)
{
    struct pccl_remote *best = NULL;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (has_reported(remote) &&
            (best == NULL || pccl_epoch_compare(&remote->report->fields.epoch, &best->report->fields.epoch) > 0))
            best = remote;
    }
    return best;
}

/*
 * A member that lies has the key of the run, but not the others' tokens: who comes in the name of one that has not come
 * back yet is contradicted by those who know that one. False: there was none, and the reports can be law.
 */
static bool expel_impostors(struct pccl_master *m)
{
    enum { own_word = 1 }; /* against that of a single other: either may lie */
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        for (uint32_t k = 0; report != NULL && report->ended && k < report->fields.members_count; k++) {
            const struct pccl_member *member = &report->members[k];
            const struct pccl_remote *named = pccl_master_find(m, &member->peer);
            if (named == NULL || named->report == NULL || named == m->remotes[i])
                continue;
            bool same = pccl_id_equal(&member->token_digest, &named->token_digest);
            ++*(same ? &named->report->confirmed : &named->report->contradicted);
        }
    }
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL)
            continue;
        if (report->contradicted > report->confirmed + own_word && !m->remotes[i]->departing) {
            any = true;
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_IDENTITY,
                               "the other members know this member by another token");
        }
        report->confirmed = report->contradicted = 0;
    }
    return any;
}

/* NULL: this report has no such member. */
static const struct pccl_member *member_of(const struct pccl_report *report, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < report->fields.members_count; i++)
        if (pccl_id_equal(&report->members[i].peer, id))
            return &report->members[i];
    return NULL;
}

bool pccl_master_is_law_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_id *of)
{
    const struct pccl_remote *best = highest_report(m);
    if (best == NULL || !has_reported(remote) ||
        !pccl_epoch_equal(&remote->report->fields.epoch, &best->report->fields.epoch))
        return false;
    const struct pccl_member *member = member_of(best->report, &remote->id), *other = member_of(best->report, of);
    return member != NULL && other != NULL && member->group == other->group;
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
        if (other == remote || !has_reported(other) || member_of(remote->report, &other->id) == NULL ||
            (of_group && other->group_number != remote->group_number))
            continue;
        most = pccl_max_u64(most, counter_of(other->report, counter));
        others++;
    }
    return others > 1 && counter_of(remote->report, counter) > most + ahead;
}

/* Who names rounds or outcomes that cannot be. False: there was nobody. */
static bool expel_miscounters(struct pccl_master *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        bool too_much = false;
        for (uint32_t counter = 0; has_reported(remote) && counter < COUNTERS && !too_much; counter++)
            too_much = counts_too_much(m, remote, counter);
        if (too_much)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported rounds or outcomes that cannot be");
        any = any || too_much;
    }
    return any;
}

static bool may_conclude(struct pccl_master *m, const struct pccl_report *law)
{
    uint32_t here = 0, dead = 0, count = law->fields.members_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &law->members[i].peer);
        if (remote != NULL && has_reported(remote))
            here++;
        else if (remote != NULL && remote->state == PCCL_REMOTE_PENDING)
            dead++; /* admitted by the last decision, but it never heard of it: a newcomer still */
        else if ((remote == NULL || remote->conn == 0) && pccl_master_is_dead(m, &law->members[i].peer))
            dead++;
    }
    uint64_t waited_us = m->now_us - m->recovering_since_us, alone_us = m->config.recover_ms * UINT64_C(250);
    if (here == 1 && waited_us < alone_us) { /* its word alone: there may be others, whose run is another */
        pccl_master_arm(m, m->recovering_since_us + alone_us);
        return false;
    }
    if (here + dead == count)
        return true;
    if (waited_us >= m->config.recover_ms * UINT64_C(1000) && 2 * here > count)
        return true;
    if (waited_us >= m->config.alone_ms * UINT64_C(1000))
        return true;
    pccl_master_arm(m,
                    m->recovering_since_us + (waited_us < m->config.recover_ms * UINT64_C(1000) ? m->config.recover_ms
                                                                                                : m->config.alone_ms) *
                                                 UINT64_C(1000));
    return false;
}

/* ---- rebuilding ---- */

/* The report of this group with the highest view: its ring and view count. */
static const struct pccl_report *highest_of_group(const struct pccl_master *m, uint32_t number)
{
    const struct pccl_report *best = NULL;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (has_reported(remote) && remote->group_number == number &&
            (best == NULL || pccl_epoch_compare(&remote->report->fields.view, &best->fields.view) > 0))
            best = remote->report;
    }
    return best;
}

/* Who reported but is not in the list of the highest epoch was removed before the master restarted. */
static void expel_removed(struct pccl_master *m, const struct pccl_report *law)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_RESUMING)
            continue;
        if (member_of(law, &remote->id) == NULL)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "it was removed from the run before the master restarted");
        else if (!has_reported(remote))
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                               "it did not report in time after the restart of the master");
    }
}

/*
 * The members of one group in the order of its ring; `changed` when anything differs from what some member knows. Who
 * is alone may have launched something nevertheless, if it had heard of a later epoch: that ends by a view.
 */
static bool rebuild_group(struct pccl_master *m, const struct pccl_report *best, uint32_t number)
{
    struct pccl_peer_group *group = pccl_master_group(m, number, true);
    if (group == NULL)
        return false;
    group->view = best->fields.view;
    group->cost = best->fields.cost;
    group->old_ring_count = best->fields.ring_count;
    for (uint32_t i = 0; i < best->fields.ring_count; i++) {
        struct pccl_remote *remote = pccl_master_find(m, &best->ring[i]);
        if (remote != NULL && has_reported(remote) && remote->group_number == number &&
            !pccl_master_join_ring(m, group, remote))
            return false;
    }
    group->changed = group->ring_count != best->fields.ring_count || group->ring_count < 2;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_report *report = group->ring[i]->report;
        group->changed = group->changed || !pccl_epoch_equal(&report->fields.view, &best->fields.view);
        group->decisions = pccl_max_u64(group->decisions, report->fields.decisions);
        group->revision = pccl_max_u64(group->revision, report->fields.revision);
        group->sync = pccl_max_u64(group->sync, report->fields.sync);
    }
    return true;
}

static bool rebuild_groups(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        const struct pccl_report *best = has_reported(remote) ? highest_of_group(m, remote->group_number) : NULL;
        if (best != NULL && pccl_master_group(m, remote->group_number, false) == NULL &&
            !rebuild_group(m, best, remote->group_number))
            return false;
    }
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_RESUMING)
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_PROTOCOL, "it is not in the ring of its group");
    return true;
}

static void rebuild_rounds(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL || !report->ended)
            continue;
        m->rounds[PCCL_ROUND_UPDATE] = pccl_max_u64(m->rounds[PCCL_ROUND_UPDATE], report->fields.update);
        m->rounds[PCCL_ROUND_PENDING] = pccl_max_u64(m->rounds[PCCL_ROUND_PENDING], report->fields.query);
        m->rounds[PCCL_ROUND_OPTIMIZE] = pccl_max_u64(m->rounds[PCCL_ROUND_OPTIMIZE], report->fields.optimize);
    }
}

static uint32_t group_size(const struct pccl_report *report, uint32_t number)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < report->fields.members_count; i++)
        size += report->members[i].group == number;
    return size;
}

/* The attributes as of this report. Its list is sorted by group, as its sender keeps it; if not, nothing breaks. */
static struct pccl_attributes attributes_of(const struct pccl_report *report, uint32_t number)
{
    struct pccl_attributes attributes = {.epoch = report->fields.epoch,
                                         .world = report->fields.members_count,
                                         .group_world = group_size(report, number)};
    for (uint32_t i = 0, start = 0; i < report->fields.members_count; i++) {
        if (report->members[i].group != report->members[start].group)
            start = i;
        attributes.groups += i == start;
        if (i - start + 1 > attributes.largest_group)
            attributes.largest_group = i - start + 1;
    }
    return attributes;
}

/* What this peer reports of the last round of this kind, which is one of this group if it is a group's affair; or NULL.
 */
static const struct pccl_msg_resume_round *reported_by(const struct pccl_master *m, const struct pccl_remote *remote,
                                                       const struct pccl_peer_group *group, uint32_t kind)
{
    const struct pccl_report *report = remote->report;
    uint64_t open = kind == PCCL_ROUND_SYNC ? group->sync : m->rounds[kind];
    if (report == NULL || !report->ended || !report->round_known[kind] || report->rounds[kind].round + 1 != open ||
        (kind == PCCL_ROUND_SYNC && remote->group_number != group->number))
        return NULL;
    return &report->rounds[kind];
}

/*
 * What the last round of a kind answered to this group: as one of the group reports it; or as another group reports it,
 * with the size of this group from a list of that epoch; or, when nobody knows, as of the highest epoch.
 */
static struct pccl_attributes answer_for(const struct pccl_master *m, const struct pccl_report *law,
                                         const struct pccl_peer_group *group, uint32_t kind)
{
    uint32_t number = group->number;
    struct pccl_attributes answer = attributes_of(law, number);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_msg_resume_round *round = reported_by(m, m->remotes[i], group, kind);
        if (round == NULL)
            continue;
        const struct pccl_attributes *told = &round->attributes;
        if (m->remotes[i]->group_number == number)
            return *told;
        for (uint32_t k = 0; k < m->remote_count; k++) {
            const struct pccl_report *list = m->remotes[k]->report;
            if (list != NULL && list->ended && pccl_epoch_equal(&list->fields.epoch, &told->epoch))
                answer = attributes_of(list, number);
        }
    }
    return answer;
}

/* How the last optimization of its group ended. */
static void rebuild_optimization(struct pccl_master *m, const struct pccl_remote *remote)
{
    struct pccl_peer_group *group = remote->group;
    const struct pccl_msg_resume_round *round =
        group != NULL ? reported_by(m, remote, group, PCCL_ROUND_OPTIMIZE) : NULL;
    if (round == NULL)
        return;
    group->optimize_outcome = round->outcome;
    group->optimize_reason = remote->report->round_reason[PCCL_ROUND_OPTIMIZE];
}

static void rebuild_answers(struct pccl_master *m, const struct pccl_report *law)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
            m->groups[i]->last_attributes[kind] = answer_for(m, law, m->groups[i], kind);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        for (uint32_t kind = 0; report != NULL && report->ended && kind < PCCL_ROUND_SYNC; kind++)
            if (report->round_known[kind] && report->rounds[kind].round + 1 == m->rounds[kind])
                m->last_outcome[kind] = report->rounds[kind].outcome;
        rebuild_optimization(m, m->remotes[i]);
        struct pccl_peer_group *group = m->remotes[i]->group;
        const struct pccl_msg_resume_round *round =
            group != NULL ? reported_by(m, m->remotes[i], group, PCCL_ROUND_SYNC) : NULL;
        if (round == NULL || report == NULL)
            continue;
        group->sync_outcome = round->outcome;
        group->sync_revision = round->revision;
        group->sync_reason = report->round_reason[PCCL_ROUND_SYNC];
    }
}

/*
 * A member that has not heard how a round ended is an era behind: it must know before it hears of outcomes of the new
 * era. It had voted, or the round could not have been decided.
 */
static void tell_missed_rounds(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote))
            continue;
        if (remote->report->fields.update < m->rounds[PCCL_ROUND_UPDATE])
            pccl_master_answer_round(m, remote, PCCL_ROUND_UPDATE);
        if (remote->report->fields.optimize < m->rounds[PCCL_ROUND_OPTIMIZE])
            pccl_master_answer_round(m, remote, PCCL_ROUND_OPTIMIZE);
        if (remote->report->fields.query < m->rounds[PCCL_ROUND_PENDING])
            pccl_master_answer_round(m, remote, PCCL_ROUND_PENDING);
        if (remote->report->fields.sync < remote->group->sync)
            pccl_master_answer_sync(m, remote);
    }
}

/* ---- operations: PROTOCOL 12.4 ---- */

static void merge_outcome(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                          const struct pccl_msg_resume_operation *fields)
{
    bool committed = fields->state == PCCL_RESUME_COMMITTED;
    enum pccl_class class = committed ? PCCL_CLASS_NONE : (enum pccl_class)fields->class;
    if (!committed && class == PCCL_CLASS_NONE)
        class = PCCL_CLASS_PEER_LOST;
    if (op->decided) {
        if (op->class != class)
            pccl_master_log(m, PCCL_LOG_ERROR,
                            &(struct pccl_log_fields){.has_operation = true,
                                                      .group = op->instance.group,
                                                      .tag = op->instance.tag,
                                                      .use = op->instance.use},
                            "reports disagree on tag %" PRIu64 " use %u", op->instance.tag, op->instance.use);
        else
            pccl_master_confirm_end(m, from, op);
        return;
    }
    if (!committed)
        pccl_master_note_lone_abort(from, op);
    if (committed && fields->tiny) {
        op->result = pccl_allocate(&m->memory, fields->payload.length);
        if (op->result == NULL) { /* its caller has it; whoever stays must not see another outcome */
            pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory for a result that it reports");
            return;
        }
        memcpy(op->result, fields->payload.data, fields->payload.length);
        op->payload_bytes = fields->payload.length;
    }
    op->decided = true; /* announced later, in one order for all */
    op->class = class;
    op->tiny = fields->tiny != 0;
    op->world = fields->world;
    pccl_text_clear(&op->reason);
    if (fields->reason.length > 0)
        pccl_text_add_bytes(&op->reason, (const char *)fields->reason.data, fields->reason.length);
}

static void merge_part(struct pccl_master *m, struct pccl_operation *op, struct pccl_remote *from,
                       const struct pccl_msg_resume_operation *fields)
{
    if (op->decided || !pccl_epoch_equal(&fields->view, &from->group->view))
        return;
    struct pccl_msg_done done = {.instance = fields->instance,
                                 .view = fields->view,
                                 .descriptor = fields->descriptor,
                                 .tiny = fields->tiny,
                                 .payload = fields->payload};
    if (op->parts != NULL &&
        (!pccl_descriptor_equal(&op->descriptor, &done.descriptor) || op->payload_bytes != done.payload.length))
        return; /* it says DONE again after the recovery, and the mismatch is found then */
    pccl_master_take_part(m, op, from, &done);
}

/*
 * Somebody reports this operation as committed, and to this peer it is unfinished: only a view without it can have made
 * that commit (6.2), and the master before us crashed before it had told that view.
 */
static void expel_if_left_out(struct pccl_master *m, struct pccl_remote *remote, const struct pccl_operation *op)
{
    if (op != NULL && op->decided && op->class == PCCL_CLASS_NONE)
        pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                           "an operation was committed without it before the master restarted");
}

static void merge_reports(struct pccl_master *m, bool outcomes)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->group == NULL || remote->report == NULL)
            continue;
        for (const struct pccl_reported_op *reported = remote->report->ops; reported != NULL;
             reported = reported->next) {
            const struct pccl_instance *instance = &reported->fields.instance;
            bool is_outcome =
                reported->fields.state == PCCL_RESUME_COMMITTED || reported->fields.state == PCCL_RESUME_ABORTED;
            bool current = instance->group == remote->group_number && instance->joint == pccl_master_joint(m) &&
                           instance->sync == remote->group->sync;
            bool running = reported->fields.state == PCCL_RESUME_RUNNING;
            if (!current || is_outcome != outcomes)
                continue;
            struct pccl_operation *op = pccl_master_operation(m, remote->group, instance, !running);
            if (op != NULL && op->decided && !is_outcome) /* it has launched this one */
                pccl_master_confirm_end(m, remote, op);
            if (running) {
                expel_if_left_out(m, remote, op);
                continue;
            }
            if (op == NULL)
                pccl_master_remove(m, remote, PCCL_REFUSAL_FULL, "out of memory");
            else if (is_outcome)
                merge_outcome(m, op, remote, &reported->fields);
            else
                merge_part(m, op, remote, &reported->fields);
        }
    }
}

/*
 * All members of the old view are needed. One who is missing may know another outcome of a bulk operation; and if this
 * master dies between this commit and the view without the missing, a later one would hear both.
 */
static bool is_finished(const struct pccl_peer_group *group, const struct pccl_operation *op)
{
    return op->parts != NULL && op->done_count == group->ring_count && group->ring_count == group->old_ring_count;
}

static void announce(struct pccl_master *m, struct pccl_peer_group *group)
{
    PCCL_ASSERT(!m->recovering);
    for (struct pccl_operation *op = group->oldest, *last = group->newest, *next; op != NULL; op = next) {
        next = op == last ? NULL : op->newer;
        if (op->decided) {
            op->decided = false; /* decide anew: the outcome is the reported one, the number is this boot's */
            if (op->class == PCCL_CLASS_NONE) {
                pccl_master_commit(m, group, op);
            } else {
                struct pccl_text reason = op->reason;
                pccl_master_abort(m, group, op, op->class, &reason);
            }
        } else if (is_finished(group, op)) {
            pccl_master_commit(m, group, op);
        }
    }
}

/* ---- telling ---- */

static void tell_recovered(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (!pccl_master_is_living_member(remote))
            continue;
        struct pccl_msg msg = {.type = PCCL_MSG_recovered, .as.recovered = {.decisions = remote->group->decisions}};
        pccl_master_send(m, remote, &msg, 0);
    }
}

static void free_reports(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        pccl_master_free_report(m, m->remotes[i]);
}

static uint32_t next_inc(struct pccl_master *m, uint32_t highest)
{
    return highest + 1 + (uint32_t)pccl_prng_below(&m->prng, INC_SPREAD);
}

static void conclude(struct pccl_master *m, struct pccl_report *law)
{
    PCCL_ASSERT(m->recovering && m->departing_count == 0 && m->member_count == 0);
    struct pccl_epoch law_epoch = law->fields.epoch;
    uint32_t law_count = law->fields.members_count, highest = law_epoch.inc;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (has_reported(m->remotes[i]))
            highest = pccl_max_u32(highest, highest_inc(m->remotes[i]->report));
    m->recovering = false;
    m->epoch = law_epoch;
    expel_removed(m, law);
    rebuild_rounds(m);
    bool rebuilt = rebuild_groups(m);
    for (uint32_t i = 0; !rebuilt && i < m->remote_count; i++)
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_FULL, "the master is out of memory");
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t k = 0; k < m->groups[i]->ring_count; k++)
            m->groups[i]->ring[k]->decision_known = m->groups[i]->ring[k]->report->fields.decisions;
    for (uint32_t i = 0; i < m->group_count; i++) /* before the reports: their outcomes have no number yet */
        pccl_master_advance_stable(m, m->groups[i]);
    merge_reports(m, true);
    merge_reports(m, false);
    pccl_master_judge_lone_aborts(m);
    rebuild_answers(m, law);
    tell_missed_rounds(m);
    for (uint32_t i = 0; i < m->group_count; i++)
        announce(m, m->groups[i]);
    pccl_master_recovery_epoch(m, &law_epoch, next_inc(m, highest), m->member_count == law_count);
    tell_recovered(m);
    pccl_master_log(m, PCCL_LOG_INFO, NULL, "run %s goes on: %u of %u members", pccl_id_str(&m->lineage),
                    m->member_count, law_count);
    free_reports(m);
}

/* Everybody who could resume is gone again: nothing is left of the run. */
static bool is_abandoned(const struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_RESUMING)
            return false;
    return true;
}

void pccl_master_decide_recovery(struct pccl_master *m)
{
    PCCL_ASSERT(m->departing_count == 0);
    if (!m->recovering || m->shut)
        return;
    expel_bad_reporters(m);
    expel_if_hopeless(m);
    if (m->departing_count > 0)
        return; /* again when they are gone */
    struct pccl_remote *best = highest_report(m);
    if (best == NULL) {
        if (is_abandoned(m)) {
            pccl_master_end_run(m);
            pccl_master_mark(m, PCCL_STAGE_FOUNDING);
        }
        return;
    }
    if (may_conclude(m, best->report) && !expel_impostors(m) && !expel_miscounters(m)) /* again when they are gone */
        conclude(m, best->report);
}
