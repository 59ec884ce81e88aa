/*
 * Timers, the log and the end of a peer's life. Whatever makes a peer give up, everything
 * outstanding ends at once, so any function may find the peer's life over after a call that can
 * give up: look at the state before going on.
 */
#ifndef PCCL_PEER_LIFE_H
#define PCCL_PEER_LIFE_H

#include "peer/state.h"

/* Asks for a TICK no later than this. */
void pccl_peer_arm(struct pccl_peer *p, uint64_t when_us);
/* Logs a sentence, with the names of the peers that it mentions added. */
PCCL_PRINTF(3, 4)
void pccl_peer_log(struct pccl_peer *p, enum pccl_log_level level, const char *format, ...);
/*
 * Ends this machine's life for this reason: everything outstanding ends, the links and the
 * connection to the master are closed. A second call does nothing.
 */
PCCL_PRINTF(3, 4)
void pccl_peer_give_up(struct pccl_peer *p, enum pccl_status status, const char *format, ...);
/* Leaves the run: the caller wants it, or the deadline of connect has passed. */
void pccl_peer_leave(struct pccl_peer *p);

#endif
