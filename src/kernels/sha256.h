/*
 * Block function of SHA-256 (FIPS 180-4), which processes as many messages at once as a vector has lanes. Word t of the
 * block of message i is the 32-bit word 16 t + i of a stripe. Only variants include this file, after selecting their
 * instruction set and defining LANES, which must divide PCCL_SHA256_LANES.
 */
#ifndef PCCL_KERNELS_SHA256_H
#define PCCL_KERNELS_SHA256_H

#include "kernels/variant.h"

#include <string.h>

typedef uint32_t sha_words __attribute__((vector_size(LANES * sizeof(uint32_t))));

static const uint32_t sha_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* Macros, so that indices are constants and all values stay in registers. */
#define SHA_ROTATE(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
#define SHA_SCHEDULE(t)                                                                                                \
    (w[t] += (SHA_ROTATE(w[((t) + 1) & 15], 7) ^ SHA_ROTATE(w[((t) + 1) & 15], 18) ^ (w[((t) + 1) & 15] >> 3)) +       \
             w[((t) + 9) & 15] +                                                                                       \
             (SHA_ROTATE(w[((t) + 14) & 15], 17) ^ SHA_ROTATE(w[((t) + 14) & 15], 19) ^ (w[((t) + 14) & 15] >> 10)))
#define SHA_ROUND(a, b, c, d, e, f, g, h, t)                                                                           \
    do {                                                                                                               \
        if (first > 0)                                                                                                 \
            SHA_SCHEDULE(t);                                                                                           \
        sha_words sum = v[h] + (SHA_ROTATE(v[e], 6) ^ SHA_ROTATE(v[e], 11) ^ SHA_ROTATE(v[e], 25)) +                   \
                        ((v[e] & v[f]) ^ (~v[e] & v[g])) + sha_constants[first + (t)] + w[t];                          \
        v[d] += sum;                                                                                                   \
        v[h] = sum + (SHA_ROTATE(v[a], 2) ^ SHA_ROTATE(v[a], 13) ^ SHA_ROTATE(v[a], 22)) +                             \
               ((v[a] & v[b]) | (v[c] & (v[a] | v[b])));                                                               \
    } while (0)
#define SHA_ROUNDS(t)                                                                                                  \
    SHA_ROUND(0, 1, 2, 3, 4, 5, 6, 7, (t));                                                                            \
    SHA_ROUND(7, 0, 1, 2, 3, 4, 5, 6, (t) + 1);                                                                        \
    SHA_ROUND(6, 7, 0, 1, 2, 3, 4, 5, (t) + 2);                                                                        \
    SHA_ROUND(5, 6, 7, 0, 1, 2, 3, 4, (t) + 3);                                                                        \
    SHA_ROUND(4, 5, 6, 7, 0, 1, 2, 3, (t) + 4);                                                                        \
    SHA_ROUND(3, 4, 5, 6, 7, 0, 1, 2, (t) + 5);                                                                        \
    SHA_ROUND(2, 3, 4, 5, 6, 7, 0, 1, (t) + 6);                                                                        \
    SHA_ROUND(1, 2, 3, 4, 5, 6, 7, 0, (t) + 7)

/* Loads a big-endian word of each message. */
static inline sha_words sha_load(const uint8_t *bytes)
{
    sha_words word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = ((word & 0xff00ff00) >> 8) | ((word & 0x00ff00ff) << 8);
    word = SHA_ROTATE(word, 16);
#endif
    return word;
}

/* Processes the lanes of one vector, beginning with `lane`, through all stripes. */
static inline void sha_lanes(uint32_t state[8][PCCL_SHA256_LANES], int lane, const uint8_t *stripes, size_t count)
{
    sha_words s[8] = {{0}}, v[8], w[16] = {{0}}; /* zeroed for the analyzer, which does not follow loops to their end */
    for (int i = 0; i < 8; i++)
        memcpy(&s[i], &state[i][lane], sizeof s[i]);
    for (size_t stripe = 0; stripe < count; stripe++, stripes += PCCL_SHA256_STRIPE) {
        for (int i = 0; i < 16; i++)
            w[i] = sha_load(stripes + (size_t)i * PCCL_SHA256_LANES * sizeof(uint32_t));
        memcpy(v, s, sizeof v);
        for (int first = 0; first < 64; first += 16) {
            SHA_ROUNDS(0);
            SHA_ROUNDS(8);
        }
        for (int i = 0; i < 8; i++)
            s[i] += v[i];
    }
    for (int i = 0; i < 8; i++)
        memcpy(&state[i][lane], &s[i], sizeof s[i]);
}

static inline void sha256(uint32_t state[8][PCCL_SHA256_LANES], const uint8_t *stripes, size_t count)
{
    for (int lane = 0; lane < PCCL_SHA256_LANES; lane += LANES)
        sha_lanes(state, lane, stripes + (size_t)lane * sizeof(uint32_t), count);
}

#endif
