/*
 * Reads the configuration file: lines `key = value` in a small subset of TOML. A value is a string in double quotes
 * (with \" \\ \n \t \r) or in single quotes (without escapes), a number, true or false. The value of listen may also be
 * an array of strings, which may span several lines. '#' begins a comment.
 */
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 * 1024, KEY_BYTES_MAX = 64 };

struct reader {
    struct settings *settings;
    const char *path;
    const char *at; /* the text ends with a null byte */
    unsigned line;
    unsigned seen[SETTING_COUNT + 1]; /* line of each key, in order of appearance */
    char keys[SETTING_COUNT + 1][KEY_BYTES_MAX];
    unsigned key_count;
    struct settings_problem *problem;
};

static bool fail(struct reader *reader, unsigned line, const char *words)
{
    settings_explain(reader->problem, "%s:%u: %s", reader->path, line, words);
    return false;
}

static void skip_blanks(struct reader *reader) { reader->at += strspn(reader->at, " \t"); }

static void skip_comment(struct reader *reader)
{
    if (*reader->at == '#')
        reader->at += strcspn(reader->at, "\n");
}

/* Moves to the next line if the current one ends here. */
static bool next_line(struct reader *reader)
{
    const char *end = reader->at + (reader->at[0] == '\r');
    if (*end != '\n')
        return false;
    reader->at = end + 1;
    reader->line++;
    return true;
}

/* Skips blanks, comments and line ends inside an array. */
static void skip_all(struct reader *reader)
{
    do {
        skip_blanks(reader);
        skip_comment(reader);
    } while (next_line(reader));
}

static bool add_byte(struct reader *reader, char *out, size_t *length, char byte)
{
    if (*length + 1 >= SETTING_BYTES_MAX)
        return fail(reader, reader->line, "the text is too long");
    out[(*length)++] = byte;
    return true;
}

static bool read_string(struct reader *reader, char *out)
{
    static const char escapes[] = "\"\\ntr", meanings[] = "\"\\\n\t\r";
    char quote = *reader->at++;
    size_t length = 0;
    while (*reader->at != quote) {
        char byte = *reader->at++;
        if (byte == '\0' || byte == '\n' || byte == '\r')
            return fail(reader, reader->line, "a closing quote is missing on this line");
        if (byte == '\\' && quote == '"') {
            const char *escape = *reader->at != '\0' ? strchr(escapes, *reader->at) : NULL;
            if (escape == NULL)
                return fail(reader, reader->line, "invalid escape: expected one of \" \\ n t r after a backslash");
            byte = meanings[escape - escapes];
            reader->at++;
        }
        if (!add_byte(reader, out, &length, byte))
            return false;
    }
    reader->at++;
    out[length] = '\0';
    return true;
}

static bool read_bare(struct reader *reader, char *out)
{
    size_t length = strcspn(reader->at, " \t\r\n#,]");
    char text[64];
    bool word;
    if (length == 0)
        return fail(reader, reader->line, "a value is missing after '='");
    if (length >= sizeof text)
        return fail(reader, reader->line, "expected a number, true, false or a quoted text");
    memcpy(text, reader->at, length);
    text[length] = '\0';
    word = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    if (!word && (text[strspn(text, "0123456789_+-.")] != '\0' || strpbrk(text, "0123456789") == NULL))
        return fail(reader, reader->line, "expected a number, true, false or a quoted text");
    size_t used = 0; /* skips the underscores that TOML allows between digits */
    for (size_t i = 0; i < length; i++)
        if (text[i] != '_')
            out[used++] = text[i];
    out[used] = '\0';
    reader->at += length;
    return true;
}

static bool set(struct reader *reader, unsigned line, const char *key, const char *value)
{
    char where[512];
    (void)snprintf(where, sizeof where, "%s:%u", reader->path, line);
    return settings_set(reader->settings, SETTINGS_FILE, line, where, key, value, reader->problem);
}

static bool read_scalar(struct reader *reader, char *out)
{
    return *reader->at == '"' || *reader->at == '\'' ? read_string(reader, out) : read_bare(reader, out);
}

static bool read_array(struct reader *reader, const char *key)
{
    char value[SETTING_BYTES_MAX];
    unsigned line = reader->line;
    bool any = false;
    reader->at++;
    for (skip_all(reader); *reader->at != ']'; skip_all(reader)) {
        if (*reader->at == '\0')
            return fail(reader, line, "the ']' of this array is missing");
        if (*reader->at != '"' && *reader->at != '\'')
            return fail(reader, reader->line, "expected quoted texts separated by commas in the array");
        if (!read_string(reader, value) || !set(reader, reader->line, key, value))
            return false;
        any = true;
        skip_all(reader);
        if (*reader->at == ',')
            reader->at++;
        else if (*reader->at != ']')
            return fail(reader, reader->line, "expected a comma or ']' after a text in an array");
    }
    reader->at++;
    return any || fail(reader, line, "the array is empty");
}

static bool read_key(struct reader *reader, char *key)
{
    size_t length = strspn(reader->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (*reader->at == '[')
        return fail(reader, reader->line, "[tables] are not supported: expected 'key = value'");
    if (length == 0 || length >= KEY_BYTES_MAX)
        return fail(reader, reader->line, "expected 'key = value' or a comment");
    memcpy(key, reader->at, length);
    key[length] = '\0';
    reader->at += length;
    skip_blanks(reader);
    if (*reader->at != '=')
        return fail(reader, reader->line, "'=' is missing after the key");
    reader->at++;
    skip_blanks(reader);
    return true;
}

/* Rejects a key that has been set before. There is always room, because unknown keys are rejected elsewhere. */
static bool note_key(struct reader *reader, const char *key)
{
    for (unsigned i = 0; i < reader->key_count; i++) {
        if (strcmp(reader->keys[i], key) == 0) {
            settings_explain(reader->problem, "%s:%u: '%s' is set twice; the first time is on line %u", reader->path,
                             reader->line, key, reader->seen[i]);
            return false;
        }
    }
    if (reader->key_count > SETTING_COUNT)
        return true;
    memcpy(reader->keys[reader->key_count], key, strlen(key) + 1);
    reader->seen[reader->key_count++] = reader->line;
    return true;
}

static bool read_entry(struct reader *reader)
{
    char key[KEY_BYTES_MAX], value[SETTING_BYTES_MAX];
    if (!read_key(reader, key) || !note_key(reader, key))
        return false;
    if (*reader->at != '[')
        return read_scalar(reader, value) && set(reader, reader->line, key, value);
    if (strcmp(key, "listen") != 0)
        return fail(reader, reader->line, "only listen may be an array");
    return read_array(reader, key);
}

static bool read_all(struct reader *reader)
{
    while (*reader->at != '\0') {
        skip_blanks(reader);
        if (*reader->at != '#' && *reader->at != '\r' && *reader->at != '\n' && *reader->at != '\0' &&
            !read_entry(reader))
            return false;
        skip_blanks(reader);
        skip_comment(reader);
        if (*reader->at != '\0' && !next_line(reader))
            return fail(reader, reader->line, "only a comment may follow the value on this line");
    }
    return true;
}

bool settings_read_file(struct settings *settings, const char *path, struct settings_problem *problem)
{
    struct reader reader = {.settings = settings, .path = path, .line = 1, .problem = problem};
    bool good = false;
    char *text = calloc(1, FILE_BYTES_MAX + 1);
    FILE *file = fopen(path, "r");
    if (file == NULL || text == NULL) {
        settings_explain(problem, "cannot read the configuration file %.300s: %s", path, strerror(errno));
        goto out;
    }
    errno = 0;
    size_t length = fread(text, 1, FILE_BYTES_MAX + 1, file);
    if (ferror(file)) {
        settings_explain(problem, "cannot read the configuration file %.300s: %s", path, strerror(errno));
        goto out;
    }
    if (length > FILE_BYTES_MAX || memchr(text, '\0', length) != NULL) {
        settings_explain(problem, "%.300s is not a configuration file: %s", path,
                         length > FILE_BYTES_MAX ? "it has more than 65536 bytes" : "it has zero bytes");
        goto out;
    }
    settings->file = path;
    reader.at = text;
    good = read_all(&reader);
out:
    free(text);
    if (file != NULL)
        (void)fclose(file);
    return good;
}
