/* Minimum level of the lines that this process logs. The functions may be called from any thread. */
#ifndef PCCL_LOG_LEVEL_H
#define PCCL_LOG_LEVEL_H

#include "core/base.h"
#include "core/log.h"

/* Returns true if lines of this level are logged. Costs one atomic load. */
bool pccl_logger_wants(enum pccl_log_level level);
/*
 * Set the level, from the user's call or from the environment. The environment has no effect once the user has set a
 * level.
 */
void pccl_logger_set_level(enum pccl_log_level level);
void pccl_logger_suggest_level(enum pccl_log_level level);
/* Returns the name of a level as it appears in log lines, for example "warn". */
const char *pccl_logger_level_name(enum pccl_log_level level);

#endif
