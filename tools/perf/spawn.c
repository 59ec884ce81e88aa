#include "spawn.h"

#include "report.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 250 };

/*
 * Runs this program again, as a worker or as the master. Places the internal options before the others, because they
 * would have no effect after a "--".
 */
static bool spawn(const struct perf_launch *launch, bool is_worker, uint32_t index, struct process_child *child)
{
    int results, go;
    char own[96], connect_option[] = "--connect";
    char **arguments = calloc((size_t)launch->count + 5, sizeof *arguments);
    if (!arguments || !process_pipes(child, &results, &go)) {
        free(arguments);
        return false;
    }
    if (is_worker)
        (void)snprintf(own, sizeof own, "--worker=%u,%d,%d,%ld", index, results, go, launch->master.process);
    else
        (void)snprintf(own, sizeof own, "--master=0,%d,%d", results, go);
    int own_count = 0;
    arguments[own_count++] = launch->arguments[0];
    arguments[own_count++] = own;
    if (is_worker) {
        arguments[own_count++] = connect_option;
        arguments[own_count++] = (char *)(uintptr_t)launch->address;
    }
    memcpy(arguments + own_count, launch->arguments + 1, (size_t)(launch->count - 1) * sizeof *arguments);
    bool good = process_start(child, arguments, results, go);
    free(arguments);
    return good;
}

bool perf_spawn_master(struct perf_launch *launch, int count, char **arguments)
{
    uint16_t port;
    *launch = (struct perf_launch){.count = count, .arguments = arguments};
    if (!spawn(launch, false, 0, &launch->master))
        return false;
    if (!process_read_all(launch->master.results, &port, sizeof port)) {
        (void)fprintf(stderr, "pccl-perf: the master did not start\n");
        return false;
    }
    (void)snprintf(launch->address, sizeof launch->address, "127.0.0.1:%u", port);
    return true;
}

bool perf_spawn_worker(const struct perf_launch *launch, uint32_t index, struct process_child *child)
{
    return spawn(launch, true, index, child);
}

/* Watches the workers and, last, the master. */
static bool await_watched(const struct perf_launch *launch, const struct process_child *workers, uint32_t count,
                          uint32_t index, const char *words, struct process_watched *watched)
{
    for (uint32_t i = 0; i <= count; i++)
        watched[i].pipe = i < index ? -1 : i < count ? workers[i].results : launch->master.results;
    while (watched[index].pipe >= 0) {
        perf_progress(words);
        if (process_watch(watched, count + 1, TICK_MS) < 0) {
            perror("pccl-perf: poll");
            return false;
        }
        for (uint32_t i = 0; i <= count; i++) {
            if (watched[i].has_input) {
                watched[i].pipe = -1; /* alive, or already finished */
            } else if (watched[i].has_ended) {
                process_await(i < count ? &workers[i] : &launch->master);
                return false;
            }
        }
    }
    return true;
}

bool perf_launch_await(const struct perf_launch *launch, const struct process_child *workers, uint32_t count,
                       uint32_t index, const char *words)
{
    struct process_watched *watched = calloc((size_t)count + 1, sizeof *watched);
    bool good = watched && await_watched(launch, workers, count, index, words, watched);
    free(watched);
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
    if (!process_write_all(options->result_descriptor, &port, sizeof port))
        return 1;
    (void)process_read_all(options->go_descriptor, &byte, 1); /* returns when the launcher has finished or died */
    (void)pcclInterruptMaster(master);
    (void)pcclMasterAwaitTermination(master);
    (void)pcclDestroyMaster(master);
    return 0;
}

bool perf_launch_end(struct perf_launch *launch, struct process_child *workers, uint32_t count, bool good)
{
    perf_progress("");
    for (uint32_t i = 0; i < count && !good; i++)
        process_report_end(&workers[i], "peer", i);
    process_report_end(&launch->master, "master", 0);
    for (uint32_t i = 0; i < count; i++)
        good = process_end(&workers[i], !good) == 0 && good;
    (void)process_end(&launch->master, !good);
    return good;
}
