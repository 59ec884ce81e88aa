/*
 * Which connections of a link take messages: those that send about as fast as the fastest one. An
 * operation waits for its last message, and one that goes over a far slower connection arrives long
 * after all others; what the slow ones could carry besides is little. If the fast ones take nothing
 * for a while, the slow ones do. Pure.
 */
#ifndef PCCL_DATA_SHARE_H
#define PCCL_DATA_SHARE_H

#include "core/base.h"

struct pccl_share {    /* zeroed at first: the rates are unknown, and all take messages */
    uint64_t fastest;  /* bytes per second of the fastest connection */
    uint64_t since_us; /* when a fast one took a message last, or the first message came to wait for one */
    bool waiting;      /* something may wait */
};

/* Something may have to be sent. */
void pccl_share_begin(struct pccl_share *share, uint64_t now_us);
/*
 * Whether the rate of a connection that has sent so many bytes says anything: a new one has a small window,
 * which only what it sends opens. It cannot be too slow before it has sent what one that is not has under way.
 */
PCCL_MUST_CHECK bool pccl_share_knows(const struct pccl_share *share, uint64_t sent, uint32_t rtt_us);
/* Whether a connection that has room and sends at this rate takes messages now. rate 0, here and below: unknown. */
PCCL_MUST_CHECK bool pccl_share_takes(const struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* A connection that sends at this rate has taken a message. */
void pccl_share_took(struct pccl_share *share, uint64_t rate, uint64_t now_us);
/* When slow connections take messages, too, if fast ones take none until then. */
uint64_t pccl_share_due_us(const struct pccl_share *share);

#endif
