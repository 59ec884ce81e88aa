/* Finds rings without bad links. links_failed.c decides when a link has failed. */
#include "master/links_internal.h"
#include "master/output.h"
#include "master/membership.h"
#include "master/roster.h"
#include "topology/ring.h"

/* Pairs of members that should not be neighbors: a symmetric bit matrix, indexed by position. */
struct pairs {
    uint32_t count, row_words; /* number of members; 64-bit words per row */
    uint64_t *rows;
};

static bool get_pair(const struct pairs *pairs, uint32_t a, uint32_t b)
{
    return (pairs->rows[(size_t)a * pairs->row_words + b / 64] >> b % 64 & 1) != 0;
}

static bool bad_pair(void *context, uint32_t a, uint32_t b) { return get_pair(context, a, b); }

static void set_pair(struct pairs *pairs, uint32_t a, uint32_t b)
{
    PCCL_ASSERT(a < pairs->count && b < pairs->count);
    pairs->rows[(size_t)a * pairs->row_words + b / 64] |= UINT64_C(1) << b % 64;
    pairs->rows[(size_t)b * pairs->row_words + a / 64] |= UINT64_C(1) << a % 64;
}

static size_t pairs_bytes(const struct pairs *pairs) { return (size_t)pairs->count * pairs->row_words * 8; }

/* Adds the pairs that are apart or, with `only_tried`, that cannot be linked. Returns true if there are any. */
static bool add_apart(const struct pccl_peer_group *group, bool only_tried, struct pairs *pairs)
{
    bool any = false;
    for (uint32_t i = 0; i < group->ring_count; i++)
        for (uint32_t k = 0; !group->ring[i]->verified && k < i; k++) {
            bool apart = only_tried ? pccl_master_cannot_link(group->ring[i], group->ring[k])
                                    : pccl_master_are_apart(group->ring[i], group->ring[k]);
            if (apart)
                set_pair(pairs, i, k);
            any = any || apart;
        }
    return any;
}

/* Collects a group's bad edges and, with `failing`, the edges that are failing now. Returns false if out of memory. */
static bool collect_pairs(struct pccl_master *m, const struct pccl_peer_group *group, bool failing, struct pairs *pairs)
{
    pairs->count = group->ring_count;
    pairs->row_words = (group->ring_count + 63) / 64;
    pairs->rows = pccl_allocate(&m->memory, pairs_bytes(pairs));
    for (uint32_t i = 0; pairs->rows != NULL && i < m->edge_count; i++) {
        const struct pccl_edge *edge = &m->edges[i];
        bool fails = failing && pccl_master_is_failed_dialing(edge->incoming, edge->how) &&
                     m->now_us < edge->since_us + m->config.silence_ms * UINT64_C(1000);
        if (!fails && m->now_us >= edge->bad_until_us)
            continue;
        const struct pccl_remote *a = pccl_master_find(m, &edge->from), *b = pccl_master_find(m, &edge->to);
        if (a != NULL && b != NULL && a != b && a->group == group && b->group == group)
            set_pair(pairs, a->position, b->position);
    }
    return pairs->rows != NULL;
}

static void drop_pairs(struct pccl_master *m, struct pairs *pairs)
{
    pccl_release(&m->memory, pairs->rows, pairs_bytes(pairs));
}

/*
 * Changes the ring to one without these pairs. Returns false, with the ring unchanged, if none exists or out of memory.
 */
static bool reorder(struct pccl_master *m, struct pccl_peer_group *group, struct pairs *pairs)
{
    uint32_t count = group->ring_count;
    uint32_t *order = pccl_allocate(&m->memory, 2 * count * sizeof *order);
    bool found = false, changes = false;
    if (order != NULL) {
        for (uint32_t i = 0; i < count; i++)
            order[i] = i;
        found = pccl_ring_avoiding(order, count, bad_pair, pairs, order + count);
        for (uint32_t i = 0; i < count; i++)
            changes = changes || order[i] != i;
        found = found && (!changes || pccl_master_reorder(m, group, order));
    }
    pccl_release(&m->memory, order, 2 * count * sizeof *order);
    return found;
}

/*
 * Changes the ring to one without failing or known bad links, and without links between members that are apart. If none
 * exists, accepts failing links, because a failure may end soon; then links between members that are apart, if no dial
 * has failed. Returns false if no ring exists even then.
 */
static bool find_better_ring(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool found = false, are_apart = true;
    for (int attempt = 0; group->ring_count > 3 && attempt < 3 && are_apart && !found; attempt++) {
        struct pairs pairs;
        if (!collect_pairs(m, group, attempt == 0, &pairs))
            return false;
        bool any = add_apart(group, attempt == 2, &pairs);
        are_apart = attempt == 0 || any;
        found = reorder(m, group, &pairs);
        drop_pairs(m, &pairs);
    }
    return found;
}

static void log_avoided(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                        struct pccl_text *why)
{
    pccl_text_format(why, "the link from peer %s to peer %s failed and is avoided", pccl_id_str(&from->id),
                     pccl_id_str(&to->id));
    pccl_master_log(m, PCCL_LOG_WARN,
                    &(struct pccl_log_fields){.peer = &from->id, .reason = why->bytes, .event = PCCL_EVENT_LINK_FAILED},
                    "%s", why->bytes);
}

bool pccl_master_avoid_link(struct pccl_master *m, const struct pccl_remote *from, const struct pccl_remote *to,
                            struct pccl_text *why)
{
    if (!find_better_ring(m, from->group))
        return false;
    log_avoided(m, from, to, why);
    return true;
}

void pccl_master_avoid_bad_edges(struct pccl_master *m, struct pccl_peer_group *group)
{
    struct pairs pairs = {0};
    const struct pccl_remote *from = NULL, *to = NULL;
    bool are_apart = false, any = m->edge_count > 0;
    if (group->ring_count < 4 || (any && !collect_pairs(m, group, true, &pairs)))
        return;
    for (uint32_t i = 0; i < group->ring_count && from == NULL; i++) {
        uint32_t next = (i + 1) % group->ring_count;
        are_apart = pccl_master_are_apart(group->ring[i], group->ring[next]);
        if (!are_apart &&
            (!any || !get_pair(&pairs, i, next) || pccl_master_holds_link(group->ring[i], group->ring[next])))
            continue;
        from = group->ring[i];
        to = group->ring[next];
    }
    drop_pairs(m, &pairs);
    struct pccl_text why;
    uint32_t version = group->ring_version;
    if (from == NULL || !find_better_ring(m, group) || version == group->ring_version)
        return; /* links_failed.c decides which peer is removed if the link fails */
    if (!are_apart)
        log_avoided(m, from, to, &why);
    else
        pccl_master_log(m, PCCL_LOG_INFO, &(struct pccl_log_fields){.peer = &from->id},
                        "peers %s and %s are no neighbors in the ring: the master can reach the port of neither",
                        pccl_id_str(&from->id), pccl_id_str(&to->id));
}

void pccl_master_count_bad_links(struct pccl_master *m, const struct pccl_remote *one, const struct pccl_remote *other,
                                 uint32_t *of_one, uint32_t *of_other)
{
    const struct pccl_peer_group *group = one->group;
    struct pairs pairs;
    *of_one = *of_other = 0;
    if (!collect_pairs(m, group, true, &pairs))
        return;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        *of_one += get_pair(&pairs, one->position, i);
        *of_other += get_pair(&pairs, other->position, i);
    }
    drop_pairs(m, &pairs);
}

bool pccl_master_exclude_bad_links(struct pccl_master *m, const struct pccl_peer_group *group, uint64_t *rates)
{
    struct pairs pairs;
    uint32_t count = group->ring_count;
    if (!collect_pairs(m, group, true, &pairs))
        return false;
    (void)add_apart(group, false, &pairs);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (get_pair(&pairs, i, k) && !pccl_master_holds_link(group->ring[i], group->ring[k]))
                rates[(size_t)group->ring[i]->number * count + group->ring[k]->number] = PCCL_RATE_NONE;
    drop_pairs(m, &pairs);
    return true;
}
