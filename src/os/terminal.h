/* Standard error, and times in UTC. */
#ifndef PCCL_OS_TERMINAL_H
#define PCCL_OS_TERMINAL_H

#include "core/base.h"

#include <time.h>

/*
 * Writes bytes to standard error. If it is a pipe that stays full for 20 ms, drops the rest, and does not wait again
 * until a write succeeds. A broken pipe raises no signal. Any thread.
 */
void pccl_terminal_write_error(const char *bytes, size_t length);
/* Returns the time. Any thread. */
struct timespec pccl_terminal_now(void);
/* Converts a time to UTC. Returns false if the result cannot be represented. Any thread. */
PCCL_MUST_CHECK bool pccl_terminal_utc(time_t time, struct tm *utc);

#endif
