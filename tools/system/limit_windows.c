/* The processes of the measurement share sockets by fork, so there is no such measurement on Windows. */
#include "limit.h"

#include <stdio.h>

struct perf_ring *perf_ring_best(uint32_t peers, size_t bytes, bool cached, struct perf_limit_traffic traffic)
{
    (void)peers;
    (void)bytes;
    (void)cached;
    (void)traffic;
    (void)fprintf(stderr, "pccl-perf: the limit cannot be measured on Windows\n");
    return NULL;
}

struct perf_ring *perf_ring_start(uint32_t peers, const struct perf_limit_setting *setting)
{
    (void)peers;
    (void)setting;
    return NULL;
}

void perf_ring_stop(struct perf_ring *ring) { (void)ring; }

bool perf_ring_measure(struct perf_ring *ring, size_t bytes, bool copies, struct perf_limit_samples *samples)
{
    (void)ring;
    (void)bytes;
    (void)copies;
    (void)samples;
    return false;
}

double perf_limit_median(struct perf_limit_samples *samples)
{
    (void)samples;
    return 0;
}

double perf_limit_cpu_per_gb(const struct perf_ring *ring, size_t bytes, const struct perf_limit_samples *samples)
{
    (void)ring;
    (void)bytes;
    (void)samples;
    return 0;
}

void perf_limit_text(const struct perf_ring *ring, char *text, size_t size)
{
    (void)ring;
    if (size > 0)
        text[0] = '\0';
}
