/* A whole run on this machine: a master, the workers, and the limit measured between them. */
#ifndef PCCL_TOOLS_PERF_LOCAL_H
#define PCCL_TOOLS_PERF_LOCAL_H

#include "options.h"

/*
 * Measures locally. Returns an exit code: 0, or 1 if something failed, was wrong, or missed its goal. `count` and
 * `arguments`: of this program.
 */
int perf_local_run(const struct perf_options *options, int count, char **arguments);
/* Runs one peer of a real cluster, and reports its figures. */
int perf_peer_run(const struct perf_options *options);
/* Measures only the limit. */
int perf_limit_run(const struct perf_options *options);

#endif
