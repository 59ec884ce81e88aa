/*
 * Synchronizations of shared state: peers with equal content, a newcomer with other content, one that differs in a
 * hundredth of the chunks; and a donor that is killed during the transfer. The launcher sends each worker its next
 * order, all workers with an order begin at once, and a time is measured from the first begin to the last end.
 */
#ifndef PCCL_TOOLS_PERF_STATE_H
#define PCCL_TOOLS_PERF_STATE_H

#include "options.h"

enum perf_state_order {
    PERF_STATE_NOTHING,
    PERF_STATE_FILL,   /* fill in the content of the seed `argument` */
    PERF_STATE_SPOIL,  /* change a byte in `argument` chunks */
    PERF_STATE_DIGEST, /* only compute the digests, as the library does */
    PERF_STATE_SYNC,   /* synchronize with the revision `argument` */
    PERF_STATE_CHECK,  /* compare with the content of the seed `argument` */
    PERF_STATE_ADMIT,  /* update the topology until all peers are there */
};

struct perf_state_request {
    uint32_t order;
    uint64_t bytes, argument;
};

struct perf_state_report {
    int32_t result;
    double start_s, end_s;
    uint64_t sent, received, wrong; /* bytes; wrong ones in words of 8 */
};

int perf_state_run(const struct perf_options *options, int count, char **arguments);
int perf_state_worker(const struct perf_options *options);

#endif
