#include "gate.h"

#include "report.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, TEXT_MAX = 128 };

struct goal {
    char name[TEXT_MAX], of[TEXT_MAX], metric[TEXT_MAX], datatype[TEXT_MAX], operation[TEXT_MAX], codec[TEXT_MAX];
    double peers, bytes, concurrent, in_place, at_least, at_most; /* NAN: not given */
};

struct reader {
    const char *at;
    const char *error;
};

/* ---- the subset of JSON that goals need ---- */

static char peek(struct reader *reader)
{
    while (isspace((unsigned char)*reader->at))
        reader->at++;
    return *reader->at;
}

static bool take(struct reader *reader, char wanted)
{
    if (peek(reader) != wanted)
        return false;
    reader->at++;
    return true;
}

static bool fail(struct reader *reader, const char *words)
{
    if (!reader->error)
        reader->error = words;
    return false;
}

static bool read_text(struct reader *reader, char *text)
{
    if (!take(reader, '"'))
        return fail(reader, "expected a quoted text");
    size_t length = strcspn(reader->at, "\"\\\n");
    if (reader->at[length] != '"' || length >= TEXT_MAX)
        return fail(reader, "the text is too long, has an escape, or has no closing quote");
    memcpy(text, reader->at, length);
    text[length] = 0;
    reader->at += length + 1;
    return true;
}

static bool read_value(struct reader *reader, double *number)
{
    static const char *const words[] = {"false", "true"};
    char first = peek(reader);
    for (int i = 0; i < 2; i++) {
        if (first == *words[i] && strncmp(reader->at, words[i], strlen(words[i])) == 0) {
            reader->at += strlen(words[i]);
            *number = i;
            return true;
        }
    }
    char *end;
    *number = strtod(reader->at, &end);
    if (end == reader->at)
        return fail(reader, "expected a number, true or false");
    reader->at = end;
    return true;
}

static bool read_member(struct reader *reader, struct goal *goal)
{
    const struct {
        const char *name;
        char *text;
        double *number;
    } members[] = {
        {"name", goal->name, NULL},
        {"of", goal->of, NULL},
        {"metric", goal->metric, NULL},
        {"datatype", goal->datatype, NULL},
        {"operation", goal->operation, NULL},
        {"codec", goal->codec, NULL},
        {"peers", NULL, &goal->peers},
        {"bytes", NULL, &goal->bytes},
        {"concurrent", NULL, &goal->concurrent},
        {"in_place", NULL, &goal->in_place},
        {"at_least", NULL, &goal->at_least},
        {"at_most", NULL, &goal->at_most},
    };
    char name[TEXT_MAX];
    if (!read_text(reader, name) || !take(reader, ':'))
        return fail(reader, "expected a member");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (strcmp(name, members[i].name) == 0)
            return members[i].text ? read_text(reader, members[i].text) : read_value(reader, members[i].number);
    return fail(reader, "unknown member");
}

/* Returns true if the metric exists. Detects misspelled names before the comparison. */
static bool is_metric(const char *of, const char *metric)
{
    static const char *const operation[] = {
        "us",           "p50_us",         "p99_us",       "max_us",         "algbw", "busbw", "cpu_us", "master_cpu_us",
        "cpu_s_per_gb", "share_of_limit", "memory_bytes", "share_of_exact", NULL};
    static const char *const equal[] = {"us", "digest_us", "ratio", NULL};
    static const char *const newcomer[] = {"us", "gbps", "limit_us", "share_of_limit", NULL};
    static const char *const part[] = {"us", "share", NULL};
    static const char *const topology[] = {"optimize_s", "cpu_s",    "cpu_mean_s", "master_cpu_s",
                                           "before_us",  "after_us", "gain",       NULL};
    static const char *const chaos[] = {
        "undisturbed_median_ms", "undisturbed_p99_ms", "undisturbed_max_ms", "to_error_median_ms", "to_error_p99_ms",
        "to_error_max_ms",       "to_good_median_ms",  "to_good_p99_ms",     "to_good_max_ms",     NULL};
    static const struct {
        const char *of;
        const char *const *metrics;
    } kinds[] = {{"all_reduce", operation},   {"broadcast", operation},      {"all_gather", operation},
                 {"all_gather_v", operation}, {"reduce_scatter", operation}, {"reduce", operation},
                 {"gather", operation},       {"scatter", operation},        {"all_to_all", operation},
                 {"gather_v", operation},     {"scatter_v", operation},      {"all_to_all_v", operation},
                 {"send", operation},         {"exclusive_scan", operation}, {"inclusive_scan", operation},
                 {"barrier", operation},      {"state_equal", equal},        {"state_newcomer", newcomer},
                 {"state_part", part},        {"chaos_kill", chaos},         {"chaos_stop", chaos},
                 {"topology", topology}};
    if (strncmp(of, "wan ", strlen("wan ")) == 0) /* over a long path, so bench/compare.py judges it */
        return strcmp(metric, "share_of_ring") == 0 || strcmp(metric, "share_of_exact") == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (const char *const *at = kinds[i].metrics; strcmp(of, kinds[i].of) == 0 && *at; at++)
            if (strcmp(metric, *at) == 0)
                return true;
    return false;
}

static double figure_of(const struct perf_judged *row, const char *metric)
{
    for (size_t i = 0; i < PERF_FIGURES_MAX && row->figures[i].name; i++)
        if (strcmp(metric, row->figures[i].name) == 0)
            return row->figures[i].value;
    return (double)NAN;
}

/* Returns true for NAN. Does not use isnan, which clang treats as a function of float. */
static bool missing(double value) { return value != value; }

static bool read_goal(struct reader *reader, struct goal *goal)
{
    *goal = (struct goal){.of = "all_reduce",
                          .datatype = "f32",
                          .operation = "sum",
                          .codec = "-",
                          .peers = (double)NAN,
                          .bytes = (double)NAN,
                          .concurrent = 1,
                          .in_place = 0,
                          .at_least = (double)NAN,
                          .at_most = (double)NAN};
    if (!take(reader, '{'))
        return fail(reader, "expected an object");
    do {
        if (!read_member(reader, goal))
            return false;
    } while (take(reader, ','));
    if (!take(reader, '}'))
        return fail(reader, "expected }");
    /* Beginnings of the other goals, which bench/figures.py checks. */
    static const char *const others[] = {"test ", "torch_steps ", "arrivals", "pairs "};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strncmp(goal->of, others[i], strlen(others[i])) == 0)
            return true;
    if (missing(goal->bytes) && strcmp(goal->of, "topology") == 0)
        goal->bytes = 0; /* the goal applies to all sizes */
    if (missing(goal->at_least) == missing(goal->at_most) || missing(goal->bytes) || missing(goal->peers))
        return fail(reader, "a goal needs peers, bytes and either at_least or at_most");
    return is_metric(goal->of, goal->metric) || fail(reader, "unknown metric");
}

/* ---- comparing ---- */

static bool applies(const struct goal *goal, const struct perf_options *options)
{
    return goal->peers == options->peers && goal->concurrent == options->concurrent &&
           strcmp(goal->datatype, perf_datatype_name(options->datatype)) == 0 &&
           strcmp(goal->operation, perf_operation_name(options->operation)) == 0 &&
           strcmp(goal->codec, options->codec_text) == 0;
}

enum verdict { MET, MISSED, PASSED_OVER };

static void print_verdict(FILE *out, const struct goal *goal, double value, bool met)
{
    bool least = !missing(goal->at_least);
    (void)fprintf(out, "%s  %s: %s ", met ? "met   " : "MISSED", goal->name, goal->metric);
    if (missing(value))
        (void)fprintf(out, "not measured");
    else
        (void)fprintf(out, "%.4g", value);
    (void)fprintf(out, ", goal %s %.4g\n", least ? ">=" : "<=", least ? goal->at_least : goal->at_most);
}

static enum verdict judge(FILE *out, const struct goal *goal, const struct perf_judged *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((double)rows[i].bytes != goal->bytes || (double)rows[i].in_place != goal->in_place ||
            strcmp(rows[i].of, goal->of) != 0)
            continue;
        double value = figure_of(&rows[i], goal->metric);
        bool met = !missing(value) && (missing(goal->at_least) || value >= goal->at_least) &&
                   (missing(goal->at_most) || value <= goal->at_most);
        print_verdict(out, goal, value, met);
        return met ? MET : MISSED;
    }
    return PASSED_OVER;
}

static bool judge_all(struct reader *reader, const struct perf_options *options, const struct perf_judged *rows,
                      size_t count)
{
    uint32_t counts[PASSED_OVER + 1] = {0};
    FILE *out = perf_table(options);
    struct goal goal;
    if (!take(reader, '['))
        return fail(reader, "expected an array of goals");
    do {
        if (!read_goal(reader, &goal))
            return false;
        counts[applies(&goal, options) ? judge(out, &goal, rows, count) : PASSED_OVER]++;
    } while (take(reader, ','));
    if (!take(reader, ']') || peek(reader) != 0)
        return fail(reader, "expected ] and the end");
    (void)fprintf(out, "goals: %u met, %u missed, %u not applicable\n", counts[MET], counts[MISSED],
                  counts[PASSED_OVER]);
    if (counts[MET] + counts[MISSED] == 0)
        (void)fprintf(stderr, "pccl-perf: no goal applies to these measurements\n");
    return counts[MISSED] == 0 && counts[MET] > 0;
}

bool perf_gate(const struct perf_options *options, const struct perf_judged *rows, size_t count)
{
    FILE *file = fopen(options->gate, "r");
    char *text = calloc(1, FILE_BYTES_MAX + 1);
    bool good = file && text;
    if (!file)
        perror(options->gate);
    if (good) {
        size_t length = fread(text, 1, FILE_BYTES_MAX, file);
        text[length] = 0;
        struct reader reader = {.at = text};
        good = judge_all(&reader, options, rows, count);
        if (reader.error)
            (void)fprintf(stderr, "pccl-perf: %s: %s, at byte %zu\n", options->gate, reader.error,
                          (size_t)(reader.at - text));
    }
    if (file)
        (void)fclose(file);
    free(text);
    return good;
}
