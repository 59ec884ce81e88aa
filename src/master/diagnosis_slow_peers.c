/*
 * Reacts to slow peers (PROTOCOL 9.11): warns or, if configured so, expels a peer that has been slow for too long, and
 * keeps it out for a cool-down.
 */
#include "master/diagnosis_internal.h"
#include "master/output.h"
#include "master/roster.h"
#include "wire/describe.h"

#include <string.h>

enum {
    /*
     * length of a peer's first cool-down, as a multiple of the limit; each further one is twice as long as the previous
     * one
     */
    COOL_DOWN_LIMITS = 4,
    DOUBLINGS_MAX = 6,
    GOOD_COOL_DOWNS = 4, /* an expulsion is forgotten this many cool-down lengths after the cool-down */
};

/* Returns true if this class of verdict can lead to an expulsion. */
static bool is_of_slow_peer(const struct pccl_verdict_entry *entry)
{
    return entry->class == PCCL_VERDICT_SLOW_COMPUTATION || entry->class == PCCL_VERDICT_SLOW_SENDER ||
           entry->class == PCCL_VERDICT_SLOW_RECEIVER || entry->class == PCCL_VERDICT_SLOW_PEER;
}

static uint64_t limit_us(const struct pccl_master *m) { return m->config.slow_peer_limit_s * UINT64_C(1000000); }

/* Returns true if enough members remain after an expulsion. */
static bool can_spare_one(const struct pccl_master *m, const struct pccl_peer_group *group)
{
    return group->ring_count > m->config.slow_peer_floor;
}

bool pccl_master_describe_slow_peer_action(const struct pccl_master *m, const struct pccl_peer_group *group,
                                           const struct pccl_verdict_entry *entry, struct pccl_text *words)
{
    if (!is_of_slow_peer(entry))
        return false;
    if (!m->config.expel_slow_peers)
        pccl_text_format(words, "none: the master only warns (--slow-peer)");
    else if (!entry->enough)
        pccl_text_format(words, "none: expulsion requires reports from two other peers and from a majority");
    else if (!can_spare_one(m, group))
        pccl_text_format(words, "none: %u members must remain (slow_peer_floor)", m->config.slow_peer_floor);
    else
        pccl_text_format(words, "it will be expelled if this lasts for %s", pccl_duration_str(limit_us(m)));
    return true;
}

/* ---- cool-down ---- */

/*
 * Properties that identify an expelled peer when it returns. A restarted peer has a new id, so it is recognized by its
 * token, its name, the address that the master sees and the address that it reports. Many peers behind one NAT differ
 * only in the last. Peers without a chosen name cannot be distinguished from others on their host, so they are not
 * recognized.
 */
struct known_by {
    const struct pccl_address *address, *candidates;
    const char *name;
    size_t name_length;
    uint32_t candidate_count, pass;
};

static struct pccl_address host_of(const struct known_by *by)
{
    return by->candidate_count > 0 ? by->candidates[0] : (struct pccl_address){.port = 0};
}

static bool is_named(const struct pccl_cool_down *cooling, const struct known_by *by)
{
    size_t length = by->name_length;
    return cooling->name_length == length && (length == 0 || memcmp(cooling->name, by->name, length) == 0);
}

static bool is_it(const struct pccl_cool_down *cooling, const struct known_by *by)
{
    struct pccl_address host = host_of(by);
    return cooling->pass == by->pass && pccl_address_same_site(&cooling->address, by->address) &&
           pccl_address_same_site(&cooling->host, &host) && is_named(cooling, by);
}

/* Returns the record of this peer's expulsion; NULL if none exists. Deletes expired records first. */
static struct pccl_cool_down *find(struct pccl_master *m, const struct known_by *by)
{
    struct pccl_cool_down *found = NULL;
    for (uint32_t i = m->cooling_count; i-- > 0;) {
        struct pccl_cool_down *cooling = &m->cooling[i];
        if (m->now_us >= cooling->forgotten_us)
            *cooling = m->cooling[--m->cooling_count];
    }
    for (uint32_t i = 0; i < m->cooling_count && found == NULL; i++)
        if (is_it(&m->cooling[i], by))
            found = &m->cooling[i];
    return found;
}

/* Returns a free record or, if the table is full, the one that expires first. Returns NULL if out of memory. */
static struct pccl_cool_down *place_for_one(struct pccl_master *m)
{
    if (m->cooling_count == PCCL_COOL_DOWNS_MAX) {
        struct pccl_cool_down *first = m->cooling;
        for (uint32_t i = 1; i < m->cooling_count; i++)
            first = m->cooling[i].forgotten_us < first->forgotten_us ? &m->cooling[i] : first;
        return first;
    }
    struct pccl_cool_down *all =
        pccl_grow(&m->memory, m->cooling, &m->cooling_capacity, m->cooling_count + 1, sizeof *all);
    if (all == NULL)
        return NULL;
    m->cooling = all;
    return &all[m->cooling_count++];
}

/* Begins a cool-down and returns its length; 0 if the peer has no chosen name or memory runs out. */
static uint64_t begin_cool_down(struct pccl_master *m, const struct pccl_remote *remote, const struct pccl_text *why)
{
    char name[PCCL_NAME_MAX + 1];
    if (!remote->named)
        return 0;
    pccl_names_copy(&m->names, &remote->id, name);
    const struct known_by by = {.address = &remote->observed,
                                .candidates = remote->candidates,
                                .candidate_count = remote->candidate_count,
                                .name = name,
                                .name_length = pccl_bytes_of_string(name).length,
                                .pass = remote->pass};
    struct pccl_cool_down *cooling = find(m, &by);
    uint32_t doublings = cooling != NULL ? cooling->doublings + 1 : 0;
    if (cooling == NULL)
        cooling = place_for_one(m);
    if (cooling == NULL)
        return 0;
    *cooling = (struct pccl_cool_down){.address = remote->observed,
                                       .host = host_of(&by),
                                       .name_length = (uint32_t)by.name_length,
                                       .pass = remote->pass,
                                       .doublings = doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX,
                                       .why = *why};
    memcpy(cooling->name, name, by.name_length);
    uint64_t lasts_us = (COOL_DOWN_LIMITS * limit_us(m)) << cooling->doublings;
    cooling->until_us = m->now_us + lasts_us;
    cooling->forgotten_us = cooling->until_us + GOOD_COOL_DOWNS * lasts_us;
    return lasts_us;
}

bool pccl_master_may_rejoin(struct pccl_master *m, const struct pccl_msg_hello *hello,
                            const struct pccl_address *address, uint32_t pass, struct pccl_text *reason)
{
    const char *name = (const char *)hello->name.data;
    const struct pccl_peer_group *group = pccl_master_group(m, hello->group, false);
    const struct known_by by = {.address = address,
                                .candidates = hello->candidates,
                                .candidate_count = hello->candidates_count,
                                .name = name,
                                .name_length = hello->name.length,
                                .pass = pass};
    const struct pccl_cool_down *cooling = hello->named != 0 ? find(m, &by) : NULL;
    if (cooling == NULL || m->now_us >= cooling->until_us || group == NULL ||
        group->ring_count < m->config.slow_peer_floor)
        return true; /* a group that is too small accepts even a slow peer */
    pccl_text_format(reason, "this peer was removed because it was slow, and may join again in %s; evidence: %s",
                     pccl_duration_str(cooling->until_us - m->now_us), cooling->why.bytes);
    return false;
}

/* ---- expulsion ---- */

static void expel(struct pccl_master *m, struct pccl_peer_group *group, struct pccl_verdict_entry *entry)
{
    struct pccl_remote *remote = pccl_master_find(m, &entry->peer);
    if (remote == NULL || remote->group != group || !pccl_master_is_living_member(remote))
        return;
    struct pccl_text why, out;
    pccl_text_format(&why, "%s for %s: %s", pccl_verdict_name((uint8_t)entry->class),
                     pccl_duration_str(m->now_us - entry->since_us), entry->evidence.bytes);
    uint64_t lasts_us = begin_cool_down(m, remote, &why);
    group->slow_removed_us = m->now_us;
    pccl_text_format(&out, "too slow");
    if (lasts_us > 0)
        pccl_text_append(&out, ", and may not join for %s", pccl_duration_str(lasts_us));
    pccl_master_log(m, PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.peer = &remote->id, .cause = PCCL_LOG_CAUSE_MEMBERSHIP},
                    "expelled peer %s: %s: %s", pccl_id_str(&remote->id), out.bytes, why.bytes);
    pccl_master_remove(m, remote, PCCL_REFUSAL_SLOW, "%s: %s", out.bytes, why.bytes);
}

/*
 * Expels the peer that has been slow for the longest time. Ignores verdicts that the latest comparison has not
 * confirmed. The limit is also the minimum time between two expulsions in a group, because members may lie.
 */
void pccl_master_expel_slow_peer(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pccl_verdict_entry *entry, *oldest = NULL;
    if (!m->config.expel_slow_peers || m->recovering || m->departing_count > 0 || !can_spare_one(m, group) ||
        (group->slow_removed_us != 0 && m->now_us < group->slow_removed_us + limit_us(m)))
        return;
    for (uint32_t n = 0; (entry = pccl_verdicts_at(&group->verdicts, n)) != NULL; n++)
        if (is_of_slow_peer(entry) && entry->seen && entry->enough_us != 0 &&
            m->now_us >= entry->enough_us + limit_us(m) && (oldest == NULL || entry->enough_us < oldest->enough_us))
            oldest = entry;
    if (oldest != NULL)
        expel(m, group, oldest);
}
