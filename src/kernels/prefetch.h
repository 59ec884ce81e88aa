/*
 * Prefetching. Processors prefetch automatically within a page, but in a loop over blocks each new block is not in the
 * caches yet.
 */
#ifndef PCCL_KERNELS_PREFETCH_H
#define PCCL_KERNELS_PREFETCH_H

#include "core/base.h"

enum { PCCL_CACHE_LINE = 64 };

/* Starts loading these bytes into the caches. The addresses may be invalid. */
static inline void pccl_prefetch(const void *bytes, size_t count)
{
#if defined(__GNUC__)
    for (size_t i = 0; i < count; i += PCCL_CACHE_LINE)
        __builtin_prefetch((const char *)bytes + i);
#else
    (void)bytes;
    (void)count;
#endif
}

#endif
