/*
 * Measures robustness. Peers reduce continuously; one is killed (or stopped) at a random time, and a new one replaces
 * it. Measures the time from the signal until each survivor gets an error, and until its next good result.
 */
#ifndef PCCL_TOOLS_PERF_CHAOS_H
#define PCCL_TOOLS_PERF_CHAOS_H

#include "options.h"

int perf_chaos_run(const struct perf_options *options, int count, char **arguments);
int perf_chaos_worker(const struct perf_options *options);

#endif
