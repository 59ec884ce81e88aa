/*
 * A bounded text builder for code that may not call snprintf. Overlong text is cut, never overrun; always terminated.
 */
#ifndef PCCL_CORE_TEXT_H
#define PCCL_CORE_TEXT_H

#include "core/base.h"
#include "core/id.h"
#include "core/limits.h"

#include <stdarg.h>

struct pccl_text {
    uint32_t length; /* without the terminator */
    char bytes[PCCL_WORDS_MAX + 1];
};

/*
 * The bytes of the printable UTF-8 character at the beginning; 0: none is there (controls, line separators, what is
 * invisible, as marks of direction are, broken or overlong sequences, surrogates). Texts hold only such characters, and
 * only such texts travel.
 */
size_t pccl_text_character(const char *bytes, size_t length);

void pccl_text_clear(struct pccl_text *text);
void pccl_text_add(struct pccl_text *text, const char *words);
void pccl_text_add_bytes(struct pccl_text *text, const char *bytes, size_t length); /* unprintable bytes become '?' */
void pccl_text_add_u64(struct pccl_text *text, uint64_t value);
void pccl_text_add_ms(struct pccl_text *text, uint64_t microseconds);    /* "12.3 s" or "45 ms" */
void pccl_text_add_id(struct pccl_text *text, const struct pccl_id *id); /* the first 8 hexadecimal digits */
/*
 * A small formatter: %s string, %u uint64_t, %i struct pccl_id const *, %t struct pccl_text const *, %d duration in us
 * (uint64_t), %%
 */
void pccl_text_format(struct pccl_text *text, const char *format, ...); /* replaces the text */
void pccl_text_append(struct pccl_text *text, const char *format, ...); /* appends */
void pccl_text_append_list(struct pccl_text *text, const char *format, va_list arguments);

#endif
