/*
 * Lines that anybody can cause who reaches a port: of each cause so many within a minute, then their number. Pure.
 */
#ifndef PCCL_CORE_LOG_LIMIT_H
#define PCCL_CORE_LOG_LIMIT_H

#include "core/log.h"

enum { PCCL_LOG_LIMIT_US = 60000000 };

struct pccl_log_limit {
    struct {
        uint64_t since_us;         /* of the first line of this minute */
        uint64_t lines;            /* in this minute */
        enum pccl_log_level level; /* the worst of those that were left out */
    } causes[PCCL_LOG_CAUSES];
};

/* Lines that were left out, in a minute that is over. */
struct pccl_log_omission {
    uint64_t lines;
    enum pccl_log_level level;
    const char *what;
};

/* Call pccl_log_limit_over first. false: the line is left out. */
bool pccl_log_limit_admit(struct pccl_log_limit *limit, enum pccl_log_cause cause, enum pccl_log_level level,
                          uint64_t now_us);
/* The next omission that is to be told; false: none. */
bool pccl_log_limit_over(struct pccl_log_limit *limit, uint64_t now_us, struct pccl_log_omission *omission);

#endif
