/*
 * Compares figures with goals. The goals are a JSON file with an array of flat objects such as
 *   {"name": "...", "peers": 2, "bytes": 67108864, "metric": "share_of_limit", "at_least": 0.95}
 * Optional conditions are "of" (the kind of measurement, by default all_reduce), "datatype", "operation", "codec",
 * "concurrent" and "in_place". "at_most" may replace "at_least". Goals for "topology" have no "bytes". Metrics are the
 * fields of the rows of --json; nested fields of --chaos are joined, as in "to_error_median_ms". Goals with conditions
 * that this run does not meet are skipped.
 */
#ifndef PCCL_TOOLS_PERF_GATE_H
#define PCCL_TOOLS_PERF_GATE_H

#include "options.h"

enum { PERF_FIGURES_MAX = 16 };

struct perf_figure {
    const char *name; /* name of a metric */
    double value;     /* NAN: not measured */
};

/* A row of any kind of measurement. */
struct perf_judged {
    /* a collective as in --op, or state_equal, state_newcomer, state_part, topology, chaos_kill, chaos_stop */
    const char *of;
    size_t bytes;
    bool in_place;
    struct perf_figure figures[PERF_FIGURES_MAX]; /* figures that were measured */
};

/*
 * Prints each goal that applies. Returns false if a goal is missed, if none applies, or, after a message, if the file
 * cannot be read.
 */
bool perf_gate(const struct perf_options *options, const struct perf_judged *rows, size_t count);

#endif
