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

/* ---- what is said ---- */

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

static void write_row(FILE *file, const struct perf_call *call)
{
    (void)fprintf(file,
                  "\n  {\"of\": \"topology\", \"optimize_s\": %.6f, \"cpu_s\": %.6f, \"cpu_mean_s\": %.6f, "
                  "\"master_cpu_s\": %.6f, \"before_us\": %.3f, \"after_us\": %.3f, \"gain\": %.4f, \"failed\": %s, "
                  "\"wrong\": %.0f}",
                  call->optimize_s, call->cpu_s, call->cpu_mean_s, call->master_s, call->before_s * 1e6,
                  call->after_s * 1e6, gain(call), call->failed > 0 ? "true" : "false", call->wrong);
}

static void write_json(FILE *file, const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                       const struct pccl_topology_report *report)
{
    uint32_t version = pcclGetVersion();
    (void)fprintf(file, "{\"version\": \"%u.%u.%u\", \"collective\": \"topology\", \"bytes\": %zu, \"checked\": %s, ",
                  version / 10000, version / 100 % 100, version % 100, options->max_bytes,
                  options->check ? "true" : "false");
    (void)fprintf(file, "\"group\": %u, \"seed\": %llu, \"steps\": %llu,\n ", report->group,
                  (unsigned long long)report->seed, (unsigned long long)report->steps);
    perf_ring_json(file, report, report->ring);
    (void)fputs(",\n ", file);
    perf_report_json_peers(file, report);
    (void)fputs(",\n ", file);
    perf_report_json_links(file, report);
    (void)fputs(",\n \"rows\": [", file);
    for (uint32_t i = 0; i < count; i++) {
        (void)fputs(i > 0 ? "," : "", file);
        write_row(file, &calls[i]);
    }
    (void)fputs("]}\n", file);
}

static bool report_json(const struct perf_options *options, const struct perf_call *calls, uint32_t count,
                        const struct pccl_topology_report *report)
{
    FILE *file = options->json ? perf_json_open(options) : NULL;
    if (file)
        write_json(file, options, calls, count, report);
    return !options->json || (file && perf_json_close(options, file));
}

/*
 * The longest and dearest of the calls, the group as it was before all of them and as it is after.
 */
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
    if (worst.failed > 0) /* a time to a failure is no time */
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
        (void)fprintf(stderr, "pccl-perf: what the library tells of the topology: %s\n", words.bytes);
        return false;
    }
    perf_report_show(out, &report);
    perf_ring_show(out, &report, "ring", report.ring);
    (void)fflush(out);
    bool good = report_json(options, calls, count, &report);
    pccl_topology_report_fini(&report);
    good = perf_dump(options, text, strlen(text)) && good;
    return (!options->gate || meets_goals(options, calls, count)) && good;
}

/* ---- the run ---- */

/* Each says a byte when it is done. false: one of them or the master has ended before that. */
static bool await_workers(const struct perf_launch *launch, const struct perf_child *workers, uint32_t count)
{
    char byte;
    for (uint32_t i = 0; i < count; i++)
        if (!perf_launch_await(launch, workers, count, i, "optimizing the topology") ||
            !perf_read_all(workers[i].results, &byte, 1))
            return false;
    return true;
}

int perf_topology_run(const struct perf_options *options, int count, char **arguments)
{
    struct perf_launch launch;
    uint32_t started = 0;
    struct perf_child *workers = calloc(options->peers, sizeof *workers);
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
