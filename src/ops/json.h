/* Writes JSON, item by item. */
#ifndef PCCL_OPS_JSON_H
#define PCCL_OPS_JSON_H

#include "core/print.h"

struct pccl_json {
    struct pccl_print *print; /* borrowed */
    uint32_t depth;
    bool comma;   /* one is due before the next item */
    bool line;    /* the next item begins a line */
    bool indents; /* items of the object at the top and of its lists begin lines */
};

/* Opens and closes an object or array: '{', '}', '[' or ']'. The key, of an item of an object, else NULL. */
void pccl_json_open(struct pccl_json *json, const char *key, char bracket);
void pccl_json_close(struct pccl_json *json, char bracket);
/* The next item begins a line. */
void pccl_json_begin_line(struct pccl_json *json);
void pccl_json_string(struct pccl_json *json, const char *key, const char *value);
/* Broken UTF-8 and controls become '?'. */
void pccl_json_bytes(struct pccl_json *json, const char *key, const char *value, size_t length);
void pccl_json_number(struct pccl_json *json, const char *key, uint64_t value);
/* Nine significant digits; null for infinities and NaN. */
void pccl_json_double(struct pccl_json *json, const char *key, double value);
void pccl_json_bool(struct pccl_json *json, const char *key, bool value);
void pccl_json_null(struct pccl_json *json, const char *key);
/* Writes a token of JSON unchanged, such as a number that the caller has formatted. */
void pccl_json_token(struct pccl_json *json, const char *key, const char *token);
void pccl_json_id(struct pccl_json *json, const char *key, const struct pccl_id *id); /* all digits */

#endif
