#include "drive/logger.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * The level is one atomic, so that lines nobody wants cost nothing. The callback is changed in generations: each line
 * counts itself into the generation whose callback it uses, and who changes the callback waits until the old generation
 * has counted down to zero. The lock is never held while a callback runs or a line is written.
 */
static atomic_int threshold = PCCL_LOG_WARN;
static atomic_bool chosen; /* the user set the level */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static pcclLogCallback_t sink;
static void *sink_user;
static uint32_t generation;
static uint32_t running[2]; /* callbacks of the current and of the previous generation, by parity */
static bool changing;       /* one change at a time: there are only two counters */

static _Thread_local int inside; /* a callback runs on this thread: 1 + the parity of its generation */

/* A forked child has only the thread that forked: what others were doing here is over. */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void after_fork_in_child(void)
{
    running[0] = inside == 1;
    running[1] = inside == 2;
    changing = false;
    idle = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void) { (void)pthread_atfork(before_fork, after_fork, after_fork_in_child); }

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

void pccl_logger_set_callback(pcclLogCallback_t callback, void *user)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&lock);
    while (changing && !inside) {
        pthread_cond_wait(&idle, &lock);
    }
    if (inside) {
        /* Waiting for the callback that we are in would be for ever: the generation stays, only the sink changes. */
        sink = callback;
        sink_user = user;
        pthread_mutex_unlock(&lock);
        return;
    }
    changing = true;
    uint32_t old = generation & 1;
    generation++;
    sink = callback;
    sink_user = user;
    while (running[old] > 0) {
        pthread_cond_wait(&idle, &lock);
    }
    changing = false;
    pthread_cond_broadcast(&idle);
    pthread_mutex_unlock(&lock);
}

/*
 * Nobody may be reading the other end of a pipe, and then a write would stop the thread that keeps this peer alive. A
 * pipe that polls writable takes a line as a whole.
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

/* Writes all of it, whatever becomes of the other end: a broken pipe must not kill the process. */
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

static void write_line(enum pccl_log_level level, const char *subsystem, const char *message,
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
    if (!pccl_logger_wants(level) || inside) {
        return;
    }
    int error_before = errno;
    pthread_once(&fork_once, watch_forks);
    char cleaned[PCCL_LOGGER_LINE_MAX + 1];
    clean(cleaned, message);
    pthread_mutex_lock(&lock);
    pcclLogCallback_t callback = sink;
    void *user = sink_user;
    uint32_t mine = generation & 1;
    running[mine]++;
    pthread_mutex_unlock(&lock);
    if (callback != NULL) {
        inside = 1 + (int)mine;
        callback((pcclLogLevel_t)level, subsystem, cleaned, user);
        inside = 0;
    } else {
        write_line(level, subsystem, cleaned, fields);
    }
    pthread_mutex_lock(&lock);
    if (--running[mine] == 0) {
        pthread_cond_broadcast(&idle);
    }
    pthread_mutex_unlock(&lock);
    errno = error_before;
}

void pccl_logger_print(enum pccl_log_level level, const char *subsystem, const char *format, ...)
{
    if (!pccl_logger_wants(level) || inside) {
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
