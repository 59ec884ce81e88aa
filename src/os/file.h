/* Checks of files, and a file lock that ends with its process. Errors are negative libuv errors. */
#ifndef PCCL_OS_FILE_H
#define PCCL_OS_FILE_H

#include "core/base.h"

#include <stdio.h>
#include <uv.h>

bool pccl_file_exists(const char *path);
/* Returns 0 if this process may read the file, or an error. */
PCCL_MUST_CHECK int pccl_file_check_read(const char *path);
/* Returns 0 if this process may create files in the directory, or an error. */
PCCL_MUST_CHECK int pccl_directory_check_write(const char *path);
void pccl_file_remove(const char *path);
/* Exchanges the names of two files atomically. Returns 0 or an error; UV_ENOSYS if the system has no such call. */
PCCL_MUST_CHECK int pccl_file_exchange(const char *one, const char *other);
/*
 * Creates a file for writing text. Fails if the file exists, because it could be another user's symbolic link. Returns
 * NULL with errno on failure.
 */
FILE *pccl_file_create(const char *path);
/* Renames a file, and replaces an existing one. Returns false with errno on failure. */
PCCL_MUST_CHECK bool pccl_file_rename(const char *from, const char *to);

/*
 * Opens and locks a file. Creates it, accessible only to this user, if it is missing. Children and other programs do
 * not inherit it. *opened is set if the file could be opened. Returns 0 or an error; UV_EAGAIN if another process has
 * locked it.
 */
PCCL_MUST_CHECK int pccl_file_lock(const char *path, uv_os_fd_t *lock, bool *opened);
/* Releases the lock, even if a child that was forked just now still has the file open. */
void pccl_file_unlock(uv_os_fd_t lock);

#endif
