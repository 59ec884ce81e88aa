#include "data/share.h"

enum {
    SLOW_PART = 4,        /* a connection is slow if its rate is below 1/SLOW_PART of the fastest one's rate */
    PATIENCE_US = 100000, /* two round trips of a long path, after which a connection that keeps up has room */
};

static bool is_slow(const struct pccl_share *share, uint64_t rate)
{
    return rate != 0 && rate < share->fastest / SLOW_PART;
}

bool pccl_share_knows(const struct pccl_share *share, uint64_t sent, uint32_t rtt_us)
{
    return sent >= share->fastest / SLOW_PART * rtt_us / 1000000;
}

void pccl_share_begin(struct pccl_share *share, uint64_t now_us)
{
    if (!share->waiting)
        share->since_us = now_us;
    share->waiting = true;
}

bool pccl_share_takes(const struct pccl_share *share, uint64_t rate, uint64_t now_us)
{
    return !is_slow(share, rate) || now_us >= pccl_share_due_us(share);
}

void pccl_share_took(struct pccl_share *share, uint64_t rate, uint64_t now_us)
{
    if (!is_slow(share, rate))
        share->since_us = now_us;
}

uint64_t pccl_share_due_us(const struct pccl_share *share) { return share->since_us + PATIENCE_US; }
