/*
 * Selects the connections of a link that take messages: those that send about as fast as the fastest one. An operation
 * ends with its last message, and a message on a far slower connection arrives long after all others, while slow
 * connections add little to the rate. If the fast ones take no messages for a while, the slow ones do. Pure functions.
 */
#ifndef PCCL_DATA_SHARE_H
#define PCCL_DATA_SHARE_H

#include "core/base.h"

struct pccl_share {    /* zero-initialized: the rates are unknown, and all connections take messages */
    uint64_t fastest;  /* rate of the fastest connection in bytes per second */
    uint64_t since_us; /* time when a fast one last took a message, or the first message began to wait for one */
    bool waiting;      /* a message may be waiting */
};

/* Records that there may be something to send. */
void pccl_share_begin(struct pccl_share *share, uint64_t now_us);
/*
 * Returns true if the rate of a connection that has sent this many bytes is meaningful. The window of a new connection
 * is small and grows only by sending, so the connection does not count as slow before it has sent as much as a fast one
 * has in flight.
 */
PCCL_MUST_CHECK bool pccl_share_knows(const struct pccl_share *share, uint64_t sent, uint32_t rtt_us);
/*
 * Returns true if a connection with room and this rate may take a message now. Here and below, a rate of 0 is unknown.
 */
PCCL_MUST_CHECK bool pccl_share_takes(const struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* Records that a connection with this rate has taken a message. */
void pccl_share_took(struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* Returns the time from which slow connections take messages, too, unless a fast one takes one before. */
uint64_t pccl_share_due_us(const struct pccl_share *share);

#endif
