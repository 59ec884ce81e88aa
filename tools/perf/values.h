/*
 * Test values with a reduction that is known exactly without a second library: small whole numbers that depend on the
 * peer.
 */
#ifndef PCCL_TOOLS_PERF_VALUES_H
#define PCCL_TOOLS_PERF_VALUES_H

#include "options.h"

/* Fills in this peer's input (options->index); with options->alike all peers have the same. */
void perf_values_fill(void *buffer, size_t count, const struct perf_options *options);
/*
 * Returns the number of elements of `buffer` that differ from this peer's input; with a codec, by more than the error
 * of packing once.
 */
uint64_t perf_values_differ(const void *buffer, size_t count, const struct perf_options *options);
/*
 * Returns the number of elements of `buffer` that differ from the reduction over the peers 0 .. peers - 1; with a
 * codec, by more than its error.
 */
uint64_t perf_values_wrong(const void *buffer, size_t count, const struct perf_options *options);

#endif
