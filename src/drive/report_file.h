#ifndef PCCL_DRIVE_REPORT_FILE_H
#define PCCL_DRIVE_REPORT_FILE_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"

enum { PCCL_REPORT_FILES_MAX = 64 };

/*
 * Groups that have a file. Their number is limited, because peers choose their group numbers. The caller zeroes the
 * struct and sets the path.
 */
struct pccl_report_files {
    char path[PCCL_PARAM_BYTES_MAX + 1]; /* empty: no file */
    uint32_t groups[PCCL_REPORT_FILES_MAX];
    uint32_t count;
    bool told; /* a refusal of a further group has been reported */
};

/*
 * Writes PATH for group 0 and PATH.<group> for another group, atomically: readers see either the old or the new text.
 * Only the first PCCL_REPORT_FILES_MAX other groups get files; the refusal of further groups is reported once. On
 * failure returns a reason and leaves an existing file unchanged.
 */
PCCL_MUST_CHECK enum pccl_status pccl_report_file_write(struct pccl_report_files *files, uint32_t group,
                                                        const char *text, size_t length, struct pccl_text *reason);

#endif
