/*
 * Text of any length up to a limit, for pages that programs and people read: JSON, metrics, lists. If memory or the
 * limit ends, the text is lost as a whole, and the owner sees `failed`.
 */
#ifndef PCCL_CORE_PRINT_H
#define PCCL_CORE_PRINT_H

#include "core/id.h"
#include "core/memory.h"
#include "core/text.h"

struct pccl_print {
    const struct pccl_memory *memory; /* borrowed; NULL after pccl_print_into */
    char *bytes;                      /* owned, without a terminator; NULL: none yet */
    uint32_t length, capacity, most;
    bool failed; /* memory or the limit has ended; later additions are ignored */
};

void pccl_print_init(struct pccl_print *print, const struct pccl_memory *memory, uint32_t most);
void pccl_print_fini(struct pccl_print *print);
/*
 * Writes into the caller's memory, and never beyond it: excess text is only counted. So a first pass without memory
 * (NULL, 0) returns the required size. Needs no end call.
 */
void pccl_print_into(struct pccl_print *print, char *bytes, size_t size);
/* Appends unchanged text. */
void pccl_print_add(struct pccl_print *print, const char *words);
void pccl_print_add_bytes(struct pccl_print *print, const char *bytes, size_t length);
/* Appends at most PCCL_REASON_MAX bytes, without line ends: see pccl_text_format. */
PCCL_PRINTF(2, 3) void pccl_print_format(struct pccl_print *print, const char *format, ...);
/* Appends seconds, as "1.000042". */
void pccl_print_add_seconds(struct pccl_print *print, uint64_t microseconds);
/* Appends nine significant digits, in JSON form; null for infinities and NaN. */
void pccl_print_add_double(struct pccl_print *print, double value);
/* Appends all digits. */
void pccl_print_add_id(struct pccl_print *print, const struct pccl_id *id);
/*
 * Appends text in double quotes, with \", \\ and
 * ; everything but printable UTF-8 becomes '?'. In the form of JSON and Prometheus.
 */
void pccl_print_add_quoted(struct pccl_print *print, const char *words);
void pccl_print_add_quoted_bytes(struct pccl_print *print, const char *bytes, size_t length);

#endif
