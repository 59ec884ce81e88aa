#include "core/memory.h"

#include <string.h>

void *pccl_allocate(const struct pccl_memory *memory, size_t bytes)
{
    PCCL_ASSERT(bytes > 0);
    void *block = memory->resize(memory->context, NULL, 0, bytes);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

void pccl_release(const struct pccl_memory *memory, void *block, size_t bytes)
{
    if (block != NULL)
        (void)memory->resize(memory->context, block, bytes, 0);
}

void *pccl_grow(const struct pccl_memory *memory, void *block, uint32_t *capacity, uint32_t needed, size_t item_bytes)
{
    PCCL_ASSERT(item_bytes > 0);
    if (needed <= *capacity && block != NULL)
        return block;
    uint64_t items = pccl_max_u64(*capacity, 4);
    while (items < needed)
        items *= 2;
    items = pccl_min_u64(items, UINT32_MAX);
    if (items > SIZE_MAX / item_bytes)
        return NULL;
    void *grown = memory->resize(memory->context, block, (size_t)*capacity * item_bytes, (size_t)items * item_bytes);
    if (grown != NULL)
        *capacity = (uint32_t)items;
    return grown;
}
