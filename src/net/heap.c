#include "net/heap.h"

#include "os/memory.h"

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

/* The system maps new pages for each large block, and faulting in small pages takes longer than filling them. */
#define HUGE_PAGE ((size_t)2 << 20)

void *pccl_heap_raw(size_t bytes)
{
    void *block = malloc(bytes);
    if (block && bytes >= 2 * HUGE_PAGE)
        pccl_pages_use_huge(block, bytes);
    return block;
}
