#include "ops/events.h"
#include "os/random.h"
#include "os/secret_file.h"
#include "os/terminal.h"

#include "log/logger.h"
#include "net/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    LINE_BYTES = 2048,   /* bytes of a line; a full event needs less */
    SAVE_MS = 100,       /* delay before events are saved, together with those that follow */
    RETRY_US = 10000000, /* delay before another attempt to save */
    OMITTED_MS = 1000,   /* interval of the check whether omitted events must be reported */
};

/* ---- the events ---- */

static uint32_t sum_of(const uint32_t counts[PCCL_EVENT_KINDS], uint32_t cap)
{
    uint32_t sum = 0;
    for (int kind = 0; kind < PCCL_EVENT_KINDS; kind++)
        sum += (uint32_t)pccl_min_u64(counts[kind], cap);
    return sum;
}

/* Removes events until at most `target` are left: the oldest ones of the kinds with the most. */
static void keep_only(struct pccl_events *events, uint32_t target)
{
    uint32_t counts[PCCL_EVENT_KINDS] = {0}, cap = 0, kept = 0, length = 0;
    for (uint32_t i = 0; i < events->count; i++)
        counts[events->entries[i].kind]++;
    for (uint32_t high = target; cap < high;) { /* finds the largest number of events of each kind */
        uint32_t middle = high - (high - cap) / 2;
        if (sum_of(counts, middle) <= target)
            cap = middle;
        else
            high = middle - 1;
    }
    for (uint32_t i = 0; i < events->count; i++) {
        struct pccl_event_entry entry = events->entries[i];
        if (counts[entry.kind]-- > cap)
            continue;
        memmove(events->lines + length, events->lines + entry.at, entry.length + 1);
        entry.at = length;
        length += entry.length + 1;
        events->entries[kept++] = entry;
    }
    events->count = kept;
    events->length = length;
    events->saved = 0;
    events->replaces = true;
}

/* Makes room for a line. Returns false if out of memory. */
static bool make_room(struct pccl_events *events)
{
    uint32_t target = events->count / 2;
    if (events->count == PCCL_EVENTS_MAX || events->length + LINE_BYTES > PCCL_EVENTS_BYTES_MAX)
        do
            keep_only(events, target);
        while (events->length > PCCL_EVENTS_BYTES_MAX / 2 && (target /= 2) > 0);
    void *entries =
        pccl_grow(events->memory, events->entries, &events->entry_capacity, events->count + 1, sizeof *events->entries);
    if (!entries)
        return false;
    events->entries = entries;
    char *lines = pccl_grow(events->memory, events->lines, &events->capacity, events->length + LINE_BYTES, 1);
    events->lines = lines ? lines : events->lines;
    return lines != NULL;
}

static bool add(struct pccl_events *events, const struct pccl_event *event)
{
    struct pccl_print line;
    if (!make_room(events))
        return false;
    pccl_print_into(&line, events->lines + events->length, LINE_BYTES - 1);
    pccl_event_write(event, &line);
    PCCL_ASSERT(line.length < LINE_BYTES);
    events->lines[events->length + line.length] = '\n';
    events->entries[events->count++] = (struct pccl_event_entry){
        .number = event->number, .at = events->length, .length = line.length, .kind = event->kind};
    events->length += line.length + 1;
    events->last = event->number;
    return true;
}

/* ---- the file ---- */

/* Bytes that are being saved, by a thread of the pool or at the end. */
struct pccl_events_save {
    uv_work_t work;
    struct pccl_events *events;
    bool replaces;
    enum pccl_status status;
    struct pccl_text reason;
    uint32_t length;
    char bytes[];
};

static enum pccl_status append(const char *path, char *bytes, uint32_t length, struct pccl_text *reason)
{
    uv_fs_t request;
    uv_file file = uv_fs_open(NULL, &request, path, UV_FS_O_WRONLY | UV_FS_O_APPEND, 0, NULL);
    uv_fs_req_cleanup(&request);
    if (file < 0)
        return pccl_secret_fail(reason, "cannot open", path, uv_strerror(file));
    uv_buf_t buffer = uv_buf_init(bytes, length);
    int wrote = uv_fs_write(NULL, &request, file, &buffer, 1, -1, NULL);
    uv_fs_req_cleanup(&request);
    int error = uv_fs_close(NULL, &request, file, NULL);
    uv_fs_req_cleanup(&request);
    error = wrote < 0 ? wrote : error;
    if (error < 0 || (uint32_t)wrote != length)
        return pccl_secret_fail(reason, "cannot write", path, error < 0 ? uv_strerror(error) : "no space left");
    return PCCL_OK;
}

static void store(struct pccl_events_save *save)
{
    const char *path = save->events->path; /* does not change */
    save->status = save->replaces ? pccl_secret_file_replace(path, save->bytes, save->length, &save->reason)
                                  : append(path, save->bytes, save->length, &save->reason);
}

static bool has_unsaved(const struct pccl_events *events)
{
    return events->path[0] != '\0' && (events->replaces || events->saved < events->length);
}

/* Copies the unsaved lines, or all lines for a new file. Returns NULL if out of memory. */
static struct pccl_events_save *begin_save(struct pccl_events *events)
{
    uint32_t from = events->replaces ? 0 : events->saved, length = events->length - from;
    struct pccl_events_save *save = pccl_allocate(events->memory, sizeof *save + length);
    if (!save)
        return NULL;
    save->events = events;
    save->replaces = events->replaces;
    save->length = length;
    if (length > 0)
        memcpy(save->bytes, events->lines + from, length);
    events->replaces = false;
    events->saved = events->length;
    return save;
}

static void end_save(struct pccl_events_save *save)
{
    struct pccl_events *events = save->events;
    if (save->status != PCCL_OK) {
        events->replaces = true; /* the last line of the file may be incomplete */
        events->saved = 0;
        if (!events->told)
            pccl_logger_print(PCCL_LOG_ERROR, "master", "the event log is not saved: %s", save->reason.bytes);
    } else if (events->told) {
        pccl_logger_write(PCCL_LOG_INFO, "master", "the event log is saved again");
    }
    events->told = save->status != PCCL_OK;
    events->retry_us = events->told ? pccl_now_us() + RETRY_US : 0;
    pccl_release(events->memory, save, sizeof *save + save->length);
}

static void schedule(struct pccl_events *events, bool omits);

static void on_work(uv_work_t *work) { store(work->data); }

static void on_worked(uv_work_t *work, int error)
{
    struct pccl_events_save *save = work->data;
    struct pccl_events *events = save->events;
    (void)error; /* it is never canceled */
    events->save = NULL;
    end_save(save);
    schedule(events, false);
}

static void start_save(struct pccl_events *events)
{
    struct pccl_events_save *save = begin_save(events);
    if (!save) {
        events->retry_us = pccl_now_us() + RETRY_US;
        return;
    }
    save->work.data = save;
    events->save = save;
    if (uv_queue_work(events->timer.loop, &save->work, on_work, on_worked) == 0)
        return;
    events->save = NULL;
    store(save);
    end_save(save);
}

/* ---- omitted events ---- */

static uint64_t unix_ms(void)
{
    struct timespec now = pccl_terminal_now();
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Adds the number of the kind's omitted events if their minute is over. Returns true if it must be called again. */
static bool list_omitted(struct pccl_events *events, int kind, uint64_t now_us)
{
    struct pccl_event_kind_state *state = &events->kinds[kind];
    if (state->omitted == 0)
        return false;
    if (now_us < state->since_us + PCCL_EVENTS_MINUTE_US)
        return true;
    struct pccl_event event = {
        .number = events->last + 1, .ms = unix_ms(), .kind = (enum pccl_log_event)kind, .omitted = state->omitted};
    pccl_text_format(&event.text, "%" PRIu64 " more events of this kind within a minute", state->omitted);
    if (add(events, &event))
        state->omitted = 0;
    return state->omitted > 0;
}

static void on_timer(uv_timer_t *timer)
{
    struct pccl_events *events = timer->data;
    uint64_t now_us = pccl_now_us();
    bool omits = false;
    for (int kind = 0; kind < PCCL_EVENT_KINDS; kind++)
        omits = list_omitted(events, kind, now_us) || omits;
    if (has_unsaved(events) && !events->save && now_us >= events->retry_us)
        start_save(events);
    schedule(events, omits);
}

/* Starts the timer if there is work for it. */
static void schedule(struct pccl_events *events, bool omits)
{
    uint64_t delay_ms = OMITTED_MS;
    if (!events->has_timer || uv_is_active((uv_handle_t *)&events->timer))
        return;
    bool saves = has_unsaved(events) && !events->save;
    uint64_t now_us = pccl_now_us();
    if (saves)
        delay_ms = events->retry_us > now_us ? (events->retry_us - now_us) / 1000 + 1 : SAVE_MS;
    if (omits)
        delay_ms = pccl_min_u64(delay_ms, OMITTED_MS);
    if (saves || omits)
        (void)uv_timer_start(&events->timer, on_timer, delay_ms, 0);
}

/* ---- life ---- */

void pccl_events_note(struct pccl_events *events, const struct pccl_log_fields *fields, const char *text,
                      uint64_t now_us)
{
    static const uint32_t limits[PCCL_EVENT_KINDS] = {
#define LIMIT(name, word, limit) [PCCL_EVENT_##name] = (limit),
        PCCL_LOG_EVENTS(LIMIT)
#undef LIMIT
    };
    if (!events->memory || fields->event == PCCL_EVENT_NONE)
        return;
    struct pccl_event_kind_state *state = &events->kinds[fields->event];
    if (state->seen == 0 || now_us >= state->since_us + PCCL_EVENTS_MINUTE_US) {
        (void)list_omitted(events, (int)fields->event, now_us);
        state->since_us = now_us;
        state->seen = 0;
    }
    if (state->seen == limits[fields->event]) {
        state->omitted++;
        schedule(events, true);
        return;
    }
    state->seen++;
    struct pccl_event event = {.number = events->last + 1, .ms = unix_ms(), .kind = fields->event};
    if (fields->peer)
        event.peer = *fields->peer;
    if (fields->name)
        (void)snprintf(event.name, sizeof event.name, "%s", fields->name);
    pccl_text_add(&event.text, text);
    if (fields->reason && !strstr(text, fields->reason))
        pccl_text_append(&event.text, ": %s", fields->reason);
    state->omitted += !add(events, &event);
    schedule(events, state->omitted > 0);
}

void pccl_events_log(struct pccl_events *events, enum pccl_log_level level, const char *line,
                     const struct pccl_log_fields *fields)
{
    pccl_events_note(events, fields, line, pccl_now_us());
    pccl_logger_write_fields(level, "master", line, fields);
}

/* Adds the lines of the file. Returns the number of lines that are not events. */
static uint32_t add_lines(struct pccl_events *events, const char *text, size_t length)
{
    uint32_t others = 0;
    struct pccl_event event;
    for (size_t at = 0, bytes; at < length; at += bytes + 1) {
        const char *end = memchr(text + at, '\n', length - at);
        bytes = end ? (size_t)(end - text) - at : length - at;
        bool good = end && pccl_event_read(text + at, bytes, &event) && event.number > events->last;
        others += !good || !add(events, &event);
    }
    return others;
}

/* Returns 0 for a missing file, too. */
static uint64_t size_of(const char *path)
{
    uv_fs_t request;
    uint64_t size = uv_fs_stat(NULL, &request, path, NULL) == 0 ? request.statbuf.st_size : 0;
    uv_fs_req_cleanup(&request);
    return size;
}

/* Reads the file. Returns false, after a log line, if it must not be written. */
static bool load(struct pccl_events *events)
{
    struct pccl_text reason;
    size_t length = 0;
    size_t most = (size_t)pccl_min_u64(size_of(events->path), PCCL_EVENTS_BYTES_MAX);
    char *text = pccl_allocate(events->memory, most + 1);
    bool good = text || pccl_fail(&reason, PCCL_MEMORY, "out of memory") == PCCL_OK;
    if (good && most > 0)
        good = pccl_secret_file_read(events->path, false, text, most, &length, &reason) == PCCL_OK;
    if (!good)
        pccl_logger_print(PCCL_LOG_ERROR, "master", "the event log is not saved: %s", reason.bytes);
    uint32_t others = good ? add_lines(events, text, length) : 0;
    if (others > 0)
        pccl_logger_print(PCCL_LOG_WARN, "master", "ignored %u invalid or incomplete lines in %s", others,
                          events->path);
    events->saved = events->replaces ? 0 : events->length;
    events->replaces = events->replaces || others > 0 || length == 0;
    pccl_release(events->memory, text, text ? most + 1 : 0);
    return good;
}

/* Returns true if the log contains a start of a master without its end. */
static bool has_died(const struct pccl_events *events)
{
    for (uint32_t i = events->count; i > 0; i--) {
        enum pccl_log_event kind = events->entries[i - 1].kind;
        if (kind == PCCL_EVENT_MASTER_STARTED || kind == PCCL_EVENT_MASTER_ENDED)
            return kind == PCCL_EVENT_MASTER_STARTED;
    }
    return false;
}

void pccl_events_open(struct pccl_events *events, const struct pccl_memory *memory, uv_loop_t *loop,
                      const char *directory, const char *version, uint64_t now_us)
{
    *events = (struct pccl_events){.memory = memory};
    if (!pccl_random_u64(&events->boot))
        events->boot = now_us;
    if (directory[0] != '\0') {
        (void)snprintf(events->path, sizeof events->path, "%s/events.jsonl", directory);
        if (!load(events))
            events->path[0] = '\0';
    }
    (void)uv_timer_init(loop, &events->timer);
    events->timer.data = events;
    events->has_timer = true;
    struct pccl_text words;
    pccl_text_format(&words, "master %s started%s", version,
                     has_died(events) ? "; the previous one did not end normally" : "");
    pccl_events_note(events, &(struct pccl_log_fields){.event = PCCL_EVENT_MASTER_STARTED}, words.bytes, now_us);
}

void pccl_events_close(struct pccl_events *events, const char *words, uint64_t now_us)
{
    pccl_events_note(events, &(struct pccl_log_fields){.event = PCCL_EVENT_MASTER_ENDED}, words, now_us);
    if (events->has_timer)
        uv_close((uv_handle_t *)&events->timer, NULL);
    events->has_timer = false;
}

void pccl_events_end(struct pccl_events *events)
{
    if (!events->memory)
        return;
    struct pccl_events_save *save = has_unsaved(events) ? begin_save(events) : NULL;
    if (save) {
        store(save);
        end_save(save);
    }
    pccl_release(events->memory, events->lines, events->capacity);
    pccl_release(events->memory, events->entries, events->entry_capacity * sizeof *events->entries);
    *events = (struct pccl_events){.memory = NULL};
}
