#include "log/stderr.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/*
 * Returns true if a line can be written soon. The other end of a pipe may not be read, and then a write would stop the
 * thread that keeps this peer alive. A pipe that polls writable takes a line as a whole.
 */
static bool is_writable(void)
{
    enum { PATIENCE_MS = 20 };
    static atomic_bool stuck; /* lines were lost: do not wait again for each of the next */
    struct pollfd descriptor = {.fd = STDERR_FILENO, .events = POLLOUT};
    int polled;
    do {
        polled = poll(&descriptor, 1, atomic_load(&stuck) ? 0 : PATIENCE_MS);
    } while (polled < 0 && errno == EINTR);
    bool ready = polled > 0;
    atomic_store(&stuck, !ready);
    return ready;
}

/* Writes all bytes, whatever happens to the other end: a broken pipe must not kill the process. */
static void write_stderr(const char *bytes, size_t length)
{
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    if (pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) != 0) {
        return;
    }
    while (length > 0 && is_writable()) {
        ssize_t written = write(STDERR_FILENO, bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            break;
        }
        bytes += written;
        length -= (size_t)written;
    }
    if (!was_pending) {
        sigpending(&pending);
        if (sigismember(&pending, SIGPIPE) == 1) {
            int number;
            sigwait(&pipe_signal, &number);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static pccl_logger_format *chosen_format;

void pccl_logger_set_format(pccl_logger_format *format) { chosen_format = format; }

void pccl_log_stderr(enum pccl_log_level level, const char *subsystem, const char *message,
                     const struct pccl_log_fields *fields)
{
    struct timespec now;
    struct tm utc;
    char time[32], line[2 * PCCL_LOGGER_LINE_MAX];
    clock_gettime(CLOCK_REALTIME, &now);
    if (chosen_format != NULL) {
        static const struct pccl_log_fields none;
        write_stderr(line, chosen_format(line, sizeof line, &now, level, subsystem, message, fields ? fields : &none));
        return;
    }
    if (gmtime_r(&now.tv_sec, &utc) == NULL || strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc) == 0) {
        time[0] = '\0';
    }
    int length = snprintf(line, sizeof line, "%s.%03dZ pccl %s %.64s %.*s\n", time, (int)(now.tv_nsec / 1000000),
                          pccl_logger_level_name(level), subsystem, (int)PCCL_LOGGER_LINE_MAX, message);
    if (length > 0) {
        write_stderr(line, (size_t)length);
    }
}
