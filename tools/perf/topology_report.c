#include "topology_report.h"

#include "net/heap.h"
#include "report.h"
#include "report_parse.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 16, LINE_BYTES = 100, CELL_BYTES = 32 };

/* ---- known figures ---- */

static int by_ends(const void *a, const void *b)
{
    const struct pccl_topology_link *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

pcclResult_t perf_report_fetch(pcclComm_t *comm, char **text)
{
    enum { ATTEMPTS_MAX = 10 }; /* because the topology may grow between two calls */
    char *found = NULL;
    size_t needed = 0, size = 0;
    pcclResult_t result = pcclGetTopology(comm, NULL, 0, &needed);
    for (int i = 0; i < ATTEMPTS_MAX && result == pcclSuccess && needed > size; i++) {
        free(found);
        size = needed + needed / 4;
        found = malloc(size);
        result = found != NULL ? pcclGetTopology(comm, found, size, &needed) : pcclOutOfMemory;
        if (result == pcclInvalidArgument && needed > size)
            result = pcclSuccess;
    }
    if (result == pcclSuccess && needed > size)
        result = pcclInternalError;
    *text = result == pcclSuccess ? found : NULL;
    if (result != pcclSuccess)
        free(found);
    return result;
}

enum pccl_status perf_report_read(const char *text, size_t length, struct pccl_topology_report *report,
                                  struct pccl_text *words)
{
    enum pccl_status status = perf_report_parse(text, length, pccl_heap(), report, words);
    if (status == PCCL_OK && report->link_count > 0)
        qsort(report->links, report->link_count, sizeof *report->links, by_ends);
    return status;
}

const struct pccl_topology_link *perf_report_link(const struct pccl_topology_report *report, uint32_t from, uint32_t to)
{
    struct pccl_topology_link wanted = {.from = from, .to = to};
    if (report->link_count == 0)
        return NULL;
    return bsearch(&wanted, report->links, report->link_count, sizeof *report->links, by_ends);
}

bool perf_ring_same(const uint32_t *ring, const uint32_t *other, uint32_t count)
{
    uint32_t first = 0;
    while (first < count && other[first] != ring[0])
        first++;
    for (uint32_t i = 0; i < count; i++)
        if (first == count || ring[i] != other[(first + i) % count])
            return false;
    return true;
}

static uint32_t next_in(const struct pccl_topology_report *report, const uint32_t *ring, uint32_t i)
{
    return ring[i + 1 == report->count ? 0 : i + 1];
}

struct perf_ring_worth perf_ring_worth_of(const struct pccl_topology_report *report, const uint32_t *ring)
{
    struct perf_ring_worth worth = {0};
    for (uint32_t i = 0; i < report->count && report->count > 1; i++) {
        const struct pccl_topology_link *link = perf_report_link(report, ring[i], next_in(report, ring, i));
        worth.unknown += link == NULL;
        if (link == NULL)
            continue;
        worth.latency_us += link->rtt_us;
        if (worth.slowest == NULL || link->rate < worth.slowest->rate)
            worth.slowest = link;
    }
    return worth;
}

static double mbit(uint64_t rate) { return (double)rate * 8e-6; }

static const char *source_of(const struct pccl_topology_link *link)
{
    static const char *const sources[] = {[PCCL_FIGURE_NONE] = "none",
                                          [PCCL_FIGURE_TESTED] = "tested",
                                          [PCCL_FIGURE_TRAFFIC] = "traffic",
                                          [PCCL_FIGURE_UNREACHABLE] = "unreachable"};
    return sources[link->source];
}

/* ---- tables ---- */

static void rate_text(const struct pccl_topology_link *link, char *text)
{
    if (link == NULL || link->source == PCCL_FIGURE_UNREACHABLE) {
        (void)snprintf(text, CELL_BYTES, "%s", link == NULL ? "?" : "-");
        return;
    }
    double rate = mbit(link->rate);
    (void)snprintf(text, CELL_BYTES, "%.*f%s",
                   rate < 10    ? 2
                   : rate < 100 ? 1
                                : 0,
                   rate, link->source == PCCL_FIGURE_TRAFFIC ? "*" : " ");
}

static void rtt_text(const struct pccl_topology_link *link, char *text)
{
    if (link == NULL || link->source == PCCL_FIGURE_UNREACHABLE)
        (void)snprintf(text, CELL_BYTES, "%s", link == NULL ? "?" : "-");
    else if (link->rtt_us == 0)
        (void)snprintf(text, CELL_BYTES, "?");
    else
        (void)snprintf(text, CELL_BYTES, "%.*f", link->rtt_us < 1000 ? 3 : 2, link->rtt_us * 1e-3);
}

static void show_row(FILE *out, const struct pccl_topology_report *report, uint32_t from, uint32_t first, uint32_t end,
                     void (*cell)(const struct pccl_topology_link *link, char *text))
{
    char text[CELL_BYTES];
    (void)fprintf(out, "%6u", from);
    for (uint32_t to = first; to < end; to++) {
        (void)snprintf(text, sizeof text, ".");
        if (to != from)
            cell(perf_report_link(report, from, to), text);
        (void)fprintf(out, " %8s", text);
    }
    (void)fputc('\n', out);
}

static void show_matrix(FILE *out, const struct pccl_topology_report *report, const char *title,
                        void (*cell)(const struct pccl_topology_link *link, char *text))
{
    (void)fprintf(out, "# %s\n", title);
    for (uint32_t first = 0; first < report->count; first += COLUMNS) {
        uint32_t end = report->count - first < COLUMNS ? report->count : first + COLUMNS;
        (void)fputs("#     ", out);
        for (uint32_t to = first; to < end; to++)
            (void)fprintf(out, " %8u", to);
        (void)fputc('\n', out);
        for (uint32_t from = 0; from < report->count; from++)
            show_row(out, report, from, first, end, cell);
    }
}

static void show_peers(FILE *out, const struct pccl_topology_report *report)
{
    (void)fputs("# peers\n", out);
    for (uint32_t i = 0; i < report->count; i++) {
        const struct pccl_topology_peer *peer = &report->peers[i];
        (void)fprintf(out, peer->name[0] ? "%6u  %s  %.*s\n" : "%6u  %s\n", i, pccl_address_str(&peer->address),
                      PCCL_NAME_MAX, peer->name);
    }
}

static void show_links_of_ring(FILE *out, const struct pccl_topology_report *report)
{
    char rate[CELL_BYTES], rtt[CELL_BYTES];
    (void)fputs("# along the ring: Mbit/s, round trip in ms, source\n", out);
    for (uint32_t i = 0; i < report->count; i++) {
        uint32_t from = report->ring[i], to = next_in(report, report->ring, i);
        const struct pccl_topology_peer *peer = &report->peers[from];
        const struct pccl_topology_link *link = perf_report_link(report, from, to);
        rate_text(link, rate);
        rtt_text(link, rtt);
        (void)fprintf(out, "%6u -> %-6u %10s %10s  %-11s  %s  %.*s\n", from, to, rate, rtt,
                      link == NULL ? "unknown" : source_of(link), pccl_address_str(&peer->address), PCCL_NAME_MAX,
                      peer->name);
    }
}

void perf_report_show(FILE *out, const struct pccl_topology_report *report)
{
    if (report->count > PERF_MATRIX_MOST) {
        show_links_of_ring(out, report);
        return;
    }
    show_peers(out, report);
    show_matrix(out, report, "Mbit/s from row to column; * by operations, - unreachable, ? unknown", rate_text);
    show_matrix(out, report, "round trips in ms", rtt_text);
}

static void show_order(FILE *out, const struct pccl_topology_report *report, const char *title, const uint32_t *ring)
{
    int line = fprintf(out, "%s: %u", title, ring[0]);
    for (uint32_t i = 0; i < report->count && report->count > 1; i++) {
        if (line > LINE_BYTES)
            line = fprintf(out, "\n   ");
        line += fprintf(out, " -> %u", next_in(report, ring, i));
    }
    (void)fputc('\n', out);
}

void perf_ring_show(FILE *out, const struct pccl_topology_report *report, const char *title, const uint32_t *ring)
{
    char rate[CELL_BYTES];
    struct perf_ring_worth worth = perf_ring_worth_of(report, ring);
    show_order(out, report, title, ring);
    if (worth.slowest) {
        rate_text(worth.slowest, rate);
        (void)fprintf(out, "  slowest link: %u -> %u, ", worth.slowest->from, worth.slowest->to);
        if (worth.slowest->source == PCCL_FIGURE_UNREACHABLE)
            (void)fputs("unreachable", out);
        else
            (void)fprintf(out, "%.*s Mbit/s", (int)strcspn(rate, " *"), rate);
        (void)fprintf(out, "; round trips: %.3f ms in total\n", (double)worth.latency_us * 1e-3);
    }
    if (worth.unknown > 0)
        (void)fprintf(out, "  unknown links: %u\n", worth.unknown);
}

/* ---- the promise ---- */

static int show_peer(FILE *out, const char *before, uint32_t peer, int line)
{
    if (line > LINE_BYTES)
        line = fprintf(out, "\n     ");
    return line + fprintf(out, "%s%u", before, peer);
}

/* Shows the peers of a tree below each other peer: "0 <- 1 2 4; 4 <- 3 5". */
static void show_tree(FILE *out, const uint8_t *parents, uint32_t count, uint32_t weight)
{
    const double whole = PCCL_TREES_WEIGHT;
    int line = fprintf(out, "  tree for %.1f %%:", weight * 100.0 / whole);
    const char *between = " ";
    for (uint32_t peer = 0; peer < count; peer++) {
        bool is_leaf = true;
        for (uint32_t i = 0; i < count; i++) {
            if (i == peer || parents[i] != peer)
                continue;
            if (is_leaf)
                line = show_peer(out, between, peer, line);
            line = show_peer(out, is_leaf ? " <- " : " ", i, line);
            is_leaf = false;
            between = "; ";
        }
    }
    (void)fputc('\n', out);
}

void perf_promise_show(FILE *out, const struct pccl_topology_report *report)
{
    const struct pccl_topology_promise *promise = &report->promise;
    struct pccl_text limit;
    if (promise->bound.rate == 0)
        return;
    const double most = (double)promise->bound.rate;
    pccl_topology_limit_text(&promise->bound, &limit);
    (void)fprintf(out, "all-reduce: at most %.4g Mbit/s of the tensor, limited by the %s\n", mbit(promise->bound.rate),
                  limit.bytes);
    (void)fprintf(out, "  around the ring: %.4g Mbit/s, %.0f %%\n", mbit(promise->ring),
                  (double)promise->ring / most * 100);
    (void)fprintf(out, "  over trees: %.4g Mbit/s, %.0f %%; operations do not use trees\n", mbit(promise->trees.rate),
                  (double)promise->trees.rate / most * 100);
    for (uint32_t t = 0; t < promise->trees.count; t++)
        show_tree(out, promise->trees.parents[t], report->count, promise->trees.weights[t]);
}

/* ---- JSON ---- */

void perf_promise_json(struct pccl_json *json, const struct pccl_topology_report *report)
{
    const struct pccl_topology_promise *promise = &report->promise;
    struct pccl_text limit;
    if (promise->bound.rate == 0) {
        pccl_json_null(json, "all_reduce");
        return;
    }
    pccl_topology_limit_text(&promise->bound, &limit);
    pccl_json_open(json, "all_reduce", '{');
    perf_json_number(json, "most_mbit", "%.6f", mbit(promise->bound.rate));
    pccl_json_string(json, "limit", limit.bytes);
    perf_json_number(json, "ring_mbit", "%.6f", mbit(promise->ring));
    perf_json_number(json, "trees_mbit", "%.6f", mbit(promise->trees.rate));
    pccl_json_open(json, "trees", '[');
    for (uint32_t t = 0; t < promise->trees.count; t++) {
        pccl_json_begin_line(json);
        pccl_json_open(json, NULL, '{');
        pccl_json_number(json, "weight", promise->trees.weights[t]);
        pccl_json_open(json, "parents", '[');
        for (uint32_t i = 0; i < report->count; i++)
            pccl_json_number(json, NULL, promise->trees.parents[t][i]);
        pccl_json_close(json, ']');
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
    pccl_json_close(json, '}');
}

void perf_report_json_peers(struct pccl_json *json, const struct pccl_topology_report *report)
{
    pccl_json_open(json, "peers", '[');
    for (uint32_t i = 0; i < report->count; i++) {
        const struct pccl_topology_peer *peer = &report->peers[i];
        pccl_json_begin_line(json);
        pccl_json_open(json, NULL, '{');
        pccl_json_number(json, "number", i);
        pccl_json_id(json, "id", &peer->id);
        pccl_json_string(json, "address", pccl_address_str(&peer->address));
        pccl_json_bytes(json, "name", peer->name, pccl_string_length(peer->name, PCCL_NAME_MAX));
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

void perf_report_json_links(struct pccl_json *json, const struct pccl_topology_report *report)
{
    pccl_json_open(json, "ways", '[');
    for (uint32_t i = 0; i < report->link_count; i++) {
        const struct pccl_topology_link *link = &report->links[i];
        pccl_json_begin_line(json);
        pccl_json_open(json, NULL, '{');
        pccl_json_number(json, "from", link->from);
        pccl_json_number(json, "to", link->to);
        perf_json_number(json, "rate_mbit", "%.6f", mbit(link->rate));
        pccl_json_number(json, "rtt_us", link->rtt_us);
        pccl_json_number(json, "age_ms", link->age_ms);
        pccl_json_string(json, "source", source_of(link));
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

void perf_ring_json(struct pccl_json *json, const struct pccl_topology_report *report, const uint32_t *ring)
{
    struct perf_ring_worth worth = perf_ring_worth_of(report, ring);
    pccl_json_open(json, "ring", '[');
    for (uint32_t i = 0; i < report->count; i++)
        pccl_json_number(json, NULL, ring[i]);
    pccl_json_close(json, ']');
    if (worth.slowest && worth.unknown == 0)
        perf_json_number(json, "slowest_mbit", "%.6f", mbit(worth.slowest->rate));
    else
        pccl_json_null(json, "slowest_mbit");
    pccl_json_number(json, "latency_us", worth.latency_us);
    pccl_json_number(json, "unknown_ways", worth.unknown);
}
