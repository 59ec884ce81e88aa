/* Writes topology reports (topology/report.h) to files. */
#ifndef PCCL_DRIVE_REPORT_FILE_H
#define PCCL_DRIVE_REPORT_FILE_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"

enum { PCCL_REPORT_FILES_MAX = 64 };

/*
 * The groups that have a file. Peers choose their group numbers, so the number of files is bounded. Zero it, except for
 * the path.
 */
struct pccl_report_files {
    char path[PCCL_PARAM_BYTES_MAX + 1]; /* empty: no file */
    uint32_t groups[PCCL_REPORT_FILES_MAX];
    uint32_t count;
    bool told; /* the refusal of further groups has been reported */
};

/*
 * Writes PATH for group 0 and PATH.<group> for the others, atomically: readers see the old text or the new one. On
 * failure, with a reason, the old file, if any, is unchanged. Only the first PCCL_REPORT_FILES_MAX of the other groups
 * get files; the refusal of further ones is reported once.
 */
PCCL_MUST_CHECK enum pccl_status pccl_report_file_write(struct pccl_report_files *files, uint32_t group,
                                                        const char *text, size_t length, struct pccl_text *reason);

#endif
