/*
 * Pairs that should hold a link: ring neighbors; in a small group all members (a mesh, so that they can exchange
 * directly), in a larger one hubs (links_hubs.c); and the links of newcomers (membership_newcomers.c).
 */
#include "core/ticket.h"
#include "master/eligibility.h"
#include "master/links.h"
#include "master/output.h"
#include "master/rings.h"
#include "master/roster.h"
#include "master/topology.h"

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
    PCCL_ASSERT((size_t)(intent - from->intents) < from->intent_count); /* of this peer */
    *intent = from->intents[--from->intent_count];
}

void pccl_master_request_link(struct pccl_master *m, struct pccl_remote *from, struct pccl_remote *to)
{
    if (from == to || from->departing || pccl_master_find_intent(from, &to->id) != NULL ||
        add_intent(m, from, &to->id) == NULL)
        return;
    struct pccl_address candidates[PCCL_CANDIDATES_MAX];
    uint32_t count = pccl_master_addresses(to, candidates);
    if (from->state == PCCL_REMOTE_MEMBER && to->state == PCCL_REMOTE_PENDING)
        pccl_master_tell_names(m, from, &(struct pccl_member){.peer = to->id}, 1);
    struct pccl_msg msg = {.type = PCCL_MSG_warm_up,
                           .as.warm_up = {.lineage = m->lineage,
                                          .peer = to->id,
                                          .ticket = pccl_ticket(&to->link_key, &from->id, &to->id),
                                          .candidates = candidates,
                                          .candidates_count = count}};
    pccl_master_send(m, from, &msg, 0);
}

static bool is_of_view(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return to == pccl_master_successor(from) || pccl_master_view_wants(from, to);
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

void pccl_master_forget_links(struct pccl_master *m, const struct pccl_remote *gone)
{
    PCCL_ASSERT(gone->departing);
    for (uint32_t i = 0; i < m->remote_count; i++) {
        struct pccl_remote *remote = m->remotes[i];
        struct pccl_link_intent *intent = remote == gone ? NULL : pccl_master_find_intent(remote, &gone->id);
        if (intent == NULL)
            continue;
        drop_intent(remote, intent);
        if (remote->state == PCCL_REMOTE_PENDING ||
            gone->state == PCCL_REMOTE_PENDING) { /* members learn it from the epoch */
            struct pccl_msg msg = {.type = PCCL_MSG_forget, .as.forget = {.peer = gone->id}};
            pccl_master_send(m, remote, &msg, 0);
        }
    }
}

/* ---- the links of a group ---- */

void pccl_master_request_view_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    bool may_have_more = group->ring_count <= PCCL_HUB_PEERS_MAX;
    for (uint32_t i = 0; i < group->ring_count; i++) {
        struct pccl_remote *from = group->ring[i], *next = pccl_master_successor(from);
        for (uint32_t k = 0; k < from->intent_count;) {
            struct pccl_remote *wanted = pccl_master_find(m, &from->intents[k].to);
            bool member = wanted != NULL && wanted->state == PCCL_REMOTE_MEMBER;
            bool needed =
                wanted == next || (member && pccl_master_view_wants(from, wanted)) || from->intents[k].subgroups > 0;
            if (wanted == NULL || (member && !needed))
                drop_intent(from, &from->intents[k]);
            else
                k++;
        }
        pccl_master_request_link(m, from, next);
        for (uint32_t k = 0; may_have_more && k < group->ring_count; k++)
            if (pccl_master_view_wants(from, group->ring[k]))
                pccl_master_request_link(m, from, group->ring[k]);
    }
}

void pccl_master_request_better_links(struct pccl_master *m, struct pccl_peer_group *group)
{
    const uint32_t *ring = group->tuning.better;
    for (uint32_t i = 0; pccl_master_has_better(group) && i < group->ring_count; i++)
        pccl_master_request_link(m, group->ring[ring[i]], pccl_master_next_of(group, ring, i));
}
