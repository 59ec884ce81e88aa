/* One peer that measures: spawned by pccl-perf, or separate in a real cluster. */
#ifndef PCCL_TOOLS_PERF_WORKER_H
#define PCCL_TOOLS_PERF_WORKER_H

#include "options.h"
#include "system/process.h"

/* Results of a worker for one size; `iterations` doubles (seconds of each operation) follow on the pipe. */
struct perf_worker_report {
    uint64_t bytes, wrong;
    uint64_t memory_bytes; /* largest memory of this process beyond the caller's buffers; 0: unknown */
    uint32_t iterations, in_place;
    double total_s;                     /* time of the timed loop */
    double cpu_s;                       /* CPU time of this process in it */
    double master_s;                    /* CPU time of the master, reported by worker 0 */
    double exact_s;                     /* time of as many operations without the codec; 0: not requested */
    double error_largest, error_rms;    /* error of coding this peer's input once (pcclMeasureCodec) */
    pcclQuantizationAlgorithm_t chosen; /* choice of an automatic codec, for the last operation */
    char why[PCCL_CODEC_WORDS_SIZE];    /* ... in words; "" with other codecs */
};

/* Takes a report and its times, which it must free. */
typedef void (*perf_sink)(void *context, const struct perf_worker_report *report, double *times);

/*
 * Measures everything that was requested. Returns 0, or an exit code with a reason on standard error; the sink handles
 * wrong results.
 */
int perf_worker_run(const struct perf_options *options, perf_sink sink, void *context);
/* Does the same, and writes reports to the launcher's descriptor. */
int perf_worker_main(const struct perf_options *options);

/* Prints "WHAT: the result (the reason)" to standard error. Always returns 1, an exit code. */
int perf_worker_complain(const pcclComm_t *comm, const char *what, pcclResult_t result);
/* Connects and waits until all peers are there. Returns NULL after a message on standard error. */
pcclComm_t *perf_worker_join(const struct perf_options *options);
/* Leaves the run and frees the communicator. */
void perf_worker_leave(pcclComm_t *comm);
/* Updates the topology until the group has at least `peers` peers. */
pcclResult_t perf_worker_await(pcclComm_t *comm, uint32_t peers);
/* Returns the number of measurements of this size. */
uint32_t perf_iterations(const struct perf_options *options, size_t bytes);

/* Sorts the values, and returns the median; 0 without values. */
double perf_median_s(double *values, size_t count);

double perf_now_s(void);

#endif
