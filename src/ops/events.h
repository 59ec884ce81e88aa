/*
 * The event log of a master: a history of its run, for people and programs. No decision depends on it. Events are
 * numbered from 1, and kept as lines of JSON. When the log is full, half of the events are removed: the oldest ones of
 * the kinds with the most events, so that many events of one kind do not displace the few of others. Events beyond the
 * limit of their kind per minute (core/log.h) are only counted; an event without a peer contains their number.
 *
 * With a state directory, the file `events.jsonl` in it contains the same lines, and the next master continues the log.
 * A thread of libuv's pool writes the file, at most ten times a second, so a slow disk does not delay the loop. If it
 * cannot be written, this is logged once, and the complete file is written again every ten seconds until that succeeds.
 * The file is not synced after each event: the last ones may be missing after a power loss, but not after a crash of
 * the master more than a second later.
 */
#ifndef PCCL_OPS_EVENTS_H
#define PCCL_OPS_EVENTS_H

#include "config/params.h"
#include "core/id.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/print.h"

#include <uv.h>

enum {
    PCCL_EVENTS_MAX = 10000,
    PCCL_EVENTS_BYTES_MAX = 8 << 20, /* size of the lines and of the file */
    PCCL_EVENTS_ANSWER_BYTES_MAX = 2 << 20,
    PCCL_EVENTS_MINUTE_US = 60000000,
};

/* An event in readable form. */
struct pccl_event {
    uint64_t number, ms; /* ms: milliseconds since 1970 */
    uint64_t omitted;    /* number of events of this kind that are not in the log; 0 for a single event */
    enum pccl_log_event kind;
    struct pccl_id peer; /* zero: no peer */
    char name[PCCL_NAME_MAX + 1];
    struct pccl_text text;
};

struct pccl_event_entry {
    uint64_t number;
    uint32_t at, length; /* line, without the newline */
    enum pccl_log_event kind;
};

struct pccl_events_save;

struct pccl_events {
    /* private */
    const struct pccl_memory *memory; /* NULL: not open; all calls are then allowed and do nothing */
    char *lines;                      /* owned; content of the file */
    uint32_t length, capacity;
    struct pccl_event_entry *entries; /* owned; in the order of numbers */
    uint32_t count, entry_capacity;
    uint64_t last; /* number of the newest event */
    uint64_t boot; /* random, not 0 */
    struct pccl_event_kind_state {
        uint64_t since_us, omitted;
        uint32_t seen; /* since since_us */
    } kinds[PCCL_EVENT_KINDS];

    char path[PCCL_PARAM_BYTES_MAX + 16]; /* empty: no file is kept */
    uint32_t saved;                       /* length of the beginning of `lines` that is in the file or being saved */
    bool replaces;                        /* the next save replaces the file */
    bool told;                            /* a failure has been logged */
    uint64_t retry_us;
    uv_timer_t timer;
    bool has_timer;
    struct pccl_events_save *save; /* in progress, or NULL */
};

/*
 * Opens the log, with the events in this directory if it is not empty, and adds the event that the master has started.
 * `memory` is borrowed until pccl_events_end. Never fails: without memory events are only counted, and a file that
 * cannot be read is left alone. The struct must not move until the loop has released its timer.
 */
void pccl_events_open(struct pccl_events *events, const struct pccl_memory *memory, uv_loop_t *loop,
                      const char *directory, const char *version, uint64_t now_us);
/* Adds an event if the fields have a kind. On the loop's thread. */
void pccl_events_note(struct pccl_events *events, const struct pccl_log_fields *fields, const char *text,
                      uint64_t now_us);
/* Logs a line, and adds an event if the fields have a kind. */
void pccl_events_log(struct pccl_events *events, enum pccl_log_level level, const char *line,
                     const struct pccl_log_fields *fields);
/* Adds the event that the master has ended, and closes the timer. Events may follow. */
void pccl_events_close(struct pccl_events *events, const char *words, uint64_t now_us);
/* Saves the last events, after the loop has ended, and frees the log. */
void pccl_events_end(struct pccl_events *events);

/*
 * Answers /events.json and /events (`json` false). The query may have the parameters `since`, to request the events
 * after this number, and `most`. Without `since` the answer has the newest events. Returns ARGUMENT with a reason if
 * the query is invalid.
 */
PCCL_MUST_CHECK enum pccl_status pccl_events_answer(const struct pccl_events *events, const char *query, size_t length,
                                                    bool json, struct pccl_print *print, struct pccl_text *reason);

/* Returns the word of a kind. */
const char *pccl_event_word(enum pccl_log_event kind);
/* Reads a line without its newline. Returns false if the log would not have written it. */
PCCL_MUST_CHECK bool pccl_event_read(const char *line, size_t length, struct pccl_event *event);
/* Writes a line without a newline. */
void pccl_event_write(const struct pccl_event *event, struct pccl_print *print);

#endif
