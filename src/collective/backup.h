/*
 * Backups of the elements that an in-place operation overwrites, kept until its outcome is known. Blocks are as large
 * as the caller's buffers and are reused by later operations, because the page faults of new memory cost more than
 * copying.
 */
#ifndef PCCL_COLLECTIVE_BACKUP_H
#define PCCL_COLLECTIVE_BACKUP_H

#include "collective/extents.h"
#include "collective/plan.h"
#include "core/memory.h"

struct pccl_backup_block {
    struct pccl_backup_block *next;
    size_t size; /* number of bytes after this struct */
};

/* Pool of blocks. Idle and used blocks together exceed the peak of the used ones by at most an eighth. */
struct pccl_backup_pool {
    const struct pccl_memory *memory;
    size_t used_bytes, peak_bytes, idle_bytes;
    struct pccl_backup_block *idle;
    uint32_t idle_count;
};

/* Backup of this rank's part for one operation. If it is zeroed, nothing is saved because no input is overwritten. */
struct pccl_backup {
    struct pccl_backup_block *block;
    uint64_t *saved; /* one bit for each segment */
    size_t saved_bytes;
    const struct pccl_extents *result; /* the caller's memory; borrowed */
};

void pccl_backup_pool_init(struct pccl_backup_pool *pool, const struct pccl_memory *memory);
/* Frees the idle blocks. No backup may be in use. */
void pccl_backup_pool_fini(struct pccl_backup_pool *pool);

/*
 * Creates a backup of `bytes` bytes of the result, for the plan of the whole operation. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_backup_init(struct pccl_backup_pool *pool, const struct pccl_plan *plan,
                                      const struct pccl_extents *result, size_t bytes, struct pccl_backup *backup);
void pccl_backup_fini(struct pccl_backup_pool *pool, struct pccl_backup *backup);
/*
 * Saves a segment before it is overwritten. Call exactly once for each segment of the caller's memory. Segments outside
 * this rank's part are ignored.
 */
void pccl_backup_save(struct pccl_backup *backup, const struct pccl_kernels *kernels, const struct pccl_plan *plan,
                      uint64_t stripe, uint32_t number);
/* Restores the saved segments of this plan, which is the plan of the whole operation or of a section. */
void pccl_backup_restore(const struct pccl_backup *backup, const struct pccl_plan *plan);

#endif
