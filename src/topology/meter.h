/*
 * The rate of a test, from how many bytes had arrived when: says when it has settled, so that a test takes no longer
 * than it needs. Pure.
 *
 * A way over a long distance speeds up for many round trips; one on the same machine is at its speed at once. So the
 * rate is taken over windows of a round trip or more, and has settled when four spans in a row, of one, two or four
 * windows each, agree and do not go one way. Longer spans are for a rate that scatters.
 */
#ifndef PCCL_TOPOLOGY_METER_H
#define PCCL_TOPOLOGY_METER_H

#include "core/base.h"

enum { PCCL_METER_WINDOWS = 32 };

struct pccl_meter_mark {
    uint64_t us, bytes;
};

struct pccl_meter {
    uint64_t begun_us, limit_us;                          /* limit_us: how long it may take */
    uint64_t window_us;                                   /* twice as long each time that there are too many windows */
    uint64_t span_us;                                     /* shorter spans say nothing */
    uint64_t settled;                                     /* the rate that it has settled at; 0: it has not */
    struct pccl_meter_mark last;                          /* the last sample */
    uint32_t mark_count;                                  /* 0: nothing has arrived */
    struct pccl_meter_mark marks[PCCL_METER_WINDOWS + 1]; /* where windows begin and end, since the first bytes */
};

/* Data begins to flow. rtt_us: the round trip of the idle way; 0: unknown, taken for a long one. */
void pccl_meter_begin(struct pccl_meter *meter, uint64_t now_us, uint32_t rtt_us, uint64_t limit_us);
/*
 * So many bytes in all have arrived by now; what goes backwards stands still. Also to be told when nothing more has
 * come for a while, and before the rate is asked for at the limit: the same bytes as before, so that a way that stalls
 * is not taken for as fast as it was.
 */
void pccl_meter_add(struct pccl_meter *meter, uint64_t now_us, uint64_t bytes);
/* It has settled, or its time is over: the test may end. Never without a byte before its time is over. */
bool pccl_meter_is_done(const struct pccl_meter *meter, uint64_t now_us);
/*
 * Bytes per second: what it has settled at, else what most of the last third of the time says, or the last
 * span if the way still speeds up; 0: nothing has arrived.
 */
uint64_t pccl_meter_rate(const struct pccl_meter *meter);

#endif
