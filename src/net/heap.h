/* The system's heap, as a struct pccl_memory for pure code. */
#ifndef PCCL_NET_HEAP_H
#define PCCL_NET_HEAP_H

#include "core/memory.h"

/* Returns the heap, which is the same object for the lifetime of the process. Any thread. */
const struct pccl_memory *pccl_heap(void);
/*
 * Returns memory that is not zeroed, so that the unused pages of a large block cost nothing. Returns NULL if out of
 * memory. Free it with pccl_release and pccl_heap().
 */
void *pccl_heap_raw(size_t bytes);

#endif
