#include "ops/metrics.h"

#include "wire/describe.h"

/* Each row of the table has a function, which writes its series after HELP and TYPE. */
#define PCCL_METRIC_DECLARE(name, type, labels, help)                                                                  \
    static void write_##name(const struct pccl_figures *f, const char *metric, struct pccl_print *print);
PCCL_METRICS(PCCL_METRIC_DECLARE)

struct metric {
    const char *name, *type, *help;
    void (*write)(const struct pccl_figures *figures, const char *metric, struct pccl_print *print);
};

#define PCCL_METRIC_ROW(name, type, labels, help) {"pccl_" #name, #type, help, write_##name},
static const struct metric metrics[] = {PCCL_METRICS(PCCL_METRIC_ROW)};

/* ---- series ---- */

static void write_value(struct pccl_print *print, const char *metric, uint64_t value)
{
    pccl_print_format(print, "%s %" PRIu64, metric, value);
    pccl_print_add(print, "\n");
}

static void write_seconds(struct pccl_print *print, const char *metric, uint64_t microseconds)
{
    pccl_print_format(print, "%s ", metric);
    pccl_print_add_seconds(print, microseconds);
    pccl_print_add(print, "\n");
}

static void write_labeled(struct pccl_print *print, const char *metric, const char *label, const char *text,
                          uint64_t value)
{
    pccl_print_format(print, "%s{%s=", metric, label);
    pccl_print_add_quoted(print, text);
    pccl_print_format(print, "} %" PRIu64, value);
    pccl_print_add(print, "\n");
}

/* Returns the name of a reason in lower case, for example "not_warm" for REFUSAL_NOT_WARM. */
static const char *reason_name(uint32_t reason, struct pccl_text *text)
{
#define PCCL_REASON_NAME(name, value, words) [value] = #name,
    static const char *const names[PCCL_TALLY_REASONS] = {PCCL_ENUM_refusal(PCCL_REASON_NAME)};
    pccl_text_clear(text);
    for (const char *at = names[reason] + sizeof "REFUSAL_" - 1; *at != '\0'; at++) {
        char lower = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        pccl_text_add_bytes(text, &lower, 1);
    }
    return text->bytes;
}

static void write_kinds(struct pccl_print *print, const char *metric, const uint64_t *counts)
{
    for (uint32_t kind = 0; kind < PCCL_TALLY_KINDS; kind++)
        write_labeled(print, metric, "kind", kind < PCCL_COLLECTIVES ? pccl_collective_name((uint8_t)kind) : "unknown",
                      counts[kind]);
}

static void write_verdicts_of(struct pccl_print *print, const char *metric, const uint64_t *counts)
{
    for (uint8_t class = PCCL_VERDICT_NOT_ENTERED; class < PCCL_VERDICT_CLASSES; class ++)
        write_labeled(print, metric, "class", pccl_verdict_name(class), counts[class]);
}

/* ---- the rows ---- */

static void write_build_info(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    pccl_print_format(print, "%s{version=\"%s\",protocol=\"%u\"} 1", metric, f->driver.version, PCCL_PROTOCOL_VERSION);
    pccl_print_add(print, "\n");
}

static void write_peers_gone_total(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    for (uint32_t reason = 1; reason < PCCL_TALLY_REASONS; reason++) {
        struct pccl_text name;
        (void)reason_name(reason, &name);
        pccl_print_format(print, "%s{role=\"member\",reason=\"%s\"} %" PRIu64, metric, name.bytes,
                          f->tally.members_removed[reason]);
        pccl_print_add(print, "\n");
        pccl_print_format(print, "%s{role=\"newcomer\",reason=\"%s\"} %" PRIu64, metric, name.bytes,
                          f->tally.newcomers_removed[reason]);
        pccl_print_add(print, "\n");
    }
}

static void write_connections_refused_total(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    for (uint32_t reason = 1; reason < PCCL_TALLY_REASONS; reason++)
        write_labeled(print, metric, "reason", reason_name(reason, &(struct pccl_text){.length = 0}),
                      f->tally.refused[reason]);
}

static void write_operation_seconds(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= PCCL_TALLY_LATENCIES; i++) {
        count += f->tally.latency[i];
        pccl_print_format(print, "%s_bucket{le=\"", metric);
        if (i < PCCL_TALLY_LATENCIES)
            pccl_print_add_seconds(print, pccl_tally_latencies_us[i]);
        else
            pccl_print_add(print, "+Inf");
        pccl_print_format(print, "\"} %" PRIu64, count);
        pccl_print_add(print, "\n");
    }
    pccl_print_format(print, "%s_sum ", metric);
    pccl_print_add_seconds(print, f->tally.latency_us);
    pccl_print_add(print, "\n");
    pccl_print_format(print, "%s_count %" PRIu64, metric, count);
    pccl_print_add(print, "\n");
}

static void write_rounds_total(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    static const char *const kinds[PCCL_ROUND_KINDS] = {[PCCL_ROUND_UPDATE] = "update",
                                                        [PCCL_ROUND_PENDING] = "pending",
                                                        [PCCL_ROUND_SYNC] = "sync",
                                                        [PCCL_ROUND_OPTIMIZE] = "optimize"};
    for (uint32_t kind = 0; kind < PCCL_ROUND_KINDS; kind++) {
        pccl_print_format(print, "%s{kind=\"%s\",outcome=\"done\"} %" PRIu64, metric, kinds[kind],
                          f->tally.rounds_done[kind]);
        pccl_print_add(print, "\n");
        pccl_print_format(print, "%s{kind=\"%s\",outcome=\"failed\"} %" PRIu64, metric, kinds[kind],
                          f->tally.rounds_failed[kind]);
        pccl_print_add(print, "\n");
    }
}

static void write_sync_fetches_total(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    write_labeled(print, metric, "outcome", "done", f->tally.fetches);
    write_labeled(print, metric, "outcome", "failed", f->tally.fetches_failed);
}

static void write_member_seconds_total(const struct pccl_figures *f, const char *metric, struct pccl_print *print)
{
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++) {
        pccl_print_format(print, "%s{use=\"%s\"} ", metric, pccl_tally_time_uses[use]);
        pccl_print_add_seconds(print, f->tally.time_us[use]);
        pccl_print_add(print, "\n");
    }
}

#define PCCL_METRIC_VALUE(name, write, value)                                                                          \
    static void write_##name(const struct pccl_figures *f, const char *metric, struct pccl_print *print)               \
    {                                                                                                                  \
        write(print, metric, value);                                                                                   \
    }
PCCL_METRIC_VALUE(uptime_seconds, write_seconds, f->uptime_us)
PCCL_METRIC_VALUE(run_open, write_value, f->counts.members > 0)
PCCL_METRIC_VALUE(recovering, write_value, f->recovering)
PCCL_METRIC_VALUE(members, write_value, f->counts.members)
PCCL_METRIC_VALUE(newcomers, write_value, f->counts.pending)
PCCL_METRIC_VALUE(groups, write_value, f->counts.groups)
PCCL_METRIC_VALUE(update_votes, write_value, f->update_votes)
PCCL_METRIC_VALUE(newcomers_total, write_value, f->tally.newcomers)
PCCL_METRIC_VALUE(peers_joined_total, write_value, f->tally.joined)
PCCL_METRIC_VALUE(connections, write_value, f->driver.connections)
PCCL_METRIC_VALUE(connections_total, write_value, f->driver.accepted)
PCCL_METRIC_VALUE(connections_turned_away_total, write_value, f->driver.turned_away)
PCCL_METRIC_VALUE(operations_begun_total, write_kinds, f->tally.begun)
PCCL_METRIC_VALUE(operations_committed_total, write_kinds, f->tally.committed)
PCCL_METRIC_VALUE(operations_aborted_total, write_kinds, f->tally.aborted)
PCCL_METRIC_VALUE(operation_bytes_total, write_kinds, f->tally.bytes)
PCCL_METRIC_VALUE(verdicts, write_verdicts_of, f->verdict_counts)
PCCL_METRIC_VALUE(verdicts_total, write_verdicts_of, f->tally.verdicts)
PCCL_METRIC_VALUE(views_total, write_value, f->tally.views)
PCCL_METRIC_VALUE(http_requests_total, write_value, f->driver.requests)
PCCL_METRIC_VALUE(http_refused_total, write_value, f->driver.requests_refused)
PCCL_METRIC_VALUE(http_dropped_total, write_value, f->driver.visitors_dropped)
PCCL_METRIC_VALUE(loop_busy_seconds_total, write_seconds, f->driver.busy_us)
PCCL_METRIC_VALUE(loop_lag_seconds, write_seconds, f->driver.longest_us)

void pccl_metrics_write(const struct pccl_figures *figures, struct pccl_print *print)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(metrics); i++) {
        pccl_print_format(print, "# HELP %s %s", metrics[i].name, metrics[i].help);
        pccl_print_add(print, "\n");
        pccl_print_format(print, "# TYPE %s %s", metrics[i].name, metrics[i].type);
        pccl_print_add(print, "\n");
        metrics[i].write(figures, metrics[i].name, print);
    }
}
