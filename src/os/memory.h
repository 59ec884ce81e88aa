/*
 * Memory in whole pages: private pages for secrets, and memory shared by two processes. Functions that take a
 * descriptor only work on Linux; on other systems pccl_shared_create fails.
 */
#ifndef PCCL_OS_MEMORY_H
#define PCCL_OS_MEMORY_H

#include "core/base.h"

#include <uv.h>

#define PCCL_NO_FD ((uv_os_fd_t)-1)

/*
 * Returns zeroed pages, which are excluded from core dumps if the system supports that. Returns NULL if out of memory.
 */
void *pccl_pages_map(size_t bytes);
/* Unmaps pages. bytes: the same as for pccl_pages_map. */
void pccl_pages_unmap(void *pages, size_t bytes);
/* Advises the system to use huge pages for a heap block. May have no effect. */
void pccl_pages_use_huge(void *block, size_t bytes);

/* Creates shared memory of this size, which no process can shrink or grow. Returns PCCL_NO_FD on failure. */
uv_os_fd_t pccl_shared_create(size_t bytes);
/* Returns true if the descriptor refers to memory of this size that no process can shrink or grow. */
bool pccl_shared_is_valid(uv_os_fd_t shared, size_t bytes);
void pccl_shared_close(uv_os_fd_t shared);
/* Maps the memory. Forked children do not inherit the mapping. Returns NULL on failure. */
uint8_t *pccl_shared_map(uv_os_fd_t shared, size_t bytes);
void pccl_shared_unmap(void *mapped, size_t bytes);
/*
 * Allocates the pages, because writing to memory that cannot be allocated would kill this process. Returns false if
 * memory is short.
 */
bool pccl_shared_allocate(void *first, size_t bytes);

#endif
