#include "ops/alerts.h"
#include "ops/events.h"
#include "ops/json.h"
#include "os/shell.h"
#include "os/terminal.h"

#include "net/clock.h"
#include "net/heap.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOK_MS = 500, /* also the minimum time between two commands */
    VARIABLES = 7, /* number of variables for the command */
    VARIABLE_BYTES = 4096,
};

static bool is_wanted(enum pccl_log_event kind)
{
    return kind == PCCL_EVENT_VERDICT_BEGAN || kind == PCCL_EVENT_VERDICT_ENDED || kind == PCCL_EVENT_STALLED ||
           kind == PCCL_EVENT_CONTINUED || kind == PCCL_EVENT_MASTER_STARTED;
}

/* ---- the command ---- */

PCCL_PRINTF(4, 5)
static void log_line(struct pccl_alerts *alerts, enum pccl_log_level level, enum pccl_log_event event,
                     const char *format, ...)
{
    struct pccl_text line;
    va_list arguments;
    pccl_text_clear(&line);
    va_start(arguments, format);
    pccl_text_append_list(&line, format, arguments);
    va_end(arguments);
    alerts->log(alerts->context, level, line.bytes, &(struct pccl_log_fields){.event = event});
}

static void put_id(char *to, size_t room, const struct pccl_id *id)
{
    struct pccl_print print;
    pccl_print_into(&print, to, room);
    if (!pccl_id_is_zero(id))
        pccl_print_add_id(&print, id);
}

static void put_json(const struct pccl_alert *alert, const char *run, const char *peer, char *to, size_t room)
{
    struct pccl_print print;
    struct pccl_json json = {.print = &print};
    pccl_print_into(&print, to, room);
    pccl_json_open(&json, NULL, '{');
    pccl_json_string(&json, "event", pccl_event_word(alert->kind));
    pccl_json_number(&json, "ms", alert->ms);
    pccl_json_string(&json, "run", run);
    pccl_json_string(&json, "peer", peer);
    pccl_json_string(&json, "name", alert->name);
    pccl_json_bytes(&json, "text", alert->text.bytes, alert->text.length);
    pccl_json_number(&json, "dropped", alert->dropped);
    pccl_json_close(&json, '}');
}

/* Describes the alert in variables of the environment, which, unlike arguments, no shell interprets. */
static void describe(const struct pccl_alert *alert, char variables[VARIABLES][VARIABLE_BYTES])
{
    static const char *const names[VARIABLES] = {
        "PCCL_ALERT_EVENT=", "PCCL_ALERT_TEXT=",    "PCCL_ALERT_PEER=", "PCCL_ALERT_NAME=",
        "PCCL_ALERT_RUN=",   "PCCL_ALERT_DROPPED=", "PCCL_ALERT_JSON="};
    char *values[VARIABLES];
    size_t rooms[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        (void)snprintf(variables[i], VARIABLE_BYTES, "%s", names[i]);
        values[i] = variables[i] + strlen(names[i]);
        rooms[i] = VARIABLE_BYTES - strlen(names[i]);
    }
    (void)snprintf(values[0], rooms[0], "%s", pccl_event_word(alert->kind));
    (void)snprintf(values[1], rooms[1], "%s", alert->text.bytes);
    put_id(values[2], rooms[2], &alert->peer);
    (void)snprintf(values[3], rooms[3], "%s", alert->name);
    put_id(values[4], rooms[4], &alert->run);
    (void)snprintf(values[5], rooms[5], "%" PRIu64, alert->dropped);
    put_json(alert, values[4], values[2], values[6], rooms[6]);
}

static void on_closed(uv_handle_t *handle)
{
    struct pccl_alerts *alerts = handle->data;
    alerts->holds_process = false;
}

static void on_exit(uv_process_t *process, int64_t status, int by_signal)
{
    struct pccl_alerts *alerts = process->data;
    alerts->runs = false;
    uv_close((uv_handle_t *)process, on_closed);
    bool good = status == 0 && by_signal == 0;
    if (alerts->late)
        log_line(alerts, PCCL_LOG_ERROR, PCCL_EVENT_NONE, "the alert command was ended: it ran for more than %u s",
                 alerts->limit_s);
    else if (by_signal != 0)
        log_line(alerts, PCCL_LOG_ERROR, PCCL_EVENT_NONE, "the alert command was ended by signal %u",
                 (unsigned)by_signal);
    else if (!good)
        log_line(alerts, PCCL_LOG_ERROR, PCCL_EVENT_NONE, "the alert command failed with status %u", (unsigned)status);
}

/* An environment for the command: the items, of which the last is NULL, and their texts in the same block. */
struct environment {
    size_t bytes; /* of the block */
    char variables[VARIABLES][VARIABLE_BYTES];
    char *items[];
};

/* Returns the environment of this process with the alert, which the caller frees; NULL if out of memory. */
static struct environment *make_environment(const struct pccl_alert *alert)
{
    uv_env_item_t *own = NULL;
    int own_count = 0;
    if (uv_os_environ(&own, &own_count) != 0)
        return NULL;
    size_t count = (size_t)own_count + VARIABLES + 1, bytes = sizeof(struct environment) + count * sizeof(char *);
    for (int i = 0; i < own_count; i++)
        bytes += strlen(own[i].name) + strlen(own[i].value) + 2;
    struct environment *made = pccl_allocate(pccl_heap(), bytes);
    if (made != NULL) {
        made->bytes = bytes;
        describe(alert, made->variables);
        char *text = (char *)&made->items[count];
        for (int i = 0; i < own_count; i++) {
            made->items[i] = text;
            text += snprintf(text, (size_t)((char *)made + bytes - text), "%s=%s", own[i].name, own[i].value) + 1;
        }
        for (int i = 0; i < VARIABLES; i++)
            made->items[own_count + i] = made->variables[i];
    }
    uv_os_free_environ(own, own_count);
    return made;
}

static int spawn(struct pccl_alerts *alerts, const struct pccl_alert *alert)
{
    char text[PCCL_PARAM_BYTES_MAX + 4];
    struct pccl_shell shell;
    struct environment *environment = make_environment(alert);
    alerts->process.type = UV_UNKNOWN_HANDLE;
    if (environment == NULL)
        return UV_ENOMEM;
    pccl_shell_of(alerts->command, text, &shell);
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE}, {.flags = UV_INHERIT_FD, .data.fd = 2}, {.flags = UV_INHERIT_FD, .data.fd = 2}};
    const uv_process_options_t options = {.exit_cb = on_exit,
                                          .file = shell.arguments[0],
                                          .args = shell.arguments,
                                          .env = environment->items,
                                          .flags = UV_PROCESS_DETACHED |
                                                   (shell.verbatim ? UV_PROCESS_WINDOWS_VERBATIM_ARGUMENTS : 0),
                                          .stdio_count = PCCL_COUNT_OF(stdio),
                                          .stdio = stdio};
    int error = uv_spawn(alerts->loop, &alerts->process, &options);
    pccl_release(pccl_heap(), environment, environment->bytes);
    return error;
}

/* Starts the command for the next alert, unless one is running. */
static void start_next(struct pccl_alerts *alerts, uint64_t now_us)
{
    if (alerts->holds_process || alerts->count == 0)
        return;
    int error = spawn(alerts, &alerts->queue[0]);
    memmove(alerts->queue, alerts->queue + 1, --alerts->count * sizeof *alerts->queue);
    alerts->process.data = alerts;
    alerts->holds_process = alerts->process.type == UV_PROCESS; /* in most cases also if it has not started */
    alerts->runs = error == 0;
    alerts->late = false;
    alerts->started_us = now_us;
    if (error == 0)
        return;
    log_line(alerts, PCCL_LOG_ERROR, PCCL_EVENT_NONE, "cannot start the alert command: %s", uv_strerror(error));
    if (alerts->holds_process)
        uv_close((uv_handle_t *)&alerts->process, on_closed);
}

/* Ends a command that exceeds its limit. */
static void check_limit(struct pccl_alerts *alerts, uint64_t now_us)
{
    if (!alerts->runs || alerts->late || now_us < alerts->started_us + alerts->limit_s * UINT64_C(1000000))
        return;
    alerts->late = true;
    pccl_shell_kill(alerts->process.pid);
}

/* ---- stalled runs ---- */

void pccl_alerts_look(struct pccl_alerts *alerts, uint64_t now_us)
{
    struct pccl_master_counts run = alerts->counts(alerts->context);
    uint64_t ended = run.committed + run.aborted;
    bool moved = ended != alerts->ended || run.members == 0 || alerts->members == 0;
    uint64_t still_us = now_us - alerts->moved_us;
    if (moved) {
        if (alerts->stalled && run.members > 0)
            log_line(alerts, PCCL_LOG_INFO, PCCL_EVENT_CONTINUED, "the run continues: an operation has ended after %s",
                     pccl_duration_str(still_us));
        alerts->moved_us = now_us;
        alerts->stalled = false;
    } else if (!alerts->stalled && still_us >= alerts->stall_s * UINT64_C(1000000)) {
        alerts->stalled = true;
        log_line(alerts, PCCL_LOG_WARN, PCCL_EVENT_STALLED, "no operation has ended for %s; %u members",
                 pccl_duration_str(still_us), run.members);
    }
    alerts->ended = ended;
    alerts->members = run.members;
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_alerts *alerts = timer->data;
    uint64_t now_us = pccl_now_us();
    if (alerts->stall_s > 0)
        pccl_alerts_look(alerts, now_us);
    check_limit(alerts, now_us);
    start_next(alerts, now_us);
}

/* ---- life ---- */

void pccl_alerts_note(struct pccl_alerts *alerts, const struct pccl_log_fields *fields, const char *text)
{
    if (alerts->loop != NULL && fields->run != NULL)
        alerts->run = *fields->run;
    if (alerts->loop == NULL || alerts->command[0] == '\0' || !is_wanted(fields->event))
        return;
    if (alerts->count == PCCL_ALERTS_MAX) {
        alerts->dropped++;
        return;
    }
    struct timespec now = pccl_terminal_now();
    struct pccl_alert *alert = &alerts->queue[alerts->count++];
    *alert = (struct pccl_alert){.kind = fields->event,
                                 .run = alerts->run,
                                 .ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                                 .dropped = alerts->dropped};
    alerts->dropped = 0;
    if (fields->peer != NULL)
        alert->peer = *fields->peer;
    if (fields->name != NULL)
        (void)snprintf(alert->name, sizeof alert->name, "%s", fields->name);
    pccl_text_add(&alert->text, text);
}

void pccl_alerts_open(struct pccl_alerts *alerts, uv_loop_t *loop, uint64_t now_us)
{
    if (alerts->command[0] == '\0' && alerts->stall_s == 0)
        return;
    alerts->loop = loop;
    alerts->moved_us = now_us;
    (void)uv_timer_init(loop, &alerts->timer);
    alerts->timer.data = alerts;
    (void)uv_timer_start(&alerts->timer, on_timer, LOOK_MS, LOOK_MS);
    pccl_alerts_note(alerts, &(struct pccl_log_fields){.event = PCCL_EVENT_MASTER_STARTED},
                     "the master started, and runs this command for alerts");
}

void pccl_alerts_close(struct pccl_alerts *alerts)
{
    if (alerts->loop == NULL)
        return;
    if (alerts->runs)
        pccl_shell_kill(alerts->process.pid);
    if (alerts->holds_process && !uv_is_closing((uv_handle_t *)&alerts->process))
        uv_close((uv_handle_t *)&alerts->process, NULL);
    uv_close((uv_handle_t *)&alerts->timer, NULL);
    alerts->loop = NULL;
}
