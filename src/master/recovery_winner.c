/*
 * Contents of reports, and the winning epoch after a restart of the master (PROTOCOL 12.3), which is the highest one.
 */
#include "master/recovery_internal.h"

bool pccl_master_has_reported(const struct pccl_remote *remote)
{
    return remote->state == PCCL_REMOTE_RESUMING && !remote->departing && remote->report != NULL &&
           remote->report->ended;
}

uint32_t pccl_master_highest_inc(const struct pccl_report *report)
{
    uint32_t inc = report->fields.epoch.inc;
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (report->round_known[kind])
            inc = pccl_max_u32(inc, report->rounds[kind].attributes.epoch.inc);
    return inc;
}

const struct pccl_member *pccl_master_reported_member(const struct pccl_report *report, const struct pccl_id *id)
{
    for (uint32_t i = 0; i < report->fields.members_count; i++)
        if (pccl_id_equal(&report->members[i].peer, id))
            return &report->members[i];
    return NULL;
}

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

bool pccl_master_is_winning_reporter(const struct pccl_master *m, const struct pccl_remote *remote,
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
