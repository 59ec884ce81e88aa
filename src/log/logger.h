/*
 * Where log lines of this process go: a callback, or standard error as "<time> pccl <level> <subsystem> <message>".
 * Never standard output; nothing here ends the process. Any thread. Who logs does not wait for the callback, which a
 * thread of its own calls (log/queue.h); what a callback logs itself is dropped.
 */
#ifndef PCCL_LOG_LOGGER_H
#define PCCL_LOG_LOGGER_H

#include "core/base.h"
#include "core/log.h"
#include "log/level.h"
#include "pccl.h"

#include <time.h>

enum { PCCL_LOGGER_LINE_MAX = 2048 }; /* bytes of a message; what is longer is cut */

/* Line ends and control characters within the message become '?'. */
void pccl_logger_write(enum pccl_log_level level, const char *subsystem, const char *message);
/*
 * Lines of a cause (fields) that strangers can bring about are limited (core/log_limit.h); the others are all written.
 * With what a formatter may add to the line; a callback gets the sentence only. fields may be NULL. */
void pccl_logger_write_fields(enum pccl_log_level level, const char *subsystem, const char *message,
                              const struct pccl_log_fields *fields);
PCCL_PRINTF(3, 4)
void pccl_logger_print(enum pccl_log_level level, const char *subsystem, const char *format, ...);

/*
 * NULL: standard error. When it returns the previous callback has had all lines before, neither runs nor will run;
 * unless it is called by a callback (then it does not wait).
 */
void pccl_logger_set_callback(pcclLogCallback_t callback, void *user);
/* Waits until the callback has had all lines before, but not for longer than this. */
void pccl_logger_wait(uint32_t milliseconds);

/*
 * How lines look on standard error; NULL: the format above. Writes a line with its end, at most size bytes (enough for
 * PCCL_LOGGER_LINE_MAX of message and as much again), and returns its length. To be set while nobody logs.
 */
typedef size_t pccl_logger_format(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                                  const char *subsystem, const char *message, const struct pccl_log_fields *fields);
void pccl_logger_set_format(pccl_logger_format *format);

#endif
