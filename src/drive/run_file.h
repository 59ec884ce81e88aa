/*
 * The file `run` in a master's state directory: it exists while a run lives, and has the run's lineage. A master that
 * finds it at its start knows that members of that run may return. Its existence decides; the lineage is for the log.
 * If the file cannot be written or removed, this is retried every second while the run continues.
 */
#ifndef PCCL_DRIVE_RUN_FILE_H
#define PCCL_DRIVE_RUN_FILE_H

#include "config/params.h"
#include "core/id.h"

struct pccl_run_file {
    char path[PCCL_PARAM_BYTES_MAX + 8]; /* "": no file is kept */
    struct pccl_id lineage;              /* lineage for the file; zero: the file must not exist */
    uint64_t retry_us;                   /* time of the next attempt; 0: the file is up to date */
    bool told;                           /* the failure has been logged */
};

/*
 * Opens the file. *exists: a run lived when the last master ended, or this cannot be known. Fails if the directory
 * cannot be used.
 */
PCCL_MUST_CHECK enum pccl_status pccl_run_file_open(struct pccl_run_file *file, const char *directory, bool *exists,
                                                    struct pccl_text *reason);
/* Writes the file durably, for this run; NULL: removes it. */
void pccl_run_file_note(struct pccl_run_file *file, const struct pccl_id *lineage, uint64_t now_us);
/* Writes or removes the file again, if that has failed and the time has come. */
void pccl_run_file_retry(struct pccl_run_file *file, uint64_t now_us);

#endif
