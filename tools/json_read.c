#include "json_read.h"

#include "core/text.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 32, TORN_LEVELS_MAX = 2 /* of lists that may be incomplete */ };

struct reader {
    const char *at;            /* rest of the text */
    struct json_value *values; /* owned; NULL while values are only counted */
    char *strings;             /* rest of the memory for strings */
    uint32_t count;            /* values read */
    uint32_t most;             /* values read, with the ones that were left out */
    int level;
    bool may_be_torn, is_torn;
};

static bool read_value(struct reader *reader, const char *key);

static void skip_blanks(struct reader *reader) { reader->at += strspn(reader->at, " \t\r\n"); }

static bool take(struct reader *reader, char byte)
{
    if (*reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static void put(struct reader *reader, char byte)
{
    if (reader->values != NULL)
        *reader->strings++ = byte;
}

/* Returns the number of four hexadecimal digits, or UINT32_MAX. */
static uint32_t take_four_digits(struct reader *reader)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        char byte = *reader->at;
        byte = (char)(byte >= 'A' && byte <= 'F' ? byte - 'A' + 'a' : byte);
        const char *digit = byte != '\0' ? strchr(digits, byte) : NULL;
        if (digit == NULL)
            return UINT32_MAX;
        value = value << 4 | (uint32_t)(digit - digits);
    }
    return value;
}

/* Writes a character in UTF-8; one that has no UTF-8 becomes '?'. The text has at least as many bytes. */
static void put_character(struct reader *reader, uint32_t character)
{
    if (character >= 0xd800 && character < 0xe000)
        character = '?';
    if (character < 0x80) {
        put(reader, (char)character);
        return;
    }
    int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    put(reader, (char)(first[more] | character >> 6 * more));
    while (more-- > 0)
        put(reader, (char)(0x80 | (character >> 6 * more & 0x3f)));
}

/* Reads the rest of an escape after its 'u', and the second half of a pair. */
static bool read_unicode(struct reader *reader)
{
    uint32_t character = take_four_digits(reader);
    if (character == UINT32_MAX)
        return false;
    const char *before = reader->at;
    if (character >= 0xd800 && character < 0xdc00 && reader->at[0] == '\\' && reader->at[1] == 'u') {
        reader->at += 2;
        uint32_t low = take_four_digits(reader);
        if (low >= 0xdc00 && low < 0xe000)
            character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
        else
            reader->at = before;
    }
    put_character(reader, character);
    return true;
}

static bool read_escape(struct reader *reader)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (take(reader, 'u'))
        return read_unicode(reader);
    const char *found = *reader->at != '\0' ? strchr(escapes, *reader->at) : NULL;
    if (found == NULL)
        return false;
    reader->at++;
    put(reader, meant[found - escapes]);
    return true;
}

static bool read_string(struct reader *reader, const char **text)
{
    *text = reader->strings;
    if (!take(reader, '"'))
        return false;
    while (!take(reader, '"')) {
        if ((unsigned char)*reader->at < ' ')
            return false;
        if (!take(reader, '\\'))
            put(reader, *reader->at++);
        else if (!read_escape(reader))
            return false;
    }
    put(reader, '\0');
    return true;
}

static size_t count_digits(const char *at) { return strspn(at, "0123456789"); }

static bool read_number(struct reader *reader, struct json_value *value)
{
    const char *begin = reader->at;
    (void)take(reader, '-');
    size_t digits = count_digits(reader->at);
    if (digits == 0 || (digits > 1 && *reader->at == '0'))
        return false;
    reader->at += digits;
    if (take(reader, '.')) {
        digits = count_digits(reader->at);
        if (digits == 0)
            return false;
        reader->at += digits;
    }
    if (*reader->at == 'e' || *reader->at == 'E') {
        reader->at++;
        if (!take(reader, '-'))
            (void)take(reader, '+');
        digits = count_digits(reader->at);
        if (digits == 0)
            return false;
        reader->at += digits;
    }
    value->type = JSON_NUMBER;
    value->text = reader->strings;
    value->number = strtod(begin, NULL);
    while (begin < reader->at)
        put(reader, *begin++);
    put(reader, '\0');
    bool may_go_on = *reader->at == '\0' && reader->may_be_torn && reader->level > 0;
    return !may_go_on && fabs(value->number) <= DBL_MAX; /* isfinite of MinGW converts to float */
}

static bool read_item(struct reader *reader, bool has_key)
{
    const char *key = NULL;
    skip_blanks(reader);
    if (has_key) {
        if (!read_string(reader, &key))
            return false;
        skip_blanks(reader);
        if (!take(reader, ':'))
            return false;
    }
    if (!read_value(reader, key))
        return false;
    skip_blanks(reader);
    return true;
}

static bool read_list(struct reader *reader, bool has_keys)
{
    char end = has_keys ? '}' : ']';
    reader->at++;
    skip_blanks(reader);
    if (take(reader, end))
        return true;
    if (reader->level == LEVELS_MAX)
        return false;
    reader->level++;
    uint32_t complete;
    bool good;
    do {
        complete = reader->count;
        good = read_item(reader, has_keys);
    } while (good && take(reader, ','));
    if (*reader->at == '\0' && reader->may_be_torn && reader->level <= TORN_LEVELS_MAX) {
        reader->is_torn = true;
        reader->count = good ? reader->count : complete;
        good = true;
    } else {
        good = good && take(reader, end);
    }
    reader->level--;
    return good;
}

static bool read_word(struct reader *reader, struct json_value *value)
{
    static const struct {
        const char *word;
        enum json_type type;
    } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word), left = pccl_string_length(reader->at, length);
        if (left > 0 && left < length && memcmp(reader->at, words[i].word, left) == 0) {
            reader->at += left; /* a part of the word, at the end of the text */
            return false;
        }
        if (strncmp(reader->at, words[i].word, length) == 0) {
            reader->at += length;
            value->type = words[i].type;
            return true;
        }
    }
    return read_number(reader, value);
}

static bool read_value(struct reader *reader, const char *key)
{
    struct json_value value = {.key = key, .text = ""};
    uint32_t index = reader->count++;
    bool good;
    reader->most = reader->count > reader->most ? reader->count : reader->most;
    skip_blanks(reader);
    switch (*reader->at) {
    case '{':
    case '[':
        value.type = *reader->at == '{' ? JSON_OBJECT : JSON_ARRAY;
        good = read_list(reader, value.type == JSON_OBJECT);
        break;
    case '"':
        value.type = JSON_STRING;
        good = read_string(reader, &value.text);
        break;
    default: good = read_word(reader, &value); break;
    }
    value.values = reader->count - index;
    if (reader->values != NULL)
        reader->values[index] = value;
    return good;
}

const struct json_value *json_read(const char *text, bool *torn)
{
    struct reader counter = {.at = text, .may_be_torn = torn != NULL}, reader = counter;
    if (!read_value(&counter, NULL))
        return NULL;
    skip_blanks(&counter);
    if (*counter.at != '\0' || counter.most > UINT32_MAX / (2 * sizeof *reader.values))
        return NULL;
    /* A string takes at most as many bytes as in the text; the end of a number replaces the byte that follows it. */
    size_t bytes = counter.most * sizeof *reader.values;
    reader.values = malloc(bytes + strlen(text) + 1);
    if (reader.values == NULL)
        return NULL;
    reader.strings = (char *)reader.values + bytes;
    (void)read_value(&reader, NULL);
    if (torn != NULL)
        *torn = reader.is_torn;
    return reader.values;
}

void json_free(const struct json_value *root) { free((void *)(uintptr_t)root); }

/* ---- access ---- */

static bool is_list(const struct json_value *value)
{
    return value != NULL && (value->type == JSON_ARRAY || value->type == JSON_OBJECT);
}

const struct json_value *json_first(const struct json_value *list)
{
    return is_list(list) && list->values > 1 ? list + 1 : NULL;
}

const struct json_value *json_next(const struct json_value *list, const struct json_value *item)
{
    const struct json_value *next = item + item->values;
    return next < list + list->values ? next : NULL;
}

uint32_t json_count(const struct json_value *list)
{
    uint32_t count = 0;
    for (const struct json_value *item = json_first(list); item != NULL; item = json_next(list, item))
        count++;
    return count;
}

const struct json_value *json_get(const struct json_value *object, const char *key)
{
    if (object == NULL || object->type != JSON_OBJECT)
        return NULL;
    for (const struct json_value *item = json_first(object); item != NULL; item = json_next(object, item))
        if (strcmp(item->key, key) == 0)
            return item;
    return NULL;
}

const char *json_string(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_get(object, key);
    return value != NULL && value->type == JSON_STRING ? value->text : "";
}

double json_number(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_get(object, key);
    return value != NULL && value->type == JSON_NUMBER ? value->number : 0;
}

bool json_is(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_get(object, key);
    return value != NULL && value->type == JSON_TRUE;
}
