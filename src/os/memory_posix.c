#include "os/memory.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Uses a mapping for each block. The kernel merges adjacent mappings. */
void *pccl_pages_map(size_t bytes)
{
    void *block = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
#ifdef MADV_DONTDUMP
    (void)madvise(block, whole_pages(bytes), MADV_DONTDUMP);
#endif
    return block;
}

void pccl_pages_unmap(void *pages, size_t bytes) { (void)munmap(pages, whole_pages(bytes)); }

void pccl_pages_use_huge(void *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    enum { HUGE_PAGE = 2 << 20 };
    uintptr_t start = ((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uintptr_t end = ((uintptr_t)block + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (start < end)
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
#else
    (void)block;
    (void)bytes;
#endif
}
