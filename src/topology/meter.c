#include "topology/meter.h"

enum {
    WINDOW_LEAST_US = 10000,
    UNKNOWN_RTT_US = 100000,
    WINDOWS_LEAST = 8, /* minimum number of windows within the time limit, even if the round trip is long */
    SPANS = 4,         /* number of consecutive spans that must agree */
    SCATTER_PART = 8,  /* spans agree if their rates differ by at most 1/SCATTER_PART of the highest */
    TREND_PART = 20,   /* 1/TREND_PART applies instead if the rates only rise or only fall */
    /* a link still speeds up if each span is faster than the previous one by more than 1/GROWTH_PART */
    GROWTH_PART = 4,
    WINDOWS_PER_SPAN = 4, /* maximum number of windows in a span; a power of two */
    WINDOWS_SILENT = 4    /* a window in which nothing arrives is closed after this many times its normal duration */
};

/* Returns a rate, limited to 64 bits. A time of 0 counts as one microsecond. */
static uint64_t rate_of(uint64_t bytes, uint64_t us)
{
    const uint64_t second = 1000000;
    us = pccl_max_u64(us, 1);
    if (us > UINT64_MAX / second)
        return bytes / (us / second);
    uint64_t whole = bytes / us, part = bytes % us * second / us; /* part < second */
    return whole > (UINT64_MAX - second) / second ? UINT64_MAX : whole * second + part;
}

static uint64_t rate_between(const struct pccl_meter_mark *from, const struct pccl_meter_mark *to)
{
    return rate_of(to->bytes - from->bytes, to->us - from->us);
}

void pccl_meter_begin(struct pccl_meter *meter, uint64_t now_us, uint32_t rtt_us, uint64_t limit_us)
{
    *meter = (struct pccl_meter){.begun_us = now_us, .limit_us = limit_us, .last = {.us = now_us}};
    meter->span_us = pccl_max_u64(rtt_us == 0 ? UNKNOWN_RTT_US : rtt_us, WINDOW_LEAST_US);
    meter->window_us = pccl_min_u64(meter->span_us, pccl_max_u64(limit_us / WINDOWS_LEAST, 1));
}

/*
 * Returns the rates of the last spans of `windows` windows each. Returns false if there are too few spans or they are
 * too short.
 */
static bool last_spans(const struct pccl_meter *meter, uint32_t windows, uint64_t *rates)
{
    if (meter->mark_count <= SPANS * windows)
        return false;
    const struct pccl_meter_mark *mark = meter->marks + meter->mark_count - 1 - SPANS * windows;
    for (uint32_t i = 0; i < SPANS; i++, mark += windows) {
        if (mark[windows].us - mark->us < meter->span_us)
            return false;
        rates[i] = rate_between(mark, mark + windows);
    }
    return true;
}

/* Returns true if the rates agree. This includes rates of 0, which callers treat as not settled. */
static bool agree(const uint64_t *rates)
{
    uint64_t least = rates[0], most = rates[0];
    bool rises = true, falls = true;
    for (uint32_t i = 1; i < SPANS; i++) {
        least = pccl_min_u64(least, rates[i]);
        most = pccl_max_u64(most, rates[i]);
        rises = rises && rates[i] > rates[i - 1];
        falls = falls && rates[i] < rates[i - 1];
    }
    uint64_t part = rises || falls ? TREND_PART : SCATTER_PART;
    return most - least <= most / part;
}

static void look(struct pccl_meter *meter)
{
    uint64_t rates[SPANS];
    const struct pccl_meter_mark *end = meter->marks + meter->mark_count - 1;
    for (uint32_t windows = 1; windows <= WINDOWS_PER_SPAN && meter->settled == 0; windows *= 2) {
        if (last_spans(meter, windows, rates) && agree(rates))
            meter->settled = rate_between(end - SPANS * windows, end);
    }
}

/* Merges windows in pairs, so that there is room and the marks still cover the whole test. */
static void make_room(struct pccl_meter *meter)
{
    for (uint32_t i = 1; i <= PCCL_METER_WINDOWS / 2; i++)
        meter->marks[i] = meter->marks[2 * i];
    meter->mark_count = PCCL_METER_WINDOWS / 2 + 1;
    meter->window_us = meter->window_us > UINT64_MAX / 2 ? UINT64_MAX : meter->window_us * 2;
}

static void put_mark(struct pccl_meter *meter)
{
    meter->marks[meter->mark_count++] = meter->last;
    look(meter);
    if (meter->mark_count > PCCL_METER_WINDOWS)
        make_room(meter);
}

/*
 * Counts arrivals. A window begins and ends at an arrival. If it ended at a fixed time, chance would decide whether it
 * includes the bytes of a burst.
 */
void pccl_meter_add(struct pccl_meter *meter, uint64_t now_us, uint64_t bytes)
{
    struct pccl_meter_mark *last = &meter->last;
    bool arrived = bytes > last->bytes;
    last->us = pccl_max_u64(last->us, now_us);
    last->bytes = pccl_max_u64(last->bytes, bytes);
    if (meter->mark_count == 0) {
        if (arrived)
            put_mark(meter);
        return;
    }
    struct pccl_meter_mark *mark = &meter->marks[meter->mark_count - 1];
    uint64_t passed_us = last->us - mark->us;
    if (passed_us == 0) /* samples that were delayed may have the same time */
        mark->bytes = last->bytes;
    else if (arrived ? passed_us >= meter->window_us : passed_us / WINDOWS_SILENT >= meter->window_us)
        put_mark(meter);
}

bool pccl_meter_is_done(const struct pccl_meter *meter, uint64_t now_us)
{
    bool is_over = now_us >= meter->begun_us && now_us - meter->begun_us >= meter->limit_us;
    return is_over || meter->settled != 0;
}

struct window {
    uint64_t rate, us;
};

/*
 * Returns the median weighted by time, so that a stall has an effect only if it takes more than half of the time. Sorts
 * the windows.
 */
static uint64_t median(struct window *windows, uint32_t count)
{
    uint64_t all_us = 0, us = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct window window = windows[i];
        all_us += window.us;
        uint32_t at = i;
        for (; at > 0 && windows[at - 1].rate > window.rate; at--)
            windows[at] = windows[at - 1];
        windows[at] = window;
    }
    uint32_t i = 0;
    while (i + 1 < count && us + windows[i].us <= all_us / 2)
        us += windows[i++].us;
    return windows[i].rate;
}

/* Returns the median rate over the last third of the time since the first bytes. */
static uint64_t late_rate(const struct pccl_meter *meter)
{
    struct window windows[PCCL_METER_WINDOWS + 1];
    struct pccl_meter_mark end = meter->last;
    uint64_t third_us = (end.us - meter->marks[0].us) / 3;
    uint32_t count = 0;
    for (uint32_t i = meter->mark_count; i-- > 0 && (count == 0 || meter->last.us - end.us < third_us);) {
        if (meter->marks[i].us == end.us)
            continue; /* the last sample is also a mark */
        windows[count++] = (struct window){rate_between(&meter->marks[i], &end), end.us - meter->marks[i].us};
        end = meter->marks[i];
    }
    return count > 0 ? median(windows, count) : 0;
}

/* Returns the latest rate of a link that still speeds up from span to span; 0 if it does not, or this is unknown. */
static uint64_t rising_rate(const struct pccl_meter *meter)
{
    uint64_t rates[SPANS] = {0};
    uint32_t windows = 1;
    while (windows <= WINDOWS_PER_SPAN && !last_spans(meter, windows, rates))
        windows *= 2;
    for (uint32_t i = 1; i < SPANS && windows <= WINDOWS_PER_SPAN; i++) {
        if (rates[i] <= rates[i - 1] || rates[i] - rates[i - 1] <= rates[i - 1] / GROWTH_PART)
            return 0;
    }
    return windows <= WINDOWS_PER_SPAN ? rates[SPANS - 1] : 0;
}

uint64_t pccl_meter_rate(const struct pccl_meter *meter)
{
    if (meter->settled != 0 || meter->last.bytes == 0)
        return meter->settled;
    uint64_t late = pccl_max_u64(late_rate(meter), rising_rate(meter));
    if (late > 0)
        return late;
    /*
     * There was only one sample, or a stall for most of the time. The rate is low, but not 0, because data has arrived.
     */
    return pccl_max_u64(rate_of(meter->last.bytes, meter->last.us - meter->begun_us), 1);
}
