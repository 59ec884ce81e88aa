/*
 * The file `run` in the state directory of a master. It exists while a run is alive and contains the lineage of the
 * run. A master that finds the file when it starts expects members of that run to return; the content is used only
 * for the log. If the file cannot be written or removed, the master retries every second while the run continues.
 */
#ifndef PCCL_DRIVE_RUN_FILE_H
#define PCCL_DRIVE_RUN_FILE_H

#include "config/params.h"
#include "core/id.h"

struct pccl_run_file {
    char path[PCCL_PARAM_BYTES_MAX + 8]; /* empty: no file is kept */
    struct pccl_id lineage;              /* lineage to write; zero: the file must not exist */
    uint64_t retry_us;                   /* time of the next attempt; 0: the file is up to date */
    bool told;                           /* a failure has been logged */
};

/*
 * Opens the file. Sets *exists if a run was alive when the last master ended, or if this cannot be determined. Fails if
 * the directory cannot be used.
 */
PCCL_MUST_CHECK enum pccl_status pccl_run_file_open(struct pccl_run_file *file, const char *directory, bool *exists,
                                                    struct pccl_text *reason);
/* Writes the file durably for the run with this lineage; NULL removes the file. */
void pccl_run_file_note(struct pccl_run_file *file, const struct pccl_id *lineage, uint64_t now_us);
/* Retries a failed write or removal when it is due. */
void pccl_run_file_retry(struct pccl_run_file *file, uint64_t now_us);

#endif
