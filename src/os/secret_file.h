/*
 * Files of a master that only its user can read: its key, its token, its token file. Each appears completely or not at
 * all. Reasons name the file and the problem, never the content.
 */
#ifndef PCCL_OS_SECRET_FILE_H
#define PCCL_OS_SECRET_FILE_H

#include "core/status.h"
#include "core/text.h"

/* Returns SYSTEM, with a reason such as "cannot read run.token: ..." */
enum pccl_status pccl_secret_fail(struct pccl_text *reason, const char *what, const char *path, const char *why);

/*
 * Reads the whole text, at most `most` bytes, and appends a terminator. Returns OK with *length 0 if there is no such
 * file. Otherwise fails, with a reason, if it cannot be read, is empty or too long, or, with is_private, if other users
 * may access it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_read(const char *path, bool is_private, char *text, size_t most,
                                                       size_t *length, struct pccl_text *reason);
/* Creates a new file. Returns USAGE, with a reason, if the file exists, or SYSTEM on any other failure. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_make(const char *path, const char *text, size_t length,
                                                       struct pccl_text *reason);
/*
 * Replaces the file; the new content survives a loss of power. On SYSTEM, with a reason, the previous content is still
 * there, or may be after a loss of power.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace(const char *path, const char *text, size_t length,
                                                          struct pccl_text *reason);
/* Returns OK if a file with this content could be written now. Changes nothing. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_try(const char *path, const char *text, size_t length,
                                                      struct pccl_text *reason);
/*
 * Reserves `size` bytes for a later content of the file, in a second file whose name ends with ".reserve". On SYSTEM,
 * with a reason, space reserved earlier is still reserved.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_reserve(const char *path, size_t size, struct pccl_text *reason);
/*
 * Replaces the file as pccl_secret_file_replace. If that fails, as on a full disk, uses the reserve; the replaced file,
 * which must be at least as long as the new one, is the reserve afterward. On SYSTEM, with the reason of the first
 * failure, the previous content is still there, or may be after a loss of power.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace_anyway(const char *path, const char *text, size_t length,
                                                                 struct pccl_text *reason);
/* Removes the file, and syncs its directory. A missing file is OK. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_remove(const char *path, struct pccl_text *reason);
/*
 * Creates the directory if it is missing. Returns SYSTEM, with a reason, if that fails, if the path is not a directory,
 * if another user owns it, or if others can use it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_directory(const char *path, struct pccl_text *reason);

#endif
