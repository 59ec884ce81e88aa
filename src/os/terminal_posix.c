#include "os/terminal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/*
 * Waits until standard error is writable. Writing to a full pipe would otherwise block the thread that keeps this peer
 * alive. A pipe that is writable accepts a whole line.
 */
static bool is_writable(void)
{
    enum { PATIENCE_MS = 20 };
    static atomic_bool stuck; /* lines were dropped, so the next ones do not wait */
    struct pollfd descriptor = {.fd = STDERR_FILENO, .events = POLLOUT};
    int polled;
    do {
        polled = poll(&descriptor, 1, atomic_load(&stuck) ? 0 : PATIENCE_MS);
    } while (polled < 0 && errno == EINTR);
    bool ready = polled > 0;
    atomic_store(&stuck, !ready);
    return ready;
}

void pccl_terminal_write_error(const char *bytes, size_t length)
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

struct timespec pccl_terminal_now(void)
{
    struct timespec now = {0};
    (void)timespec_get(&now, TIME_UTC);
    return now;
}

bool pccl_terminal_utc(time_t time, struct tm *utc) { return gmtime_r(&time, utc) != NULL; }
