/* Shared memory. */
#include "os/memory.h"

#include "os/fork.h"
#include "os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Without these seals, the other side could shrink the memory, and our next access would kill this process. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

uv_os_fd_t pccl_shared_create(size_t bytes)
{
    pccl_fork_lock();
    /* glibc before 2.27 has no memfd_create. */
    int opened = (int)syscall(SYS_memfd_create, "pccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (pccl_fork_keep(opened))
        return PCCL_NO_FD;
    if (ftruncate(opened, (off_t)bytes) == 0 && fcntl(opened, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0)
        return opened;
    pccl_shared_close(opened);
    return PCCL_NO_FD;
}

bool pccl_shared_is_valid(uv_os_fd_t shared, size_t bytes)
{
    struct stat status;
    int seals = fcntl(shared, F_GET_SEALS);
    return seals >= 0 && (seals & SEALS) == SEALS && fstat(shared, &status) == 0 && status.st_size == (off_t)bytes;
}

void pccl_shared_close(uv_os_fd_t shared) { pccl_socket_close(shared); }

uint8_t *pccl_shared_map(uv_os_fd_t shared, size_t bytes)
{
    pccl_fork_lock();
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    if (mapped != MAP_FAILED)
        (void)madvise(mapped, bytes, MADV_DONTFORK);
    pccl_fork_unlock();
    return mapped != MAP_FAILED ? mapped : NULL;
}

void pccl_shared_unmap(void *mapped, size_t bytes) { (void)munmap(mapped, bytes); }

bool pccl_shared_allocate(void *first, size_t bytes)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which musl and glibc before 2.35 do not name */
    return madvise(first, bytes, POPULATE_WRITE) == 0 || errno == EINVAL; /* EINVAL: Linux before 5.14 */
}
