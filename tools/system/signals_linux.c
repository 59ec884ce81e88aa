#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

enum { WOKEN = SIGUSR1 };

static pthread_t main_thread;

static sigset_t awaited(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, WOKEN);
    return set;
}

void signals_hold(void)
{
    sigset_t set = awaited();
    main_thread = pthread_self();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    signals_ignore_broken_pipes();
}

enum signals_event signals_wait(int limit_ms)
{
    const struct timespec limit = {.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1000000L};
    sigset_t set = awaited();
    for (;;) {
        switch (limit_ms < 0 ? sigwaitinfo(&set, NULL) : sigtimedwait(&set, NULL, &limit)) {
        case SIGINT: return SIGNALS_INTERRUPT;
        case SIGTERM: return SIGNALS_TERMINATE;
        case SIGHUP: return SIGNALS_RELOAD;
        case WOKEN: return SIGNALS_WOKEN;
        default: break;
        }
        if (errno == EAGAIN)
            return SIGNALS_TIMEOUT;
    }
}

void signals_wake(void) { (void)pthread_kill(main_thread, WOKEN); }

void signals_ignore_broken_pipes(void) { (void)signal(SIGPIPE, SIG_IGN); }
