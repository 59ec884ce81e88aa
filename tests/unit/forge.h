/*
 * Makes other bytes with the same XXH3 digest as given bytes; any process can compute them. For each of eight lanes of
 * a block of 1,024 bytes XXH3 adds up the words of the lane, and the products of the halves of each word xor a key that
 * is public. Five words of a lane can be chosen so that both sums stay the same; the other eleven are free.
 */
#ifndef PCCL_TESTS_UNIT_FORGE_H
#define PCCL_TESTS_UNIT_FORGE_H

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { FORGE_BLOCK = 1024, FORGE_LANES = 8, FORGE_STRIPES = 16, FORGE_FREE = 11 };

static inline uint64_t forge_get(const uint8_t *block, size_t stripe, size_t lane)
{
    uint64_t word;
    memcpy(&word, block + stripe * 64 + lane * 8, sizeof word);
    return word;
}

static inline uint64_t forge_key(size_t stripe, size_t lane)
{
    uint64_t key;
    memcpy(&key, XXH3_kSecret + stripe * 8 + lane * 8, sizeof key);
    return key;
}

static inline uint64_t forge_product(uint64_t mixed) { return (mixed & UINT32_MAX) * (mixed >> 32); }

/* Sets word `stripe` of the lane to the word whose mixture with the key has these halves. Returns that word. */
static inline uint64_t forge_put(uint8_t *block, size_t stripe, size_t lane, uint64_t high, uint64_t low)
{
    uint64_t word = forge_key(stripe, lane) ^ (high << 32 | (low & UINT32_MAX));
    memcpy(block + stripe * 64 + lane * 8, &word, sizeof word);
    return word;
}

/*
 * Chooses the last stripes of `forged` so that the lane's sums equal the sums of `block`; the first eleven have the
 * wanted content.
 */
static inline void forge_lane(const uint8_t *block, uint8_t *forged, size_t lane)
{
    uint64_t sum = 0, products = 0;
    for (size_t s = 0; s < FORGE_STRIPES; s++) {
        sum += forge_get(block, s, lane);
        products += forge_product(forge_get(block, s, lane) ^ forge_key(s, lane));
    }
    for (size_t s = 0; s < FORGE_FREE; s++) {
        sum -= forge_get(forged, s, lane);
        products -= forge_product(forge_get(forged, s, lane) ^ forge_key(s, lane));
    }
    /* Three products make the sum of products: 1 times the low part, and 2^31 times the rest, in two products. */
    uint64_t above = products >> 31, half = above < UINT32_MAX ? above : UINT32_MAX;
    sum -= forge_put(forged, 11, lane, products & (((uint64_t)1 << 31) - 1), 1);
    sum -= forge_put(forged, 12, lane, half, (uint64_t)1 << 31);
    sum -= forge_put(forged, 13, lane, above - half, (uint64_t)1 << 31);
    /* Two words whose products are zero make the sum of words: in each of them one half is zero, not the same half. */
    uint64_t key = forge_key(14, lane) & UINT32_MAX; /* low half of word 14, for any high half */
    uint64_t last = (sum - key) & UINT32_MAX;        /* low half of word 15 */
    sum -= forge_put(forged, 15, lane, 0, last ^ (forge_key(15, lane) & UINT32_MAX));
    memcpy(forged + 14 * 64 + lane * 8, &sum, sizeof sum);
}

/*
 * Forges whole blocks only; the remaining bytes keep the wanted content. The last block is left out, because XXH3 reads
 * a part of it twice.
 */
static inline void forge_digest(const uint8_t *bytes, uint8_t *forged, size_t length)
{
    size_t blocks = (length - 1) / FORGE_BLOCK;
    for (size_t b = 0; b < blocks; b++)
        for (size_t lane = 0; lane < FORGE_LANES; lane++)
            forge_lane(bytes + b * FORGE_BLOCK, forged + b * FORGE_BLOCK, lane);
    memcpy(forged + blocks * FORGE_BLOCK, bytes + blocks * FORGE_BLOCK, length - blocks * FORGE_BLOCK);
}

#endif
