/*
 * Computes the rate of a link from the arrival times of a test's bytes, and detects when the rate has settled, so that
 * a test takes no longer than necessary. Pure.
 *
 * A link over a long distance speeds up for many round trips; a link within one machine has its full speed at once.
 * Therefore the rate is computed over windows of at least a round trip, and has settled when four consecutive spans, of
 * one, two or four windows each, agree and show no trend. Longer spans handle fluctuating rates.
 */
#ifndef PCCL_TOPOLOGY_METER_H
#define PCCL_TOPOLOGY_METER_H

#include "core/base.h"

enum { PCCL_METER_WINDOWS = 32 };

struct pccl_meter_mark {
    uint64_t us, bytes;
};

struct pccl_meter {
    uint64_t begun_us, limit_us;                          /* limit_us: maximum duration */
    uint64_t window_us;                                   /* doubles when there are too many windows */
    uint64_t span_us;                                     /* minimum length of a span */
    uint64_t settled;                                     /* settled rate; 0: not settled */
    struct pccl_meter_mark last;                          /* last sample */
    uint32_t mark_count;                                  /* 0 if nothing has arrived */
    struct pccl_meter_mark marks[PCCL_METER_WINDOWS + 1]; /* ends of windows, beginning at the first bytes */
};

/* Begins a test. `rtt_us` is the round trip of the idle link; 0 if unknown, which is treated as long. */
void pccl_meter_begin(struct pccl_meter *meter, uint64_t now_us, uint32_t rtt_us, uint64_t limit_us);
/*
 * Records the total number of bytes that have arrived so far. A total below the previous one counts as unchanged. When
 * nothing has arrived for a while, and before the rate is read at the time limit, also call it with an unchanged total,
 * so that a stalled link does not keep its old rate.
 */
void pccl_meter_add(struct pccl_meter *meter, uint64_t now_us, uint64_t bytes);
/*
 * Returns true if the test may end: the rate has settled, which requires at least one byte, or the time limit has
 * passed.
 */
bool pccl_meter_is_done(const struct pccl_meter *meter, uint64_t now_us);
/*
 * Returns the settled rate in bytes per second. Without one, returns the median over the last third of the time, or the
 * rate of the last span if the link still speeds up. Returns 0 if nothing has arrived.
 */
uint64_t pccl_meter_rate(const struct pccl_meter *meter);

#endif
