/* Tables, JSON, and the progress line. */
#ifndef PCCL_TOOLS_PERF_REPORT_H
#define PCCL_TOOLS_PERF_REPORT_H

#include "system/limit.h"
#include "ops/json.h"
#include "options.h"

#include <stdio.h>

/* A row of the table: one size, out of place or in place, over all peers. */
struct perf_row {
    size_t bytes;
    bool in_place;
    uint32_t iterations;
    double seconds; /* duration of an operation: the slowest peer's loop, divided by the number of operations */
    double p50_s, p99_s, max_s; /* of all operations of all peers */
    double algbw, busbw;        /* 1e9 bytes per second */
    double cpu_s;               /* CPU time of an operation, over all processes including the master */
    double master_s;            /* CPU time of the master; 0: unknown */
    double cpu_per_gb;          /* CPU time per 1e9 bytes moved */
    double limit_s;             /* 0: not measured */
    double limit_spread; /* variation of the limit during the row: the larger median divided by the smaller one */
    double exact_s;      /* duration of the same operation without a codec; 0: not measured */
    double error_largest, error_rms; /* maximum over all peers of the error from coding the input once */
    uint64_t memory_bytes;           /* maximum memory of a peer, besides the caller's buffers; 0: unknown */
    uint64_t wrong;
    pcclQuantizationAlgorithm_t chosen; /* selection of an automatic codec for the last operation */
    char why[PCCL_CODEC_WORDS_SIZE];    /* its reason; "" for other codecs */
};

/* A higher variation shows that the machine was disturbed, so the share of the limit is meaningless. */
#define PERF_LIMIT_SPREAD_MAX 1.25

/*
 * Fills in a row. times: durations of all operations of all peers, which this function sorts. cpu_s: CPU time of the
 * whole loop.
 */
void perf_row_finish(struct perf_row *row, const struct perf_options *options, double *times, size_t count,
                     double cpu_s);
/* Returns the share of the limit, or NAN if it was not measured. */
double perf_row_share(const struct perf_row *row);

/* Returns the stream for the table, which is standard output unless JSON or a topology is written there. */
FILE *perf_table(const struct perf_options *options);
/* Prints the header. `ring` is NULL if there is no limit. */
void perf_report_header(const struct perf_options *options, const struct perf_ring *ring, double ring_cpu_per_gb);
void perf_report_row(const struct perf_options *options, const struct perf_row *row);
/* Writes to options->json if it is set. Returns false after a message on standard error. */
bool perf_report_json(const struct perf_options *options, const struct perf_ring *ring, const struct perf_row *rows,
                      size_t count);
/*
 * Begins the object for --json in memory, with the version and, unless it is NULL, the collective. perf_json_save ends,
 * writes and frees it; it returns false after a message on standard error.
 */
struct perf_json {
    struct pccl_json json;
    struct pccl_print print;
};
struct pccl_json *perf_json_begin(struct perf_json *report, const char *collective);
bool perf_json_save(const struct perf_options *options, struct perf_json *report);
/* Adds a number in the given format. */
PCCL_PRINTF(3, 4) void perf_json_number(struct pccl_json *json, const char *key, const char *format, ...);
/* Writes a size such as 64K or 1M, or a number of bytes, to the caller's buffer. Returns the buffer. */
const char *perf_size_text(size_t bytes, char *text, size_t size);

/* A collection of times. */
struct perf_samples {
    double *values; /* freed by the owner of the struct */
    size_t count, capacity;
};

struct perf_figures {
    double median_ms, p99_ms, max_ms;
    size_t count;
};

void perf_note(struct perf_samples *samples, double seconds);
/* Sorts the samples. Returns their figures, which are all 0 if there are no samples. */
struct perf_figures perf_figures_of(struct perf_samples *samples);
void perf_report_figures(const struct perf_options *options, const char *words, const struct perf_figures *figures);
/* Adds "name": {...}. */
void perf_json_figures(struct pccl_json *json, const char *name, const struct perf_figures *figures);

/*
 * Shows a line with the time since the program began, if standard error is a terminal. The next line overwrites it; an
 * empty text removes it.
 */
void perf_progress(const char *text);

#endif
