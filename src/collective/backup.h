/*
 * Copies of the elements that an in-place operation overwrites, kept until its outcome is known. Blocks are as large as
 * the caller's buffers and are reused by later operations, because fresh pages cost more than the copying.
 */
#ifndef PCCL_COLLECTIVE_BACKUP_H
#define PCCL_COLLECTIVE_BACKUP_H

#include "collective/extents.h"
#include "collective/plan.h"
#include "core/memory.h"

struct pccl_backup_block {
    struct pccl_backup_block *next; /* among the idle ones */
    size_t size;                    /* bytes behind this struct */
};

/* Idle and used blocks together exceed the peak of the used ones by at most an eighth. */
struct pccl_backup_pool {
    const struct pccl_memory *memory;
    size_t used_bytes, peak_bytes, idle_bytes;
    struct pccl_backup_block *idle;
    uint32_t idle_count;
};

/* Backup of one operation's own part. Zeroed if the input is not overwritten; then it saves nothing. */
struct pccl_backup {
    struct pccl_backup_block *block;
    uint64_t *saved; /* one bit for each segment */
    size_t saved_bytes;
    const struct pccl_extents *result; /* the caller's; borrowed */
};

void pccl_backup_pool_init(struct pccl_backup_pool *pool, const struct pccl_memory *memory);
/* Frees the idle blocks. No backup may be left. */
void pccl_backup_pool_fini(struct pccl_backup_pool *pool);

/* Makes a backup of `bytes` bytes of the result, for the plan of the whole. Returns false if memory is short. */
PCCL_MUST_CHECK bool pccl_backup_init(struct pccl_backup_pool *pool, const struct pccl_plan *plan,
                                      const struct pccl_extents *result, size_t bytes, struct pccl_backup *backup);
void pccl_backup_fini(struct pccl_backup_pool *pool, struct pccl_backup *backup);
/*
 * Saves a segment. Call exactly once for each segment of the caller's memory, before it is overwritten. Segments
 * outside this rank's part are not saved.
 */
void pccl_backup_save(struct pccl_backup *backup, const struct pccl_kernels *kernels, const struct pccl_plan *plan,
                      uint64_t stripe, uint32_t number);
/* Restores the saved segments of this plan: the whole or a section. */
void pccl_backup_restore(const struct pccl_backup *backup, const struct pccl_plan *plan);

#endif
