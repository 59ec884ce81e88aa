/* On Windows, the service manager is informed by its own functions, if it has started this process. */
#include "notify.h"

#include "signals_windows.h"

#include <string.h>
#include <windows.h>

enum { STOP_MS = 10000 };

static SERVICE_STATUS_HANDLE service; /* NULL: not a service */
static HANDLE known;                  /* set once it is known whether the process is a service */
static HANDLE stopped;                /* set when the service has stopped */

static void report(DWORD state)
{
    SERVICE_STATUS status = {.dwServiceType = SERVICE_WIN32_OWN_PROCESS, .dwCurrentState = state};
    if (state == SERVICE_RUNNING)
        status.dwControlsAccepted = SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN | SERVICE_ACCEPT_PARAMCHANGE;
    if (state == SERVICE_START_PENDING || state == SERVICE_STOP_PENDING)
        status.dwWaitHint = STOP_MS;
    if (service)
        (void)SetServiceStatus(service, &status);
}

static DWORD WINAPI on_control(DWORD control, DWORD type, void *data, void *context)
{
    (void)type;
    (void)data;
    (void)context;
    switch (control) {
    case SERVICE_CONTROL_STOP:
    case SERVICE_CONTROL_SHUTDOWN: signals_raise(SIGNALS_TERMINATE); return NO_ERROR;
    case SERVICE_CONTROL_PARAMCHANGE: signals_raise(SIGNALS_RELOAD); return NO_ERROR;
    case SERVICE_CONTROL_INTERROGATE: return NO_ERROR;
    default: return ERROR_CALL_NOT_IMPLEMENTED;
    }
}

static void WINAPI be_service(DWORD count, char **arguments)
{
    (void)count;
    service = RegisterServiceCtrlHandlerExA(arguments[0], on_control, NULL);
    report(SERVICE_START_PENDING);
    (void)SetEvent(known);
    (void)WaitForSingleObject(stopped, INFINITE);
}

/* Returns at once if this process is not a service; otherwise, when the service has stopped. */
static DWORD WINAPI dispatch(void *unused)
{
    char name[] = "pccl-master"; /* ignored, because the process has one service */
    const SERVICE_TABLE_ENTRYA services[] = {{name, be_service}, {NULL, NULL}};
    (void)unused;
    (void)StartServiceCtrlDispatcherA(services);
    (void)SetEvent(known);
    return 0;
}

void notify_open(struct notify *notify)
{
    *notify = (struct notify){.socket = -1};
    known = CreateEventA(NULL, TRUE, FALSE, NULL);
    stopped = CreateEventA(NULL, TRUE, FALSE, NULL);
    HANDLE thread = known && stopped ? CreateThread(NULL, 0, dispatch, NULL, 0, NULL) : NULL;
    if (!thread)
        return;
    (void)WaitForSingleObject(known, INFINITE);
    (void)CloseHandle(thread);
}

void notify_say(const struct notify *notify, const char *message)
{
    (void)notify;
    if (strncmp(message, "READY=1", 7) == 0)
        report(SERVICE_RUNNING);
    else if (strncmp(message, "STOPPING=1", 10) == 0)
        report(SERVICE_STOP_PENDING);
}

void notify_beat(void *notify, const struct pccl_master_counts *counts)
{
    (void)notify;
    (void)counts;
}

void notify_close(struct notify *notify)
{
    (void)notify;
    report(SERVICE_STOPPED);
    (void)SetEvent(stopped);
}
