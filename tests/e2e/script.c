/* Tools for verbs: commands, answers, and slots. */
#include "script.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- output ---- */

static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static void reserve(struct line *line, size_t more)
{
    if (line->capacity - line->length > more)
        return;
    line->capacity = 2 * (line->length + more + 1);
    line->text = realloc(line->text, line->capacity);
    if (line->text == NULL)
        exit(3);
}

void add(struct line *line, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    reserve(line, (size_t)length);
    line->length += (size_t)vsnprintf(line->text + line->length, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
}

void add_text(struct line *line, const char *name, const char *text)
{
    add(line, ",\"%s\":\"", name);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
        if (*c == '"' || *c == '\\')
            add(line, "\\%c", *c);
        else if (*c < 0x20)
            add(line, "\\u%04x", *c);
        else
            add(line, "%c", *c);
    }
    add(line, "\"");
}

void begin_line(struct line *line) { *line = (struct line){.text = NULL}; }

void end_line(struct line *line)
{
    add(line, "}\n");
    pthread_mutex_lock(&output_lock);
    fwrite(line->text, 1, line->length, stdout);
    fflush(stdout);
    pthread_mutex_unlock(&output_lock);
    free(line->text);
}

void follow_answers(void)
{
    pthread_mutex_lock(&output_lock);
    pthread_mutex_unlock(&output_lock);
}

uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- commands ---- */

void bad_command(const struct command *command, const char *why)
{
    fprintf(stderr, "bad command %s %s: %s\n", command->id, command->verb, why);
    _Exit(3);
}

const char *word(const struct command *command, int index)
{
    if (index >= command->count)
        bad_command(command, "a word is missing");
    return command->words[index];
}

uint64_t number(const struct command *command, int index)
{
    char *end;
    uint64_t value = strtoull(word(command, index), &end, 0);
    if (*end != 0)
        bad_command(command, "not a number");
    return value;
}

const char *option(const struct command *command, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < command->count; i++) {
        const char *text = command->words[i];
        if (strncmp(text, name, length) == 0 && (text[length] == 0 || text[length] == '='))
            return text[length] == '=' ? text + length + 1 : text + length;
    }
    return NULL;
}

void begin(struct command *command)
{
    struct line line;
    begin_line(&line);
    add(&line, "{\"id\":%s,\"event\":\"begin\"", command->id);
    end_line(&line);
    command->begun_us = now_us();
}

/* Adds the details of a failure besides its text. */
static void add_failure(struct line *line, const pcclComm_t *comm)
{
    pcclFailure_t failure = PCCL_FAILURE_INIT;
    if (pcclGetLastFailure(comm, &failure) != pcclSuccess)
        exit(3);
    add(line, ",\"failed\":%d,\"lost_count\":%u,\"lost\":[", (int)failure.result, (unsigned)failure.peer_count);
    for (uint32_t i = 0; i < failure.peer_count && i < PCCL_FAILURE_PEERS_MAX; i++)
        add(line, "%s\"%s\"", i > 0 ? "," : "", failure.peers[i]);
    add(line, "]");
    if (failure.launched)
        add(line, ",\"of\":[%" PRIu64 ",%" PRIu64 "]", failure.tag, failure.sequence);
}

void answer(struct command *command, struct line *line, pcclResult_t result)
{
    uint64_t end_us = now_us();
    bool silent = result == pcclSuccess || option(command, "mute") != NULL;
    const char *words = silent ? "" : pcclGetLastError(command->slot->comm);
    begin_line(line);
    add(line, "{\"id\":%s,\"rc\":%d,\"us\":%" PRIu64 ",\"at\":%" PRIu64, command->id, (int)result,
        end_us - command->begun_us, end_us);
    if (!silent) {
        add_text(line, "words", words);
        add_failure(line, command->slot->comm);
    }
}

void answer_only(struct command *command, pcclResult_t result)
{
    struct line line;
    answer(command, &line, result);
    end_line(&line);
}
