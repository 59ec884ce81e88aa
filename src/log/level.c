#include "log/level.h"

#include <stdatomic.h>

/* A single atomic, so that a suppressed line costs one load. */
static atomic_int threshold = PCCL_LOG_WARN;
static atomic_bool chosen; /* the user has set the level */

bool pccl_logger_wants(enum pccl_log_level level)
{
    return level < PCCL_LOG_NONE && (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

void pccl_logger_set_level(enum pccl_log_level level)
{
    atomic_store(&chosen, true);
    atomic_store(&threshold, (int)level);
}

void pccl_logger_suggest_level(enum pccl_log_level level)
{
    if (!atomic_load(&chosen)) {
        atomic_store(&threshold, (int)level);
    }
}

const char *pccl_logger_level_name(enum pccl_log_level level)
{
    static const char *const names[] = {"trace", "debug", "info", "warn", "error", "none"};
    return (unsigned)level < PCCL_COUNT_OF(names) ? names[level] : "?";
}
