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

/*
 * Events of a run that a master keeps (ops/events.h): kind, word, and the maximum number per minute, which exceeds the
 * number that the start of a large run causes.
 */
#define PCCL_LOG_EVENTS(X)                                                                                             \
    X(MASTER_STARTED, "master_started", 100)                                                                           \
    X(MASTER_ENDED, "master_ended", 100)                                                                               \
    X(MASTER_SUSPENDED, "master_suspended", 100)                                                                       \
    X(RECOVERY_BEGAN, "recovery_began", 100)                                                                           \
    X(RECOVERY_ENDED, "recovery_ended", 100)                                                                           \
    X(RUN_STARTED, "run_started", 100)                                                                                 \
    X(RUN_ENDED, "run_ended", 100)                                                                                     \
    X(EPOCH, "epoch", 300)                                                                                             \
    X(JOINED, "joined", 1000)                                                                                          \
    X(RESUMED, "resumed", 1000)                                                                                        \
    X(LEFT, "left", 1000)                                                                                              \
    X(DRAINED, "drained", 1000)                                                                                        \
    X(LOST, "lost", 1000)                                                                                              \
    X(EXPELLED, "expelled", 300)                                                                                       \
    X(REMOVED, "removed", 1000)                                                                                        \
    X(NEWCOMER_GONE, "newcomer_gone", 300)                                                                             \
    X(REFUSED, "refused", 100)                                                                                         \
    X(COMMAND, "command", 300)                                                                                         \
    X(SHORTAGE, "shortage", 300)                                                                                       \
    X(INVALID, "invalid_message", 300)                                                                                 \
    X(LINK_FAILED, "link_failed", 300)                                                                                 \
    X(RING_SEARCHED, "ring_searched", 300)                                                                             \
    X(RING_CHANGED, "ring_changed", 300)                                                                               \
    X(REPLANNED, "replanned", 300)                                                                                     \
    X(VERDICT_BEGAN, "verdict_began", 300)                                                                             \
    X(VERDICT_ENDED, "verdict_ended", 300)                                                                             \
    X(FINDING_BEGAN, "finding_began", 300)                                                                             \
    X(FINDING_ENDED, "finding_ended", 300)                                                                             \
    X(STALLED, "stalled", 100)                                                                                         \
    X(CONTINUED, "continued", 100)                                                                                     \
    X(STATE_FETCHED, "state_fetched", 1000)                                                                            \
    X(STATE_FAILED, "state_failed", 300)

enum pccl_log_event {
    PCCL_EVENT_NONE,
#define PCCL_LOG_EVENT_VALUE(name, word, limit) PCCL_EVENT_##name,
    PCCL_LOG_EVENTS(PCCL_LOG_EVENT_VALUE)
#undef PCCL_LOG_EVENT_VALUE
        PCCL_EVENT_KINDS,
};

/* Structured fields of a line, for programs that read logs. All pointers are borrowed for the duration of the call. */
struct pccl_log_fields {
    const struct pccl_id *run, *peer; /* NULL if not applicable */
    const char *name;                 /* display name of the peer; NULL if unknown */
    bool has_operation;
    uint32_t group; /* this and the following fields are set only for an operation */
    uint64_t tag;
    uint64_t use;
    const char *reason; /* NULL if there is no reason */
    enum pccl_log_cause cause;
    enum pccl_log_event event; /* NONE: the line is not an event */
};

#endif
