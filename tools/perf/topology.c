#include "topology.h"

#include "gate.h"
#include "topology_report.h"
#include "report.h"
#include "solve.h"
#include "spawn.h"
#include "worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reports ---- */

void perf_topology_header(const struct perf_options *options)
{
    char size[32];
    FILE *out = perf_table(options);
    (void)fprintf(out,
                  "# topology, %u peers; all-reduce of %s, %s %s, before and after; times in ms, of the slowest peer\n",
                  options->peers, perf_size_text(options->max_bytes, size, sizeof size),
                  perf_datatype_name(options->datatype), perf_operation_name(options->operation));
    (void)fprintf(out, "#%5s %10s %10s %10s %6s %10s %10s %8s %7s\n", "call", "before", "optimize", "after", "gain",
                  "CPU-s/peer", "(mean)", "master", "#wrong");
    (void)fflush(out);
}

static double gain(const struct perf_call *call) { return call->before_s / call->after_s; }

void perf_topology_row(const struct perf_options *options, uint32_t number, const struct perf_call *call)
{
    char master[24] = "-", wrong[24] = "-";
    FILE *out = perf_table(options);
    if (call->master_s > 0)
        (void)snprintf(master, sizeof master, "%.3f", call->master_s);
    if (options->check)
        (void)snprintf(wrong, sizeof wrong, "%.0f", call->wrong);
    perf_progress("");
    (void)fprintf(out, "%6u %10.3f %10.1f %10.3f %6.2f %10.3f %10.3f %8s %7s%s\n", number, call->before_s * 1e3,
                  call->optimize_s * 1e3, call->after_s * 1e3, gain(call), call->cpu_s, call->cpu_mean_s, master, wrong,
                  call->failed > 0 ? "  failed" : "");
    (void)fflush(out);
}

static void write_row(struct pccl_json *json, const struct perf_call *call)
{
    pccl_json_begin_line(json);
    pccl_json_open(json, NULL, '{');
    pccl_json_string(json, "of", "topology");
    perf_json_number(json, "optimize_s", "%.6f", call->optimize_s);
    perf_json_number(json, "cpu_s", "%.6f", call->cpu_s);
    perf_json_number(json, "cpu_mean_s", "%.6f", call->cpu_mean_s);
    perf_json_number(json, "master_cpu_s", "%.6f", call->master_s);
    perf_json_number(json, "before_us", "%.3f", call->before_s * 1e6);
    perf_json_number(json, "after_us", "%.3f", call->after_s * 1e6);
    perf_json_number(json, "gain", "%.4f", gain(call));
    pccl_json_bool(json, "failed", call->failed > 0);
    perf_json_number(json, "wrong", "%.0f", call->wrong);
    pccl_json_close(json, '}');
}

static bool report_json(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                        const struct pccl_topology_report *report)
{
    struct perf_json file;
    if (!options->json)
        return true;
    struct pccl_json *json = perf_json_begin(&file, "topology");
    pccl_json_number(json, "bytes", options->max_bytes);
    pccl_json_bool(json, "checked", options->check);
    pccl_json_number(json, "group", report->group);
    pccl_json_number(json, "seed", report->seed);
    pccl_json_number(json, "steps", report->steps);
    perf_ring_json(json, report, report->ring);
    perf_report_json_peers(json, report);
    perf_report_json_links(json, report);
    perf_promise_json(json, report);
    pccl_json_open(json, "rows", '[');
    for (uint32_t i = 0; i < count; i++)
        write_row(json, &calls[i]);
    pccl_json_close(json, ']');
    return perf_json_save(options, &file);
}

/* Checks the goals for the longest and the most expensive call, and for the group before and after all calls. */
static bool meets_goals(const struct perf_options *options, const struct perf_call *calls, uint32_t count)
{
    struct perf_call worst = calls[0];
    for (uint32_t i = 1; i < count; i++) {
        worst.optimize_s = fmax(worst.optimize_s, calls[i].optimize_s);
        worst.cpu_s = fmax(worst.cpu_s, calls[i].cpu_s);
        worst.cpu_mean_s = fmax(worst.cpu_mean_s, calls[i].cpu_mean_s);
        worst.master_s = fmax(worst.master_s, calls[i].master_s);
        worst.after_s = calls[i].after_s;
        worst.failed += calls[i].failed;
    }
    struct perf_judged judged = {.of = "topology"};
    if (worst.failed > 0) /* after a failure, the duration is not a result */
        return perf_gate(options, &judged, 1);
    judged = (struct perf_judged){.of = "topology",
                                  .figures = {{"optimize_s", worst.optimize_s},
                                              {"cpu_s", worst.cpu_s},
                                              {"cpu_mean_s", worst.cpu_mean_s},
                                              {"master_cpu_s", worst.master_s > 0 ? worst.master_s : (double)NAN},
                                              {"before_us", worst.before_s * 1e6},
                                              {"after_us", worst.after_s * 1e6},
                                              {"gain", gain(&worst)}}};
    return perf_gate(options, &judged, 1);
}

bool perf_topology_report(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                          const char *text)
{
    struct pccl_topology_report report;
    struct pccl_text words;
    FILE *out = perf_table(options);
    if (perf_report_read(text, strlen(text), &report, &words) != PCCL_OK) {
        (void)fprintf(stderr, "pccl-perf: invalid topology report from the library: %s\n", words.bytes);
        return false;
    }
    perf_report_show(out, &report);
    perf_ring_show(out, &report, "ring", report.ring);
    if (!pccl_topology_report_promise(&report, report.ring)) {
        (void)fprintf(stderr, "pccl-perf: out of memory\n");
        pccl_topology_report_fini(&report);
        return false;
    }
    perf_promise_show(out, &report);
    (void)fflush(out);
    bool good = report_json(options, calls, count, &report);
    pccl_topology_report_fini(&report);
    good = perf_dump(options, text, strlen(text)) && good;
    return (!options->gate || meets_goals(options, calls, count)) && good;
}

/* ---- the run ---- */

/*
 * Waits until each worker has sent a byte, which means that it is done. Returns false if a worker or the master ends
 * before that.
 */
static bool await_workers(const struct perf_launch *launch, const struct process_child *workers, uint32_t count)
{
    char byte;
    for (uint32_t i = 0; i < count; i++)
        if (!perf_launch_await(launch, workers, count, i, "optimizing the topology") ||
            !process_read_all(workers[i].results, &byte, 1))
            return false;
    return true;
}

int perf_topology_run(const struct perf_options *options, int count, char **arguments)
{
    struct perf_launch launch;
    uint32_t started = 0;
    struct process_child *workers = calloc(options->peers, sizeof *workers);
    if (!workers) {
        (void)fprintf(stderr, "pccl-perf: out of memory\n");
        return 1;
    }
    bool good = perf_spawn_master(&launch, count, arguments);
    while (good && started < options->peers) {
        good = perf_spawn_worker(&launch, started, &workers[started]);
        started += good;
    }
    good = good && await_workers(&launch, workers, started);
    good = perf_launch_end(&launch, workers, started, good);
    free(workers);
    return good ? 0 : 1;
}
