/*
 * Bounded text for code that must not call snprintf. Text that is too long is truncated. The text is always terminated.
 */
#ifndef PCCL_CORE_TEXT_H
#define PCCL_CORE_TEXT_H

#include "core/base.h"
#include "core/limits.h"
#include "core/status.h"

#include <inttypes.h>
#include <stdarg.h>

struct pccl_text {
    uint32_t length; /* without the terminator */
    char bytes[PCCL_REASON_MAX + 1];
};

/*
 * Returns the length of the printable UTF-8 character at the beginning of `bytes`. Returns 0 for control characters,
 * line separators, invisible characters such as direction marks, invalid or overlong sequences, and surrogates. Texts
 * contain only printable characters.
 */
size_t pccl_text_character(const char *bytes, size_t length);
/* Returns the length of a string, or `most` if it is longer. */
size_t pccl_string_length(const char *string, size_t most);

void pccl_text_clear(struct pccl_text *text);
void pccl_text_add(struct pccl_text *text, const char *words);
void pccl_text_add_bytes(struct pccl_text *text, const char *bytes, size_t length); /* unprintable bytes become '?' */
void pccl_text_add_u64(struct pccl_text *text, uint64_t value);
/*
 * Supports these printf conversions: %s, whose unprintable bytes become '?', %u, %zu, PRIu64 and %%. Anything else must
 * be converted to a string first: pccl_duration_str, pccl_id_str, pccl_address_str.
 */
PCCL_PRINTF(2, 3) void pccl_text_format(struct pccl_text *text, const char *format, ...);
PCCL_PRINTF(2, 0) void pccl_text_format_list(struct pccl_text *text, const char *format, va_list arguments);
/* Replaces the text with the reason for a failure, and returns the status. */
PCCL_PRINTF(3, 4)
enum pccl_status pccl_fail(struct pccl_text *reason, enum pccl_status status, const char *format, ...);
PCCL_PRINTF(2, 3) void pccl_text_append(struct pccl_text *text, const char *format, ...);
PCCL_PRINTF(2, 0) void pccl_text_append_list(struct pccl_text *text, const char *format, va_list arguments);

/* Formats "12.3 s" or "45 ms". The string returned by pccl_duration_str is valid until the enclosing block ends. */
const char *pccl_duration_text(uint64_t microseconds, struct pccl_text *text);
#define pccl_duration_str(microseconds) pccl_duration_text(microseconds, &(struct pccl_text){.length = 0})

#endif
