/*
 * Bound on the total rate of a bundle's connections. After a pause, each connection resumes sending at the rate that it
 * had while the others were idle, so together they overflow the queues on the path, and it takes a round trip to resend
 * the lost data. To avoid this, the total rate is measured while there is enough to send. Once it has stopped growing,
 * the connections are bounded to slightly more. If the path can carry more, the next samples show it; without any
 * samples, the bound is removed after a while.
 *
 * In a ring all members send at the rate of the slowest one, so the achieved rate may be below the bound for reasons
 * other than the path, and members could lower each other's bounds. Therefore the bound grows while there is no queue
 * on the path. A queue cannot be distinguished from other delays, so the bound also never falls far below the rate of
 * the last few seconds. Pure functions.
 */
#ifndef PCCL_DATA_PACE_H
#define PCCL_DATA_PACE_H

#include "core/base.h"

enum { PCCL_PACE_SAMPLES = 10 };

struct pccl_pace {    /* zero-initialized */
    uint64_t bound;   /* bytes per second for all connections together; 0: no bound */
    uint64_t look_us; /* time when the next sample is due */
    uint64_t sampled_us;
    uint64_t began_us; /* start of the interval; 0: no interval */
    uint64_t began_bytes;
    bool flowing;                      /* bytes were being delivered when the interval began */
    uint64_t starving_us;              /* time when the sender ran out of data or credit; 0: it has both */
    uint64_t starved_us;               /* time in this interval without anything to send */
    bool waiting;                      /* only credit is missing */
    uint64_t waited_us;                /* part of starved_us that was spent waiting for credit */
    uint64_t rates[PCCL_PACE_SAMPLES]; /* rates of the latest intervals with enough to send, in any order */
    uint64_t samples;                  /* number of intervals so far */
    uint64_t most;                     /* highest rate */
    uint64_t peaks[2];                 /* highest achieved rate since peak_us, and in the period before */
    uint64_t peak_us;
    uint32_t flat; /* number of consecutive intervals without growth */
};

/*
 * Records whether there is nothing to send, and whether only the receiver's credit is missing. Here and below, `now_us`
 * is positive and never decreases.
 */
void pccl_pace_starve(struct pccl_pace *pace, uint64_t now_us, bool starving, bool waiting);
/* Starts a new interval, after a change of the connections or when no operation is running. */
void pccl_pace_interrupt(struct pccl_pace *pace);
static inline bool pccl_pace_is_due(const struct pccl_pace *pace, uint64_t now_us) { return now_us >= pace->look_us; }
/*
 * Takes a sample if an interval is complete. delivered: total bytes delivered by all connections so far; rtt_us: round
 * trip of the path; queued: a queue has built up.
 */
void pccl_pace_look(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint32_t rtt_us, bool queued);

#endif
