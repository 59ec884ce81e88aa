/*
 * Levels and the line format of logs. Pure code hands lines to a function; drivers decide where they go
 * (drive/logger.h).
 */
#ifndef PCCL_CORE_LOG_H
#define PCCL_CORE_LOG_H

enum pccl_log_level {
    PCCL_LOG_TRACE = 0,
    PCCL_LOG_DEBUG = 1,
    PCCL_LOG_INFO = 2,
    PCCL_LOG_WARN = 3,
    PCCL_LOG_ERROR = 4,
    PCCL_LOG_NONE = 5,
};

#endif
