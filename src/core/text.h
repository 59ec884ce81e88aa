/*
 * A bounded text builder for code that may not call snprintf. Text that is too long is cut; it is
 * always terminated.
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
 * Returns the length of the printable UTF-8 character at the beginning; 0 if there is a control, a line separator, an
 * invisible character such as a direction mark, a broken or overlong sequence, or a surrogate. Only printable
 * characters are in texts and travel in them.
 */
size_t pccl_text_character(const char *bytes, size_t length);
/* Returns the length of a string; reads at most `most` bytes. */
size_t pccl_string_length(const char *string, size_t most);

void pccl_text_clear(struct pccl_text *text);
void pccl_text_add(struct pccl_text *text, const char *words);
void pccl_text_add_bytes(struct pccl_text *text, const char *bytes, size_t length); /* unprintable bytes become '?' */
void pccl_text_add_u64(struct pccl_text *text, uint64_t value);
/*
 * Supports the conversions of printf in our messages: %s, whose unprintable bytes become '?', %u, %zu, PRIu64 and %%.
 * Convert anything else to a string first: pccl_duration_str, pccl_id_str, pccl_address_str.
 */
PCCL_PRINTF(2, 3) void pccl_text_format(struct pccl_text *text, const char *format, ...); /* replaces the text */
PCCL_PRINTF(2, 0) void pccl_text_format_list(struct pccl_text *text, const char *format, va_list arguments);
/* Replaces the text by the reason of a failure, and returns its status. */
PCCL_PRINTF(3, 4)
enum pccl_status pccl_fail(struct pccl_text *reason, enum pccl_status status, const char *format, ...);
PCCL_PRINTF(2, 3) void pccl_text_append(struct pccl_text *text, const char *format, ...); /* appends */
PCCL_PRINTF(2, 0) void pccl_text_append_list(struct pccl_text *text, const char *format, va_list arguments);

/* Formats "12.3 s" or "45 ms". The string of pccl_duration_str lasts as long as the block around it. */
const char *pccl_duration_text(uint64_t microseconds, struct pccl_text *text);
#define pccl_duration_str(microseconds) pccl_duration_text(microseconds, &(struct pccl_text){.length = 0})

#endif
