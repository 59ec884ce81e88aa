/* Allocator that the driver provides. Pure code allocates only through it, so tests can make any allocation fail. */
#ifndef PCCL_CORE_MEMORY_H
#define PCCL_CORE_MEMORY_H

#include "core/base.h"

struct pccl_memory {
    /*
     * Resizes a block. new_bytes 0 frees it and returns NULL. If new_bytes > 0, NULL means out of memory, and the old
     * block is unchanged.
     */
    void *(*resize)(void *context, void *block, size_t old_bytes, size_t new_bytes);
    void *context;
};

/* Returns zeroed memory, or NULL if out of memory. */
void *pccl_allocate(const struct pccl_memory *memory, size_t bytes);
void pccl_release(const struct pccl_memory *memory, void *block, size_t bytes);
/*
 * Makes room for `needed` items in an array of *capacity items. Returns the block, which may have moved, and updates
 * *capacity; or returns NULL and changes nothing. Capacity grows geometrically.
 */
void *pccl_grow(const struct pccl_memory *memory, void *block, uint32_t *capacity, uint32_t needed, size_t item_bytes);

#endif
