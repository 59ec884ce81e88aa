/*
 * How fast the connections of a bundle may send together. Alone, each of them asks for what it saw when the others were
 * silent: after a pause they overflow the queues along the path, and what is lost takes a round trip to be sent again.
 * So what all of them get through is measured while they have enough to send, and once that has stopped growing they
 * are bounded by a little more. What the path can carry beyond it shows in the next measurements; without any, the
 * bound is lifted after a while.
 *
 * In a ring all send as fast as the slowest of them, so what gets through may be less than the bound for reasons that
 * are not the path's, and each of them would follow the others down. So where no queue has built up along the path, the
 * bound is what holds the sender back, and grows. A queue cannot be told from other delays, though, so the bound never
 * sinks far below what got through a few seconds ago. Pure.
 */
#ifndef PCCL_DATA_PACE_H
#define PCCL_DATA_PACE_H

#include "core/base.h"

enum { PCCL_PACE_SAMPLES = 10 };

struct pccl_pace {    /* zeroed: nothing is known */
    uint64_t bound;   /* bytes per second for all of them together; 0: none */
    uint64_t look_us; /* the next look */
    uint64_t sampled_us;
    uint64_t began_us; /* of the interval; 0: there is none */
    uint64_t began_bytes;
    uint64_t starving_us;              /* since when there has been nothing to send; 0: there is something */
    uint64_t starved_us;               /* so long in this interval */
    uint64_t rates[PCCL_PACE_SAMPLES]; /* of the last intervals with enough to send, in no order */
    uint64_t samples;                  /* that there have been */
    uint64_t most;                     /* the highest of all */
    uint64_t peaks[2];                 /* what got through at most, since peak_us and in the time before */
    uint64_t peak_us;
    uint32_t flat; /* so many in a row have not shown growth */
};

/* There is nothing to be sent now, or there is again. now_us > 0 here and below, and never goes back. */
void pccl_pace_starve(struct pccl_pace *pace, uint64_t now_us, bool starving);
/* The connections are not the same any more, or nothing runs: a new interval begins. */
void pccl_pace_interrupt(struct pccl_pace *pace);
/* It is time for a look. */
static inline bool pccl_pace_is_due(const struct pccl_pace *pace, uint64_t now_us) { return now_us >= pace->look_us; }
/* delivered: bytes that all of them have got through so far; rtt_us: of the path; queued: it takes longer now. */
void pccl_pace_look(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint32_t rtt_us, bool queued);

#endif
