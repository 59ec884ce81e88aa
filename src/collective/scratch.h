/*
 * Buffers for segments in flight: reference-counted and kept for reuse (the one given back last is
 * reused first, while it is still in a cache). Users reserve the most they may need by counting
 * bytes only; the memory itself is allocated when a segment comes.
 */
#ifndef PCCL_COLLECTIVE_SCRATCH_H
#define PCCL_COLLECTIVE_SCRATCH_H

#include "core/memory.h"

/*
 * Sizes come in classes, four for each power of two, so that at most a fifth of a buffer is unused.
 */
enum { PCCL_SCRATCH_CLASSES = 58 };

struct pccl_scratch {
    struct pccl_scratch *next; /* among the idle ones */
    uint32_t size_class, references;
    uint8_t *bytes; /* on a cache line of their own */
};

struct pccl_scratch_pool {
    const struct pccl_memory *memory;
    size_t bytes_max;
    size_t used_bytes, peak_bytes, idle_bytes;
    size_t reserved_bytes; /* counted by the users */
    struct pccl_scratch *idle[PCCL_SCRATCH_CLASSES];
};

void pccl_scratch_init(struct pccl_scratch_pool *pool, size_t bytes_max, const struct pccl_memory *memory);
/* None may be in use. */
void pccl_scratch_fini(struct pccl_scratch_pool *pool);
/* The real size of a buffer for so many bytes; 0 < bytes <= 2 * PCCL_SEGMENT_BYTES_MAX. */
size_t pccl_scratch_size(size_t bytes);
/* With one reference. NULL: memory is short. */
struct pccl_scratch *pccl_scratch_take(struct pccl_scratch_pool *pool, size_t bytes);
void pccl_scratch_share(struct pccl_scratch *scratch);
/* Gives one reference back. NULL is allowed. */
void pccl_scratch_give(struct pccl_scratch_pool *pool, struct pccl_scratch *scratch);

#endif
