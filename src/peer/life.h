/*
 * Time, words and the end of a peer's life. The end is one for all: who gives up, wherever that is noticed, leaves
 * nothing outstanding behind, so callers look at the state afterward before they go on.
 */
#ifndef PCCL_PEER_LIFE_H
#define PCCL_PEER_LIFE_H

#include "peer/state.h"

/* A TICK no later than this. */
void pccl_peer_arm(struct pccl_peer *p, uint64_t when_us);
/* Logs a sentence; the names of peers are added. */
PCCL_PRINTF(3, 4)
void pccl_peer_log(struct pccl_peer *p, enum pccl_log_level level, const char *format, ...);
/* The end of this machine's life, in these words: everything outstanding ends, links and master are closed. Not twice.
 */
PCCL_PRINTF(3, 4)
void pccl_peer_give_up(struct pccl_peer *p, enum pccl_status status, const char *format, ...);
/* Because the caller wants it; or because the deadline of connect has passed. */
void pccl_peer_leave(struct pccl_peer *p);

#endif
