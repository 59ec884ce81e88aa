#include "core/siphash.h"

#include "core/bytes.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }

static void rounds(struct state *s, int count)
{
    for (int i = 0; i < count; i++) {
        s->v0 += s->v1;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
    }
}

static void absorb(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    rounds(s, 2);
    s->v0 ^= word;
}

static uint64_t squeeze(struct state *s)
{
    rounds(s, 4);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

void pccl_siphash(const uint8_t key[PCCL_SIPHASH_KEY_BYTES], const void *input, size_t bytes,
                  uint8_t output[PCCL_SIPHASH_BYTES])
{
    const uint8_t *in = input;
    uint64_t k0 = pccl_get(key, 8), k1 = pccl_get(key + 8, 8);
    struct state s = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                      k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    size_t whole = bytes / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        absorb(&s, pccl_get(in + i, 8));
    absorb(&s, pccl_get(in + whole, (uint32_t)(bytes - whole)) | (uint64_t)bytes << 56);
    s.v2 ^= 0xee;
    pccl_put(output, 8, squeeze(&s));
    s.v1 ^= 0xdd;
    pccl_put(output + 8, 8, squeeze(&s));
}
