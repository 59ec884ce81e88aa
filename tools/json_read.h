/* Reads JSON that other processes have written. Any text gives values or is refused. */
#ifndef PCCL_TOOLS_JSON_READ_H
#define PCCL_TOOLS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    enum json_type type;
    uint32_t values;  /* number of values in it, including itself and the ones inside of its items */
    const char *key;  /* in an object, else NULL; may contain control characters */
    const char *text; /* string: its content, up to a NUL character; number: as written; else "" */
    double number;    /* 0 if it is not a number */
};

/*
 * Returns the value of the text, whose items follow it, or NULL if the text is not JSON, has more than 32 levels, or if
 * memory is short. json_free frees it; its strings are valid until then. If `torn` is not NULL, the end of the text may
 * be missing: sets *torn then, and leaves out the incomplete member of the object, or the incomplete item of its list.
 */
const struct json_value *json_read(const char *text, bool *torn);
void json_free(const struct json_value *root);

/* Visit the items of an array or an object: NULL if there are no more, or if it is another value or NULL. */
const struct json_value *json_first(const struct json_value *list);
const struct json_value *json_next(const struct json_value *list, const struct json_value *item);
uint32_t json_count(const struct json_value *list);

/* Return a member of an object, or NULL, "", 0 or false for a member that is missing or has another type. */
const struct json_value *json_get(const struct json_value *object, const char *key);
const char *json_string(const struct json_value *object, const char *key);
double json_number(const struct json_value *object, const char *key);
bool json_is(const struct json_value *object, const char *key);

#endif
