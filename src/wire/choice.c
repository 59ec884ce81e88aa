#include "wire/choice.h"

#include "wire/cost.h"
#include "wire/packing.h"

/*
 * Constants for choosing a level. All peers must use the same values, because each peer computes the choice for a first
 * use.
 */
enum {
    LOWERED_TO_PERCENT = 90, /* share of the budget that the expected time at a lower level may use */
    RAISED_TO_PERCENT = 75,  /* the same for a higher level; low enough that noise does not lower the level again */
    PATIENCE_LEAST = 2,
    PATIENCE_MOST = 64,
    /* if a level is lowered again within this many uses of a rise, the next rise takes more patience */
    STEADY_USES = 16,
    STEADY_MOST = UINT8_MAX,
};
static const uint64_t bytes_most = UINT64_C(1) << 50; /* no budget is large enough for more */

const char *pccl_choice_misfit(const struct pccl_descriptor *descriptor)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    const enum pccl_datatype type = (enum pccl_datatype)descriptor->datatype;
    if (row->codecs != PCCL_GIVEN_OR_AUTOMATIC_CODEC)
        return "an automatic codec requires an all-reduce or a reduce-scatter";
    if (row->of == PCCL_OF_TENSORS)
        return NULL; /* each of its sections has its own type and reduction */
    if (!pccl_id_is_zero(&descriptor->counts))
        return "an automatic codec requires equal shares in a reduce-scatter";
    if (type != PCCL_F32 && type != PCCL_F16 && type != PCCL_BF16)
        return "an automatic codec requires elements of float, float16 or bfloat16";
    if (!pccl_reduce_op_adds((enum pccl_reduce_op)descriptor->operation))
        return "an automatic codec requires a sum or an average";
    return NULL;
}

/* ---- levels ---- */

void pccl_choice_apply(enum pccl_level level, const struct pccl_descriptor *asked, struct pccl_descriptor *descriptor)
{
    static const uint8_t codecs[] = {
        [PCCL_LEVEL_EXACT] = PCCL_CODEC_NONE,
        [PCCL_LEVEL_16] = PCCL_CODEC_ZERO_POINT_SCALE,
        [PCCL_LEVEL_8] = PCCL_PACKING_SCALED + PCCL_SCALED_E4M3,
        [PCCL_LEVEL_4] = PCCL_PACKING_SCALED + PCCL_SCALED_E2M1,
    };
    const bool scaled = codecs[level] >= PCCL_PACKING_SCALED;
    const struct pccl_descriptor given = *asked;
    descriptor->codec = codecs[level];
    descriptor->codec_datatype = level == PCCL_LEVEL_16 ? PCCL_U16 : 0;
    descriptor->codec_block = scaled ? given.codec_block : 0;
    descriptor->codec_scale = scaled ? given.codec_scale : 0;
    descriptor->codec_rounding = scaled ? given.codec_rounding : 0;
}

bool pccl_choice_is_applied(enum pccl_level level, const struct pccl_descriptor *descriptor)
{
    struct pccl_descriptor applied = *descriptor;
    pccl_choice_apply(level, descriptor, &applied);
    return pccl_packing_equal(descriptor, &applied);
}

/* Returns the element type. Lists of tensors count as floats, because only floats are packed. */
static enum pccl_datatype type_of(const struct pccl_descriptor *descriptor)
{
    const bool is_list = pccl_collective(descriptor->collective)->of == PCCL_OF_TENSORS;
    return is_list ? PCCL_F32 : (enum pccl_datatype)descriptor->datatype;
}

/* Returns the packed size of PCCL_PACKING_BLOCK elements in bytes. Levels without scales ignore the block size. */
static uint64_t weight(enum pccl_level level, const struct pccl_descriptor *asked)
{
    struct pccl_descriptor one = *asked;
    struct pccl_packing packing;
    struct pccl_text reason;
    one.operation = PCCL_SUM;
    one.codec_block = one.codec_block != 0 ? one.codec_block : PCCL_SCALED_BLOCK_MAX;
    pccl_choice_apply(level, &one, &one);
    pccl_text_clear(&reason);
    if (!pccl_packing_find(&one, type_of(asked), &packing, &reason) || !pccl_packing_packs(&packing))
        return PCCL_PACKING_BLOCK * pccl_datatype_bytes(type_of(asked));
    return pccl_packing_bytes(&packing, PCCL_PACKING_BLOCK);
}

/* Expected time of a use at some level, and the budget for it. */
struct forecast {
    uint64_t takes_us, budget_us;
};

/*
 * Returns the level with the most bits whose expected time is within this share of its budget, or the last level if no
 * level fits.
 */
static enum pccl_level first_within(const struct forecast forecasts[PCCL_LEVELS], uint64_t percent)
{
    enum pccl_level level = PCCL_LEVEL_EXACT;
    while (level < PCCL_LEVEL_4 && forecasts[level].takes_us > forecasts[level].budget_us * percent / 100)
        level++;
    return level;
}

static uint32_t in_32_bits(uint64_t us) { return (uint32_t)pccl_min_u64(us, PCCL_TOOK_UNKNOWN - 1); }

/* ---- the first use ---- */

/* Returns the number of bytes that a rank sends in the operation. */
static uint64_t sent_bytes(const struct pccl_descriptor *descriptor, uint32_t world, uint64_t block_bytes)
{
    const struct pccl_collective_row *row = pccl_collective(descriptor->collective);
    const bool in_parts = row->input.amount == PCCL_PART_FOR_EACH;
    const uint64_t elements = row->of == PCCL_OF_TENSORS ? descriptor->count / sizeof(float) : descriptor->count;
    const uint64_t blocks = pccl_min_u64(pccl_divide_up(elements, PCCL_PACKING_BLOCK), bytes_most / block_bytes);
    const uint64_t part = in_parts ? blocks * block_bytes : 2 * blocks * block_bytes / world;
    return pccl_min_u64(part, bytes_most) * (world - 1);
}

static uint64_t transfer_us(uint64_t bytes, uint64_t rate)
{
    rate = pccl_min_u64(rate, PCCL_RATE_MOST);
    return bytes / rate * 1000000 + bytes % rate * 1000000 / rate;
}

struct pccl_choice pccl_choice_first(const struct pccl_descriptor *descriptor, uint32_t world,
                                     const struct pccl_cost *cost)
{
    struct pccl_choice choice = {.why = PCCL_CHOICE_FIRST,
                                 .level = PCCL_LEVEL_EXACT,
                                 .patience = PATIENCE_LEAST,
                                 .steady = STEADY_MOST,
                                 .rtt_us = cost->rtt_us};
    struct forecast forecasts[PCCL_LEVELS];
    if (cost->rate == 0 || world < 2 || descriptor->budget_percent != 0)
        return choice;
    for (unsigned level = 0; level < PCCL_LEVELS; level++) {
        const uint64_t bytes = sent_bytes(descriptor, world, weight((enum pccl_level)level, descriptor));
        forecasts[level] = (struct forecast){.takes_us = cost->rtt_us + transfer_us(bytes, cost->rate),
                                             .budget_us = descriptor->budget_ms * UINT64_C(1000)};
    }
    choice.level = (uint8_t)first_within(forecasts, LOWERED_TO_PERCENT);
    choice.expected_us = in_32_bits(forecasts[choice.level].takes_us);
    return choice;
}

/* ---- the time between uses ---- */

/* Returns the longer time, or unknown if either is unknown. */
static uint32_t longest(uint32_t a_us, uint32_t b_us) { return a_us == 0 || b_us == 0 ? 0 : pccl_max_u32(a_us, b_us); }

void pccl_choice_merge(struct pccl_choice *used, const struct pccl_choice *reported)
{
    used->gap_us = longest(used->gap_us, reported->gap_us);
    used->gap_1_us = longest(used->gap_1_us, reported->gap_1_us);
    used->gap_2_us = longest(used->gap_2_us, reported->gap_2_us);
    used->gap_3_us = longest(used->gap_3_us, reported->gap_3_us);
    used->took_us = longest(used->took_us, reported->took_us);
}

static void keep_gap(struct pccl_choice *choice, uint32_t gap_us)
{
    if (gap_us == 0)
        return;
    choice->gap_3_us = choice->gap_2_us;
    choice->gap_2_us = choice->gap_1_us;
    choice->gap_1_us = gap_us;
}

/*
 * Returns the median, so that a single pause has no effect; of two values, the shorter one. Returns 0 if no gap is
 * known.
 */
static uint32_t usual_gap_us(const struct pccl_choice *choice)
{
    const uint32_t a = choice->gap_1_us, b = choice->gap_2_us, c = choice->gap_3_us;
    if (a == 0 || b == 0)
        return a;
    return pccl_max_u32(a < b ? a : b, (uint32_t)pccl_min_u64(pccl_max_u32(a, b), c));
}

/*
 * Returns the expected time between uses. If callers wait for each use, this is the gap plus the time of a use at that
 * level. If they do not, it is constant, and the gap is the remainder after the previous use. Returns the smaller of
 * the two values, which is correct in one case and too short in the other.
 */
static uint64_t between_us(const struct pccl_choice *choice, uint32_t before_us, uint64_t takes_us)
{
    return usual_gap_us(choice) + (before_us != 0 ? pccl_min_u64(takes_us, before_us) : takes_us);
}

/* ---- later uses ---- */

/*
 * Computes forecasts for the levels. A round trip is assumed to be independent of the size, and the remaining time
 * proportional to it. Along a ring, more of the time is latency. The forecast then overestimates the time with more
 * bits and the benefit of fewer bits, until the next use corrects it.
 */
static void expect(const struct pccl_descriptor *descriptor, const struct pccl_choice *choice, uint32_t before_us,
                   struct forecast forecasts[PCCL_LEVELS])
{
    const uint64_t latency_us = pccl_min_u64(choice->rtt_us, choice->took_us);
    const uint64_t present = weight((enum pccl_level)choice->level, descriptor);
    for (unsigned level = 0; level < PCCL_LEVELS; level++) {
        struct forecast *one = &forecasts[level];
        const uint64_t bytes = weight((enum pccl_level)level, descriptor);
        one->takes_us = latency_us + (choice->took_us - latency_us) * bytes / present;
        one->budget_us = descriptor->budget_percent != 0
                             ? between_us(choice, before_us, one->takes_us) * descriptor->budget_percent / 100
                             : descriptor->budget_ms * UINT64_C(1000);
    }
}

static uint8_t one_more(uint8_t count) { return (uint8_t)(count + (count < UINT8_MAX)); }

static void lower(struct pccl_choice *choice, enum pccl_level level)
{
    const bool too_soon = choice->steady < STEADY_USES;
    choice->why = PCCL_CHOICE_LOWERED;
    choice->level = (uint8_t)level;
    choice->patience = (uint8_t)(too_soon ? pccl_min_u64(2 * choice->patience, PATIENCE_MOST) : PATIENCE_LEAST);
    choice->patience = (uint8_t)pccl_max_u32(choice->patience, PATIENCE_LEAST);
    choice->fits = 0;
    choice->steady = STEADY_MOST;
}

static void raise_when_it_is_time(struct pccl_choice *choice, enum pccl_level level)
{
    choice->fits = one_more(choice->fits);
    if (choice->fits < choice->patience)
        return;
    choice->why = PCCL_CHOICE_RAISED;
    choice->level = (uint8_t)level;
    choice->fits = 0;
    choice->steady = 0;
}

struct pccl_choice pccl_choice_next(const struct pccl_descriptor *descriptor, const struct pccl_choice *used,
                                    uint32_t took_us)
{
    struct pccl_choice choice = *used;
    struct forecast forecasts[PCCL_LEVELS];
    choice.why = PCCL_CHOICE_KEPT;
    choice.took_us = choice.expected_us = choice.since_us = choice.gap_us = 0;
    if (took_us == PCCL_TOOK_UNKNOWN)
        return choice;
    const uint64_t least_us =
        transfer_us(sent_bytes(descriptor, 2, weight((enum pccl_level)used->level, descriptor)), PCCL_RATE_MOST);
    choice.took_us = in_32_bits(pccl_max_u64(took_us, least_us));
    keep_gap(&choice, used->gap_us);
    if (descriptor->budget_percent != 0 && usual_gap_us(&choice) == 0)
        return choice;
    choice.steady = one_more(choice.steady);
    expect(descriptor, &choice, used->took_us, forecasts);
    const enum pccl_level up = first_within(forecasts, RAISED_TO_PERCENT);
    const enum pccl_level down = first_within(forecasts, LOWERED_TO_PERCENT);
    const bool is_late = choice.took_us > forecasts[used->level].budget_us;
    if (is_late && down > used->level)
        lower(&choice, down);
    else if (!is_late && up < used->level)
        raise_when_it_is_time(&choice, up);
    else
        choice.fits = 0;
    choice.expected_us = in_32_bits(forecasts[choice.level].takes_us);
    return choice;
}

/* ---- descriptions ---- */

static void add_ms(struct pccl_text *words, const char *before, uint32_t us)
{
    pccl_text_append(words, "%s%u.%u ms", before, us / 1000, us / 100 % 10);
}

void pccl_choice_describe_budget(struct pccl_text *words, const struct pccl_descriptor *descriptor)
{
    if (descriptor->budget_percent != 0)
        pccl_text_append(words, "%u %% of the time between uses", descriptor->budget_percent);
    else
        pccl_text_append(words, "%u ms", descriptor->budget_ms);
}

static void add_gap(struct pccl_text *words, const struct pccl_choice *choice)
{
    if (usual_gap_us(choice) != 0)
        add_ms(words, ", gap ", usual_gap_us(choice));
    else
        pccl_text_add(words, " (not known yet)");
}

void pccl_choice_describe(struct pccl_text *words, const struct pccl_descriptor *descriptor,
                          const struct pccl_choice *choice)
{
    static const char *const whys[] = {
        [PCCL_CHOICE_NONE] = "no choice",  [PCCL_CHOICE_FIRST] = "first use", [PCCL_CHOICE_KEPT] = "kept",
        [PCCL_CHOICE_LOWERED] = "lowered", [PCCL_CHOICE_RAISED] = "raised",
    };
    pccl_text_add(words, whys[choice->why]);
    pccl_text_add(words, ": budget ");
    pccl_choice_describe_budget(words, descriptor);
    if (descriptor->budget_percent != 0)
        add_gap(words, choice);
    if (choice->took_us != 0)
        add_ms(words, ", the previous use took ", choice->took_us);
    if (choice->expected_us != 0)
        add_ms(words, ", expected ", choice->expected_us);
    else if (choice->why == PCCL_CHOICE_FIRST && descriptor->budget_percent == 0)
        pccl_text_add(words, ", link rates unknown");
}
