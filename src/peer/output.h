/*
 * What all files of the peer use to act: they ask for a tick, log, send to the master, and end the
 * peer's life. That end is only noted, told and logged here: once the event has been handled,
 * pccl_peer_step ends all that is outstanding. Until then links, operations and calls stay as they
 * are, but nothing may be begun any more, so look at the state after a call that can give up.
 */
#ifndef PCCL_PEER_OUTPUT_H
#define PCCL_PEER_OUTPUT_H

#include "peer/state.h"

/* Asks for a TICK no later than this. */
void pccl_peer_arm(struct pccl_peer *p, uint64_t when_us);
/* Logs a sentence, with the names of the peers that it mentions added. */
PCCL_PRINTF(3, 4)
void pccl_peer_log(struct pccl_peer *p, enum pccl_log_level level, const char *format, ...);
void pccl_peer_dial_master(struct pccl_peer *p);
/* Writes these bytes to the connection, which must be up. */
void pccl_peer_transmit(struct pccl_peer *p, const uint8_t *bytes, size_t length);
/*
 * Sends a numbered message, kept until it is acknowledged: now if the session stands, otherwise
 * after the reconnect. Without room for it the peer gives up; after the end it does nothing.
 */
void pccl_peer_send(struct pccl_peer *p, const struct pccl_msg *msg);
/* Ends this machine's life for this reason. A second call does nothing. */
PCCL_PRINTF(3, 4)
void pccl_peer_give_up(struct pccl_peer *p, enum pccl_status status, const char *format, ...);

#endif
