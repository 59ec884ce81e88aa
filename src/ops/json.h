/* Writes JSON, item by item. */
#ifndef PCCL_OPS_JSON_H
#define PCCL_OPS_JSON_H

#include "core/print.h"

struct pccl_json {
    struct pccl_print *print; /* borrowed */
    uint32_t depth;
    bool comma;   /* a comma must precede the next item */
    bool line;    /* the next item begins a new line */
    bool indents; /* items of the top-level object and of its lists begin new lines */
};

/*
 * Open and close an object or array: '{', '}', '[' or ']'. key: NULL unless the item is in an object; the same applies
 * to the functions below.
 */
void pccl_json_open(struct pccl_json *json, const char *key, char bracket);
void pccl_json_close(struct pccl_json *json, char bracket);
/* Makes the next item begin a new line. */
void pccl_json_begin_line(struct pccl_json *json);
void pccl_json_string(struct pccl_json *json, const char *key, const char *value);
/* Writes a string. Replaces invalid UTF-8 and control characters with '?'. */
void pccl_json_bytes(struct pccl_json *json, const char *key, const char *value, size_t length);
void pccl_json_number(struct pccl_json *json, const char *key, uint64_t value);
/* Writes nine significant digits, or null for infinities and NaN. */
void pccl_json_double(struct pccl_json *json, const char *key, double value);
void pccl_json_bool(struct pccl_json *json, const char *key, bool value);
void pccl_json_null(struct pccl_json *json, const char *key);
/* Writes a JSON token unchanged, for example a number that the caller has formatted. */
void pccl_json_token(struct pccl_json *json, const char *key, const char *token);
/* Writes JSON text unchanged. */
void pccl_json_text(struct pccl_json *json, const char *key, const char *text, size_t length);
void pccl_json_id(struct pccl_json *json, const char *key, const struct pccl_id *id); /* writes all digits */

#endif
