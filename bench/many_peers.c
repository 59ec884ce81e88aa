/*
 * Runs many real peers in a process, each with a communicator and a thread, over the public
 * interface; many_peers.py starts the processes. After all peers have joined they reduce a few bytes
 * repeatedly, and then BULK bytes TIMES times.
 *
 *   many_peers MASTER COUNT TOTAL OPERATIONS BYTES BULK TIMES
 *
 * Prints "joined", "begin", "end", "cold" and "bulk" with key=value, and then waits for the end of standard input.
 */
#include "pccl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10, WARM_UP = 20, BYTES_MAX = 8192 };

static struct {
    const char *master;
    int count, total, operations, bulk_times;
    size_t bytes, bulk;
    atomic_int joined, ended, bulk_begun, bulk_ended;
    atomic_uint_fast64_t updates;
} job;

static double seconds(clockid_t id)
{
    struct timespec time;
    clock_gettime(id, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static long rss_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void report(const char *what)
{
    printf("%s at=%.6f cpu=%.6f rss_kib=%ld updates=%llu\n", what, seconds(CLOCK_MONOTONIC),
           seconds(CLOCK_PROCESS_CPUTIME_ID), rss_kib(), (unsigned long long)atomic_load(&job.updates));
    fflush(stdout);
}

static void must(pcclResult_t result, const pcclComm_t *comm, const char *what)
{
    if (result == pcclSuccess)
        return;
    printf("FAILED %s: %d: %s\n", what, (int)result, pcclGetLastError(comm));
    fflush(stdout);
    _exit(1);
}

static void reduce(pcclComm_t *comm, int64_t *values, size_t bytes, uint64_t tag)
{
    size_t count = bytes / sizeof *values;
    pcclReduceDescriptor_t descriptor = {
        .count = count, .op = pcclSum, .tag = tag, .src_descriptor = {.datatype = pcclInt64}};
    for (size_t i = 0; i < count; i++)
        values[i] = 1;
    must(pcclAllReduce(values, values, &descriptor, comm, NULL), comm, "pcclAllReduce");
    for (size_t i = 0; i < count; i++) {
        if (values[i] != job.total) {
            printf("FAILED sum %lld of %d peers\n", (long long)values[i], job.total);
            _exit(1);
        }
    }
}

/* Reports the duration of the first operation, which is the first to use the links, and of the shortest later one. */
static void reduce_bulk(pcclComm_t *comm)
{
    int64_t *values = malloc(job.bulk);
    double cold = 0, warm = 1e9;
    if (values == NULL)
        exit(1);
    for (int i = 0; i < job.bulk_times; i++) {
        double begun = seconds(CLOCK_MONOTONIC);
        reduce(comm, values, job.bulk, 2);
        double took = seconds(CLOCK_MONOTONIC) - begun;
        cold = i == 0 ? took : cold;
        warm = i > 0 && took < warm ? took : warm;
        if (i == 0 && atomic_fetch_add(&job.bulk_begun, 1) + 1 == job.count)
            report("cold");
    }
    free(values);
    if (atomic_fetch_add(&job.bulk_ended, 1) + 1 == job.count) {
        printf("bulk cold_ms=%.3f warm_ms=%.3f cpu=%.6f\n", cold * 1e3, warm * 1e3, seconds(CLOCK_PROCESS_CPUTIME_ID));
        fflush(stdout);
    }
}

static void *live(void *argument)
{
    pcclComm_t *comm = argument;
    int64_t values[BYTES_MAX / sizeof(int64_t)];
    int world = 0;
    must(pcclConnect(comm), comm, "pcclConnect");
    for (;;) {
        must(pcclGetAttribute(comm, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &world), comm, "pcclGetAttribute");
        if (world == job.total)
            break;
        must(pcclUpdateTopology(comm), comm, "pcclUpdateTopology");
        atomic_fetch_add(&job.updates, 1);
    }
    if (atomic_fetch_add(&job.joined, 1) + 1 == job.count)
        report("joined");
    for (int i = 0; i < WARM_UP; i++)
        reduce(comm, values, job.bytes, 1);
    if (atomic_fetch_sub(&job.joined, 1) == job.count)
        report("begin");
    for (int i = 0; i < job.operations; i++)
        reduce(comm, values, job.bytes, 1);
    if (atomic_fetch_add(&job.ended, 1) + 1 == job.count)
        report("end");
    if (job.bulk > 0)
        reduce_bulk(comm);
    pause();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_attr_t attributes;
    pcclOptions_t *options;
    if (argc != 8) {
        fprintf(stderr, "usage: many_peers MASTER COUNT TOTAL OPERATIONS BYTES BULK TIMES\n");
        return 2;
    }
    job.master = argv[1];
    job.count = (int)strtol(argv[2], NULL, 10);
    job.total = (int)strtol(argv[3], NULL, 10);
    job.operations = (int)strtol(argv[4], NULL, 10);
    job.bytes = strtoul(argv[5], NULL, 10);
    job.bulk = strtoul(argv[6], NULL, 10);
    job.bulk_times = (int)strtol(argv[7], NULL, 10);
    if (job.count < 1 || job.bytes > BYTES_MAX || job.bytes < sizeof(int64_t)) {
        fprintf(stderr, "COUNT is at least 1, BYTES from 8 to %d\n", BYTES_MAX);
        return 2;
    }
    must(pcclInit(), NULL, "pcclInit");
    must(pcclCreateOptions(&options), NULL, "pcclCreateOptions");
    must(pcclSetOption(options, "bind_address", "127.0.0.1"), NULL, "bind_address");
    must(pcclSetOption(options, "port", "0"), NULL, "port");
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    report("start");
    for (int i = 0; i < job.count; i++) {
        pcclComm_t *comm;
        pthread_t thread;
        must(pcclCreateCommunicatorWithOptions(job.master, options, &comm), NULL, "pcclCreateCommunicatorWithOptions");
        if (pthread_create(&thread, &attributes, live, comm) != 0) {
            printf("FAILED pthread_create at peer %d\n", i);
            return 1;
        }
    }
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    _exit(0);
}
