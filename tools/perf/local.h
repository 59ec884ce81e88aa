/* A complete run on this machine: a master, the workers, and measurements of the limit between rows. */
#ifndef PCCL_TOOLS_PERF_LOCAL_H
#define PCCL_TOOLS_PERF_LOCAL_H

#include "options.h"

/*
 * Measures locally. Returns the exit code: 0, or 1 if something failed, a result was wrong, or a goal was missed.
 * `count` and `arguments`: the arguments of this program.
 */
int perf_local_run(const struct perf_options *options, int count, char **arguments);
/* Runs as one peer of a real cluster, and reports its figures. */
int perf_peer_run(const struct perf_options *options);
/* Measures only the limit. */
int perf_limit_run(const struct perf_options *options);

#endif
