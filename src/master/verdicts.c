/* Turns the results of comparisons into suspicions and verdicts. */
#include "master/verdicts_internal.h"
#include "core/rule.h"

#include <string.h>

enum {
    HITS_HANG = 2, /* consecutive confirmations, PCCL_VERDICTS_EVERY_US apart, that make a verdict */
    HITS_SLOW = 3,
    MISSES_HANG = 2, /* consecutive comparisons without a confirmation that end it */
    MISSES_SLOW = 3,
};
/* A suspicion without new reports of its peer is dropped after this time. */
static const uint64_t suspicion_us = 60000000;

/* ---- suspicions ---- */

static void drop(struct pccl_verdicts *verdicts, uint32_t at)
{
    verdicts->count--;
    memmove(&verdicts->entries[at], &verdicts->entries[at + 1], (verdicts->count - at) * sizeof *verdicts->entries);
}

/* Returns true if this peer has a new report. Without one, slowness is neither confirmed nor refuted. */
static bool has_news(const struct pccl_judgment *j, const struct pccl_id *peer)
{
    const struct pccl_witness *witness = pccl_witness_fresh(j, j->witnesses->find(j->witnesses->context, peer));
    return witness != NULL && !witness->judged;
}

static uint32_t holding(const struct pccl_verdicts *verdicts, bool finding)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < verdicts->count; i++)
        count += verdicts->entries[i].holds && verdicts->entries[i].finding == finding;
    return count;
}

static void keep_open(struct pccl_verdicts *verdicts, const struct pccl_verdict_entry *entry)
{
    if (entry->class != PCCL_VERDICT_SLOW_LINK || entry->finding || entry->rate == 0 || !entry->alone)
        return;
    verdicts->open[verdicts->open_count++ % PCCL_OPEN_LINKS_MAX] =
        (struct pccl_open_link){entry->peer, entry->other, PCCL_OPEN_REPORTS, PCCL_OPEN_REPORTS};
}

/*
 * Returns true if a confirmation is based on a new report: of the peer or, if it sends none, of any other. The causes
 * of a hang last without new reports.
 */
static bool is_based_on_news(const struct pccl_judgment *j, const struct pccl_verdict_entry *entry)
{
    bool silent = pccl_witness_fresh(j, j->witnesses->find(j->witnesses->context, &entry->peer)) == NULL;
    bool any = false;
    for (uint32_t i = 0; i < j->witnesses->count && silent; i++)
        any = any || (j->witnesses->all[i] != NULL && !j->witnesses->all[i]->judged);
    return pccl_verdicts_is_hang(entry->class) || any || has_news(j, &entry->peer);
}

/* Counts a confirmation. Returns true if the suspicion has become a verdict. */
static bool confirm(const struct pccl_judgment *j, struct pccl_verdict_entry *entry, uint64_t *last_number)
{
    if (!is_based_on_news(j, entry))
        return false;
    entry->misses = 0;
    entry->hits++;
    entry->confirmed_us = j->now_us;
    if (entry->holds || entry->hits < (pccl_verdicts_is_hang(entry->class) ? HITS_HANG : HITS_SLOW) ||
        holding(j->verdicts, entry->finding) >= PCCL_VERDICTS_MAX)
        return false;
    entry->holds = true;
    entry->number = ++*last_number;
    keep_open(j->verdicts, entry);
    return true;
}

/*
 * Sets the time since which the verdict has sufficed for an expulsion; resets it if the last comparison did not
 * suffice.
 */
static void note_enough(const struct pccl_judgment *j, struct pccl_verdict_entry *entry)
{
    if (!entry->holds || entry->finding || !entry->enough)
        entry->enough_us = 0;
    else if (entry->enough_us == 0)
        entry->enough_us = j->now_us;
}

/* Counts a comparison that did not confirm the entry. Returns true if the entry must end. */
static bool doubt(const struct pccl_judgment *j, struct pccl_verdict_entry *entry)
{
    bool hang = pccl_verdicts_is_hang(entry->class);
    if (!hang && !has_news(j, &entry->peer)) /* reports pause while the program computes */
        return !entry->holds && j->now_us >= pccl_max_u64(entry->since_us, entry->confirmed_us) + suspicion_us;
    entry->hits = 0;
    return ++entry->misses >= (hang ? MISSES_HANG : MISSES_SLOW) || !entry->holds;
}

/* Deletes a suspicion, or marks a verdict as over. Returns true if it was a verdict. */
static bool end(struct pccl_verdicts *verdicts, uint32_t at)
{
    struct pccl_verdict_entry *entry = &verdicts->entries[at];
    bool held = entry->holds;
    entry->over = held;
    entry->holds = false;
    entry->enough_us = 0;
    if (!held)
        drop(verdicts, at);
    return held;
}

/* Updates the entries, from last to first because some are deleted. Returns true if a verdict began or ended. */
static bool conclude(struct pccl_judgment *j, uint64_t *last_number)
{
    struct pccl_verdicts *verdicts = j->verdicts;
    bool changed = false;
    for (uint32_t i = verdicts->count; i-- > 0;) {
        struct pccl_verdict_entry *entry = &verdicts->entries[i];
        if (entry->over)
            continue;
        if (entry->seen) {
            changed = confirm(j, entry, last_number) || changed;
            note_enough(j, entry);
        } else if (doubt(j, entry)) {
            changed = end(verdicts, i) || changed;
        }
    }
    return changed;
}

bool pccl_verdicts_judge(struct pccl_verdicts *verdicts, const struct pccl_memory *memory,
                         const struct pccl_witnesses *witnesses, uint64_t now_us, uint64_t *last_number)
{
    struct pccl_judgment j = {.verdicts = verdicts, .memory = memory, .witnesses = witnesses, .now_us = now_us};
    for (uint32_t i = 0; i < verdicts->count; i++)
        verdicts->entries[i].seen = false;
    if (!pccl_verdicts_look_for_hangs(&j)) {
        if (pccl_verdicts_look_for_stalled_peers(&j)) {
            pccl_verdicts_look_for_late_peers(&j);
            pccl_verdicts_look_for_slow_links(&j);
        }
    }
    bool changed = conclude(&j, last_number);
    for (uint32_t i = 0; i < witnesses->count; i++)
        if (witnesses->all[i] != NULL)
            witnesses->all[i]->judged = true;
    return changed;
}

bool pccl_verdicts_forget(struct pccl_verdicts *verdicts, const struct pccl_id *peer)
{
    bool changed = false;
    for (uint32_t i = 0; i < PCCL_OPEN_LINKS_MAX; i++)
        if (pccl_id_equal(&verdicts->open[i].from, peer) || pccl_id_equal(&verdicts->open[i].to, peer))
            verdicts->open[i] = (struct pccl_open_link){.sender = 0};
    for (uint32_t i = verdicts->count; i-- > 0;) {
        const struct pccl_verdict_entry *entry = &verdicts->entries[i];
        if (!entry->over && (pccl_id_equal(&entry->peer, peer) || pccl_id_equal(&entry->other, peer)))
            changed = end(verdicts, i) || changed;
    }
    return changed;
}

bool pccl_verdicts_take_over(struct pccl_verdicts *verdicts, struct pccl_verdict_entry *entry)
{
    for (uint32_t i = 0; i < verdicts->count; i++) {
        if (!verdicts->entries[i].over)
            continue;
        *entry = verdicts->entries[i];
        drop(verdicts, i);
        return true;
    }
    return false;
}

void pccl_verdicts_free(struct pccl_verdicts *verdicts, const struct pccl_memory *memory)
{
    pccl_release(memory, verdicts->entries, PCCL_SUSPICIONS_MAX * sizeof *verdicts->entries);
    *verdicts = (struct pccl_verdicts){.entries = NULL};
}

struct pccl_verdict_entry *pccl_verdicts_at(const struct pccl_verdicts *verdicts, uint32_t n)
{
    for (uint32_t i = 0; i < verdicts->count; i++)
        if (verdicts->entries[i].holds && !verdicts->entries[i].finding && n-- == 0)
            return &verdicts->entries[i];
    return NULL;
}

struct pccl_verdict_entry *pccl_verdicts_or_finding_at(const struct pccl_verdicts *verdicts, uint32_t n)
{
    for (uint32_t i = 0; i < verdicts->count; i++)
        if (verdicts->entries[i].holds && n-- == 0)
            return &verdicts->entries[i];
    return NULL;
}

const char *pccl_verdicts_broken_rule(const struct pccl_verdicts *verdicts)
{
    PCCL_RULE(verdicts->count <= PCCL_SUSPICIONS_MAX && (verdicts->entries != NULL || verdicts->count == 0),
              "suspicions have room");
    PCCL_RULE(verdicts->count == 0 ||
                  (holding(verdicts, false) <= PCCL_VERDICTS_MAX && holding(verdicts, true) <= PCCL_VERDICTS_MAX),
              "few verdicts and findings hold at one time");
    for (uint32_t i = 0; i < verdicts->count; i++) {
        const struct pccl_verdict_entry *entry = &verdicts->entries[i];
        PCCL_RULE(!pccl_id_is_zero(&entry->peer), "a suspicion names a peer");
        PCCL_RULE((entry->holds || entry->over) == (entry->number != 0),
                  "verdicts are numbered, and suspicions are not");
        PCCL_RULE(entry->enough_us == 0 || (entry->holds && !entry->finding),
                  "only a verdict can lead to an expulsion");
        PCCL_RULE(entry->hits == 0 || entry->misses == 0, "a suspicion was seen by the last comparison, or it was not");
    }
    return NULL;
}
