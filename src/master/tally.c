#include "master/tally.h"

const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES] = {1000,     10000,    100000,   1000000,
                                                                10000000, 60000000, 600000000};

void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us)
{
    uint32_t slot = 0;
    while (slot < PCCL_TALLY_LATENCIES && took_us > pccl_tally_latencies_us[slot])
        slot++;
    tally->latency[slot]++;
    tally->latency_us += took_us;
    (committed ? tally->committed : tally->aborted)[kind]++;
    if (committed)
        tally->bytes[kind] += bytes;
}

uint64_t pccl_tally_sum(const uint64_t *counts, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += counts[i];
    return sum;
}
