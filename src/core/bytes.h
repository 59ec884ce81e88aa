/* Little-endian integers in byte buffers of any alignment. */
#ifndef PCCL_CORE_BYTES_H
#define PCCL_CORE_BYTES_H

#include "core/base.h"

#include <string.h>

/* Swaps the bytes on big-endian processors. */
static inline uint64_t pccl_little_endian(uint64_t value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint64_t pccl_get(const uint8_t *bytes, uint32_t width)
{
    uint64_t value = 0;
    memcpy(&value, bytes, width); /* the width is a constant, so this is a single load */
    return pccl_little_endian(value);
}

static inline void pccl_put(uint8_t *bytes, uint32_t width, uint64_t value)
{
    value = pccl_little_endian(value);
    memcpy(bytes, &value, width);
}

#endif
