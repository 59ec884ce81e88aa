/* xoshiro256** (Blackman, Vigna), seeded by splitmix64. */
#include "core/prng.h"

/* Finalizer of splitmix64. */
uint64_t pccl_prng_mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

static uint64_t rotate_left(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

void pccl_prng_seed(struct pccl_prng *prng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        prng->state[i] = pccl_prng_mix(seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t pccl_prng_u64(struct pccl_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t pccl_prng_below(struct pccl_prng *prng, uint64_t bound)
{
    PCCL_ASSERT(bound > 0);
    uint64_t uneven =
        (UINT64_MAX - bound + 1) % bound; /* 2^64 mod bound, the number of values that would bias the result */
    uint64_t value;
    do
        value = pccl_prng_u64(prng);
    while (value < uneven);
    return value % bound;
}

bool pccl_prng_chance(struct pccl_prng *prng, uint32_t per_million)
{
    return pccl_prng_below(prng, 1000000) < per_million;
}

struct pccl_id pccl_prng_id(struct pccl_prng *prng)
{
    struct pccl_id id;
    for (int half = 0; half < 2; half++) {
        uint64_t value = pccl_prng_u64(prng);
        for (int i = 0; i < 8; i++)
            id.bytes[half * 8 + i] = (uint8_t)(value >> (8 * i));
    }
    return id;
}
