#include "collective/scratch.h"

#include "core/limits.h"

enum { SIZE_LEAST = 256, STEPS = 4, ALIGNMENT = 64 };

static size_t size_of(uint32_t size_class)
{
    return (size_t)(SIZE_LEAST / STEPS) * (STEPS + size_class % STEPS) << size_class / STEPS;
}

static uint32_t class_of(size_t bytes)
{
    uint32_t size_class = 0;
    while (size_of(size_class + STEPS) <= bytes)
        size_class += STEPS;
    while (size_of(size_class) < bytes)
        size_class++;
    PCCL_ASSERT(size_class < PCCL_SCRATCH_CLASSES);
    return size_class;
}

static size_t block_bytes(uint32_t size_class) { return sizeof(struct pccl_scratch) + ALIGNMENT + size_of(size_class); }

void pccl_scratch_init(struct pccl_scratch_pool *pool, size_t bytes_max, const struct pccl_memory *memory)
{
    *pool = (struct pccl_scratch_pool){.memory = memory, .bytes_max = bytes_max};
}

static void free_block(struct pccl_scratch_pool *pool, struct pccl_scratch *scratch)
{
    pccl_release(pool->memory, scratch, block_bytes(scratch->size_class));
}

static void free_idle(struct pccl_scratch_pool *pool)
{
    for (uint32_t i = 0; i < PCCL_SCRATCH_CLASSES; i++)
        while (pool->idle[i] != NULL) {
            struct pccl_scratch *scratch = pool->idle[i];
            pool->idle[i] = scratch->next;
            free_block(pool, scratch);
        }
    pool->idle_bytes = 0;
}

void pccl_scratch_fini(struct pccl_scratch_pool *pool)
{
    PCCL_ASSERT(pool->used_bytes == 0);
    free_idle(pool);
}

size_t pccl_scratch_size(size_t bytes) { return size_of(class_of(bytes)); }

static struct pccl_scratch *allocate(struct pccl_scratch_pool *pool, uint32_t size_class)
{
    const struct pccl_memory *memory = pool->memory;
    /* idle buffers of other sizes count, too */
    if (pool->idle_bytes > 0 && pool->used_bytes + pool->idle_bytes + size_of(size_class) > pool->bytes_max)
        free_idle(pool);
    struct pccl_scratch *scratch = memory->resize(memory->context, NULL, 0, block_bytes(size_class));
    if (scratch == NULL && pool->idle_bytes > 0) {
        free_idle(pool);
        scratch = memory->resize(memory->context, NULL, 0, block_bytes(size_class));
    }
    if (scratch == NULL)
        return NULL;
    uintptr_t behind = (uintptr_t)(scratch + 1);
    size_t gap = (ALIGNMENT - behind % ALIGNMENT) % ALIGNMENT;
    *scratch = (struct pccl_scratch){.size_class = size_class, .bytes = (uint8_t *)(scratch + 1) + gap};
    return scratch;
}

struct pccl_scratch *pccl_scratch_take(struct pccl_scratch_pool *pool, size_t bytes)
{
    PCCL_ASSERT(bytes > 0);
    uint32_t size_class = class_of(bytes);
    struct pccl_scratch *scratch = pool->idle[size_class];
    if (scratch != NULL) {
        pool->idle[size_class] = scratch->next;
        pool->idle_bytes -= size_of(size_class);
    } else {
        scratch = allocate(pool, size_class);
        if (scratch == NULL)
            return NULL;
    }
    scratch->next = NULL;
    scratch->references = 1;
    pool->used_bytes += size_of(size_class);
    if (pool->used_bytes > pool->peak_bytes)
        pool->peak_bytes = pool->used_bytes;
    return scratch;
}

void pccl_scratch_share(struct pccl_scratch *scratch)
{
    PCCL_ASSERT(scratch->references > 0);
    scratch->references++;
}

void pccl_scratch_give(struct pccl_scratch_pool *pool, struct pccl_scratch *scratch)
{
    if (scratch == NULL)
        return;
    PCCL_ASSERT(scratch->references > 0);
    if (--scratch->references > 0)
        return;
    size_t bytes = size_of(scratch->size_class);
    PCCL_ASSERT(pool->used_bytes >= bytes);
    pool->used_bytes -= bytes;
    if (pool->used_bytes + pool->idle_bytes + bytes > pool->bytes_max) {
        free_block(pool, scratch);
        return;
    }
    scratch->next = pool->idle[scratch->size_class];
    pool->idle[scratch->size_class] = scratch;
    pool->idle_bytes += bytes;
}
