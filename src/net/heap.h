/* The system's heap, in the form in which pure code allocates memory. */
#ifndef PCCL_NET_HEAP_H
#define PCCL_NET_HEAP_H

#include "core/memory.h"

/* Returns the heap: the same object for the whole life of the process. Any thread. */
const struct pccl_memory *pccl_heap(void);
/*
 * Returns memory that is not zeroed, so that a large block costs only the pages that are used; NULL if out of memory.
 * Free it by pccl_release with pccl_heap().
 */
void *pccl_heap_raw(size_t bytes);

#endif
