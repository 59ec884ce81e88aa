#include "doctor/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {[FINDING_OK] = "ok", [FINDING_NOTE] = "note", [FINDING_BAD] = "bad"};

/* ---- adding ---- */

static void print(const struct finding *finding)
{
    printf("  %-5s%-12s%s\n", levels[finding->level], finding->check, finding->text.bytes);
    if (finding->fix.length > 0)
        printf("       %-12sfix: %s\n", "", finding->fix.bytes);
    (void)fflush(stdout);
}

void findings_print(const struct findings *findings, size_t first)
{
    for (size_t i = first; findings->prints && i < findings->count; i++)
        print(&findings->list[i]);
}

/* Returns room for one more, or NULL if memory is short. */
static struct finding *grow(struct findings *findings)
{
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity > 0 ? 2 * findings->capacity : 32;
        struct finding *list = realloc(findings->list, capacity * sizeof *list);
        if (list == NULL) {
            findings->lost = true;
            return NULL;
        }
        findings->list = list;
        findings->capacity = capacity;
    }
    return &findings->list[findings->count++];
}

PCCL_PRINTF(5, 0)
static void add(struct findings *findings, enum finding_level level, const char *check, const char *fix,
                const char *format, va_list arguments)
{
    char text[PCCL_REASON_MAX + 1];
    struct finding *finding = grow(findings);
    if (finding == NULL)
        return;
    (void)vsnprintf(text, sizeof text, format, arguments);
    finding->level = level;
    finding->check = check;
    pccl_text_clear(&finding->text);
    pccl_text_add(&finding->text, text);
    pccl_text_clear(&finding->fix);
    pccl_text_add(&finding->fix, fix);
    if (findings->prints)
        print(finding);
}

void findings_ok(struct findings *findings, const char *check, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(findings, FINDING_OK, check, "", format, arguments);
    va_end(arguments);
}

void findings_note(struct findings *findings, const char *check, const char *fix, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(findings, FINDING_NOTE, check, fix, format, arguments);
    va_end(arguments);
}

void findings_bad(struct findings *findings, const char *check, const char *fix, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(findings, FINDING_BAD, check, fix, format, arguments);
    va_end(arguments);
}

void findings_title(const struct findings *findings, const char *format, ...)
{
    char text[PCCL_REASON_MAX + 1];
    struct pccl_text shown;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pccl_text_clear(&shown);
    pccl_text_add(&shown, text);
    if (findings->prints)
        printf("%s\n", shown.bytes);
}

/* ---- results ---- */

bool findings_have_bad(const struct findings *findings, const char *check)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->list[i].level == FINDING_BAD && strcmp(findings->list[i].check, check) == 0)
            return true;
    return false;
}

bool findings_are_well(const struct findings *findings)
{
    bool well = !findings->lost;
    for (size_t i = 0; i < findings->count; i++)
        well = well && findings->list[i].level != FINDING_BAD;
    return well;
}

void findings_to_json(const struct findings *findings, struct pccl_json *json)
{
    pccl_json_open(json, "findings", '[');
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        pccl_json_begin_line(json);
        pccl_json_open(json, NULL, '{');
        pccl_json_string(json, "check", finding->check);
        pccl_json_string(json, "level", levels[finding->level]);
        pccl_json_string(json, "text", finding->text.bytes);
        pccl_json_string(json, "fix", finding->fix.bytes);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
}

void findings_free(struct findings *findings) { free(findings->list); }
