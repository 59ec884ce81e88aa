/*
 * Destination of the log lines of this process: a callback, or standard error as "<time> pccl <level> <subsystem>
 * <message>". Never standard output; no function here ends the process. Any thread. Logging does not wait for the
 * callback, which runs on a separate thread (log/queue.h); lines that a callback logs itself are dropped.
 */
#ifndef PCCL_LOG_LOGGER_H
#define PCCL_LOG_LOGGER_H

#include "core/base.h"
#include "core/log.h"
#include "log/level.h"
#include "pccl.h"

#include <time.h>

enum { PCCL_LOGGER_LINE_MAX = 2048 }; /* bytes of a message; longer ones are cut */

/* Writes a line. Line ends and control characters within the message become '?'. */
void pccl_logger_write(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Does the same, with data that a formatter may add to the line; a callback receives the sentence only. Lines of a
 * cause (fields) that strangers can trigger are limited (core/log_limit.h); all others are written. fields may be NULL.
 */
void pccl_logger_write_fields(enum pccl_log_level level, const char *subsystem, const char *message,
                              const struct pccl_log_fields *fields);
PCCL_PRINTF(3, 4)
void pccl_logger_print(enum pccl_log_level level, const char *subsystem, const char *format, ...);

/*
 * Sets the callback; NULL: standard error. When it returns, the previous callback has received all earlier lines, and
 * neither runs nor will run; unless it is called by a callback (then it does not wait).
 */
void pccl_logger_set_callback(pcclLogCallback_t callback, void *user);
/* Waits until the callback has received all earlier lines, at most for this time. */
void pccl_logger_wait(uint32_t milliseconds);

/*
 * Formatter of lines on standard error; NULL: the format above. Writes a line with its end, at most size bytes (enough
 * for PCCL_LOGGER_LINE_MAX of message and as much again), and returns its length. Set it while no thread logs.
 */
typedef size_t pccl_logger_format(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                                  const char *subsystem, const char *message, const struct pccl_log_fields *fields);
void pccl_logger_set_format(pccl_logger_format *format);

#endif
