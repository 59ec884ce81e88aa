/* Writes histories. */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int file = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held for each line */
static atomic_uint_fast64_t calls;
static char current_id[PCCL_PEER_ID_SIZE];

void history_give_up(const char *what, const char *why)
{
    fprintf(stderr, "chaos_peer: %s: gives up: %s\n", what, why);
    exit(3);
}

void history_open(const char *path)
{
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        history_give_up("history", strerror(errno));
}

uint64_t history_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void history_set_id(const char *id) { snprintf(current_id, sizeof current_id, "%s", id); }

const char *history_quote(const char *text, char *room, size_t size)
{
    size_t at = 0;
    room[at++] = '"';
    for (; *text != 0 && at + 4 < size; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\')
            room[at++] = '\\';
        room[at++] = letter < 0x20 ? ' ' : (char)letter;
    }
    room[at++] = '"';
    room[at] = 0;
    return room;
}

/* Writes a whole line, however often a shortage of memory lets it fail. length: as snprintf says. */
static void put(const char *line, int length)
{
    int done = 0;
    if (length < 0 || length >= HISTORY_LINE)
        history_give_up("history", "line too long");
    pthread_mutex_lock(&lock);
    while (done < length) {
        ssize_t written = write(file, line + done, (size_t)(length - done));
        if (written < 0 && errno != ENOMEM && errno != EINTR)
            history_give_up("history", strerror(errno));
        if (written > 0)
            done += (int)written;
        else
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_mutex_unlock(&lock);
}

uint64_t history_begin(const char *call, const char *key)
{
    char line[HISTORY_LINE];
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;
    put(line,
        snprintf(line, sizeof line,
                 "{\"n\":%" PRIu64 ",\"e\":\"begin\",\"t\":%" PRIu64 ",\"call\":\"%s\",\"key\":\"%s\",\"id\":\"%s\"}\n",
                 number, history_now_us(), call, key, current_id));
    return number;
}

void history_end(uint64_t number, pcclResult_t result, const char *words, const char *more)
{
    char line[HISTORY_LINE], quoted[800];
    uint64_t now_us = history_now_us();
    history_quote(result == pcclSuccess ? "" : words, quoted, sizeof quoted);
    put(line,
        snprintf(line, sizeof line, "{\"n\":%" PRIu64 ",\"e\":\"end\",\"t\":%" PRIu64 ",\"rc\":%d,\"words\":%s%s}\n",
                 number, now_us, (int)result, quoted, more));
}

void history_note(const char *event, const char *more)
{
    char line[HISTORY_LINE];
    put(line, snprintf(line, sizeof line, "{\"e\":\"%s\",\"t\":%" PRIu64 ",\"id\":\"%s\"%s}\n", event, history_now_us(),
                       current_id, more));
}
