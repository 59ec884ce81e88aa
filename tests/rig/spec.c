/* The worlds, what their callers put in, and what must come out. */
#include "rig.h"

#include <stdio.h>

/* ---- plans for few messages: the linker puts this function in front of the real one ---- */

enum pccl_status __real_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       uint32_t ranks, uint32_t rank, struct pccl_plan *plan, struct pccl_text *reason);
enum pccl_status __wrap_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       uint32_t ranks, uint32_t rank, struct pccl_plan *plan, struct pccl_text *reason);

static uint32_t planned_segment_elements;
static bool planned_direct;

void rig_plan_for(const struct rig_spec *spec, const struct rig_op *op)
{
    planned_segment_elements = op->segment_elements;
    planned_direct = spec->direct;
}

enum pccl_status __wrap_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       uint32_t ranks, uint32_t rank, struct pccl_plan *plan, struct pccl_text *reason)
{
    const enum pccl_status status = __real_pccl_plan_make(descriptor, cost, ranks, rank, plan, reason);
    if (status != PCCL_OK || planned_segment_elements == 0)
        return status;
    const uint64_t stripe = (uint64_t)planned_segment_elements * ranks;
    plan->segment_elements = planned_segment_elements;
    plan->stripes = (plan->count + stripe - 1) / stripe;
    plan->algorithm = planned_direct ? PCCL_DIRECT : PCCL_RING;
    return status;
}

struct pccl_cost rig_cost(const struct rig_spec *spec)
{
    return (struct pccl_cost){.mesh = spec->direct, .rtt_us = spec->long_path ? 50000 : 0};
}

uint32_t rig_ring_of(const struct rig_spec *spec, uint32_t view, uint32_t *ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < spec->ranks; i++)
        if ((view >> spec->ring[i] & 1) != 0)
            ranks[count++] = spec->ring[i];
    return count;
}

size_t rig_op_bytes(const struct rig_op *op)
{
    return (size_t)op->descriptor.count * pccl_datatype_bytes((enum pccl_datatype)op->descriptor.datatype);
}

/* ---- what goes in ---- */

static void put_value(struct pccl_prng *prng, enum pccl_datatype datatype, uint8_t *element)
{
    const uint64_t bits = pccl_prng_u64(prng);
    const double real = ((double)(bits % 2000001) - 1000000) / 977;
    const float single = (float)real;
    uint16_t half;
    switch (datatype) {
    case PCCL_F64: memcpy(element, &real, sizeof real); return;
    case PCCL_F32: memcpy(element, &single, sizeof single); return;
    case PCCL_F16: half = pccl_f32_to_f16(single); break;
    case PCCL_BF16: half = pccl_f32_to_bf16(single); break;
    default: memcpy(element, &bits, pccl_datatype_bytes(datatype)); return;
    }
    memcpy(element, &half, sizeof half);
}

static void make_inputs(struct rig_spec *spec)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, spec->seed ^ UINT64_C(0x1257));
    for (uint32_t op = 0; op < spec->op_count; op++)
        for (uint32_t round = 0; round < spec->rounds; round++)
            for (uint32_t rank = 0; rank < spec->ranks; rank++) {
                const enum pccl_datatype datatype = (enum pccl_datatype)spec->ops[op].descriptor.datatype;
                uint8_t *bytes = malloc(rig_op_bytes(&spec->ops[op]));
                PCCL_ASSERT(bytes != NULL);
                spec->inputs[op][round][rank] = bytes;
                for (uint64_t i = 0; i < spec->ops[op].descriptor.count; i++)
                    put_value(&prng, datatype, bytes + i * pccl_datatype_bytes(datatype));
            }
}

void rig_spec_release(struct rig_spec *spec)
{
    for (uint32_t op = 0; op < RIG_OPS_MAX; op++)
        for (uint32_t round = 0; round < RIG_ROUNDS_MAX; round++) {
            for (uint32_t rank = 0; rank < RIG_RANKS_MAX; rank++)
                free(spec->inputs[op][round][rank]);
            for (uint32_t view = 0; view < RIG_VIEWS; view++)
                free(spec->references[op][round][view]);
        }
    memset(spec, 0, sizeof *spec);
}

/* ---- what must come out ---- */

struct fold {
    const struct pccl_plan *plan;
    const struct pccl_kernels *kernels;
    const void *parts[RIG_RANKS_MAX]; /* of one segment, in the order of the fold */
    size_t count;
    uint8_t *packed, *unpacked, *sum; /* room for a segment */
    uint8_t *result;
};

/* The elements, or the partial fold, as they arrive at the other side: as these types, or those. */
static void pass_codec(const struct fold *fold, const struct pccl_codec *by, const void *elements,
                       const struct pccl_codec *as, void *result)
{
    pccl_codec_encode(by, fold->kernels, elements, fold->count, fold->packed);
    pccl_codec_decode(as, fold->kernels, fold->packed, fold->count, result);
}

/*
 * Folds one part after the other. All parts but the last, or the partial fold, are packed for
 * sending.
 */
static void fold_packed(const struct fold *fold)
{
    const struct pccl_plan *plan = fold->plan;
    const bool ring = plan->algorithm == PCCL_RING;
    uint8_t *sum = fold->sum;
    struct pccl_step step = {.datatype = plan->datatype,
                             .from = plan->folded_datatype,
                             .to = plan->folded_datatype,
                             .reduction = plan->reduction};
    pass_codec(fold, plan->codec, fold->parts[0], plan->folded_codec, sum);
    for (uint32_t i = 1; i + 1 < plan->seat.ranks; i++) {
        if (ring) {
            pccl_combine_step(fold->kernels, &step, sum, sum, fold->parts[i], fold->count);
            pass_codec(fold, plan->folded_codec, sum, plan->folded_codec, sum);
        } else {
            pass_codec(fold, plan->codec, fold->parts[i], plan->folded_codec, fold->unpacked);
            pccl_combine(fold->kernels, plan->folded_datatype, plan->reduction, sum, sum, fold->unpacked, fold->count);
        }
    }
    step.to = plan->datatype;
    step.ranks = plan->seat.ranks;
    pccl_combine_step(fold->kernels, &step, fold->result, sum, fold->parts[plan->seat.ranks - 1], fold->count);
    pass_codec(fold, plan->codec, fold->result, plan->codec, fold->result);
}

static void fold_segment(const struct fold *fold)
{
    const struct pccl_plan *plan = fold->plan;
    if (plan->codec != NULL)
        fold_packed(fold);
    else
        pccl_reduce_all(plan->datatype, plan->reduction, fold->parts, plan->seat.ranks, fold->count, fold->result);
}

static uint8_t *make_reference(const struct rig_spec *spec, uint32_t op, uint32_t round, uint32_t view)
{
    uint32_t ring[RIG_RANKS_MAX];
    const uint32_t ranks = rig_ring_of(spec, view, ring);
    const struct pccl_cost cost = rig_cost(spec);
    struct pccl_plan plan;
    struct pccl_text reason;
    rig_plan_for(spec, &spec->ops[op]);
    if (ranks < 2 || pccl_plan_make(&spec->ops[op].descriptor, &cost, ranks, 0, &plan, &reason) != PCCL_OK)
        return NULL;
    const size_t most = (size_t)plan.segment_elements;
    struct fold fold = {.plan = &plan,
                        .kernels = pccl_kernels_variant(0, &(uint32_t){0}),
                        .packed = malloc(pccl_plan_bytes_most(&plan, plan.segment_elements) + 1),
                        .unpacked = malloc(most * sizeof(double) + 1),
                        .sum = malloc(most * sizeof(double) + 1)};
    uint8_t *result = malloc(rig_op_bytes(&spec->ops[op]));
    PCCL_ASSERT(fold.packed != NULL && fold.unpacked != NULL && fold.sum != NULL && result != NULL);
    for (uint64_t stripe = 0; stripe < plan.stripes; stripe++)
        for (uint32_t number = 0; number < ranks; number++) {
            const struct pccl_segment segment = pccl_plan_segment(&plan, stripe, number);
            if (segment.count == 0)
                continue;
            fold.count = segment.count;
            fold.result = result + segment.first * plan.element_bytes;
            for (uint32_t i = 0; i < ranks; i++)
                fold.parts[i] =
                    spec->inputs[op][round][ring[(number + i) % ranks]] + segment.first * plan.element_bytes;
            fold_segment(&fold);
        }
    free(fold.packed);
    free(fold.unpacked);
    free(fold.sum);
    return result;
}

const uint8_t *rig_reference(struct rig_spec *spec, uint32_t op, uint32_t round, uint32_t view)
{
    uint8_t **reference = &spec->references[op][round][view];
    if (*reference == NULL)
        *reference = make_reference(spec, op, round, view);
    return *reference;
}

/* ---- the worlds ---- */

static void make_ids(struct rig_spec *spec, struct pccl_prng *prng)
{
    for (uint32_t i = 0; i < spec->ranks; i++) {
        spec->ids[i] = pccl_prng_id(prng);
        spec->ring[i] = i;
    }
    for (uint32_t i = spec->ranks - 1; i > 0; i--) {
        const uint32_t k = (uint32_t)pccl_prng_below(prng, i + 1), swapped = spec->ring[i];
        spec->ring[i] = spec->ring[k];
        spec->ring[k] = swapped;
    }
}

bool rig_spec_listed(struct rig_spec *spec, uint32_t number)
{
    /* this order gives rings of three and of four ranks bf16 that is folded in f32 */
    static const enum pccl_datatype datatypes[] = {PCCL_F32, PCCL_BF16, PCCL_I16, PCCL_U8, PCCL_F64};
    static const enum pccl_reduce_op reductions[] = {PCCL_SUM, PCCL_AVG, PCCL_MAX};
    const uint32_t ranks = 2 + number / 16, bits = number % 16;
    if (ranks > 4)
        return false;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, number);
    *spec = (struct rig_spec){.seed = number,
                              .ranks = ranks,
                              .direct = (bits & 1) != 0,
                              .op_count = (bits & 8) != 0 ? 3 : 1,
                              .rounds = 1,
                              .long_path = ((ranks + (bits >> 3) + (bits >> 2) + (bits >> 1) + bits) & 1) != 0,
                              .pool = 1 + (number / 2 + number / 16) % 2,
                              .linked = true,
                              .whole = true,
                              .uneven = number % 3 == 0,
                              .pipe_bytes = RIG_PIPE_MAX,
                              .window_bytes = 1,
                              .scratch_bytes = 1};
    make_ids(spec, &prng);
    for (uint32_t op = 0; op < spec->op_count; op++) {
        const bool coded = (bits & 2) != 0;
        spec->ops[op] = (struct rig_op){
            .descriptor = {.datatype = (uint8_t)(coded ? PCCL_F32 : datatypes[(number + op) % 5]),
                           .operation = (uint8_t)reductions[(number + op) % 3],
                           .codec = coded ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE,
                           .codec_datatype = PCCL_U8,
                           /*
                            * one operation: a whole group and one with an empty or a shorter
                            * segment
                            */
                           .count = spec->op_count == 1 ? 3 * ranks + 2 * ranks - 3 + bits % 2 : ranks + op},
            .segment_elements = 3,
            .in_place = (bits & 4) != 0 ? UINT32_MAX : 0,
            .odd_rank = RIG_NOBODY};
    }
    make_inputs(spec);
    return true;
}

static struct rig_op random_op(const struct rig_spec *spec, struct pccl_prng *prng)
{
    struct rig_op op = {.segment_elements = 1 + (uint32_t)pccl_prng_below(prng, 24), .odd_rank = RIG_NOBODY};
    op.descriptor.datatype = (uint8_t)pccl_prng_below(prng, PCCL_DATATYPES);
    op.descriptor.operation = (uint8_t)pccl_prng_below(prng, PCCL_REDUCE_OPS);
    op.descriptor.count = 2 + pccl_prng_below(prng, 4 * op.segment_elements * spec->ranks);
    op.in_place = (uint32_t)pccl_prng_u64(prng);
    if (pccl_prng_below(prng, 3) == 0) {
        static const enum pccl_datatype packed[] = {PCCL_U8, PCCL_I8};
        const uint32_t kind = (uint32_t)pccl_prng_below(prng, 2);
        static const enum pccl_datatype reals[] = {PCCL_F16, PCCL_BF16, PCCL_F32, PCCL_F64};
        op.descriptor.datatype = (uint8_t)reals[pccl_prng_below(prng, 4)];
        op.descriptor.operation = (uint8_t)(pccl_prng_below(prng, 2) == 0 ? PCCL_SUM : PCCL_AVG);
        op.descriptor.codec = (uint8_t)(kind == 0 ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_ZERO_POINT_SCALE);
        op.descriptor.codec_datatype = (uint8_t)packed[kind];
    }
    if (pccl_prng_below(prng, 8) == 0)
        op.segment_elements = 0; /* as in production: one stripe for so few elements */
    if (pccl_prng_below(prng, 12) == 0)
        op.odd_rank = (uint32_t)pccl_prng_below(prng, spec->ranks);
    op.odd_in_length = (op.in_place >> RIG_RANKS_MAX & 1) != 0;
    return op;
}

void rig_spec_random(struct rig_spec *spec, uint64_t seed)
{
    struct pccl_prng prng;
    pccl_prng_seed(&prng, seed ^ UINT64_C(0x7267));
    *spec = (struct rig_spec){.seed = seed};
    spec->ranks = 2 + (uint32_t)pccl_prng_below(&prng, RIG_RANKS_MAX - 1);
    spec->pool = 1 + (uint32_t)pccl_prng_below(&prng, RIG_POOL_MAX);
    spec->op_count = 1 + (uint32_t)pccl_prng_below(&prng, RIG_OPS_MAX);
    spec->rounds = 1 + (pccl_prng_below(&prng, 3) == 0);
    spec->direct = pccl_prng_below(&prng, 2) == 0;
    spec->long_path = pccl_prng_below(&prng, 2) == 0;
    spec->linked = pccl_prng_below(&prng, 2) == 0;
    spec->redialed = pccl_prng_below(&prng, 2) == 0;
    spec->uneven = pccl_prng_below(&prng, 2) == 0;
    spec->whole = pccl_prng_below(&prng, 4) == 0;
    spec->pipe_bytes = 1 + (uint32_t)pccl_prng_below(&prng, pccl_prng_below(&prng, 2) == 0 ? RIG_PIPE_MAX : 200);
    spec->window_bytes = 1 + (size_t)pccl_prng_below(&prng, UINT64_C(1) << pccl_prng_below(&prng, 14));
    spec->scratch_bytes = 1 + (size_t)pccl_prng_below(&prng, UINT64_C(1) << pccl_prng_below(&prng, 16));
    make_ids(spec, &prng);
    for (uint32_t i = 0; i < spec->op_count; i++)
        spec->ops[i] = random_op(spec, &prng);
    make_inputs(spec);
}

void rig_spec_print(const struct rig_spec *spec)
{
    printf("%u ranks (%s), %u connections a lane of %u bytes%s%s%s%s%s, window %zu, scratch %zu, rounds %u, ring",
           spec->ranks, spec->direct ? "direct" : "ring", spec->pool, spec->pipe_bytes, spec->long_path ? ", long" : "",
           spec->linked ? ", linked" : "", spec->redialed ? ", redialed" : "", spec->uneven ? ", uneven" : "",
           spec->whole ? ", whole" : "", spec->window_bytes, spec->scratch_bytes, spec->rounds);
    for (uint32_t i = 0; i < spec->ranks; i++)
        printf(" %u", spec->ring[i]);
    printf("\n");
    for (uint32_t i = 0; i < spec->op_count; i++) {
        const struct rig_op *op = &spec->ops[i];
        printf("  operation %u: %s of %llu %s, codec %u, segments of %u, in place %x, odd rank %d\n", i,
               pccl_reduce_op_name((enum pccl_reduce_op)op->descriptor.operation),
               (unsigned long long)op->descriptor.count,
               pccl_datatype_name((enum pccl_datatype)op->descriptor.datatype), op->descriptor.codec,
               op->segment_elements, op->in_place & ((1u << spec->ranks) - 1),
               op->odd_rank == RIG_NOBODY ? -1 : (int)op->odd_rank);
    }
}
