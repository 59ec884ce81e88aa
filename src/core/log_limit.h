/*
 * Limits log lines that strangers with access to a port can cause: a number per cause and minute, then only a count.
 * Pure.
 */
#ifndef PCCL_CORE_LOG_LIMIT_H
#define PCCL_CORE_LOG_LIMIT_H

#include "core/log.h"

enum { PCCL_LOG_LIMIT_US = 60000000 };

struct pccl_log_limit {
    struct {
        uint64_t since_us;         /* time of the first line of this minute */
        uint64_t lines;            /* in this minute */
        enum pccl_log_level level; /* worst level of the omitted ones */
    } causes[PCCL_LOG_CAUSES];
};

/* Lines omitted in a past minute. */
struct pccl_log_omission {
    uint64_t lines;
    enum pccl_log_level level;
    const char *what;
};

/* Returns false if the line must be omitted. Call pccl_log_limit_over first. */
bool pccl_log_limit_admit(struct pccl_log_limit *limit, enum pccl_log_cause cause, enum pccl_log_level level,
                          uint64_t now_us);
/* Takes the next omission to report. Returns false if there are no more. */
bool pccl_log_limit_over(struct pccl_log_limit *limit, uint64_t now_us, struct pccl_log_omission *omission);

#endif
