/* SIGUSR2 writes the flight recorder of this process's peer to a file, also while an operation hangs. */
#ifndef PCCL_TOOLS_SYSTEM_SIGHT_H
#define PCCL_TOOLS_SYSTEM_SIGHT_H

#include "pccl.h"

/* Before the first thread is started: none of them takes the signal. Processes that are started inherit that. */
void perf_sight_prepare(void);
/*
 * From now on a thread waits for the signal, and writes pccl-perf-<process>.json into the current
 * folder. One communicator at a time. If no thread can be started, the signal has no effect.
 */
void perf_sight_watch(const pcclComm_t *comm);
/* Before the communicator is destroyed; without a watch nothing happens. */
void perf_sight_end(void);

#endif
