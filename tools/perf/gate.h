/*
 * Comparison with goals: a JSON file, an array of flat objects, each
 *   {"name": "...", "peers": 2, "bytes": 67108864, "metric": "share_of_limit", "at_least": 0.95}
 * with the optional conditions "of" (the kind of measurement; all_reduce), "datatype", "operation", "codec",
 * "concurrent" and "in_place"; "at_most" instead of "at_least". Goals for "topology" have no bytes. Metrics are the
 * fields of the rows of --json; for the nested ones of --chaos "to_error_median_ms" and so on. Goals for other
 * conditions than this run's are skipped.
 */
#ifndef PCCL_TOOLS_PERF_GATE_H
#define PCCL_TOOLS_PERF_GATE_H

#include "options.h"

enum { PERF_FIGURES_MAX = 16 };

struct perf_figure {
    const char *name; /* a metric */
    double value;     /* NAN: not measured */
};

/* One row of any kind. */
struct perf_judged {
    /* a collective as in --op, state_equal, state_newcomer, state_part, topology, chaos_kill or chaos_stop */
    const char *of;
    size_t bytes;
    bool in_place;
    struct perf_figure figures[PERF_FIGURES_MAX]; /* measured figures; others are missing */
};

/*
 * Prints each goal that applies. Returns false if a goal is missed, none applies, or the file cannot be read, which is
 * reported.
 */
bool perf_gate(const struct perf_options *options, const struct perf_judged *rows, size_t count);

#endif
