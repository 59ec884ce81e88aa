#include "data/pace.h"

enum {
    INTERVAL_LEAST_US = 50000,
    LOOK_EVERY_US = 5000, /* interval between samples until the first bytes have been delivered */
    STARVED_MOST = 4,     /* an interval counts if at most 1/STARVED_MOST of it passed without anything to send */
    GROWTH_PART = 4,      /* a rate that exceeds the highest one by more than 1/GROWTH_PART counts as growth */
    FLAT_ENOUGH = 3,      /* number of intervals without growth after which a bound is set */
    HEADROOM_PART = 10,   /* the bound exceeds the achieved rate by 1/HEADROOM_PART */
    STEP_PART = 8,        /* without a queue, the bound grows by 1/STEP_PART */
    SECOND_US = 1000000,
    PEAK_US = 5 * SECOND_US,  /* minimum time for which the highest rate is remembered */
    PEAK_PERCENT = 75,        /* minimum of the bound, as a percentage of the highest rate */
    STALE_US = 10 * SECOND_US /* time without a sample after which the path may have changed */
};

void pccl_pace_interrupt(struct pccl_pace *pace)
{
    pace->began_us = 0;
    pace->look_us = 0;
    pace->flowing = false;
}

static void count_starved(struct pccl_pace *pace, uint64_t now_us)
{
    if (pace->starving_us == 0)
        return;
    pace->starved_us += now_us - pace->starving_us;
    pace->waited_us += pace->waiting ? now_us - pace->starving_us : 0;
    pace->starving_us = now_us;
}

void pccl_pace_starve(struct pccl_pace *pace, uint64_t now_us, bool starving, bool waiting)
{
    count_starved(pace, now_us);
    pace->starving_us = starving ? now_us : 0;
    pace->waiting = waiting;
}

/*
 * Returns the rate achieved recently, as the upper quartile of the samples: acknowledgments arrive in bursts, and a
 * loss delays some of them, so a lower quantile would reduce the bound with each sample.
 */
static uint64_t got_through(const struct pccl_pace *pace)
{
    uint64_t sorted[PCCL_PACE_SAMPLES];
    uint32_t count = (uint32_t)pccl_min_u64(pace->samples, PCCL_PACE_SAMPLES);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > pace->rates[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = pace->rates[i];
    }
    return count > 0 ? sorted[count * 3 / 4] : 0;
}

static void begin(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint64_t next_us)
{
    pace->began_us = now_us;
    pace->began_bytes = delivered;
    pace->starved_us = pace->waited_us = 0;
    pace->look_us = now_us + next_us;
}

/*
 * Returns the highest rate achieved in the last five to ten seconds. Without this minimum, a sender that others in the
 * ring or a busy processor have delayed would be bounded to a lower rate than its path can carry, and links that slow
 * each other down would not recover. If the path now carries less, congestion control of the connections handles that
 * until this rate is forgotten.
 */
static uint64_t peak_of(struct pccl_pace *pace, uint64_t now_us, uint64_t got)
{
    if (now_us - pace->peak_us > PEAK_US) {
        pace->peaks[1] = pace->peaks[0];
        pace->peaks[0] = 0;
        pace->peak_us = now_us;
    }
    pace->peaks[0] = pccl_max_u64(pace->peaks[0], got);
    return pccl_max_u64(pace->peaks[0], pace->peaks[1]);
}

/*
 * Returns the bound after growth. It is limited to twice the achieved rate, because it is unknown whether the path can
 * carry more.
 */
static uint64_t grown(uint64_t bound, uint64_t now) { return pccl_min_u64(bound + bound / STEP_PART, 2 * now); }

static void take_sample(struct pccl_pace *pace, uint64_t now_us, uint64_t rate, bool queued)
{
    if (pace->flat < FLAT_ENOUGH) /* with a bound, the rate cannot grow beyond it, so growth is no longer counted */
        pace->flat = rate > pace->most + pace->most / GROWTH_PART ? 0 : pace->flat + 1;
    pace->most = pccl_max_u64(pace->most, rate);
    pace->rates[pace->samples % PCCL_PACE_SAMPLES] = rate;
    pace->samples++;
    pace->sampled_us = now_us;
    uint64_t now = got_through(pace), least = peak_of(pace, now_us, now) / 100 * PEAK_PERCENT, before = pace->bound;
    pace->bound = pace->flat >= FLAT_ENOUGH ? pccl_max_u64(now + now / HEADROOM_PART, least) : 0;
    if (pace->bound != 0 && !queued)
        pace->bound = pccl_max_u64(pace->bound, grown(before, now));
}

void pccl_pace_look(struct pccl_pace *pace, uint64_t now_us, uint64_t delivered, uint32_t rtt_us, bool queued)
{
    uint64_t interval_us = pccl_max_u64(rtt_us, INTERVAL_LEAST_US);
    count_starved(pace, now_us);
    if (pace->bound != 0 && now_us - pace->sampled_us > STALE_US)
        *pace = (struct pccl_pace){.bound = 0};
    /*
     * An interval begins when bytes are delivered. The first acknowledgment of an operation arrives a round trip after
     * sending, and a sender without credit takes no samples during that time.
     */
    bool flows = pace->began_us != 0 && delivered > pace->began_bytes;
    if (!flows || !pace->flowing) {
        begin(pace, now_us, delivered, flows ? interval_us : LOOK_EVERY_US);
        pace->flowing = flows;
        return;
    }
    uint64_t passed_us = now_us - pace->began_us;
    if (passed_us < interval_us) {
        pace->look_us = pace->began_us + interval_us;
        return;
    }
    /*
     * If there is a queue, a sender that waits for credit has filled the path, so this wait does not count as starving.
     * The root of a broadcast is always in this state.
     */
    uint64_t starved_us = pace->starved_us - (queued ? pace->waited_us : 0);
    if (starved_us <= passed_us / STARVED_MOST)
        take_sample(pace, now_us, (delivered - pace->began_bytes) * SECOND_US / passed_us, queued);
    begin(pace, now_us, delivered, interval_us);
}
