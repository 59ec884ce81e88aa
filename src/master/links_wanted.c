/*
 * Requests the links that peers should hold: between ring neighbors; in a small group between all members (a mesh, for
 * direct exchange), in a larger one for hubs (links_hubs.c); and the links of newcomers (membership_newcomers.c).
 */
#include "core/ticket.h"
#include "master/links_internal.h"
#include "master/output.h"
#include "master/roster.h"
#include "wire/cost.h"

/* ---- questions ---- */

struct pccl_link_intent *pccl_master_find_intent(const struct pccl_remote *from, const struct pccl_id *to)
{
    for (uint32_t i = 0; i < from->intent_count; i++)
        if (pccl_id_equal(&from->intents[i].to, to))
            return &from->intents[i];
    return NULL;
}

bool pccl_master_holds_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    return from == to || (intent != NULL && intent->up);
}

struct pccl_remote *pccl_master_successor(const struct pccl_remote *remote)
{
    PCCL_ASSERT(remote->group != NULL);
    return remote->group->ring[(remote->position + 1) % remote->group->ring_count];
}

bool pccl_master_serves_subgroups(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    return intent != NULL && intent->subgroups > 0;
}

/* Returns true if the group's view includes this link outside the ring, for a mesh or a hub, even if it is down. */
static bool view_wants(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_peer_group *group = from->group;
    return group == to->group && pccl_cost_wants(&group->cost, group->ring_count, from->rank, to->rank);
}

bool pccl_master_exchanges_directly(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from->group->cost.mesh != 0 && view_wants(from, to);
}

bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from == to || from->group == NULL || from->group != to->group)
        return false;
    return pccl_master_exchanges_directly(from, to) || pccl_master_successor(from) == to ||
           pccl_master_serves_subgroups(from, to);
}

bool pccl_master_are_neighbors(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return pccl_master_is_living_member(from) && pccl_master_is_living_member(to) && from->group == to->group &&
           from != to && pccl_master_successor(from) == to;
}

const struct pccl_figure *pccl_master_link_figure(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from->group != NULL && from->group == to->group
               ? pccl_matrix_at(&from->group->matrix, from->place, to->place)
               : NULL;
}

/* Returns true if data has been sent over this link. */
static bool has_carried(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_figure *figure = pccl_master_link_figure(from, to);
    return figure != NULL && figure->rate != 0;
}

bool pccl_master_are_apart(const struct pccl_remote *a, const struct pccl_remote *b)
{
    return a != b && pccl_master_is_unreached(a) && pccl_master_is_unreached(b) && !pccl_master_holds_link(a, b) &&
           !pccl_master_holds_link(b, a) && !has_carried(a, b) && !has_carried(b, a);
}

/* ---- requests ---- */

static struct pccl_link_intent *add_intent(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    struct pccl_link_intent *intents =
        pccl_grow(&m->memory, from->intents, &from->intent_capacity, from->intent_count + 1, sizeof *intents);
    if (intents == NULL) {
        pccl_master_remove(m, from, PCCL_REFUSAL_FULL, "out of memory");
        return NULL;
    }
    from->intents = intents;
    intents[from->intent_count] = (struct pccl_link_intent){.to = *to};
    return &intents[from->intent_count++];
}

static void drop_intent(struct pccl_remote *from, struct pccl_link_intent *intent)
{
    PCCL_ASSERT((size_t)(intent - from->intents) < from->intent_count); /* it belongs to this peer */
    *intent = from->intents[--from->intent_count];
}

bool pccl_master_is_reversed(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return to->closed && from->verified;
}

static void send_warm_up(struct pccl_master *m, struct pccl_remote *from, const struct pccl_remote *to, bool answers)
{
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(to, candidates);
    struct pccl_msg msg = {.type = PCCL_MSG_warm_up,
                           .as.warm_up = {.lineage = m->lineage,
                                          .peer = to->id,
                                          .ticket = pccl_ticket(&to->link_key, &from->id, &to->id),
                                          .answers = answers,
                                          .reversed = pccl_master_is_reversed(from, to),
                                          .apart = pccl_master_are_apart(from, to),
                                          .candidates = candidates,
                                          .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

/* Sends the request for a link with this record. */
static void request(struct pccl_master *m, struct pccl_remote *from, const struct pccl_remote *to,
                    struct pccl_link_intent *intent)
{
    intent->reversed = pccl_master_is_reversed(from, to);
    send_warm_up(m, from, to, false);
}

void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (from == to || from->departing || pccl_master_find_intent(from, &to->id) != NULL)
        return;
    struct pccl_link_intent *intent = add_intent(m, from, &to->id);
    if (intent == NULL)
        return;
    if (from->state == PCCL_REMOTE_MEMBER && to->state == PCCL_REMOTE_PENDING)
        pccl_master_send_names(m, from, &(struct pccl_member){.peer = to->id}, 1);
    request(m, from, to, intent);
}

void pccl_master_update_requests(struct pccl_master *m, struct pccl_remote *remote)
{
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *from = m->remotes[i];
        for (uint32_t k = 0; k < from->intent_count && !from->departing; k++) {
            struct pccl_link_intent *intent = &from->intents[k];
            struct pccl_remote *to =
                from == remote || pccl_id_equal(&intent->to, &remote->id) ? pccl_master_find(m, &intent->to) : NULL;
            if (to == NULL || intent->up)
                continue;
            bool may_be_apart = pccl_master_is_unreached(from == remote ? to : from);
            if (may_be_apart || intent->reversed != pccl_master_is_reversed(from, to))
                request(m, from, to, intent);
        }
    }
}

/* Ignores a destination that is no longer a member: the view that ends the sends to it is under way. */
void pccl_master_send_address(struct pccl_master *m, struct pccl_remote *from, const struct pccl_id *to)
{
    const struct pccl_remote *wanted = pccl_master_find(m, to);
    if (wanted == from)
        pccl_master_remove(m, from, PCCL_REFUSAL_PROTOCOL, "it requested a link to itself");
    else if (wanted != NULL && pccl_master_is_living_member(wanted) && wanted->group == from->group)
        send_warm_up(m, from, wanted, true);
}

void pccl_master_correct_request(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent != NULL && !intent->up)
        request(m, from, to, intent);
    else if (intent == NULL && from != to && pccl_master_is_living_member(from))
        pccl_master_send_address(m, from, &to->id);
}

static bool is_of_view(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return to == pccl_master_successor(from) || view_wants(from, to);
}

void pccl_master_count_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to, bool more)
{
    PCCL_ASSERT(from != to);
    if (more)
        pccl_master_request_link(m, from, to);
    struct pccl_link_intent *intent = pccl_master_find_intent(from, &to->id);
    if (intent == NULL || from->departing)
        return;
    PCCL_ASSERT(more || intent->subgroups > 0);
    intent->subgroups = more ? intent->subgroups + 1 : intent->subgroups - 1;
    if (intent->subgroups == 0 && !is_of_view(from, to))
        drop_intent(from, intent);
}
static void forget_edges(struct pccl_master *m, const struct pccl_remote *gone)
{
    for (uint32_t i = 0; i < m->edge_count;) {
        if (pccl_id_equal(&m->edges[i].to, &gone->id) || pccl_id_equal(&m->edges[i].from, &gone->id))
            m->edges[i] = m->edges[--m->edge_count];
        else
            i++;
    }
}

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone)
{
    PCCL_ASSERT(gone->departing);
    forget_edges(m, gone);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        struct pccl_link_intent *intent = remote == gone ? NULL : pccl_master_find_intent(remote, &gone->id);
        if (intent == NULL)
            continue;
        drop_intent(remote, intent);
        if (remote->state == PCCL_REMOTE_PENDING ||
            gone->state == PCCL_REMOTE_PENDING) { /* members learn this from the epoch */
            struct pccl_msg msg = {.type = PCCL_MSG_forget, .as.forget = {.peer = gone->id}};
            pccl_master_send(m, remote, &msg, 0);
        }
    }
}

void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool may_have_more = group->ring_count <= PCCL_HUB_PEERS_MAX;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[i], *next = pccl_master_successor(from);
        for (uint32_t k = 0; k < from->intent_count;) {
            struct pccl_remote *wanted = pccl_master_find(m, &from->intents[k].to);
            bool member = wanted != NULL && wanted->state == PCCL_REMOTE_MEMBER;
            bool needed = wanted == next || (member && view_wants(from, wanted)) || from->intents[k].subgroups > 0;
            if (wanted == NULL || (member && !needed))
                drop_intent(from, &from->intents[k]);
            else
                k++;
        }
        pccl_master_request_link(m, from, next);
        for (uint32_t k = 0; may_have_more && k < group->ring_count; k++)
            if (view_wants(from, group->ring[k]))
                pccl_master_request_link(m, from, group->ring[k]);
    }
}
