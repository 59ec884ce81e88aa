/* Queries about the joint calls in progress. rounds.h has the functions that begin and end them. */
#ifndef PCCL_PEER_CALLS_H
#define PCCL_PEER_CALLS_H

#include "peer/state.h"

/* Returns the outstanding joint call, or NONE. There is at most one (PROTOCOL 10.1). */
enum pccl_call pccl_peer_outstanding_call(const struct pccl_peer *p);
/*
 * Returns true if the outstanding call waits for a round that ends the era. Until then nothing may be launched
 * (PROTOCOL 5.1).
 */
bool pccl_peer_is_in_quiet_call(const struct pccl_peer *p);
const char *pccl_peer_why_withdrawn(const struct pccl_vote_call *call);

#endif
