/* A file with what is known of the links of a group, as topology/picture.h describes it. */
#ifndef PCCL_DRIVE_PICTURE_FILE_H
#define PCCL_DRIVE_PICTURE_FILE_H

#include "core/status.h"
#include "core/text.h"

/*
 * Writes PATH for group 0 and PATH.<group> for the others, as a whole or not at all: readers see the old text or the
 * new one. Not OK, with words: the old one is still there, or none was.
 */
PCCL_MUST_CHECK enum pccl_status pccl_picture_file_write(const char *path, uint32_t group, const char *text,
                                                         size_t length, struct pccl_text *words);

#endif
