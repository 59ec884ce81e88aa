#include "os/memory.h"

/* Page files are not excluded: the system has no such setting for a part of a process's memory. */
void *pccl_pages_map(size_t bytes) { return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void pccl_pages_unmap(void *pages, size_t bytes)
{
    (void)bytes;
    (void)VirtualFree(pages, 0, MEM_RELEASE);
}

void pccl_pages_use_huge(void *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}
