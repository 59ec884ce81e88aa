#include "collective/backup.h"

enum {
    REUSED_PART = 8, /* a block is reused only if the new backup fills at least 1/REUSED_PART of it */
    IDLE_COUNT_MOST = 64,
};

void pccl_backup_pool_init(struct pccl_backup_pool *pool, const struct pccl_memory *memory)
{
    *pool = (struct pccl_backup_pool){.memory = memory};
}

static size_t block_bytes(size_t size) { return sizeof(struct pccl_backup_block) + size; }

static uint8_t *bytes_of(const struct pccl_backup *backup) { return (uint8_t *)(backup->block + 1); }

/* Removes and returns the smallest idle block of at least this size. Returns NULL if no block is large enough. */
static struct pccl_backup_block *take_smallest(struct pccl_backup_pool *pool, size_t size)
{
    struct pccl_backup_block **best = NULL;
    for (struct pccl_backup_block **at = &pool->idle; *at != NULL; at = &(*at)->next)
        if ((*at)->size >= size && (best == NULL || (*at)->size < (*best)->size))
            best = at;
    if (best == NULL)
        return NULL;
    struct pccl_backup_block *block = *best;
    *best = block->next;
    pool->idle_bytes -= block->size;
    pool->idle_count--;
    return block;
}

static void put_idle(struct pccl_backup_pool *pool, struct pccl_backup_block *block)
{
    block->next = pool->idle;
    pool->idle = block;
    pool->idle_bytes += block->size;
    pool->idle_count++;
}

/* Frees the smallest idle block, because larger ones cost more to allocate again. */
static void free_smallest(struct pccl_backup_pool *pool)
{
    struct pccl_backup_block *block = take_smallest(pool, 0);
    if (block != NULL)
        pccl_release(pool->memory, block, block_bytes(block->size));
}

static void free_idle_down_to(struct pccl_backup_pool *pool, size_t bytes)
{
    while (pool->idle_bytes > bytes)
        free_smallest(pool);
}

void pccl_backup_pool_fini(struct pccl_backup_pool *pool)
{
    PCCL_ASSERT(pool->used_bytes == 0);
    free_idle_down_to(pool, 0);
}

/* Reuses a block that is not much larger than needed, so that small operations do not take the blocks of large ones. */
static struct pccl_backup_block *reuse(struct pccl_backup_pool *pool, size_t size)
{
    struct pccl_backup_block *block = take_smallest(pool, size);
    if (block == NULL || block->size / REUSED_PART <= size)
        return block;
    put_idle(pool, block);
    return NULL;
}

static struct pccl_backup_block *allocate(struct pccl_backup_pool *pool, size_t size)
{
    const struct pccl_memory *memory = pool->memory;
    size_t most = pool->peak_bytes + pool->peak_bytes / REUSED_PART, used = pool->used_bytes + size;
    free_idle_down_to(pool, used < most ? most - used : 0);
    struct pccl_backup_block *block = memory->resize(memory->context, NULL, 0, block_bytes(size));
    if (block == NULL && pool->idle != NULL) {
        free_idle_down_to(pool, 0);
        block = memory->resize(memory->context, NULL, 0, block_bytes(size));
    }
    if (block != NULL)
        *block = (struct pccl_backup_block){.size = size};
    return block;
}

bool pccl_backup_init(struct pccl_backup_pool *pool, const struct pccl_plan *plan, const struct pccl_extents *result,
                      size_t size, struct pccl_backup *backup)
{
    size_t saved_bytes = (size_t)(plan->stripes * plan->pieces / 64 + 1) * sizeof *backup->saved;
    uint64_t *saved = pccl_allocate(pool->memory, saved_bytes);
    if (saved == NULL)
        return false;
    struct pccl_backup_block *block = reuse(pool, size);
    if (block == NULL)
        block = allocate(pool, size);
    if (block == NULL) {
        pccl_release(pool->memory, saved, saved_bytes);
        return false;
    }
    pool->used_bytes += block->size;
    if (pool->used_bytes > pool->peak_bytes)
        pool->peak_bytes = pool->used_bytes;
    *backup = (struct pccl_backup){.block = block, .saved = saved, .saved_bytes = saved_bytes, .result = result};
    return true;
}

void pccl_backup_fini(struct pccl_backup_pool *pool, struct pccl_backup *backup)
{
    struct pccl_backup_block *block = backup->block;
    if (block == NULL)
        return;
    PCCL_ASSERT(pool->used_bytes >= block->size);
    pool->used_bytes -= block->size;
    put_idle(pool, block);
    if (pool->idle_count > IDLE_COUNT_MOST)
        free_smallest(pool);
    pccl_release(pool->memory, backup->saved, backup->saved_bytes);
    *backup = (struct pccl_backup){0};
}

static size_t place_of(const struct pccl_plan *plan, const struct pccl_segment *segment)
{
    return plan->bytes_before + (size_t)(segment->first - plan->own_from) * plan->element_bytes;
}

void pccl_backup_save(struct pccl_backup *backup, const struct pccl_kernels *kernels, const struct pccl_plan *plan,
                      uint64_t stripe, uint32_t number)
{
    if (backup->block == NULL)
        return;
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    if (segment.first < plan->own_from || segment.first - plan->own_from >= plan->own)
        return;
    uint64_t index = stripe * plan->pieces + number, bit = UINT64_C(1) << index % 64;
    size_t at = place_of(plan, &segment);
    size_t bytes = (size_t)segment.count * plan->element_bytes;
    PCCL_ASSERT(at + bytes <= backup->block->size && index / 64 < backup->saved_bytes / sizeof *backup->saved);
    backup->saved[index / 64] |= bit;
    pccl_extents_read(backup->result, pccl_plan_result_at(plan, &segment), bytes, bytes_of(backup) + at,
                      plan->large ? kernels : NULL);
}

void pccl_backup_restore(const struct pccl_backup *backup, const struct pccl_plan *plan)
{
    if (backup->block == NULL)
        return;
    const uint64_t end = (plan->first_stripe + plan->stripes) * plan->pieces;
    PCCL_ASSERT(end <= backup->saved_bytes / sizeof *backup->saved * 64);
    for (uint64_t index = plan->first_stripe * plan->pieces; index < end; index++) {
        if ((backup->saved[index / 64] >> index % 64 & 1) == 0)
            continue;
        struct pccl_segment segment = pccl_plan_segment(plan, index / plan->pieces, (uint32_t)(index % plan->pieces));
        size_t at = place_of(plan, &segment), bytes = (size_t)segment.count * plan->element_bytes;
        pccl_extents_write(backup->result, pccl_plan_result_at(plan, &segment), bytes, bytes_of(backup) + at, NULL);
    }
}
