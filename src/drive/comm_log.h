/* Buffers lines logged under the lock until it is released, because the user's log callback may take other locks. */
#ifndef PCCL_DRIVE_COMM_LOG_H
#define PCCL_DRIVE_COMM_LOG_H

#include "core/log.h"

struct pccl_log_line;

struct pccl_comm_log {
    struct pccl_log_line *oldest, *newest;
};

/* Appends a line. Drops it if out of memory or if the level is not logged. */
void pccl_comm_log_note(struct pccl_comm_log *log, enum pccl_log_level level, const char *text);
/* Writes and frees the lines. Called without the lock, so the caller passes a copy made under the lock. */
void pccl_comm_log_write(const struct pccl_comm_log *log);

#endif
