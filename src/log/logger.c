#include "log/logger.h"

#include "core/log_limit.h"
#include "core/text.h"
#include "log/queue.h"
#include "log/stderr.h"
#include "net/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

void pccl_logger_set_callback(pcclLogCallback_t callback, void *user) { pccl_log_queue_set(callback, user); }

void pccl_logger_wait(uint32_t milliseconds) { pccl_log_queue_wait(milliseconds); }

/*
 * Replaces everything but printable UTF-8, so that a message is a single line, cannot imitate another line, and cannot
 * control a terminal.
 */
static void clean(char *out, const char *message)
{
    size_t at = 0, left = strnlen(message, PCCL_LOGGER_LINE_MAX);
    while (left > 0) {
        size_t length = pccl_text_character(message + at, left);
        if (length > 0)
            memcpy(out + at, message + at, length);
        else
            out[at] = '?';
        length = length > 0 ? length : 1;
        at += length;
        left -= length;
    }
    out[at] = '\0';
}

void pccl_logger_write(enum pccl_log_level level, const char *subsystem, const char *message)
{
    pccl_logger_write_fields(level, subsystem, message, NULL);
}

static void put(enum pccl_log_level level, const char *subsystem, const char *message,
                const struct pccl_log_fields *fields)
{
    if (!pccl_log_queue_put(level, subsystem, message))
        pccl_log_stderr(level, subsystem, message, fields);
}

/*
 * Returns true if the line may be written. Lines that strangers can cause are limited; the number of omitted lines is
 * logged with the first line after each minute. Uses no lock, because in a forked child it could stay locked forever. A
 * line is not limited if another thread is in this function at the same time.
 */
static bool is_within_limits(enum pccl_log_level level, enum pccl_log_cause cause)
{
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static struct pccl_log_limit limit;
    struct pccl_log_omission omissions[PCCL_LOG_CAUSES];
    uint32_t count = 0;
    uint64_t now_us = pccl_now_us();
    if (atomic_flag_test_and_set(&busy))
        return true;
    while (count < PCCL_LOG_CAUSES && pccl_log_limit_over(&limit, now_us, &omissions[count]))
        count++;
    bool admitted = pccl_log_limit_admit(&limit, cause, level, now_us);
    atomic_flag_clear(&busy);
    for (uint32_t i = 0; i < count; i++) {
        char message[160];
        (void)snprintf(message, sizeof message, "suppressed %llu more lines within a minute: %s",
                       (unsigned long long)omissions[i].lines, omissions[i].what);
        put(omissions[i].level, "log", message, NULL);
    }
    return admitted;
}

void pccl_logger_write_fields(enum pccl_log_level level, const char *subsystem, const char *message,
                              const struct pccl_log_fields *fields)
{
    if (!pccl_logger_wants(level) || pccl_log_queue_inside())
        return;
    int error_before = errno;
    if (is_within_limits(level, fields ? fields->cause : PCCL_LOG_CAUSE_NONE)) {
        char cleaned[PCCL_LOGGER_LINE_MAX + 1];
        clean(cleaned, message);
        put(level, subsystem, cleaned, fields);
    }
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
