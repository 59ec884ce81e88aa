#include "core/hash.h"

#include "core/prng.h"

void pccl_hash_key_init(struct pccl_hash_key *key, uint64_t seed)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed);
    for (uint32_t i = 0; i < PCCL_HASH_WORDS; i++)
        key->factors[i] = pccl_prng_u64(&prng);
    for (uint32_t i = 0; i < 2; i++)
        key->odd[i] = pccl_prng_u64(&prng) | 1;
}

/*
 * The second product alone makes collisions of any two values improbable (Dietzfelbinger). The
 * first one breaks up arithmetic sequences, many of whose values would otherwise share a place
 * under some keys.
 */
uint32_t pccl_hash_place(const struct pccl_hash_key *key, uint64_t value, uint32_t shift)
{
    value *= key->odd[0];
    value ^= value >> 32;
    return (uint32_t)(value * key->odd[1] >> shift);
}
