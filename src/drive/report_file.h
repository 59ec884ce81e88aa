/* Files with what is known of the links of a group, as topology/report.h describes it. */
#ifndef PCCL_DRIVE_REPORT_FILE_H
#define PCCL_DRIVE_REPORT_FILE_H

#include "core/status.h"
#include "core/text.h"
#include "config/params.h"

enum { PCCL_REPORT_FILES_MAX = 64 };

/* Peers choose the numbers of their groups, so what they can have written has a bound. All zero but the path. */
struct pccl_report_files {
    char path[PCCL_PARAM_BYTES_MAX + 1]; /* empty: none are wanted */
    uint32_t groups[PCCL_REPORT_FILES_MAX];
    uint32_t count;
    bool told; /* that there are too many */
};

/*
 * Writes PATH for group 0 and PATH.<group> for the others, as a whole or not at all: readers see the old text or the
 * new one. Not OK, with a reason: the old one is still there, or none was. Of the others the first
 * PCCL_REPORT_FILES_MAX have files; that another has none is said once.
 */
PCCL_MUST_CHECK enum pccl_status pccl_report_file_write(struct pccl_report_files *files, uint32_t group,
                                                        const char *text, size_t length, struct pccl_text *reason);

#endif
