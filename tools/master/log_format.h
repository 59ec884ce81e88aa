/* Log lines for people and for programs. Each is a pccl_logger_format of log/logger.h. */
#ifndef PCCL_TOOLS_MASTER_LOG_FORMAT_H
#define PCCL_TOOLS_MASTER_LOG_FORMAT_H

#include "log/logger.h"

pccl_logger_format pccl_log_format_text, pccl_log_format_logfmt, pccl_log_format_json;

/* Returns the format "text", "logfmt" or "json", or NULL for other names. */
pccl_logger_format *pccl_log_format_find(const char *name);

#endif
