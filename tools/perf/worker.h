/* A measuring peer, either spawned by pccl-perf or started separately on a real cluster. */
#ifndef PCCL_TOOLS_PERF_WORKER_H
#define PCCL_TOOLS_PERF_WORKER_H

#include "options.h"
#include "system/process.h"

/*
 * Results of a worker for one size. On the pipe, `iterations` doubles follow: the duration of each operation in
 * seconds.
 */
struct perf_worker_report {
    uint64_t bytes, wrong;
    uint64_t memory_bytes; /* maximum memory of this process, besides the caller's buffers; 0: unknown */
    uint32_t iterations, in_place;
    double total_s;                     /* duration of the timed loop */
    double cpu_s;                       /* CPU time of this process during the loop */
    double master_s;                    /* CPU time of the master, reported by worker 0 only */
    double exact_s;                     /* duration of as many operations without the codec; 0: not requested */
    double error_largest, error_rms;    /* error from coding this peer's input once (pcclMeasureCodec) */
    pcclQuantizationAlgorithm_t chosen; /* selection of an automatic codec for the last operation */
    char why[PCCL_CODEC_WORDS_SIZE];    /* its reason; "" for other codecs */
};

/* Receives a report and its times, which it must free. */
typedef void (*perf_sink)(void *context, const struct perf_worker_report *report, double *times);

/*
 * Performs all requested measurements. Returns 0, or an exit code after a message on standard error. Wrong results are
 * left to the sink.
 */
int perf_worker_run(const struct perf_options *options, perf_sink sink, void *context);
/* Does the same, and sends the reports to the launcher. */
int perf_worker_main(const struct perf_options *options);

/* Prints "WHAT: RESULT (REASON)" to standard error. Always returns 1, for use as an exit code. */
int perf_worker_complain(const pcclComm_t *comm, const char *what, pcclResult_t result);
/* Connects, and waits until all peers have joined. Returns NULL after a message on standard error. */
pcclComm_t *perf_worker_join(const struct perf_options *options);
/* Leaves the run and frees the communicator. */
void perf_worker_leave(pcclComm_t *comm);
/* Updates the topology until the group has at least `peers` peers. */
pcclResult_t perf_worker_await(pcclComm_t *comm, uint32_t peers);
/* Returns the number of measurements of this size. */
uint32_t perf_iterations(const struct perf_options *options, size_t bytes);

/* Sorts the values. Returns the median, or 0 if there are no values. */
double perf_median_s(double *values, size_t count);

double perf_now_s(void);

#endif
