/*
 * Log levels, and the structured fields of a line. Components pass lines to a sink; the driver chooses the destination
 * (log/logger.h).
 */
#ifndef PCCL_CORE_LOG_H
#define PCCL_CORE_LOG_H

#include "core/id.h"

enum pccl_log_level {
    PCCL_LOG_TRACE = 0,
    PCCL_LOG_DEBUG = 1,
    PCCL_LOG_INFO = 2,
    PCCL_LOG_WARN = 3,
    PCCL_LOG_ERROR = 4,
    PCCL_LOG_NONE = 5,
};

/* Sink for the lines of a component. */
struct pccl_log_sink {
    void *context;
    void (*log)(void *context, enum pccl_log_level level, const char *line);
};
PCCL_PRINTF(3, 4)
void pccl_log_line(const struct pccl_log_sink *sink, enum pccl_log_level level, const char *format, ...);

/*
 * Causes of lines that strangers or members can trigger as often as they like. The number of these lines is limited
 * (core/log_limit.h).
 */
enum pccl_log_cause {
    PCCL_LOG_CAUSE_NONE,
    PCCL_LOG_CAUSE_REFUSED,
    PCCL_LOG_CAUSE_NEWCOMER,
    PCCL_LOG_CAUSE_MEMBERSHIP,
    PCCL_LOG_CAUSE_OPERATION,
    PCCL_LOG_CAUSE_RUN,     /* any other line of a master's state machine */
    PCCL_LOG_CAUSE_PEER,    /* lines of the state machines of this process's communicators */
    PCCL_LOG_CAUSE_WARNING, /* warnings of these state machines */
    PCCL_LOG_CAUSES,
};

/* Structured fields of a line, for programs that read logs. All pointers are borrowed for the duration of the call. */
struct pccl_log_fields {
    const struct pccl_id *run, *peer; /* NULL if not applicable */
    bool has_operation;
    uint32_t group; /* this and the following fields are set only for an operation */
    uint64_t tag;
    uint64_t use;
    const char *reason; /* NULL if there is no reason */
    enum pccl_log_cause cause;
};

#endif
