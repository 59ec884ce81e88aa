/*
 * Keyed hashes for tables. A stranger who does not know the key cannot create ids, tags or addresses that collide: for
 * any two different inputs, the probability of equal hashes over all keys is about 2^-32. These are not cryptographic
 * hashes, so strangers must never see their values.
 */
#ifndef PCCL_CORE_HASH_H
#define PCCL_CORE_HASH_H

#include "core/base.h"

enum { PCCL_HASH_WORDS = 11 };

struct pccl_hash_key {
    uint64_t factors[PCCL_HASH_WORDS];
    uint64_t odd[2];
};

void pccl_hash_key_init(struct pccl_hash_key *key, uint64_t seed);
/*
 * Hashes up to PCCL_HASH_WORDS words. All keys of a table must have the same number of words. Multilinear hashing
 * (Carter, Wegman): only the upper half of the sum is the hash; returning the lower half, too, does no harm. Inline
 * because it dominates the cost of a look-up.
 */
static inline uint64_t pccl_hash_words(const struct pccl_hash_key *key, const uint32_t *words, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += key->factors[i] * words[i];
    return sum;
}
/*
 * Maps hashes or other numbers evenly to 2^(64 - shift) places, where shift is 1 to 63. The second multiplication makes
 * collisions of any two values improbable (Dietzfelbinger). The first one breaks up arithmetic sequences, which would
 * otherwise share places under some keys.
 */
static inline uint32_t pccl_hash_place(const struct pccl_hash_key *key, uint64_t value, uint32_t shift)
{
    value *= key->odd[0];
    value ^= value >> 32;
    return (uint32_t)(value * key->odd[1] >> shift);
}

#endif
