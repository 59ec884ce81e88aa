/*
 * A restarted master (PROTOCOL 12): it knows nothing, collects what the members of the old run report, and decides
 * nothing until all of them have reported, or are dead by evidence, or the time for it is over. Who has not reported by
 * then is removed and never taken back. The order of the steps is here, and nothing of what one of them does.
 */
#include "core/ticket.h"
#include "master/links.h"
#include "master/membership.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "master/subgroups.h"
#include "master/views.h"

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
    m->founded_by_newcomer = false;
    pccl_master_expect_older_run(m); /* also if all who have come back are gone again */
    m->run_key = *run_key;
    m->lineage = pccl_secret_digest(run_key);
    m->recovering_since_us = m->now_us;
    pccl_master_note_run(m, &m->lineage);
    pccl_master_arm(m, m->now_us + m->config.recover_ms * UINT64_C(1000));
    pccl_master_log(m, PCCL_LOG_INFO, NULL, "run %s is older than this master: collecting reports from its members",
                    pccl_id_str(&m->lineage));
    return true;
}

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
    return highest + 1 + (uint32_t)pccl_prng_below(&m->prng, PCCL_INC_SPREAD);
}

static void conclude(struct pccl_master *m, struct pccl_report *law)
{
    PCCL_ASSERT(m->recovering && m->departing_count == 0 && m->member_count == 0);
    struct pccl_epoch law_epoch = law->fields.epoch;
    uint32_t law_count = law->fields.members_count, highest = law_epoch.inc;
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (pccl_master_has_reported(m->remotes[i]))
            highest = pccl_max_u32(highest, pccl_master_highest_inc(m->remotes[i]->report));
    m->recovering = false;
    m->found_us = 0;
    m->epoch = law_epoch;
    pccl_master_expel_removed(m, law);
    pccl_master_rebuild_rounds(m);
    bool rebuilt = pccl_master_rebuild_groups(m);
    for (uint32_t i = 0; !rebuilt && i < m->remote_count; i++)
        pccl_master_remove(m, m->remotes[i], PCCL_REFUSAL_FULL, "the master is out of memory");
    for (uint32_t i = 0; i < m->group_count; i++)
        for (uint32_t k = 0; k < m->groups[i]->ring_count; k++)
            m->groups[i]->ring[k]->decision_known = m->groups[i]->ring[k]->decision_told =
                m->groups[i]->ring[k]->report->fields.decisions;
    for (uint32_t i = 0; i < m->group_count; i++) /* before the reports: their outcomes have no number yet */
        pccl_master_advance_stable(m, m->groups[i]);
    pccl_master_rebuild_subgroups(m);
    pccl_master_merge_reports(m, true);
    pccl_master_merge_reports(m, false);
    pccl_master_judge_lone_aborts(m);
    pccl_master_rebuild_answers(m, law);
    pccl_master_tell_missed_rounds(m);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_announce_reported(m, m->groups[i]);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_judge_reported_subgroups(m, m->groups[i]);
    pccl_master_recovery_epoch(m, &law_epoch, next_inc(m, highest), m->member_count == law_count);
    for (uint32_t i = 0; i < m->group_count; i++)
        pccl_master_request_subgroup_links(m, m->groups[i]);
    tell_recovered(m);
    pccl_master_log(m, PCCL_LOG_INFO, NULL, "run %s goes on: %u of %u members", pccl_id_str(&m->lineage),
                    m->member_count, law_count);
    free_reports(m);
}

/* Returns how many members of the winning epoch have reported. */
static uint32_t count_here(const struct pccl_master *m, const struct pccl_report *law)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < law->fields.members_count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &law->members[i].peer);
        here += remote != NULL && pccl_master_has_reported(remote);
    }
    return here;
}

/*
 * Returns true if two members failed to dial this peer; or if one did that has not been believed alone about another
 * peer yet, because it may lie about peers that reconnect later. A sole member that has reported is always believed.
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

static bool may_conclude(struct pccl_master *m, const struct pccl_report *law)
{
    uint32_t here = count_here(m, law), dead = 0, count = law->fields.members_count;
    for (uint32_t i = 0; i < m->remote_count; i++)
        m->remotes[i]->counted = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &law->members[i].peer);
        if (remote != NULL && pccl_master_has_reported(remote))
            continue;
        if (remote != NULL && remote->state == PCCL_REMOTE_PENDING)
            dead++; /* admitted by the last decision, but it never heard of it: a newcomer still */
        else if ((remote == NULL || remote->conn == 0) && is_dead(m, &law->members[i].peer, here))
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

/* Nobody who resumes comes to the end of a report, though all had the time for it, and newcomers wait. */
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
            pccl_master_remove(m, remote, PCCL_REFUSAL_GONE,
                               "no member reported in time after the restart of the master");
    }
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
    pccl_master_expel_bad_reporters(m);
    expel_if_hopeless(m);
    if (m->departing_count > 0)
        return; /* again when they are gone */
    struct pccl_remote *best = pccl_master_highest_report(m);
    if (best == NULL) {
        if (is_abandoned(m)) {
            pccl_master_end_run(m);
            pccl_master_mark(m, PCCL_STAGE_FOUNDING);
        }
        return;
    }
    if (may_conclude(m, best->report) && !pccl_master_expel_impostors(m) && !pccl_master_expel_miscounters(m) &&
        !pccl_master_expel_misnumberers(m)) /* again when they are gone */
        conclude(m, best->report);
}
