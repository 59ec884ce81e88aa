/*
 * Reacts to slow links (PROTOCOL 9.12): searches for a better ring, and adopts it at the next quiet round, or at once
 * with a re-plan (5.4) if operations under way gain enough.
 */
#include "master/diagnosis_internal.h"
#include "master/links.h"
#include "master/operations.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"
#include "master/topology.h"
#include "wire/cost.h"

enum {
    PAUSE_US = 30000000,          /* minimum time between two re-plans of a group */
    FINDING_PAUSE_US = 600000000, /* minimum time between two searches of a group because of findings */
    /* minimum gain, in addition to a quarter of the restart's duration, because link figures are inexact */
    GAIN_US_LEAST = 1000000,
    REPORT_US_MOST = 3000000, /* maximum age of a report on operations under way */
};

/*
 * Returns true if the peer waits in a quiet call. Such a peer runs no operation, and no other peer needs it to finish
 * one.
 */
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

/* ---- benefit of a re-plan ---- */

/* Returns the member's latest report, or NULL if it is older than REPORT_US_MOST. */
static const struct pccl_witness *fresh_witness(const struct pccl_master *m, const struct pccl_remote *from)
{
    const struct pccl_witness *witness = from->witness;
    return witness != NULL && m->now_us < witness->received_us + REPORT_US_MOST ? witness : NULL;
}

/*
 * Considers the members that send over slow ring links. Returns the report with the most bytes left to send; NULL if no
 * operation is under way.
 */
static const struct pccl_witness *find_delayed(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    const struct pccl_witness *delayed = NULL;
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_or_finding_at(&group->verdicts, n)) != NULL; n++) {
        if (entry->left_version != group->ring_version)
            continue;
        const struct pccl_remote *one = pccl_master_find(m, &entry->peer), *other = pccl_master_find(m, &entry->other);
        if (one == NULL || other == NULL)
            continue;
        /* a verdict may name the wrong direction */
        const struct pccl_witness *witness = fresh_witness(m, pccl_master_are_neighbors(one, other) ? one : other);
        if (witness != NULL && witness->ring_left > (delayed != NULL ? delayed->ring_left : 0))
            delayed = witness;
    }
    return delayed;
}

/* Returns the time to send `bytes` at `rate`. Reports limit `bytes` (verdicts.c), so nothing overflows. */
static uint64_t time_us(uint64_t bytes, uint64_t rate)
{
    rate = pccl_max_u64(rate, 1024);
    return bytes / rate * 1000000 + bytes % rate * 1000000 / rate;
}

/*
 * Returns true if finishing along the present ring takes at least 1.25 times as long as a restart along the better one,
 * plus GAIN_US_LEAST.
 */
static bool pays(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_ring_worth was, is;
    const struct pccl_witness *delayed = find_delayed(m, group);
    if (delayed == NULL || !pccl_master_weigh_better_ring(m, group, &was, &is))
        return false;
    uint64_t stay_us = time_us(delayed->ring_left, was.slowest), anew_us = time_us(delayed->ring_bytes, is.slowest);
    if (stay_us < anew_us + anew_us / 4 + GAIN_US_LEAST)
        return false;
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.event = PCCL_EVENT_REPLANNED},
                    "restarting the operations of group %u on a better ring: expected to take %s instead of another %s",
                    group->number, pccl_duration_str(anew_us), pccl_duration_str(stay_us));
    return true;
}

/* Adopts a prepared ring without the slow link if the operations under way gain enough. */
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

/* Looks up both ends. Returns true if they are neighbors in the ring, in either direction. */
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

/* Lowers a figure to the measured rate. The first time, saves the previous figure in `known`. */
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
 * Records the rate of a slow link, in both directions if the ring uses both, because a verdict may name the wrong one.
 * If no optimization has tested the other links, they are assumed to have the usual rate until traffic shows otherwise.
 * Returns false if out of memory.
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
 * Returns true if the entry may change the ring. Rates at the limit are not measured, so no gain is known. Findings are
 * used once in a while, all at the same time, because no change of a link shows that another ring is better.
 */
static bool may_leave(const struct pccl_master *m, const struct pccl_tuning *tuning,
                      const struct pccl_verdict_entry *entry)
{
    bool again =
        tuning->finding_us != 0 && m->now_us != tuning->finding_us && m->now_us < tuning->finding_us + FINDING_PAUSE_US;
    return entry->rate != 0 && entry->usual_rate < PCCL_RATE_MOST && (!entry->finding || !again);
}

/*
 * Requests a search for a ring without the link, once per verdict and ring, because another search would give the same
 * result. Waits for a running search to end, because that one started without this link's rate.
 */
static void leave(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_verdict_entry *entry)
{
    struct pccl_tuning *tuning = &group->tuning;
    struct pccl_remote *from, *to;
    if (!may_leave(m, tuning, entry) || entry->left_version == group->ring_version ||
        tuning->phase != PCCL_TUNING_NONE || tuning->ticket != 0 || !can_be_searched(group) ||
        !is_in_ring(m, entry, &from, &to) || !note_rate(m, group, entry, from, to))
        return;
    entry->left_version = group->ring_version;
    tuning->finding_us = entry->finding ? m->now_us : tuning->finding_us;
    tuning->replans = tuning->unproven = true;
    pccl_master_mark(m, PCCL_STAGE_SEARCHES);
    pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &from->id, .event = PCCL_EVENT_RING_SEARCHED},
                    "the link from peer %s to peer %s carries %s, others %s: searching for a better ring",
                    pccl_id_str(&from->id), pccl_id_str(&to->id), pccl_rate_str(entry->rate),
                    pccl_rate_str(entry->usual_rate));
}

void pccl_master_leave_slow_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; !m->recovering && (entry = pccl_verdicts_or_finding_at(&group->verdicts, n)) != NULL; n++)
        if (entry->class == PCCL_VERDICT_SLOW_LINK && entry->seen)
            leave(m, group, entry);
    replan_if_it_pays(m, group);
}

/* Returns true if a verdict has requested a search to replace the present ring. */
static bool leaves_any(const struct pccl_peer_group *group)
{
    const struct pccl_verdict_entry *entry;
    for (uint32_t n = 0; (entry = pccl_verdicts_or_finding_at(&group->verdicts, n)) != NULL; n++)
        if (entry->left_version == group->ring_version)
            return true;
    return false;
}

static void restore(struct pccl_figure *figure, const struct pccl_figure *known)
{
    if (figure != NULL && figure->judged) /* otherwise a newer figure has replaced it */
        *figure = *known;
}

/*
 * Restores the figures of a link that recovered while the ring used it. A link that the ring has left keeps its low
 * figure until a test or traffic shows otherwise, so that the ring does not oscillate.
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

bool pccl_master_can_leave_slow_links(struct pccl_master *m)
{
    for (uint32_t i = 0; i < m->group_count; i++)
        if (m->groups[i]->tuning.replans && pccl_master_ring_is_ready(m, m->groups[i]))
            return true;
    return false;
}

void pccl_master_describe_slow_link_action(struct pccl_master *m, struct pccl_peer_group *group,
                                           const struct pccl_verdict_entry *entry, struct pccl_text *words)
{
    struct pccl_remote *from, *to;
    const struct pccl_tuning *tuning = &group->tuning;
    if (entry->rate == 0)
        pccl_text_format(words, "none: it carries as much as other links");
    else if (!is_in_ring(m, entry, &from, &to))
        pccl_text_format(words, "the ring does not use it");
    else if (!can_be_searched(group))
        pccl_text_format(words, "none: no other ring is possible, or the group is too large to search for one");
    else if (tuning->replans && pccl_master_ring_is_ready(m, group))
        pccl_text_format(words, "the next topology update adopts a ring without it, and are-peers-pending returns "
                                "true; running operations restart on it earlier if that is faster");
    else if (tuning->ticket != 0 || tuning->unproven || (tuning->replans && pccl_master_has_better(group)))
        pccl_text_format(words, "searching for a better ring");
    else
        pccl_text_format(words, "none: no better ring is known");
}
