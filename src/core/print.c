#include "core/print.h"

#include <string.h>

void pccl_print_init(struct pccl_print *print, const struct pccl_memory *memory, uint32_t most)
{
    *print = (struct pccl_print){.memory = memory, .most = most};
}

void pccl_print_into(struct pccl_print *print, char *bytes, size_t size)
{
    *print =
        (struct pccl_print){.bytes = bytes, .capacity = (uint32_t)pccl_min_u64(size, UINT32_MAX), .most = UINT32_MAX};
}

void pccl_print_fini(struct pccl_print *print)
{
    pccl_release(print->memory, print->bytes, print->capacity);
    print->bytes = NULL;
    print->length = print->capacity = 0;
}

static bool grow(struct pccl_print *print, uint32_t length)
{
    char *grown = pccl_grow(print->memory, print->bytes, &print->capacity, length, 1);
    print->failed = grown == NULL;
    if (grown != NULL)
        print->bytes = grown;
    return grown != NULL;
}

void pccl_print_add_bytes(struct pccl_print *print, const char *bytes, size_t length)
{
    if (print->failed || length == 0)
        return;
    if (length > print->most - print->length) {
        print->failed = true;
        return;
    }
    if (print->memory != NULL && !grow(print, print->length + (uint32_t)length))
        return;
    if (print->length < print->capacity)
        memcpy(print->bytes + print->length, bytes, (size_t)pccl_min_u64(length, print->capacity - print->length));
    print->length += (uint32_t)length;
}

/*
 * Returns the length of the text. Stops one byte after the limit, which is enough to detect that the text is too long.
 */
static size_t length_of(const struct pccl_print *print, const char *words)
{
    return pccl_string_length(words, (size_t)print->most + 1);
}

void pccl_print_add(struct pccl_print *print, const char *words)
{
    pccl_print_add_bytes(print, words, length_of(print, words));
}

void pccl_print_format(struct pccl_print *print, const char *format, ...)
{
    struct pccl_text text;
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(&text, format, arguments);
    va_end(arguments);
    pccl_print_add_bytes(print, text.bytes, text.length);
}

void pccl_print_add_seconds(struct pccl_print *print, uint64_t microseconds)
{
    char fraction[] = ".000000";
    size_t length = sizeof fraction - 1;
    uint64_t rest = microseconds % 1000000;
    for (size_t i = length - 1; i > 0; i--) {
        fraction[i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    pccl_print_format(print, "%" PRIu64, microseconds / 1000000);
    pccl_print_add_bytes(print, fraction, length);
}

/* Computes value = *digits * 10^*power with nine digits. `value` must be > 0. */
static void split_decimal(double value, uint64_t *digits, int *power)
{
    *power = 0;
    for (; value >= 1e9; (*power)++)
        value /= 10;
    for (; value < 1e8; (*power)--)
        value *= 10;
    *digits = (uint64_t)(value + 0.5);
}

void pccl_print_add_double(struct pccl_print *print, double value)
{
    uint64_t digits;
    int power;
    if (!(value - value == 0)) {
        pccl_print_add(print, "null");
        return;
    }
    if (value == 0) {
        pccl_print_add(print, "0");
        return;
    }
    split_decimal(value < 0 ? -value : value, &digits, &power);
    for (; digits % 10 == 0; power++)
        digits /= 10;
    pccl_print_format(print, "%s%" PRIu64, value < 0 ? "-" : "", digits);
    if (power != 0)
        pccl_print_format(print, power < 0 ? "e-%u" : "e%u", (unsigned)(power < 0 ? -power : power));
}

void pccl_print_add_id(struct pccl_print *print, const struct pccl_id *id)
{
    char digits[2 * sizeof id->bytes];
    pccl_id_write(id, digits, sizeof digits);
    pccl_print_add_bytes(print, digits, sizeof digits);
}

void pccl_print_add_quoted(struct pccl_print *print, const char *words)
{
    pccl_print_add_quoted_bytes(print, words, length_of(print, words));
}

void pccl_print_add_quoted_bytes(struct pccl_print *print, const char *bytes, size_t length)
{
    pccl_print_add_bytes(print, "\"", 1);
    while (length > 0) {
        size_t character = pccl_text_character(bytes, length), taken = character > 0 ? character : 1;
        if (*bytes == '"' || *bytes == '\\')
            pccl_print_add_bytes(print, "\\", 1);
        if (*bytes == '\n')
            pccl_print_add_bytes(print, "\\n", 2);
        else
            pccl_print_add_bytes(print, character > 0 ? bytes : "?", taken);
        bytes += taken;
        length -= taken;
    }
    pccl_print_add_bytes(print, "\"", 1);
}
