/* Formats of log lines, for people and for programs. Each one is a pccl_logger_format (log/logger.h). */
#ifndef PCCL_TOOLS_MASTER_LOG_FORMAT_H
#define PCCL_TOOLS_MASTER_LOG_FORMAT_H

#include "log/logger.h"

pccl_logger_format pccl_log_format_text, pccl_log_format_logfmt, pccl_log_format_json;

/* Returns the format named "text", "logfmt" or "json", or NULL for any other name. */
pccl_logger_format *pccl_log_format_find(const char *name);

#endif
