/* Queries about the joint calls in progress. */
#include "peer/calls.h"

enum pccl_call pccl_peer_outstanding_call(const struct pccl_peer *p)
{
    for (uint8_t kind = 0; kind < PCCL_ROUND_KINDS; kind++)
        if (p->calls[kind].outstanding)
            return pccl_call_of_round(kind);
    return PCCL_CALL_NONE;
}

bool pccl_peer_is_in_quiet_call(const struct pccl_peer *p)
{
    return pccl_call_is_quiet((uint8_t)pccl_peer_outstanding_call(p));
}

const char *pccl_peer_why_withdrawn(const struct pccl_vote_call *call)
{
    if (call->why_withdrawn != PCCL_TIMEOUT)
        return "cancelled by the caller";
    return call->stuck ? "stuck_ms passed" : "the deadline (call_timeout_ms) passed";
}
