#include "net/heap.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

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

/*
 * A large block is new pages of the system's each time, and to fault in small ones costs more than to
 * fill them. Only advice: where huge pages are off, it changes nothing.
 */
#define HUGE_PAGE ((size_t)2 << 20)

static void use_huge_pages(void *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t start = ((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t)block + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (start < end)
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}

void *pccl_heap_raw(size_t bytes)
{
    void *block = malloc(bytes);
    if (block && bytes >= 2 * HUGE_PAGE)
        use_huge_pages(block, bytes);
    return block;
}
