/* Writes log lines to standard error. Writes each line as a whole, on the logging thread, without long waits. */
#ifndef PCCL_LOG_STDERR_H
#define PCCL_LOG_STDERR_H

#include "log/logger.h"

/* Writes a line. The message must not contain a line end; fields may be NULL. May be called from any thread. */
void pccl_log_stderr(enum pccl_log_level level, const char *subsystem, const char *message,
                     const struct pccl_log_fields *fields);

#endif
