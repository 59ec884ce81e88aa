#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

/* ---- this process ---- */

void process_hold_standard_descriptors(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
}

void process_raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

double process_cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void process_sleep_s(double seconds)
{
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&pause, NULL);
}

bool process_set_environment(const char *name, const char *value) { return setenv(name, value, 1) == 0; }

long process_id(void) { return (long)getpid(); }

/* ---- children ---- */

static bool fail(const char *what)
{
    perror(what);
    return false;
}

/* Creates a pipe that other children do not inherit. */
static bool make_pipe(int pair[2])
{
    if (pipe(pair) != 0)
        return fail("pccl-perf: pipe");
    (void)fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(pair[1], F_SETFD, FD_CLOEXEC);
    return true;
}

bool process_pipes(struct process_child *child, int *childs_results, int *childs_go)
{
    int results[2], go[2];
    *child = (struct process_child){.results = -1, .go = -1};
    if (!make_pipe(results))
        return false;
    if (!make_pipe(go)) {
        (void)close(results[0]);
        (void)close(results[1]);
        return false;
    }
    *child = (struct process_child){.results = results[0], .go = go[1]};
    *childs_results = results[1];
    *childs_go = go[0];
    return true;
}

bool process_start(struct process_child *child, char **arguments, int childs_results, int childs_go)
{
    char program[4096];
    size_t size = sizeof program;
    int error = uv_exepath(program, &size);
    pid_t process = fork();
    if (process == 0) {
        process_end_with_parent();
        (void)fcntl(childs_results, F_SETFD, 0);
        (void)fcntl(childs_go, F_SETFD, 0);
        (void)execv("/proc/self/exe", arguments); /* Linux: also when the file has been replaced */
        if (error == 0)
            (void)execv(program, arguments);
        _exit(127);
    }
    (void)close(childs_results);
    (void)close(childs_go);
    child->process = process;
    return process > 0 || fail("pccl-perf: fork");
}

void process_kill(const struct process_child *child) { (void)kill((pid_t)child->process, SIGKILL); }

void process_stop(const struct process_child *child) { (void)kill((pid_t)child->process, SIGSTOP); }

int process_end(struct process_child *child, bool kills)
{
    int status = 0;
    if (child->results >= 0)
        (void)close(child->results);
    if (child->go >= 0)
        (void)close(child->go);
    child->results = child->go = -1;
    if (child->process <= 0)
        return 1;
    if (kills)
        process_kill(child);
    (void)waitpid((pid_t)child->process, &status, 0);
    child->process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void process_await(const struct process_child *child)
{
    siginfo_t info;
    if (child->process > 0)
        (void)waitid(P_PID, (id_t)child->process, &info, WEXITED | WNOWAIT);
}

void process_report_end(const struct process_child *child, const char *name, uint32_t index)
{
    siginfo_t info = {0};
    if (child->process <= 0 || waitid(P_PID, (id_t)child->process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    if (info.si_code != CLD_EXITED)
        (void)fprintf(stderr, "pccl-perf: %s %u was terminated by signal %d (%s)\n", name, index, info.si_status,
                      strsignal(info.si_status));
    else if (info.si_status != 0)
        (void)fprintf(stderr, "pccl-perf: %s %u exited with code %d\n", name, index, info.si_status);
}

/* ---- pipes ---- */

bool process_write_all(int pipe, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t written = write(pipe, (const char *)bytes + done, length - done);
        if (written <= 0 && errno != EINTR)
            return false;
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

bool process_read_all(int pipe, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(pipe, (char *)bytes + done, length - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

int process_watch(struct process_watched *watched, uint32_t count, int limit_ms)
{
    struct pollfd *polled = calloc(count, sizeof *polled);
    if (!polled)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        polled[i] = (struct pollfd){.fd = watched[i].pipe, .events = POLLIN};
    int ready = poll(polled, count, limit_ms);
    if (ready < 0 && errno == EINTR)
        ready = 0;
    for (uint32_t i = 0; i < count; i++) {
        watched[i].has_input = ready > 0 && (polled[i].revents & POLLIN);
        watched[i].has_ended = ready > 0 && polled[i].revents && !watched[i].has_input;
    }
    free(polled);
    return ready;
}
