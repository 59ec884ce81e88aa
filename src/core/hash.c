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
