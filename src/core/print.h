/*
 * Text of any length up to a limit, for pages that programs and people read: JSON, metrics, lists.
 * When memory or the limit ends, the text is lost as a whole, and the owner sees `failed`.
 */
#ifndef PCCL_CORE_PRINT_H
#define PCCL_CORE_PRINT_H

#include "core/id.h"
#include "core/memory.h"
#include "core/text.h"

struct pccl_print {
    const struct pccl_memory *memory; /* borrowed; NULL: of pccl_print_into */
    char *bytes;                      /* owned, without a terminator; NULL: none yet */
    uint32_t length, capacity, most;
    bool failed; /* memory or the limit has ended; nothing is added any more */
};

void pccl_print_init(struct pccl_print *print, const struct pccl_memory *memory, uint32_t most);
void pccl_print_fini(struct pccl_print *print);
/*
 * Writes into memory of the caller's, and never beyond it: what does not fit is counted only. So a
 * first pass without memory (NULL, 0) tells how much is needed. It needs no end.
 */
void pccl_print_into(struct pccl_print *print, char *bytes, size_t size);
/* As it is. */
void pccl_print_add(struct pccl_print *print, const char *words);
void pccl_print_add_bytes(struct pccl_print *print, const char *bytes, size_t length);
/* At most PCCL_REASON_MAX bytes, and no line ends: see pccl_text_format. */
PCCL_PRINTF(2, 3) void pccl_print_format(struct pccl_print *print, const char *format, ...);
/* Seconds, as "1.000042". */
void pccl_print_add_seconds(struct pccl_print *print, uint64_t microseconds);
/* Nine significant digits, as JSON reads it; what is no number: null. */
void pccl_print_add_double(struct pccl_print *print, double value);
/* All digits. */
void pccl_print_add_id(struct pccl_print *print, const struct pccl_id *id);
/* In double quotes, with \", \\ and \n; what is no printable UTF-8 becomes '?'. As JSON and Prometheus read it. */
void pccl_print_add_quoted(struct pccl_print *print, const char *words);
void pccl_print_add_quoted_bytes(struct pccl_print *print, const char *bytes, size_t length);

#endif
