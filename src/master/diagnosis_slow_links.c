/*
 * What is done about slow links (PROTOCOL 9.12): a better ring is searched for, and taken at the next quiet round, or
 * at once by a view that only re-plans (5.4), if what is under way gains enough by it.
 */
#include "master/diagnosis_internal.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"
#include "master/topology.h"

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

/* ---- does it pay to replan? ---- */

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

/* A better ring is ready, without a link that is slow: the group gets it if what is under way gains enough by it. */
static void replan_if_it_pays(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_text why;
    uint64_t last_us = group->tuning.replanned_us;
    if (!group->tuning.replans || (last_us != 0 && m->now_us < last_us + PAUSE_US) ||
        !pccl_master_may_replan(m, group) || !pccl_master_ring_is_ready(m, group) || !pays(m, group))
        return;
    if (pccl_master_adopt_ring(m, group, &why))
        pccl_master_replan(m, group, &why);
}

/* ---- leaving links ---- */

/* Both ends, if the ring uses this direction or the opposite one; else false. */
static bool is_in_ring(const struct pccl_master *m, const struct pccl_verdict_entry *entry, struct pccl_remote **from,
                       struct pccl_remote **to)
{
    *from = pccl_master_find(m, &entry->peer);
    *to = pccl_master_find(m, &entry->other);
    return *from != NULL && *to != NULL &&
           (pccl_master_are_neighbors(*from, *to) || pccl_master_are_neighbors(*to, *from));
}

static bool can_be_searched(const struct pccl_peer_group *group)
{
    return group->ring_count > 2 && group->ring_count <= PCCL_OPTIMIZE_PEERS_MAX;
}

/* What was known before it was judged for the first time is kept. */
static void note_direction(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                           uint64_t rate, struct pccl_figure *known)
{
    struct pccl_figure *figure = pccl_master_find_figure(from, to);
    PCCL_ASSERT(figure != NULL);
    if (!figure->judged)
        *known = *figure;
    if (figure->source == PCCL_FIGURE_TRAFFIC && figure->rate <= rate)
        return;
    pccl_master_note_traffic(m, from, to, 0, rate);
    figure->judged = true;
}

/*
 * Notes what the evidence says of the link; if the ring uses the opposite direction, of both, because a verdict may
 * take the one for the other. Where no optimization has tested the other links, they count as what is usual, until
 * operations show what they carry. false: out of memory.
 */
static bool note_rate(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_verdict_entry *entry,
                      const struct pccl_remote *from, const struct pccl_remote *to)
{
    struct pccl_tuning *tuning = &group->tuning;
    if (pccl_master_find_figure(to, from) == NULL && !pccl_matrix_reserve(&group->matrix, group->place_count))
        return false;
    if (!tuning->known)
        tuning->assumed_rate = entry->usual_rate;
    note_direction(m, from, to, entry->rate, &entry->left_known[0]);
    if (pccl_master_are_neighbors(to, from))
        note_direction(m, to, from, entry->rate, &entry->left_known[1]);
    return true;
}

/*
 * Once for each verdict and ring: whatever came of the search, the same one again would find the same. One that is
 * under way has begun without this link's rate.
 */
static void leave(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_verdict_entry *entry)
{
    struct pccl_tuning *tuning = &group->tuning;
    struct pccl_remote *from, *to;
    if (entry->rate == 0 || entry->left_version == group->ring_version || tuning->phase != PCCL_TUNING_NONE ||
        tuning->ticket != 0 || !can_be_searched(group) || !is_in_ring(m, entry, &from, &to) ||
        !note_rate(m, group, entry, from, to))
        return;
    entry->left_version = group->ring_version;
    tuning->replans = tuning->unproven = true;
    pccl_master_mark(m, PCCL_STAGE_SEARCHES);
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &from->id},
                    "the link from peer %s to peer %s carries %" PRIu64 " bytes/s, others %" PRIu64
                    ": a better ring is searched for",
                    pccl_id_str(&from->id), pccl_id_str(&to->id), entry->rate, entry->usual_rate);
}

void pccl_master_leave_slow_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; !m->recovering && (entry = pccl_verdicts_at(&group->verdicts, n)) != NULL; n++)
        if (entry->class == PCCL_VERDICT_SLOW_LINK && entry->seen)
            leave(m, group, entry);
    replan_if_it_pays(m, group);
}

/* Is the ring to leave a link for some verdict that holds? */
static bool leaves_any(const struct pccl_peer_group *group)
{
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_at(&group->verdicts, n)) != NULL; n++)
        if (entry->left_version == group->ring_version)
            return true;
    return false;
}

static void restore(struct pccl_figure *figure, const struct pccl_figure *known)
{
    if (figure != NULL && figure->judged) /* else something newer is known */
        *figure = *known;
}

/*
 * While the ring uses the link, it is sound again. But nobody knows what a link carries that the ring has left: it
 * stays what it was until a test or operations show something else, lest the ring goes to and fro.
 */
void pccl_master_slow_link_is_over(struct pccl_master *m, struct pccl_peer_group *group,
                                   const struct pccl_verdict_entry *entry)
{
    const struct pccl_remote *from = pccl_master_find(m, &entry->peer), *to = pccl_master_find(m, &entry->other);
    if (entry->left_version == 0)
        return;
    group->tuning.replans = group->tuning.replans && leaves_any(group);
    if (from == NULL || to == NULL)
        return;
    bool same_ring = entry->left_version == group->ring_version;
    if (same_ring || pccl_master_are_neighbors(from, to))
        restore(pccl_master_find_figure(from, to), &entry->left_known[0]);
    if (same_ring || pccl_master_are_neighbors(to, from))
        restore(pccl_master_find_figure(to, from), &entry->left_known[1]);
}

bool pccl_master_slow_links_can_go(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.replans && pccl_master_ring_is_ready(m, m->groups[i]))
            return true;
    return false;
}

void pccl_master_say_what_slow_links_get(struct pccl_master *m, struct pccl_peer_group *group,
                                         const struct pccl_verdict_entry *entry, struct pccl_text *words)
{
    struct pccl_remote *from, *to;
    const struct pccl_tuning *tuning = &group->tuning;
    if (entry->rate == 0)
        pccl_text_format(words, "none: it carries as much as others");
    else if (!is_in_ring(m, entry, &from, &to))
        pccl_text_format(words, "the ring does not use it");
    else if (!can_be_searched(group))
        pccl_text_format(words, "none: no other ring is possible, or can be searched for among so many");
    else if (tuning->replans && pccl_master_ring_is_ready(m, group))
        pccl_text_format(words, "the next topology update takes a ring without it, and are-peers-pending asks for one; "
                                "sooner, if what is under way gains by it");
    else if (tuning->ticket != 0 || tuning->unproven || (tuning->replans && pccl_master_has_better(group)))
        pccl_text_format(words, "a better ring is searched for");
    else
        pccl_text_format(words, "none: no better ring is known");
}
