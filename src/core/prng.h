/* Seeded pseudo-random numbers (xoshiro256**). Deterministic; not for secrets. */
#ifndef PCCL_CORE_PRNG_H
#define PCCL_CORE_PRNG_H

#include "core/base.h"
#include "core/id.h"

struct pccl_prng {
    uint64_t state[4];
};

/* Mixes the bits of a value. Not keyed, so it must not be used for values that a stranger can choose. */
uint64_t pccl_prng_mix(uint64_t value);
void pccl_prng_seed(struct pccl_prng *prng, uint64_t seed);
uint64_t pccl_prng_u64(struct pccl_prng *prng);
uint64_t pccl_prng_below(struct pccl_prng *prng, uint64_t bound); /* 0 <= result < bound; bound > 0; unbiased */
bool pccl_prng_chance(struct pccl_prng *prng, uint32_t per_million);
struct pccl_id pccl_prng_id(struct pccl_prng *prng);

#endif
