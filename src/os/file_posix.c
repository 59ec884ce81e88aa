#include "os/file.h"

#include "os/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int last_error(void) { return uv_translate_sys_error(errno); }

bool pccl_file_exists(const char *path) { return access(path, F_OK) == 0; }

int pccl_file_check_read(const char *path) { return access(path, R_OK) == 0 ? 0 : last_error(); }

int pccl_directory_check_write(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return last_error();
    if (!S_ISDIR(status.st_mode))
        return UV_ENOTDIR;
    return access(path, W_OK | X_OK) == 0 ? 0 : last_error();
}

void pccl_file_remove(const char *path) { (void)unlink(path); }

FILE *pccl_file_create(const char *path) { return fopen(path, "wx"); }

bool pccl_file_rename(const char *from, const char *to) { return rename(from, to) == 0; }

int pccl_file_lock(const char *path, uv_os_fd_t *lock, bool *opened)
{
    pccl_fork_lock();
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    int error = pccl_fork_keep(*lock);
    *opened = error == 0;
    if (error == 0 && flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        error = last_error();
        pccl_file_unlock(*lock);
    }
    return error;
}

void pccl_file_unlock(uv_os_fd_t lock)
{
    (void)flock(lock, LOCK_UN);
    pccl_fork_lock();
    pccl_fork_forget(lock);
    (void)close(lock);
    pccl_fork_unlock();
}
