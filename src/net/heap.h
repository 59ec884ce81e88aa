/* The system's heap, as the interface by which pure code gets memory. */
#ifndef PCCL_NET_HEAP_H
#define PCCL_NET_HEAP_H

#include "core/memory.h"

/* Any thread. The same object for the whole life of the process. */
const struct pccl_memory *pccl_heap(void);
/*
 * Not zeroed, so that large blocks cost only the pages that are touched. NULL: out of memory. Freed
 * by pccl_release.
 */
void *pccl_heap_raw(size_t bytes);

#endif
