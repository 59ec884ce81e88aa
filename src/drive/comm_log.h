/* Lines that are logged under the lock, until it is released: a user's log callback may want locks of the user. */
#ifndef PCCL_DRIVE_COMM_LOG_H
#define PCCL_DRIVE_COMM_LOG_H

#include "core/log.h"

struct pccl_log_line;

/* Of a communicator. */
struct pccl_comm_log {
    struct pccl_log_line *oldest, *newest;
};

/* Lost where memory is short, or nobody wants it. */
void pccl_comm_log_note(struct pccl_comm_log *log, enum pccl_log_level level, const char *text);
/* Without the lock: writes and frees the lines that were in the log; a copy of it does. */
void pccl_comm_log_write(const struct pccl_comm_log *log);

#endif
