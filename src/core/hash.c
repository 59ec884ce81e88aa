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

/* The finalizer of splitmix64. */
uint64_t pccl_hash_u64(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}
