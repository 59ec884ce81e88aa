/*
 * Which report is law after a restart of the master, and when it may be: not before all its members have reported or
 * are dead by evidence, or the time for them has passed (PROTOCOL 12.3). It reads reports, and does not know what is
 * rebuilt from them.
 */
#include "master/links.h"
#include "master/membership.h"
#include "master/output.h"
#include "master/recovery.h"

struct pccl_remote *pccl_master_highest_report(const struct pccl_master *m)
{
    struct pccl_remote *best = NULL;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (pccl_master_has_reported(remote) &&
            (best == NULL || pccl_epoch_compare(&remote->report->fields.epoch, &best->report->fields.epoch) > 0))
            best = remote;
    }
    return best;
}

bool pccl_master_is_law_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
                                 const struct pccl_id *of)
{
    const struct pccl_remote *best = pccl_master_highest_report(m);
    if (best == NULL || !pccl_master_has_reported(remote) ||
        !pccl_epoch_equal(&remote->report->fields.epoch, &best->report->fields.epoch))
        return false;
    const struct pccl_member *member = pccl_master_reported_member(best->report, &remote->id),
                             *other = pccl_master_reported_member(best->report, of);
    return member != NULL && other != NULL && member->group == other->group;
}

bool pccl_master_may_conclude(struct pccl_master *m, const struct pccl_report *law)
{
    uint32_t here = 0, dead = 0, count = law->fields.members_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct pccl_remote *remote = pccl_master_find(m, &law->members[i].peer);
        if (remote != NULL && pccl_master_has_reported(remote))
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

void pccl_master_expel_if_hopeless(struct pccl_master *m)
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
