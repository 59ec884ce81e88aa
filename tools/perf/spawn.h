/* Starts this program again as the master or as a worker. */
#ifndef PCCL_TOOLS_PERF_SPAWN_H
#define PCCL_TOOLS_PERF_SPAWN_H

#include "options.h"
#include "system/process.h"

struct perf_launch {
    int count;
    char **arguments; /* arguments of this program */
    struct process_child master;
    char address[32];
};

/* Starts the master on a port chosen by the system. Returns false after a message on standard error. */
bool perf_spawn_master(struct perf_launch *launch, int count, char **arguments);
bool perf_spawn_worker(const struct perf_launch *launch, uint32_t index, struct process_child *child);
/*
 * Waits for output of worker `index`, while showing `words` and the elapsed time. Workers with lower indices have
 * already written their output and may have ended. Returns false if another worker or the master has ended, because the
 * output might then never arrive.
 */
bool perf_launch_await(const struct perf_launch *launch, const struct process_child *workers, uint32_t count,
                       uint32_t index, const char *words);
/*
 * Reports the failures of children that have ended, and ends the others. `good`: whether everything has succeeded so
 * far. Returns true if there was no failure.
 */
bool perf_launch_end(struct perf_launch *launch, struct process_child *workers, uint32_t count, bool good);
/* Runs as the spawned master. */
int perf_master_main(const struct perf_options *options);

#endif
