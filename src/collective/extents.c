#include "collective/extents.h"

#include <string.h>

static uint32_t find(const struct pccl_extents *extents, size_t at)
{
    uint32_t first = 0;
    for (uint32_t count = extents->count, half; count > 1; count -= half) {
        half = count / 2;
        if (extents->list[first + half].from <= at)
            first += half;
    }
    return first;
}

uint8_t *pccl_extents_list_at(const struct pccl_extents *extents, size_t at)
{
    const struct pccl_extent *extent = &extents->list[find(extents, at)];
    return extent->memory + (at - extent->from);
}

size_t pccl_extents_list_together(const struct pccl_extents *extents, size_t at, size_t bytes)
{
    const uint32_t next = find(extents, at) + 1;
    const size_t rest = next < extents->count ? extents->list[next].from - at : bytes;
    return bytes < rest ? bytes : rest;
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes, const struct pccl_kernels *streaming)
{
    if (streaming != NULL)
        pccl_copy_streaming(streaming, to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void copied(const struct pccl_kernels *streaming)
{
    if (streaming != NULL)
        pccl_copied_streaming(streaming);
}

void pccl_extents_read(const struct pccl_extents *extents, size_t at, size_t bytes, uint8_t *to,
                       const struct pccl_kernels *streaming)
{
    for (size_t part; bytes > 0; at += part, to += part, bytes -= part) {
        part = pccl_extents_together(extents, at, bytes);
        copy(to, pccl_extents_at(extents, at), part, streaming);
    }
    copied(streaming);
}

void pccl_extents_write(const struct pccl_extents *extents, size_t at, size_t bytes, const uint8_t *from,
                        const struct pccl_kernels *streaming)
{
    for (size_t part; bytes > 0; at += part, from += part, bytes -= part) {
        part = pccl_extents_together(extents, at, bytes);
        copy(pccl_extents_at(extents, at), from, part, streaming);
    }
    copied(streaming);
}
