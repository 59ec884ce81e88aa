/*
 * Limits the log lines that strangers can trigger to a fixed number per cause and minute, and counts the omitted ones.
 * Pure functions.
 */
#ifndef PCCL_CORE_LOG_LIMIT_H
#define PCCL_CORE_LOG_LIMIT_H

#include "core/log.h"

enum { PCCL_LOG_LIMIT_US = 60000000 };

struct pccl_log_limit {
    struct {
        uint64_t since_us;         /* time of the first line of the current minute */
        uint64_t lines;            /* number of lines in this minute */
        enum pccl_log_level level; /* highest level of the omitted lines */
    } causes[PCCL_LOG_CAUSES];
};

/* Lines that were omitted in a past minute. */
struct pccl_log_omission {
    uint64_t lines;
    enum pccl_log_level level;
    const char *what;
};

/* Returns false if the line must be omitted. Call pccl_log_limit_over first. */
bool pccl_log_limit_admit(struct pccl_log_limit *limit, enum pccl_log_cause cause, enum pccl_log_level level,
                          uint64_t now_us);
/* Sets *omission to the next omission that must be reported. Returns false if there are no more. */
bool pccl_log_limit_over(struct pccl_log_limit *limit, uint64_t now_us, struct pccl_log_omission *omission);

#endif
