/* The level from which lines of this process are logged. Any thread. */
#ifndef PCCL_LOG_LEVEL_H
#define PCCL_LOG_LEVEL_H

#include "core/base.h"
#include "core/log.h"

/* Returns true if a line of this level is written. Costs one atomic load. */
bool pccl_logger_wants(enum pccl_log_level level);
/* Set the level, from the user or from the environment: the latter counts until the former is called. */
void pccl_logger_set_level(enum pccl_log_level level);
void pccl_logger_suggest_level(enum pccl_log_level level);
/* Returns the name of a level in lines of the log, such as "warn". */
const char *pccl_logger_level_name(enum pccl_log_level level);

#endif
