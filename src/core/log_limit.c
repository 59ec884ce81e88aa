#include "core/log_limit.h"

static const struct {
    const char *what;
    uint64_t lines_max; /* maximum per minute; exceeds the number that the start of a cluster causes */
} causes[PCCL_LOG_CAUSES] = {
    [PCCL_LOG_CAUSE_NONE] = {"", UINT64_MAX},
    [PCCL_LOG_CAUSE_REFUSED] = {"refused connections", 100},
    [PCCL_LOG_CAUSE_NEWCOMER] = {"newcomers that arrive, wait or leave", 400},
    [PCCL_LOG_CAUSE_MEMBERSHIP] = {"runs, members and epochs", 1000},
    [PCCL_LOG_CAUSE_OPERATION] = {"failed operations and closed groups", 300},
    [PCCL_LOG_CAUSE_RUN] = {"other events of the run", 1000},
    [PCCL_LOG_CAUSE_PEER] = {"events of this process's communicators", 1000},
    [PCCL_LOG_CAUSE_WARNING] = {"warnings of this process's communicators", 1000},
};

bool pccl_log_limit_admit(struct pccl_log_limit *limit, enum pccl_log_cause cause, enum pccl_log_level level,
                          uint64_t now_us)
{
    if (limit->causes[cause].lines == 0 || now_us >= limit->causes[cause].since_us + PCCL_LOG_LIMIT_US) {
        limit->causes[cause].since_us = now_us;
        limit->causes[cause].lines = 0;
    }
    if (++limit->causes[cause].lines <= causes[cause].lines_max)
        return true;
    if (limit->causes[cause].lines == causes[cause].lines_max + 1 || level > limit->causes[cause].level)
        limit->causes[cause].level = level;
    return false;
}

bool pccl_log_limit_over(struct pccl_log_limit *limit, uint64_t now_us, struct pccl_log_omission *omission)
{
    for (uint32_t i = PCCL_LOG_CAUSE_NONE + 1; i < PCCL_LOG_CAUSES; i++) {
        if (limit->causes[i].lines <= causes[i].lines_max || now_us < limit->causes[i].since_us + PCCL_LOG_LIMIT_US)
            continue;
        *omission = (struct pccl_log_omission){.lines = limit->causes[i].lines - causes[i].lines_max,
                                               .level = limit->causes[i].level,
                                               .what = causes[i].what};
        limit->causes[i].lines = 0;
        return true;
    }
    return false;
}
