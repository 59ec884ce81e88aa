/*
 * Measures synchronizations of shared state: between peers with equal content, with a newcomer whose content differs
 * entirely, with a newcomer whose content differs in a hundredth of the chunks, and with a donor that is killed during
 * the transfer. The launcher sends each worker its next order. All workers with an order start at the same time, and
 * the duration is measured from the first start to the last end.
 */
#ifndef PCCL_TOOLS_PERF_STATE_H
#define PCCL_TOOLS_PERF_STATE_H

#include "options.h"

enum perf_state_order {
    PERF_STATE_NOTHING,
    PERF_STATE_FILL,   /* fill in the content for the seed `argument` */
    PERF_STATE_SPOIL,  /* change one byte in each of `argument` chunks */
    PERF_STATE_DIGEST, /* compute the digests as the library does, without synchronizing */
    PERF_STATE_SYNC,   /* synchronize with the revision `argument` */
    PERF_STATE_CHECK,  /* compare with the content for the seed `argument` */
    PERF_STATE_ADMIT,  /* update the topology until all peers have joined */
};

struct perf_state_request {
    uint32_t order;
    uint64_t bytes, argument;
};

struct perf_state_report {
    int32_t result;
    double start_s, end_s;
    uint64_t sent, received, wrong; /* numbers of bytes; `wrong` counts 8-byte words */
};

int perf_state_run(const struct perf_options *options, int count, char **arguments);
int perf_state_worker(const struct perf_options *options);

#endif
