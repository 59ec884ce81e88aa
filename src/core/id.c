#include "core/id.h"

#include <string.h>

bool pccl_id_equal_secret(const struct pccl_id *a, const struct pccl_id *b)
{
    volatile uint8_t difference = 0; /* volatile, so that the optimizer cannot end the loop early */
    for (size_t i = 0; i < sizeof a->bytes; i++)
        difference = (uint8_t)(difference | (a->bytes[i] ^ b->bytes[i]));
    return difference == 0;
}

int pccl_id_compare(const struct pccl_id *a, const struct pccl_id *b) { return memcmp(a, b, sizeof *a); }

uint32_t pccl_id_find(const struct pccl_id *ids, uint32_t count, const struct pccl_id *id)
{
    uint32_t at = 0;
    while (at < count && !pccl_id_equal(&ids[at], id))
        at++;
    return at;
}

void pccl_id_write(const struct pccl_id *id, char *digits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t byte = id->bytes[i / 2];
        digits[i] = "0123456789abcdef"[i % 2 == 0 ? byte >> 4 : byte & 15];
    }
}

const char *pccl_id_text(const struct pccl_id *id, struct pccl_id_buffer *words)
{
    pccl_id_write(id, words->bytes, PCCL_ID_DIGITS);
    words->bytes[PCCL_ID_DIGITS] = '\0';
    return words->bytes;
}

/*
 * Returns the value of a digit, or 16 if it is invalid. Only lower case is accepted, because only lower case is
 * written.
 */
static uint32_t value_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return (uint32_t)(digit - '0');
    return digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10) : 16;
}

bool pccl_id_read(const char *digits, size_t count, struct pccl_id *id)
{
    memset(id, 0, sizeof *id);
    for (size_t i = 0; i < count; i++) {
        unsigned value = value_of(digits[i]);
        if (value > 15)
            return false;
        id->bytes[i / 2] = (uint8_t)((unsigned)id->bytes[i / 2] << 4 | value);
    }
    return true;
}

uint64_t pccl_id_hash(const struct pccl_hash_key *key, const struct pccl_id *id)
{
    uint32_t words[4];
    _Static_assert(sizeof words == sizeof id->bytes, "all of it");
    memcpy(words, id->bytes, sizeof words);
    return pccl_hash_words(key, words, 4);
}
