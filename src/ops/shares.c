#include "ops/shares.h"

/* Returns a share of the time in percent, rounded. The time must not be 0. */
static uint32_t percent_of(const uint64_t times_us[PCCL_TIME_USES], enum pccl_time_use use)
{
    double all_us = (double)pccl_tally_sum(times_us, PCCL_TIME_USES);
    return (uint32_t)((double)times_us[use] * 100 / all_us + 0.5);
}

void pccl_shares_put(struct pccl_json *json, const char *key, const uint64_t times_us[PCCL_TIME_USES])
{
    if (pccl_tally_sum(times_us, PCCL_TIME_USES) == 0) {
        pccl_json_null(json, key);
        return;
    }
    pccl_json_open(json, key, '[');
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++)
        pccl_json_number(json, NULL, percent_of(times_us, use));
    pccl_json_close(json, ']');
}

static void put_times(struct pccl_json *json, const char *key, const uint64_t times_us[PCCL_TIME_USES])
{
    pccl_json_open(json, key, '{');
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++)
        pccl_json_number(json, pccl_tally_time_uses[use], times_us[use] / 1000);
    pccl_json_close(json, '}');
}

void pccl_shares_put_run(struct pccl_json *json, const struct pccl_figures *f)
{
    pccl_json_open(json, "time", '{');
    put_times(json, "recent_ms", f->recent_us);
    put_times(json, "whole_ms", f->tally.time_us);
    pccl_json_open(json, "waited_for", '[');
    for (uint32_t i = 0; i < f->delay_count; i++) {
        pccl_json_open(json, NULL, '{');
        pccl_json_id(json, "peer", &f->delays[i].peer);
        pccl_json_number(json, "ms", f->delays[i].us / 1000);
        pccl_json_close(json, '}');
    }
    pccl_json_close(json, ']');
    pccl_json_close(json, '}');
}

void pccl_shares_add(struct pccl_text *text, const uint64_t times_us[PCCL_TIME_USES],
                     const struct pccl_text *delayed_by)
{
    static const char *const words[PCCL_TIME_USES] = {[PCCL_TIME_COMPUTING] = "computing",
                                                      [PCCL_TIME_WAITING] = "waiting",
                                                      [PCCL_TIME_MOVING] = "moving data",
                                                      [PCCL_TIME_LOST] = "lost",
                                                      [PCCL_TIME_JOINT] = "in joint calls"};
    for (uint32_t use = 0; use < PCCL_TIME_USES; use++) {
        uint32_t percent = percent_of(times_us, use);
        if (percent == 0 && use != PCCL_TIME_COMPUTING)
            continue;
        pccl_text_append(text, "%s%u %% %s", use == PCCL_TIME_COMPUTING ? "" : ", ", percent, words[use]);
        if (use == PCCL_TIME_WAITING && delayed_by->length > 0)
            pccl_text_append(text, " (most for %s)", delayed_by->bytes);
    }
}
