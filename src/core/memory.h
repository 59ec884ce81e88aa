/*
 * The allocator that the driver passes in. Pure code allocates through nothing else, so tests can
 * make allocation k fail.
 */
#ifndef PCCL_CORE_MEMORY_H
#define PCCL_CORE_MEMORY_H

#include "core/base.h"

struct pccl_memory {
    /* new_bytes 0 frees and returns NULL. Returns NULL for new_bytes > 0 on failure, with the old block unchanged. */
    void *(*resize)(void *context, void *block, size_t old_bytes, size_t new_bytes);
    void *context;
};

/* Returns zeroed memory, or NULL if memory is short. */
void *pccl_allocate(const struct pccl_memory *memory, size_t bytes);
void pccl_release(const struct pccl_memory *memory, void *block, size_t bytes);
/*
 * Makes room for `needed` items in an array of *capacity items: returns the (possibly moved) block
 * and updates *capacity, or NULL with everything as before. Growth is geometric.
 */
void *pccl_grow(const struct pccl_memory *memory, void *block, uint32_t *capacity, uint32_t needed, size_t item_bytes);

#endif
