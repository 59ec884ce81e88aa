/*
 * Actions used by all files of the peer: arm the timer, log, send to the master, and end the machine. pccl_peer_give_up
 * only sets the state, informs the master and logs. At the end of the step, pccl_peer_step ends everything outstanding.
 * Until then links, operations and calls still exist, but nothing new may begin, so callers must check the state after
 * a call that can give up.
 */
#ifndef PCCL_PEER_OUTPUT_H
#define PCCL_PEER_OUTPUT_H

#include "peer/state.h"

/* Requests a TICK no later than this time. */
void pccl_peer_arm(struct pccl_peer *p, uint64_t when_us);
/* Logs a sentence, adding the names of the peers in it. */
PCCL_PRINTF(3, 4)
void pccl_peer_log(struct pccl_peer *p, enum pccl_log_level level, const char *format, ...);
void pccl_peer_dial_master(struct pccl_peer *p);
/* Writes these bytes to the connection, which must be up. */
void pccl_peer_transmit(struct pccl_peer *p, const uint8_t *bytes, size_t length);
/*
 * Sends a numbered message: now if the connection is up, otherwise after the reconnect. The session keeps it until it
 * is acknowledged. If the session is full, the peer gives up. Sends nothing after the machine has ended.
 */
void pccl_peer_send(struct pccl_peer *p, const struct pccl_msg *msg);
/* Ends the machine with this reason. A second call has no effect. */
PCCL_PRINTF(3, 4)
void pccl_peer_give_up(struct pccl_peer *p, enum pccl_status status, const char *format, ...);

#endif
