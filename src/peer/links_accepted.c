/* Decides which peers may open links to this one (PROTOCOL 7.4). */
#include "core/ticket.h"
#include "peer/links.h"
#include "peer/members.h"
#include "peer/queries.h"

#include <string.h>

/* Returns the ticket that the master gives to a peer that must dial this one. It also proves that peer's id. */
struct pccl_id pccl_peer_ticket(const struct pccl_peer *p, const struct pccl_id *from)
{
    return pccl_ticket(&p->config.link_key, from, &p->config.id);
}

static bool has_ticket(const struct pccl_peer *p, const struct pccl_msg_link_hello *hello)
{
    struct pccl_id shown, ticket = pccl_peer_ticket(p, &hello->from);
    if (hello->authentication.length != sizeof shown.bytes)
        return false;
    memcpy(shown.bytes, hello->authentication.data, sizeof shown.bytes);
    return pccl_id_equal_secret(&shown, &ticket);
}

/*
 * Returns true if the link may be accepted. This peer's view may be outdated, so newcomers and unknown members may also
 * open links, but only a few at a time, and each only one connection until it is known.
 */
static bool has_room_ahead(const struct pccl_peer *p, const struct pccl_msg_link_hello *hello)
{
    uint32_t ahead = 0;
    bool is_here = false;
    if (pccl_peer_is_in_group(p, &hello->from))
        return true;
    for (uint32_t i = 0; i < p->link_count; i++) {
        const struct pccl_peer_link *link = &p->links[i];
        is_here = is_here || (link->in_up && pccl_id_equal(&link->id, &hello->from));
        ahead += link->in_up && !pccl_peer_is_in_group(p, &link->id);
    }
    return hello->slot < PCCL_EARLY_POOL_MAX && (is_here || ahead < PCCL_EARLY_LINKS_MAX);
}

/*
 * Returns true if this peer is, or may be, in the run that the hello names. The master may send members to a newcomer
 * before the newcomer has read the answer that names the run. A master that has answered a newcomer may later learn
 * from members which run it serves; its probes then name that run.
 */
static bool is_in_run(const struct pccl_peer *p, const struct pccl_msg_link_hello *hello)
{
    if (p->state == PCCL_PEER_CONNECTING)
        return p->boot == 0;
    if (p->state == PCCL_PEER_PENDING && hello->kind == PCCL_LINK_PROBE)
        return true;
    return (p->state == PCCL_PEER_PENDING || p->state == PCCL_PEER_MEMBER) &&
           pccl_id_equal(&hello->lineage, &p->lineage);
}

enum pccl_status pccl_peer_judge_link(const struct pccl_peer *p, const struct pccl_msg_link_hello *hello,
                                      enum pccl_refusal *refusal, struct pccl_text *reason)
{
    *refusal = PCCL_REFUSAL_LINEAGE;
    if (!pccl_id_equal(&hello->to, &p->config.id)) {
        *refusal = PCCL_REFUSAL_IDENTITY;
        pccl_text_format(reason, "this is peer %s", pccl_id_str(&p->config.id));
    } else if (!is_in_run(p, hello)) {
        pccl_text_format(reason, "this peer is not in that run");
    } else if (hello->kind != PCCL_LINK_PROBE && !has_ticket(p, hello)) { /* a probe only checks which peer answers */
        *refusal = PCCL_REFUSAL_MALFORMED;
        pccl_text_format(reason, "no valid ticket: this peer accepts links only from peers of its master");
    } else if (hello->kind == PCCL_LINK_STATE && !pccl_peer_is_in_group(p, &hello->from)) {
        *refusal = PCCL_REFUSAL_IDENTITY;
        pccl_text_format(reason, "shared state is only available to members of the group");
    } else if (hello->kind == PCCL_LINK_MEASURE &&
               (!pccl_peer_is_in_group(p, &hello->from) || !p->calls[PCCL_ROUND_OPTIMIZE].outstanding)) {
        *refusal = PCCL_REFUSAL_MALFORMED;
        pccl_text_format(reason, "this peer is not part of an optimization with the caller");
    } else if (hello->kind != PCCL_LINK_PROBE && pccl_id_equal(&hello->from, &p->config.id)) {
        *refusal = PCCL_REFUSAL_MALFORMED;
        pccl_text_format(reason, "a peer cannot open a link to itself");
    } else if (hello->kind == PCCL_LINK_RING && !hello->reversed && !has_room_ahead(p, hello)) {
        *refusal = PCCL_REFUSAL_FULL;
        pccl_text_format(reason, "too many links from peers that are not members yet");
    } else {
        return PCCL_OK;
    }
    return PCCL_REFUSED;
}
