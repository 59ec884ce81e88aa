#include "signals_windows.h"

#include <stdatomic.h>
#include <windows.h>

static HANDLE changed;     /* set when a bit of `raised` is set */
static atomic_uint raised; /* a bit for each event */

void signals_raise(enum signals_event event)
{
    (void)atomic_fetch_or(&raised, 1u << event);
    (void)SetEvent(changed);
}

/* Runs on a thread that the system creates. After the end of this call, the system may end the process. */
static BOOL WINAPI on_console_event(DWORD event)
{
    enum { CLEANUP_MS = 10000 };
    signals_raise(event == CTRL_C_EVENT ? SIGNALS_INTERRUPT : SIGNALS_TERMINATE);
    if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT)
        Sleep(CLEANUP_MS);
    return TRUE;
}

void signals_hold(void)
{
    changed = CreateEventA(NULL, FALSE, FALSE, NULL);
    (void)SetConsoleCtrlHandler(on_console_event, TRUE);
}

enum signals_event signals_wait(int limit_ms)
{
    for (;;) {
        for (unsigned event = SIGNALS_WOKEN; event <= SIGNALS_RELOAD; event++)
            if (atomic_fetch_and(&raised, ~(1u << event)) & (1u << event))
                return (enum signals_event)event;
        if (WaitForSingleObject(changed, limit_ms < 0 ? INFINITE : (DWORD)limit_ms) == WAIT_TIMEOUT)
            return SIGNALS_TIMEOUT;
    }
}

void signals_wake(void) { signals_raise(SIGNALS_WOKEN); }

void signals_ignore_broken_pipes(void) {} /* the system has no such signal */
