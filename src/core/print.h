/*
 * Builds text of any length up to a limit, for programs and people: JSON, metrics, lists. If memory runs out or the
 * text exceeds the limit, the whole text is discarded and `failed` is set.
 */
#ifndef PCCL_CORE_PRINT_H
#define PCCL_CORE_PRINT_H

#include "core/id.h"
#include "core/memory.h"
#include "core/text.h"

struct pccl_print {
    const struct pccl_memory *memory; /* borrowed; NULL after pccl_print_into */
    char *bytes;                      /* owned, without a terminator; NULL while empty */
    uint32_t length, capacity, most;
    bool failed; /* out of memory or limit exceeded; further text is ignored */
};

void pccl_print_init(struct pccl_print *print, const struct pccl_memory *memory, uint32_t most);
void pccl_print_fini(struct pccl_print *print);
/*
 * Writes to the caller's memory. Text that does not fit is only counted, so a first pass without memory (NULL, 0)
 * computes the required size. No end call is needed.
 */
void pccl_print_into(struct pccl_print *print, char *bytes, size_t size);
/* Appends text unchanged. */
void pccl_print_add(struct pccl_print *print, const char *words);
void pccl_print_add_bytes(struct pccl_print *print, const char *bytes, size_t length);
/* Appends at most PCCL_REASON_MAX bytes without newlines. Supports the conversions of pccl_text_format. */
PCCL_PRINTF(2, 3) void pccl_print_format(struct pccl_print *print, const char *format, ...);
/* Appends a time in seconds, such as "1.000042". */
void pccl_print_add_seconds(struct pccl_print *print, uint64_t microseconds);
/* Appends a number with nine significant digits in JSON form; null for infinities and NaN. */
void pccl_print_add_double(struct pccl_print *print, double value);
/* Appends all digits of the id. */
void pccl_print_add_id(struct pccl_print *print, const struct pccl_id *id);
/*
 * Appends text in double quotes, as in JSON and Prometheus. Escapes quotes, backslashes and newlines, and replaces
 * everything else that is not printable UTF-8 with '?'.
 */
void pccl_print_add_quoted(struct pccl_print *print, const char *words);
void pccl_print_add_quoted_bytes(struct pccl_print *print, const char *bytes, size_t length);

#endif
