/* Writes the flight recorder of this process's peer to a file on SIGUSR2, even while an operation hangs. */
#ifndef PCCL_TOOLS_SYSTEM_SIGHT_H
#define PCCL_TOOLS_SYSTEM_SIGHT_H

#include "pccl.h"

/*
 * Blocks the signal in this thread and in all threads and child processes that it starts later. Call before starting
 * threads.
 */
void perf_sight_prepare(void);
/*
 * Starts a thread that waits for the signal and then writes pccl-perf-<process>.json into the current directory.
 * Watches one communicator at a time. If the thread cannot be started, the signal has no effect.
 */
void perf_sight_watch(const pcclComm_t *comm);
/* Ends the watch, if there is one. Call before the communicator is destroyed. */
void perf_sight_end(void);

#endif
