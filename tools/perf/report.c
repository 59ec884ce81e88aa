#include "report.h"

#include "net/heap.h"
#include "worker.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

void perf_row_finish(struct perf_row *row, const struct perf_options *options, double *times, size_t count,
                     double cpu_s)
{
    double share = perf_traffic(options, options->peers);
    double moved = share * perf_senders(options) * (double)row->bytes;
    if (count > 0) {
        row->p50_s = perf_median_s(times, count); /* sorts the times */
        row->p99_s = times[count - 1 - count / 100];
        row->max_s = times[count - 1];
    }
    row->algbw = row->seconds > 0 ? (double)row->bytes / row->seconds * 1e-9 : 0;
    row->busbw = row->algbw * share;
    row->cpu_s = cpu_s / row->iterations;
    row->cpu_per_gb = moved > 0 ? row->cpu_s / (moved * 1e-9) : 0;
}

double perf_row_share(const struct perf_row *row)
{
    return row->limit_s > 0 && row->seconds > 0 ? row->limit_s / row->seconds : (double)NAN;
}

/* ---- the table ---- */

FILE *perf_table(const struct perf_options *options)
{
    bool is_taken =
        (options->json && strcmp(options->json, "-") == 0) || (options->dump && strcmp(options->dump, "-") == 0);
    return is_taken ? stderr : stdout;
}

const char *perf_size_text(size_t bytes, char *text, size_t size)
{
    static const char suffixes[] = "\0KMGT";
    unsigned power = 0;
    while (power < 4 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        power++;
    }
    (void)snprintf(text, size, "%zu%.1s", bytes, suffixes + power);
    return text;
}

void perf_report_header(const struct perf_options *options, const struct perf_ring *ring, double ring_cpu_per_gb)
{
    char text[96];
    FILE *out = perf_table(options);
    (void)fprintf(
        out,
        "# %s, %u peers, %s %s, codec %s, %u at once, %u tensors, pool %s, local %s; times in us, bandwidths in GB/s "
        "(1e9)\n",
        perf_collective_name(options->collective), options->peers, perf_datatype_name(options->datatype),
        perf_reduces(options) ? perf_operation_name(options->operation) : "-", options->codec_text, options->concurrent,
        options->tensors, options->pool ? options->pool : "automatic", perf_local(options));
    if (options->mode == PERF_PEER)
        (void)fprintf(out, "# this peer's own figures; CPU: this peer's time, multiplied by the number of peers\n");
    if (ring) {
        perf_limit_text(ring, text, sizeof text);
        (void)fprintf(out, "# limit: plain TCP sockets %s, %.2f CPU-s/GB; %%limit = their time / ours\n", text,
                      ring_cpu_per_gb);
    }
    (void)fprintf(out, "#%11s %12s %5s %5s %6s %11s %11s %11s %8s %8s %9s %7s %7s %7s %8s %8s %7s\n", "size", "count",
                  "type", "redop", "place", "time", "p50", "p99", "algbw", "busbw", "CPU-s/GB", "%limit", "%exact",
                  "MiB", "maxerr", "rmserr", "#wrong");
    (void)fflush(out);
}

void perf_report_row(const struct perf_options *options, const struct perf_row *row)
{
    char share[16] = "-", exact[16] = "-", memory[16] = "-", largest[16] = "-", rms[16] = "-", wrong[24] = "-";
    FILE *out = perf_table(options);
    if (row->limit_s > 0)
        (void)snprintf(share, sizeof share, "%.0f%s", 100 * perf_row_share(row),
                       row->limit_spread > PERF_LIMIT_SPREAD_MAX ? "~" : "");
    if (row->exact_s > 0)
        (void)snprintf(exact, sizeof exact, "%.0f", 100 * row->seconds / row->exact_s);
    if (row->memory_bytes > 0)
        (void)snprintf(memory, sizeof memory, "%.1f", (double)row->memory_bytes / (1 << 20));
    if (options->codec.algorithm != pcclQuantNone && options->codec.algorithm != pcclQuantAuto) {
        (void)snprintf(largest, sizeof largest, "%.1e", row->error_largest);
        (void)snprintf(rms, sizeof rms, "%.1e", row->error_rms);
    }
    if (options->check)
        (void)snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)row->wrong);
    perf_progress("");
    (void)fprintf(out, "%12zu %12zu %5s %5s %6s %11.1f %11.1f %11.1f %8.3f %8.3f %9.3f %7s %7s %7s %8s %8s %7s\n",
                  row->bytes, row->bytes / perf_datatype_bytes(options->datatype),
                  perf_datatype_name(options->datatype),
                  perf_reduces(options) ? perf_operation_name(options->operation) : "-", row->in_place ? "in" : "out",
                  row->seconds * 1e6, row->p50_s * 1e6, row->p99_s * 1e6, row->algbw, row->busbw, row->cpu_per_gb,
                  share, exact, memory, largest, rms, wrong);
    if (row->why[0])
        (void)fprintf(out, "# last codec: %s, %s\n", perf_codec_name(row->chosen), row->why);
    (void)fflush(out);
}

/* ---- samples ---- */

void perf_note(struct perf_samples *samples, double seconds)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity ? 2 * samples->capacity : 256;
        double *values = realloc(samples->values, capacity * sizeof *values);
        if (!values)
            return; /* drops the sample */
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = seconds;
}

struct perf_figures perf_figures_of(struct perf_samples *samples)
{
    if (samples->count == 0)
        return (struct perf_figures){0};
    double median_s = perf_median_s(samples->values, samples->count); /* sorts the values */
    return (struct perf_figures){.median_ms = 1e3 * median_s,
                                 .p99_ms = 1e3 * samples->values[samples->count - 1 - samples->count / 100],
                                 .max_ms = 1e3 * samples->values[samples->count - 1],
                                 .count = samples->count};
}

void perf_report_figures(const struct perf_options *options, const char *words, const struct perf_figures *figures)
{
    (void)fprintf(perf_table(options), "%-37s median %9.2f ms   p99 %9.2f ms   maximum %9.2f ms   (%zu)\n", words,
                  figures->median_ms, figures->p99_ms, figures->max_ms, figures->count);
}

/* ---- progress ---- */

void perf_progress(const char *text)
{
    static double start_s;
    start_s = start_s > 0 ? start_s : perf_now_s();
    if (uv_guess_handle(2) != UV_TTY)
        return;
    (void)fprintf(stderr, "\r\033[K");
    if (*text)
        (void)fprintf(stderr, "%s  [%.0f s]", text, perf_now_s() - start_s);
    (void)fflush(stderr);
}

/* ---- JSON ---- */

enum { JSON_BYTES_MAX = 64 << 20 };

struct pccl_json *perf_json_begin(struct perf_json *report, const char *collective)
{
    *report = (struct perf_json){.json.print = &report->print};
    pccl_print_init(&report->print, pccl_heap(), JSON_BYTES_MAX);
    pccl_json_open(&report->json, NULL, '{');
    if (collective) {
        uint32_t version = pcclGetVersion();
        char text[40];
        (void)snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
        pccl_json_string(&report->json, "version", text);
        pccl_json_string(&report->json, "collective", collective);
    }
    return &report->json;
}

static bool write_all(const struct perf_options *options, const struct pccl_print *print)
{
    bool is_stdout = strcmp(options->json, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(options->json, "w");
    bool written = file && fwrite(print->bytes, 1, print->length, file) == print->length;
    if (file)
        written = (is_stdout ? fflush(file) : fclose(file)) == 0 && written;
    if (!written)
        perror(options->json);
    return written;
}

bool perf_json_save(const struct perf_options *options, struct perf_json *report)
{
    pccl_json_close(&report->json, '}');
    pccl_print_add(&report->print, "\n");
    bool written = !report->print.failed && write_all(options, &report->print);
    if (report->print.failed)
        (void)fprintf(stderr, "%s: out of memory\n", options->json);
    pccl_print_fini(&report->print);
    return written;
}

void perf_json_number(struct pccl_json *json, const char *key, const char *format, ...)
{
    char text[512]; /* large enough for any double */
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pccl_json_token(json, key, text);
}

void perf_json_figures(struct pccl_json *json, const char *name, const struct perf_figures *figures)
{
    pccl_json_begin_line(json);
    pccl_json_open(json, name, '{');
    perf_json_number(json, "median_ms", "%.3f", figures->median_ms);
    perf_json_number(json, "p99_ms", "%.3f", figures->p99_ms);
    perf_json_number(json, "max_ms", "%.3f", figures->max_ms);
    pccl_json_number(json, "count", figures->count);
    pccl_json_close(json, '}');
}

static void write_row(struct pccl_json *json, const struct perf_options *options, const struct perf_row *row)
{
    pccl_json_begin_line(json);
    pccl_json_open(json, NULL, '{');
    pccl_json_number(json, "bytes", row->bytes);
    pccl_json_bool(json, "in_place", row->in_place);
    pccl_json_number(json, "iterations", row->iterations);
    perf_json_number(json, "us", "%.3f", row->seconds * 1e6);
    perf_json_number(json, "p50_us", "%.3f", row->p50_s * 1e6);
    perf_json_number(json, "p99_us", "%.3f", row->p99_s * 1e6);
    perf_json_number(json, "max_us", "%.3f", row->max_s * 1e6);
    perf_json_number(json, "algbw", "%.6f", row->algbw);
    perf_json_number(json, "busbw", "%.6f", row->busbw);
    perf_json_number(json, "cpu_us", "%.3f", row->cpu_s * 1e6);
    perf_json_number(json, "master_cpu_us", "%.3f", row->master_s * 1e6);
    perf_json_number(json, "cpu_s_per_gb", "%.4f", row->cpu_per_gb);
    if (row->limit_s > 0) {
        perf_json_number(json, "limit_us", "%.3f", row->limit_s * 1e6);
        perf_json_number(json, "limit_spread", "%.3f", row->limit_spread);
        perf_json_number(json, "share_of_limit", "%.4f", perf_row_share(row));
    }
    if (row->exact_s > 0) {
        perf_json_number(json, "exact_us", "%.3f", row->exact_s * 1e6);
        perf_json_number(json, "share_of_exact", "%.4f", row->seconds / row->exact_s);
    }
    if (row->why[0]) {
        pccl_json_string(json, "chosen", perf_codec_name(row->chosen));
    } else if (options->codec.algorithm != pcclQuantNone) {
        perf_json_number(json, "error_largest", "%.6e", row->error_largest);
        perf_json_number(json, "error_rms", "%.6e", row->error_rms);
    }
    if (row->memory_bytes > 0)
        pccl_json_number(json, "memory_bytes", row->memory_bytes);
    pccl_json_number(json, "wrong", row->wrong);
    pccl_json_close(json, '}');
}

bool perf_report_json(const struct perf_options *options, const struct perf_ring *ring, const struct perf_row *rows,
                      size_t count)
{
    char text[96] = "";
    struct perf_json report;
    if (!options->json)
        return true;
    if (ring)
        perf_limit_text(ring, text, sizeof text);
    struct pccl_json *json = perf_json_begin(&report, perf_collective_name(options->collective));
    pccl_json_number(json, "peers", options->peers);
    pccl_json_string(json, "datatype", perf_datatype_name(options->datatype));
    pccl_json_string(json, "operation", perf_operation_name(options->operation));
    pccl_json_string(json, "codec", options->codec_text);
    pccl_json_number(json, "concurrent", options->concurrent);
    pccl_json_number(json, "tensors", options->tensors);
    pccl_json_token(json, "pool", options->pool ? options->pool : "0");
    pccl_json_string(json, "local", perf_local(options));
    pccl_json_bool(json, "checked", options->check);
    pccl_json_string(json, "limit_setting", text);
    pccl_json_open(json, "rows", '[');
    for (size_t i = 0; i < count; i++)
        write_row(json, options, &rows[i]);
    pccl_json_close(json, ']');
    return perf_json_save(options, &report);
}
