/* The invariants of the peer's own state. */
#ifndef PCCL_SUPPORT_PEER_CHECK_H
#define PCCL_SUPPORT_PEER_CHECK_H

#include "peer/peer.h"
#include "peer/subgroup.h"

/*
 * Returns the rule that does not hold, as text, or NULL. Legal between two steps or calls. It walks
 * the whole state, so tests call it only now and then.
 */
const char *pccl_peer_check(const struct pccl_peer *peer);

/* Returns the subgroup founded after this one, or the first (NULL); NULL: no more. */
const struct pccl_peer_subgroup *pccl_peer_next_subgroup(const struct pccl_peer *peer,
                                                         const struct pccl_peer_subgroup *after);
/* Returns the member with this rank in canonical order; NULL: none has it. */
const struct pccl_id *pccl_peer_member_at(const struct pccl_peer_participants *all, uint32_t rank);

#endif
