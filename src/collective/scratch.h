/*
 * Buffers for segments in flight. They are reference-counted and kept for reuse; the last released buffer is reused
 * first, while it is still in a cache. Users reserve their maximum only by counting bytes; memory is allocated when a
 * segment arrives.
 */
#ifndef PCCL_COLLECTIVE_SCRATCH_H
#define PCCL_COLLECTIVE_SCRATCH_H

#include "core/memory.h"

/* There are four size classes for each power of two, so that at most a fifth of a buffer is unused. */
enum { PCCL_SCRATCH_CLASSES = 58 };

struct pccl_scratch {
    struct pccl_scratch *next; /* next idle buffer */
    uint32_t size_class, references;
    uint8_t *bytes; /* aligned to a cache line */
};

struct pccl_scratch_pool {
    const struct pccl_memory *memory;
    size_t bytes_max;
    size_t used_bytes, peak_bytes, idle_bytes;
    size_t reserved_bytes; /* bytes that the users have reserved */
    struct pccl_scratch *idle[PCCL_SCRATCH_CLASSES];
};

void pccl_scratch_init(struct pccl_scratch_pool *pool, size_t bytes_max, const struct pccl_memory *memory);
/* Frees the idle buffers. No buffer may be in use. */
void pccl_scratch_fini(struct pccl_scratch_pool *pool);
/* Returns the actual size of a buffer for `bytes` bytes; 0 < bytes <= 2 * PCCL_SEGMENT_BYTES_MAX. */
size_t pccl_scratch_size(size_t bytes);
/* Returns a buffer with one reference, or NULL if out of memory. */
struct pccl_scratch *pccl_scratch_take(struct pccl_scratch_pool *pool, size_t bytes);
void pccl_scratch_share(struct pccl_scratch *scratch);
/* Releases a reference. `scratch` may be NULL. */
void pccl_scratch_give(struct pccl_scratch_pool *pool, struct pccl_scratch *scratch);

#endif
