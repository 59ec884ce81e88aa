#include "os/memory.h"

uv_os_fd_t pccl_shared_create(size_t bytes)
{
    (void)bytes;
    return PCCL_NO_FD;
}

bool pccl_shared_is_valid(uv_os_fd_t shared, size_t bytes)
{
    (void)shared;
    (void)bytes;
    return false;
}

void pccl_shared_close(uv_os_fd_t shared) { (void)shared; }

uint8_t *pccl_shared_map(uv_os_fd_t shared, size_t bytes)
{
    (void)shared;
    (void)bytes;
    return NULL;
}

void pccl_shared_unmap(void *mapped, size_t bytes)
{
    (void)mapped;
    (void)bytes;
}

bool pccl_shared_allocate(void *first, size_t bytes)
{
    (void)first;
    (void)bytes;
    return false;
}
