/* 128-bit identities: peers, tokens, lineages. */
#ifndef PCCL_CORE_ID_H
#define PCCL_CORE_ID_H

#include "core/base.h"
#include "core/hash.h"

#include <string.h>

enum { PCCL_ID_DIGITS = 8 }; /* number of digits of an id in messages */

struct pccl_id {
    uint8_t bytes[16];
};

struct pccl_id_buffer {
    char bytes[PCCL_ID_DIGITS + 1];
};

static inline bool pccl_id_equal(const struct pccl_id *a, const struct pccl_id *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}
/* Compares in a time that does not depend on the contents, for secrets. */
bool pccl_id_equal_secret(const struct pccl_id *a, const struct pccl_id *b);
static inline bool pccl_id_is_zero(const struct pccl_id *id)
{
    static const struct pccl_id zero = {{0}};
    return pccl_id_equal(id, &zero);
}
int pccl_id_compare(const struct pccl_id *a, const struct pccl_id *b);
/* Returns the first index of the id in the list, or `count` if the list does not contain it. */
uint32_t pccl_id_find(const struct pccl_id *ids, uint32_t count, const struct pccl_id *id);
uint64_t pccl_id_hash(const struct pccl_hash_key *key, const struct pccl_id *id);
/* Writes the first `count` hexadecimal digits, at most 32, without a terminator. */
void pccl_id_write(const struct pccl_id *id, char *digits, size_t count);
/*
 * Formats the abbreviated id that messages contain, its first digits. The string returned by pccl_id_str is valid until
 * the enclosing block ends.
 */
const char *pccl_id_text(const struct pccl_id *id, struct pccl_id_buffer *words);
#define pccl_id_str(id) pccl_id_text(id, &(struct pccl_id_buffer){{0}})
/*
 * Reads the first `count` digits of an id, where `count` is even and at most 32; the other digits become 0. Returns
 * false if a character is not a digit.
 */
PCCL_MUST_CHECK bool pccl_id_read(const char *digits, size_t count, struct pccl_id *id);

#endif
