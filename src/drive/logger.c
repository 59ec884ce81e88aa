#include "drive/logger.h"

#include "drive/log_queue.h"
#include "drive/log_stderr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* One atomic, so that lines nobody wants cost nothing. */
static atomic_int threshold = PCCL_LOG_WARN;
static atomic_bool chosen; /* the user set the level */

bool pccl_logger_wants(enum pccl_log_level level)
{
    return level < PCCL_LOG_NONE && (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

const char *pccl_logger_level_name(enum pccl_log_level level)
{
    static const char *const names[] = {"trace", "debug", "info", "warn", "error", "none"};
    return (unsigned)level < PCCL_COUNT_OF(names) ? names[level] : "?";
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

void pccl_logger_set_callback(pcclLogCallback_t callback, void *user) { pccl_log_queue_set(callback, user); }

void pccl_logger_wait(uint32_t milliseconds) { pccl_log_queue_wait(milliseconds); }

/* No line end, so that a message is one line and nobody can forge another. */
static void clean(char *out, const char *message)
{
    size_t i = 0;
    for (; i < PCCL_LOGGER_LINE_MAX && message[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)message[i];
        out[i] = byte < 0x20 || byte == 0x7f ? '?' : message[i];
    }
    out[i] = '\0';
}

void pccl_logger_write(enum pccl_log_level level, const char *subsystem, const char *message)
{
    pccl_logger_write_fields(level, subsystem, message, NULL);
}

void pccl_logger_write_fields(enum pccl_log_level level, const char *subsystem, const char *message,
                              const struct pccl_log_fields *fields)
{
    if (!pccl_logger_wants(level) || pccl_log_queue_inside())
        return;
    int error_before = errno;
    char cleaned[PCCL_LOGGER_LINE_MAX + 1];
    clean(cleaned, message);
    if (!pccl_log_queue_put(level, subsystem, cleaned))
        pccl_log_stderr(level, subsystem, cleaned, fields);
    errno = error_before;
}

void pccl_logger_print(enum pccl_log_level level, const char *subsystem, const char *format, ...)
{
    if (!pccl_logger_wants(level) || pccl_log_queue_inside()) {
        return;
    }
    char message[PCCL_LOGGER_LINE_MAX + 1];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= 0) {
        pccl_logger_write(level, subsystem, message);
    }
}
