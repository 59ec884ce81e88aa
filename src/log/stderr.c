#include "log/stderr.h"

#include "os/terminal.h"

#include <stdio.h>

static pccl_logger_format *chosen_format;

void pccl_logger_set_format(pccl_logger_format *format) { chosen_format = format; }

void pccl_log_stderr(enum pccl_log_level level, const char *subsystem, const char *message,
                     const struct pccl_log_fields *fields)
{
    struct timespec now = pccl_terminal_now();
    struct tm utc;
    char time[32], line[2 * PCCL_LOGGER_LINE_MAX];
    if (chosen_format != NULL) {
        static const struct pccl_log_fields none;
        pccl_terminal_write_error(
            line, chosen_format(line, sizeof line, &now, level, subsystem, message, fields ? fields : &none));
        return;
    }
    if (!pccl_terminal_utc(now.tv_sec, &utc) || strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        time[0] = '\0';
    }
    int length = snprintf(line, sizeof line, "%s.%03dZ pccl %s %.64s %.*s\n", time, (int)(now.tv_nsec / 1000000),
                          pccl_logger_level_name(level), subsystem, (int)PCCL_LOGGER_LINE_MAX, message);
    if (length > 0) {
        pccl_terminal_write_error(line, (size_t)length);
    }
}
