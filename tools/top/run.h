/* The state of a run, read from a master's /status.json, and its peers as rows. */
#ifndef PCCL_TOOLS_TOP_RUN_H
#define PCCL_TOOLS_TOP_RUN_H

#include "json_read.h"
#include "top/canvas.h"

#include <stddef.h>

struct run_row {
    const struct json_value *peer;
    const char *state; /* its activity */
    uint32_t order;    /* by urgency, the most urgent first */
    enum style style;
};

struct run {
    const struct json_value *status; /* owned; NULL: none yet */
    struct run_row *rows;            /* owned; the most urgent first */
    uint32_t count;
};

/*
 * Replaces the state by the text of a /status.json. Returns false, and keeps the state, if it is another text or if
 * memory is short.
 */
bool run_read(struct run *run, const char *text);
void run_free(struct run *run);
/* Compares two rows by urgency, then by group, rank and id; for qsort. */
int run_compare(const void *a, const void *b);

/* Write a value as text: a rate in bytes per second, a duration, the name and id of a peer. */
void run_rate_text(double rate, char *text, size_t size);
void run_time_text(double ms, char *text, size_t size);
void run_name_text(const struct json_value *peer, char *text, size_t size);
/* Writes the name of a peer by its id. */
void run_name_of(const struct run *run, const char *id, char *text, size_t size);

/* Draws all but the peers: totals, then problems, then progress and pending calls. */
void run_draw(const struct run *run, struct canvas *canvas);

#endif
