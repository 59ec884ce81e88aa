#include "log_format.h"

#include "ops/json.h"
#include "os/terminal.h"

#include <stdio.h>
#include <string.h>

/*
 * A line must always fit into a single write to a pipe (4,096 bytes). Its parts are therefore truncated to these
 * lengths, counted after escaping. Each truncated part is still valid.
 */
enum { MESSAGE_MAX = 2400, REASON_MAX = 1000, SUBSYSTEM_MAX = 64 };

struct time_text {
    char bytes[48];
};

static struct time_text time_text(const struct timespec *now)
{
    struct time_text text = {""};
    struct tm utc;
    size_t length = 0;
    if (pccl_terminal_utc(now->tv_sec, &utc))
        length = strftime(text.bytes, sizeof text.bytes, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text.bytes + length, sizeof text.bytes - length, ".%03uZ",
                   (unsigned)(now->tv_nsec / 1000000) % 1000);
    return text;
}

/*
 * A part that is quoted or, in plain text, copied: the beginning of a text, at most `most` bytes including escapes,
 * with '?' in place of bytes that are not printable UTF-8.
 */
struct part {
    char bytes[MESSAGE_MAX];
    size_t length;
};

static struct part part_of(const char *text, size_t most)
{
    struct part part = {.length = 0};
    size_t left = strlen(text), used = 0;
    while (left > 0) {
        size_t taken = pccl_text_character(text, left);
        bool escape = *text == '"' || *text == '\\';
        size_t needed = taken > 0 ? taken + escape : 1;
        if (used + needed > most)
            break;
        used += needed;
        memcpy(part.bytes + part.length, taken > 0 ? text : "?", taken > 0 ? taken : 1);
        taken = taken > 0 ? taken : 1;
        part.length += taken;
        text += taken;
        left -= taken;
    }
    return part;
}

/* Ends the line. There must be room for the line end. */
static size_t end_line(const struct pccl_print *line, char *out)
{
    size_t length = line->length < line->capacity ? line->length : line->capacity;
    out[length] = '\n';
    return length + 1;
}

static void add_operation(struct pccl_print *line, const struct pccl_log_fields *fields)
{
    pccl_print_format(line, "%u/%" PRIu64 "/%" PRIu64, fields->group, fields->tag, fields->use);
}

static void add_plain(struct pccl_print *line, const char *text, size_t most)
{
    const struct part part = part_of(text, most);
    pccl_print_add_bytes(line, part.bytes, part.length);
}

size_t pccl_log_format_text(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                            const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct pccl_print line;
    pccl_print_into(&line, out, size - 1);
    pccl_print_add(&line, time_text(now).bytes);
    pccl_print_format(&line, " pccl %s ", pccl_logger_level_name(level));
    pccl_print_add_bytes(&line, subsystem, strnlen(subsystem, SUBSYSTEM_MAX));
    pccl_print_add(&line, " ");
    add_plain(&line, message, MESSAGE_MAX);
    if (fields->reason != NULL && strstr(message, fields->reason) == NULL) {
        pccl_print_add(&line, ": ");
        add_plain(&line, fields->reason, REASON_MAX);
    }
    /* Uses short ids, as messages do. */
    if (fields->run != NULL)
        pccl_print_format(&line, " run=%s", pccl_id_str(fields->run));
    if (fields->peer != NULL)
        pccl_print_format(&line, " peer=%s", pccl_id_str(fields->peer));
    if (fields->has_operation) {
        pccl_print_add(&line, " operation=");
        add_operation(&line, fields);
    }
    return end_line(&line, out);
}

static void add_part(struct pccl_print *line, const char *key, const char *text, size_t most)
{
    const struct part part = part_of(text, most);
    pccl_print_add(line, key);
    pccl_print_add_quoted_bytes(line, part.bytes, part.length);
}

static void add_id(struct pccl_print *line, const char *key, const struct pccl_id *id)
{
    pccl_print_add(line, key);
    pccl_print_add_id(line, id);
}

size_t pccl_log_format_logfmt(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                              const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct pccl_print line;
    pccl_print_into(&line, out, size - 1);
    pccl_print_format(&line, "time=%s level=%s", time_text(now).bytes, pccl_logger_level_name(level));
    add_part(&line, " subsystem=", subsystem, SUBSYSTEM_MAX);
    add_part(&line, " message=", message, MESSAGE_MAX);
    if (fields->run != NULL)
        add_id(&line, " run=", fields->run);
    if (fields->peer != NULL)
        add_id(&line, " peer=", fields->peer);
    if (fields->has_operation) {
        pccl_print_add(&line, " operation=");
        add_operation(&line, fields);
    }
    if (fields->reason != NULL)
        add_part(&line, " reason=", fields->reason, REASON_MAX);
    return end_line(&line, out);
}

static void put_part(struct pccl_json *json, const char *key, const char *text, size_t most)
{
    const struct part part = part_of(text, most);
    pccl_json_bytes(json, key, part.bytes, part.length);
}

size_t pccl_log_format_json(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                            const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct pccl_print line;
    struct pccl_json json = {.print = &line};
    pccl_print_into(&line, out, size - 1);
    pccl_json_open(&json, NULL, '{');
    pccl_json_string(&json, "time", time_text(now).bytes);
    pccl_json_string(&json, "level", pccl_logger_level_name(level));
    put_part(&json, "subsystem", subsystem, SUBSYSTEM_MAX);
    put_part(&json, "message", message, MESSAGE_MAX);
    if (fields->run != NULL)
        pccl_json_id(&json, "run", fields->run);
    if (fields->peer != NULL)
        pccl_json_id(&json, "peer", fields->peer);
    if (fields->has_operation) {
        pccl_json_open(&json, "operation", '{');
        pccl_json_number(&json, "group", fields->group);
        pccl_json_number(&json, "tag", fields->tag);
        pccl_json_number(&json, "use", fields->use);
        pccl_json_close(&json, '}');
    }
    if (fields->reason != NULL)
        put_part(&json, "reason", fields->reason, REASON_MAX);
    pccl_json_close(&json, '}');
    return end_line(&line, out);
}

pccl_logger_format *pccl_log_format_find(const char *name)
{
    if (strcmp(name, "text") == 0)
        return pccl_log_format_text;
    if (strcmp(name, "logfmt") == 0)
        return pccl_log_format_logfmt;
    return strcmp(name, "json") == 0 ? pccl_log_format_json : NULL;
}
