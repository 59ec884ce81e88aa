#include "core/text.h"

#include <string.h>

/* Implements strnlen. Without the limit, compilers would turn the loop into a call to strlen. */
size_t pccl_string_length(const char *string, size_t most)
{
    size_t length = 0;
    while (length < most && string[length] != '\0')
        length++;
    return length;
}

void pccl_text_clear(struct pccl_text *text)
{
    text->length = 0;
    text->bytes[0] = '\0';
}

/* Returns the length of the UTF-8 character whose first byte this is, or 0 if no character begins with it. */
static size_t announced_length(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/*
 * Returns true for control characters, and for invisible characters that change the appearance of others: directions,
 * joiners, fillers, tags (Unicode category Cf, and blank letters). They could make a name look like another one, or
 * reverse a log line.
 */
static bool is_invisible(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0, 0x1f},          {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x600, 0x605},
                  {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},
                  {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
                  {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
                  {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                  {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < PCCL_COUNT_OF(ranges) && ranges[i].first <= code; i++)
        if (code <= ranges[i].last)
            return true;
    return false;
}

size_t pccl_text_character(const char *bytes, size_t length)
{
    const uint8_t *at = (const uint8_t *)bytes;
    size_t size = length == 0 ? 0 : announced_length(at[0]);
    if (size == 0 || size > length)
        return 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = size == 1 ? at[0] : at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    bool overlong = code < least[size];
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return overlong || surrogate || is_invisible(code) || code > 0x10ffff ? 0 : size;
}

void pccl_text_add_bytes(struct pccl_text *text, const char *bytes, size_t length)
{
    size_t size;
    for (size_t at = 0; at < length; at += size) {
        size = pccl_text_character(bytes + at, length - at);
        const char *character = size > 0 ? bytes + at : "?";
        size = size > 0 ? size : 1;
        if (size > PCCL_REASON_MAX - text->length)
            break; /* truncates only between characters */
        memcpy(text->bytes + text->length, character, size);
        text->length += (uint32_t)size;
    }
    text->bytes[text->length] = '\0';
}

void pccl_text_add(struct pccl_text *text, const char *words)
{
    /* Longer text is truncated when it is added; the extra 4 bytes keep the last character whole. */
    pccl_text_add_bytes(text, words, pccl_string_length(words, PCCL_REASON_MAX + 4));
}

void pccl_text_add_u64(struct pccl_text *text, uint64_t value)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    pccl_text_add_bytes(text, digits + first, sizeof digits - first);
}

/*
 * Appends one conversion, whose argument is the next of *arguments. `at` is after the '%'. Returns the end of the
 * conversion in the format.
 */
static const char *add_conversion(struct pccl_text *text, const char *at, va_list *arguments)
{
    size_t length = 1;
    switch (*at) {
    case 's': pccl_text_add(text, va_arg(*arguments, const char *)); break;
    case 'u': pccl_text_add_u64(text, va_arg(*arguments, unsigned)); break;
    case 'z':
        length = sizeof "zu" - 1;
        PCCL_ASSERT(at[1] == 'u');
        pccl_text_add_u64(text, va_arg(*arguments, size_t));
        break;
    case 'l':
        length = sizeof PRIu64 - 1;
        PCCL_ASSERT(memcmp(at, PRIu64, length) == 0);
        pccl_text_add_u64(text, va_arg(*arguments, uint64_t));
        break;
    default:
        PCCL_ASSERT(*at == '%');
        pccl_text_add(text, "%");
        break;
    }
    return at + length;
}

void pccl_text_append_list(struct pccl_text *text, const char *format, va_list arguments)
{
    va_list rest; /* a va_list parameter may be an array, so its address cannot be passed */
    va_copy(rest, arguments);
    while (*format != '\0') {
        size_t plain = 0;
        while (format[plain] != '\0' && format[plain] != '%')
            plain++;
        pccl_text_add_bytes(text, format, plain);
        format += plain;
        if (*format == '%')
            format = add_conversion(text, format + 1, &rest);
    }
    va_end(rest);
}

void pccl_text_append(struct pccl_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pccl_text_append_list(text, format, arguments);
    va_end(arguments);
}

void pccl_text_format_list(struct pccl_text *text, const char *format, va_list arguments)
{
    struct pccl_text built; /* an argument may be the text itself */
    pccl_text_clear(&built);
    pccl_text_append_list(&built, format, arguments);
    *text = built;
}

void pccl_text_format(struct pccl_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(text, format, arguments);
    va_end(arguments);
}

enum pccl_status pccl_fail(struct pccl_text *reason, enum pccl_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pccl_text_format_list(reason, format, arguments);
    va_end(arguments);
    return status;
}

const char *pccl_duration_text(uint64_t microseconds, struct pccl_text *text)
{
    uint64_t ms = microseconds / 1000;
    if (ms < 1000)
        pccl_text_format(text, "%" PRIu64 " ms", ms);
    else
        pccl_text_format(text, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
    return text->bytes;
}
