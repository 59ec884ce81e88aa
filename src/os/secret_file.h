/*
 * Files of a master that only its user can read: its key, its token and its token file. Writes are atomic: a file
 * appears completely or not at all. Reasons name the file and the problem, but never contain the contents.
 */
#ifndef PCCL_OS_SECRET_FILE_H
#define PCCL_OS_SECRET_FILE_H

#include "core/status.h"
#include "core/text.h"

/* Sets a reason such as "cannot read run.token: ...". Returns SYSTEM. */
enum pccl_status pccl_secret_fail(struct pccl_text *reason, const char *what, const char *path, const char *why);

/*
 * Reads the whole file, which must have at most `most` bytes, and appends a terminator. If there is no such file,
 * returns OK with *length 0. Fails with a reason if it cannot be read, is empty or too long or, with is_private, if
 * other users can access it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_read(const char *path, bool is_private, char *text, size_t most,
                                                       size_t *length, struct pccl_text *reason);
/* Creates a new file. Returns USAGE, with a reason, if the file exists, or SYSTEM on any other failure. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_make(const char *path, const char *text, size_t length,
                                                       struct pccl_text *reason);
/*
 * Replaces the file durably: after OK, the new contents survive a power loss. After SYSTEM, with a reason, the previous
 * contents are still there, or may reappear after a power loss.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace(const char *path, const char *text, size_t length,
                                                          struct pccl_text *reason);
/* Returns OK if a file with these contents could be written now. Changes nothing. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_try(const char *path, const char *text, size_t length,
                                                      struct pccl_text *reason);
/*
 * Reserves `size` bytes for future contents of the file, in a second file whose name ends with ".reserve". If that
 * fails, returns SYSTEM with a reason; space that was reserved earlier then stays reserved.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_reserve(const char *path, size_t size, struct pccl_text *reason);
/*
 * Replaces the file as pccl_secret_file_replace does. If that fails, for example on a full disk, uses the reserve. The
 * replaced file, which must be at least as long as the new one, then becomes the reserve. After SYSTEM, with the reason
 * of the first failure, the previous contents are still there, or may reappear after a power loss.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace_anyway(const char *path, const char *text, size_t length,
                                                                 struct pccl_text *reason);
/* Removes the file and syncs its directory. Returns OK if there is no such file. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_remove(const char *path, struct pccl_text *reason);
/*
 * Creates the directory if it is missing. Returns SYSTEM with a reason if that fails, if the path is not a directory,
 * or if another user owns the directory or can access it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_directory(const char *path, struct pccl_text *reason);

#endif
