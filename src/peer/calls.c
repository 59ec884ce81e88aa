/* What other files ask of the calls under way. */
#include "peer/calls.h"

bool pccl_peer_is_in_quiet_call(const struct pccl_peer *p)
{
    return p->calls[PCCL_ROUND_UPDATE].outstanding || p->calls[PCCL_ROUND_SYNC].outstanding ||
           p->calls[PCCL_ROUND_OPTIMIZE].outstanding;
}

const char *pccl_peer_why_withdrawn(const struct pccl_vote_call *call)
{
    if (call->why_withdrawn != PCCL_TIMEOUT)
        return "given up by the caller";
    return call->stuck ? "stuck_ms passed" : "the deadline, call_timeout_ms, passed";
}
