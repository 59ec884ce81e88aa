/*
 * The caller's memory for the input or the result of an operation: one extent, or several that are treated as adjacent.
 * Pure functions.
 */
#ifndef PCCL_COLLECTIVE_EXTENTS_H
#define PCCL_COLLECTIVE_EXTENTS_H

#include "kernels/kernels.h"
#include "wire/coalesced.h"

struct pccl_extent {
    size_t from;     /* offset of the extent: total bytes of the extents before it */
    uint8_t *memory; /* memory of the extent; only read in an input */
};

struct pccl_extents {
    uint8_t *memory;                /* memory of the first extent */
    const struct pccl_extent *list; /* borrowed; NULL: a single extent */
    uint32_t count;
};

/* Memory of an operation. */
struct pccl_buffers {
    struct pccl_extents input, result;
    /* Types and reductions of consecutive sections of elements. Borrowed; NULL: one section, as in the descriptor. */
    const struct pccl_section *sections;
    uint32_t section_count;
};

static inline struct pccl_extents pccl_extents_of(const void *memory)
{
    return (struct pccl_extents){.memory = (uint8_t *)(uintptr_t)memory};
}

/* Implement the next two functions for a list. */
uint8_t *pccl_extents_list_at(const struct pccl_extents *extents, size_t at);
size_t pccl_extents_list_together(const struct pccl_extents *extents, size_t at, size_t bytes);
/* Returns the address of the byte at this offset. */
static inline uint8_t *pccl_extents_at(const struct pccl_extents *extents, size_t at)
{
    return extents->list == NULL ? extents->memory + at : pccl_extents_list_at(extents, at);
}
/* Returns how many of the `bytes` bytes from offset `at` are in the same extent as the first of them. */
static inline size_t pccl_extents_together(const struct pccl_extents *extents, size_t at, size_t bytes)
{
    return extents->list == NULL ? bytes : pccl_extents_list_together(extents, at, bytes);
}
/* Copy from and to other memory. If `streaming` is not NULL, the copy bypasses the caches (pccl_copy_streaming). */
void pccl_extents_read(const struct pccl_extents *extents, size_t at, size_t bytes, uint8_t *to,
                       const struct pccl_kernels *streaming);
void pccl_extents_write(const struct pccl_extents *extents, size_t at, size_t bytes, const uint8_t *from,
                        const struct pccl_kernels *streaming);

#endif
