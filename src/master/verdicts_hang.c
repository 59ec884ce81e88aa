/*
 * Finds the cause of a hanging operation: follows the waits from peer to peer until it reaches a peer that does not
 * wait. In a ring all peers may wait for each other. In that case the cause is a link that transfers nothing: its
 * sender has data in flight that does not arrive, while its receiver waits for data.
 */
#include "master/verdicts_internal.h"

enum {
    LONG_MS = 1000, /* minimum wait that may be a hang */
    NAMED_MAX = 4,  /* maximum number of waiting peers in the evidence */
    STUCK_BYTES = 4096,
};

/* Returns the peer's report if the peer waits; NULL if it does not, or has not reported recently. */
static const struct pccl_witness *waiter(const struct pccl_judgment *j, uint32_t i)
{
    const struct pccl_witness *witness = pccl_witness_fresh(j, i);
    return witness != NULL && witness->wait_count > 0 ? witness : NULL;
}

static uint32_t index_of(const struct pccl_judgment *j, const struct pccl_id *id)
{
    return j->witnesses->find(j->witnesses->context, id);
}

/*
 * Returns true for a long wait for a peer. A wait for an outcome is excluded, because only the master knows the peers
 * that delay it (diagnosis.c).
 */
static bool is_long(const struct pccl_seen_wait *wait)
{
    return wait->for_ms >= LONG_MS && wait->what != PCCL_WAIT_OUTCOME && !pccl_id_is_zero(&wait->peer);
}

/* Reports of peers that wait for one peer, which does not wait. */
struct complaints {
    struct pccl_id peer;
    uint32_t waiters, for_ms;
    bool not_ready; /* true if a peer waits for it to enter the operation */
    bool begun;     /* true if it has sent data of the operation, or permission to send */
    uint8_t what;   /* kind of the last reported wait */
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
 * Returns true if most participants do not wait. In that case they are still computing, and the waiting peers are
 * merely early. The number of complaints does not show this, because in a ring each peer waits only for its neighbors.
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
    static const char *const whats[] = {[PCCL_WAIT_CREDIT] = "its credit to send in",
                                        [PCCL_WAIT_ROOM] = "it to receive data that was sent in",
                                        [PCCL_WAIT_DATA] = "its data in"};
    struct complaints all;
    struct pccl_text evidence;
    collect(j, peer, &all);
    bool absent = all.not_ready || !all.begun;
    if (absent && most_compute(j, &all.instance))
        return;
    pccl_text_clear(&evidence);
    add_waiters(&evidence, &all);
    pccl_text_append(&evidence, " %s for %s the operation with tag %" PRIu64 ", and it is not waiting for any peer",
                     pccl_duration_str(all.for_ms * UINT64_C(1000)), absent ? "it to enter" : whats[all.what],
                     all.instance.tag);
    (void)pccl_verdicts_suspect(j, absent ? PCCL_VERDICT_NOT_ENTERED : PCCL_VERDICT_HANG, peer, NULL, &evidence);
}

/* Peers that others wait for, but that do not wait themselves. */
struct ends {
    struct pccl_id ids[PCCL_SUSPICIONS_MAX];
    uint32_t count;
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

/* Suspects these peers unless they are the majority. Returns true if there are any. */
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

/* Returns true if data is constantly in flight to the other end and none arrives. */
static bool is_stuck(const struct pccl_witness *from, const struct pccl_seen_link *link)
{
    uint64_t window_us = from->window_ms * UINT64_C(1000);
    return link->bytes < STUCK_BYTES && link->busy_us >= window_us - window_us / 4;
}

static bool suspect_links(struct pccl_judgment *j)
{
    bool any = false;
    for (uint32_t i = 0; i < j->witnesses->count; i++) {
        const struct pccl_witness *from = pccl_witness_fresh(j, i);
        for (uint32_t k = 0; from != NULL && k < from->link_count; k++) {
            const struct pccl_seen_link *link = &from->latest_links[k];
            const struct pccl_witness *to = waiter(j, index_of(j, &link->peer));
            if (!is_stuck(from, link) || to == NULL || !waits_for(to, &from->id, PCCL_WAIT_DATA))
                continue;
            struct pccl_text evidence;
            pccl_text_format(&evidence,
                             "data is in flight all the time but does not arrive, while the receiver waits for it in "
                             "the operation with tag %" PRIu64,
                             from->instance.tag);
            (void)pccl_verdicts_suspect(j, PCCL_VERDICT_HANG, &from->id, &link->peer, &evidence);
            any = true;
        }
    }
    return any;
}

bool pccl_verdicts_look_for_hangs(struct pccl_judgment *j) { return suspect_links(j) || suspect_ends(j); }
