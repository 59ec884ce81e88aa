/* The invariants of the peer's own state, for tests. */
#ifndef PCCL_PEER_CHECK_H
#define PCCL_PEER_CHECK_H

#include "peer/peer.h"

/* Between two steps and calls: NULL, or the rule that does not hold, in words. It looks at everything: tests may ask
 * now and then. */
const char *pccl_peer_check(const struct pccl_peer *peer);

#endif
