#include "log_format.h"

#include "core/text.h"

#include <stdio.h>
#include <string.h>

/*
 * A line must fit in one write to a pipe (4096 bytes), whatever its parts are: they are cut to
 * these lengths, counted after escaping, and each is complete in itself.
 */
enum { MESSAGE_MAX = 2400, REASON_MAX = 1000, SUBSYSTEM_MAX = 64 };

struct line {
    char *bytes;
    size_t size, length;
};

static void add_bytes(struct line *line, const char *bytes, size_t length)
{
    size_t room = line->size - line->length;
    size_t taken = length < room ? length : room;
    memcpy(line->bytes + line->length, bytes, taken);
    line->length += taken;
}

static void add(struct line *line, const char *text) { add_bytes(line, text, strlen(text)); }

static void add_u64(struct line *line, uint64_t value)
{
    char digits[24];
    add_bytes(line, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value));
}

static void add_id(struct line *line, const struct pccl_id *id, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < bytes; i++) {
        char pair[2] = {digits[id->bytes[i] >> 4], digits[id->bytes[i] & 15]};
        add_bytes(line, pair, sizeof pair);
    }
}

/*
 * Both formats know \" and \\; what is no printable UTF-8 becomes '?', so that every line stays one
 * line of text.
 */
static void add_escaped(struct line *line, const char *text, size_t most)
{
    size_t left = strlen(text), used = 0;
    while (left > 0) {
        size_t taken = pccl_text_character(text, left);
        bool escape = *text == '"' || *text == '\\';
        size_t needed = taken > 0 ? taken + escape : 1;
        if (used + needed > most)
            break;
        if (escape)
            add(line, "\\");
        add_bytes(line, taken > 0 ? text : "?", taken > 0 ? taken : 1);
        used += needed;
        taken = taken > 0 ? taken : 1;
        text += taken;
        left -= taken;
    }
}

static void add_quoted(struct line *line, const char *text, size_t most)
{
    add(line, "\"");
    add_escaped(line, text, most);
    add(line, "\"");
}

static void add_time(struct line *line, const struct timespec *now)
{
    char text[32], milliseconds[8];
    struct tm utc;
    if (gmtime_r(&now->tv_sec, &utc) == NULL || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
        text[0] = '\0';
    add(line, text);
    (void)snprintf(milliseconds, sizeof milliseconds, ".%03uZ", (unsigned)(now->tv_nsec / 1000000) % 1000);
    add(line, milliseconds);
}

static void add_operation(struct line *line, const struct pccl_log_fields *fields)
{
    add_u64(line, fields->group);
    add(line, "/");
    add_u64(line, fields->tag);
    add(line, "/");
    add_u64(line, fields->use);
}

size_t pccl_log_format_text(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                            const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct line line = {out, size - 1, 0}; /* room for the end of the line */
    add_time(&line, now);
    add(&line, " pccl ");
    add(&line, pccl_logger_level_name(level));
    add(&line, " ");
    add_bytes(&line, subsystem, strnlen(subsystem, SUBSYSTEM_MAX));
    add(&line, " ");
    add_bytes(&line, message, strnlen(message, MESSAGE_MAX));
    if (fields->reason != NULL && strstr(message, fields->reason) == NULL) {
        add(&line, ": ");
        add_bytes(&line, fields->reason, strnlen(fields->reason, REASON_MAX));
    }
    /* Short, as in sentences. */
    if (fields->run != NULL) {
        add(&line, " run=");
        add_id(&line, fields->run, 4);
    }
    if (fields->peer != NULL) {
        add(&line, " peer=");
        add_id(&line, fields->peer, 4);
    }
    if (fields->has_operation) {
        add(&line, " operation=");
        add_operation(&line, fields);
    }
    out[line.length++] = '\n';
    return line.length;
}

size_t pccl_log_format_logfmt(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                              const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct line line = {out, size - 1, 0};
    add(&line, "time=");
    add_time(&line, now);
    add(&line, " level=");
    add(&line, pccl_logger_level_name(level));
    add(&line, " subsystem=");
    add_quoted(&line, subsystem, SUBSYSTEM_MAX);
    add(&line, " message=");
    add_quoted(&line, message, MESSAGE_MAX);
    if (fields->run != NULL) {
        add(&line, " run=");
        add_id(&line, fields->run, sizeof fields->run->bytes);
    }
    if (fields->peer != NULL) {
        add(&line, " peer=");
        add_id(&line, fields->peer, sizeof fields->peer->bytes);
    }
    if (fields->has_operation) {
        add(&line, " operation=");
        add_operation(&line, fields);
    }
    if (fields->reason != NULL) {
        add(&line, " reason=");
        add_quoted(&line, fields->reason, REASON_MAX);
    }
    out[line.length++] = '\n';
    return line.length;
}

static void add_json_id(struct line *line, const char *key, const struct pccl_id *id)
{
    add(line, ",\"");
    add(line, key);
    add(line, "\":\"");
    add_id(line, id, sizeof id->bytes);
    add(line, "\"");
}

size_t pccl_log_format_json(char *out, size_t size, const struct timespec *now, enum pccl_log_level level,
                            const char *subsystem, const char *message, const struct pccl_log_fields *fields)
{
    struct line line = {out, size - 1, 0};
    add(&line, "{\"time\":\"");
    add_time(&line, now);
    add(&line, "\",\"level\":\"");
    add(&line, pccl_logger_level_name(level));
    add(&line, "\",\"subsystem\":");
    add_quoted(&line, subsystem, SUBSYSTEM_MAX);
    add(&line, ",\"message\":");
    add_quoted(&line, message, MESSAGE_MAX);
    if (fields->run != NULL)
        add_json_id(&line, "run", fields->run);
    if (fields->peer != NULL)
        add_json_id(&line, "peer", fields->peer);
    if (fields->has_operation) {
        add(&line, ",\"operation\":{\"group\":");
        add_u64(&line, fields->group);
        add(&line, ",\"tag\":");
        add_u64(&line, fields->tag);
        add(&line, ",\"use\":");
        add_u64(&line, fields->use);
        add(&line, "}");
    }
    if (fields->reason != NULL) {
        add(&line, ",\"reason\":");
        add_quoted(&line, fields->reason, REASON_MAX);
    }
    add(&line, "}");
    out[line.length++] = '\n';
    return line.length;
}

pccl_logger_format *pccl_log_format_find(const char *name)
{
    if (strcmp(name, "text") == 0)
        return pccl_log_format_text;
    if (strcmp(name, "logfmt") == 0)
        return pccl_log_format_logfmt;
    return strcmp(name, "json") == 0 ? pccl_log_format_json : NULL;
}
