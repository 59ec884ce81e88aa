/*
 * Limits the number of waiting newcomers (membership_queues.c), requests their links, determines their eligibility, and
 * enforces their time limit (PROTOCOL 11). The members' votes decide when they are admitted.
 */
#include "master/membership_internal.h"
#include "master/links.h"
#include "master/shortages.h"
#include "master/output.h"
#include "master/roster.h"

enum {
    /* maximum number of newcomers of one group and address that warm up at once */
    WARM_UP_WIDTH = 16,
    WARM_UP_WIDTH_ALL = 4 * WARM_UP_WIDTH, /* the same for one group, over all addresses */
};

/* Returns the newcomer after `newcomer` in its queue, or the first one if it is NULL. Returns NULL at the end. */
static struct pccl_remote *next_in_queue(struct pccl_master *m, struct pccl_queue *queue, struct pccl_remote *newcomer)
{
    struct pccl_list_node *node = newcomer != NULL ? newcomer->in_queue.next : queue->newcomers.next;
    m->newcomers_visited++;
    return node != &queue->newcomers ? PCCL_CONTAINER_OF(node, struct pccl_remote, in_queue) : NULL;
}

/* ---- room ---- */

/* Returns the newcomer whose address has more waiting newcomers; if the counts are equal, returns the second one. */
static struct pccl_remote *worse(struct pccl_remote *a, struct pccl_remote *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    return b->site->count >= a->site->count ? b : a;
}

/*
 * Evicts a newcomer of the address with the most waiting newcomers if it has at least two more than `of_site`, so that
 * no address can keep others out. `queue` limits the choice; NULL: all queues. Returns true if one was evicted.
 */
static bool evict_for(struct pccl_master *m, struct pccl_queue *queue, uint32_t of_site)
{
    struct pccl_remote *evicted = NULL;
    for (struct pccl_remote *i = queue != NULL ? next_in_queue(m, queue, NULL) : NULL; i != NULL;
         i = next_in_queue(m, queue, i))
        evicted = worse(evicted, i);
    for (uint32_t i = 0; queue == NULL && i < m->remote_count; i++)
        if (m->remotes[i]->queue != NULL)
            evicted = worse(evicted, m->remotes[i]);
    if (evicted == NULL || evicted->site->count <= of_site + 1)
        return false;
    pccl_master_remove(m, evicted, PCCL_REFUSAL_FULL,
                       "too many newcomers are waiting, most of them from its address (%u): dropped to make room for "
                       "another; try again",
                       evicted->site->count);
    return true;
}

bool pccl_master_make_room(struct pccl_master *m, uint32_t group_number, const struct pccl_address *from,
                           struct pccl_text *reason)
{
    const struct pccl_site *site = pccl_master_find_site(m, from);
    struct pccl_queue *queue = pccl_master_find_queue(m, group_number);
    uint32_t of_site = site != NULL ? site->count : 0;
    if (of_site >= PCCL_NEWCOMERS_OF_ADDRESS_MAX) {
        pccl_text_format(reason, "%u newcomers from this address are already waiting for admission; try again later",
                         of_site);
        return false;
    }
    if (queue != NULL && queue->count >= PCCL_NEWCOMERS_OF_GROUP_MAX && !evict_for(m, queue, of_site)) {
        pccl_text_format(reason, "%u newcomers of group %u are already waiting for admission; try again later",
                         queue->count, group_number);
        return false;
    }
    if (m->newcomer_count >= PCCL_NEWCOMERS_MAX && !evict_for(m, NULL, of_site)) {
        pccl_text_format(reason, "%u newcomers are already waiting for admission; try again later", m->newcomer_count);
        return false;
    }
    return true;
}

/* ---- choice of newcomers to warm up ---- */

/*
 * Chooses newcomers to warm up: takes the addresses in turn, and the newcomers of each in order of arrival. Chosen
 * newcomers stay chosen.
 */
static void choose(struct pccl_master *m, struct pccl_queue *queue)
{
    uint32_t chosen = 0;
    for (struct pccl_remote *i = next_in_queue(m, queue, NULL); i != NULL; i = next_in_queue(m, queue, i))
        i->site->warming_here = 0;
    for (struct pccl_remote *i = next_in_queue(m, queue, NULL); i != NULL; i = next_in_queue(m, queue, i)) {
        chosen += i->warming;
        i->site->warming_here += i->warming;
    }
    while (chosen < WARM_UP_WIDTH_ALL) {
        struct pccl_remote *next = NULL;
        for (struct pccl_remote *i = next_in_queue(m, queue, NULL); i != NULL; i = next_in_queue(m, queue, i))
            if (!i->warming && (next == NULL || i->site->warming_here < next->site->warming_here))
                next = i;
        if (next == NULL || next->site->warming_here >= WARM_UP_WIDTH)
            return;
        next->warming = true;
        next->site->warming_here++;
        chosen++;
    }
}

/* Collects the newcomers that warm up, in order of arrival. The pointers stay valid during the step of the master. */
static uint32_t collect(struct pccl_master *m, struct pccl_queue *queue, struct pccl_remote **warming)
{
    uint32_t count = 0;
    for (struct pccl_remote *i = next_in_queue(m, queue, NULL); i != NULL; i = next_in_queue(m, queue, i))
        if (i->warming)
            warming[count++] = i;
    return count;
}

/* Requests links between all members and these newcomers, if the group including them is small. */
static void plan_mesh(struct pccl_master *m, const struct pccl_peer_group *group, struct pccl_remote **planned,
                      uint32_t planned_count)
{
    uint32_t members = group != NULL ? group->ring_count : 0;
    for (uint32_t i = 0; pccl_master_is_small(members + planned_count) && i < planned_count; i++) {
        for (uint32_t k = 0; k < members + i; k++) {
            struct pccl_remote *other = k < members ? group->ring[k] : planned[k - members];
            pccl_master_request_link(m, other, planned[i]);
            pccl_master_request_link(m, planned[i], other);
        }
    }
}

/* Returns the first member after which the newcomer fits and no earlier newcomer is placed; NULL if no place fits. */
static const struct pccl_remote *find_gap(const struct pccl_peer_group *group, struct pccl_remote **warming,
                                          uint32_t index)
{
    for (uint32_t i = 0; i + 1 < group->ring_count; i++) {
        const struct pccl_remote *previous = group->ring[i];
        bool taken = pccl_master_are_apart(previous, warming[index]) ||
                     pccl_master_are_apart(warming[index], group->ring[i + 1]);
        for (uint32_t k = 0; k < index && !taken; k++)
            taken = warming[k]->follows == previous;
        if (!taken)
            return previous;
    }
    return NULL;
}

/*
 * Chooses the newcomers' places in the ring: at its end, in this order. A newcomer that is apart from a neighbor at the
 * end is placed between two other members if it fits there.
 */
static void place(const struct pccl_peer_group *group, struct pccl_remote **warming, uint32_t count)
{
    const struct pccl_remote *last = group != NULL && group->ring_count > 0 ? group->ring[group->ring_count - 1] : NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool fits = last == NULL ||
                    (!pccl_master_are_apart(last, warming[i]) && !pccl_master_are_apart(warming[i], group->ring[0]));
        warming[i]->follows = fits ? NULL : find_gap(group, warming, i);
        if (last != NULL && warming[i]->follows == NULL)
            last = warming[i];
    }
}

/* Requests the links that a newcomer needs between these two; its time limit begins with the first request. */
static void request_links(struct pccl_master *m, struct pccl_remote *previous, struct pccl_remote *remote,
                          struct pccl_remote *next)
{
    if (pccl_master_find_intent(previous, &remote->id) == NULL && pccl_master_find_intent(remote, &next->id) == NULL)
        remote->warm_since_us = m->now_us;
    pccl_master_request_link(m, previous, remote);
    pccl_master_request_link(m, remote, next);
}

/*
 * Requests the links that newcomers n1, n2, ... need before they are appended to a ring first ... last, so that any
 * number of them can join in this order: last -> n, n -> first, and n1 -> n2 -> ... A newcomer that is placed elsewhere
 * needs links from and to its neighbors there.
 */
static void plan(struct pccl_master *m, struct pccl_queue *queue)
{
    const struct pccl_peer_group *group = pccl_master_group(m, queue->number, false);
    bool is_new = group == NULL || group->ring_count == 0;
    struct pccl_remote *first = is_new ? NULL : group->ring[0];
    struct pccl_remote *last = is_new ? NULL : group->ring[group->ring_count - 1];
    struct pccl_remote *previous = NULL, *planned[WARM_UP_WIDTH_ALL] = {NULL};
    choose(m, queue);
    uint32_t count = collect(m, queue, planned);
    place(group, planned, count);
    /* a request may remove a peer, and the queue is freed with its last newcomer */
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_remote *remote = planned[i];
        if (is_new && previous == NULL) {
            first = last = previous = remote; /* the first one in a new group */
            continue;
        }
        if (remote->follows != NULL) {
            request_links(m, group->ring[remote->follows->position], remote, pccl_master_successor(remote->follows));
            continue;
        }
        request_links(m, last, remote, first);
        if (previous != NULL)
            pccl_master_request_link(m, previous, remote);
        previous = remote;
    }
    plan_mesh(m, group, planned, count);
}

/* ---- eligibility ---- */

static bool may_open(const struct pccl_link_intent *intent) { return !intent->up && !intent->failed; }

/*
 * Returns true if warming[index] no longer needs to wait for links of the mesh. `group` is its group, or NULL for a new
 * one. `eligible` must be current for all newcomers before it in the queue, because the eligible ones would be admitted
 * first.
 *
 * Links of the mesh never prevent an admission. An admission waits for them only briefly, and only while they may still
 * come up.
 */
static bool mesh_is_decided(const struct pccl_master *m, const struct pccl_peer_group *group,
                            struct pccl_remote **warming, uint32_t index)
{
    const struct pccl_remote *remote = warming[index];
    uint32_t members = group != NULL ? group->ring_count : 0;
    uint32_t patience_ms = m->config.mesh_ms < m->config.warm_up_ms ? m->config.mesh_ms : m->config.warm_up_ms;
    if (!pccl_master_is_small(members + 1) || m->now_us >= remote->warm_since_us + patience_ms * UINT64_C(1000))
        return true;
    bool open = false;
    for (uint32_t k = 0; k < members + index; k++) {
        const struct pccl_remote *other = k < members ? group->ring[k] : warming[k - members];
        if (k >= members && !other->eligible)
            continue;
        const struct pccl_link_intent *to = pccl_master_find_intent(remote, &other->id),
                                      *from = pccl_master_find_intent(other, &remote->id);
        if (to == NULL || from == NULL)
            return true; /* no mesh is possible */
        open = open || may_open(to) || may_open(from);
    }
    return !open;
}

/*
 * Returns true if a newcomer may be the first of its group. It needs no link, so the master's own dial must reach it.
 * If the dial failed or was lost, the newcomer must have sent something since then: joint calls wait for every member,
 * and must not wait for a peer that sends only a hello.
 */
static bool may_be_first(const struct pccl_master *m, const struct pccl_remote *remote)
{
    if (remote->verified)
        return true;
    bool failed = remote->unanswered_us != 0;
    if (!failed && remote->probing && m->now_us < remote->warm_since_us + m->config.warm_up_ms * UINT64_C(1000))
        return false;
    return remote->received_us > (failed ? remote->unanswered_us : remote->warm_since_us);
}

/*
 * Returns the number of first members of new groups that may still be admitted. It is limited because each change of
 * the membership is sent to every member.
 */
static uint32_t room_for_firsts(const struct pccl_master *m)
{
    uint32_t room = PCCL_UNTRIED_MAX;
    for (uint32_t i = 0; i < m->remote_count && room > 0; i++)
        room -= m->remotes[i]->untried ? 1 : 0;
    return room;
}

/* Marks the eligible newcomers and returns their number. Reduces `room` by the number of first members of groups. */
static uint32_t judge(struct pccl_master *m, uint32_t group_number, struct pccl_remote **warming, uint32_t count,
                      uint32_t *room)
{
    const struct pccl_peer_group *group = pccl_master_group(m, group_number, false);
    struct pccl_remote *first = group != NULL && group->ring_count > 0 ? group->ring[0] : NULL;
    struct pccl_remote *last = first != NULL ? group->ring[group->ring_count - 1] : NULL;
    uint32_t eligible = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct pccl_remote *remote = warming[i];
        const struct pccl_remote *follows = remote->follows;
        const struct pccl_remote *previous = follows != NULL ? follows : last;
        const struct pccl_remote *next = follows != NULL ? pccl_master_successor(follows) : first;
        remote->eligible = remote->conn != 0 && (first == NULL ? *room > 0 && may_be_first(m, remote)
                                                               : pccl_master_holds_link(previous, remote) &&
                                                                     pccl_master_holds_link(remote, next) &&
                                                                     mesh_is_decided(m, group, warming, i));
        if (!remote->eligible)
            continue;
        *room -= first == NULL ? 1 : 0;
        first = first != NULL ? first : remote;
        if (follows == NULL)
            last = remote; /* the next newcomer follows it in the ring */
        eligible++;
    }
    return eligible;
}

uint32_t pccl_master_eligible(struct pccl_master *m)
{
    uint32_t eligible = 0, room = room_for_firsts(m);
    for (struct pccl_table_node *node = pccl_table_first(&m->queues); node != NULL;
         node = pccl_table_after(&m->queues, node)) {
        struct pccl_queue *queue = PCCL_CONTAINER_OF(node, struct pccl_queue, by_number);
        struct pccl_remote *warming[WARM_UP_WIDTH_ALL];
        uint32_t count = collect(m, queue, warming);
        eligible += judge(m, queue->number, warming, count, &room);
    }
    return eligible;
}

/* ---- time limits ---- */

/* Returns the newcomer or its future neighbor if it has reported a shortage since the warm-up began; NULL otherwise. */
static const struct pccl_remote *find_lack(const struct pccl_remote *last, const struct pccl_remote *unready,
                                           const struct pccl_remote *next)
{
    const struct pccl_remote *ends[] = {unready, next, last};
    for (uint32_t i = 0; i < PCCL_COUNT_OF(ends); i++)
        if (ends[i] != NULL && pccl_master_reported_shortage_since(ends[i], unready->warm_since_us))
            return ends[i];
    return NULL;
}

static void reject(struct pccl_master *m, struct pccl_remote *unready)
{
    const struct pccl_peer_group *group = pccl_master_group(m, unready->group_number, false);
    const bool any = group != NULL && group->ring_count > 0;
    const struct pccl_remote *last = unready->follows != NULL ? unready->follows
                                     : any                    ? group->ring[group->ring_count - 1]
                                                              : NULL;
    const struct pccl_remote *next = any ? pccl_master_successor(last) : NULL;
    const struct pccl_remote *lacks = find_lack(last, unready, next);
    const char *patience = pccl_duration_str(m->config.warm_up_ms * UINT64_C(1000));
    if (lacks != NULL) {
        struct pccl_text words;
        pccl_text_format(&words, "no link between it and its future neighbor within %s: ", patience);
        pccl_master_describe_shortage(lacks, &words);
        pccl_master_remove(m, unready, PCCL_REFUSAL_NOT_WARM, "%s", words.bytes);
        return;
    }
    const struct pccl_remote *closed = NULL;
    if (next != NULL && pccl_master_is_unreached(unready))
        closed = pccl_master_is_unreached(next) ? next : pccl_master_is_unreached(last) ? last : NULL;
    if (closed != NULL)
        pccl_master_remove(m, unready, PCCL_REFUSAL_NOT_WARM,
                           "no link between it and its future neighbor, peer %s, within %s: the master can reach the "
                           "port of neither, and a link requires one such port (is one forwarded? At most half of the "
                           "members, one of two or three, can do without)",
                           pccl_id_str(&closed->id), patience);
    else if (next != NULL && !pccl_master_holds_link(unready, next))
        pccl_master_remove(
            m, unready, PCCL_REFUSAL_NOT_WARM,
            "it could not open a link to its future neighbor, peer %s, within %s (is that peer's port reachable?)",
            pccl_id_str(&next->id), patience);
    else
        pccl_master_remove(m, unready, PCCL_REFUSAL_NOT_WARM,
                           "its future neighbor could not open a link to it within %s (is its port reachable?)",
                           patience);
}

static void reject_unready(struct pccl_master *m, struct pccl_queue *queue)
{
    uint64_t patience_us = m->config.warm_up_ms * UINT64_C(1000);
    struct pccl_remote *warming[WARM_UP_WIDTH_ALL];
    uint32_t count = collect(m, queue, warming), unready = 0, room = 1;
    (void)judge(m, queue->number, warming, count, &room);
    queue->due_us = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (warming[i]->eligible || warming[i]->intent_count == 0)
            continue;
        uint64_t due_us = warming[i]->warm_since_us + patience_us;
        if (m->now_us < due_us)
            queue->due_us = pccl_min_u64(queue->due_us, due_us);
        else
            warming[unready++] = warming[i];
    }
    for (uint32_t i = 0; i < unready; i++) /* the queue is freed with its last newcomer */
        reject(m, warming[i]);
}

static void reject_all_overdue(struct pccl_master *m)
{
    struct pccl_table_node *next;
    for (struct pccl_table_node *node = pccl_table_first(&m->queues); node != NULL; node = next) {
        struct pccl_queue *queue = PCCL_CONTAINER_OF(node, struct pccl_queue, by_number);
        next = pccl_table_after(&m->queues, node);
        if (m->now_us >= queue->due_us)
            reject_unready(m, queue);
    }
    m->newcomers_due_us = UINT64_MAX;
    for (struct pccl_table_node *node = pccl_table_first(&m->queues); node != NULL;
         node = pccl_table_after(&m->queues, node))
        m->newcomers_due_us =
            pccl_min_u64(m->newcomers_due_us, PCCL_CONTAINER_OF(node, struct pccl_queue, by_number)->due_us);
}

void pccl_master_plan_warm_up(struct pccl_master *m)
{
    if (!m->founded || m->recovering || m->shut)
        return;
    while (!pccl_list_is_empty(&m->stale_queues)) {
        struct pccl_queue *queue = PCCL_CONTAINER_OF(m->stale_queues.next, struct pccl_queue, stale);
        uint32_t number = queue->number;
        pccl_list_remove(&queue->stale);
        plan(m, queue);
        queue = pccl_master_find_queue(m, number);
        if (queue == NULL)
            continue;
        reject_unready(m, queue);
        queue = pccl_master_find_queue(m, number);
        if (queue != NULL)
            m->newcomers_due_us = pccl_min_u64(m->newcomers_due_us, queue->due_us);
    }
    if (m->now_us >= m->newcomers_due_us)
        reject_all_overdue(m);
    pccl_master_arm(m, m->newcomers_due_us);
}
