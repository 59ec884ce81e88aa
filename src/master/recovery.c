/*
 * Recovery by a restarted master (PROTOCOL 12), which has no state: collects the reports of the old run's members, and
 * decides nothing until all of them have reported, are proven dead, or time is up. Members that have not reported by
 * then are removed for good. Reports are checked only against each other (12.3); recovery_rebuild.c restores the run
 * from them.
 */
#include "core/ticket.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/output.h"
#include "master/recovery_internal.h"
#include "master/roster.h"
#include "master/operations.h"

#include <string.h>

/*
 * Maximum by which one report may be ahead of all others. Members can miss a few recoveries, but never hundreds, so a
 * report that is further ahead is false, and would use up the run's epochs.
 */
enum { INC_AHEAD_MAX = 64 * PCCL_INC_SPREAD };
#define DECISIONS_AHEAD_MAX (UINT64_C(1) << 32)

bool pccl_master_begin_recovery(struct pccl_master *m, const struct pccl_id *run_key)
{
    if (m->founded) { /* PROTOCOL 12.1: the older lineage wins over one that newcomers founded */
        for (uint32_t i = 0; i < m->remote_count; i++)
            pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_LINEAGE, "an older run resumed at this master");
        while (m->departing_count > 0)
            pccl_master_expel_departing(m);
        pccl_master_end_run(m);
    }
    m->claim_count = 0;
    m->founded = m->recovering = true;
    m->founded_by_newcomer = false;
    pccl_master_expect_older_run(m); /* in case all returned members disappear again */
    m->run_key = *run_key;
    m->lineage = pccl_secret_digest(run_key);
    m->recovering_since_us = m->now_us;
    pccl_master_note_run(m, &m->lineage);
    pccl_master_arm(m, m->now_us + m->config.recover_ms * UINT64_C(1000));
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.event = PCCL_EVENT_RECOVERY_BEGAN},
                    "run %s began before this master started: collecting reports from its members",
                    pccl_id_str(&m->lineage));
    return true;
}

/* ---- checks of the reports ---- */

/* Returns the highest inc in the other peers' reports or, without other reports, the inc in the peer's own report. */
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
 * Returns the time limit of a report; UINT64_MAX if it is complete. A report is an uninterrupted sequence of messages,
 * so a living peer is never silent for long before its end.
 */
static uint64_t report_due_us(const struct pccl_master *m, const struct pccl_report *report)
{
    if (report->ended)
        return UINT64_MAX;
    return pccl_min_u64(report->since_us + m->config.alone_ms * UINT64_C(1000),
                        report->received_us + m->config.silence_ms * UINT64_C(1000));
}

/* Removes the peers that report impossible epochs or do not complete their reports in time. */
static void expel_bad_reporters(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_RESUMING || remote->departing)
            continue;
        uint64_t due_us = report_due_us(m, remote->report);
        if (m->now_us >= due_us)
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "it did not report in time after the master restarted");
        else if (!remote->report->ended)
            pccl_master_arm(m, due_us);
        else if (pccl_master_highest_inc(remote->report) > inc_known_besides(m, remote) + (uint64_t)INC_AHEAD_MAX)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported an impossible epoch");
    }
}

/*
 * Returns the peer in entry k of this report. Returns NULL if it has no report, or occurred earlier in the list, so
 * that duplicates in a list count once.
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
 * Removes impostors. A lying member has the key of the run, but not the tokens of the others. So if a peer uses the id
 * of a member that has not returned, the members that know that member contradict it. Returns false if there was no
 * impostor and the reports can be used.
 */
static bool expel_impostors(struct pccl_master *m)
{
    enum { margin = 1 }; /* a single other report is not enough, because either may be false */
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
        if (report == NULL || report->contradicted <= report->confirmed + margin || m->remotes[i]->departing)
            continue;
        any = true;
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_IDENTITY,
                           "the other members report a different token for this member");
    }
    forget_counts(m);
    return any;
}

/*
 * Counters of a report. Their limits follow from the other reports: a member cannot miss the end of two rounds, because
 * the later one needs its vote. The outcomes of its group advance while a member is away, but not by that much.
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

/*
 * Returns true if a counter is ahead of the counters of all other reporting members of its epoch. Requires two of
 * these, because a single one may be the liar.
 */
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

/* Removes the peers that report impossible rounds or outcomes. Returns false if there was none. */
static bool expel_miscounters(struct pccl_master *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        bool too_much = false;
        for (uint32_t counter = 0; pccl_master_has_reported(remote) && counter < COUNTERS && !too_much; counter++)
            too_much = counts_too_much(m, remote, counter);
        if (too_much)
            pccl_master_remove(m, remote, PCCL_REFUSAL_PROTOCOL, "it reported impossible rounds or outcomes");
        any = any || too_much;
    }
    return any;
}

/* ---- admission numbers ---- */

static bool has_lists_alike(const struct pccl_report *a, const struct pccl_report *b)
{
    return a->fields.members_count == b->fields.members_count &&
           memcmp(a->members, b->members, a->fields.members_count * sizeof *a->members) == 0;
}

/*
 * Returns true if this report is evidence of admission numbers, that is, if its sender is a member in the winning
 * epoch. Others may know an admission that the admitted peer never received, and that was repeated while they were
 * away.
 */
static bool knows_numbers(const struct pccl_report *report)
{
    return report != NULL && report->ended && report->admitted != 0;
}

/* Counts, for each member, the reports that confirm and contradict its admission number in the winning epoch. */
static void count_numbers(const struct pccl_master *m, const struct pccl_report *winner)
{
    uint32_t alike = 0;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (report == NULL)
            continue;
        report->admitted = 0;
        report->renumbered = false;
    }
    for (uint32_t k = 0; k < winner->fields.members_count; k++) {
        const struct pccl_remote *named = pccl_master_find(m, &winner->members[k].peer);
        if (named != NULL && named->report != NULL)
            named->report->admitted = winner->members[k].admitted;
    }
    for (uint32_t i = 0; i < m->remote_count; i++)
        alike += knows_numbers(m->remotes[i]->report) && has_lists_alike(m->remotes[i]->report, winner);
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->report != NULL)
            m->remotes[i]->report->confirmed = alike;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_report *report = m->remotes[i]->report;
        if (!knows_numbers(report) || has_lists_alike(report, winner))
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
 * Removes the senders of wrong admission numbers. These numbers determine the order of members and parts, so all
 * members must agree. The majority decides. At a tie the winning epoch decides, and the members that reported other
 * numbers receive its list. Returns false if no peer was removed.
 */
static bool expel_misnumberers(struct pccl_master *m)
{
    struct pccl_remote *best = pccl_master_highest_report(m);
    const struct pccl_report *winner = best->report;
    bool any = false;
    count_numbers(m, winner);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_report *report = m->remotes[i]->report;
        if (!knows_numbers(report) || has_lists_alike(report, winner))
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
                               "it reported a different admission number for a member than the majority did");
        }
    }
    forget_counts(m);
    return any;
}

/* ---- completeness of the reports ---- */

/* Returns the number of members of the winning epoch that have reported. */
static uint32_t count_here(const struct pccl_master *m, const struct pccl_report *winner)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < winner->fields.members_count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &winner->members[i].peer);
        here += remote != NULL && pccl_master_has_reported(remote);
    }
    return here;
}

/*
 * Returns true if two members have failed to dial this peer. A single member is also believed, but only about one peer,
 * because it may lie about peers that reconnect later. If only one member has reported, it is always believed.
 */
static bool is_dead(const struct pccl_master *m, const struct pccl_id *id, uint32_t here)
{
    const struct pccl_id *alone = NULL;
    uint32_t witnesses = pccl_master_count_witnesses(m, id, true, &alone);
    struct pccl_remote *witness = alone != NULL ? pccl_master_find(m, alone) : NULL;
    if (witness == NULL || here == 1)
        return witnesses > 0;
    bool first = !witness->counted;
    witness->counted = true;
    return first;
}

static bool may_conclude(struct pccl_master *m, const struct pccl_report *winner)
{
    uint32_t here = count_here(m, winner), dead = 0, count = winner->fields.members_count;
    for (uint32_t i = 0; i < m->remote_count; i++)
        m->remotes[i]->counted = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &winner->members[i].peer);
        if (remote != NULL && pccl_master_has_reported(remote))
            continue;
        if (remote != NULL && remote->state == PCCL_REMOTE_PENDING)
            dead++; /* the last decision admitted it, but it never received that decision and is still a newcomer */
        else if ((remote == NULL || remote->conn == 0) && is_dead(m, &winner->members[i].peer, here))
            dead++;
    }
    uint64_t waited_us = m->now_us - m->recovering_since_us, alone_us = m->config.recover_ms * UINT64_C(250);
    /* with a single report, other members may exist that have a different state of the run */
    if (here == 1 && waited_us < alone_us) {
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

/* Returns true if newcomers wait and no member has completed a report in time. */
bool pccl_master_recovery_is_hopeless(const struct pccl_master *m)
{
    if (!m->recovering || m->newcomer_count == 0 ||
        m->now_us < m->recovering_since_us + m->config.recover_ms * UINT64_C(1000))
        return false;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (pccl_master_has_reported(m->remotes[i]))
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
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE, "no member reported in time after the master restarted");
    }
}

/* Returns true if no resuming peer is left, so that the run cannot be continued. */
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
        return; /* this stage runs again when they have been removed */
    struct pccl_remote *best = pccl_master_highest_report(m);
    if (best == NULL) {
        if (is_abandoned(m)) {
            pccl_master_end_run(m);
            pccl_master_mark(m, PCCL_STAGE_FOUNDING);
        }
        return;
    }
    if (may_conclude(m, best->report) && !expel_impostors(m) && !expel_miscounters(m) &&
        !expel_misnumberers(m)) /* it runs again when any peers have been removed */
        pccl_master_conclude_recovery(m, best->report);
}
