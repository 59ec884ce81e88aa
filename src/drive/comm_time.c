#include "drive/comm_time.h"

void pccl_comm_time_block(struct pccl_comm_time *time, uint64_t now_us)
{
    if (time->blocked++ == 0)
        time->blocked_us = now_us;
}

uint64_t pccl_comm_time_unblock(struct pccl_comm_time *time, uint64_t now_us)
{
    PCCL_ASSERT(time->blocked > 0);
    const uint64_t since_us = pccl_min_u64(time->blocked_us, now_us);
    time->blocked--;
    time->blocked_us = now_us;
    return now_us - since_us;
}

struct pccl_times pccl_comm_time_sums(const struct pccl_comm_time *time, uint64_t now_us)
{
    struct pccl_times times = time->times;
    const uint64_t until_us = time->blocked > 0 ? pccl_min_u64(time->blocked_us, now_us) : now_us;
    times.lived_us = until_us - pccl_min_u64(until_us, time->joined_us + time->open_us);
    return times;
}
