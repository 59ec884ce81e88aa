/* Records the result of one comparison as a suspicion, and has functions that several comparisons use. */
#include "master/verdicts_internal.h"

static bool is_line(enum pccl_verdict_class class)
{
    return class == PCCL_VERDICT_SLOW_SENDER || class == PCCL_VERDICT_SLOW_RECEIVER;
}

/*
 * Returns true if the entry is about the same problem. The two directions between two peers are hard to distinguish,
 * and so are a slow sender and a slow receiver. While the entry is only a suspicion, it changes to the latest class.
 */
static bool is_same(const struct pccl_verdict_entry *entry, bool finding, enum pccl_verdict_class class,
                    const struct pccl_id *peer, const struct pccl_id *other)
{
    bool same = pccl_id_equal(&entry->peer, peer) && pccl_id_equal(&entry->other, other);
    bool opposite =
        class == PCCL_VERDICT_SLOW_LINK && pccl_id_equal(&entry->peer, other) && pccl_id_equal(&entry->other, peer);
    bool alike = (is_line(class) && is_line(entry->class)) ||
                 (pccl_verdicts_is_hang(class) && pccl_verdicts_is_hang(entry->class));
    return entry->finding == finding && ((entry->class == class && (same || opposite)) || (alike && same));
}

static struct pccl_verdict_entry *find(struct pccl_verdicts *verdicts, bool finding, enum pccl_verdict_class class,
                                       const struct pccl_id *peer, const struct pccl_id *other)
{
    for (uint32_t i = 0; i < verdicts->count; i++)
        if (!verdicts->entries[i].over && is_same(&verdicts->entries[i], finding, class, peer, other))
            return &verdicts->entries[i];
    return NULL;
}

struct pccl_verdict_entry *pccl_verdicts_suspect(struct pccl_judgment *j, enum pccl_verdict_class class,
                                                 const struct pccl_id *peer, const struct pccl_id *other,
                                                 const struct pccl_text *evidence)
{
    struct pccl_verdicts *verdicts = j->verdicts;
    const struct pccl_id none = {{0}};
    other = other != NULL ? other : &none;
    struct pccl_verdict_entry *entry = find(verdicts, j->finding, class, peer, other);
    if (entry == NULL) {
        if (verdicts->entries == NULL)
            verdicts->entries = pccl_allocate(j->memory, PCCL_SUSPICIONS_MAX * sizeof *verdicts->entries);
        if (verdicts->entries == NULL || verdicts->count == PCCL_SUSPICIONS_MAX)
            return NULL;
        entry = &verdicts->entries[verdicts->count++];
        *entry = (struct pccl_verdict_entry){.since_us = j->now_us, .finding = j->finding};
    }
    entry->enough = entry->seen && entry->enough;
    entry->seen = true;
    if (entry->holds)
        return entry; /* a verdict keeps the class that was sent to the members */
    entry->class = class;
    entry->peer = *peer;
    entry->other = *other;
    entry->evidence = *evidence;
    return entry;
}

void pccl_verdicts_suspect_peer(struct pccl_judgment *j, enum pccl_verdict_class class, const struct pccl_id *peer,
                                bool enough, const struct pccl_text *evidence)
{
    struct pccl_verdict_entry *entry = pccl_verdicts_suspect(j, class, peer, NULL, evidence);
    if (entry != NULL)
        entry->enough = entry->enough || enough;
}

/* ---- numbers ---- */

uint64_t pccl_verdicts_nth(uint64_t *values, uint32_t count, uint32_t n)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) {
        uint64_t pivot = values[low + (high - low) / 2];
        uint32_t i = low, k = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[k] > pivot)
                k--;
            if (i >= k)
                break;
            uint64_t value = values[i];
            values[i++] = values[k];
            values[k--] = value;
        }
        if (n <= k)
            high = k;
        else
            low = k + 1;
    }
    return values[n];
}

bool pccl_verdicts_are_most(const struct pccl_judgment *j, uint32_t others)
{
    return others >= 2 && 2 * others >= j->witnesses->count;
}
