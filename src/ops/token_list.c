#include "ops/token_list.h"

#include "ops/json.h"

/* Prints a duration in its two largest units, for example "3d 4h" or "25m 10s". */
static void print_span(struct pccl_print *print, uint64_t seconds)
{
    if (seconds >= 86400)
        pccl_print_format(print, "%" PRIu64 "d %" PRIu64 "h", seconds / 86400, seconds % 86400 / 3600);
    else if (seconds >= 3600)
        pccl_print_format(print, "%" PRIu64 "h %" PRIu64 "m", seconds / 3600, seconds % 3600 / 60);
    else
        pccl_print_format(print, "%" PRIu64 "m %" PRIu64 "s", seconds / 60, seconds % 60);
}

static void print_state(const struct pccl_pass *pass, uint64_t now_s, struct pccl_print *print)
{
    if (pass->revoked_s != 0) {
        pccl_print_add(print, "revoked ");
        print_span(print, now_s - pccl_min_u64(now_s, pass->revoked_s));
        pccl_print_add(print, " ago");
    } else if (pccl_pass_has_expired(pass, now_s)) {
        pccl_print_add(print, "expired ");
        print_span(print, now_s - pass->ends_s);
        pccl_print_add(print, " ago");
    } else if (pccl_pass_is_used_up(pass)) {
        pccl_print_add(print, "used up");
    } else if (pass->ends_s != 0) {
        pccl_print_add(print, "valid for ");
        print_span(print, pass->ends_s - now_s);
    } else {
        pccl_print_add(print, "good");
    }
}

static const char *state_name(const struct pccl_pass *pass, uint64_t now_s)
{
    if (pass->revoked_s != 0)
        return "revoked";
    if (pccl_pass_has_expired(pass, now_s))
        return "expired";
    return pccl_pass_is_used_up(pass) ? "used up" : "valid";
}

/* Writes a number, or null in place of 0. */
static void put_number(struct pccl_json *json, const char *key, uint64_t value)
{
    if (value != 0)
        pccl_json_number(json, key, value);
    else
        pccl_json_null(json, key);
}

void pccl_token_list_json(const struct pccl_token_file *book, uint64_t now_s, struct pccl_print *print)
{
    struct pccl_json json = {.print = print};
    pccl_json_open(&json, NULL, '[');
    for (uint32_t i = 0; i < book->count; i++) {
        const struct pccl_pass *pass = &book->passes[i];
        pccl_json_begin_line(&json);
        pccl_json_open(&json, NULL, '{');
        pccl_json_number(&json, "number", pass->number);
        pccl_json_string(&json, "role", pccl_role_name(pass->role));
        pccl_json_string(&json, "state", state_name(pass, now_s));
        pccl_json_string(&json, "label", pass->label);
        pccl_json_number(&json, "created_s", pass->made_s);
        put_number(&json, "expires_s", pass->ends_s);
        put_number(&json, "revoked_s", pass->revoked_s);
        put_number(&json, "uses", pass->uses);
        pccl_json_number(&json, "used", pass->used);
        pccl_json_close(&json, '}');
    }
    pccl_json_close(&json, ']');
    pccl_print_add(print, "\n");
}

void pccl_token_list(const struct pccl_token_file *book, uint64_t now_s, struct pccl_print *print)
{
    for (uint32_t i = 0; i < book->count; i++) {
        const struct pccl_pass *pass = &book->passes[i];
        pccl_print_format(print, "%u  %s  ", pass->number, pccl_role_name(pass->role));
        print_state(pass, now_s, print);
        if (pass->uses != 0)
            pccl_print_format(print, "  %u of %u uses", pass->used, pass->uses);
        if (pass->label[0] != '\0')
            pccl_print_format(print, "  %s", pass->label);
        pccl_print_add(print, "\n");
    }
}
