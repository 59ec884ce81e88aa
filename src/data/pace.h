/*
 * The bound on the rate of a bundle's connections together. On its own, each connection sends at the rate that it had
 * while the others were silent. After a pause they therefore overflow the queues along the path, and it takes a round
 * trip to resend the lost data. So the total rate that they achieve is measured while they have enough to send. Once it
 * has stopped growing, they are bounded to slightly more. If the path can carry more than that, the next measurements
 * show it; without any measurement, the bound is lifted after a while.
 *
 * In a ring all members send as fast as the slowest one, so the achieved rate may be below the bound for reasons other
 * than the path, and the members would pull each other's bound down. So while no queue has built up along the path, the
 * bound itself must be the limit of the sender, and it grows. However, queues cannot be distinguished from other
 * delays, so the bound never sinks far below the rate of a few seconds ago. Pure.
 */
#ifndef PCCL_DATA_PACE_H
#define PCCL_DATA_PACE_H

#include "core/base.h"

enum { PCCL_PACE_SAMPLES = 10 };

struct pccl_pace {    /* zeroed at first */
    uint64_t bound;   /* bytes per second for all connections together; 0: no bound */
    uint64_t look_us; /* time when the next sample is due */
    uint64_t sampled_us;
    uint64_t began_us; /* start of the interval; 0: no interval */
    uint64_t began_bytes;
    bool flowing;                      /* bytes had been delivered when it began */
    uint64_t starving_us;              /* time since when there is nothing to send; 0: there is something */
    uint64_t starved_us;               /* duration without anything to send in this interval */
    bool waiting;                      /* it starves for credit only */
    uint64_t waited_us;                /* duration of that, within starved_us */
    uint64_t rates[PCCL_PACE_SAMPLES]; /* rates of the last intervals that had enough to send, unordered */
    uint64_t samples;                  /* number of intervals so far */
    uint64_t most;                     /* highest rate */
    uint64_t peaks[2];                 /* highest achieved rates: since peak_us, and in the period before */
    uint64_t peak_us;
    uint32_t flat; /* number of intervals in a row without growth */
};

/*
 * Records whether there is nothing to send now, and if so, whether that is for lack of the receiver's credit. Here and
 * below `now_us` is positive and never decreases.
 */
void pccl_pace_starve(struct pccl_pace *pace, uint64_t now_us, bool starving, bool waiting);
/* Begins a new interval, after a change of the connections, or when no operation runs. */
void pccl_pace_interrupt(struct pccl_pace *pace);
static inline bool pccl_pace_is_due(const struct pccl_pace *pace, uint64_t now_us) { return now_us >= pace->look_us; }
/*
 * Samples the rate, if an interval is complete. delivered: bytes that all connections have delivered so far; rtt_us: of
 * the path; queued: a queue has built up.
 */
void pccl_pace_look(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint32_t rtt_us, bool queued);

#endif
