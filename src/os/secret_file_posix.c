#include "os/secret_file.h"

#include "core/limits.h"
#include "os/file.h"
#include "os/random.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RESERVE_NAME_MAX = 2 * PCCL_PATH_BYTES_MAX + 16 };

enum pccl_status pccl_secret_fail(struct pccl_text *reason, const char *what, const char *path, const char *why)
{
    return pccl_fail(reason, PCCL_SYSTEM, "%s %s: %s", what, path, why);
}

static const char *fault_of(int descriptor, bool is_private)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "not a regular file";
    if (is_private && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return "other users can read or write it, so its content is not secret: create a new one, or 'chmod 600' it";
    if (is_private && status.st_uid != geteuid())
        return "it belongs to another user";
    return NULL;
}

enum pccl_status pccl_secret_file_read(const char *path, bool is_private, char *text, size_t most, size_t *length,
                                       struct pccl_text *reason)
{
    *length = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return errno == ENOENT ? PCCL_OK : pccl_secret_fail(reason, "cannot read", path, strerror(errno));
    const char *fault = fault_of(descriptor, is_private);
    while (!fault) {
        char more; /* receives a byte beyond the limit */
        ssize_t got = *length < most ? read(descriptor, text + *length, most - *length) : read(descriptor, &more, 1);
        if (got > 0 && *length == most)
            fault = "it is too long";
        else if (got > 0)
            *length += (size_t)got;
        else if (got == 0)
            break;
        else if (errno != EINTR)
            fault = strerror(errno);
    }
    (void)close(descriptor);
    text[*length] = '\0';
    if (!fault && *length == 0)
        fault = "it is empty";
    return fault ? pccl_secret_fail(reason, "cannot use", path, fault) : PCCL_OK;
}

static int write_all(int descriptor, const char *text, size_t length, bool lasting)
{
    while (length > 0) {
        ssize_t wrote = write(descriptor, text, length);
        if (wrote < 0 && errno != EINTR)
            return errno;
        text += wrote > 0 ? wrote : 0;
        length -= wrote > 0 ? (size_t)wrote : 0;
    }
    return !lasting || fsync(descriptor) == 0 ? 0 : errno;
}

/* Makes a file's name survive a power loss, if the file system supports that. Returns 0 or the error. */
static int sync_directory(const char *path)
{
    char directory[2 * PCCL_PATH_BYTES_MAX + 2];
    const char *slash = strrchr(path, '/');
    (void)snprintf(directory, sizeof directory, "%.*s.", slash ? (int)(slash + 1 - path) : 0, path);
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return errno;
    int error = fsync(descriptor) == 0 || errno == EINVAL /* not supported */ ? 0 : errno;
    (void)close(descriptor);
    return error;
}

static enum pccl_status put(const char *path, const char *text, size_t length, bool stays,
                            int (*place)(const char *, const char *), struct pccl_text *reason)
{
    char temporary[2 * PCCL_PATH_BYTES_MAX + 32];
    uint64_t number; /* not the process id: in a container, a killed process may have had the same one */
    if (!pccl_random_u64(&number))
        return pccl_secret_fail(reason, "cannot create", path, "cannot get random bytes from the system");
    (void)snprintf(temporary, sizeof temporary, "%s.%016" PRIx64 ".tmp", path, number);
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor < 0)
        return pccl_secret_fail(reason, "cannot create", temporary, strerror(errno));
    int error = write_all(descriptor, text, length, stays);
    if (close(descriptor) != 0 && !error)
        error = errno;
    if (!error && stays && place(temporary, path) != 0)
        error = errno;
    (void)unlink(temporary);
    if (!error && stays)
        error = sync_directory(path);
    if (!error)
        return PCCL_OK;
    enum pccl_status status = pccl_secret_fail(reason, "cannot create", path, strerror(error));
    return error == EEXIST ? PCCL_USAGE : status;
}

enum pccl_status pccl_secret_file_make(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, true, link, reason);
}

enum pccl_status pccl_secret_file_replace(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, true, rename, reason);
}

enum pccl_status pccl_secret_file_try(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, false, rename, reason);
}

enum pccl_status pccl_secret_file_remove(const char *path, struct pccl_text *reason)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return pccl_secret_fail(reason, "cannot remove", path, strerror(errno));
    sync_directory(path);
    return PCCL_OK;
}

enum pccl_status pccl_secret_directory(const char *path, struct pccl_text *reason)
{
    struct stat status;
    if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST)
        return pccl_secret_fail(reason, "cannot create the directory", path, strerror(errno));
    if (stat(path, &status) != 0)
        return pccl_secret_fail(reason, "cannot use the directory", path, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return pccl_secret_fail(reason, "cannot use the directory", path, "not a directory");
    if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return pccl_secret_fail(
            reason, "cannot use the directory", path,
            "it belongs to another user, or other users can access it: 'chmod 700' it, or use another directory");
    return PCCL_OK;
}

/* ---- the reserve ---- */

static void name_reserve(const char *path, char reserve[RESERVE_NAME_MAX])
{
    (void)snprintf(reserve, RESERVE_NAME_MAX, "%s.reserve", path);
}

/* Writes every block, because file systems may not allocate space before that. Returns 0 or the error. */
static int fill(int descriptor, off_t size)
{
    char lines[4096];
    int error = 0;
    memset(lines, '\n', sizeof lines);
    for (off_t at = 0; at < size && !error; at += (off_t)sizeof lines)
        error = write_all(descriptor, lines, (size_t)pccl_min_u64(sizeof lines, (uint64_t)(size - at)), false);
    return error;
}

enum pccl_status pccl_secret_file_reserve(const char *path, size_t size, struct pccl_text *reason)
{
    char reserve[RESERVE_NAME_MAX];
    struct stat status;
    name_reserve(path, reserve);
    int descriptor = open(reserve, O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    int error = descriptor < 0 || fstat(descriptor, &status) != 0 ? errno : 0;
    if (!error && status.st_size < (off_t)size)
        error = fill(descriptor, (off_t)size);
    if (descriptor >= 0 && close(descriptor) != 0 && !error)
        error = errno;
    return error ? pccl_secret_fail(reason, "cannot reserve space in", reserve, strerror(error)) : PCCL_OK;
}

/*
 * Overwrites the reserve, which needs no additional space, and exchanges the two files. If the file system cannot
 * exchange names, renames the reserve to the file, and there is no reserve afterward. Returns 0 or the error.
 */
static int use_reserve(const char *path, const char *text, size_t length)
{
    char reserve[RESERVE_NAME_MAX];
    name_reserve(path, reserve);
    int descriptor = open(reserve, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return errno;
    int error = write_all(descriptor, text, length, false);
    if (!error && (ftruncate(descriptor, (off_t)length) != 0 || fsync(descriptor) != 0))
        error = errno;
    if (close(descriptor) != 0 && !error)
        error = errno;
    if (!error && pccl_file_exchange(reserve, path) != 0 && rename(reserve, path) != 0)
        error = errno;
    return error ? error : sync_directory(path);
}

enum pccl_status pccl_secret_file_replace_anyway(const char *path, const char *text, size_t length,
                                                 struct pccl_text *reason)
{
    enum pccl_status status = pccl_secret_file_replace(path, text, length, reason);
    return status == PCCL_OK || use_reserve(path, text, length) == 0 ? PCCL_OK : status;
}
