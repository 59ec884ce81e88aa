#include "os/file.h"

#include "os/private_windows.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>

enum { SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

static int last_error(void) { return uv_translate_sys_error((int)GetLastError()); }

/* Returns 0 if this process has the access, or an error. */
static int check(const char *path, DWORD access, DWORD flags)
{
    HANDLE file = CreateFileA(path, access, SHARE_ALL, NULL, OPEN_EXISTING, flags, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return last_error();
    (void)CloseHandle(file);
    return 0;
}

bool pccl_file_exists(const char *path) { return GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES; }

int pccl_file_check_read(const char *path) { return check(path, FILE_READ_DATA, FILE_FLAG_BACKUP_SEMANTICS); }

int pccl_directory_check_write(const char *path)
{
    DWORD attributes = GetFileAttributesA(path);
    if (attributes == INVALID_FILE_ATTRIBUTES)
        return last_error();
    if (!(attributes & FILE_ATTRIBUTE_DIRECTORY))
        return UV_ENOTDIR;
    return check(path, FILE_ADD_FILE, FILE_FLAG_BACKUP_SEMANTICS);
}

void pccl_file_remove(const char *path) { (void)DeleteFileA(path); }

FILE *pccl_file_create(const char *path)
{
    int opened = _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
    FILE *file = opened >= 0 ? _fdopen(opened, "wb") : NULL;
    if (!file && opened >= 0)
        (void)_close(opened);
    return file;
}

bool pccl_file_rename(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return true;
    errno = EACCES;
    return false;
}

int pccl_file_lock(const char *path, uv_os_fd_t *lock, bool *opened)
{
    SECURITY_ATTRIBUTES only_ours;
    OVERLAPPED first_byte = {0};
    *opened = false;
    if (!pccl_private_describe(&only_ours))
        return last_error();
    *lock = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, SHARE_ALL, &only_ours, OPEN_ALWAYS, 0, NULL);
    int error = *lock == INVALID_HANDLE_VALUE ? last_error() : 0;
    (void)LocalFree(only_ours.lpSecurityDescriptor);
    *opened = error == 0;
    if (error == 0 && !LockFileEx(*lock, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &first_byte)) {
        error = GetLastError() == ERROR_LOCK_VIOLATION ? UV_EAGAIN : last_error();
        (void)CloseHandle(*lock);
    }
    return error;
}

void pccl_file_unlock(uv_os_fd_t lock) { (void)CloseHandle(lock); }
