#include "telemetry.h"

#include "process.h"

#include "pccl_collectives.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

static struct {
    const pcclComm_t *comm; /* NULL: not watching */
    pthread_t thread;
    atomic_bool end;
} watch;

static void choose(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGUSR2);
}

void perf_sight_prepare(void)
{
    sigset_t signals;
    choose(&signals);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void write_file(void)
{
    char name[64];
    (void)snprintf(name, sizeof name, "pccl-perf-%ld.json", process_id());
    if (pcclWriteFlightRecorder(watch.comm, name) == pcclSuccess)
        (void)fprintf(stderr, "pccl-perf: the flight recorder is in %s\n", name);
    else
        (void)fprintf(stderr, "pccl-perf: %s\n", pcclGetLastError(watch.comm));
}

static void *wait_for_signals(void *unused)
{
    sigset_t signals;
    int number;
    choose(&signals);
    while (sigwait(&signals, &number) == 0 && !atomic_load(&watch.end))
        write_file();
    return unused;
}

void perf_sight_watch(const pcclComm_t *comm)
{
    watch.comm = comm;
    atomic_store(&watch.end, false);
    if (pthread_create(&watch.thread, NULL, wait_for_signals, NULL) != 0)
        watch.comm = NULL;
}

void perf_sight_end(void)
{
    if (watch.comm == NULL)
        return;
    atomic_store(&watch.end, true);
    (void)pthread_kill(watch.thread, SIGUSR2);
    (void)pthread_join(watch.thread, NULL);
    watch.comm = NULL;
}
