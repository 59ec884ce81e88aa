/*
 * Loops of the sparse codec over one chunk. Part of kernels/loops.h. A magnitude is a float's bits without the sign,
 * which have the same order as the numbers.
 */
#ifndef PCCL_KERNELS_SPARSE_LOOPS_H
#define PCCL_KERNELS_SPARSE_LOOPS_H

#include "kernels/variant.h"

#include <string.h>

static void sparse_magnitudes(const float *values, size_t count, int32_t *magnitudes)
{
    for (size_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        magnitudes[i] = bits & 0x7fffffff;
    }
}

/*
 * Determines, bit by bit, the greatest threshold that at least `kept` magnitudes reach. May stop early at a threshold
 * that exactly `kept` reach, which is equivalent.
 */
static int32_t sparse_threshold(const int32_t *magnitudes, size_t count, size_t kept)
{
    int32_t found = 0;
    for (int32_t bit = 1 << 30; bit > 0; bit >>= 1) {
        const int32_t tried = found | bit;
        int32_t reach = 0;
        for (size_t i = 0; i < count; i++)
            reach += magnitudes[i] >= tried;
        found = (size_t)reach >= kept ? tried : found;
        if ((size_t)reach == kept)
            break;
    }
    return found;
}

/*
 * Packs two 12-bit indices into three bytes. The second byte contains the upper bits of the first index and the lower
 * bits of the second.
 */
static void sparse_pack(const uint16_t *indices, size_t pairs, uint8_t *bytes)
{
    for (size_t i = 0; i < pairs; i++) {
        const uint32_t both = indices[2 * i] | (uint32_t)indices[2 * i + 1] << 12;
        bytes[3 * i] = (uint8_t)both;
        bytes[3 * i + 1] = (uint8_t)(both >> 8);
        bytes[3 * i + 2] = (uint8_t)(both >> 16);
    }
}

static void sparse_unpack(const uint8_t *bytes, size_t pairs, uint16_t *indices)
{
    for (size_t i = 0; i < pairs; i++) {
        indices[2 * i] = (uint16_t)(bytes[3 * i] | (bytes[3 * i + 1] & 0xf) << 8);
        indices[2 * i + 1] = (uint16_t)(bytes[3 * i + 1] >> 4 | bytes[3 * i + 2] << 4);
    }
}

#define SPARSE_LOOPS                                                                                                   \
    {                                                                                                                  \
        sparse_magnitudes, sparse_threshold, sparse_pack, sparse_unpack                                                \
    }

#endif
