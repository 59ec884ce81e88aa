/*
 * What other files ask of the joint calls under way; rounds.h has what happens to them.
 */
#ifndef PCCL_PEER_CALLS_H
#define PCCL_PEER_CALLS_H

#include "peer/state.h"

/*
 * A call waits for a round that ends the era: nothing may be launched, and no other such call may
 * begin (PROTOCOL 5.1).
 */
bool pccl_peer_is_in_quiet_call(const struct pccl_peer *p);
const char *pccl_peer_why_withdrawn(const struct pccl_vote_call *call);

#endif
