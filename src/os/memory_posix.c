#include "os/memory.h"

#include "os/fork.h"
#include "os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

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

#ifdef __linux__
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
#ifdef MADV_POPULATE_WRITE
    return madvise(first, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL; /* EINVAL: Linux before 5.14 */
#else
    (void)first;
    (void)bytes;
    return true;
#endif
}
#else
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
#endif
