/*
 * Copies of what an in-place operation overwrites, kept until its outcome is known. Blocks are as
 * large as the caller's buffers and are reused by later operations, because fresh pages cost more
 * than the copying.
 */
#ifndef PCCL_COLLECTIVE_BACKUP_H
#define PCCL_COLLECTIVE_BACKUP_H

#include "collective/extents.h"
#include "collective/plan.h"
#include "core/memory.h"

struct pccl_backup_block {
    struct pccl_backup_block *next; /* among the idle ones */
    size_t size;                    /* of the bytes behind this */
};

/* Idle and used blocks together exceed the peak of the used ones by at most an eighth. */
struct pccl_backup_pool {
    const struct pccl_memory *memory;
    size_t used_bytes, peak_bytes, idle_bytes;
    struct pccl_backup_block *idle;
    uint32_t idle_count;
};

/* The backup of one operation's own part. Zeroed: nothing overwrites it, and nothing is ever saved. */
struct pccl_backup {
    struct pccl_backup_block *block;
    uint64_t *saved; /* one bit for each segment */
    size_t saved_bytes;
    const struct pccl_extents *result; /* the caller's. Borrowed */
};

void pccl_backup_pool_init(struct pccl_backup_pool *pool, const struct pccl_memory *memory);
/* No backup may be left. */
void pccl_backup_pool_fini(struct pccl_backup_pool *pool);

/* Of so many bytes of the result; the plan is that of the whole. false: memory is short. */
PCCL_MUST_CHECK bool pccl_backup_init(struct pccl_backup_pool *pool, const struct pccl_plan *plan,
                                      const struct pccl_extents *result, size_t bytes, struct pccl_backup *backup);
void pccl_backup_fini(struct pccl_backup_pool *pool, struct pccl_backup *backup);
/*
 * Call exactly once for each segment of the caller's memory, before it is overwritten. What is no
 * part of its own is not saved.
 */
void pccl_backup_save(struct pccl_backup *backup, const struct pccl_kernels *kernels, const struct pccl_plan *plan,
                      uint64_t stripe, uint32_t number);
/* Puts back what was saved; of several sections, of this one. */
void pccl_backup_restore(const struct pccl_backup *backup, const struct pccl_plan *plan);

#endif
