#include "collective/plan.h"

#include "core/limits.h"

/* The constants behind the choices. They must be the same on every peer. */
enum {
    SEGMENT_BYTES_MOST = 256 << 10,     /* a few of them stay in a core's cache */
    LONG_SEGMENT_BYTES_MOST = 64 << 10, /* so that several connections share the work finely */
    SEGMENT_BYTES_STEP = 64,            /* a cache line */
    DIRECT_BYTES_MOST = 8 << 20,
    DIRECT_WIDE_BYTES_MOST = 64 << 20, /* where the ring sends more bytes; measured up to here */
    CACHED_BYTES_MOST = 4 << 20,       /* a caller may find its result in a cache */
    DIRECT_COST_PERCENT = 8,           /* of the transfer time: what direct exchange costs over the ring on its links */
    RTT_US_DEFAULT = 100,
};
static const uint64_t rate_default = 2000000000;
static const uint64_t rate_most = 1000000000000;

static uint64_t divide_up(uint64_t value, uint64_t by) { return value / by + (value % by != 0); }

static uint64_t round_up(uint64_t value, uint64_t step) { return divide_up(value, step) * step; }

static enum pccl_status take_descriptor(const struct pccl_descriptor *descriptor, struct pccl_plan *plan,
                                        struct pccl_text *reason)
{
    pccl_text_clear(reason);
    if (descriptor->datatype >= PCCL_DATATYPES || descriptor->operation >= PCCL_REDUCE_OPS ||
        descriptor->codec >= PCCL_CODEC_KINDS || descriptor->codec_datatype >= PCCL_DATATYPES) {
        pccl_text_add(reason, "unknown data type, operation or quantization");
        return PCCL_ARGUMENT;
    }
    plan->datatype = (enum pccl_datatype)descriptor->datatype;
    plan->reduction = (enum pccl_reduce_op)descriptor->operation;
    plan->element_bytes = (uint32_t)pccl_datatype_bytes(plan->datatype);
    plan->count = descriptor->count;
    if (plan->count == 0 || plan->count > (uint64_t)PTRDIFF_MAX / plan->element_bytes) {
        pccl_text_format(reason, "%" PRIu64 " elements", plan->count);
        return PCCL_ARGUMENT;
    }
    enum pccl_codec_kind kind = (enum pccl_codec_kind)descriptor->codec;
    enum pccl_datatype packed = (enum pccl_datatype)descriptor->codec_datatype;
    plan->folded_datatype = pccl_folded_type(plan->datatype, plan->reduction);
    plan->codec = pccl_codec_find(kind, plan->datatype, packed, plan->reduction, reason);
    if (plan->codec == NULL)
        return reason->length > 0 ? PCCL_ARGUMENT : PCCL_OK;
    plan->folded_datatype = pccl_folded_type(plan->datatype, PCCL_SUM); /* what is unpacked is not an element */
    plan->folded_codec = pccl_codec_find(kind, plan->folded_datatype, packed, plan->reduction, reason);
    return PCCL_OK;
}

/*
 * Cuts by the bytes that travel, into as few segments as their size allows. More segments would
 * overlap receiving, adding and sending better, but a medium buffer spends its time in system calls
 * and wake-ups.
 */
static void cut(struct pccl_plan *plan)
{
    uint64_t traveling = pccl_plan_bytes_most(plan, PCCL_CODEC_BLOCK) / PCCL_CODEC_BLOCK; /* bytes of an element */
    uint64_t most = (plan->long_path ? LONG_SEGMENT_BYTES_MOST : SEGMENT_BYTES_MOST) / traveling;
    uint64_t share = divide_up(plan->count, plan->pieces);
    uint64_t elements = divide_up(share, divide_up(share, most));
    bool whole_blocks = plan->codec != NULL && elements > PCCL_CODEC_BLOCK;
    elements = round_up(elements, whole_blocks ? PCCL_CODEC_BLOCK : SEGMENT_BYTES_STEP / plan->element_bytes);
    plan->segment_elements = (uint32_t)elements;
    plan->stripes = divide_up(plan->count, elements * plan->pieces);
}

/*
 * Direct exchange saves latency (two steps instead of 2(ranks - 1)), and bytes where the ring's
 * sums are wide. Its cost is on the links: it uses all of them, not only those of the ring, and
 * runs at the pace of the slowest pair, where that is known. The plan passed in is that of a ring.
 */
static enum pccl_algorithm choose(const struct pccl_plan *plan, const struct pccl_cost *cost)
{
    uint64_t bytes_most = pccl_plan_is_wide(plan, 1) ? DIRECT_WIDE_BYTES_MOST : DIRECT_BYTES_MOST;
    if (plan->seat.ranks == 2 || cost->mesh == 0 || plan->seat.ranks > PCCL_MESH_PEERS_MAX ||
        plan->count > bytes_most / plan->element_bytes)
        return PCCL_RING;
    uint64_t ranks = plan->seat.ranks, bytes = pccl_plan_bytes(plan, 0, (uint32_t)plan->count);
    uint64_t folded_bytes = pccl_plan_bytes_most(plan, (uint32_t)plan->count);
    uint64_t rtt_us = cost->rtt_us != 0 ? cost->rtt_us : RTT_US_DEFAULT;
    uint64_t rate = cost->rate != 0 ? pccl_min_u64(cost->rate, rate_most) : rate_default;
    uint64_t mesh_rtt_us = cost->mesh_rtt_us != 0 ? cost->mesh_rtt_us : rtt_us;
    uint64_t mesh_rate = cost->mesh_rate != 0 ? pccl_min_u64(cost->mesh_rate, rate_most) : rate_most;
    uint64_t ring_ns = (ranks * bytes + (ranks - 2) * folded_bytes) * 1000000000 / (ranks * rate);
    uint64_t pair_ns = 2 * bytes * 1000000000 / (ranks * mesh_rate);
    uint64_t direct_ns = pccl_max_u64(2 * (ranks - 1) * bytes * 1000000000 / (ranks * rate), pair_ns);
    direct_ns += direct_ns * DIRECT_COST_PERCENT / 100;
    return mesh_rtt_us * 1000 + direct_ns < (ranks - 1) * rtt_us * 1000 + ring_ns ? PCCL_DIRECT : PCCL_RING;
}

enum pccl_status pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost, uint32_t ranks,
                                uint32_t rank, struct pccl_plan *plan, struct pccl_text *reason)
{
    PCCL_ASSERT(ranks >= 2 && rank < ranks);
    struct pccl_plan made = {.seat = {.ranks = ranks, .rank = rank},
                             .long_path = cost->rtt_us >= PCCL_LONG_PATH_RTT_US};
    enum pccl_status status = take_descriptor(descriptor, &made, reason);
    if (status != PCCL_OK)
        return status;
    made.large = made.count > CACHED_BYTES_MOST / made.element_bytes;
    made.algorithm = choose(&made, cost);
    made.pieces = pccl_plan_schedule(&made)->pieces(made.seat);
    cut(&made);
    *plan = made;
    return PCCL_OK;
}

static uint64_t stripe_elements(const struct pccl_plan *plan)
{
    return (uint64_t)plan->segment_elements * plan->pieces;
}

struct pccl_segment pccl_plan_segment(const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    PCCL_ASSERT(stripe < plan->stripes && number < plan->pieces);
    uint64_t start = stripe * stripe_elements(plan);
    if (stripe + 1 < plan->stripes)
        return (struct pccl_segment){start + (uint64_t)number * plan->segment_elements, plan->segment_elements};
    uint64_t rest = plan->count - start, whole = rest / plan->pieces, longer = rest % plan->pieces;
    uint64_t first = start + number * whole + pccl_min_u64(number, longer);
    return (struct pccl_segment){first, (uint32_t)(whole + (number < longer))};
}

uint32_t pccl_plan_segments(const struct pccl_plan *plan, uint64_t stripe)
{
    PCCL_ASSERT(stripe < plan->stripes);
    if (stripe + 1 < plan->stripes)
        return plan->pieces;
    return (uint32_t)pccl_min_u64(plan->count - stripe * stripe_elements(plan), plan->pieces);
}

bool pccl_plan_is_wide(const struct pccl_plan *plan, uint32_t step)
{
    return plan->codec == NULL && plan->folded_datatype != plan->datatype &&
           pccl_plan_schedule(plan)->carries(plan->seat, step) == PCCL_CONTENT_SUM;
}

size_t pccl_plan_bytes(const struct pccl_plan *plan, uint32_t step, uint32_t count)
{
    if (plan->codec != NULL)
        return pccl_codec_bytes(plan->codec, count);
    return count * (pccl_plan_is_wide(plan, step) ? pccl_datatype_bytes(plan->folded_datatype) : plan->element_bytes);
}

size_t pccl_plan_bytes_most(const struct pccl_plan *plan, uint32_t count) { return pccl_plan_bytes(plan, 1, count); }
