/*
 * Who should hold a link to whom: ring neighbours; in a small group all members (a mesh, so that they can exchange
 * directly); and the links newcomers need before they can be admitted (PROTOCOL 11). What the master knows of these
 * links makes the cost data of a view.
 */
#include "master/internal.h"
#include "wire/cost.h"

#include <string.h>

enum { WARM_UP_WIDTH = 16 }; /* newcomers of a group that are warmed up at once */

struct pccl_want *pccl_master_want(const struct pccl_remote *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < from->want_count; i++)
        if (pccl_id_equal(&from->wants[i].to, to))
            return &from->wants[i];
    return NULL;
}

static struct pccl_want *add_want(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    struct pccl_want *wants =
        pccl_grow(&m->memory, from->wants, &from->want_capacity, from->want_count + 1, sizeof *wants);
    if (wants == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    from->wants = wants;
    wants[from->want_count] = (struct pccl_want){.to = *to};
    return &wants[from->want_count++];
}

static void drop_want(struct pccl_remote *from, struct pccl_want *want) { *want = from->wants[--from->want_count]; }

void pccl_master_ask_for_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (from == to || from->departing || pccl_master_want(from, &to->id) != NULL || add_want(m, from, &to->id) == NULL)
        return;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(to, candidates);
    if (from->state == PCCL_REMOTE_MEMBER && to->state == PCCL_REMOTE_PENDING)
        pccl_master_tell_names(m, from, &(struct pccl_member){.peer = to->id}, 1);
    struct pccl_msg msg = {
        .type = PCCL_MSG_warm_up,
        .as.warm_up = {.lineage = m->lineage, .peer = to->id, .candidates = candidates, .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_want *want = pccl_master_want(from, &to->id);
    return from == to || (want != NULL && want->up);
}

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        struct pccl_want *want = remote == gone ? NULL : pccl_master_want(remote, &gone->id);
        if (want == NULL)
            continue;
        drop_want(remote, want);
        if (remote->state == PCCL_REMOTE_PENDING ||
            gone->state == PCCL_REMOTE_PENDING) { /* members learn it from the epoch */
            struct pccl_msg msg = {.type = PCCL_MSG_forget, .as.forget = {.peer = gone->id}};
            pccl_master_send(m, remote, &msg, 0);
        }
    }
}

/* ---- the links of a group ---- */

static bool is_small(uint32_t members) { return members <= PCCL_MESH_PEERS_MAX; }

static struct pccl_remote *successor_of(const struct pccl_remote *remote)
{
    return remote->group->ring[(remote->position + 1) % remote->group->ring_count];
}

bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from != to && from->group != NULL && from->group == to->group &&
           (from->group->cost.mesh != 0 || successor_of(from) == to);
}

void pccl_master_want_links(struct pccl_master *m, struct pccl_group *group)
{
    bool mesh = is_small(group->ring_count);
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[i], *next = successor_of(from);
        for (uint32_t k = 0; k < from->want_count;) {
            struct pccl_remote *wanted = pccl_master_find(m, &from->wants[k].to);
            bool member = wanted != NULL && wanted->state == PCCL_REMOTE_MEMBER;
            if (wanted == NULL || (member && wanted != next && !(mesh && wanted->group == group)))
                drop_want(from, &from->wants[k]);
            else
                k++;
        }
        pccl_master_ask_for_link(m, from, next);
        for (uint32_t k = 0; mesh && k < group->ring_count; k++)
            pccl_master_ask_for_link(m, from, group->ring[k]);
    }
}

/* Of all pairs the longest round trip and the lowest rate; nothing if there is a pair of which nothing is known. */
static void add_mesh(const struct pccl_group *group, struct pccl_cost *cost)
{
    uint64_t slowest = UINT64_MAX, rate;
    uint32_t longest_us = 0, rtt_us;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        for (uint32_t k = 0; k < group->ring_count; k++) {
            if (i == k)
                continue;
            pccl_master_way(group->ring[i], group->ring[k], &rate, &rtt_us);
            if (rate == 0)
                return;
            slowest = pccl_min_u64(slowest, rate);
            longest_us = (uint32_t)pccl_max_u64(longest_us, rtt_us);
        }
    }
    cost->mesh_rate = slowest;
    cost->mesh_rtt_us = longest_us;
}

/* As the master knows it now: of the ring's links the longest round trip and the lowest rate. */
static struct pccl_cost cost_of(const struct pccl_group *group)
{
    uint32_t count = group->ring_count;
    struct pccl_cost cost = {.mesh = count > 1 && is_small(count)};
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        const struct pccl_remote *from = group->ring[i];
        uint64_t rate;
        uint32_t rtt_us;
        pccl_master_way(from, successor_of(from), &rate, &rtt_us);
        cost.rtt_us = (uint32_t)pccl_max_u64(cost.rtt_us, rtt_us);
        if (rate != 0 && (cost.rate == 0 || rate < cost.rate))
            cost.rate = rate;
        for (uint32_t k = 0; cost.mesh != 0 && k < count; k++)
            cost.mesh = pccl_master_holds_link(from, group->ring[k]);
    }
    if (cost.mesh != 0)
        add_mesh(group, &cost);
    return cost;
}

void pccl_master_decide_cost(struct pccl_group *group) { group->cost = cost_of(group); }

/* Links of the mesh that are down have their own time to settle: figures alone must not end direct exchange. */
static bool has_moved(const struct pccl_cost *was, const struct pccl_cost *now)
{
    return was->mesh == now->mesh &&
           (pccl_rtt_moved(was->rtt_us, now->rtt_us) || pccl_rate_moved(was->rate, now->rate) ||
            pccl_rtt_moved(was->mesh_rtt_us, now->mesh_rtt_us) || pccl_rate_moved(was->mesh_rate, now->mesh_rate));
}

uint32_t pccl_master_review_costs(struct pccl_master *m, struct pccl_text *why)
{
    uint32_t found = 0;
    bool any_mesh = false;
    for (uint32_t i = 0; i < m->group_count; i++) {
        struct pccl_group *group = m->groups[i];
        struct pccl_cost now = cost_of(group);
        bool mesh = group->cost.mesh == 0 && now.mesh != 0;
        if (group->changed || !(mesh || has_moved(&group->cost, &now)))
            continue;
        group->changed = true;
        any_mesh = any_mesh || mesh;
        found++;
    }
    if (found > 0)
        pccl_text_format(why, any_mesh ? "all members have links to each other now"
                                       : "links are faster or slower than they were");
    return found;
}

/* ---- newcomers ---- */

/* The group will be small if all of them are admitted: links between everybody. */
static void plan_mesh(struct pccl_master *m, const struct pccl_group *group, struct pccl_remote **planned,
                      uint32_t planned_count)
{
    uint32_t members = group != NULL ? group->ring_count : 0;
    for (uint32_t i = 0; is_small(members + planned_count) && i < planned_count; i++) {
        for (uint32_t k = 0; k < members + i; k++) {
            struct pccl_remote *other = k < members ? group->ring[k] : planned[k - members];
            pccl_master_ask_for_link(m, other, planned[i]);
            pccl_master_ask_for_link(m, planned[i], other);
        }
    }
}

/*
 * The links newcomers n1, n2 ... of a group need to follow its ring first ... last in any prefix of their order:
 * last -> n, n -> first, and n1 -> n2 -> ...
 */
static void plan_group(struct pccl_master *m, uint32_t number)
{
    const struct pccl_group *group = pccl_master_group(m, number, false);
    bool is_new = group == NULL || group->ring_count == 0;
    struct pccl_remote *first = is_new ? NULL : group->ring[0];
    struct pccl_remote *last = is_new ? NULL : group->ring[group->ring_count - 1];
    struct pccl_remote *previous = NULL, *planned[WARM_UP_WIDTH];
    uint32_t planned_count = 0;
    for (uint32_t i = 0; i < m->remote_count && planned_count < WARM_UP_WIDTH; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || remote->group_number != number)
            continue;
        planned[planned_count++] = remote;
        if (is_new && previous == NULL) {
            first = last = previous = remote; /* alone in a new group */
            continue;
        }
        if (pccl_master_want(last, &remote->id) == NULL && pccl_master_want(remote, &first->id) == NULL)
            remote->warm_since_us = m->now_us; /* its patience counts from the first request */
        pccl_master_ask_for_link(m, last, remote);
        pccl_master_ask_for_link(m, remote, first);
        if (previous != NULL)
            pccl_master_ask_for_link(m, previous, remote);
        previous = remote;
    }
    plan_mesh(m, group, planned, planned_count);
}

static void refuse_the_cold(struct pccl_master *m, const bool *admit)
{
    uint64_t patience_us = m->config.warm_up_ms * UINT64_C(1000);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || admit[i] || remote->want_count == 0)
            continue;
        if (m->now_us < remote->warm_since_us + patience_us) {
            pccl_master_arm(m, remote->warm_since_us + patience_us);
            continue;
        }
        const struct pccl_group *group = pccl_master_group(m, remote->group_number, false);
        bool own_fault = group != NULL && group->ring_count > 0 && !pccl_master_holds_link(remote, group->ring[0]);
        pccl_master_remove(m, remote, PCCL_REFUSAL_NOT_WARM, "%s within %d",
                           own_fault ? "it could not open a link to its future neighbour"
                                     : "its future neighbour could not open a link to it (is its port reachable?)",
                           patience_us);
    }
}

void pccl_master_plan_warm_up(struct pccl_master *m)
{
    if (!m->founded || m->recovering || m->shut)
        return;
    bool any = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing)
            continue;
        bool planned = false; /* one newcomer stands for its group */
        for (uint32_t k = 0; k < i && !planned; k++)
            planned =
                m->remotes[k]->state == PCCL_REMOTE_PENDING && m->remotes[k]->group_number == remote->group_number;
        if (!planned)
            plan_group(m, remote->group_number);
        any = true;
    }
    bool *admit = any ? pccl_allocate(&m->memory, m->remote_count * sizeof *admit) : NULL;
    if (admit == NULL)
        return;
    uint32_t count = m->remote_count;
    (void)pccl_master_eligible(m, admit);
    refuse_the_cold(m, admit);
    pccl_release(&m->memory, admit, count * sizeof *admit);
}

static bool may_come_up(const struct pccl_want *want) { return !want->up && !want->failed; }

/*
 * Links of the mesh never prevent an admission: it waits for them as long as they may still come up, and not for long.
 * `admit` marks those who would come in before it.
 */
static bool mesh_is_settled(const struct pccl_master *m, const struct pccl_group *group,
                            const struct pccl_remote *remote, const bool *admit)
{
    uint32_t members = group != NULL ? group->ring_count : 0;
    uint32_t patience_ms = m->config.mesh_ms < m->config.warm_up_ms ? m->config.mesh_ms : m->config.warm_up_ms;
    if (!is_small(members + 1) || m->now_us >= remote->warm_since_us + patience_ms * UINT64_C(1000))
        return true;
    bool open = false;
    for (uint32_t k = 0; k < members + remote->index; k++) {
        const struct pccl_remote *other = k < members ? group->ring[k] : m->remotes[k - members];
        if (k >= members && (!admit[other->index] || other->group_number != remote->group_number))
            continue;
        const struct pccl_want *to = pccl_master_want(remote, &other->id), *from = pccl_master_want(other, &remote->id);
        if (to == NULL || from == NULL)
            return true; /* there will be no mesh */
        open = open || may_come_up(to) || may_come_up(from);
    }
    return !open;
}

uint32_t pccl_master_eligible(struct pccl_master *m, bool *admit)
{
    uint32_t count = 0;
    memset(admit, 0, m->remote_count * sizeof *admit);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_PENDING || remote->departing || remote->conn == 0)
            continue;
        const struct pccl_group *group = pccl_master_group(m, remote->group_number, false);
        struct pccl_remote *first = group != NULL && group->ring_count > 0 ? group->ring[0] : NULL;
        struct pccl_remote *last = first != NULL ? group->ring[group->ring_count - 1] : NULL;
        for (uint32_t k = 0; k < i; k++) { /* those admitted before it stand between */
            if (!admit[k] || m->remotes[k]->group_number != remote->group_number)
                continue;
            first = first != NULL ? first : m->remotes[k];
            last = m->remotes[k];
        }
        admit[i] = first == NULL || (pccl_master_holds_link(last, remote) && pccl_master_holds_link(remote, first) &&
                                     mesh_is_settled(m, group, remote, admit));
        count += admit[i];
    }
    return count;
}
