/*
 * Prefetching. Processors prefetch within a page by themselves, but loops over blocks find each new block outside the
 * caches.
 */
#ifndef PCCL_KERNELS_PREFETCH_H
#define PCCL_KERNELS_PREFETCH_H

#include "core/base.h"

enum { PCCL_CACHE_LINE = 64 };

/* Begins to load these bytes into the caches. They need not exist. */
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
