#include "master/slow_links.h"
#include "master/links.h"
#include "master/output.h"
#include "master/rings.h"
#include "master/roster.h"
#include "master/topology.h"

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
