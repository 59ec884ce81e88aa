/*
 * Keyed hashes for tables. Who does not know the key cannot find things that fall on one another, however many ids,
 * tags and addresses it makes up: of any two that differ, the chance over all keys is about 2^-32 for the same hash. No
 * hash in the sense of cryptography: values must not get to where strangers see them.
 */
#ifndef PCCL_CORE_HASH_H
#define PCCL_CORE_HASH_H

#include "core/base.h"

enum { PCCL_HASH_WORDS = 8 };

struct pccl_hash_key {
    uint64_t factors[PCCL_HASH_WORDS];
    uint64_t odd[2];
};

void pccl_hash_key_init(struct pccl_hash_key *key, uint64_t seed);
/*
 * Of up to PCCL_HASH_WORDS words, as many for all that are in one table. Multilinear hashing (Carter, Wegman): the
 * upper half of the sum is the hash, the lower half does no harm. In the header because it is all that a look-up costs.
 */
static inline uint64_t pccl_hash_words(const struct pccl_hash_key *key, const uint32_t *words, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += key->factors[i] * words[i];
    return sum;
}
/* Spreads hashes, and any other numbers, over 2^(64 - shift) places; shift: 1 to 63. */
uint32_t pccl_hash_place(const struct pccl_hash_key *key, uint64_t value, uint32_t shift);
/* Mixes any 64-bit value into a good one; without a key, so never of what strangers choose. */
uint64_t pccl_hash_u64(uint64_t value);

#endif
