/* Results of the doctor's checks. */
#ifndef PCCL_TOOLS_DOCTOR_FINDINGS_H
#define PCCL_TOOLS_DOCTOR_FINDINGS_H

#include "core/base.h"
#include "core/text.h"
#include "ops/json.h"

#include <stdbool.h>
#include <stddef.h>

enum finding_level {
    FINDING_OK,
    FINDING_NOTE, /* it works, but could be better */
    FINDING_BAD,
};

struct finding {
    enum finding_level level;
    const char *check;     /* its name; static */
    struct pccl_text text; /* the result */
    struct pccl_text fix;  /* the remedy, usually a command; "": none */
};

struct findings {
    struct finding *list; /* owned */
    size_t count, capacity;
    bool prints; /* prints findings when they are added */
    bool lost;   /* memory was short, so some are missing */
};

/*
 * Add a finding. They support the conversions of printf, and replace unprintable characters, because texts of the
 * system and the network must not control the terminal.
 */
PCCL_PRINTF(3, 4) void findings_ok(struct findings *findings, const char *check, const char *format, ...);
PCCL_PRINTF(4, 5)
void findings_note(struct findings *findings, const char *check, const char *fix, const char *format, ...);
PCCL_PRINTF(4, 5)
void findings_bad(struct findings *findings, const char *check, const char *fix, const char *format, ...);
/* Prints the findings from this one on. */
void findings_print(const struct findings *findings, size_t first);
/* Prints a title for the findings that follow. */
PCCL_PRINTF(2, 3) void findings_title(const struct findings *findings, const char *format, ...);
/* Returns true if no finding is bad. */
bool findings_are_well(const struct findings *findings);
/* Returns true if this check has failed. */
bool findings_have_bad(const struct findings *findings, const char *check);
/* Writes the member "findings". */
void findings_to_json(const struct findings *findings, struct pccl_json *json);
void findings_free(struct findings *findings);

#endif
