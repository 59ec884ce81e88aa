/*
 * How fast the connections of a bundle may send together. On its own, each connection sends at the
 * rate that it saw when the others were silent. After a pause they therefore overflow the queues
 * along the path, and it takes a round trip to resend what is lost. So the total rate that they
 * achieve is measured while they have enough to send. Once it has stopped growing, they are bounded
 * to slightly more. If the path can carry more than that, the next measurements show it; without
 * any measurement, the bound is lifted after a while.
 *
 * In a ring everyone sends as fast as the slowest member, so the achieved rate may be below the
 * bound for reasons other than the path, and the members would pull each other's bound down. So
 * where no queue has built up along the path, the bound itself must be what limits the sender, and
 * it grows. However, queues cannot be told from other delays, so the bound never sinks far below
 * the rate of a few seconds ago. Pure.
 */
#ifndef PCCL_DATA_PACE_H
#define PCCL_DATA_PACE_H

#include "core/base.h"

enum { PCCL_PACE_SAMPLES = 10 };

struct pccl_pace {    /* zeroed at first */
    uint64_t bound;   /* bytes per second for all connections together; 0: none */
    uint64_t look_us; /* when the next look is due */
    uint64_t sampled_us;
    uint64_t began_us; /* the start of the interval; 0: there is none */
    uint64_t began_bytes;
    bool flowing;                      /* bytes were delivered when it began */
    uint64_t starving_us;              /* since when there is nothing to send; 0: there is something */
    uint64_t starved_us;               /* for how long there was nothing to send in this interval */
    bool waiting;                      /* it starves for credit only */
    uint64_t waited_us;                /* for how long, of starved_us */
    uint64_t rates[PCCL_PACE_SAMPLES]; /* of the last intervals that had enough to send, in no order */
    uint64_t samples;                  /* their number, ever */
    uint64_t most;                     /* the highest rate */
    uint64_t peaks[2];                 /* the highest achieved rates: since peak_us, and in the period before */
    uint64_t peak_us;
    uint32_t flat; /* the number of intervals in a row without growth */
};

/*
 * Whether there is nothing to send now; and if so, whether that is because the receiver has given no
 * credit for it. now_us > 0 here and below, and never goes back.
 */
void pccl_pace_starve(struct pccl_pace *pace, uint64_t now_us, bool starving, bool waiting);
/* The connections have changed, or nothing runs: a new interval begins. */
void pccl_pace_interrupt(struct pccl_pace *pace);
static inline bool pccl_pace_is_due(const struct pccl_pace *pace, uint64_t now_us) { return now_us >= pace->look_us; }
/*
 * delivered: bytes that all connections have delivered so far; rtt_us: the path's; queued: a queue
 * has built up.
 */
void pccl_pace_look(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint32_t rtt_us, bool queued);

#endif
