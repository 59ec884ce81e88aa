#include "worker.h"

#include "values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

double perf_now_s(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double perf_cpu_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double perf_cpu_of_process_s(long process)
{
    clockid_t clock;
    struct timespec time = {0};
    if (process <= 0 || clock_getcpuclockid((pid_t)process, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double perf_median_s(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, by_value);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

bool perf_write_all(int descriptor, const void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t written = write(descriptor, (const char *)bytes + done, length - done);
        if (written <= 0 && errno != EINTR)
            return false;
        done += written > 0 ? (size_t)written : 0;
    }
    return true;
}

bool perf_read_all(int descriptor, void *bytes, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = read(descriptor, (char *)bytes + done, length - done);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

int perf_worker_complain(const pcclComm_t *comm, const char *what, pcclResult_t result)
{
    (void)fprintf(stderr, "pccl-perf: %s: %s (%s)\n", what, pcclGetErrorString(result), pcclGetLastError(comm));
    return 1;
}

/* ---- getting into the run ---- */

static pcclResult_t create(const struct perf_options *options, pcclComm_t **comm)
{
    pcclOptions_t *set = perf_library_options(options);
    if (!set)
        return pcclInvalidArgument;
    pcclResult_t result = pcclCreateCommunicatorWithOptions(options->master, set, comm);
    (void)pcclDestroyOptions(set);
    return result;
}

pcclResult_t perf_worker_await(pcclComm_t *comm, uint32_t peers)
{
    int world = 0;
    for (;;) {
        pcclResult_t result = pcclGetAttribute(comm, PCCL_ATTRIBUTE_PEER_GROUP_WORLD_SIZE, &world);
        if (result != pcclSuccess || (uint32_t)world >= peers)
            return result;
        result = pcclUpdateTopology(comm);
        if (result != pcclSuccess)
            return result;
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/*
 * Programs of a cluster are started in any order, the master among them: it is tried for as often,
 * and as long, as the Python package does.
 */
static pcclResult_t connect_patiently(pcclComm_t *comm)
{
    pcclResult_t result = pcclConnect(comm);
    for (int attempt = 1; attempt < 5 && result == pcclMasterConnectionFailed; attempt++) {
        (void)sleep(1);
        result = pcclConnect(comm);
    }
    return result;
}

pcclComm_t *perf_worker_join(const struct perf_options *options)
{
    pcclComm_t *comm = NULL;
    const char *what = "cannot start";
    pcclResult_t result = pcclInit();
    if (result == pcclSuccess)
        result = create(options, &comm);
    if (result == pcclSuccess) {
        what = "cannot connect";
        result = connect_patiently(comm);
    }
    if (result == pcclSuccess) {
        what = "cannot wait for the other peers";
        result = perf_worker_await(comm, options->peers);
    }
    if (result == pcclSuccess)
        return comm;
    (void)perf_worker_complain(comm, what, result);
    if (comm)
        (void)pcclDestroyCommunicator(comm);
    return NULL;
}

/* ---- memory ---- */

/* A line of /proc/self/status, in bytes. 0: not known. */
static uint64_t status_bytes(const char *name)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            (void)sscanf(line + strlen(name), ": %llu", &kib);
    if (file)
        (void)fclose(file);
    return (uint64_t)kib << 10;
}

/* From now on VmHWM is the most that was resident since. */
static bool forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool good = file && fputs("5", file) >= 0;
    return file && fclose(file) == 0 && good;
}

/* ---- one measurement ---- */

struct bench {
    const struct perf_options *options;
    pcclComm_t *comm;
    char *input, *output;
    uint64_t resident_bytes; /* when the buffers had been touched and the library had done nothing yet; 0: not known */
    pcclAsyncReduceOp_t *handles;
};

static pcclResult_t meet(const struct bench *bench)
{
    int64_t one = 1, all;
    pcclReduceDescriptor_t descriptor = {
        .count = 1, .op = pcclSum, .tag = UINT64_MAX, .src_descriptor = {.datatype = pcclInt64}};
    return pcclAllReduce(&one, &all, &descriptor, bench->comm, NULL);
}

static pcclReduceDescriptor_t descriptor_of(const struct bench *bench, size_t count, uint64_t tag)
{
    return (pcclReduceDescriptor_t){.count = count,
                                    .op = bench->options->operation,
                                    .tag = tag,
                                    .src_descriptor = {.datatype = bench->options->datatype},
                                    .quantization_options = bench->options->codec};
}

/*
 * The elements as `concurrent` operations; each gets an equal part, as far as there are elements.
 */
static pcclResult_t reduce(const struct bench *bench, size_t count, bool in_place)
{
    uint32_t parts = bench->options->concurrent;
    size_t bytes = perf_datatype_bytes(bench->options->datatype);
    if (parts == 1) {
        pcclReduceDescriptor_t descriptor = descriptor_of(bench, count, 0);
        return pcclAllReduce(in_place ? bench->output : bench->input, bench->output, &descriptor, bench->comm, NULL);
    }
    pcclResult_t result = pcclSuccess;
    uint32_t launched = 0;
    size_t first = 0;
    for (uint32_t i = 0; i < parts && result == pcclSuccess; i++) {
        size_t part = count / parts + (i < count % parts);
        if (part == 0)
            break;
        pcclReduceDescriptor_t descriptor = descriptor_of(bench, part, i);
        char *output = bench->output + first * bytes;
        result = pcclAllReduceAsync(in_place ? output : bench->input + first * bytes, output, &descriptor, bench->comm,
                                    &bench->handles[i]);
        launched += result == pcclSuccess;
        first += part;
    }
    for (uint32_t i = 0; i < launched; i++) {
        pcclResult_t awaited = pcclAwaitAsyncReduce(&bench->handles[i], NULL);
        result = result == pcclSuccess ? awaited : result;
    }
    return result;
}

uint32_t perf_iterations(const struct perf_options *options, size_t bytes)
{
    uint64_t fit = (UINT64_C(1) << 31) / bytes;
    uint64_t most = fit < 5 ? 5 : fit;
    return options->iterations < most ? options->iterations : (uint32_t)most;
}

static pcclResult_t check(const struct bench *bench, size_t count, bool in_place, uint64_t *wrong)
{
    if (!bench->options->check)
        return pcclSuccess;
    if (in_place)
        perf_values_fill(bench->output, count, bench->options);
    else
        memset(bench->output, 0xa5, count * perf_datatype_bytes(bench->options->datatype));
    pcclResult_t result = reduce(bench, count, in_place);
    *wrong = result == pcclSuccess ? perf_values_wrong(bench->output, count, bench->options) : 0;
    return result;
}

/* So often the same without the codec; adds to the seconds. */
static pcclResult_t measure_exact(const struct bench *bench, size_t count, bool in_place, uint32_t iterations,
                                  double *seconds)
{
    struct perf_options options = *bench->options;
    struct bench exact = *bench;
    if (!options.exact || options.codec.algorithm == pcclQuantNone)
        return pcclSuccess;
    options.codec.algorithm = pcclQuantNone;
    exact.options = &options;
    pcclResult_t result = reduce(&exact, count, in_place);
    if (result == pcclSuccess)
        result = meet(bench);
    double start = perf_now_s();
    for (uint32_t i = 0; i < iterations && result == pcclSuccess; i++)
        result = reduce(&exact, count, in_place);
    *seconds += perf_now_s() - start;
    return result;
}

static pcclResult_t measure(const struct bench *bench, size_t count, bool in_place, struct perf_record *record,
                            double *times)
{
    bool is_clear = forget_peak();
    pcclResult_t result = check(bench, count, in_place, &record->wrong);
    for (uint32_t i = 0; i < bench->options->warm_up && result == pcclSuccess; i++)
        result = reduce(bench, count, in_place);
    uint32_t before_it = record->iterations / 2;
    if (result == pcclSuccess)
        result = measure_exact(bench, count, in_place, before_it, &record->exact_s);
    if (result == pcclSuccess)
        result = meet(bench);
    long master = bench->options->index == 0 ? bench->options->master_process : 0;
    double cpu = perf_cpu_s(), master_cpu = perf_cpu_of_process_s(master), start = perf_now_s(), before = start;
    for (uint32_t i = 0; i < record->iterations && result == pcclSuccess; i++) {
        result = reduce(bench, count, in_place);
        double now = perf_now_s();
        times[i] = now - before;
        before = now;
    }
    record->total_s = before - start;
    record->cpu_s = perf_cpu_s() - cpu;
    record->master_s = perf_cpu_of_process_s(master) - master_cpu;
    uint64_t peak_bytes = status_bytes("VmHWM");
    if (is_clear && bench->resident_bytes > 0 && peak_bytes > bench->resident_bytes)
        record->memory_bytes = peak_bytes - bench->resident_bytes;
    if (result == pcclSuccess)
        result = measure_exact(bench, count, in_place, record->iterations - before_it, &record->exact_s);
    return result;
}

/* The launcher measures the limit in between. */
static bool may_go(const struct perf_options *options)
{
    char byte;
    return options->go_descriptor < 0 || perf_read_all(options->go_descriptor, &byte, 1);
}

static pcclResult_t measure_size(const struct bench *bench, size_t bytes, bool in_place, perf_sink sink, void *context)
{
    size_t element = perf_datatype_bytes(bench->options->datatype), count = bytes < element ? 1 : bytes / element;
    struct perf_record record = {
        .bytes = count * element, .iterations = perf_iterations(bench->options, bytes), .in_place = in_place};
    double *times = calloc(record.iterations, sizeof *times);
    if (!times)
        return pcclOutOfMemory;
    if (!may_go(bench->options))
        _exit(1); /* the launcher is gone */
    pcclResult_t result = measure(bench, count, in_place, &record, times);
    if (result == pcclSuccess)
        sink(context, &record, times);
    else
        free(times);
    return result;
}

static pcclResult_t measure_all(const struct bench *bench, perf_sink sink, void *context)
{
    const struct perf_options *options = bench->options;
    pcclResult_t result = pcclSuccess;
    for (size_t bytes = options->min_bytes; bytes && result == pcclSuccess; bytes = perf_next_size(options, bytes)) {
        if (options->out_of_place)
            result = measure_size(bench, bytes, false, sink, context);
        if (options->in_place && result == pcclSuccess)
            result = measure_size(bench, bytes, true, sink, context);
    }
    return result;
}

int perf_worker_run(const struct perf_options *options, perf_sink sink, void *context)
{
    size_t bytes = options->max_bytes + perf_datatype_bytes(options->datatype);
    struct bench bench = {.options = options,
                          .input = malloc(bytes),
                          .output = malloc(bytes),
                          .handles = calloc(options->concurrent, sizeof *bench.handles)};
    int code = 1;
    if (!bench.input || !bench.output || !bench.handles) {
        (void)fprintf(stderr, "pccl-perf: out of memory for two buffers of %zu bytes\n", bytes);
        goto out;
    }
    perf_values_fill(bench.input, options->max_bytes / perf_datatype_bytes(options->datatype) + 1, options);
    memset(bench.output, 1, bytes); /* zeros could come untouched, and count as the library's later */
    bench.resident_bytes = status_bytes("VmRSS");
    bench.comm = perf_worker_join(options);
    if (!bench.comm)
        goto out;
    pcclResult_t result = measure_all(&bench, sink, context);
    code = result == pcclSuccess ? 0 : perf_worker_complain(bench.comm, "a reduction failed", result);
    (void)pcclDestroyCommunicator(bench.comm);
out:
    free(bench.handles);
    free(bench.output);
    free(bench.input);
    return code;
}

static void send_record(void *context, const struct perf_record *record, double *times)
{
    const struct perf_options *options = context;
    if (!perf_write_all(options->result_descriptor, record, sizeof *record) ||
        !perf_write_all(options->result_descriptor, times, record->iterations * sizeof *times))
        _exit(1); /* the launcher is gone */
    free(times);
}

int perf_worker_main(const struct perf_options *options)
{
    return perf_worker_run(options, send_record, (void *)(uintptr_t)options);
}
