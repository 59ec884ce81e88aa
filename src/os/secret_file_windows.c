/* Only the user has access to the files: SYSTEM and administrators can take it, as root can elsewhere. */
#include "os/secret_file.h"

#include "core/limits.h"
#include "os/private_windows.h"
#include "os/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SUFFIX_MAX = 32, NAME_MAX = 2 * PCCL_PATH_BYTES_MAX + SUFFIX_MAX };

static const char *last_words(void) { return uv_strerror(uv_translate_sys_error((int)GetLastError())); }

enum pccl_status pccl_secret_fail(struct pccl_text *reason, const char *what, const char *path, const char *why)
{
    return pccl_fail(reason, PCCL_SYSTEM, "%s %s: %s", what, path, why);
}

static bool is_missing(void)
{
    return GetLastError() == ERROR_FILE_NOT_FOUND || GetLastError() == ERROR_PATH_NOT_FOUND;
}

enum pccl_status pccl_secret_file_read(const char *path, bool is_private, char *text, size_t most, size_t *length,
                                       struct pccl_text *reason)
{
    const char *fault = NULL;
    DWORD got = 1;
    *length = 0;
    HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return is_missing() ? PCCL_OK : pccl_secret_fail(reason, "cannot read", path, last_words());
    if (GetFileType(file) != FILE_TYPE_DISK)
        fault = "not a regular file";
    else if (is_private)
        fault = pccl_private_fault(file);
    while (!fault && got > 0) {
        char more; /* receives a byte beyond the limit */
        bool full = *length == most;
        if (!ReadFile(file, full ? &more : text + *length, full ? 1 : (DWORD)(most - *length), &got, NULL))
            fault = last_words();
        else if (full && got > 0)
            fault = "it is too long";
        else
            *length += got;
    }
    (void)CloseHandle(file);
    text[*length] = '\0';
    if (!fault && *length == 0)
        fault = "it is empty";
    return fault ? pccl_secret_fail(reason, "cannot use", path, fault) : PCCL_OK;
}

/* Returns NULL or the reason of the failure; the functions below do the same. */
static const char *write_all(HANDLE file, const char *text, size_t length)
{
    DWORD wrote;
    return WriteFile(file, text, (DWORD)length, &wrote, NULL) && wrote == length ? NULL : last_words();
}

static const char *write_new(const char *path, const char *text, size_t length)
{
    SECURITY_ATTRIBUTES only_ours;
    if (!pccl_private_describe(&only_ours))
        return last_words();
    HANDLE file = CreateFileA(path, GENERIC_WRITE, 0, &only_ours, CREATE_NEW, 0, NULL);
    const char *fault = file == INVALID_HANDLE_VALUE ? last_words() : write_all(file, text, length);
    (void)LocalFree(only_ours.lpSecurityDescriptor);
    if (file == INVALID_HANDLE_VALUE)
        return fault;
    if (!fault && !FlushFileBuffers(file))
        fault = last_words();
    (void)CloseHandle(file);
    return fault;
}

enum placing { PLACE_NEW, PLACE_OVER, PLACE_NOT };

static enum pccl_status put(const char *path, const char *text, size_t length, enum placing placing,
                            struct pccl_text *reason)
{
    char temporary[NAME_MAX];
    uint64_t number;
    const DWORD flags = MOVEFILE_WRITE_THROUGH | (placing == PLACE_OVER ? MOVEFILE_REPLACE_EXISTING : 0);
    if (!pccl_random_u64(&number))
        return pccl_secret_fail(reason, "cannot create", path, "cannot get random bytes from the system");
    (void)snprintf(temporary, sizeof temporary, "%s.%016" PRIx64 ".tmp", path, number);
    const char *fault = write_new(temporary, text, length);
    bool exists = false;
    if (fault) {
        (void)DeleteFileA(temporary);
        return pccl_secret_fail(reason, "cannot create", temporary, fault);
    }
    if (placing != PLACE_NOT && !MoveFileExA(temporary, path, flags)) {
        exists = GetLastError() == ERROR_ALREADY_EXISTS || GetLastError() == ERROR_FILE_EXISTS;
        fault = last_words();
    }
    if (fault || placing == PLACE_NOT)
        (void)DeleteFileA(temporary);
    if (!fault)
        return PCCL_OK;
    enum pccl_status status = pccl_secret_fail(reason, "cannot create", path, fault);
    return exists ? PCCL_USAGE : status;
}

enum pccl_status pccl_secret_file_make(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, PLACE_NEW, reason);
}

enum pccl_status pccl_secret_file_replace(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, PLACE_OVER, reason);
}

enum pccl_status pccl_secret_file_try(const char *path, const char *text, size_t length, struct pccl_text *reason)
{
    return put(path, text, length, PLACE_NOT, reason);
}

enum pccl_status pccl_secret_file_remove(const char *path, struct pccl_text *reason)
{
    if (!DeleteFileA(path) && !is_missing())
        return pccl_secret_fail(reason, "cannot remove", path, last_words());
    return PCCL_OK;
}

enum pccl_status pccl_secret_directory(const char *path, struct pccl_text *reason)
{
    static const char what[] = "cannot use the directory";
    SECURITY_ATTRIBUTES only_ours;
    if (!pccl_private_describe(&only_ours))
        return pccl_secret_fail(reason, "cannot create the directory", path, last_words());
    bool made = CreateDirectoryA(path, &only_ours) || GetLastError() == ERROR_ALREADY_EXISTS;
    const char *fault = made ? NULL : last_words();
    (void)LocalFree(only_ours.lpSecurityDescriptor);
    if (fault)
        return pccl_secret_fail(reason, "cannot create the directory", path, fault);
    HANDLE directory = CreateFileA(path, READ_CONTROL, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                   OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (directory == INVALID_HANDLE_VALUE)
        return pccl_secret_fail(reason, what, path, last_words());
    DWORD attributes = GetFileAttributesA(path);
    if (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_DIRECTORY))
        fault = "not a directory";
    else if (pccl_private_fault(directory))
        fault =
            "it belongs to another user, or other users can access it: remove their access, or use another directory";
    (void)CloseHandle(directory);
    return fault ? pccl_secret_fail(reason, what, path, fault) : PCCL_OK;
}

/* ---- the reserve ---- */

static void name_with(const char *path, const char *suffix, char name[NAME_MAX])
{
    (void)snprintf(name, NAME_MAX, "%s%s", path, suffix);
}

/* Writes every block, because compressed and sparse files have no space before that. */
static const char *fill(HANDLE file, uint64_t size)
{
    char lines[4096];
    const char *fault = NULL;
    memset(lines, '\n', sizeof lines);
    for (uint64_t at = 0; at < size && !fault; at += sizeof lines)
        fault = write_all(file, lines, (size_t)pccl_min_u64(sizeof lines, size - at));
    return fault;
}

enum pccl_status pccl_secret_file_reserve(const char *path, size_t size, struct pccl_text *reason)
{
    char reserve[NAME_MAX];
    SECURITY_ATTRIBUTES only_ours;
    LARGE_INTEGER present = {0};
    name_with(path, ".reserve", reserve);
    if (!pccl_private_describe(&only_ours))
        return pccl_secret_fail(reason, "cannot reserve space in", reserve, last_words());
    HANDLE file = CreateFileA(reserve, GENERIC_WRITE, FILE_SHARE_READ, &only_ours, OPEN_ALWAYS, 0, NULL);
    const char *fault = file != INVALID_HANDLE_VALUE && GetFileSizeEx(file, &present) ? NULL : last_words();
    (void)LocalFree(only_ours.lpSecurityDescriptor);
    if (!fault && present.QuadPart < (LONGLONG)size)
        fault = fill(file, size);
    if (file != INVALID_HANDLE_VALUE)
        (void)CloseHandle(file);
    return fault ? pccl_secret_fail(reason, "cannot reserve space in", reserve, fault) : PCCL_OK;
}

static bool overwrite(const char *path, const char *text, size_t length)
{
    HANDLE file = CreateFileA(path, GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return false;
    bool good = !write_all(file, text, length) && SetEndOfFile(file) && FlushFileBuffers(file);
    (void)CloseHandle(file);
    return good;
}

/*
 * Overwrites the reserve, which needs no additional space, and replaces the file by it. The replaced file becomes the
 * reserve, if the file system supports that.
 */
static bool use_reserve(const char *path, const char *text, size_t length)
{
    char reserve[NAME_MAX], replaced[NAME_MAX];
    name_with(path, ".reserve", reserve);
    name_with(path, ".replaced", replaced);
    if (!overwrite(reserve, text, length))
        return false;
    if (ReplaceFileA(path, reserve, replaced, 0, NULL, NULL)) {
        (void)MoveFileExA(replaced, reserve, MOVEFILE_WRITE_THROUGH);
        return true;
    }
    return MoveFileExA(reserve, path, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
}

enum pccl_status pccl_secret_file_replace_anyway(const char *path, const char *text, size_t length,
                                                 struct pccl_text *reason)
{
    enum pccl_status status = pccl_secret_file_replace(path, text, length, reason);
    return status == PCCL_OK || use_reserve(path, text, length) ? PCCL_OK : status;
}
