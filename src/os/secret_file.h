/*
 * Files of a master that only its user can read: its key, its token, its book of tokens. Each appears completely
 * or not at all. Reasons name the file and the problem, never the content.
 */
#ifndef PCCL_OS_SECRET_FILE_H
#define PCCL_OS_SECRET_FILE_H

#include "core/status.h"
#include "core/text.h"

/* SYSTEM, with the reason: "cannot read run.token: ..." */
enum pccl_status pccl_secret_fail(struct pccl_text *reason, const char *what, const char *path, const char *why);

/*
 * Reads the whole text, of at most `most` bytes, and a terminator. OK with *length 0: there is no such file. Otherwise
 * not OK, with a reason: it cannot be read, is empty or too long, or (is_private) not only this user may read it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_read(const char *path, bool is_private, char *text, size_t most,
                                                       size_t *length, struct pccl_text *reason);
/* Makes a new file. Otherwise, with a reason: USAGE if the file exists, SYSTEM for any other failure. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_make(const char *path, const char *text, size_t length,
                                                       struct pccl_text *reason);
/*
 * Replaces the file; the new one survives a loss of power. SYSTEM, with a reason: the former one is still there, or may
 * be after a loss of power.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace(const char *path, const char *text, size_t length,
                                                          struct pccl_text *reason);
/* Returns OK if there is space for that. Changes nothing. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_try(const char *path, const char *text, size_t length,
                                                      struct pccl_text *reason);
/*
 * Reserves `size` bytes for a later text of the file, in a second file whose name ends with ".reserve". SYSTEM, with a
 * reason: the space that was reserved before is still reserved.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_reserve(const char *path, size_t size, struct pccl_text *reason);
/*
 * Replaces the file, lasting. If that fails, as on a full disk, uses the reserve; the replaced file, which must be at
 * least as long as the new one, is the reserve afterward. SYSTEM, with the reason of the first failure: as above.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_replace_anyway(const char *path, const char *text, size_t length,
                                                                 struct pccl_text *reason);
/* Removes the file, and syncs its directory. A missing file is OK. */
PCCL_MUST_CHECK enum pccl_status pccl_secret_file_remove(const char *path, struct pccl_text *reason);
/*
 * Makes the directory, if it is missing. SYSTEM, with a reason: the path is not a directory, or other users can
 * read it.
 */
PCCL_MUST_CHECK enum pccl_status pccl_secret_directory(const char *path, struct pccl_text *reason);

#endif
