/* One peer that measures: spawned by pccl-perf, or on its own in a real cluster. */
#ifndef PCCL_TOOLS_PERF_WORKER_H
#define PCCL_TOOLS_PERF_WORKER_H

#include "options.h"
#include "system/process.h"

/*
 * What a worker found for one size; `iterations` doubles (seconds of each operation) follow on the
 * pipe.
 */
struct perf_worker_report {
    uint64_t bytes, wrong;
    uint64_t memory_bytes; /* the most that this process held beyond the caller's buffers; 0: not known */
    uint32_t iterations, in_place;
    double total_s;                     /* the timed loop */
    double cpu_s;                       /* of this process in it */
    double master_s;                    /* of the master, told by worker 0 */
    double exact_s;                     /* as many operations without the codec; 0: not asked for */
    double error_largest, error_rms;    /* of what this peer brings, by coding it once (pcclMeasureCodec) */
    pcclQuantizationAlgorithm_t chosen; /* by an automatic codec, for the last operation */
    char why[PCCL_CODEC_WORDS_SIZE];    /* ... in words; "" with any other codec */
};

/* Takes a report and its times; the times are the callee's to free. */
typedef void (*perf_sink)(void *context, const struct perf_worker_report *report, double *times);

/*
 * Measures everything that was asked for. 0, or an exit code with a reason on standard error; wrong
 * results are the sink's concern.
 */
int perf_worker_run(const struct perf_options *options, perf_sink sink, void *context);
/* The same, writing reports to the descriptor that the launcher gave. */
int perf_worker_main(const struct perf_options *options);

/* "WHAT: the result (the reason)" on standard error; always 1, an exit code. */
int perf_worker_complain(const pcclComm_t *comm, const char *what, pcclResult_t result);
/* Connects and waits until all peers are there. NULL: words on standard error. */
pcclComm_t *perf_worker_join(const struct perf_options *options);
/* Leaves and frees it. */
void perf_worker_leave(pcclComm_t *comm);
/* Updates the topology until the group has so many peers. */
pcclResult_t perf_worker_await(pcclComm_t *comm, uint32_t peers);
/* How often something of this size is measured. */
uint32_t perf_iterations(const struct perf_options *options, size_t bytes);

/* Sorts; the mean of the middle two if there is no middle one; 0 without any. */
double perf_median_s(double *values, size_t count);

double perf_now_s(void);

#endif
