/*
 * Who an operation stands for: from those who wait to whom they wait for, and on, to the one that waits for nobody.
 * Around a ring all wait, and if each of them waits for another one, it is a link that lets nothing through: its
 * sender has data under way that does not arrive, while its receiver waits for data.
 */
#include "master/verdicts_internal.h"

enum {
    LONG_MS = 1000, /* a wait that may be a hang; suspicions become verdicts later */
    NAMED_MAX = 4,  /* peers that wait, in the evidence */
    STUCK_BYTES = 4096,
};

/* NULL: it does not wait, as far as is known lately. */
static const struct pccl_witness *waiter(const struct pccl_judgment *j, uint32_t i)
{
    const struct pccl_witness *witness = pccl_witness_fresh(j, i);
    return witness != NULL && witness->wait_count > 0 ? witness : NULL;
}

static uint32_t index_of(const struct pccl_judgment *j, const struct pccl_id *id)
{
    return j->witnesses->find(j->witnesses->context, id);
}

/* For somebody: for whom an outcome waits only the master can say (diagnosis.c). */
static bool is_long(const struct pccl_seen_wait *wait)
{
    return wait->for_ms >= LONG_MS && wait->what != PCCL_WAIT_OUTCOME && !pccl_id_is_zero(&wait->peer);
}

/* What those who wait for one that waits for nobody say of it. */
struct complaints {
    struct pccl_id peer;
    uint32_t waiters, for_ms;
    bool not_ready; /* somebody waits for it to enter */
    bool begun;     /* something of the operation came from it, or it has permitted something */
    uint8_t what;   /* somebody waits for this */
    struct pccl_instance instance;
    struct pccl_id named[NAMED_MAX];
};

static void add_complaint(struct complaints *all, const struct pccl_witness *from, const struct pccl_seen_wait *wait)
{
    if (all->waiters < NAMED_MAX)
        all->named[all->waiters] = from->id;
    all->waiters++;
    all->for_ms = wait->for_ms > all->for_ms ? wait->for_ms : all->for_ms;
    all->not_ready = all->not_ready || wait->what == PCCL_WAIT_READY;
    all->begun = all->begun || wait->begun != 0;
    all->what = wait->what;
    all->instance = from->instance;
}

static void collect(const struct pccl_judgment *j, const struct pccl_id *peer, struct complaints *all)
{
    *all = (struct complaints){.peer = *peer};
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *from = waiter(j, i);
        for (uint32_t k = 0; from != NULL && k < from->wait_count; k++) {
            if (!is_long(&from->waits[k]) || !pccl_id_equal(&from->waits[k].peer, peer))
                continue;
            add_complaint(all, from, &from->waits[k]);
            break;
        }
    }
}

static void add_waiters(struct pccl_text *text, const struct complaints *all)
{
    for (uint32_t i = 0; i < all->waiters && i < NAMED_MAX; i++)
        pccl_text_append(text, "%speer %s", i > 0 ? ", " : "", pccl_id_str(&all->named[i]));
    if (all->waiters > NAMED_MAX)
        pccl_text_append(text, " and %u more", all->waiters - NAMED_MAX);
    pccl_text_append(text, all->waiters == 1 ? " has waited" : " have waited");
}

/*
 * true: most of those who take part wait for nothing, so they compute, and those who wait were early. Around a ring
 * these name their neighbors only, so that it does not follow from how many are named.
 */
static bool most_compute(const struct pccl_judgment *j, const struct pccl_instance *instance)
{
    uint32_t waiting = 0, all = 0;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        if (!j->witnesses->takes_part(j->witnesses->context, i, instance))
            continue;
        all++;
        waiting += waiter(j, i) != NULL;
    }
    return 2 * waiting < all;
}

static void suspect_peer(struct pccl_judgment *j, const struct pccl_id *peer)
{
    static const char *const whats[] = {[PCCL_WAIT_CREDIT] = "its permission to send",
                                        [PCCL_WAIT_ROOM] = "it to take what is sent",
                                        [PCCL_WAIT_DATA] = "its data"};
    struct complaints all;
    struct pccl_text evidence;
    collect(j, peer, &all);
    bool absent = all.not_ready || !all.begun;
    if (absent && most_compute(j, &all.instance))
        return;
    pccl_text_clear(&evidence);
    add_waiters(&evidence, &all);
    pccl_text_append(&evidence, " %s for %s in the operation with tag %" PRIu64 ", and it waits for nobody",
                     pccl_duration_str(all.for_ms * UINT64_C(1000)), absent ? "it to enter" : whats[all.what],
                     all.instance.tag);
    (void)pccl_verdicts_suspect(j, absent ? PCCL_VERDICT_NOT_ENTERED : PCCL_VERDICT_HANG, peer, NULL, &evidence);
}

/* Those whom somebody waits for, and who wait for nobody themselves. */
struct ends {
    struct pccl_id ids[PCCL_SUSPICIONS_MAX];
    uint32_t count; /* of which the ids have the first */
};

static void add_end(struct ends *ends, const struct pccl_id *peer)
{
    for (uint32_t i = 0; i < ends->count; i++)
        if (pccl_id_equal(&ends->ids[i], peer))
            return;
    if (ends->count < PCCL_SUSPICIONS_MAX)
        ends->ids[ends->count++] = *peer;
}

static void find_ends(const struct pccl_judgment *j, struct ends *ends)
{
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *from = waiter(j, i);
        for (uint32_t k = 0; from != NULL && k < from->wait_count; k++) {
            const struct pccl_seen_wait *wait = &from->waits[k];
            uint32_t to = is_long(wait) ? index_of(j, &wait->peer) : j->witnesses->count;
            if (to < j->witnesses->count && waiter(j, to) == NULL)
                add_end(ends, &wait->peer);
        }
    }
}

/* If most would be named, it is nobody's fault. */
static bool suspect_ends(struct pccl_judgment *j)
{
    struct ends ends = {.count = 0};
    find_ends(j, &ends);
    for (uint32_t i = 0; i < ends.count && 2 * ends.count <= j->witnesses->count; i++)
        suspect_peer(j, &ends.ids[i]);
    return ends.count > 0;
}

static bool waits_for(const struct pccl_witness *peer, const struct pccl_id *other, uint8_t what)
{
    for (uint32_t k = 0; k < peer->wait_count; k++)
        if (is_long(&peer->waits[k]) && peer->waits[k].what == what && pccl_id_equal(&peer->waits[k].peer, other))
            return true;
    return false;
}

/* Something is under way to the other end, all the time, and nothing arrives. */
static bool is_stuck(const struct pccl_witness *from, const struct pccl_seen_link *link)
{
    uint64_t window_us = pccl_witness_latest(from)->window_ms * UINT64_C(1000);
    return link->bytes < STUCK_BYTES && link->busy_us >= window_us - window_us / 4;
}

static bool suspect_links(struct pccl_judgment *j)
{
    bool any = false;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *from = pccl_witness_fresh(j, i);
        for (uint32_t k = 0; from != NULL && k < from->link_count; k++) {
            const struct pccl_seen_link *link = &from->told[k];
            const struct pccl_witness *to = waiter(j, index_of(j, &link->peer));
            if (!is_stuck(from, link) || to == NULL || !waits_for(to, &from->id, PCCL_WAIT_DATA))
                continue;
            struct pccl_text evidence;
            pccl_text_format(&evidence,
                             "data is under way all the time, and nothing arrives, while the other end waits for it in "
                             "the operation with tag %" PRIu64,
                             from->instance.tag);
            (void)pccl_verdicts_suspect(j, PCCL_VERDICT_HANG, &from->id, &link->peer, &evidence);
            any = true;
        }
    }
    return any;
}

bool pccl_verdicts_look_for_hangs(struct pccl_judgment *j) { return suspect_links(j) || suspect_ends(j); }
