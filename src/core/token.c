#include "core/token.h"

#include "core/siphash.h"

#include <string.h>

static const char token_prefix[] = "pccl2.", unchecked_prefix[] = "pccl1.";
static const char secret_prefix[] = "pccl-key1: ";
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

_Static_assert(sizeof token_prefix - 1 == 6 && sizeof secret_prefix - 1 == 11, "as PCCL_TOKEN_TEXT and _SECRET_TEXT");
_Static_assert(sizeof unchecked_prefix == sizeof token_prefix, "both versions have prefixes of one length");

void pccl_wipe(void *bytes, size_t length)
{
    volatile uint8_t *byte = bytes;
    while (length-- > 0)
        *byte++ = 0;
}

/* ---- base64url (RFC 4648, 5), without padding ---- */

static char *encode(const uint8_t *bytes, size_t length, char *out)
{
    uint32_t bits = 0, held = 0;
    for (size_t i = 0; i < length; i++) {
        bits = (bits << 8 | bytes[i]) & 0xffff;
        for (held += 8; held >= 6; held -= 6)
            *out++ = alphabet[bits >> (held - 6) & 63];
    }
    if (held > 0)
        *out++ = alphabet[bits << (6 - held) & 63];
    return out;
}

/*
 * Returns the value of a letter, or 64. Always reads the whole alphabet, so that timing reveals nothing about a secret.
 */
static uint32_t value_of(char letter)
{
    uint32_t found = 64;
    for (uint32_t i = 0; i < 64; i++)
        found = alphabet[i] == letter ? i : found;
    return found;
}

/* Decodes `length` bytes. Returns the text after them, or NULL if the letters are invalid. */
static const char *decode(const char *text, uint8_t *bytes, size_t length)
{
    uint32_t bits = 0, held = 0;
    for (size_t i = 0; i < length;) {
        uint32_t value = value_of(*text);
        if (value == 64)
            return NULL;
        text++;
        bits = (bits << 6 | value) & 0x3fff;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        bytes[i++] = (uint8_t)(bits >> held);
    }
    return (bits & ((1u << held) - 1)) == 0 ? text : NULL; /* so that each value has only one text */
}

/* ---- tokens and keys ---- */

static bool is_blank(char letter) { return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t'; }

/* Skips blanks and the prefix. Returns the text after them, or NULL if the text does not begin with the prefix. */
static const char *after(const char *text, const char *prefix)
{
    while (is_blank(*text))
        text++;
    while (*prefix)
        if (*text++ != *prefix++)
            return NULL;
    return text;
}

static bool is_end(const char *text)
{
    while (is_blank(*text))
        text++;
    return *text == '\0';
}

static void checksum_of(const struct pccl_token *token, uint8_t checksum[PCCL_TOKEN_CHECKSUM_BYTES])
{
    uint8_t digest[PCCL_SIPHASH_BYTES];
    _Static_assert(sizeof token->pin == PCCL_SIPHASH_KEY_BYTES, "the pin is the key of the checksum");
    pccl_siphash(token->pin, token->secret.bytes, sizeof token->secret.bytes, digest);
    memcpy(checksum, digest, PCCL_TOKEN_CHECKSUM_BYTES);
}

void pccl_token_write(const struct pccl_token *token, char text[PCCL_TOKEN_TEXT + 1])
{
    uint8_t checked[PCCL_SECRET_BYTES + PCCL_TOKEN_CHECKSUM_BYTES];
    memcpy(checked, token->secret.bytes, PCCL_SECRET_BYTES);
    checksum_of(token, checked + PCCL_SECRET_BYTES);
    memcpy(text, token_prefix, sizeof token_prefix - 1);
    char *end = encode(token->pin, sizeof token->pin, text + sizeof token_prefix - 1);
    *end++ = '.';
    end = encode(checked, sizeof checked, end);
    *end = '\0';
    pccl_wipe(checked, sizeof checked);
    PCCL_ASSERT(end == text + PCCL_TOKEN_TEXT);
}

const char *pccl_token_read(const char *text, struct pccl_token *token)
{
    static const char damaged[] = "this token is damaged: characters are wrong, missing or extra; copy it again";
    uint8_t checked[PCCL_SECRET_BYTES + PCCL_TOKEN_CHECKSUM_BYTES], checksum[PCCL_TOKEN_CHECKSUM_BYTES];
    const char *rest = after(text, token_prefix);
    token->checked = rest != NULL;
    if (rest == NULL)
        rest = after(text, unchecked_prefix);
    if (rest == NULL)
        return "not a master's token: expected one that begins with pccl2. or pccl1.";
    rest = decode(rest, token->pin, sizeof token->pin);
    if (rest == NULL || *rest != '.')
        return damaged;
    size_t length = token->checked ? sizeof checked : PCCL_SECRET_BYTES;
    rest = decode(rest + 1, checked, length);
    memcpy(token->secret.bytes, checked, PCCL_SECRET_BYTES);
    checksum_of(token, checksum);
    bool good = rest != NULL && is_end(rest) &&
                (!token->checked || memcmp(checksum, checked + PCCL_SECRET_BYTES, sizeof checksum) == 0);
    pccl_wipe(checked, sizeof checked);
    return good ? NULL : damaged;
}

void pccl_secret_write(const struct pccl_secret *secret, char text[PCCL_SECRET_TEXT + 1])
{
    memcpy(text, secret_prefix, sizeof secret_prefix - 1);
    char *end = encode(secret->bytes, sizeof secret->bytes, text + sizeof secret_prefix - 1);
    *end = '\0';
    PCCL_ASSERT(end == text + PCCL_SECRET_TEXT);
}

bool pccl_secret_read(const char *text, struct pccl_secret *secret)
{
    text = after(text, secret_prefix);
    text = text ? decode(text, secret->bytes, sizeof secret->bytes) : NULL;
    return text && is_end(text);
}

/* Thresholds that reject at most one in fifty thousand secrets made of random bytes in base64 or hexadecimal. */
enum {
    LETTERS_MIN = 8,  /* minimum number of distinct characters */
    REPEATED_MAX = 7, /* maximum length of a sequence that occurs twice */
    ONE_CASE_MIN = 32 /* minimum length without both upper and lower case, as in hexadecimal: 16 bytes */
};

static bool repeats_itself(const char *text, size_t length)
{
    for (size_t i = 0; i + REPEATED_MAX < length; i++)
        for (size_t k = i + 1; k + REPEATED_MAX < length; k++)
            if (memcmp(text + i, text + k, REPEATED_MAX + 1) == 0)
                return true;
    return false;
}

size_t pccl_shared_secret_length(const char *text)
{
    uint8_t seen[128] = {0};
    size_t length = 0, letters = 0;
    bool capital = false, small = false;
    for (; length <= PCCL_SHARED_TEXT_MAX && text[length] > ' ' && text[length] <= '~'; length++) {
        letters += seen[(uint8_t)text[length]] == 0;
        seen[(uint8_t)text[length]] = 1;
        capital = capital || (text[length] >= 'A' && text[length] <= 'Z');
        small = small || (text[length] >= 'a' && text[length] <= 'z');
    }
    bool good = length >= (capital && small ? PCCL_SHARED_TEXT_MIN : ONE_CASE_MIN) && length <= PCCL_SHARED_TEXT_MAX &&
                letters >= LETTERS_MIN && is_end(text + length) && !repeats_itself(text, length);
    pccl_wipe(seen, sizeof seen);
    return good ? length : 0;
}
