/*
 * 128-bit XXH3, compiled for a variant's processors. This is a separate header because xxHash defines many macros. Only
 * variants include it, after selecting their instruction set.
 */
#ifndef PCCL_KERNELS_DIGEST_H
#define PCCL_KERNELS_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline void digest(const void *bytes, size_t length, uint64_t halves[2])
{
    XXH128_hash_t hash = XXH3_128bits(bytes, length);
    halves[0] = hash.low64;
    halves[1] = hash.high64;
}

#endif
