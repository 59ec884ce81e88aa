/* Processes on Windows do not fork, and our handles are not inherited. */
#include "os/fork.h"

uint32_t pccl_fork_generation(void) { return 0; }

void pccl_fork_lock(void) {}

void pccl_fork_unlock(void) {}

bool pccl_fork_remember(uv_os_sock_t descriptor)
{
    (void)descriptor;
    return true;
}

int pccl_fork_keep(uv_os_sock_t opened)
{
    return opened == INVALID_SOCKET ? uv_translate_sys_error(WSAGetLastError()) : 0;
}

void pccl_fork_forget(uv_os_sock_t descriptor) { (void)descriptor; }

void pccl_fork_call(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before;
    (void)in_parent;
    (void)in_child;
}
