/* The pairs that this peer is in (PROTOCOL 16): their names say who is in them, by numbers of admission. */
#ifndef PCCL_PEER_PAIRS_H
#define PCCL_PEER_PAIRS_H

#include "peer/state.h"

/*
 * The pair in which this peer sends to the other, or receives from it. PEER_LOST: the other is no
 * member of the group as of the view; LIMIT: numbers of admission are too high, or not unique.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_name_pair(const struct pccl_peer *p, const struct pccl_id *other, bool sends,
                                                     uint64_t *name);
/* The other one of this pair; NULL: it is no member of the group as of the view, or this peer is not in the pair. */
const struct pccl_id *pccl_peer_other_of(const struct pccl_peer *p, uint64_t name);
/* By which pairs name a member as of the view; 0: it is none. */
uint64_t pccl_peer_number_of(const struct pccl_peer *p, const struct pccl_id *id);
/* The source of this pair; NULL: it is no member as of the view, or this peer is not the destination. */
const struct pccl_id *pccl_peer_source_of(const struct pccl_peer *p, uint64_t name);
/*
 * Operations of this pair may be launched here: the other one is a member, or will be, as a
 * restarted master may tell outcomes before the view that has it.
 */
bool pccl_peer_pair_has_future(const struct pccl_peer *p, uint64_t name);

#endif
