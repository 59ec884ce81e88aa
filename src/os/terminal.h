/* Standard error, and the time in words. */
#ifndef PCCL_OS_TERMINAL_H
#define PCCL_OS_TERMINAL_H

#include "core/base.h"

#include <time.h>

/*
 * Writes all bytes to standard error, or loses the rest: it waits at most 20 ms for a full pipe, and a broken one
 * raises no signal. Any thread.
 */
void pccl_terminal_write_error(const char *bytes, size_t length);
/* Converts a time to UTC. Returns false if it has no such form. Any thread. */
PCCL_MUST_CHECK bool pccl_terminal_utc(time_t time, struct tm *utc);

#endif
