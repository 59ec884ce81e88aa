#include "state.h"

#include "gate.h"
#include "report.h"
#include "spawn.h"
#include "worker.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 250, CHUNK_BYTES = 1 << 20, PART = 100 /* one chunk in this many differs */ };

/* Seeds of the contents of the group and of the newcomer. */
enum { COMMON = 1, OTHER = 2 };

struct row {
    const char *of;
    size_t bytes;
    uint32_t iterations;
    double seconds;      /* median duration of a synchronization */
    double digest_s;     /* for equal content: time for computing digests only */
    double limit_s;      /* for a newcomer: the limit; 0: not measured */
    double limit_spread; /* variation of the limit during the row */
    uint64_t moved;      /* total payload of all synchronizations */
    uint64_t wrong;
};

enum { CASES = 3 };

struct run {
    const struct perf_options *options;
    struct perf_launch launch;
    struct process_child *workers;
    struct process_watched *pipes; /* pipes of the workers and the master */
    struct perf_state_request *requests;
    struct perf_state_report *reports;
    bool *is_asked;
    uint32_t started, next_index;
    struct perf_ring *fan; /* NULL if there is no limit */
    uint64_t revision;     /* revision of the next synchronization */
    uint64_t random;
    struct row rows[CASES * PERF_SIZES_MAX];
    size_t row_count;
};

/* ---- orders to workers ---- */

static uint32_t newcomer(const struct run *run) { return run->options->peers - 1; }

static void order_all(struct run *run, enum perf_state_order order, size_t bytes, uint64_t argument)
{
    for (uint32_t i = 0; i < run->started; i++)
        run->requests[i] = (struct perf_state_request){.order = order, .bytes = bytes, .argument = argument};
}

static void order_one(struct run *run, uint32_t index, enum perf_state_order order, size_t bytes, uint64_t argument)
{
    order_all(run, PERF_STATE_NOTHING, 0, 0);
    run->requests[index] = (struct perf_state_request){.order = order, .bytes = bytes, .argument = argument};
}

static bool give_orders(struct run *run)
{
    bool good = true;
    for (uint32_t i = 0; i < run->started && good; i++) {
        run->is_asked[i] = run->requests[i].order != PERF_STATE_NOTHING;
        run->reports[i] = (struct perf_state_report){0};
        if (run->is_asked[i])
            good = process_write_all(run->workers[i].go, &run->requests[i], sizeof *run->requests);
    }
    return good;
}

/*
 * Receives the reports of all workers that have an order. Returns false if a worker or the master has ended, or if a
 * worker reports a failure.
 */
static bool take_reports(struct run *run, const char *words)
{
    bool good = true;
    for (;;) {
        bool any = false;
        for (uint32_t i = 0; i < run->started; i++) {
            run->pipes[i].pipe = run->is_asked[i] ? run->workers[i].results : -1;
            any = any || run->is_asked[i];
        }
        if (!any)
            return good;
        run->pipes[run->started].pipe = run->launch.master.results;
        perf_progress(words);
        if (process_watch(run->pipes, run->started + 1, TICK_MS) < 0)
            return false;
        if (run->pipes[run->started].has_ended) {
            process_await(&run->launch.master);
            return false;
        }
        for (uint32_t i = 0; i < run->started; i++) {
            if (run->pipes[i].pipe < 0 || !(run->pipes[i].has_input || run->pipes[i].has_ended))
                continue;
            if (!process_read_all(run->workers[i].results, &run->reports[i], sizeof *run->reports)) {
                process_await(&run->workers[i]);
                return false;
            }
            run->is_asked[i] = false;
            good = good && run->reports[i].result == pcclSuccess;
        }
    }
}

static bool carry_out(struct run *run, const char *words) { return give_orders(run) && take_reports(run, words); }

/* Returns the time from the earliest start to the latest end. */
static double span_s(const struct run *run)
{
    double start_s = (double)INFINITY, end_s = 0;
    for (uint32_t i = 0; i < run->started; i++) {
        if (run->reports[i].end_s <= 0) /* the worker had no order, or has died */
            continue;
        start_s = fmin(start_s, run->reports[i].start_s);
        end_s = fmax(end_s, run->reports[i].end_s);
    }
    return end_s - start_s;
}

/* Gives all workers the content COMMON and the current revision. */
static bool begin_together(struct run *run, size_t bytes)
{
    order_all(run, PERF_STATE_FILL, bytes, COMMON);
    if (!carry_out(run, "filling"))
        return false;
    order_all(run, PERF_STATE_SYNC, bytes, run->revision++);
    return carry_out(run, "beginning together");
}

/* Orders a synchronization. If `outdated`, the newcomer takes part with an old revision. */
static void order_sync(struct run *run, size_t bytes, bool outdated)
{
    order_all(run, PERF_STATE_SYNC, bytes, run->revision++);
    if (outdated)
        run->requests[newcomer(run)].argument = 0;
}

static bool check(struct run *run, size_t bytes, uint64_t *wrong)
{
    if (!run->options->check)
        return true;
    order_all(run, PERF_STATE_CHECK, bytes, COMMON);
    bool good = carry_out(run, "verifying");
    for (uint32_t i = 0; i < run->started; i++)
        *wrong += run->reports[i].wrong;
    return good;
}

static uint64_t received(const struct run *run)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->started; i++)
        bytes += run->reports[i].received;
    return bytes;
}

/* ---- the cases ---- */

static bool measure_equal(struct run *run, struct row *row, double *times, double *digests)
{
    bool good = begin_together(run, row->bytes);
    for (uint32_t i = 0; i < row->iterations && good; i++) {
        order_all(run, PERF_STATE_DIGEST, row->bytes, 0);
        good = carry_out(run, "digesting alone");
        digests[i] = span_s(run);
        order_sync(run, row->bytes, false);
        good = good && carry_out(run, "equal content");
        times[i] = span_s(run);
        row->moved += received(run);
    }
    row->digest_s = perf_median_s(digests, row->iterations);
    return good && check(run, row->bytes, &row->wrong);
}

/* Adds to the samples, and sets *median_s to the median of the new ones only. Returns false if a process has died. */
static bool measure_limit(struct run *run, size_t bytes, struct perf_limit_samples *all, double *median_s)
{
    struct perf_limit_samples samples = {0};
    if (!run->fan)
        return true;
    perf_progress("measuring the limit");
    if (!perf_ring_measure(run->fan, bytes, false, &samples)) {
        (void)fprintf(stderr, "pccl-perf: a process that measures the limit exited\n");
        return false;
    }
    for (uint32_t i = 0; i < samples.count && all->count < PERF_LIMIT_SAMPLES_MAX; i++)
        all->seconds[all->count++] = samples.seconds[i];
    *median_s = perf_limit_median(&samples);
    return true;
}

/* Synchronizes with a newcomer that has different content and an old revision. */
static bool fetch_all(struct run *run, size_t bytes, const char *words)
{
    order_one(run, newcomer(run), PERF_STATE_FILL, bytes, OTHER);
    if (!carry_out(run, "filling"))
        return false;
    order_sync(run, bytes, true);
    return carry_out(run, words);
}

static bool measure_newcomer(struct run *run, struct row *row, double *times, double *unused)
{
    (void)unused;
    struct perf_limit_samples limits = {0};
    double before_s = 0, after_s = 0;
    bool good = measure_limit(run, row->bytes, &limits, &before_s) && begin_together(run, row->bytes);
    for (uint32_t i = 0; i < row->iterations && good; i++) {
        good = fetch_all(run, row->bytes, "a newcomer");
        times[i] = span_s(run);
        row->moved += received(run);
        good = good && check(run, row->bytes, &row->wrong);
    }
    good = good && measure_limit(run, row->bytes, &limits, &after_s);
    row->limit_s = perf_limit_median(&limits);
    row->limit_spread = before_s > 0 && after_s > 0 ? fmax(before_s, after_s) / fmin(before_s, after_s) : 0;
    return good;
}

static bool measure_part(struct run *run, struct row *row, double *times, double *unused)
{
    (void)unused;
    uint64_t chunks = (row->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, spoiled = (chunks + PART - 1) / PART;
    bool good = begin_together(run, row->bytes);
    for (uint32_t i = 0; i < row->iterations && good; i++) {
        order_one(run, newcomer(run), PERF_STATE_SPOIL, row->bytes, spoiled);
        good = carry_out(run, "changing");
        order_sync(run, row->bytes, true);
        good = good && carry_out(run, "a small part");
        times[i] = span_s(run);
        row->moved += received(run);
        good = good && check(run, row->bytes, &row->wrong);
    }
    return good;
}

/* ---- report ---- */

static double share_moved(const struct row *row) { return (double)row->moved / ((double)row->bytes * row->iterations); }

static double gbps(const struct row *row) { return (double)row->bytes / row->seconds * 1e-9; }

static double share_of_limit(const struct row *row)
{
    return row->limit_s > 0 ? row->limit_s / row->seconds : (double)NAN;
}

static void report_header(const struct run *run)
{
    FILE *out = perf_table(run->options);
    char text[96];
    (void)fprintf(out, "# shared state, %u peers; times in us, GB/s (1e9) of content\n", run->options->peers);
    if (run->fan) {
        perf_limit_text(run->fan, text, sizeof text);
        (void)fprintf(out, "# limit: plain TCP sockets from %u %s; %%limit = their time / ours\n",
                      run->options->peers - 1, text);
    }
    (void)fprintf(out, "#%11s %-9s %11s %11s %7s %8s %7s %8s %7s\n", "size", "case", "time", "digest", "ratio", "GB/s",
                  "%limit", "%moved", "#wrong");
    (void)fflush(out);
}

static void report_row(const struct run *run, const struct row *row)
{
    char digest[24] = "-", ratio[24] = "-", speed[24] = "-", limit[24] = "-", wrong[24] = "-";
    if (row->digest_s > 0) {
        (void)snprintf(digest, sizeof digest, "%.1f", row->digest_s * 1e6);
        (void)snprintf(ratio, sizeof ratio, "%.2f", row->seconds / row->digest_s);
    } else if (row->moved >= row->bytes) {
        (void)snprintf(speed, sizeof speed, "%.3f", gbps(row));
    }
    if (row->limit_s > 0)
        (void)snprintf(limit, sizeof limit, "%.0f%s", 100 * share_of_limit(row),
                       row->limit_spread > PERF_LIMIT_SPREAD_MAX ? "~" : "");
    if (run->options->check)
        (void)snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)row->wrong);
    perf_progress("");
    (void)fprintf(perf_table(run->options), "%12zu %-9s %11.1f %11s %7s %8s %7s %8.2f %7s\n", row->bytes,
                  row->of + strlen("state_"), row->seconds * 1e6, digest, ratio, speed, limit, 100 * share_moved(row),
                  wrong);
    (void)fflush(perf_table(run->options));
}

static void write_row(struct pccl_json *json, const struct row *row)
{
    pccl_json_begin_line(json);
    pccl_json_open(json, NULL, '{');
    pccl_json_string(json, "of", row->of);
    pccl_json_number(json, "bytes", row->bytes);
    pccl_json_number(json, "iterations", row->iterations);
    perf_json_number(json, "us", "%.3f", row->seconds * 1e6);
    if (row->digest_s > 0) {
        perf_json_number(json, "digest_us", "%.3f", row->digest_s * 1e6);
        perf_json_number(json, "ratio", "%.4f", row->seconds / row->digest_s);
    } else if (row->moved >= row->bytes) {
        perf_json_number(json, "gbps", "%.6f", gbps(row));
    }
    if (row->limit_s > 0) {
        perf_json_number(json, "limit_us", "%.3f", row->limit_s * 1e6);
        perf_json_number(json, "limit_spread", "%.3f", row->limit_spread);
        perf_json_number(json, "share_of_limit", "%.4f", share_of_limit(row));
    }
    perf_json_number(json, "share", "%.6f", share_moved(row));
    pccl_json_number(json, "wrong", row->wrong);
    pccl_json_close(json, '}');
}

static bool write_json(const struct run *run)
{
    char text[96] = "";
    struct perf_json report;
    if (!run->options->json)
        return true;
    if (run->fan)
        perf_limit_text(run->fan, text, sizeof text);
    struct pccl_json *json = perf_json_begin(&report, "shared_state");
    pccl_json_number(json, "peers", run->options->peers);
    pccl_json_bool(json, "checked", run->options->check);
    pccl_json_string(json, "limit_setting", text);
    pccl_json_open(json, "rows", '[');
    for (size_t i = 0; i < run->row_count; i++)
        write_row(json, &run->rows[i]);
    pccl_json_close(json, ']');
    return perf_json_save(run->options, &report);
}

static bool meets_goals(const struct run *run)
{
    struct perf_judged *judged = calloc(run->row_count + 1, sizeof *judged);
    for (size_t i = 0; judged && i < run->row_count; i++) {
        const struct row *row = &run->rows[i];
        judged[i] =
            (struct perf_judged){.of = row->of,
                                 .bytes = row->bytes,
                                 .figures = {{"us", row->seconds * 1e6},
                                             {"digest_us", row->digest_s * 1e6},
                                             {"ratio", row->digest_s > 0 ? row->seconds / row->digest_s : (double)NAN},
                                             {"gbps", gbps(row)},
                                             {"limit_us", row->limit_s * 1e6},
                                             {"share_of_limit", share_of_limit(row)},
                                             {"share", share_moved(row)}}};
    }
    bool good = judged && perf_gate(run->options, judged, run->row_count);
    free(judged);
    return good;
}

static bool measure_row(struct run *run, const char *of, size_t bytes,
                        bool (*measure)(struct run *run, struct row *row, double *times, double *more))
{
    uint32_t iterations = perf_iterations(run->options, bytes);
    double *times = calloc(2 * (size_t)iterations, sizeof *times);
    if (!times)
        return false;
    struct row *row = &run->rows[run->row_count];
    *row = (struct row){.of = of, .bytes = bytes, .iterations = iterations};
    bool good = measure(run, row, times, times + iterations);
    if (good) {
        row->seconds = perf_median_s(times, iterations);
        report_row(run, row);
        run->row_count++;
    }
    free(times);
    return good;
}

static bool measure_rows(struct run *run)
{
    const struct perf_options *options = run->options;
    bool good = true;
    report_header(run);
    for (size_t bytes = options->min_bytes; bytes && good && run->row_count + CASES <= CASES * PERF_SIZES_MAX;
         bytes = perf_next_size(options, bytes))
        good = measure_row(run, "state_equal", bytes, measure_equal) &&
               measure_row(run, "state_newcomer", bytes, measure_newcomer) &&
               measure_row(run, "state_part", bytes, measure_part);
    if (!good)
        return false;
    uint64_t wrong = 0;
    for (size_t i = 0; i < run->row_count; i++)
        wrong += run->rows[i].wrong;
    if (wrong > 0)
        (void)fprintf(stderr, "pccl-perf: %llu words are wrong\n", (unsigned long long)wrong);
    good = write_json(run) && wrong == 0;
    return (!options->gate || meets_goals(run)) && good;
}

/* ---- death of a donor during the transfer ---- */

struct chaos {
    struct perf_samples undisturbed, digests, disturbed;
    uint64_t wrong;
    double digest_s, whole_s; /* durations so far; a transfer takes place from digest_s to whole_s */
    uint32_t late;            /* rounds to repeat: the newcomer had finished before the signal */
};

enum { LATE_MAX = 10 }; /* limit per round; if it is exceeded, the machine's speed varies too much */

static double draw(struct run *run)
{
    run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(run->random >> 11) * 0x1p-53;
}

static bool warm_up(struct run *run, struct chaos *chaos, size_t bytes)
{
    bool good = begin_together(run, bytes) && fetch_all(run, bytes, "warming up");
    for (uint32_t i = 0; i < perf_iterations(run->options, bytes) && good; i++) {
        order_all(run, PERF_STATE_DIGEST, bytes, 0);
        good = carry_out(run, "digesting alone");
        perf_note(&chaos->digests, span_s(run));
        good = good && fetch_all(run, bytes, "undisturbed");
        perf_note(&chaos->undisturbed, span_s(run));
        good = good && check(run, bytes, &chaos->wrong);
    }
    chaos->digest_s = perf_figures_of(&chaos->digests).median_ms * 1e-3;
    chaos->whole_s = perf_figures_of(&chaos->undisturbed).median_ms * 1e-3;
    return good;
}

/* Replaces a process that has died with a new one, which gets the content from the others. */
static bool replace(struct run *run, uint32_t victim, size_t bytes)
{
    (void)process_end(&run->workers[victim], true);
    if (!perf_spawn_worker(&run->launch, run->next_index++, &run->workers[victim]))
        return false;
    order_all(run, PERF_STATE_ADMIT, 0, 0);
    run->requests[victim].order = PERF_STATE_NOTHING; /* it joins without an order */
    if (!carry_out(run, "a new peer"))
        return false;
    order_all(run, PERF_STATE_SYNC, bytes, run->revision++);
    run->requests[victim].argument = 0;
    return carry_out(run, "a new peer");
}

static bool strike(struct run *run, struct chaos *chaos, size_t bytes, const char *words)
{
    double begin_s = fmin(chaos->digest_s, 0.8 * chaos->whole_s);
    double delay_s = begin_s + (0.1 + 0.7 * draw(run)) * (chaos->whole_s - begin_s);
    uint32_t victim = (uint32_t)(draw(run) * newcomer(run));
    order_one(run, newcomer(run), PERF_STATE_FILL, bytes, OTHER);
    if (!carry_out(run, words))
        return false;
    order_sync(run, bytes, true);
    if (!give_orders(run))
        return false;
    process_sleep_s(delay_s);
    (run->options->chaos == PERF_CHAOS_KILL ? process_kill : process_stop)(&run->workers[victim]);
    double signal_s = perf_now_s();
    run->is_asked[victim] = false;
    if (!take_reports(run, words))
        return false;
    if (run->reports[newcomer(run)].end_s > signal_s) {
        perf_note(&chaos->disturbed, span_s(run));
    } else {
        chaos->late++;
        chaos->whole_s = fmin(0.9 * chaos->whole_s, span_s(run));
    }
    return replace(run, victim, bytes) && check(run, bytes, &chaos->wrong);
}

static bool report_chaos(const struct run *run, struct chaos *chaos)
{
    const struct perf_options *options = run->options;
    const char *kind = options->chaos == PERF_CHAOS_KILL ? "kill" : "stop";
    struct perf_figures undisturbed = perf_figures_of(&chaos->undisturbed),
                        disturbed = perf_figures_of(&chaos->disturbed);
    double extra_ms = disturbed.median_ms - undisturbed.median_ms;
    perf_report_figures(options, "an undisturbed newcomer", &undisturbed);
    perf_report_figures(options, "with a donor lost in the middle", &disturbed);
    (void)fprintf(perf_table(options), "%-37s median %9.2f ms   (%u signals were too late and were repeated)\n", "more",
                  extra_ms, chaos->late);
    if (!options->json)
        return true;
    struct perf_json report;
    struct pccl_json *json = perf_json_begin(&report, NULL);
    pccl_json_string(json, "collective", "shared_state");
    pccl_json_string(json, "chaos", kind);
    pccl_json_number(json, "peers", options->peers);
    pccl_json_number(json, "bytes", options->max_bytes);
    pccl_json_number(json, "rounds", options->rounds);
    pccl_json_number(json, "late", chaos->late);
    pccl_json_number(json, "wrong", chaos->wrong);
    perf_json_number(json, "extra_median_ms", "%.3f", extra_ms);
    perf_json_figures(json, "undisturbed", &undisturbed);
    perf_json_figures(json, "disturbed", &disturbed);
    return perf_json_save(options, &report);
}

static bool measure_chaos(struct run *run)
{
    const struct perf_options *options = run->options;
    struct chaos chaos = {0};
    char words[64];
    (void)fprintf(perf_table(options), "# %u peers, shared state of %zu bytes; times a donor was lost: %u (by %s)\n",
                  options->peers, options->max_bytes, options->rounds,
                  options->chaos == PERF_CHAOS_KILL ? "killed" : "stopped");
    bool good = warm_up(run, &chaos, options->max_bytes);
    while (good && chaos.disturbed.count < options->rounds && chaos.late < LATE_MAX * options->rounds) {
        (void)snprintf(words, sizeof words, "round %zu of %u", chaos.disturbed.count + 1, options->rounds);
        good = strike(run, &chaos, options->max_bytes, words);
    }
    perf_progress("");
    good = good && report_chaos(run, &chaos);
    if (chaos.wrong > 0) {
        (void)fprintf(stderr, "pccl-perf: %llu words are wrong\n", (unsigned long long)chaos.wrong);
        good = false;
    }
    free(chaos.undisturbed.values);
    free(chaos.digests.values);
    free(chaos.disturbed.values);
    return good;
}

/* ---- the run ---- */

static void find_limit(struct run *run)
{
    const struct perf_options *options = run->options;
    if (!options->limit || options->chaos != PERF_NO_CHAOS || options->max_bytes < PERF_LIMIT_BYTES_MIN)
        return;
    perf_progress("searching for the fastest plain sockets");
    run->fan = perf_ring_best(options->peers, options->max_bytes, options->limit_cache,
                              (struct perf_limit_traffic){.shape = PERF_FAN_IN, .share = 1});
    perf_progress("");
}

static bool start(struct run *run, int count, char **arguments)
{
    uint32_t peers = run->options->peers;
    run->workers = calloc(peers, sizeof *run->workers);
    run->pipes = calloc(peers + 1, sizeof *run->pipes);
    run->requests = calloc(peers, sizeof *run->requests);
    run->reports = calloc(peers, sizeof *run->reports);
    run->is_asked = calloc(peers, sizeof *run->is_asked);
    if (!run->workers || !run->pipes || !run->requests || !run->reports || !run->is_asked ||
        !perf_spawn_master(&run->launch, count, arguments))
        return false;
    for (; run->started < peers; run->started++)
        if (!perf_spawn_worker(&run->launch, run->next_index++, &run->workers[run->started]))
            return false;
    return true;
}

int perf_state_run(const struct perf_options *options, int count, char **arguments)
{
    static struct run run;
    run = (struct run){.options = options, .revision = 1, .random = 1};
    find_limit(&run);
    bool good =
        start(&run, count, arguments) && (options->chaos != PERF_NO_CHAOS ? measure_chaos(&run) : measure_rows(&run));
    good = perf_launch_end(&run.launch, run.workers, run.started, good);
    perf_ring_stop(run.fan);
    free(run.is_asked);
    free(run.reports);
    free(run.requests);
    free(run.pipes);
    free(run.workers);
    return good ? 0 : 1;
}
