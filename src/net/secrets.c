#include "net/secrets.h"

#include "core/token.h"
#include "os/memory.h"

#include <string.h>

static void *resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    (void)context;
    void *moved = new_bytes ? pccl_pages_map(new_bytes) : NULL;
    if (!block || (new_bytes && !moved))
        return moved;
    if (moved)
        memcpy(moved, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    pccl_wipe(block, old_bytes);
    pccl_pages_unmap(block, old_bytes);
    return moved;
}

static const struct pccl_memory secrets = {.resize = resize, .context = NULL};

const struct pccl_memory *pccl_secrets(void) { return &secrets; }
