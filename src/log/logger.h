/*
 * Writes the log lines of this process, to a callback or to standard error as "<time> pccl <level> <subsystem>
 * <message>". Never writes to standard output and never ends the process. The functions may be called from any thread.
 * Logging does not wait for the callback, which runs on a separate thread (log/queue.h). Lines that a callback itself
 * logs are dropped.
 */
#ifndef PCCL_LOG_LOGGER_H
#define PCCL_LOG_LOGGER_H

#include "core/base.h"
#include "core/log.h"
#include "log/level.h"
#include "pccl.h"

#include <time.h>

enum { PCCL_LOGGER_LINE_MAX = 2048 }; /* maximum size of a message in bytes; longer ones are truncated */

/* Writes a line. Replaces line ends and control characters within the message with '?'. */
void pccl_logger_write(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Does the same, with data that a formatter may add to the line. A callback receives only the message. If fields->cause
 * is one that strangers can trigger, the number of lines is limited (core/log_limit.h). fields may be NULL.
 */
void pccl_logger_write_fields(enum pccl_log_level level, const char *subsystem, const char *message,
                              const struct pccl_log_fields *fields);
PCCL_PRINTF(3, 4)
void pccl_logger_print(enum pccl_log_level level, const char *subsystem, const char *format, ...);

/*
 * Sets the callback; NULL means standard error. When this returns, the previous callback has received all earlier lines
 * and will not run again. Does not wait if called from a callback.
 */
void pccl_logger_set_callback(pcclLogCallback_t callback, void *user);
/* Waits until the callback has received all earlier lines, but no longer than this time. */
void pccl_logger_wait(uint32_t milliseconds);

/*
 * Formats a line for standard error, including the line end. Returns its length, which is at most `size`. `size` is at
 * least twice PCCL_LOGGER_LINE_MAX. A NULL formatter selects the default format. Set the formatter while no other
 * thread logs.
 */
typedef size_t pccl_logger_format(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                                  const char *subsystem, const char *message, const struct pccl_log_fields *fields);
void pccl_logger_set_format(pccl_logger_format *format);

#endif
