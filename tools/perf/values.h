/*
 * Test values whose reduction is exact and needs no reference implementation: small whole numbers that depend on the
 * peer.
 */
#ifndef PCCL_TOOLS_PERF_VALUES_H
#define PCCL_TOOLS_PERF_VALUES_H

#include "options.h"

/* Fills in the input of this peer (options->index). With options->alike, all peers have the same input. */
void perf_values_fill(void *buffer, size_t count, const struct perf_options *options);
/*
 * Returns the number of elements of `buffer` that differ from this peer's input; with a codec, that differ by more than
 * the error of coding once.
 */
uint64_t perf_values_differ(const void *buffer, size_t count, const struct perf_options *options);
/*
 * Returns the number of elements of `buffer` that differ from the reduction over the peers 0 to peers - 1; with a
 * codec, that differ by more than its error.
 */
uint64_t perf_values_wrong(const void *buffer, size_t count, const struct perf_options *options);

#endif
