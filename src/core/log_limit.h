/*
 * Limits log lines that anybody who reaches a port can cause: for each cause so many in a minute,
 * then only their number. Pure.
 */
#ifndef PCCL_CORE_LOG_LIMIT_H
#define PCCL_CORE_LOG_LIMIT_H

#include "core/log.h"

enum { PCCL_LOG_LIMIT_US = 60000000 };

struct pccl_log_limit {
    struct {
        uint64_t since_us;         /* when the first line of this minute came */
        uint64_t lines;            /* in this minute */
        enum pccl_log_level level; /* the worst of those that were left out */
    } causes[PCCL_LOG_CAUSES];
};

/* Lines that were left out in a past minute. */
struct pccl_log_omission {
    uint64_t lines;
    enum pccl_log_level level;
    const char *what;
};

/* Call pccl_log_limit_over first. false: the line is left out. */
bool pccl_log_limit_admit(struct pccl_log_limit *limit, enum pccl_log_cause cause, enum pccl_log_level level,
                          uint64_t now_us);
/* Takes the next omission that is to be reported. false: there is none. */
bool pccl_log_limit_over(struct pccl_log_limit *limit, uint64_t now_us, struct pccl_log_omission *omission);

#endif
