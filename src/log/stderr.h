/* Log lines on standard error, written by the logging thread, whole and without long waits. */
#ifndef PCCL_LOG_STDERR_H
#define PCCL_LOG_STDERR_H

#include "log/logger.h"

/* Writes a line. Any thread. The message has no line end; fields may be NULL. */
void pccl_log_stderr(enum pccl_log_level level, const char *subsystem, const char *message,
                     const struct pccl_log_fields *fields);

#endif
