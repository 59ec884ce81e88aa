/*
 * Robustness in figures: peers reduce without pause, one is killed (or stopped) at a random moment, a new one replaces
 * it. Measures the time from the signal to each survivor's error, and to its next good result.
 */
#ifndef PCCL_TOOLS_PERF_CHAOS_H
#define PCCL_TOOLS_PERF_CHAOS_H

#include "options.h"

int perf_chaos_run(const struct perf_options *options, int count, char **arguments);
int perf_chaos_worker(const struct perf_options *options);

#endif
