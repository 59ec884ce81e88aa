#include "sight/json.h"

#include "core/text.h"

#include <string.h>

static void put(struct pccl_json *json, const char *bytes, size_t length)
{
    if (json->length < json->size)
        memcpy(json->bytes + json->length, bytes, (size_t)pccl_min_u64(length, json->size - json->length));
    json->length += length;
}

static void put_character(struct pccl_json *json, char character) { put(json, &character, 1); }

/* Between quotes. Characters that are printable in our texts are so here; what they are not is shown as '?'. */
static void put_text(struct pccl_json *json, const char *bytes, size_t length)
{
    put_character(json, '"');
    while (length > 0) {
        size_t character = pccl_text_character(bytes, length);
        if (*bytes == '"' || *bytes == '\\')
            put_character(json, '\\');
        if (*bytes == '\n')
            put(json, "\\n", 2);
        else
            put(json, character > 0 ? bytes : "?", character > 0 ? character : 1);
        size_t taken = character > 0 ? character : 1;
        bytes += taken;
        length -= taken;
    }
    put_character(json, '"');
}

/* Of a key or a name; without the bound, compilers would turn it into strlen. */
static size_t length_of(const char *text)
{
    size_t length = 0;
    while (length < PCCL_REASON_MAX && text[length] != '\0')
        length++;
    return length;
}

/* An item of an object of the first level begins a line, and so does one of a list there. */
static void begin_item(struct pccl_json *json, const char *key)
{
    if (json->comma)
        put_character(json, ',');
    if (json->depth == 1 || json->depth == 2)
        put(json, "\n  ", json->depth);
    json->comma = true;
    if (key == NULL)
        return;
    put_text(json, key, length_of(key));
    put_character(json, ':');
}

void pccl_json_open(struct pccl_json *json, const char *key, char bracket)
{
    begin_item(json, key);
    put_character(json, bracket);
    json->comma = false;
    json->depth++;
}

void pccl_json_close(struct pccl_json *json, char bracket)
{
    PCCL_ASSERT(json->depth > 0);
    json->depth--;
    if (json->depth == 0)
        put_character(json, '\n');
    put_character(json, bracket);
    json->comma = true;
}

void pccl_json_bytes(struct pccl_json *json, const char *key, const char *value, size_t length)
{
    begin_item(json, key);
    put_text(json, value, length);
}

void pccl_json_string(struct pccl_json *json, const char *key, const char *value)
{
    pccl_json_bytes(json, key, value, length_of(value));
}

void pccl_json_number(struct pccl_json *json, const char *key, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    begin_item(json, key);
    put(json, digits + at, sizeof digits - at);
}

static void put_word(struct pccl_json *json, const char *key, const char *word)
{
    begin_item(json, key);
    put(json, word, length_of(word));
}

void pccl_json_bool(struct pccl_json *json, const char *key, bool value)
{
    put_word(json, key, value ? "true" : "false");
}

void pccl_json_null(struct pccl_json *json, const char *key) { put_word(json, key, "null"); }

void pccl_json_id(struct pccl_json *json, const char *key, const struct pccl_id *id)
{
    char digits[32];
    pccl_id_write(id, digits, sizeof digits);
    pccl_json_bytes(json, key, digits, sizeof digits);
}
