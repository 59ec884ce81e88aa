/* Writes the flight recorder of this process's peer to a file at SIGUSR2, also while an operation hangs. */
#ifndef PCCL_TOOLS_SYSTEM_SIGHT_H
#define PCCL_TOOLS_SYSTEM_SIGHT_H

#include "pccl.h"

/*
 * Blocks the signal in all threads and in started processes, which inherit that. Call before the first thread is
 * started.
 */
void perf_sight_prepare(void);
/*
 * Starts a thread that waits for the signal, and writes pccl-perf-<process>.json into the current folder. One
 * communicator at a time. If the thread cannot be started, the signal has no effect.
 */
void perf_sight_watch(const pcclComm_t *comm);
/* Ends the watch, if there is one. Call before the communicator is destroyed. */
void perf_sight_end(void);

#endif
