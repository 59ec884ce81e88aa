/* The system's heap behind the interface that the pure code takes its memory through. */
#ifndef PCCL_NET_HEAP_H
#define PCCL_NET_HEAP_H

#include "core/memory.h"

/* Any thread. The same object for the whole life of the process. */
const struct pccl_memory *pccl_heap(void);

#endif
