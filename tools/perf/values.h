/*
 * Test values whose reduction is known exactly without a second library: small whole numbers that
 * depend on the peer.
 */
#ifndef PCCL_TOOLS_PERF_VALUES_H
#define PCCL_TOOLS_PERF_VALUES_H

#include "options.h"

/* What this peer (options->index) contributes; with options->alike all contribute the same. */
void perf_values_fill(void *buffer, size_t count, const struct perf_options *options);
/*
 * How many elements of `buffer` are not what this peer contributes; with a codec, farther from it
 * than being packed once may bring them.
 */
uint64_t perf_values_differ(const void *buffer, size_t count, const struct perf_options *options);
/*
 * How many elements of `buffer` are not the reduction over the peers 0 .. peers - 1; with a codec,
 * farther from it than the codec may be.
 */
uint64_t perf_values_wrong(const void *buffer, size_t count, const struct perf_options *options);

#endif
