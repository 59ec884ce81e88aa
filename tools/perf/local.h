/* A whole run on this machine: a master, the workers, and the limit in between. */
#ifndef PCCL_TOOLS_PERF_LOCAL_H
#define PCCL_TOOLS_PERF_LOCAL_H

#include "options.h"

/*
 * An exit code: 0; 1: something failed, was wrong, or missed its goal. count, arguments: of this
 * program.
 */
int perf_local_run(const struct perf_options *options, int count, char **arguments);
/* One peer of a real cluster; its own numbers. */
int perf_peer_run(const struct perf_options *options);
/* The limit alone. */
int perf_limit_run(const struct perf_options *options);

#endif
