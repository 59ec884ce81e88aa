#include "solve.h"

#include "net/heap.h"
#include "topology_report.h"
#include "report.h"
#include "topology/lines.h"
#include "topology/solve.h"
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The maximum suffices for the largest run and fits into the library's 32-bit counts. */
enum { FILE_BYTES_FIRST = 1 << 16, FILE_BYTES_MAX = 1 << 30 };

/* number of steps if the file has none: the number that the master uses in one search */
static const uint64_t steps_without = 4000000;

struct search {
    const struct perf_options *options;
    struct pccl_topology_report report;
    struct pccl_ring_problem problem;
    uint64_t *rates;
    uint32_t *rtts_us, *ring;
    struct pccl_ring_answer answer;
    double seconds;
};

static bool complain(const char *name, const char *words)
{
    (void)fprintf(stderr, "pccl-perf: %s: %s\n", strcmp(name, "-") == 0 ? "standard input" : name, words);
    return false;
}

/* ---- files ---- */

static bool read_stream(const char *name, FILE *file, char **text, size_t *length)
{
    size_t capacity = 0;
    do {
        if (*length == capacity) {
            capacity = capacity > 0 ? 2 * capacity : FILE_BYTES_FIRST;
            char *grown = capacity <= FILE_BYTES_MAX ? realloc(*text, capacity) : NULL;
            if (!grown)
                return complain(name, capacity <= FILE_BYTES_MAX ? "out of memory" : "the file is too long");
            *text = grown;
        }
        *length += fread(*text + *length, 1, capacity - *length, file);
    } while (!feof(file) && !ferror(file));
    return !ferror(file) || complain(name, strerror(errno));
}

/* Reads a file. The caller must free *text in any case. */
static bool read_file(const char *name, char **text, size_t *length)
{
    bool is_stdin = strcmp(name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(name, "r");
    if (!file)
        return complain(name, strerror(errno));
    bool good = read_stream(name, file, text, length);
    if (!is_stdin)
        (void)fclose(file);
    return good;
}

bool perf_dump(const struct perf_options *options, const char *text, size_t length)
{
    const char *name = options->dump;
    if (!name)
        return true;
    bool is_stdout = strcmp(name, "-") == 0;
    FILE *file = is_stdout ? stdout : fopen(name, "w");
    bool good = file && fwrite(text, 1, length, file) == length && fflush(file) == 0;
    int error = errno;
    if (file && !is_stdout && fclose(file) != 0 && good) {
        good = false;
        error = errno;
    }
    if (!good)
        (void)fprintf(stderr, "pccl-perf: %s: %s\n", name, strerror(error));
    return good;
}

/* ---- the problem ---- */

static bool read_report(struct search *search)
{
    struct pccl_text words;
    const char *name = search->options->solve;
    char *text = NULL;
    size_t length = 0;
    bool good = read_file(name, &text, &length);
    if (good && perf_report_read(text, length, &search->report, &words) != PCCL_OK)
        good = complain(name, words.bytes);
    free(text);
    return good;
}

/* Sets up the search problem as the master does. */
static bool build_problem(struct search *search)
{
    const struct perf_options *options = search->options;
    const struct pccl_topology_report *report = &search->report;
    size_t count = report->count, cells = count * count;
    search->rates = malloc(cells * sizeof *search->rates);
    search->rtts_us = calloc(cells, sizeof *search->rtts_us);
    search->ring = calloc(count, sizeof *search->ring);
    if (!search->rates || !search->rtts_us || !search->ring)
        return complain(options->solve, "out of memory");
    for (size_t i = 0; i < cells; i++)
        search->rates[i] = PCCL_RATE_UNKNOWN;
    for (uint32_t i = 0; i < report->link_count; i++) {
        const struct pccl_topology_link *link = &report->links[i];
        size_t cell = link->from * count + link->to;
        search->rates[cell] = link->source == PCCL_FIGURE_UNREACHABLE ? PCCL_RATE_NONE : pccl_rate_rounded(link->rate);
        search->rtts_us[cell] = link->rtt_us;
    }
    search->problem = (struct pccl_ring_problem){.count = report->count,
                                                 .rates = search->rates,
                                                 .rtts_us = search->rtts_us,
                                                 .ring = report->ring,
                                                 .seed = options->seeded ? options->seed : report->seed,
                                                 .steps = options->steps > 0  ? options->steps
                                                          : report->steps > 0 ? report->steps
                                                                              : steps_without};
    return true;
}

static bool solve(struct search *search)
{
    double begin_s = perf_now_s();
    perf_progress("searching");
    if (pccl_ring_solve(&search->problem, pccl_heap(), NULL, NULL, search->ring, &search->answer) != PCCL_OK)
        return complain(search->options->solve, "out of memory for the search");
    search->seconds = perf_now_s() - begin_s;
    perf_progress("");
    return pccl_topology_report_promise(&search->report,
                                        search->answer.worth.exists ? search->ring : search->report.ring) ||
           complain(search->options->solve, "out of memory for trees");
}

/* ---- the answer ---- */

static bool is_same(const struct search *search)
{
    return search->answer.worth.exists && perf_ring_same(search->ring, search->report.ring, search->report.count);
}

/*
 * Returns the rate that the master would assume for the slowest link while all links are in use, or 0 if some links are
 * unknown.
 */
static uint64_t share_of_all(const struct search *search)
{
    const uint32_t count = search->report.count;
    for (uint32_t i = 0; i < count * count && count <= PCCL_MESH_PEERS_MAX; i++)
        if (i % (count + 1) != 0 && search->rates[i] <= PCCL_RATE_UNKNOWN)
            return 0;
    return count > 1 && count <= PCCL_MESH_PEERS_MAX
               ? pccl_pairs_share(&(struct pccl_pairs){count, search->rates, search->rtts_us})
               : 0;
}

static void report(const struct search *search)
{
    const struct pccl_topology_report *topology = &search->report;
    const struct pccl_ring_problem *problem = &search->problem;
    FILE *out = perf_table(search->options);
    (void)fprintf(out, "# group %u, %u peers, %u of %llu ways known; seed %llu, %llu steps\n", topology->group,
                  topology->count, topology->link_count, (unsigned long long)topology->count * (topology->count - 1),
                  (unsigned long long)problem->seed, (unsigned long long)problem->steps);
    const uint64_t share = share_of_all(search);
    if (share > 0)
        (void)fprintf(out, "slowest link while all are in use: %.3g Mbit/s\n", (double)share / 125000);
    if (search->answer.worth.exists)
        perf_ring_show(out, topology, "ring", search->ring);
    if (search->answer.proven)
        (void)fprintf(out, search->answer.worth.exists ? "proven: no better ring exists\n" : "no ring exists\n");
    else
        (void)fprintf(out, search->answer.worth.exists ? "not proven: a better ring may exist\n"
                                                       : "no ring was found; one may exist\n");
    if (is_same(search))
        (void)fputs("the ring in the file is the same\n", out);
    else
        perf_ring_show(out, topology,
                       search->answer.worth.exists ? "the ring in the file is different" : "the ring of the file",
                       topology->ring);
    perf_promise_show(out, topology);
    (void)fprintf(out, "searched for %.3f ms\n", search->seconds * 1e3);
}

static bool report_json(const struct search *search)
{
    const struct pccl_topology_report *report = &search->report;
    struct perf_json file;
    if (!search->options->json)
        return true;
    struct pccl_json *json = perf_json_begin(&file, NULL);
    pccl_json_number(json, "group", report->group);
    pccl_json_bool(json, "exists", search->answer.worth.exists);
    pccl_json_bool(json, "proven", search->answer.proven);
    pccl_json_bool(json, "same", is_same(search));
    pccl_json_number(json, "seed", search->problem.seed);
    pccl_json_number(json, "steps", search->problem.steps);
    perf_json_number(json, "seconds", "%.6f", search->seconds);
    if (search->answer.worth.exists)
        perf_ring_json(json, report, search->ring);
    else
        pccl_json_null(json, "ring");
    perf_promise_json(json, report);
    pccl_json_open(json, "before", '{');
    perf_ring_json(json, report, report->ring);
    pccl_json_close(json, '}');
    perf_report_json_peers(json, report);
    return perf_json_save(search->options, &file);
}

/* Writes the report again, with the ring that was found and the parameters of the search that found it. */
static bool dump_answer(struct search *search)
{
    struct pccl_topology_report *report = &search->report;
    if (!search->options->dump)
        return true;
    if (search->answer.worth.exists)
        memcpy(report->ring, search->ring, report->count * sizeof *report->ring);
    report->seed = search->problem.seed;
    report->steps = search->problem.steps;
    size_t length = pccl_topology_report_print(report, false, NULL, 0);
    char *text = malloc(length);
    if (!text)
        return complain(search->options->dump, "out of memory");
    (void)pccl_topology_report_print(report, false, text, length);
    bool good = perf_dump(search->options, text, length);
    free(text);
    return good;
}

int perf_solve_run(const struct perf_options *options)
{
    struct search search = {.options = options};
    int code = 2;
    if (!read_report(&search))
        return code;
    if (build_problem(&search) && solve(&search)) {
        report(&search);
        if (report_json(&search) && dump_answer(&search))
            code = search.answer.worth.exists ? 0 : 1;
    }
    free(search.ring);
    free(search.rtts_us);
    free(search.rates);
    pccl_topology_report_fini(&search.report);
    return code;
}
