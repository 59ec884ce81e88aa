#include "net/heap.h"

#include <stdlib.h>

static void *heap_resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)context;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_bytes);
}

static const struct pccl_memory heap = {.resize = heap_resize, .context = NULL};

const struct pccl_memory *pccl_heap(void) { return &heap; }

void *pccl_heap_raw(size_t bytes) { return malloc(bytes); }
