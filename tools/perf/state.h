/*
 * Synchronizations of shared state: peers that hold the same, a newcomer that holds something else,
 * one that differs in a hundredth of the chunks; and a donor that is killed in the middle. The
 * launcher tells each of the workers what to do next, all that are asked begin at once, and a time
 * is that from the first begin to the last end.
 */
#ifndef PCCL_TOOLS_PERF_STATE_H
#define PCCL_TOOLS_PERF_STATE_H

#include "options.h"

enum perf_state_order {
    PERF_STATE_NOTHING,
    PERF_STATE_FILL,   /* content of the seed `argument` */
    PERF_STATE_SPOIL,  /* change a byte in `argument` chunks */
    PERF_STATE_DIGEST, /* only compute the digests, as the library does */
    PERF_STATE_SYNC,   /* with the revision `argument` */
    PERF_STATE_CHECK,  /* is it the content of the seed `argument`? */
    PERF_STATE_ADMIT,  /* update the topology until all are there */
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
