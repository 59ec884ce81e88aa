/* The system's heap behind the interface that the pure code takes its memory through. */
#ifndef PCCL_NET_HEAP_H
#define PCCL_NET_HEAP_H

#include "core/memory.h"

/* Any thread. The same object for the whole life of the process. */
const struct pccl_memory *pccl_heap(void);
/* Not zeroed, so that large blocks cost only what is touched of them. NULL: out of memory. Freed by pccl_release. */
void *pccl_heap_raw(size_t bytes);

#endif
