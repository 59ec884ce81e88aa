#include "net/secrets.h"

#include "core/token.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* The system merges neighboring blocks into few mappings. */
static void *map(size_t bytes)
{
    void *block = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
#ifdef MADV_DONTDUMP
    (void)madvise(block, whole_pages(bytes), MADV_DONTDUMP);
#endif
    return block;
}

static void *resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)context;
    void *moved = new_bytes ? map(new_bytes) : NULL;
    if (!block || (new_bytes && !moved))
        return moved;
    if (moved)
        memcpy(moved, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    pccl_wipe(block, old_bytes);
    (void)munmap(block, whole_pages(old_bytes));
    return moved;
}

static const struct pccl_memory secrets = {.resize = resize, .context = NULL};

const struct pccl_memory *pccl_secrets(void) { return &secrets; }
