/* Lines of the log on standard error: written by whoever logs, whole, and never for long. */
#ifndef PCCL_LOG_STDERR_H
#define PCCL_LOG_STDERR_H

#include "log/logger.h"

/* Any thread. The message has no line end; fields may be NULL. */
void pccl_log_stderr(enum pccl_log_level level, const char *subsystem, const char *message,
                     const struct pccl_log_fields *fields);

#endif
