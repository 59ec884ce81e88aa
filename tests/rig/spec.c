/* The worlds, the input of their callers, and the expected results. */
#include "rig.h"

#include "support/numbers.h"

#include <stdio.h>

/* ---- plans for few messages: the linker puts this function in front of the real one ---- */

enum pccl_status __real_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       struct pccl_seat seat, const uint32_t *positions, const uint64_t *starts,
                                       struct pccl_plan *plan, struct pccl_text *reason);
enum pccl_status __wrap_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       struct pccl_seat seat, const uint32_t *positions, const uint64_t *starts,
                                       struct pccl_plan *plan, struct pccl_text *reason);

enum pccl_status __real_pccl_plan_make_sections(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const struct pccl_section *sections,
                                                uint32_t count, struct pccl_plan *plans, struct pccl_plan *whole,
                                                struct pccl_text *reason);
enum pccl_status __wrap_pccl_plan_make_sections(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const struct pccl_section *sections,
                                                uint32_t count, struct pccl_plan *plans, struct pccl_plan *whole,
                                                struct pccl_text *reason);

static const struct {
    enum pccl_algorithm ring, direct;
    const char *name;
} collectives[] = {[PCCL_ALL_REDUCE] = {PCCL_RING, PCCL_DIRECT, "all-reduce"},
                   [PCCL_BROADCAST] = {PCCL_CHAIN, PCCL_SPREAD, "broadcast"},
                   [PCCL_ALL_GATHER] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, "all-gather"},
                   [PCCL_ALL_GATHER_V] = {PCCL_GATHER_RING, PCCL_GATHER_DIRECT, "all-gather of blobs"},
                   [PCCL_REDUCE_SCATTER] = {PCCL_SCATTER_RING, PCCL_SCATTER_DIRECT, "reduce-scatter"},
                   [PCCL_REDUCE] = {PCCL_REDUCE_CHAIN, PCCL_REDUCE_DIRECT, "reduce"},
                   [PCCL_GATHER] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, "gather"},
                   [PCCL_SCATTER] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, "scatter"},
                   [PCCL_ALL_TO_ALL] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, "all-to-all"},
                   [PCCL_GATHER_V] = {PCCL_TO_ROOT_CHAIN, PCCL_TO_ROOT_DIRECT, "gather of blobs"},
                   [PCCL_SCATTER_V] = {PCCL_FROM_ROOT_CHAIN, PCCL_FROM_ROOT_DIRECT, "scatter of blobs"},
                   [PCCL_ALL_TO_ALL_V] = {PCCL_EXCHANGE_RING, PCCL_EXCHANGE_DIRECT, "all-to-all of blobs"},
                   [PCCL_EXCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, "exclusive scan"},
                   [PCCL_INCLUSIVE_SCAN] = {PCCL_SCAN_RING, PCCL_SCAN_DIRECT, "inclusive scan"},
                   [PCCL_COALESCED] = {PCCL_RING, PCCL_DIRECT, "coalesced all-reduce"}};

static uint32_t planned_segment_elements;
static bool planned_direct, planned_long_turns, planned_few;

void rig_plan_for(const struct rig_spec *spec, const struct rig_op *op)
{
    planned_segment_elements = op->segment_elements;
    planned_direct = spec->direct;
    planned_long_turns = spec->long_turns;
    planned_few = spec->few;
}

void rig_cut_otherwise(void) { planned_segment_elements++; }

static void plan_anew(struct pccl_plan *plan, uint8_t collective)
{
    plan->algorithm = planned_direct ? collectives[collective].direct : collectives[collective].ring;
    if (plan->algorithm == PCCL_SPREAD && planned_few)
        plan->algorithm = PCCL_STAR;
    const struct pccl_schedule *schedule = pccl_schedules[plan->algorithm];
    plan->pieces = schedule->pieces(plan->seat);
    plan->turns = schedule->turns != NULL ? schedule->turns(plan->seat) : 1;
    const uint64_t stripe = (uint64_t)planned_segment_elements * (plan->positions != NULL ? 1 : plan->pieces);
    plan->segment_elements = planned_segment_elements;
    plan->leaves_pieces = planned_few && plan->algorithm == PCCL_RING;
    const uint64_t stripes = (plan->count + stripe - 1) / stripe;
    plan->stripes = stripes * plan->turns;
    plan->turn_stripes = plan->starts != NULL && plan->turns > 1 && planned_long_turns ? stripes : 1;
}

enum pccl_status __wrap_pccl_plan_make(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                       struct pccl_seat seat, const uint32_t *positions, const uint64_t *starts,
                                       struct pccl_plan *plan, struct pccl_text *reason)
{
    const enum pccl_status status = __real_pccl_plan_make(descriptor, cost, seat, positions, starts, plan, reason);
    if (status == PCCL_OK && planned_segment_elements > 0)
        plan_anew(plan, descriptor->collective);
    return status;
}

enum pccl_status __wrap_pccl_plan_make_sections(const struct pccl_descriptor *descriptor, const struct pccl_cost *cost,
                                                struct pccl_seat seat, const struct pccl_section *sections,
                                                uint32_t count, struct pccl_plan *plans, struct pccl_plan *whole,
                                                struct pccl_text *reason)
{
    const enum pccl_status status =
        __real_pccl_plan_make_sections(descriptor, cost, seat, sections, count, plans, whole, reason);
    if (status != PCCL_OK || planned_segment_elements == 0)
        return status;
    uint64_t stripes = 0;
    for (uint32_t i = 0; i < count; i++) {
        plan_anew(&plans[i], PCCL_COALESCED);
        plans[i].first_stripe = stripes;
        stripes += plans[i].stripes;
    }
    plan_anew(whole, PCCL_COALESCED);
    whole->stripes = stripes;
    return status;
}

/*
 * Returns the cost data. With mixed paths every second operation is on one of the other kind, as for sends and
 * subgroups.
 */
struct pccl_cost rig_cost(const struct rig_spec *spec, uint32_t op)
{
    const bool long_path = spec->long_path != (spec->mixed_paths && op % 2 != 0);
    return (struct pccl_cost){.mesh = spec->direct, .rtt_us = long_path ? 50000 : 0};
}

uint32_t rig_ring_of(const struct rig_spec *spec, uint32_t view, uint32_t *ranks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < spec->ranks; i++)
        if ((view >> spec->ring[i] & 1) != 0)
            ranks[count++] = spec->ring[i];
    return count;
}

/* The rank in the ring of the root: if that is dead, of the first that lives. */
static uint32_t root_of(const struct rig_op *op, uint32_t view, const struct rig_place *place)
{
    uint32_t root = op->root, at = 0;
    if ((view >> root & 1) == 0)
        for (root = 0; (view >> root & 1) == 0;)
            root++;
    while (place->ring[at] != root)
        at++;
    return at;
}

static bool exchanges(uint8_t collective) { return collective == PCCL_ALL_TO_ALL || collective == PCCL_ALL_TO_ALL_V; }

static bool gathers_at_root(uint8_t collective) { return collective == PCCL_GATHER || collective == PCCL_GATHER_V; }

static bool scatters_from_root(uint8_t collective)
{
    return collective == PCCL_SCATTER || collective == PCCL_SCATTER_V;
}

static bool scans(uint8_t collective) { return collective == PCCL_EXCLUSIVE_SCAN || collective == PCCL_INCLUSIVE_SCAN; }

bool rig_passes_on(const struct rig_op *op)
{
    const uint8_t collective = op->descriptor.collective;
    return collective == PCCL_REDUCE_SCATTER || collective == PCCL_REDUCE || gathers_at_root(collective) ||
           scatters_from_root(collective) || exchanges(collective) || scans(collective);
}

/*
 * All-to-all, by position: returns the elements before this part if the parts are ordered by receiver, then by sender.
 */
static uint64_t results_before(const struct rig_place *place, uint32_t from, uint32_t to)
{
    const uint32_t ranks = place->seat.ranks;
    uint64_t before = 0;
    for (uint32_t i = 0; i < to * ranks + from; i++) {
        const uint32_t part = i % ranks * ranks + i / ranks;
        before += place->starts[part + 1] - place->starts[part];
    }
    return before;
}

/* Lists the starts of the parts. Given lengths apply to the members that exist. */
static void list_parts(const struct rig_spec *spec, const struct rig_op *op, uint32_t view, struct rig_place *place)
{
    uint32_t members[RIG_RANKS_MAX], count = 0;
    for (uint32_t rank = 0; rank < spec->ranks; rank++)
        if ((view >> rank & 1) != 0)
            members[count++] = rank;
    const bool pairs = exchanges(op->descriptor.collective);
    place->parts = pairs ? count * count : count;
    for (uint32_t i = 0; i < place->parts; i++) {
        uint64_t length = op->descriptor.count;
        if (op->given)
            length = pairs ? op->pairs[members[i / count]][members[i % count]] : op->lengths[members[i]];
        place->starts[i + 1] = place->starts[i] + length;
    }
}

/* Measures the data that one rank has for all, and gets from all. */
static void measure_exchange(struct rig_place *place, size_t bytes)
{
    const uint32_t ranks = place->seat.ranks, own = place->positions[place->seat.rank];
    const uint64_t first = results_before(place, 0, own);
    place->input_bytes = (size_t)(place->starts[(own + 1) * ranks] - place->starts[own * ranks]) * bytes;
    place->result_bytes = (size_t)(results_before(place, 0, own + 1) - first) * bytes;
    place->own = (size_t)(results_before(place, own, own) - first) * bytes;
    place->part = (size_t)(place->starts[own * ranks + own + 1] - place->starts[own * ranks + own]) * bytes;
}

/* Measures the tensor, or each part of it. */
static void measure(const struct rig_spec *spec, const struct rig_op *op, uint32_t view, struct rig_place *place)
{
    const enum pccl_collective collective = (enum pccl_collective)op->descriptor.collective;
    const bool gathers =
        collective == PCCL_ALL_GATHER || collective == PCCL_ALL_GATHER_V || gathers_at_root((uint8_t)collective);
    const bool scatters = collective == PCCL_REDUCE_SCATTER || scatters_from_root((uint8_t)collective);
    const size_t bytes = pccl_datatype_bytes((enum pccl_datatype)op->descriptor.datatype);
    list_parts(spec, op, view, place);
    place->in_parts = gathers || scatters || exchanges((uint8_t)collective);
    place->descriptor = op->descriptor;
    if (op->given)
        place->descriptor.count = place->starts[place->parts];
    if (exchanges((uint8_t)collective)) {
        measure_exchange(place, bytes);
        return;
    }
    const uint32_t own = place->in_parts ? place->positions[place->seat.rank] : 0;
    const size_t part = (size_t)(place->starts[own + 1] - place->starts[own]) * bytes;
    const size_t all = (size_t)place->starts[place->parts] * bytes;
    place->input_bytes = scatters_from_root((uint8_t)collective) && !place->gives ? 0 : scatters ? all : part;
    place->result_bytes = !place->gets ? 0 : gathers ? all : part;
    place->own = (size_t)place->starts[own] * bytes;
    place->part = part;
}

static struct rig_place place_of(const struct rig_spec *spec, uint32_t op, uint32_t view, uint32_t rank, bool odd)
{
    const uint8_t collective = spec->ops[op].descriptor.collective;
    struct rig_place place = {0};
    const uint32_t ranks = rig_ring_of(spec, view, place.ring);
    place.seat.ranks = ranks;
    for (uint32_t i = 0; i < ranks; i++) {
        for (uint32_t k = 0; k < ranks; k++)
            place.positions[i] += place.ring[k] < place.ring[i];
        if (place.ring[i] == rank)
            place.seat.rank = i;
    }
    const bool has_root = pccl_collective_has_root(spec->ops[op].descriptor.collective);
    if (has_root)
        place.seat.root = root_of(&spec->ops[op], view, &place);
    if (has_root && odd)
        place.seat.root = pccl_seat_next(place.seat, place.seat.root);
    const bool is_root = !has_root || place.seat.root == place.seat.rank;
    place.gives = is_root || (collective != PCCL_BROADCAST && !scatters_from_root(collective));
    place.gets = is_root || (collective != PCCL_REDUCE && !gathers_at_root(collective));
    measure(spec, &spec->ops[op], view, &place);
    return place;
}

struct rig_place rig_place_of(const struct rig_spec *spec, uint32_t op, uint32_t view, uint32_t rank)
{
    return place_of(spec, op, view, rank, false);
}

struct rig_place rig_odd_place_of(const struct rig_spec *spec, uint32_t op, uint32_t view, uint32_t rank)
{
    return place_of(spec, op, view, rank, true);
}

const uint64_t *rig_starts(const struct rig_place *place)
{
    return pccl_id_is_zero(&place->descriptor.counts) ? NULL : place->starts;
}

bool rig_plan(const struct rig_spec *spec, uint32_t op, const struct rig_place *place, struct pccl_plan *plan)
{
    const struct pccl_cost cost = rig_cost(spec, op);
    struct pccl_text reason;
    rig_plan_for(spec, &spec->ops[op]);
    return place->seat.ranks >= 2 && pccl_plan_make(&place->descriptor, &cost, place->seat, place->positions,
                                                    rig_starts(place), plan, &reason) == PCCL_OK;
}

uint32_t rig_tensors(const struct rig_op *op, struct rig_tensor *tensors)
{
    const bool coded = op->descriptor.codec != PCCL_CODEC_NONE; /* some codecs can only add */
    const enum pccl_reduce_op first = coded ? PCCL_AVG : PCCL_MAX, second = coded ? PCCL_SUM : PCCL_MIN;
    const enum pccl_reduce_op other = op->descriptor.operation == first ? second : first;
    for (uint32_t i = 0; i < op->tensor_count; i++)
        tensors[i] = (struct rig_tensor){
            .count = op->tensors[i],
            .datatype = (enum pccl_datatype)op->descriptor.datatype,
            .reduction = i + 1 < op->tensor_count ? (enum pccl_reduce_op)op->descriptor.operation : other};
    return op->tensor_count;
}

/* The plans of both sections; of one tensor, its plan. Returns their number; 0: alone. */
static uint32_t plan_sections(const struct rig_spec *spec, uint32_t op, const struct rig_place *place,
                              struct pccl_plan plans[2])
{
    struct rig_tensor tensors[RIG_TENSORS_MAX];
    const uint32_t count = rig_tensors(&spec->ops[op], tensors);
    if (count == 0)
        return rig_plan(spec, op, place, plans);
    const struct pccl_cost cost = rig_cost(spec, op);
    struct pccl_plan whole;
    struct pccl_text reason;
    struct pccl_section sections[2] = {
        {(uint8_t)tensors[0].datatype, (uint8_t)tensors[0].reduction, 0},
        {(uint8_t)tensors[0].datatype, (uint8_t)tensors[count - 1].reduction, tensors[count - 1].count}};
    sections[0].count = place->descriptor.count - sections[1].count;
    rig_plan_for(spec, &spec->ops[op]);
    if (place->seat.ranks < 2)
        return 0;
    PCCL_ASSERT(pccl_plan_make_sections(&place->descriptor, &cost, place->seat, sections, 2, plans, &whole, &reason) ==
                PCCL_OK);
    return 2;
}

/* ---- input ---- */

/* One in a hundred is not finite. */
static void put_value(struct pccl_prng *prng, enum pccl_datatype datatype, uint8_t *element)
{
    static const double odd[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    const uint64_t bits = pccl_prng_u64(prng);
    const bool is_odd = (bits >> 32) % 100 == 0;
    const double real = is_odd ? odd[bits % 3] : ((double)(bits % 2000001) - 1000000) / 977;
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
                const struct rig_place place = rig_place_of(spec, op, (UINT32_C(1) << spec->ranks) - 1, rank);
                const bool scatters = scatters_from_root(spec->ops[op].descriptor.collective);
                const size_t all = (size_t)place.starts[place.parts] * pccl_datatype_bytes(datatype);
                const size_t size = scatters ? all : place.input_bytes; /* any may become the root */
                uint8_t *bytes = malloc(size + 1);
                PCCL_ASSERT(bytes != NULL);
                spec->inputs[op][round][rank] = bytes;
                for (size_t at = 0; at < size; at += pccl_datatype_bytes(datatype))
                    put_value(&prng, datatype, bytes + at);
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

/* ---- expected results ---- */

struct fold {
    const struct pccl_plan *plan;
    const struct pccl_kernels *kernels;
    const void *parts[RIG_RANKS_MAX]; /* parts of one segment, in the order of the fold */
    uint32_t ranks[RIG_RANKS_MAX];    /* ranks of the parts */
    struct pccl_instance instance;
    uint64_t place;
    size_t count;
    uint8_t *packed, *unpacked, *sum; /* room for a segment */
    uint8_t *scaled;                  /* room for one of each rank */
    uint8_t *result;
};

/* The elements, or the partial fold, as they arrive from this rank at the other side: as these types, or those. */
static void pass_codec(const struct fold *fold, uint32_t rank, const struct pccl_packing *by, const void *elements,
                       const struct pccl_packing *as, void *result)
{
    pccl_packing_encode(by, fold->kernels, elements, fold->count, fold->place, pccl_packing_seed(&fold->instance, rank),
                        fold->packed);
    pccl_packing_decode(as, fold->kernels, fold->packed, fold->count, result);
}

/* Folds one part after the other. All parts but the last, or the partial fold, are packed for sending. */
static void fold_packed(const struct fold *fold)
{
    const struct pccl_plan *plan = fold->plan;
    const bool ring =
        plan->algorithm == PCCL_RING || plan->algorithm == PCCL_SCATTER_RING || plan->algorithm == PCCL_REDUCE_CHAIN;
    uint8_t *sum = fold->sum;
    struct pccl_step step = {.datatype = plan->datatype,
                             .from = plan->folded_datatype,
                             .to = plan->folded_datatype,
                             .reduction = plan->reduction};
    pass_codec(fold, fold->ranks[0], &plan->packing, fold->parts[0], &plan->folded_packing, sum);
    for (uint32_t i = 1; i + 1 < plan->seat.ranks; i++) {
        if (ring) {
            pccl_combine_step(fold->kernels, &step, sum, sum, fold->parts[i], fold->count);
            pass_codec(fold, fold->ranks[i], &plan->folded_packing, sum, &plan->folded_packing, sum);
        } else {
            pass_codec(fold, fold->ranks[i], &plan->packing, fold->parts[i], &plan->folded_packing, fold->unpacked);
            pccl_combine(fold->kernels, plan->folded_datatype, plan->reduction, sum, sum, fold->unpacked, fold->count);
        }
    }
    step.to = plan->datatype;
    step.ranks = plan->seat.ranks;
    pccl_combine_step(fold->kernels, &step, fold->result, sum, fold->parts[plan->seat.ranks - 1], fold->count);
    if (plan->algorithm == PCCL_RING || plan->algorithm == PCCL_DIRECT) /* data for no other rank is not packed */
        pass_codec(fold, fold->ranks[plan->seat.ranks - 1], &plan->packing, fold->result, &plan->packing, fold->result);
}

struct reference {
    const struct rig_place *place;
    uint8_t *const *inputs; /* by rank */
    uint8_t *result;        /* of the whole tensor */
};

/* Reduces the parts in the order in which they are folded: the owner of a share is last, and so is a root. */
static void reduce_segment(const struct reference *reference, struct fold *fold, uint32_t number,
                           const struct pccl_segment *segment)
{
    const struct pccl_plan *plan = fold->plan;
    const bool has_root = pccl_collective_has_root(reference->place->descriptor.collective);
    const uint32_t first = has_root ? plan->seat.root + 1 : number + (plan->positions != NULL);
    const size_t at = plan->bytes_before + segment->first * plan->element_bytes;
    fold->count = segment->count;
    fold->result = reference->result + at;
    for (uint32_t i = 0; i < plan->seat.ranks; i++) {
        fold->ranks[i] = (first + i) % plan->seat.ranks;
        const uint32_t rank = reference->place->ring[fold->ranks[i]];
        fold->parts[i] = reference->inputs[rank] + at;
        if (plan->reduction != PCCL_PREMUL_SUM)
            continue;
        uint8_t *scaled = fold->scaled + (size_t)i * plan->segment_elements * plan->element_bytes;
        memcpy(scaled, fold->parts[i], (size_t)fold->count * plan->element_bytes);
        scale_elements(&datatypes[plan->datatype], scaled, fold->count, rig_factor(rank));
        fold->parts[i] = scaled;
    }
    if (pccl_packing_packs(&plan->packing))
        fold_packed(fold);
    else
        reduce_elements(&datatypes[plan->datatype], (pcclRedOp_t)plan->reduction, fold->parts, plan->seat.ranks,
                        fold->count, fold->result);
}

/* Copies a segment, packed once by its owner. */
static void copy_segment(const struct reference *reference, struct fold *fold, uint32_t number,
                         const struct pccl_segment *segment)
{
    const struct rig_place *place = reference->place;
    const struct pccl_plan *plan = fold->plan;
    const uint32_t owner = place->in_parts ? number : place->seat.root;
    const uint64_t from = place->in_parts ? place->starts[place->positions[number]] : 0;
    const uint8_t *given = reference->inputs[place->ring[owner]] + (segment->first - from) * plan->element_bytes;
    uint8_t *result = reference->result + segment->first * plan->element_bytes;
    fold->count = segment->count;
    if (pccl_packing_packs(&plan->packing))
        pass_codec(fold, owner, &plan->packing, given, &plan->packing, result);
    else
        memcpy(result, given, (size_t)segment->count * plan->element_bytes);
}

/* Returns true if the rank packs the piece for others in this stripe. */
static bool is_sent(const struct pccl_plan *plan, uint64_t stripe, uint32_t number, uint32_t rank)
{
    const struct pccl_schedule *schedule = pccl_schedules[plan->algorithm];
    const struct pccl_seat seat = pccl_plan_seat(plan, stripe);
    for (uint32_t to = 0; to < seat.ranks; to++)
        if (to != rank && schedule->sends(seat, rank, to) && schedule->piece(seat, rank, to, 0) == number)
            return true;
    return false;
}

/* Moves the data of one rank for another, cut as it is sent; packed unless it stays. */
static void move_segment(const struct reference *reference, struct fold *fold, uint64_t stripe, uint32_t number)
{
    const struct rig_place *place = reference->place;
    const struct pccl_plan *plan = fold->plan;
    const struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    const uint32_t ranks = place->seat.ranks, root = place->seat.root;
    const uint8_t collective = place->descriptor.collective;
    const uint32_t from = scatters_from_root(collective) ? root : number;
    const uint32_t giver = segment.part / ranks, taker = segment.part % ranks; /* in an all-to-all */
    const uint64_t start = segment.first - place->starts[segment.part];
    uint64_t at = segment.first, to = segment.first; /* offset in the rank's input, and in the results */
    bool stays = number == root;
    if (gathers_at_root(collective))
        at = start;
    if (plan->division == PCCL_DIVISION_EXCHANGED) {
        at = segment.first - place->starts[giver * ranks];
        to = results_before(place, giver, taker) + start;
        stays = giver == taker;
    }
    const uint8_t *given = reference->inputs[place->ring[from]] + at * plan->element_bytes;
    uint8_t *result = reference->result + to * plan->element_bytes;
    fold->count = segment.count;
    if (stays || !pccl_packing_packs(&plan->packing))
        memcpy(result, given, segment.count * plan->element_bytes);
    else if (is_sent(plan, stripe, number, from))
        pass_codec(fold, from, &plan->packing, given, &plan->packing, result);
}

static void fill_reference(const struct reference *reference, const struct pccl_plan *plan,
                           const struct pccl_instance *instance)
{
    const size_t most = (size_t)plan->segment_elements;
    struct fold fold = {.plan = plan,
                        .kernels = pccl_kernels_variant(0, &(uint32_t){0}),
                        .instance = *instance,
                        .packed = malloc(pccl_plan_bytes_most(plan, plan->segment_elements) + 1),
                        .unpacked = malloc(most * sizeof(double) + 1),
                        .sum = malloc(most * sizeof(double) + 1),
                        .scaled = malloc(most * sizeof(double) * RIG_RANKS_MAX + 1)};
    const bool moves = pccl_schedules[plan->algorithm]->keeps_unsent;
    PCCL_ASSERT(fold.packed != NULL && fold.unpacked != NULL && fold.sum != NULL && fold.scaled != NULL);
    for (uint64_t stripe = plan->first_stripe; stripe < plan->first_stripe + plan->stripes; stripe++)
        for (uint32_t number = 0; number < plan->pieces; number++) {
            const struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
            fold.place = pccl_plan_place(plan, stripe, number);
            if (segment.count > 0 && moves)
                move_segment(reference, &fold, stripe, number);
            else if (segment.count > 0 && plan->reduces)
                reduce_segment(reference, &fold, number, &segment);
            else if (segment.count > 0)
                copy_segment(reference, &fold, number, &segment);
        }
    free(fold.packed);
    free(fold.unpacked);
    free(fold.sum);
    free(fold.scaled);
}

/* Fills in the results of all positions. */
static void fill_scans(const struct reference *reference, const struct pccl_plan *plan, bool inclusive)
{
    const struct rig_place *place = reference->place;
    const size_t bytes = (size_t)plan->count * plan->element_bytes;
    const void *parts[RIG_RANKS_MAX];
    uint8_t *scaled[RIG_RANKS_MAX];
    for (uint32_t i = 0; i < place->seat.ranks; i++) {
        const uint32_t rank = place->ring[i];
        scaled[i] = malloc(bytes);
        PCCL_ASSERT(scaled[i] != NULL);
        memcpy(scaled[i], reference->inputs[rank], bytes);
        if (plan->reduction == PCCL_PREMUL_SUM)
            scale_elements(&datatypes[plan->datatype], scaled[i], (size_t)plan->count, rig_factor(rank));
        parts[place->positions[i]] = scaled[i];
    }
    for (uint32_t position = 0; position < place->seat.ranks; position++)
        reduce_elements(&datatypes[plan->datatype], (pcclRedOp_t)plan->reduction, parts, position + inclusive,
                        (size_t)plan->count, reference->result + position * bytes);
    for (uint32_t i = 0; i < place->seat.ranks; i++)
        free(scaled[i]);
}

/* The whole tensor of results, in parts or not, or of several sections. */
static uint8_t *make_reference(const struct rig_spec *spec, uint32_t op, uint32_t round, uint32_t use, uint32_t view)
{
    const struct rig_place place = rig_place_of(spec, op, view, 0);
    struct pccl_plan plans[2];
    const uint32_t count = plan_sections(spec, op, &place, plans);
    if (count == 0)
        return NULL;
    const uint8_t collective = spec->ops[op].descriptor.collective;
    const size_t whole = (size_t)place.starts[place.in_parts ? place.parts : 1] * plans[0].element_bytes;
    const struct reference reference = {&place, spec->inputs[op][round],
                                        malloc(whole * (scans(collective) ? place.seat.ranks : 1))};
    PCCL_ASSERT(reference.result != NULL);
    if (scans(collective))
        fill_scans(&reference, plans, collective == PCCL_INCLUSIVE_SCAN);
    for (uint32_t i = 0; i < count && !scans(collective); i++)
        fill_reference(&reference, &plans[i], &(struct pccl_instance){.tag = op, .use = use});
    return reference.result;
}

const uint8_t *rig_reference(struct rig_spec *spec, uint32_t op, uint32_t round, uint32_t use, uint32_t view,
                             uint32_t rank)
{
    uint8_t **reference = &spec->references[op][round][view];
    if (spec->reference_uses[op][round][view] != use && spec->ops[op].descriptor.codec_rounding != 0) {
        free(*reference); /* another use rounds otherwise */
        *reference = NULL;
    }
    if (*reference == NULL) {
        struct rig_world *world = rig_packs_for(NULL);
        *reference = make_reference(spec, op, round, use, view);
        rig_packs_for(world);
    }
    spec->reference_uses[op][round][view] = use;
    const struct rig_place place = rig_place_of(spec, op, view, rank);
    const uint8_t collective = spec->ops[op].descriptor.collective;
    const size_t element = pccl_datatype_bytes((enum pccl_datatype)place.descriptor.datatype);
    const size_t own =
        collective == PCCL_REDUCE_SCATTER || scatters_from_root(collective) ? place.own
        : scans(collective)     ? (size_t)place.positions[place.seat.rank] * (size_t)place.descriptor.count * element
        : exchanges(collective) ? (size_t)results_before(&place, 0, place.positions[place.seat.rank]) * element
                                : 0;
    return *reference != NULL ? *reference + own : NULL;
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

/* this order gives rings of three and of four ranks bf16 that is folded in f32 */
static const enum pccl_datatype listed_datatypes[] = {PCCL_F32, PCCL_BF16, PCCL_I16, PCCL_U8, PCCL_F64};
static const enum pccl_reduce_op reductions[] = {PCCL_SUM, PCCL_AVG, PCCL_MAX};

enum coding { PLAIN, MIN_MAX, SCALED };

/* The number-th of all scaled codecs and the data types that they pack, so that few numbers show each of them. */
static void use_scaled(struct pccl_descriptor *descriptor, uint32_t number)
{
    static const enum pccl_datatype reals[] = {PCCL_F32, PCCL_BF16, PCCL_F16};
    descriptor->datatype = (uint8_t)reals[number % 3];
    descriptor->codec = (uint8_t)(PCCL_PACKING_SCALED + number % PCCL_SCALED_FORMATS);
    descriptor->codec_datatype = 0;
    descriptor->codec_scale = (uint8_t)(number / 2 % PCCL_SCALED_SCALES);
    descriptor->codec_rounding = (uint8_t)(number / 3 % PCCL_SCALED_ROUNDINGS);
    descriptor->codec_block = PCCL_SCALED_BLOCK_MIN;
}

static struct rig_op listed_op(uint32_t number, uint64_t count, enum coding coding, bool in_place)
{
    const enum pccl_datatype datatype = coding != PLAIN ? PCCL_F32 : listed_datatypes[number % 5];
    const bool scales = number / 15 % 2 == 1 && reductions[number % 3] == PCCL_SUM && pccl_datatype_is_float(datatype);
    struct rig_op op = {.descriptor = {.datatype = (uint8_t)datatype,
                                       .operation = (uint8_t)(scales ? PCCL_PREMUL_SUM : reductions[number % 3]),
                                       .codec = coding != PLAIN ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_NONE,
                                       .codec_datatype = PCCL_U8,
                                       .count = count},
                        .segment_elements = 3,
                        .in_place = in_place ? UINT32_MAX : 0,
                        .odd_rank = RIG_NOBODY};
    if (coding == SCALED)
        use_scaled(&op.descriptor, number);
    return op;
}

/* All-reduces: one, or three at a time. */
static void list_all_reduces(struct rig_spec *spec, uint32_t bits)
{
    const enum coding coded = (spec->ranks + (bits >> 2)) % 2 == 0 ? MIN_MAX : SCALED;
    spec->op_count = (bits & 8) != 0 ? 3 : 1;
    spec->long_path = ((spec->ranks + (bits >> 3) + (bits >> 2) + (bits >> 1) + bits) & 1) != 0;
    for (uint32_t op = 0; op < spec->op_count; op++) {
        /* one operation: a whole group and one with an empty or a shorter segment */
        const uint64_t count =
            spec->op_count == 1 ? 3 * spec->ranks + 2 * spec->ranks - 3 + bits % 2 : spec->ranks + op;
        spec->ops[op] = listed_op((uint32_t)spec->seed + op, count, (bits & 2) != 0 ? coded : PLAIN, (bits & 4) != 0);
    }
}

/*
 * Gives lengths of all pairs: some are empty, and one is much longer. Data that stays is not empty, so there is
 * something to do.
 */
static void give_pairs(const struct rig_spec *spec, struct pccl_prng *prng, uint32_t most, struct rig_op *op)
{
    const uint32_t all = spec->ranks * spec->ranks, longest = (uint32_t)pccl_prng_below(prng, all);
    op->descriptor.count = 0;
    for (uint32_t i = 0; i < all; i++) {
        const uint32_t from = i / spec->ranks, to = i % spec->ranks;
        const bool empty = from != to && pccl_prng_below(prng, 4) == 0;
        op->pairs[from][to] = empty ? 0 : 1 + (uint32_t)pccl_prng_below(prng, i == longest ? 3 * most : most);
        op->descriptor.count += op->pairs[from][to];
    }
}

/* Parts of other lengths than one another. No two are empty: in every view there is something to do. */
static void give_lengths(const struct rig_spec *spec, struct pccl_prng *prng, uint32_t most, struct rig_op *op)
{
    const uint32_t empty = (uint32_t)pccl_prng_below(prng, spec->ranks + 1);
    op->given = true;
    op->descriptor.counts.bytes[0] = 1;
    op->descriptor.count = 0;
    for (uint32_t rank = 0; rank < spec->ranks; rank++) {
        op->lengths[rank] = rank == empty ? 0 : 1 + (uint32_t)pccl_prng_below(prng, most);
        op->descriptor.count += op->lengths[rank];
    }
    if (op->descriptor.collective == PCCL_ALL_TO_ALL_V)
        give_pairs(spec, prng, most, op);
}

/* Several tensors, all of them together as long as the one that there was. */
static void cut_into_tensors(struct pccl_prng *prng, struct rig_op *op)
{
    uint64_t rest = op->descriptor.count;
    op->descriptor.collective = PCCL_COALESCED;
    op->tensor_count = 0;
    while (rest > 0) {
        const bool last = op->tensor_count + 1 == RIG_TENSORS_MAX;
        const uint64_t most = op->tensor_count == 0 ? rest - 1 : rest; /* at least two */
        const uint32_t count = last ? (uint32_t)rest : 1 + (uint32_t)pccl_prng_below(prng, most);
        op->tensors[op->tensor_count++] = count;
        rest -= count;
    }
}

/* A scan has no codec and no average. */
static void mend_scan(struct rig_op *op)
{
    struct pccl_descriptor *descriptor = &op->descriptor;
    if (!scans(descriptor->collective))
        return;
    *descriptor = (struct pccl_descriptor){.collective = descriptor->collective,
                                           .datatype = descriptor->datatype,
                                           .operation = descriptor->operation,
                                           .count = descriptor->count};
    if (descriptor->operation == PCCL_AVG)
        descriptor->operation = PCCL_PROD;
}

/* One of the others: two groups. */
static void list_another(struct rig_spec *spec, struct pccl_prng *prng, enum pccl_collective collective, bool given,
                         uint32_t bits)
{
    static const enum coding codings[] = {MIN_MAX, SCALED, PLAIN};
    const enum coding coded = codings[(bits + spec->ranks) % 3];
    spec->op_count = 1;
    spec->long_path = (bits & 2) != 0;
    const uint64_t count = collective == PCCL_BROADCAST   ? 5 * spec->ranks - 6
                           : collective == PCCL_COALESCED ? 4 * spec->ranks + 3
                                                          : 5;
    spec->ops[0] = listed_op((uint32_t)spec->seed, count, coded, (bits & 4) != 0);
    spec->ops[0].descriptor.collective = (uint8_t)collective;
    if (!pccl_collective_reduces((uint8_t)collective))
        spec->ops[0].descriptor.operation = 0;
    mend_scan(&spec->ops[0]);
    if (given)
        give_lengths(spec, prng, 6, &spec->ops[0]);
    if (collective == PCCL_COALESCED)
        cut_into_tensors(prng, &spec->ops[0]);
    spec->ops[0].root = (uint32_t)spec->seed % spec->ranks;
}

bool rig_spec_listed(struct rig_spec *spec, uint32_t number)
{
    enum { ALL_REDUCES = 3 * 16, OF_ANOTHER = 3 * 8 };
    static const struct {
        enum pccl_collective collective;
        bool given;
    } others[] = {{PCCL_BROADCAST, false},     {PCCL_ALL_GATHER, false},     {PCCL_REDUCE_SCATTER, false},
                  {PCCL_REDUCE_SCATTER, true}, {PCCL_ALL_GATHER_V, true},    {PCCL_REDUCE, false},
                  {PCCL_GATHER, false},        {PCCL_SCATTER, false},        {PCCL_ALL_TO_ALL, false},
                  {PCCL_GATHER_V, true},       {PCCL_SCATTER_V, true},       {PCCL_ALL_TO_ALL_V, true},

                  {PCCL_COALESCED, false},     {PCCL_EXCLUSIVE_SCAN, false}, {PCCL_INCLUSIVE_SCAN, false}};
    const bool another = number >= ALL_REDUCES;
    const uint32_t of_others = another ? number - ALL_REDUCES : 0, other = of_others / OF_ANOTHER;
    const uint32_t bits = another ? of_others % 8 : number % 16;
    if (other >= PCCL_COUNT_OF(others))
        return false;
    struct pccl_prng prng;
    pccl_prng_seed(&prng, number);
    *spec = (struct rig_spec){.seed = number,
                              .ranks = 2 + (another ? of_others % OF_ANOTHER / 8 : number / 16),
                              .direct = (bits & 1) != 0,
                              .rounds = 1,
                              .pool = 1 + (number / 2 + number / 16) % 2,
                              .long_turns = number % 2 == 0,
                              .few = number / 3 % 2 == 1,
                              .linked = true,
                              .whole = true,
                              .uneven = number % 3 == 0,
                              .pipe_bytes = RIG_PIPE_MAX,
                              .window_bytes = 1,
                              .scratch_bytes = 1};
    make_ids(spec, &prng);
    if (another)
        list_another(spec, &prng, others[other].collective, others[other].given, bits);
    else
        list_all_reduces(spec, bits);
    make_inputs(spec);
    return true;
}

static void make_another(const struct rig_spec *spec, struct pccl_prng *prng, struct rig_op *op)
{
    static const enum pccl_collective kinds[] = {PCCL_BROADCAST,  PCCL_ALL_GATHER,     PCCL_REDUCE_SCATTER,
                                                 PCCL_REDUCE,     PCCL_GATHER,         PCCL_SCATTER,
                                                 PCCL_ALL_TO_ALL, PCCL_EXCLUSIVE_SCAN, PCCL_INCLUSIVE_SCAN};
    const enum pccl_collective kind = kinds[pccl_prng_below(prng, PCCL_COUNT_OF(kinds))];
    op->descriptor.collective = (uint8_t)kind;
    op->root = (uint32_t)pccl_prng_below(prng, spec->ranks);
    mend_scan(op);
    const bool whole = kind == PCCL_BROADCAST || kind == PCCL_REDUCE || scans((uint8_t)kind);
    if (!whole)
        op->descriptor.count = 2 + op->descriptor.count / spec->ranks;
    if (!pccl_collective_reduces(op->descriptor.collective))
        op->descriptor.operation = 0;
    if (whole || pccl_prng_below(prng, 2) == 0)
        return;
    static const enum pccl_collective of_blobs[] = {[PCCL_ALL_GATHER] = PCCL_ALL_GATHER_V,
                                                    [PCCL_GATHER] = PCCL_GATHER_V,
                                                    [PCCL_SCATTER] = PCCL_SCATTER_V,
                                                    [PCCL_ALL_TO_ALL] = PCCL_ALL_TO_ALL_V};
    if (kind != PCCL_REDUCE_SCATTER)
        op->descriptor.collective = (uint8_t)of_blobs[kind];
    give_lengths(spec, prng, 4 * op->segment_elements + 1, op);
}

static struct rig_op random_op(const struct rig_spec *spec, struct pccl_prng *prng)
{
    struct rig_op op = {.segment_elements = 1 + (uint32_t)pccl_prng_below(prng, 24), .odd_rank = RIG_NOBODY};
    op.descriptor.datatype = (uint8_t)pccl_prng_below(prng, PCCL_DATATYPES);
    op.descriptor.operation = (uint8_t)pccl_prng_below(prng, PCCL_REDUCE_OPS);
    if (pccl_reduction_misfit(op.descriptor.datatype, op.descriptor.operation) != NULL)
        op.descriptor.operation = PCCL_MIN;
    op.descriptor.count = 2 + pccl_prng_below(prng, 4 * op.segment_elements * spec->ranks);
    op.in_place = (uint32_t)pccl_prng_u64(prng);
    if (pccl_prng_below(prng, 3) == 0) {
        static const enum pccl_datatype packed[] = {PCCL_U8, PCCL_I8};
        const uint32_t kind = (uint32_t)pccl_prng_below(prng, 3);
        static const enum pccl_datatype reals[] = {PCCL_F16, PCCL_BF16, PCCL_F32, PCCL_F64};
        op.descriptor.datatype = (uint8_t)reals[pccl_prng_below(prng, 4)];
        static const enum pccl_reduce_op sums[] = {PCCL_SUM, PCCL_AVG, PCCL_PREMUL_SUM};
        op.descriptor.operation = (uint8_t)sums[pccl_prng_below(prng, 3)];
        op.descriptor.codec = (uint8_t)(kind == 0 ? PCCL_CODEC_MIN_MAX : PCCL_CODEC_ZERO_POINT_SCALE);
        if (kind < 2)
            op.descriptor.codec_datatype = (uint8_t)packed[kind];
        else
            use_scaled(&op.descriptor, (uint32_t)pccl_prng_below(prng, 90));
    }
    if (pccl_prng_below(prng, 8) == 0)
        op.segment_elements = 0; /* as in production: one stripe for so few elements */
    if (pccl_prng_below(prng, 12) == 0)
        op.odd_rank = (uint32_t)pccl_prng_below(prng, spec->ranks);
    op.odd_in_length = (op.in_place >> RIG_RANKS_MAX & 1) != 0;
    if (pccl_prng_below(prng, 2) == 0)
        make_another(spec, prng, &op);
    else if (pccl_prng_below(prng, 4) == 0)
        cut_into_tensors(prng, &op);
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
    spec->long_turns = (seed & 1) != 0;
    spec->mixed_paths = (seed & 2) != 0;
    spec->few = (seed & 4) != 0;
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
    printf("%u ranks (%s), %u connections a lane of %u bytes%s%s%s%s%s%s%s%s, window %zu, scratch %zu, rounds %u, ring",
           spec->ranks, spec->direct ? "direct" : "ring", spec->pool, spec->pipe_bytes, spec->long_path ? ", long" : "",
           spec->mixed_paths ? ", mixed" : "", spec->linked ? ", linked" : "", spec->redialed ? ", redialed" : "",
           spec->uneven ? ", uneven" : "", spec->whole ? ", whole" : "", spec->long_turns ? ", long turns" : "",
           spec->few ? ", few" : "", spec->window_bytes, spec->scratch_bytes, spec->rounds);
    for (uint32_t i = 0; i < spec->ranks; i++)
        printf(" %u", spec->ring[i]);
    printf("\n");
    for (uint32_t i = 0; i < spec->op_count; i++) {
        const struct rig_op *op = &spec->ops[i];
        printf("  operation %u: %s, %s of %llu %s, codec %u, root %u, segments of %u, in place %x, odd rank %d\n", i,
               collectives[op->descriptor.collective].name,
               pccl_reduce_op_name((enum pccl_reduce_op)op->descriptor.operation),
               (unsigned long long)op->descriptor.count,
               pccl_datatype_name((enum pccl_datatype)op->descriptor.datatype), op->descriptor.codec, op->root,
               op->segment_elements, op->in_place & ((1u << spec->ranks) - 1),
               op->odd_rank == RIG_NOBODY ? -1 : (int)op->odd_rank);
    }
}
