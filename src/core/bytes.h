/* Little-endian integers in byte buffers of any alignment. */
#ifndef PCCL_CORE_BYTES_H
#define PCCL_CORE_BYTES_H

#include "core/base.h"

static inline uint64_t pccl_get(const uint8_t *bytes, uint32_t width)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < width; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static inline void pccl_put(uint8_t *bytes, uint32_t width, uint64_t value)
{
    for (uint32_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

#endif
