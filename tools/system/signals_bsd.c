/* macOS has no sigtimedwait. Handlers write the numbers of signals to a pipe, at which the main thread waits. */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WOKEN = SIGUSR1 };

static int pair[2];

/* Writes the number, unless the pipe is full of earlier ones. */
static void note(int number)
{
    int before = errno;
    unsigned char byte = (unsigned char)number;
    (void)!write(pair[1], &byte, sizeof byte);
    errno = before;
}

void signals_hold(void)
{
    static const int awaited[] = {SIGINT, SIGTERM, SIGHUP, WOKEN};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    if (pipe(pair) != 0) {
        perror("pipe for signals");
        exit(EXIT_FAILURE);
    }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(pair[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(pair[i], F_SETFL, O_NONBLOCK);
    }
    (void)sigfillset(&action.sa_mask);
    for (int i = 0; i < (int)(sizeof awaited / sizeof *awaited); i++)
        (void)sigaction(awaited[i], &action, NULL);
    signals_ignore_broken_pipes();
}

static long long now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

enum signals_event signals_wait(int limit_ms)
{
    long long end_ms = now_ms() + limit_ms;
    for (;;) {
        struct pollfd polled = {.fd = pair[0], .events = POLLIN};
        long long left_ms = limit_ms < 0 ? -1 : end_ms > now_ms() ? end_ms - now_ms() : 0;
        int ready = poll(&polled, 1, (int)left_ms);
        unsigned char byte;
        if (ready == 0)
            return SIGNALS_TIMEOUT;
        if (ready < 0 || read(pair[0], &byte, sizeof byte) != sizeof byte)
            continue;
        switch (byte) {
        case SIGINT: return SIGNALS_INTERRUPT;
        case SIGTERM: return SIGNALS_TERMINATE;
        case SIGHUP: return SIGNALS_RELOAD;
        default: return SIGNALS_WOKEN;
        }
    }
}

void signals_wake(void) { note(WOKEN); }

void signals_ignore_broken_pipes(void) { (void)signal(SIGPIPE, SIG_IGN); }
