/*
 * The choice of the connections of a link that take messages: those that send about as fast as the fastest one. An
 * operation waits for its last message, and one sent over a far slower connection arrives long after all others; the
 * slow ones would add little. If the fast ones take nothing for a while, the slow ones do. Pure.
 */
#ifndef PCCL_DATA_SHARE_H
#define PCCL_DATA_SHARE_H

#include "core/base.h"

struct pccl_share {    /* zeroed at first: the rates are unknown, and all take messages */
    uint64_t fastest;  /* bytes per second of the fastest connection */
    uint64_t since_us; /* time when a fast one last took a message, or the first message began to wait for one */
    bool waiting;      /* a message may wait */
};

/* Notes that there may be something to send. */
void pccl_share_begin(struct pccl_share *share, uint64_t now_us);
/*
 * Returns true if the rate of a connection that has sent this many bytes is meaningful. A new connection has a small
 * window, which only sending opens, so it is not slow before it has sent as much as a fast one has in flight.
 */
PCCL_MUST_CHECK bool pccl_share_knows(const struct pccl_share *share, uint64_t sent, uint32_t rtt_us);
/*
 * Returns true if a connection with room that sends at this rate takes messages now. A rate of 0, here and below, is
 * unknown.
 */
PCCL_MUST_CHECK bool pccl_share_takes(const struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* Notes that a connection that sends at this rate has taken a message. */
void pccl_share_took(struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* Returns the time when slow connections take messages, too, if fast ones take none until then. */
uint64_t pccl_share_due_us(const struct pccl_share *share);

#endif
