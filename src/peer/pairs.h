/*
 * Pairs that include this peer (PROTOCOL 16). The name of a pair consists of the admission numbers of its two members.
 */
#ifndef PCCL_PEER_PAIRS_H
#define PCCL_PEER_PAIRS_H

#include "peer/state.h"

/*
 * Sets the name of the pair in which this peer sends to the other, or receives from it. Returns PEER_LOST if the other
 * is not a member of the view's group, LIMIT if admission numbers are too high or not unique.
 */
PCCL_MUST_CHECK enum pccl_status pccl_peer_name_pair(const struct pccl_peer *p, const struct pccl_id *other, bool sends,
                                                     uint64_t *name);
/*
 * Returns the other member of this pair; NULL if it is not a member of the view's group, or this peer is not in the
 * pair.
 */
const struct pccl_id *pccl_peer_other_of(const struct pccl_peer *p, uint64_t name);
/* Returns this member's number in the names of pairs; 0 if it is not a member of the view's group. */
uint64_t pccl_peer_number_of(const struct pccl_peer *p, const struct pccl_id *id);
/*
 * Returns the source of this pair; NULL if it is not a member of the view's group, or this peer is not the destination.
 */
const struct pccl_id *pccl_peer_source_of(const struct pccl_peer *p, uint64_t name);
/*
 * Writes the members of the pair and returns them, or NULL if this peer is not in the pair. The pair of a receive
 * without a sender (PCCL_OPEN_PAIR) has ended when this peer is alone.
 */
const struct pccl_peer_participants *pccl_peer_pair(const struct pccl_peer *p, uint64_t name,
                                                    struct pccl_peer_pair *pair);
/*
 * Returns true if operations of this pair may still be launched here, because the other peer is a member or will be
 * one. A restarted master may send outcomes before the view that includes that peer. Returns true for 0, no pair.
 */
bool pccl_peer_pair_has_future(const struct pccl_peer *p, uint64_t name);

#endif
