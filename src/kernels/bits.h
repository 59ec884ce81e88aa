/* Conversion between a float and its bits. Included only by src/kernels. */
#ifndef PCCL_KERNELS_BITS_H
#define PCCL_KERNELS_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t pccl_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float pccl_f32_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
