#include "ops/json.h"

static void begin_item(struct pccl_json *json, const char *key)
{
    if (json->comma)
        pccl_print_add_bytes(json->print, ",", 1);
    if (json->line)
        pccl_print_add_bytes(json->print, "\n", 1);
    else if (json->indents && (json->depth == 1 || json->depth == 2))
        pccl_print_add_bytes(json->print, "\n  ", json->depth);
    json->comma = true;
    json->line = false;
    if (key == NULL)
        return;
    pccl_print_add_quoted(json->print, key);
    pccl_print_add_bytes(json->print, ":", 1);
}

void pccl_json_open(struct pccl_json *json, const char *key, char bracket)
{
    begin_item(json, key);
    pccl_print_add_bytes(json->print, &bracket, 1);
    json->comma = false;
    json->depth++;
}

void pccl_json_close(struct pccl_json *json, char bracket)
{
    PCCL_ASSERT(json->depth > 0);
    json->depth--;
    if (json->indents && json->depth == 0)
        pccl_print_add_bytes(json->print, "\n", 1);
    pccl_print_add_bytes(json->print, &bracket, 1);
    json->comma = true;
}

void pccl_json_bytes(struct pccl_json *json, const char *key, const char *value, size_t length)
{
    begin_item(json, key);
    pccl_print_add_quoted_bytes(json->print, value, length);
}

void pccl_json_string(struct pccl_json *json, const char *key, const char *value)
{
    begin_item(json, key);
    pccl_print_add_quoted(json->print, value);
}

void pccl_json_number(struct pccl_json *json, const char *key, uint64_t value)
{
    begin_item(json, key);
    pccl_print_format(json->print, "%" PRIu64, value);
}

void pccl_json_begin_line(struct pccl_json *json) { json->line = true; }

void pccl_json_double(struct pccl_json *json, const char *key, double value)
{
    begin_item(json, key);
    pccl_print_add_double(json->print, value);
}

void pccl_json_token(struct pccl_json *json, const char *key, const char *token)
{
    begin_item(json, key);
    pccl_print_add(json->print, token);
}

void pccl_json_text(struct pccl_json *json, const char *key, const char *text, size_t length)
{
    begin_item(json, key);
    pccl_print_add_bytes(json->print, text, length);
}

void pccl_json_bool(struct pccl_json *json, const char *key, bool value)
{
    pccl_json_token(json, key, value ? "true" : "false");
}

void pccl_json_null(struct pccl_json *json, const char *key) { pccl_json_token(json, key, "null"); }

void pccl_json_id(struct pccl_json *json, const char *key, const struct pccl_id *id)
{
    begin_item(json, key);
    pccl_print_add_bytes(json->print, "\"", 1);
    pccl_print_add_id(json->print, id);
    pccl_print_add_bytes(json->print, "\"", 1);
}
