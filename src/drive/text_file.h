/* Replaces files atomically: readers see either the old or the new text. */
#ifndef PCCL_DRIVE_TEXT_FILE_H
#define PCCL_DRIVE_TEXT_FILE_H

#include "core/status.h"
#include "core/text.h"

enum { PCCL_TEXT_FILE_NAME_MAX = 1100 };

/* Writes the file. On failure returns SYSTEM with a reason and leaves an existing file unchanged. */
PCCL_MUST_CHECK enum pccl_status pccl_text_file_write(const char *name, const char *text, size_t length,
                                                      struct pccl_text *reason);

#endif
