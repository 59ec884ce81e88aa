/*
 * The file `run` in a master's state directory: it exists while a run lives, and has the run's lineage. A master that
 * finds it at its start knows that members of that run may come back. Its existence decides; the lineage is for the
 * log. A file that cannot be written or removed is tried again each second; meanwhile the run goes on.
 */
#ifndef PCCL_DRIVE_RUN_FILE_H
#define PCCL_DRIVE_RUN_FILE_H

#include "config/params.h"
#include "core/id.h"

struct pccl_run_file {
    char path[PCCL_PARAM_BYTES_MAX + 8]; /* "": none is kept */
    struct pccl_id lineage;              /* to be in the file; zero: there is to be none */
    uint64_t retry_us;                   /* when to write it again; 0: it is written */
    bool told;                           /* the log says that it cannot be written */
};

/* *exists: a run lived when the last master ended, or it cannot be known. Not OK: the directory cannot be used. */
PCCL_MUST_CHECK enum pccl_status pccl_run_file_open(struct pccl_run_file *file, const char *directory, bool *exists,
                                                    struct pccl_text *reason);
/* Writes the file durably, for this run; NULL: removes it. */
void pccl_run_file_note(struct pccl_run_file *file, const struct pccl_id *lineage, uint64_t now_us);
/* Writes or removes it again, if that has failed and the time has come. */
void pccl_run_file_retry(struct pccl_run_file *file, uint64_t now_us);

#endif
