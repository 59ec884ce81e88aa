#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* ---- this process ---- */

/* Sockets have no numbers of standard descriptors, and the number of handles is not limited. */
void process_hold_standard_descriptors(void) {}

void process_raise_descriptor_limit(void) {}

void process_name_thread(const char *name) { (void)name; }

static double seconds_of(HANDLE process)
{
    FILETIME begun, ended, system, user;
    if (!GetProcessTimes(process, &begun, &ended, &system, &user))
        return 0;
    uint64_t ticks = ((uint64_t)system.dwHighDateTime << 32) + system.dwLowDateTime +
                     ((uint64_t)user.dwHighDateTime << 32) + user.dwLowDateTime;
    return 1e-7 * (double)ticks;
}

double process_cpu_s(void) { return seconds_of(GetCurrentProcess()); }

double process_cpu_of_s(long process)
{
    HANDLE opened = process > 0 ? OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)process) : NULL;
    double seconds = opened ? seconds_of(opened) : 0;
    if (opened)
        (void)CloseHandle(opened);
    return seconds;
}

void process_sleep_s(double seconds) { Sleep((DWORD)(1e3 * seconds)); }

bool process_set_environment(const char *name, const char *value) { return _putenv_s(name, value) == 0; }

long process_id(void) { return (long)GetCurrentProcessId(); }

/* ---- children ---- */

/* A child keeps its id while its handle is open. */
static struct kept {
    struct kept *next;
    long process;
    HANDLE handle;
} * all;

static HANDLE handle_of(const struct process_child *child)
{
    for (const struct kept *kept = all; kept; kept = kept->next)
        if (kept->process == child->process)
            return kept->handle;
    return NULL;
}

static bool fail(const char *what)
{
    (void)fprintf(stderr, "pccl-perf: %s: error %lu\n", what, GetLastError());
    return false;
}

/* Pipes are numbered by their handles, which are the same numbers in a child that inherits them. */
static HANDLE handle_of_pipe(int pipe) { return (HANDLE)(intptr_t)pipe; }

static int number_of(HANDLE pipe) { return (int)(intptr_t)pipe; }

bool process_pipes(struct process_child *child, int *childs_results, int *childs_go)
{
    enum { BYTES = 64 << 10 };
    HANDLE results[2], go[2];
    *child = (struct process_child){.results = -1, .go = -1};
    if (!CreatePipe(&results[0], &results[1], NULL, BYTES))
        return fail("cannot create a pipe");
    if (!CreatePipe(&go[0], &go[1], NULL, BYTES)) {
        (void)CloseHandle(results[0]);
        (void)CloseHandle(results[1]);
        return fail("cannot create a pipe");
    }
    *child = (struct process_child){.results = number_of(results[0]), .go = number_of(go[1])};
    *childs_results = number_of(results[1]);
    *childs_go = number_of(go[0]);
    return true;
}

/* Appends an argument, quoted as the C library of the child expects. Returns the end. */
static char *quote(char *at, const char *argument)
{
    size_t slashes = 0;
    *at++ = '"';
    for (; *argument; argument++) {
        size_t more = *argument == '"' ? slashes + 1 : 0;
        memset(at, '\\', more);
        at += more;
        *at++ = *argument;
        slashes = *argument == '\\' ? slashes + 1 : 0;
    }
    memset(at, '\\', slashes);
    at += slashes;
    *at++ = '"';
    return at;
}

static char *command_line(char **arguments)
{
    size_t bytes = 1;
    for (char **argument = arguments; *argument; argument++)
        bytes += 2 * strlen(*argument) + 3;
    char *line = malloc(bytes), *at = line;
    for (char **argument = arguments; line && *argument; argument++) {
        if (argument != arguments)
            *at++ = ' ';
        at = quote(at, *argument);
    }
    if (line)
        *at = '\0';
    return line;
}

/* Returns the job whose processes end with this process, or NULL. */
static HANDLE job_of_children(void)
{
    static HANDLE job;
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {
        .BasicLimitInformation = {.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}};
    if (!job && (job = CreateJobObjectA(NULL, NULL)) != NULL)
        (void)SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return job;
}

/* Starts this program, suspended. It inherits the two pipes and the standard handles. */
static bool start(char *line, const HANDLE pipes[2], PROCESS_INFORMATION *started)
{
    HANDLE inherited[5] = {pipes[0], pipes[1]};
    STARTUPINFOEXA info = {.StartupInfo = {.cb = sizeof info, .dwFlags = STARTF_USESTDHANDLES}};
    STARTUPINFOA *standard = &info.StartupInfo;
    char path[MAX_PATH];
    SIZE_T bytes = 0;
    DWORD count = 2;
    standard->hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    standard->hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    standard->hStdError = GetStdHandle(STD_ERROR_HANDLE);
    const HANDLE own[3] = {standard->hStdInput, standard->hStdOutput, standard->hStdError};
    for (int i = 0; i < 3; i++)
        if (own[i] && own[i] != INVALID_HANDLE_VALUE && SetHandleInformation(own[i], HANDLE_FLAG_INHERIT, 1) &&
            (i == 0 || own[i] != own[i - 1]))
            inherited[count++] = own[i];
    (void)InitializeProcThreadAttributeList(NULL, 1, 0, &bytes);
    info.lpAttributeList = malloc(bytes);
    if (!info.lpAttributeList || !InitializeProcThreadAttributeList(info.lpAttributeList, 1, 0, &bytes)) {
        free(info.lpAttributeList);
        return false;
    }
    bool good = UpdateProcThreadAttribute(info.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, inherited,
                                          count * sizeof *inherited, NULL, NULL) &&
                GetModuleFileNameA(NULL, path, sizeof path) > 0 &&
                CreateProcessA(path, line, NULL, NULL, TRUE, EXTENDED_STARTUPINFO_PRESENT | CREATE_SUSPENDED, NULL,
                               NULL, standard, started);
    DeleteProcThreadAttributeList(info.lpAttributeList);
    free(info.lpAttributeList);
    return good;
}

bool process_start(struct process_child *child, char **arguments, int childs_results, int childs_go)
{
    const HANDLE pipes[2] = {handle_of_pipe(childs_results), handle_of_pipe(childs_go)};
    PROCESS_INFORMATION started;
    struct kept *kept = malloc(sizeof *kept);
    char *line = command_line(arguments);
    bool good = kept && line && SetHandleInformation(pipes[0], HANDLE_FLAG_INHERIT, 1) &&
                SetHandleInformation(pipes[1], HANDLE_FLAG_INHERIT, 1) && start(line, pipes, &started);
    if (!good)
        (void)fail("cannot start a process");
    (void)CloseHandle(pipes[0]);
    (void)CloseHandle(pipes[1]);
    free(line);
    if (!good) {
        free(kept);
        return false;
    }
    (void)AssignProcessToJobObject(job_of_children(), started.hProcess);
    (void)ResumeThread(started.hThread);
    (void)CloseHandle(started.hThread);
    child->process = (long)started.dwProcessId;
    *kept = (struct kept){.next = all, .process = child->process, .handle = started.hProcess};
    all = kept;
    return true;
}

void process_kill(const struct process_child *child) { (void)TerminateProcess(handle_of(child), 1); }

void process_stop(const struct process_child *child)
{
    typedef LONG(NTAPI * suspend)(HANDLE process);
    HMODULE system = GetModuleHandleA("ntdll.dll");
    suspend call = system ? (suspend)(void (*)(void))GetProcAddress(system, "NtSuspendProcess") : NULL;
    if (call)
        (void)call(handle_of(child));
}

/* Returns the exit code, and forgets the child. */
static int reap(long process)
{
    DWORD code = 1;
    struct kept **at = &all;
    while (*at && (*at)->process != process)
        at = &(*at)->next;
    struct kept *kept = *at;
    if (!kept)
        return 1;
    (void)WaitForSingleObject(kept->handle, INFINITE);
    (void)GetExitCodeProcess(kept->handle, &code);
    (void)CloseHandle(kept->handle);
    *at = kept->next;
    free(kept);
    return (int)code;
}

int process_end(struct process_child *child, bool kills)
{
    if (child->results != -1)
        (void)CloseHandle(handle_of_pipe(child->results));
    if (child->go != -1)
        (void)CloseHandle(handle_of_pipe(child->go));
    child->results = child->go = -1;
    if (child->process <= 0)
        return 1;
    if (kills)
        process_kill(child);
    int code = reap(child->process);
    child->process = 0;
    return code;
}

void process_await(const struct process_child *child)
{
    if (child->process > 0)
        (void)WaitForSingleObject(handle_of(child), INFINITE);
}

void process_report_end(const struct process_child *child, const char *name, uint32_t index)
{
    DWORD code;
    HANDLE process = handle_of(child);
    if (process && WaitForSingleObject(process, 0) == WAIT_OBJECT_0 && GetExitCodeProcess(process, &code) && code != 0)
        (void)fprintf(stderr, "pccl-perf: %s %u exited with code %lu\n", name, index, code);
}

/* ---- pipes ---- */

bool process_write_all(int pipe, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        DWORD written;
        if (!WriteFile(handle_of_pipe(pipe), (const char *)bytes + done, (DWORD)(length - done), &written, NULL))
            return false;
        done += written;
    }
    return true;
}

bool process_read_all(int pipe, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        DWORD got;
        if (!ReadFile(handle_of_pipe(pipe), (char *)bytes + done, (DWORD)(length - done), &got, NULL) || got == 0)
            return false;
        done += got;
    }
    return true;
}

/* Looks at the pipes one after the other, because the system cannot wait for several. */
static int look(struct process_watched *watched, uint32_t count)
{
    int ready = 0;
    for (uint32_t i = 0; i < count; i++) {
        DWORD available = 0;
        watched[i].has_input = watched[i].has_ended = false;
        if (watched[i].pipe == -1)
            continue;
        watched[i].has_ended = !PeekNamedPipe(handle_of_pipe(watched[i].pipe), NULL, 0, NULL, &available, NULL);
        watched[i].has_input = available > 0;
        ready += watched[i].has_input || watched[i].has_ended;
    }
    return ready;
}

int process_watch(struct process_watched *watched, uint32_t count, int limit_ms)
{
    int ready = look(watched, count);
    for (int waited_ms = 0; ready == 0 && (limit_ms < 0 || waited_ms < limit_ms); waited_ms++) {
        Sleep(1);
        ready = look(watched, count);
    }
    return ready;
}
