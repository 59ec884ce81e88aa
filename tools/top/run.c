#include "top/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID_SHOWN = 8, GONE_SHOWN = 2, CALLS_SHOWN = 4, VERDICTS_SHOWN = 4, NAME_BYTES = 128 };

/* ---- reading ---- */

static void set_state(struct run_row *row)
{
    static const struct {
        const char *name;
        enum style style;
    } states[] = {{"DISCONNECTED", STYLE_BAD}, {"SILENT", STYLE_BAD},    {"leaving", STYLE_CARE},
                  {"returning", STYLE_CARE},   {"newcomer", STYLE_CARE}, {"draining", STYLE_CARE},
                  {"waits", STYLE_PLAIN},      {"works", STYLE_GOOD}};
    const struct json_value *peer = row->peer, *in = json_get(peer, "in");
    row->state = json_string(peer, "state");
    if (!json_is(peer, "connected"))
        row->state = "DISCONNECTED";
    else if (json_is(peer, "silent"))
        row->state = "SILENT";
    else if (strcmp(row->state, "member") == 0)
        row->state = json_is(peer, "draining") ? "draining" : in != NULL && in->type != JSON_NULL ? "waits" : "works";
    row->style = STYLE_CARE;
    for (uint32_t i = 0; i < PCCL_COUNT_OF(states); i++)
        if (strcmp(row->state, states[i].name) == 0) {
            row->order = i + 1; /* 0: a state that this version does not know */
            row->style = states[i].style;
        }
}

static int compare_numbers(double a, double b) { return (a > b) - (a < b); }

int run_compare(const void *a, const void *b)
{
    const struct run_row *row = a, *other = b;
    if (row->order != other->order)
        return row->order < other->order ? -1 : 1;
    int order = compare_numbers(json_number(row->peer, "group"), json_number(other->peer, "group"));
    if (order == 0)
        order = compare_numbers(json_number(row->peer, "rank"), json_number(other->peer, "rank"));
    return order != 0 ? order : strcmp(json_string(row->peer, "id"), json_string(other->peer, "id"));
}

bool run_read(struct run *run, const char *text)
{
    const struct json_value *status = json_read(text, NULL), *peers = json_get(status, "peers");
    uint32_t count = 0;
    struct run_row *rows = calloc(json_count(peers) + 1, sizeof *rows);
    if (rows == NULL || peers == NULL || strcmp(json_string(status, "program"), "pccl-master") != 0) {
        free(rows);
        json_free(status);
        return false;
    }
    for (const struct json_value *peer = json_first(peers); peer != NULL; peer = json_next(peers, peer)) {
        rows[count].peer = peer;
        set_state(&rows[count++]);
    }
    qsort(rows, count, sizeof *rows, run_compare);
    run_free(run);
    *run = (struct run){.status = status, .rows = rows, .count = count};
    return true;
}

void run_free(struct run *run)
{
    json_free(run->status);
    free(run->rows);
}

/* ---- values as text ---- */

void run_rate_text(double rate, char *text, size_t size)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    size_t unit = 0;
    for (; rate >= 1000 && unit + 1 < PCCL_COUNT_OF(units); unit++)
        rate /= 1000;
    (void)snprintf(text, size, "%.*f %s", rate >= 100 || unit == 0 ? 0 : 1, rate, units[unit]);
}

void run_time_text(double ms, char *text, size_t size)
{
    if (ms < 1000)
        (void)snprintf(text, size, "%.0f ms", ms);
    else if (ms < 120e3)
        (void)snprintf(text, size, "%.1f s", ms / 1e3);
    else if (ms < 7200e3)
        (void)snprintf(text, size, "%.0f min", ms / 60e3);
    else
        (void)snprintf(text, size, "%.1f h", ms / 3600e3);
}

void run_name_text(const struct json_value *peer, char *text, size_t size)
{
    const char *name = json_string(peer, "name"), *id = json_string(peer, "id");
    (void)snprintf(text, size, "%s%s%.*s", name, name[0] != '\0' ? " " : "", (int)ID_SHOWN, id);
}

void run_name_of(const struct run *run, const char *id, char *text, size_t size)
{
    for (uint32_t i = 0; i < run->count; i++)
        if (strcmp(json_string(run->rows[i].peer, "id"), id) == 0) {
            run_name_text(run->rows[i].peer, text, size);
            return;
        }
    (void)snprintf(text, size, "%.*s", (int)ID_SHOWN, id);
}

/* ---- drawing ---- */

static void draw_totals(const struct json_value *status, struct canvas *canvas)
{
    char up[32];
    run_time_text(json_number(status, "uptime_ms"), up, sizeof up);
    canvas_format(canvas, "pccl-master %s, up %s: ", json_string(status, "version"), up);
    const char *run = json_string(status, "run");
    if (run[0] != '\0')
        canvas_format(canvas, "run %.*s, epoch %s", (int)ID_SHOWN, run, json_string(status, "epoch"));
    else
        canvas_put(canvas, "no run");
    canvas_style(canvas, STYLE_CARE);
    canvas_put(canvas, json_is(status, "recovering") ? ", RECOVERING" : "");
    canvas_put(canvas, json_is(status, "optimizing") ? ", optimizing" : "");
    canvas_end_line(canvas);
    canvas_format(canvas, "%.0f members, %.0f newcomers; operations: %.0f running, %.0f committed, %.0f aborted",
                  json_number(status, "members"), json_number(status, "newcomers"),
                  json_number(status, "operations_under_way"), json_number(status, "operations_committed"),
                  json_number(status, "operations_aborted"));
    canvas_end_line(canvas);
}

static void draw_more(struct canvas *canvas, uint32_t count, uint32_t shown, const char *what)
{
    if (count <= shown)
        return;
    canvas_format(canvas, "  and %u more %s", count - shown, what);
    canvas_end_line(canvas);
}

static void draw_verdict(const struct run *run, const struct json_value *verdict, struct canvas *canvas)
{
    char peer[NAME_BYTES], other[NAME_BYTES], text[2048];
    bool finding = json_is(verdict, "finding");
    const char *to = json_string(verdict, "other");
    run_name_of(run, json_string(verdict, "peer"), peer, sizeof peer);
    run_name_of(run, to, other, sizeof other);
    canvas_style(canvas, finding ? STYLE_CARE : STYLE_BAD);
    (void)snprintf(text, sizeof text, "%s %s: %s%s%s: %s: %s", finding ? "FROM THE START" : "VERDICT",
                   json_string(verdict, "class"), peer, to[0] != '\0' ? " -> " : "", other,
                   json_string(verdict, "evidence"), json_string(verdict, "action"));
    canvas_put_lines(canvas, text);
}

static void draw_verdicts(const struct run *run, struct canvas *canvas)
{
    const struct json_value *verdicts = json_get(run->status, "verdicts");
    uint32_t count = json_count(verdicts), shown = 0, most = canvas->rows == CANVAS_ALL ? count : VERDICTS_SHOWN;
    for (const struct json_value *verdict = json_first(verdicts); verdict != NULL && shown < most;
         verdict = json_next(verdicts, verdict), shown++)
        draw_verdict(run, verdict, canvas);
    draw_more(canvas, count, shown, "verdicts");
}

/* Draws the peers that were removed last. */
static void draw_gone(const struct json_value *gone, struct canvas *canvas)
{
    int shown = 0;
    for (const struct json_value *peer = json_first(gone); peer != NULL && shown < GONE_SHOWN;
         peer = json_next(gone, peer), shown++) {
        char name[NAME_BYTES], since[32];
        run_name_text(peer, name, sizeof name);
        run_time_text(json_number(peer, "since_ms"), since, sizeof since);
        canvas_format(canvas, "removed %s ago: %s: %s", since, name, json_string(peer, "reason"));
        canvas_end_line(canvas);
    }
}

/* Draws the loss of the latest step for which one is known. */
static void draw_step(const struct json_value *steps, struct canvas *canvas)
{
    const struct json_value *last = NULL;
    for (const struct json_value *step = json_first(steps); step != NULL; step = json_next(steps, step)) {
        const struct json_value *loss = json_get(step, "loss");
        if (json_get(step, "step") != NULL && loss != NULL && loss->type == JSON_NUMBER &&
            (last == NULL || json_number(step, "step") >= json_number(last, "step")))
            last = step;
    }
    if (last == NULL)
        return;
    canvas_format(canvas, "step %s: loss %.5g, reported by %.0f", json_get(last, "step")->text,
                  json_number(last, "loss"), json_number(last, "count"));
    canvas_end_line(canvas);
}

/* Draws bars for the latest ten minutes, as many as there is room for, with a text beside them. */
static void draw_bars(const struct json_value *list, const char *name, const char *text, struct canvas *canvas)
{
    enum { SPANS_MAX = 60 };
    double values[SPANS_MAX];
    int count = 0, left_out, room = SPANS_MAX;
    if (canvas->columns > 0 && canvas->columns - 12 - canvas_width(canvas, text) < room)
        room = canvas->columns - 12 - canvas_width(canvas, text);
    left_out = (int)json_count(list) - (room > 0 ? room : 0);
    for (const struct json_value *value = json_first(list); value != NULL; value = json_next(list, value))
        if (left_out-- <= 0 && count < SPANS_MAX)
            values[count++] = value->number;
    canvas_put_left(canvas, name, 8);
    canvas_put(canvas, "|");
    canvas_put_bars(canvas, values, count);
    canvas_format(canvas, "| %s", text);
    canvas_end_line(canvas);
}

static double last_two(const struct json_value *list)
{
    double last = 0, before = 0;
    for (const struct json_value *value = json_first(list); value != NULL; value = json_next(list, value)) {
        before = last;
        last = value->number;
    }
    return before + last;
}

static void draw_spans(const struct json_value *spans, struct canvas *canvas)
{
    const struct json_value *bytes = json_get(spans, "bytes"), *aborted = json_get(spans, "aborted");
    double seconds = (json_number(spans, "ms") + json_number(spans, "newest_ms")) / 1e3;
    char rate[32];
    run_rate_text(seconds > 0 ? last_two(bytes) / seconds : 0, rate, sizeof rate);
    draw_bars(bytes, "reduced", rate, canvas);
    for (const struct json_value *value = json_first(aborted); value != NULL; value = json_next(aborted, value))
        if (value->number > 0) {
            draw_bars(aborted, "aborted", "", canvas);
            return;
        }
}

/* Draws the shares of the members' time in the last minutes. */
static void draw_time(const struct run *run, const struct json_value *time, struct canvas *canvas)
{
    static const char *const uses[] = {"computing", "waiting", "moving", "lost", "joint"};
    const struct json_value *recent = json_get(time, "recent_ms"), *late = json_first(json_get(time, "waited_for"));
    double all = 0;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        all += json_number(recent, uses[i]);
    if (all <= 0)
        return;
    canvas_put(canvas, "time:");
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char name[NAME_BYTES];
        canvas_format(canvas, "%s %.0f %% %s", i > 0 ? "," : "", json_number(recent, uses[i]) * 100 / all, uses[i]);
        if (i != 1 || late == NULL)
            continue;
        run_name_of(run, json_string(late, "peer"), name, sizeof name);
        canvas_format(canvas, " (most for %s)", name);
    }
    canvas_end_line(canvas);
}

static void draw_missing(const struct run *run, const struct json_value *call, struct canvas *canvas)
{
    const struct json_value *missing = json_get(call, "missing");
    const char *separator = "; waiting for ";
    for (const struct json_value *place = json_first(missing); place != NULL; place = json_next(missing, place)) {
        char name[NAME_BYTES];
        run_name_of(run, json_string(place, "peer"), name, sizeof name);
        canvas_format(canvas, "%s%s", separator, name);
        separator = ", ";
    }
    double more = json_number(call, "missing_count") - json_count(missing);
    if (more > 0)
        canvas_format(canvas, " and %.0f more", more);
}

static void draw_call(const struct run *run, const struct json_value *call, struct canvas *canvas)
{
    char since[32];
    const char *kind = json_string(call, "call");
    run_time_text(json_number(call, "since_ms"), since, sizeof since);
    if (strcmp(kind, "operation") == 0)
        canvas_format(canvas, "  %s tag %s", json_string(call, "kind"), json_string(call, "tag"));
    else
        canvas_format(canvas, "  %s %.0f", kind, json_number(call, "round"));
    canvas_format(canvas, ", %s: %.0f of %.0f", since, json_number(call, "come_count"), json_number(call, "world"));
    draw_missing(run, call, canvas);
    canvas_end_line(canvas);
}

static void draw_calls(const struct run *run, struct canvas *canvas)
{
    const struct json_value *calls = json_get(run->status, "calls");
    uint32_t count = json_count(calls), shown = 0, most = canvas->rows == CANVAS_ALL ? count : CALLS_SHOWN;
    canvas_format(canvas, "pending calls: %u%s", count, json_is(run->status, "more_calls") ? " and more" : "");
    canvas_end_line(canvas);
    for (const struct json_value *call = json_first(calls); call != NULL && shown < most;
         call = json_next(calls, call), shown++)
        draw_call(run, call, canvas);
    draw_more(canvas, count, shown, "calls");
}

void run_draw(const struct run *run, struct canvas *canvas)
{
    draw_totals(run->status, canvas);
    draw_verdicts(run, canvas);
    draw_gone(json_get(run->status, "gone"), canvas);
    draw_step(json_get(run->status, "steps"), canvas);
    draw_time(run, json_get(run->status, "time"), canvas);
    draw_spans(json_get(run->status, "spans"), canvas);
    draw_calls(run, canvas);
}
