#include "master/replans.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/roster.h"
#include "master/topology.h"
#include "master/views.h"

enum {
    PAUSE_US = 30000000,      /* from one to the next in a group, whatever the verdicts are */
    GAIN_US_LEAST = 1000000,  /* and a quarter of what beginning again takes: figures of links are not exact */
    REPORT_US_MOST = 3000000, /* the age of a report of what is under way */
};

/* Its callers hold nothing, and whatever others have under way ends without it. */
static bool is_in_quiet_call(const struct pccl_remote *remote)
{
    return remote->votes[PCCL_ROUND_UPDATE] || remote->votes[PCCL_ROUND_OPTIMIZE] || remote->sync_part != NULL;
}

bool pccl_master_may_replan(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    bool may = !m->recovering && !m->optimizing && m->departing_count == 0 && group->held_count == 0 &&
               group->ring_count > 2 && pccl_master_is_view_known(group);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        const struct pccl_remote *remote = group->ring[i];
        may = may && remote->conn != 0 && !remote->unwelcomed && !is_in_quiet_call(remote);
    }
    return may;
}

void pccl_master_replan(struct pccl_master *m, struct pccl_peer_group *group, const struct pccl_text *why)
{
    PCCL_ASSERT(group->changed && pccl_master_may_replan(m, group));
    group->replans = true;
    group->tuning.replanned_us = m->now_us;
    pccl_master_next_epoch(m, NULL, 0, NULL, 0, why);
}

/* ---- does it pay? ---- */

/* What a member that sends along the ring reported last; NULL: nothing lately. */
static const struct pccl_witness *fresh_witness(const struct pccl_master *m, const struct pccl_remote *from)
{
    const struct pccl_witness *witness = from->witness;
    return witness != NULL && m->now_us < witness->heard_us + REPORT_US_MOST ? witness : NULL;
}

/* Of the sender of a slow link that the ring uses; NULL: none has something under way. */
static const struct pccl_witness *find_delayed(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    const struct pccl_witness *delayed = NULL;
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_at(&group->verdicts, n)) != NULL; n++) {
        if (entry->left_version != group->ring_version)
            continue;
        const struct pccl_remote *one = pccl_master_find(m, &entry->peer), *other = pccl_master_find(m, &entry->other);
        if (one == NULL || other == NULL)
            continue;
        /* a verdict may take the one direction for the other */
        const struct pccl_witness *witness = fresh_witness(m, pccl_master_are_neighbors(one, other) ? one : other);
        if (witness != NULL && witness->ring_left > (delayed != NULL ? delayed->ring_left : 0))
            delayed = witness;
    }
    return delayed;
}

/* Of no more bytes than a report counts (verdicts.c), which fit. */
static uint64_t time_us(uint64_t bytes, uint64_t rate)
{
    rate = pccl_max_u64(rate, 1024);
    return bytes / rate * 1000000 + bytes % rate * 1000000 / rate;
}

/* What is left takes longer along this ring than all of it along the other one. */
static bool pays(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_ring_worth was, is;
    const struct pccl_witness *delayed = find_delayed(m, group);
    if (delayed == NULL || !pccl_master_weigh_better_ring(m, group, &was, &is))
        return false;
    uint64_t stay_us = time_us(delayed->ring_left, was.slowest), anew_us = time_us(delayed->ring_bytes, is.slowest);
    if (stay_us < anew_us + anew_us / 4 + GAIN_US_LEAST)
        return false;
    pccl_master_log(m, PCCL_LOG_INFO, NULL,
                    "what is under way in group %u begins again along a better ring, which takes about %s; what is "
                    "left of it would take %s",
                    group->number, pccl_duration_str(anew_us), pccl_duration_str(stay_us));
    return true;
}

void pccl_master_replan_if_it_pays(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text why;
    uint64_t last_us = group->tuning.replanned_us;
    if (!group->tuning.replans || (last_us != 0 && m->now_us < last_us + PAUSE_US) ||
        !pccl_master_may_replan(m, group) || !pccl_master_ring_is_ready(m, group) || !pays(m, group))
        return;
    if (pccl_master_adopt_ring(m, group, &why))
        pccl_master_replan(m, group, &why);
}
