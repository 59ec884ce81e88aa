/* SHA-256 of one message, in the first lane, and of bulk data, in all lanes at once. */
#include "kernels/variant.h"

#include <string.h>

enum { BLOCK = 64, WORD = 4, ROW = PCCL_SHA256_LANES * WORD /* part of a stripe: one word per lane */ };
_Static_assert(PCCL_SHA256_STRIPE == PCCL_SHA256_LANES * BLOCK, "a block of each lane");

static void put_big_endian(uint8_t *bytes, uint32_t word)
{
    for (int i = 0; i < WORD; i++)
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

static void begin_lanes(uint32_t state[8][PCCL_SHA256_LANES])
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 8; i++)
        for (int lane = 0; lane < PCCL_SHA256_LANES; lane++)
            state[i][lane] = initial[i];
}

static void get_lane(uint32_t state[8][PCCL_SHA256_LANES], int lane, uint8_t hash[PCCL_SHA256_BYTES])
{
    for (int i = 0; i < 8; i++)
        put_big_endian(hash + i * WORD, state[i][lane]);
}

/* ---- one message ---- */

void pccl_sha256_begin(struct pccl_sha256 *sha, const struct pccl_kernels *kernels)
{
    *sha = (struct pccl_sha256){.kernels = kernels};
    begin_lanes(sha->state);
}

void pccl_sha256_add(struct pccl_sha256 *sha, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        size_t at = sha->length++ % BLOCK;
        sha->stripe[at / WORD * ROW + at % WORD] = ((const uint8_t *)bytes)[i];
        if (at == BLOCK - 1)
            sha->kernels->sha256(sha->state, sha->stripe, 1);
    }
}

void pccl_sha256_end(struct pccl_sha256 *sha, uint8_t hash[PCCL_SHA256_BYTES])
{
    uint64_t bits = sha->length * 8;
    uint8_t length[8];
    put_big_endian(length, (uint32_t)(bits >> 32));
    put_big_endian(length + WORD, (uint32_t)bits);
    pccl_sha256_add(sha, "\x80", 1);
    while (sha->length % BLOCK != BLOCK - sizeof length)
        pccl_sha256_add(sha, "", 1);
    pccl_sha256_add(sha, length, sizeof length);
    get_lane(sha->state, 0, hash);
}

/* ---- bulk data ---- */

/* Writes the padding for a message of `stripes` blocks, in all lanes. */
static void pad_lanes(uint8_t stripe[PCCL_SHA256_STRIPE], uint64_t stripes)
{
    uint64_t bits = stripes * BLOCK * 8;
    memset(stripe, 0, PCCL_SHA256_STRIPE);
    for (size_t lane = 0; lane < PCCL_SHA256_LANES; lane++) {
        stripe[lane * WORD] = 0x80;
        put_big_endian(stripe + 14 * (size_t)ROW + lane * WORD, (uint32_t)(bits >> 32));
        put_big_endian(stripe + 15 * (size_t)ROW + lane * WORD, (uint32_t)bits);
    }
}

void pccl_bulk_hash(const struct pccl_kernels *kernels, const void *bytes, size_t length,
                    uint8_t hash[PCCL_SHA256_BYTES])
{
    const size_t stripes = length / PCCL_SHA256_STRIPE, whole = stripes * PCCL_SHA256_STRIPE;
    uint32_t state[8][PCCL_SHA256_LANES];
    uint8_t bytes_of_lane[PCCL_SHA256_BYTES], length_bytes[8], padding[PCCL_SHA256_STRIPE];
    struct pccl_sha256 all;
    pccl_sha256_begin(&all, kernels);
    if (stripes > 0) {
        begin_lanes(state);
        kernels->sha256(state, bytes, stripes);
        pad_lanes(padding, stripes);
        kernels->sha256(state, padding, 1);
        for (int lane = 0; lane < PCCL_SHA256_LANES; lane++) {
            get_lane(state, lane, bytes_of_lane);
            pccl_sha256_add(&all, bytes_of_lane, sizeof bytes_of_lane);
        }
    }
    if (length > whole)
        pccl_sha256_add(&all, (const uint8_t *)bytes + whole, length - whole);
    put_big_endian(length_bytes, (uint32_t)((uint64_t)length >> 32));
    put_big_endian(length_bytes + WORD, (uint32_t)length);
    pccl_sha256_add(&all, length_bytes, sizeof length_bytes);
    pccl_sha256_end(&all, hash);
}
