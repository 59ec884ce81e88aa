/*
 * Display names of other peers, which are added to reasons and log lines. The master sends them before any message that
 * mentions these peers.
 */
#include "peer/members.h"
#include "peer/queries.h"

static bool has_departed(const struct pccl_peer *p, const struct pccl_id *id)
{
    for (uint64_t i = 0; i < pccl_min_u64(p->departure_count, PCCL_DEPARTED_MAX); i++)
        if (pccl_id_equal(&p->departures[i].id, id))
            return true;
    return false;
}

/*
 * Returns true if a reason may mention the peer: a member, a peer that left the group recently, or a newcomer with a
 * link to or from this peer.
 */
static bool may_be_named(const void *context, const struct pccl_id *id)
{
    const struct pccl_peer *p = context;
    for (uint32_t i = 0; i < p->link_count; i++)
        if (pccl_id_equal(&p->links[i].id, id))
            return true;
    return pccl_id_equal(&p->config.id, id) || pccl_peer_knows_member(p, id) || has_departed(p, id);
}

void pccl_peer_names(struct pccl_peer *p, const struct pccl_msg_names *msg)
{
    if (p->names.by_digits.count >= 2 * (p->member_count + PCCL_DEPARTED_MAX)) /* pruning is slow, so it is rare */
        pccl_names_prune(&p->names, may_be_named, p);
    for (uint32_t i = 0; i < msg->names_count; i++)
        pccl_names_set(&p->names, &msg->names[i].peer, (const char *)msg->names[i].name.data,
                       msg->names[i].name.length);
}

void pccl_peer_take_reason(const struct pccl_peer *p, struct pccl_text *reason, const struct pccl_bytes *words)
{
    pccl_text_clear(reason);
    if (words->length == 0)
        return;
    pccl_text_add_bytes(reason, (const char *)words->data, words->length);
    pccl_names_add_to(&p->names, reason);
}

const char *pccl_peer_name_of(const struct pccl_peer *p, const struct pccl_id *id)
{
    return pccl_names_of(&p->names, id);
}

void pccl_peer_add_names(const struct pccl_peer *p, struct pccl_text *reason) { pccl_names_add_to(&p->names, reason); }
