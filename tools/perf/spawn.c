#include "spawn.h"

#include "report.h"
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 250 };

static bool fail(const char *what)
{
    perror(what);
    return false;
}

/*
 * Runs this program again, as a worker or as the master. It inherits the environment and its own
 * two descriptors, and does not outlive us. Its own options come first: behind a "--" they would be
 * none.
 */
static bool spawn(const struct perf_launch *launch, bool is_worker, uint32_t index, struct perf_child *child)
{
    int results[2], go[2];
    char own[96], connect_option[] = "--connect";
    *child = (struct perf_child){.results = -1, .go = -1};
    if (pipe2(results, O_CLOEXEC) != 0)
        return fail("pccl-perf: pipe");
    if (pipe2(go, O_CLOEXEC) != 0) {
        (void)close(results[0]);
        (void)close(results[1]);
        return fail("pccl-perf: pipe");
    }
    if (is_worker)
        (void)snprintf(own, sizeof own, "--worker=%u,%d,%d,%ld", index, results[1], go[0],
                       (long)launch->master.process);
    else
        (void)snprintf(own, sizeof own, "--master=0,%d,%d", results[1], go[0]);
    char **arguments = calloc((size_t)launch->count + 5, sizeof *arguments);
    pid_t process = arguments ? fork() : -1;
    if (process == 0) {
        int own_count = 0;
        arguments[own_count++] = launch->arguments[0];
        arguments[own_count++] = own;
        if (is_worker) {
            arguments[own_count++] = connect_option;
            arguments[own_count++] = (char *)(uintptr_t)launch->address;
        }
        memcpy(arguments + own_count, launch->arguments + 1, (size_t)(launch->count - 1) * sizeof *arguments);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)fcntl(results[1], F_SETFD, 0);
        (void)fcntl(go[0], F_SETFD, 0);
        execv("/proc/self/exe", arguments);
        execvp(launch->arguments[0], arguments);
        _exit(127);
    }
    free(arguments);
    (void)close(results[1]);
    (void)close(go[0]);
    *child = (struct perf_child){.process = process, .results = results[0], .go = go[1]};
    return process > 0 || fail("pccl-perf: fork");
}

bool perf_spawn_master(struct perf_launch *launch, int count, char **arguments)
{
    uint16_t port;
    *launch = (struct perf_launch){.count = count, .arguments = arguments};
    if (!spawn(launch, false, 0, &launch->master))
        return false;
    if (!perf_read_all(launch->master.results, &port, sizeof port)) {
        (void)fprintf(stderr, "pccl-perf: the master did not start\n");
        return false;
    }
    (void)snprintf(launch->address, sizeof launch->address, "127.0.0.1:%u", port);
    return true;
}

bool perf_spawn_worker(const struct perf_launch *launch, uint32_t index, struct perf_child *child)
{
    return spawn(launch, true, index, child);
}

int perf_child_end(struct perf_child *child, bool hard)
{
    int status = 0;
    if (child->results >= 0)
        (void)close(child->results);
    if (child->go >= 0)
        (void)close(child->go);
    child->results = child->go = -1;
    if (child->process <= 0)
        return 1;
    if (hard)
        (void)kill(child->process, SIGKILL);
    (void)waitpid(child->process, &status, 0);
    child->process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void perf_child_tell(const struct perf_child *child, const char *name, uint32_t index)
{
    siginfo_t info = {0};
    if (child->process <= 0 || waitid(P_PID, (id_t)child->process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    if (info.si_code != CLD_EXITED)
        (void)fprintf(stderr, "pccl-perf: %s %u was ended by signal %d (%s)\n", name, index, info.si_status,
                      strsignal(info.si_status));
    else if (info.si_status != 0)
        (void)fprintf(stderr, "pccl-perf: %s %u ended with code %d\n", name, index, info.si_status);
}

void perf_child_await(const struct perf_child *child)
{
    siginfo_t info;
    if (child->process > 0)
        (void)waitid(P_PID, (id_t)child->process, &info, WEXITED | WNOWAIT);
}

/* The master is polled last. */
static bool await_polled(const struct perf_launch *launch, const struct perf_child *workers, uint32_t count,
                         uint32_t index, const char *words, struct pollfd *polled)
{
    for (uint32_t i = 0; i <= count; i++)
        polled[i] = (struct pollfd){.fd = i < count ? workers[i].results : launch->master.results, .events = POLLIN};
    for (uint32_t i = 0; i < index; i++)
        polled[i].fd = -1;
    while (polled[index].fd >= 0) {
        perf_progress(words);
        int ready = poll(polled, count + 1, TICK_MS);
        if (ready < 0 && errno != EINTR)
            return fail("pccl-perf: poll");
        for (uint32_t i = 0; i <= count && ready > 0; i++) {
            if (polled[i].revents & POLLIN) {
                polled[i].fd = -1; /* alive, or done with everything */
            } else if (polled[i].revents) {
                perf_child_await(i < count ? &workers[i] : &launch->master);
                return false;
            }
        }
    }
    return true;
}

bool perf_launch_await(const struct perf_launch *launch, const struct perf_child *workers, uint32_t count,
                       uint32_t index, const char *words)
{
    struct pollfd *polled = calloc((size_t)count + 1, sizeof *polled);
    bool good = polled && await_polled(launch, workers, count, index, words, polled);
    free(polled);
    return good;
}

int perf_master_main(const struct perf_options *options)
{
    pcclMasterInstance_t *master = NULL;
    uint16_t port = 0;
    char byte;
    pcclOptions_t *set = perf_library_options(options);
    if (!set)
        return 1;
    pcclResult_t result = pcclCreateMasterWithOptions("127.0.0.1:0", set, &master);
    (void)pcclDestroyOptions(set);
    if (result == pcclSuccess)
        result = pcclRunMaster(master);
    if (result == pcclSuccess)
        result = pcclMasterGetPort(master, &port);
    if (result != pcclSuccess) {
        (void)fprintf(stderr, "pccl-perf: master: %s (%s)\n", pcclGetErrorString(result), pcclGetLastError(NULL));
        return 1;
    }
    if (!perf_write_all(options->result_descriptor, &port, sizeof port))
        return 1;
    (void)perf_read_all(options->go_descriptor, &byte, 1); /* until the launcher is gone or done */
    (void)pcclInterruptMaster(master);
    (void)pcclMasterAwaitTermination(master);
    (void)pcclDestroyMaster(master);
    return 0;
}

bool perf_launch_end(struct perf_launch *launch, struct perf_child *workers, uint32_t count, bool good)
{
    perf_progress("");
    for (uint32_t i = 0; i < count && !good; i++)
        perf_child_tell(&workers[i], "peer", i);
    perf_child_tell(&launch->master, "master", 0);
    for (uint32_t i = 0; i < count; i++)
        good = perf_child_end(&workers[i], !good) == 0 && good;
    (void)perf_child_end(&launch->master, !good);
    return good;
}
