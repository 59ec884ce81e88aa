#include "local.h"

#include "gate.h"
#include "report.h"
#include "spawn.h"
#include "worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rows {
    struct perf_row *at;
    size_t count, capacity;
};

struct run {
    const struct perf_options *options;
    struct perf_launch launch;
    struct process_child *workers;
    uint32_t started;
    struct perf_ring *ring; /* NULL if there is no limit */
    double ring_cpu_per_gb;
    struct rows rows;
};

static struct perf_row *add_row(struct rows *rows)
{
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : 32;
        struct perf_row *grown = realloc(rows->at, capacity * sizeof *grown);
        if (!grown) {
            (void)fprintf(stderr, "pccl-perf: out of memory\n");
            return NULL;
        }
        rows->at = grown;
        rows->capacity = capacity;
    }
    rows->at[rows->count] = (struct perf_row){0};
    return &rows->at[rows->count++];
}

static struct perf_judged judged_row(const struct perf_options *options, const struct perf_row *row)
{
    return (struct perf_judged){
        .of = perf_collective_name(options->collective),
        .bytes = row->bytes,
        .in_place = row->in_place,
        .figures = {{"us", row->seconds * 1e6},
                    {"p50_us", row->p50_s * 1e6},
                    {"p99_us", row->p99_s * 1e6},
                    {"max_us", row->max_s * 1e6},
                    {"algbw", row->algbw},
                    {"busbw", row->busbw},
                    {"cpu_us", row->cpu_s * 1e6},
                    {"master_cpu_us", row->master_s * 1e6},
                    {"cpu_s_per_gb", row->cpu_per_gb},
                    {"share_of_limit", perf_row_share(row)},
                    {"memory_bytes", row->memory_bytes ? (double)row->memory_bytes : (double)NAN},
                    {"share_of_exact", row->exact_s > 0 ? row->seconds / row->exact_s : (double)NAN}}};
}

static bool meets_goals(const struct perf_options *options, const struct rows *rows)
{
    struct perf_judged *judged = calloc(rows->count + 1, sizeof *judged);
    for (size_t i = 0; judged && i < rows->count; i++)
        judged[i] = judged_row(options, &rows->at[i]);
    bool good = judged && perf_gate(options, judged, rows->count);
    free(judged);
    return good;
}

/*
 * Reports wrong results, writes the JSON and checks the goals. Returns the exit code, which is 1 if any of this failed.
 */
static int conclude(const struct perf_options *options, const struct perf_ring *ring, const struct rows *rows)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < rows->count; i++)
        wrong += rows->at[i].wrong;
    if (wrong > 0)
        (void)fprintf(stderr, "pccl-perf: %llu elements are wrong\n", (unsigned long long)wrong);
    bool good = perf_report_json(options, ring, rows->at, rows->count) && wrong == 0;
    if (options->gate)
        good = meets_goals(options, rows) && good;
    return good ? 0 : 1;
}

/* ---- combining the rows of all workers ---- */

/* The limit, measured both before and after the row, so that it reflects changes in the machine's speed. */
struct limits {
    struct perf_limit_samples all;
    double medians_s[2];
};

static bool measure_limit(struct run *run, size_t bytes, bool in_place, struct limits *limits, int which)
{
    struct perf_limit_samples samples = {0};
    if (!run->ring || bytes < PERF_LIMIT_BYTES_MIN)
        return true;
    perf_progress("measuring the limit");
    if (!perf_ring_measure(run->ring, bytes, !in_place, &samples)) {
        (void)fprintf(stderr, "pccl-perf: a process that measures the limit exited\n");
        return false;
    }
    for (uint32_t i = 0; i < samples.count && limits->all.count < PERF_LIMIT_SAMPLES_MAX; i++)
        limits->all.seconds[limits->all.count++] = samples.seconds[i];
    limits->medians_s[which] = perf_limit_median(&samples);
    return true;
}

static void take_limits(struct limits *limits, struct perf_row *row)
{
    if (limits->all.count == 0)
        return;
    row->limit_s = perf_limit_median(&limits->all);
    row->limit_spread =
        fmax(limits->medians_s[0], limits->medians_s[1]) / fmin(limits->medians_s[0], limits->medians_s[1]);
}

struct collected {
    double *times;
    size_t count;
    double cpu_s;
};

static bool take_report(const struct run *run, uint32_t index, struct perf_row *row, struct collected *collected)
{
    struct perf_worker_report report;
    const struct process_child *worker = &run->workers[index];
    if (!process_read_all(worker->results, &report, sizeof report))
        return false;
    double *grown = realloc(collected->times, (collected->count + report.iterations) * sizeof *grown);
    if (!grown)
        return false;
    collected->times = grown;
    if (!process_read_all(worker->results, grown + collected->count, report.iterations * sizeof *grown))
        return false;
    collected->count += report.iterations;
    collected->cpu_s += report.cpu_s + report.master_s;
    double seconds = report.total_s / report.iterations;
    row->bytes = (size_t)report.bytes;
    row->in_place = report.in_place != 0;
    row->iterations = report.iterations;
    row->wrong += report.wrong;
    row->master_s += report.master_s / report.iterations;
    row->seconds = seconds > row->seconds ? seconds : row->seconds;
    double exact_s = report.exact_s / report.iterations;
    row->exact_s = exact_s > row->exact_s ? exact_s : row->exact_s;
    row->memory_bytes = report.memory_bytes > row->memory_bytes ? report.memory_bytes : row->memory_bytes;
    row->error_largest = fmax(report.error_largest, row->error_largest);
    row->error_rms = fmax(report.error_rms, row->error_rms);
    row->chosen = report.chosen; /* the same for all peers */
    memcpy(row->why, report.why, sizeof row->why);
    return true;
}

static bool let_workers_measure(struct run *run, const char *words, struct perf_row *row)
{
    struct collected collected = {0};
    bool good = true;
    for (uint32_t i = 0; i < run->started && good; i++)
        good = process_write_all(run->workers[i].go, "", 1);
    for (uint32_t i = 0; i < run->started && good; i++)
        good = perf_launch_await(&run->launch, run->workers, run->started, i, words) &&
               take_report(run, i, row, &collected);
    if (good)
        perf_row_finish(row, run->options, collected.times, collected.count, collected.cpu_s);
    free(collected.times);
    return good;
}

static bool measure_row(struct run *run, size_t bytes, bool in_place)
{
    char size[32], words[96];
    struct limits limits = {0};
    struct perf_row *row = add_row(&run->rows);
    if (!row)
        return false;
    (void)snprintf(words, sizeof words, "row %zu: %s %s place", run->rows.count,
                   perf_size_text(bytes, size, sizeof size), in_place ? "in" : "out of");
    if (!measure_limit(run, bytes, in_place, &limits, 0) || !let_workers_measure(run, words, row) ||
        !measure_limit(run, bytes, in_place, &limits, 1)) {
        run->rows.count--;
        return false;
    }
    take_limits(&limits, row);
    perf_report_row(run->options, row);
    return true;
}

static bool measure_rows(struct run *run)
{
    const struct perf_options *options = run->options;
    bool good = true;
    for (size_t bytes = options->min_bytes; bytes && good; bytes = perf_next_size(options, bytes)) {
        if (options->out_of_place)
            good = measure_row(run, bytes, false);
        if (options->in_place && good)
            good = measure_row(run, bytes, true);
    }
    return good;
}

/* ---- the run ---- */

/* Returns false with a message if the limit is not usable. */
static bool is_honest(const struct perf_options *options, double cpu_per_gb)
{
    if (cpu_per_gb <= options->limit_cpu)
        return true;
    (void)fprintf(stderr,
                  "pccl-perf: the limit took %.2f CPU-s/GB, more than %.2f (--limit-cpu): this machine is busy or "
                  "slow, and the limit is not valid\n",
                  cpu_per_gb, options->limit_cpu);
    return false;
}

static struct perf_limit_traffic traffic_of(const struct perf_options *options)
{
    static const enum perf_limit_shape shapes[] = {
        [PCCL_BROADCAST] = PERF_CHAIN,      [PCCL_REDUCE] = PERF_CHAIN,         [PCCL_GATHER] = PERF_FAN_IN,
        [PCCL_SCATTER] = PERF_FAN_OUT,      [PCCL_ALL_TO_ALL] = PERF_MESH,      [PCCL_SEND] = PERF_PAIRS,
        [PCCL_GATHER_V] = PERF_FAN_IN,      [PCCL_SCATTER_V] = PERF_FAN_OUT,    [PCCL_ALL_TO_ALL_V] = PERF_MESH,
        [PCCL_EXCLUSIVE_SCAN] = PERF_CHAIN, [PCCL_INCLUSIVE_SCAN] = PERF_CHAIN, [PCCL_BARRIER] = PERF_RING};
    const double share = perf_traffic(options, options->peers);
    const bool keeps = !perf_reduces(options) && perf_parts(options) > 1;
    return (struct perf_limit_traffic){shapes[options->collective], share, keeps ? 1.0 / options->peers : 0};
}

static void find_limit(struct run *run)
{
    const struct perf_options *options = run->options;
    if (!options->limit || options->max_bytes < PERF_LIMIT_BYTES_MIN)
        return;
    perf_progress("searching for the fastest plain sockets");
    struct perf_limit_samples samples = {0};
    run->ring = perf_ring_best(options->peers, options->max_bytes, options->limit_cache, traffic_of(options));
    if (run->ring && perf_ring_measure(run->ring, options->max_bytes, false, &samples))
        run->ring_cpu_per_gb = perf_limit_cpu_per_gb(run->ring, options->max_bytes, &samples);
    perf_progress("");
    if (run->ring && !is_honest(options, run->ring_cpu_per_gb)) {
        perf_ring_stop(run->ring);
        run->ring = NULL;
    }
}

static bool start_workers(struct run *run)
{
    run->workers = calloc(run->options->peers, sizeof *run->workers);
    if (!run->workers)
        return false;
    for (; run->started < run->options->peers; run->started++)
        if (!perf_spawn_worker(&run->launch, run->started, &run->workers[run->started]))
            return false;
    return true;
}

int perf_local_run(const struct perf_options *options, int count, char **arguments)
{
    struct run run = {.options = options};
    find_limit(&run);
    bool good = perf_spawn_master(&run.launch, count, arguments) && start_workers(&run);
    if (good) {
        perf_report_header(options, run.ring, run.ring_cpu_per_gb);
        good = measure_rows(&run);
    }
    good = perf_launch_end(&run.launch, run.workers, run.started, good);
    int code = good ? conclude(options, run.ring, &run.rows) : 1;
    perf_ring_stop(run.ring);
    free(run.workers);
    free(run.rows.at);
    return code;
}

/* ---- one peer of a real cluster ---- */

struct peer {
    const struct perf_options *options;
    struct rows rows;
};

static void take_own_report(void *context, const struct perf_worker_report *report, double *times)
{
    struct peer *peer = context;
    struct perf_row *row = add_row(&peer->rows);
    if (row) {
        *row = (struct perf_row){.bytes = (size_t)report->bytes,
                                 .in_place = report->in_place != 0,
                                 .iterations = report->iterations,
                                 .wrong = report->wrong,
                                 .seconds = report->total_s / report->iterations,
                                 .exact_s = report->exact_s / report->iterations,
                                 .error_largest = report->error_largest,
                                 .error_rms = report->error_rms,
                                 .memory_bytes = report->memory_bytes};
        row->chosen = report->chosen;
        memcpy(row->why, report->why, sizeof row->why);
        perf_row_finish(row, peer->options, times, report->iterations, report->cpu_s * peer->options->peers);
        perf_report_row(peer->options, row);
    }
    free(times);
}

int perf_peer_run(const struct perf_options *options)
{
    struct peer peer = {.options = options};
    perf_report_header(options, NULL, 0);
    int code = perf_worker_run(options, take_own_report, &peer);
    if (code == 0)
        code = conclude(options, NULL, &peer.rows);
    free(peer.rows.at);
    return code;
}

/* ---- only the limit ---- */

static bool measure_limit_row(struct perf_ring *ring, const struct perf_options *options, size_t bytes,
                              struct perf_row *row, bool *honest)
{
    struct perf_limit_samples samples = {0};
    perf_progress("measuring the limit");
    if (!perf_ring_measure(ring, bytes, options->out_of_place, &samples))
        return false;
    double cpu_per_gb = perf_limit_cpu_per_gb(ring, bytes, &samples);
    *row = (struct perf_row){.bytes = bytes, .iterations = samples.count, .seconds = perf_limit_median(&samples)};
    perf_row_finish(row, options, samples.seconds, samples.count, samples.cpu_s);
    perf_progress("");
    (void)fprintf(perf_table(options), "%12zu %11.1f %8.3f %9.3f\n", bytes, row->seconds * 1e6, row->busbw, cpu_per_gb);
    *honest = *honest && (bytes < (16 << 20) || is_honest(options, cpu_per_gb));
    return true;
}

int perf_limit_run(const struct perf_options *options)
{
    char text[96];
    FILE *out = perf_table(options);
    struct rows rows = {0};
    bool good = true, honest = true;
    perf_progress("searching for the fastest plain sockets");
    struct perf_ring *ring =
        perf_ring_best(options->peers, options->max_bytes, options->limit_cache, traffic_of(options));
    perf_progress("");
    if (!ring)
        return 1;
    perf_limit_text(ring, text, sizeof text);
    (void)fprintf(out, "# plain sockets, %u processes, the traffic of %s; best setting at %zu bytes: %s\n",
                  options->peers, perf_collective_name(options->collective), options->max_bytes, text);
    (void)fprintf(out, "#%11s %11s %8s %9s\n", "size", "time", "busbw", "CPU-s/GB");
    for (size_t bytes = options->min_bytes; bytes && good; bytes = perf_next_size(options, bytes)) {
        struct perf_row *row = add_row(&rows);
        good = row && measure_limit_row(ring, options, bytes, row, &honest);
    }
    good = good && perf_report_json(options, ring, rows.at, rows.count) && honest;
    perf_ring_stop(ring);
    free(rows.at);
    return good ? 0 : 1;
}
