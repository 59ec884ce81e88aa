#include "master/tally.h"

#include "core/base.h"

const char *const pccl_tally_time_uses[PCCL_TIME_USES] = {[PCCL_TIME_COMPUTING] = "computing",
                                                          [PCCL_TIME_WAITING] = "waiting",
                                                          [PCCL_TIME_MOVING] = "moving",
                                                          [PCCL_TIME_LOST] = "lost",
                                                          [PCCL_TIME_JOINT] = "joint"};

const uint64_t pccl_tally_latencies_us[PCCL_TALLY_LATENCIES] = {1000,     10000,    100000,   1000000,
                                                                10000000, 60000000, 600000000};

void pccl_tally_turn(struct pccl_tally *tally, uint64_t now_us)
{
    uint64_t now = now_us / PCCL_TALLY_SPAN_US;
    uint64_t first = pccl_max_u64(tally->span + 1, now - pccl_min_u64(now, PCCL_TALLY_SPANS - 1));
    for (uint64_t span = first; span <= now; span++)
        tally->spans[span % PCCL_TALLY_SPANS] = (struct pccl_span){.bytes = 0};
    tally->turned_us = now_us;
    tally->span = pccl_max_u64(tally->span, now);
}

void pccl_tally_outcome(struct pccl_tally *tally, uint32_t kind, bool committed, uint64_t bytes, uint64_t took_us,
                        uint64_t now_us)
{
    PCCL_ASSERT(kind < PCCL_TALLY_KINDS);
    uint32_t slot = 0;
    pccl_tally_turn(tally, now_us);
    struct pccl_span *span = &tally->spans[tally->span % PCCL_TALLY_SPANS];
    *(committed ? &span->committed : &span->aborted) += 1;
    span->bytes += committed ? bytes : 0;
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

/* ---- steps ---- */

/* Returns false for infinities and NaN. */
static bool is_number(double value) { return value - value == 0; }

static struct pccl_training_step *find_step(struct pccl_tally *tally, uint64_t step)
{
    uint64_t known = pccl_min_u64(tally->step_count, PCCL_TALLY_STEPS);
    for (uint64_t back = 1; back <= known; back++) {
        struct pccl_training_step *entry = &tally->steps[(tally->step_count - back) % PCCL_TALLY_STEPS];
        if (entry->step == step)
            return entry;
    }
    struct pccl_training_step *fresh = &tally->steps[tally->step_count++ % PCCL_TALLY_STEPS];
    *fresh = (struct pccl_training_step){.step = step};
    return fresh;
}

void pccl_tally_step(struct pccl_tally *tally, uint64_t step, double loss)
{
    struct pccl_training_step *entry = find_step(tally, step);
    if (!is_number(loss))
        return;
    entry->least = entry->count == 0 || loss < entry->least ? loss : entry->least;
    entry->most = entry->count == 0 || loss > entry->most ? loss : entry->most;
    entry->sum += loss;
    entry->count++;
}
