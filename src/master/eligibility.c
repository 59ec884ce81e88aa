/*
 * Predicates of peers and groups: who may be admitted, who has yet to vote, who is linked to whom, and whose word
 * counts. They read and change nothing, and do not know what is decided by them.
 */
#include "master/eligibility.h"
#include "master/recovery.h"
#include "master/roster.h"
#include "wire/cost.h"

/* ---- links ---- */

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

bool pccl_master_view_wants(const struct pccl_remote *from, const struct pccl_remote *to)
{
    const struct pccl_peer_group *group = from->group;
    return group == to->group && pccl_cost_wants(&group->cost, group->ring_count, from->rank, to->rank);
}

bool pccl_master_goes_directly(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return from->group->cost.mesh != 0 && pccl_master_view_wants(from, to);
}

bool pccl_master_needs_link(const struct pccl_remote *from, const struct pccl_remote *to)
{
    if (from == to || from->group == NULL || from->group != to->group)
        return false;
    return pccl_master_goes_directly(from, to) || pccl_master_successor(from) == to ||
           pccl_master_serves_subgroups(from, to);
}

bool pccl_master_are_neighbors(const struct pccl_remote *from, const struct pccl_remote *to)
{
    return pccl_master_is_living_member(from) && pccl_master_is_living_member(to) && from->group == to->group &&
           from != to && pccl_master_successor(from) == to;
}

/* ---- who may be admitted ---- */

static bool may_come_up(const struct pccl_link_intent *intent) { return !intent->up && !intent->failed; }

/*
 * Links of the mesh never prevent an admission: it waits for them as long as they may still come up, and not for long.
 * Of those before it in the queue, the eligible would come in before it.
 */
bool pccl_master_mesh_is_decided(const struct pccl_master *m, const struct pccl_peer_group *group,
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
            return true; /* there will be no mesh */
        open = open || may_come_up(to) || may_come_up(from);
    }
    return !open;
}

/*
 * The first of a new group needs no link, so the master's own dial has to reach it. Where the dial has ended in vain
 * (or was lost), the newcomer must have said something since: joint calls wait for whoever is admitted, and must not
 * wait for somebody that says hello and nothing more.
 */
bool pccl_master_may_be_first(const struct pccl_master *m, const struct pccl_remote *remote)
{
    if (remote->verified)
        return true;
    if (remote->probing && m->now_us < remote->warm_since_us + m->config.warm_up_ms * UINT64_C(1000))
        return false;
    return remote->heard_us > (remote->probing ? remote->warm_since_us : remote->unanswered_us);
}

/* ---- who votes ---- */

bool pccl_master_all_voted(const struct pccl_master *m, uint8_t kind)
{
    for (uint32_t i = 0; i < m->remote_count; i++)
        if (m->remotes[i]->state == PCCL_REMOTE_MEMBER && !m->remotes[i]->votes[kind])
            return false;
    return m->member_count > 0;
}

/*
 * A group that is new has nobody to vouch for its first member, which needed no link to be admitted. When all others
 * have come, and it has not been heard to call anything ever, it is waited for only so long: whoever reached the
 * master's port could hold up the run for ever. Others are waited for as long as they live (RELIABILITY).
 */
bool pccl_master_only_untried_are_missing(const struct pccl_master *m, uint8_t kind)
{
    bool missing = false, voted = false;
    for (uint32_t i = 0; i < m->remote_count; i++) {
        const struct pccl_remote *remote = m->remotes[i];
        if (remote->state != PCCL_REMOTE_MEMBER)
            continue;
        if (!remote->votes[kind] && !remote->untried)
            return false;
        voted = voted || remote->votes[kind];
        missing = missing || !remote->votes[kind];
    }
    return voted && missing;
}

/* ---- whose word counts ---- */

/*
 * Whose word on a peer counts: that of members of its group, as others have no links to it; after a restart, of those
 * whose report is of the epoch that is law.
 */
bool pccl_master_is_witness(const struct pccl_master *m, const struct pccl_id *id, const struct pccl_id *of)
{
    const struct pccl_remote *remote = pccl_master_find(m, id), *peer = pccl_master_find(m, of);
    if (remote == NULL)
        return false;
    if (m->recovering)
        return pccl_master_is_law_reporter(m, remote, of);
    return pccl_master_is_living_member(remote) && peer != NULL && remote->group_number == peer->group_number;
}
