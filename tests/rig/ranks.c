/*
 * The ranks: their callers' buffers, the operations they run, the events of their exchange, and the
 * checks of it at each moment.
 */
#include "rig.h"

#include "support/exchange_check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(block, bytes) ASAN_POISON_MEMORY_REGION(block, bytes)
#define UNPOISON(block, bytes) ASAN_UNPOISON_MEMORY_REGION(block, bytes)
#else
#define POISON(block, bytes) ((void)(block), (void)(bytes))
#define UNPOISON(block, bytes) ((void)(block), (void)(bytes))
#endif

enum { CANARY = 0xc5, UNWRITTEN = 0x5a, RETURNED = 0xd7 };

/* ---- the callers' buffers ---- */

static bool buffer_make(struct rig_buffer *buffer, size_t bytes, uint32_t shift)
{
    buffer->block_bytes = bytes + 2 * RIG_CANARY_BYTES + shift;
    buffer->data_bytes = bytes;
    buffer->block = malloc(buffer->block_bytes);
    if (buffer->block == NULL)
        return false;
    memset(buffer->block, CANARY, buffer->block_bytes);
    buffer->data = buffer->block + RIG_CANARY_BYTES + shift;
    memset(buffer->data, UNWRITTEN, bytes);
    return true;
}

static bool all_are(const uint8_t *bytes, size_t length, uint8_t value)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static bool canaries_live(const struct rig_buffer *buffer)
{
    const size_t before = (size_t)(buffer->data - buffer->block);
    const size_t after = buffer->block_bytes - before - buffer->data_bytes;
    return all_are(buffer->block, before, CANARY) && all_are(buffer->data + buffer->data_bytes, after, CANARY);
}

/* The caller has the buffer back: later writes are noticed at the end, or at once under the sanitizer. */
static void buffer_return(struct rig_buffer *buffer)
{
    if (buffer->block == NULL)
        return;
    memset(buffer->data, RETURNED, buffer->data_bytes);
    POISON(buffer->block, buffer->block_bytes);
}

static void buffer_release(struct rig_world *world, struct rig_buffer *buffer, bool returned)
{
    if (buffer->block == NULL)
        return;
    UNPOISON(buffer->block, buffer->block_bytes);
    if (!canaries_live(buffer))
        rig_violation(world, "bytes beside a caller's buffer were written");
    if (returned && !all_are(buffer->data, buffer->data_bytes, RETURNED))
        rig_violation(world, "a caller's buffer was written after the stop");
    free(buffer->block);
}

static const uint8_t *original_of(const struct rig_attempt *attempt)
{
    return attempt->world->spec->inputs[attempt->op][attempt->round][attempt->rank];
}

/*
 * Stores several tensors in the caller's memory in the reverse of their order, so that no tensor continues another one.
 * Returns their places and their number.
 */
static uint32_t lay_out(const struct rig_attempt *attempt, struct rig_tensor *tensors)
{
    const uint32_t count = rig_tensors(&attempt->world->spec->ops[attempt->op], tensors);
    size_t at = 0;
    for (uint32_t i = count; i-- > 0;) {
        tensors[i].input = attempt->given + at;
        tensors[i].result = attempt->got + at;
        at += (size_t)tensors[i].count * pccl_datatype_bytes(tensors[i].datatype);
    }
    return count;
}

static size_t offset_of(const struct rig_attempt *attempt, const struct rig_tensor *tensor)
{
    return (size_t)(tensor->input - attempt->given);
}

/* Copies the memory in the order of the tensors; returns NULL if there is only one. */
static uint8_t *copy_in_order(const struct rig_attempt *attempt, const uint8_t *memory, size_t bytes)
{
    struct rig_tensor tensors[RIG_TENSORS_MAX];
    const uint32_t count = lay_out(attempt, tensors);
    uint8_t *copy = count > 0 ? malloc(bytes) : NULL;
    for (size_t i = 0, at = 0; i < count; i++) {
        const size_t length = (size_t)tensors[i].count * pccl_datatype_bytes(tensors[i].datatype);
        memcpy(copy + at, memory + offset_of(attempt, &tensors[i]), length);
        at += length;
    }
    return copy;
}

/* Checks the input; if the result overwrites it, only the rest counts. */
static void check_input(struct rig_attempt *attempt, bool overwritten, const char *when)
{
    const size_t bytes = attempt->place.input_bytes;
    uint8_t *copy = overwritten ? NULL : copy_in_order(attempt, attempt->given, bytes);
    const uint8_t *got = attempt->got, *behind = got + attempt->place.result_bytes;
    size_t differing = 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t *at = attempt->given + i;
        const uint8_t value = copy != NULL ? copy[i] : *at;
        differing += (!overwritten || at < got || at >= behind) && value != original_of(attempt)[i];
    }
    free(copy);
    if (differing > 0 && (attempt->place.gives || !attempt->in_place))
        rig_violation(attempt->world, "rank %u: the input of operation %u use %u differs %s", attempt->rank,
                      attempt->op, attempt->use, when);
}

static void check_result(struct rig_attempt *attempt, const char *when)
{
    const uint8_t *expected =
        rig_reference(attempt->world->spec, attempt->op, attempt->round, attempt->use, attempt->view, attempt->rank);
    uint8_t *copy = copy_in_order(attempt, attempt->got, attempt->place.result_bytes);
    const uint8_t *got = copy != NULL ? copy : attempt->got;
    if (expected == NULL || memcmp(got, expected, attempt->place.result_bytes) != 0)
        rig_violation(attempt->world, "rank %u: the result of operation %u use %u is wrong %s", attempt->rank,
                      attempt->op, attempt->use, when);
    free(copy);
    check_input(attempt, attempt->in_place, when);
}

/* ---- the exchange's events ---- */

static void report(struct rig_attempt *attempt, enum rig_mail_kind kind, enum pccl_class class)
{
    struct rig_rank *rank = &attempt->world->ranks[attempt->rank];
    const struct rig_mail mail = {
        .kind = kind, .op = attempt->op, .use = attempt->use, .view_number = attempt->view_number, .class = class};
    rig_post(attempt->world, &rank->to_master, &mail);
}

/* Returns true if a member of the view requested another operation. */
static bool is_mismatched(const struct rig_attempt *attempt)
{
    const uint32_t odd = attempt->world->spec->ops[attempt->op].odd_rank;
    return attempt->use == 0 && odd != RIG_NOBODY && (attempt->view >> odd & 1) != 0;
}

/* Returns true if the rank's result includes the part of the other rank, whatever the schedule. */
static bool needs_part_of(const struct rig_attempt *attempt, uint32_t other)
{
    const struct rig_op *op = &attempt->world->spec->ops[attempt->op];
    const uint8_t collective = op->descriptor.collective;
    const uint32_t *positions = attempt->place.positions;
    if (collective == PCCL_EXCLUSIVE_SCAN || collective == PCCL_INCLUSIVE_SCAN)
        return positions[other] < positions[attempt->place.seat.rank];
    return !pccl_collective_has_root(collective) && !op->given;
}

/*
 * Returns true if the attempt cannot be done because of that (PROTOCOL 7.1): it is the odd one's, it has a flow to the
 * odd one, whose READY differs, or it needs the part of the odd one, which no other rank has granted.
 */
static bool must_notice(const struct rig_attempt *attempt)
{
    const struct rig_spec *spec = attempt->world->spec;
    const struct rig_place *place = &attempt->place;
    struct pccl_plan plan;
    uint32_t odd = 0;
    if (!is_mismatched(attempt) || attempt->odd)
        return is_mismatched(attempt);
    while (place->ring[odd] != spec->ops[attempt->op].odd_rank)
        odd++;
    PCCL_ASSERT(rig_plan(spec, attempt->op, place, &plan));
    return needs_part_of(attempt, odd) || pccl_schedules[plan.algorithm]->sends(plan.seat, place->seat.rank, odd);
}

/* Returns true if its own part is replaced by its unpacked value. */
static bool keeps_packed(const struct rig_attempt *attempt)
{
    const struct pccl_descriptor *descriptor = &attempt->place.descriptor;
    const bool sends = descriptor->collective == PCCL_BROADCAST || descriptor->collective == PCCL_ALL_GATHER ||
                       descriptor->collective == PCCL_ALL_GATHER_V;
    return attempt->place.gives && descriptor->codec != PCCL_CODEC_NONE && sends;
}

static void swap_parts(const struct rig_attempt *attempt)
{
    const size_t part = attempt->place.part;
    for (size_t i = 0; i < part; i++) {
        const uint8_t swapped = attempt->got[i];
        attempt->got[i] = attempt->got[part + i];
        attempt->got[part + i] = swapped;
    }
}

static bool tells_arrivals(const struct rig_attempt *attempt)
{
    return pccl_collective_is_of_blobs(attempt->place.descriptor.collective);
}

/* Returns the bytes, and their offset, that this rank has when the part of the member in this position has arrived. */
static size_t part_from(const struct rig_attempt *attempt, uint32_t position, size_t *at)
{
    const struct rig_place *place = &attempt->place;
    const uint32_t own = place->positions[place->seat.rank], ranks = place->seat.ranks;
    const uint8_t collective = place->descriptor.collective;
    const size_t element = pccl_datatype_bytes((enum pccl_datatype)place->descriptor.datatype);
    uint32_t part = position;
    uint64_t before = place->starts[part];
    if (collective == PCCL_SCATTER_V) {
        part = own;
        before = 0;
    } else if (collective == PCCL_ALL_TO_ALL_V) {
        part = position * ranks + own;
        before = 0;
        for (uint32_t i = own; i < part; i += ranks)
            before += place->starts[i + 1] - place->starts[i];
    }
    *at = (size_t)before * element;
    const bool comes = collective != PCCL_SCATTER_V || position == place->positions[place->seat.root];
    return place->gets && comes ? (size_t)(place->starts[part + 1] - place->starts[part]) * element : 0;
}

static void on_arrived(void *context, struct pccl_transfer *transfer, uint32_t position)
{
    struct rig_attempt *attempt = pccl_transfer_user(transfer);
    struct rig_rank *rank = context;
    struct rig_world *world = rank->world;
    size_t at, bytes = part_from(attempt, position, &at);
    if ((attempt->arrived >> position & 1) != 0 || attempt->state != RIG_RUNNING || bytes == 0) {
        rig_violation(world, "rank %u: a part of operation %u use %u comes twice, or out of nothing", attempt->rank,
                      attempt->op, attempt->use);
        return;
    }
    if (rig_plant(world, RIG_PLANT_lost_arrival))
        return;
    attempt->arrived |= UINT32_C(1) << position;
    if (world->decisions[attempt->op][attempt->use].aborted_by != 0 || is_mismatched(attempt))
        return; /* may be filler, or belong to other requests */
    const uint8_t *expected =
        rig_reference(world->spec, attempt->op, attempt->round, attempt->use, attempt->view, attempt->rank);
    if (rig_plant(world, RIG_PLANT_early_arrival))
        attempt->got[at + bytes - 1] ^= 1;
    if (expected == NULL || memcmp(attempt->got + at, expected + at, bytes) != 0)
        rig_violation(world, "rank %u: a part of operation %u use %u is wrong when it is told", attempt->rank,
                      attempt->op, attempt->use);
}

static void check_arrivals(const struct rig_attempt *attempt)
{
    for (uint32_t i = 0; i < attempt->place.seat.ranks && tells_arrivals(attempt); i++) {
        size_t at;
        const bool came = (attempt->arrived >> i & 1) != 0;
        if (came != (part_from(attempt, i, &at) > 0))
            rig_violation(attempt->world, "rank %u: operation %u use %u is done, and a part was not told",
                          attempt->rank, attempt->op, attempt->use);
    }
}

static void on_done(void *context, struct pccl_transfer *transfer)
{
    struct rig_attempt *attempt = pccl_transfer_user(transfer);
    struct rig_rank *rank = context;
    struct rig_world *world = rank->world;
    rig_trace(world, "rank %u is done with operation %u use %u", attempt->rank, attempt->op, attempt->use);
    if (rank->number != attempt->rank || attempt->state != RIG_RUNNING || must_notice(attempt)) {
        rig_violation(world, "rank %u: operation %u use %u is done twice, after a failure or a mismatch", attempt->rank,
                      attempt->op, attempt->use);
        return;
    }
    attempt->state = RIG_DONE;
    check_arrivals(attempt);
    /* a rank that knows of the abort already may have sent filler (F19) */
    const struct rig_decision *decision = &world->decisions[attempt->op][attempt->use];
    if (keeps_packed(attempt) && rig_plant(world, RIG_PLANT_exact_own))
        memcpy(attempt->got + attempt->place.own, original_of(attempt), attempt->place.input_bytes);
    const bool has_parts =
        attempt->place.in_parts && attempt->place.result_bytes >= 2 * attempt->place.part && attempt->place.part > 0;
    if (has_parts && rig_plant(world, RIG_PLANT_lost_own))
        attempt->got[attempt->place.own] ^= 1;
    if (has_parts && rig_starts(&attempt->place) == NULL && rig_plant(world, RIG_PLANT_swapped))
        swap_parts(attempt);
    if (decision->aborted_by == 0)
        check_result(attempt, "when done");
    if (rig_plant(world, RIG_PLANT_overrun)) {
        struct rig_buffer *buffer = attempt->in_place ? &attempt->input : &attempt->result;
        buffer->data[buffer->data_bytes] ^= 1;
    }
    report(attempt, RIG_MAIL_DONE, PCCL_CLASS_NONE);
    if (rig_plant(world, RIG_PLANT_double_done))
        on_done(context, transfer);
}

static void on_at_rest(void *context, struct pccl_transfer *transfer)
{
    struct rig_attempt *attempt = pccl_transfer_user(transfer);
    struct rig_rank *rank = context;
    if (attempt->at_rest || attempt->state != RIG_DONE)
        rig_violation(rank->world, "rank %u: operation %u use %u is at rest twice, or not done", attempt->rank,
                      attempt->op, attempt->use);
    attempt->at_rest = true;
}

static void on_failed(void *context, struct pccl_transfer *transfer, enum pccl_class class,
                      const struct pccl_text *reason)
{
    struct rig_attempt *attempt = pccl_transfer_user(transfer);
    struct rig_rank *rank = context;
    struct rig_world *world = rank->world;
    rig_trace(world, "rank %u: operation %u use %u fails: %s", attempt->rank, attempt->op, attempt->use, reason->bytes);
    /*
     * It fails although it was done: its sent or unsent data may be lost with a connection; and a rank that has its own
     * share may lack the memory to pass others on.
     */
    const bool relays = rig_passes_on(&world->spec->ops[attempt->op]);
    const bool after_done = attempt->state == RIG_DONE && !attempt->lost &&
                            (class == PCCL_CLASS_PEER_LOST || (relays && class == PCCL_CLASS_INTERNAL));
    if (attempt->state != RIG_RUNNING && !after_done) {
        rig_violation(world, "rank %u: operation %u use %u fails twice, or after it was done", attempt->rank,
                      attempt->op, attempt->use);
        return;
    }
    if (after_done)
        attempt->lost = true;
    else
        attempt->state = RIG_FAILED;
    const bool has_cause = class == PCCL_CLASS_PEER_LOST  ? attempt->links_lost > 0
                           : class == PCCL_CLASS_MISMATCH ? is_mismatched(attempt)
                                                          : rank->memory.failures > 0;
    if (!has_cause || reason->length == 0)
        rig_violation(world, "rank %u: operation %u use %u fails without a cause: %s", attempt->rank, attempt->op,
                      attempt->use, reason->bytes);
    if (!rig_plant(world, RIG_PLANT_quiet_failure))
        report(attempt, RIG_MAIL_FAILED, class);
}

static void on_announced(void *context, const struct pccl_id *from, const struct pccl_msg_ready *ready)
{
    struct rig_rank *rank = context;
    const struct rig_spec *spec = rank->world->spec;
    const uint32_t op = (uint32_t)ready->instance.tag, use = ready->instance.use;
    uint32_t peer = 0;
    while (peer < spec->ranks && !pccl_id_equal(&spec->ids[peer], from))
        peer++;
    if (peer == spec->ranks || op >= spec->op_count || use >= RIG_USES_MAX) {
        rig_violation(rank->world, "rank %u hears of an operation that nobody has", rank->number);
        return;
    }
    const struct rig_attempt *running = rank->running[op];
    if ((rank->announced[op][peer] >> use & 1) != 0 || (running != NULL && running->use == use && !running->refused))
        rig_violation(rank->world, "rank %u hears twice of operation %u use %u, or has started it", rank->number, op,
                      use);
    rank->announced[op][peer] |= UINT64_C(1) << use;
}

static void on_writable(void *context, void *user)
{
    struct rig_rank *rank = context;
    if (rig_plant(rank->world, RIG_PLANT_lost_wake))
        return;
    *(bool *)user = true;
    const size_t place = (size_t)((bool *)user - &rank->writable[0][0]);
    const uint32_t peer = (uint32_t)(place / 2), outgoing = place % 2;
    rig_touch(rank->world, outgoing ? rank->number : peer, outgoing ? peer : rank->number);
}

static void on_rests(void *context) { ((struct rig_rank *)context)->rests = true; }

bool rig_rank_init(struct rig_world *world, uint32_t number)
{
    struct rig_rank *rank = &world->ranks[number];
    const struct rig_spec *spec = world->spec;
    memset(rank, 0, offsetof(struct rig_rank, to_master));
    rank->to_master.count = rank->from_master.count = 0;
    memset(rank->writable, 0, sizeof *rank - offsetof(struct rig_rank, writable));
    rank->world = world;
    rank->number = number;
    rank->view_number = world->view_number;
    rank->view = world->view;
    test_memory_init(&rank->memory);
    const struct pccl_exchange_config config = {.self = spec->ids[number],
                                                .kernels = pccl_kernels_for(0),
                                                .scratch_bytes_max = spec->scratch_bytes,
                                                .window_bytes = spec->window_bytes,
                                                .kept_bytes_most = number % 2 == 0 ? 0 : SIZE_MAX};
    const struct pccl_exchange_effects effects = {.context = rank,
                                                  .done = on_done,
                                                  .at_rest = on_at_rest,
                                                  .failed = on_failed,
                                                  .announced = on_announced,
                                                  .writable = on_writable,
                                                  .arrived = on_arrived,
                                                  .rests = on_rests};
    rank->exchange = pccl_exchange_create(&config, &rank->memory.memory, &effects);
    return rank->exchange != NULL;
}

/* ---- start and stop ---- */

static bool is_alone(uint32_t view) { return (view & (view - 1)) == 0; }

bool rig_rank_finished(const struct rig_rank *rank)
{
    for (uint32_t op = 0; op < rank->world->spec->op_count; op++)
        if (rank->running[op] != NULL || (rank->rounds[op] < rank->world->spec->rounds && !is_alone(rank->view)))
            return false;
    return true;
}

bool rig_may_start(const struct rig_rank *rank, uint32_t op)
{
    return rank->running[op] == NULL && rank->rounds[op] < rank->world->spec->rounds && !is_alone(rank->view);
}

/* In place both are in one buffer, the shorter one within the longer. */
static void make_buffers(struct rig_attempt *attempt, uint32_t shift)
{
    const struct rig_place *place = &attempt->place;
    const bool gathers = place->result_bytes > place->input_bytes;
    const size_t bytes = attempt->in_place && gathers ? place->result_bytes : place->input_bytes;
    PCCL_ASSERT(buffer_make(&attempt->input, bytes, shift));
    PCCL_ASSERT(attempt->in_place || buffer_make(&attempt->result, place->result_bytes, (shift * 3) % 7));
    attempt->given = attempt->input.data + (attempt->in_place && gathers ? place->own : 0);
    attempt->got = attempt->in_place ? attempt->input.data + (gathers ? 0 : place->own) : attempt->result.data;
    struct rig_tensor tensors[RIG_TENSORS_MAX];
    const uint32_t count = lay_out(attempt, tensors);
    const uint8_t *original = original_of(attempt);
    if (count == 0)
        memcpy(attempt->given, original, place->input_bytes);
    for (uint32_t i = 0; i < count; i++) {
        const size_t length = (size_t)tensors[i].count * pccl_datatype_bytes(tensors[i].datatype);
        memcpy(attempt->given + offset_of(attempt, &tensors[i]), original, length);
        original += length;
    }
}

static struct rig_attempt *attempt_make(struct rig_rank *rank, uint32_t op)
{
    struct rig_world *world = rank->world;
    struct rig_attempt *attempt = calloc(1, sizeof *attempt);
    PCCL_ASSERT(attempt != NULL);
    *attempt = (struct rig_attempt){.world = world,
                                    .rank = rank->number,
                                    .op = op,
                                    .round = rank->rounds[op],
                                    .use = rank->use[op],
                                    .view_number = rank->view_number,
                                    .view = rank->view,
                                    .in_place = (world->spec->ops[op].in_place >> rank->number & 1) != 0,
                                    .next = world->attempts};
    const struct rig_op *asked = &world->spec->ops[op];
    attempt->odd = attempt->use == 0 && asked->odd_rank == rank->number;
    world->attempts = attempt;
    const bool is_elsewhere = attempt->odd && !asked->odd_in_length;
    attempt->place = (is_elsewhere ? rig_odd_place_of : rig_place_of)(world->spec, op, attempt->view, rank->number);
    if (attempt->place.input_bytes == 0 || !attempt->place.gets || asked->descriptor.collective == PCCL_ALL_TO_ALL ||
        asked->descriptor.collective == PCCL_ALL_TO_ALL_V || asked->descriptor.collective == PCCL_SCATTER_V)
        attempt->in_place = false;
    if (attempt->odd && asked->odd_in_length && attempt->place.in_parts && !asked->given)
        attempt->in_place = false; /* its own part is in another place for it */
    make_buffers(attempt, (op + rank->number) % 9);
    return attempt;
}

/* Makes the request of an odd rank. */
static void make_odd(struct rig_attempt *attempt)
{
    const struct pccl_transfer_config *config = &attempt->config;
    struct pccl_descriptor *descriptor = &attempt->config.descriptor;
    if (attempt->world->spec->ops[attempt->op].given)
        descriptor->counts.bytes[1]++;
    else if (attempt->world->spec->ops[attempt->op].odd_in_length)
        descriptor->count--;
    else if (config->buffers.sections != NULL)
        descriptor->counts.bytes[1]++;
    else if (descriptor->codec >= PCCL_PACKING_SCALED)
        descriptor->codec_block *= 2;
    else if (pccl_collective_has_root(descriptor->collective))
        return; /* its place has another root */
    else if (!pccl_collective_reduces(descriptor->collective))
        descriptor->label.head.bytes[0]++;
    else if (descriptor->operation != PCCL_SUM)
        descriptor->operation = PCCL_SUM;
    else if (pccl_collective(descriptor->collective)->scan != PCCL_NO_SCAN)
        descriptor->operation = PCCL_PROD;
    else
        descriptor->operation = descriptor->datatype == PCCL_BOOL ? PCCL_XOR : PCCL_AVG;
}

static void plant_in(struct rig_attempt *attempt)
{
    struct pccl_transfer_config *config = &attempt->config;
    const struct rig_place *place = &attempt->place;
    if (config->descriptor.operation == PCCL_PREMUL_SUM && rig_plant(attempt->world, RIG_PLANT_unscaled))
        config->factor = 1;
    if (config->descriptor.collective == PCCL_BROADCAST && rig_plant(attempt->world, RIG_PLANT_wrong_root))
        config->root = pccl_seat_next(place->seat, config->root);
    if (place->in_parts && rig_starts(place) == NULL && rig_plant(attempt->world, RIG_PLANT_exchanged)) {
        attempt->positions[0] = place->positions[1];
        attempt->positions[1] = place->positions[0];
    }
}

/* Lists each part for another rank separately. A rank without parts has an empty list. */
static void list_inputs(struct rig_attempt *attempt)
{
    const struct rig_place *place = &attempt->place;
    const bool exchanges = place->descriptor.collective == PCCL_ALL_TO_ALL_V;
    const size_t element = pccl_datatype_bytes((enum pccl_datatype)place->descriptor.datatype);
    const uint32_t ranks = place->seat.ranks, first = exchanges ? place->positions[place->seat.rank] * ranks : 0;
    if (!place->gives || (!exchanges && place->descriptor.collective != PCCL_SCATTER_V))
        return;
    for (uint32_t i = 0; i < ranks; i++) {
        const size_t at = (size_t)(place->starts[first + i] - place->starts[first]) * element;
        attempt->inputs[i] = (struct pccl_extent){at, attempt->given + at};
    }
    const uint64_t *starts = place->starts + first;
    const bool may_swap = starts[1] - starts[0] > 4 && starts[1] - starts[0] <= starts[2] - starts[1];
    if (may_swap && rig_plant(attempt->world, RIG_PLANT_misdirected))
        attempt->inputs[0].memory = attempt->inputs[1].memory;
    attempt->config.buffers.input.list = attempt->inputs;
    attempt->config.buffers.input.count = ranks;
}

/* Lists several tensors. Those with the same reduction are one section. */
static void list_tensors(struct rig_attempt *attempt)
{
    struct pccl_buffers *buffers = &attempt->config.buffers;
    struct rig_tensor tensors[RIG_TENSORS_MAX];
    const uint32_t count = lay_out(attempt, tensors);
    size_t from = 0;
    _Static_assert(RIG_TENSORS_MAX <= RIG_RANKS_MAX, "the extents of the input have room");
    if (count == 0)
        return;
    buffers->input = (struct pccl_extents){NULL, attempt->inputs, count};
    buffers->result = (struct pccl_extents){NULL, attempt->results, count};
    buffers->sections = attempt->sections;
    for (uint32_t i = 0; i < count; i++) {
        attempt->inputs[i] = (struct pccl_extent){from, (uint8_t *)(uintptr_t)tensors[i].input};
        attempt->results[i] = (struct pccl_extent){from, tensors[i].result};
        from += (size_t)tensors[i].count * pccl_datatype_bytes(tensors[i].datatype);
        if (i == 0 || tensors[i].reduction != tensors[i - 1].reduction)
            attempt->sections[buffers->section_count++] =
                (struct pccl_section){(uint8_t)tensors[i].datatype, (uint8_t)tensors[i].reduction, 0};
        attempt->sections[buffers->section_count - 1].count += tensors[i].count;
    }
    attempt->config.descriptor.datatype = PCCL_U8; /* types and reductions are in the sections */
    attempt->config.descriptor.operation = PCCL_SUM;
    attempt->config.descriptor.counts.bytes[0] = 1;
}

static void make_config(struct rig_attempt *attempt)
{
    const struct rig_spec *spec = attempt->world->spec;
    const struct rig_place *place = &attempt->place;
    struct pccl_transfer_config *config = &attempt->config;
    *config = (struct pccl_transfer_config){
        .instance = {.tag = attempt->op, .use = attempt->use},
        .view = {.inc = 1, .number = attempt->view_number},
        .descriptor = place->descriptor,
        .cost = rig_cost(spec, attempt->op),
        .ring = attempt->ring,
        .ranks = place->seat.ranks,
        .root = place->seat.root,
        .positions = attempt->positions,
        .starts = rig_starts(place) != NULL ? attempt->starts : NULL,
        .buffers = {pccl_extents_of(attempt->given), pccl_extents_of(attempt->got), NULL, 0},
        .tells_arrivals = tells_arrivals(attempt),
        .factor = rig_factor(attempt->rank),
        .user = attempt,
    };
    list_inputs(attempt);
    list_tensors(attempt);
    for (uint32_t i = 0; i < config->ranks; i++)
        attempt->ring[i] = spec->ids[place->ring[i]];
    memcpy(attempt->positions, place->positions, sizeof place->positions);
    memcpy(attempt->starts, place->starts, sizeof place->starts);
    if (attempt->odd)
        make_odd(attempt);
    if (pccl_collective_has_root(config->descriptor.collective))
        config->descriptor.root = attempt->ring[config->root];
    plant_in(attempt);
}

/* Launches the next attempt, which ends at once if its outcome is known already (PROTOCOL 5.1). */
void rig_start(struct rig_rank *rank, uint32_t op)
{
    struct rig_world *world = rank->world;
    const struct rig_spec *spec = world->spec;
    if (rank->use[op] >= RIG_USES_MAX || rank->use[op] > rank->rounds[op] + world->disturbances) {
        rig_violation(world, "rank %u: operation %u fails again and again", rank->number, op);
        return;
    }
    if ((rank->tombstones[op] >> rank->use[op] & 1) != 0) {
        rank->use[op]++;
        return;
    }
    struct rig_attempt *attempt = attempt_make(rank, op);
    make_config(attempt);
    rig_plan_for(spec, &spec->ops[op]);
    if (rig_plant(world, RIG_PLANT_other_cut))
        rig_cut_otherwise();
    rig_trace(world, "rank %u starts operation %u use %u in view %u", rank->number, op, attempt->use,
              attempt->view_number);
    rank->running[op] = attempt;
    struct pccl_text reason = {0};
    const size_t held = pccl_exchange_early_bytes(rank->exchange);
    const enum pccl_status status = pccl_exchange_start(rank->exchange, &attempt->config, &attempt->transfer, &reason);
    world->totals->used += pccl_exchange_early_bytes(rank->exchange) < held;
    world->totals->odd_held += pccl_exchange_early_bytes(rank->exchange) < held && is_mismatched(attempt);
    if (status == PCCL_OK)
        return;
    attempt->transfer = NULL;
    attempt->state = RIG_FAILED;
    attempt->refused = true;
    if (status != PCCL_MEMORY || rank->memory.failures == 0)
        rig_violation(world, "rank %u cannot start operation %u: %s", rank->number, op, reason.bytes);
    report(attempt, RIG_MAIL_FAILED, PCCL_CLASS_INTERNAL);
}

static void check_stopped(struct rig_attempt *attempt, bool committed)
{
    struct rig_world *world = attempt->world;
    const struct rig_rank *rank = &world->ranks[attempt->rank];
    if (committed)
        check_result(attempt, "after the commit");
    else
        check_input(attempt, false, "after the abort");
    if (rig_points_into(world, attempt->rank, attempt->input.block, attempt->input.block_bytes) ||
        (!attempt->in_place &&
         rig_points_into(world, attempt->rank, attempt->result.block, attempt->result.block_bytes)))
        rig_violation(world, "rank %u: operation %u use %u is stopped, and its memory is in use", attempt->rank,
                      attempt->op, attempt->use);
    bool idle = true;
    for (uint32_t op = 0; op < world->spec->op_count; op++)
        idle = idle && rank->running[op] == NULL;
    size_t peak;
    if (idle && pccl_exchange_scratch_bytes(rank->exchange, &peak) != pccl_exchange_early_bytes(rank->exchange))
        rig_violation(world, "rank %u holds scratch, and no operation runs", attempt->rank);
}

static void point_into(struct rig_world *world, const struct rig_attempt *attempt)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        for (uint32_t side = 0; side < 2; side++) {
            struct rig_connection *connection = &world->connections[i];
            if ((side == 0 ? connection->from : connection->to) == attempt->rank && connection->ends[side].sending &&
                connection->ends[side].departure.length > 0 && rig_plant(world, RIG_PLANT_stale_pointer))
                connection->ends[side].departure.payload = attempt->input.data;
        }
}

/*
 * Cuts streams as the engine does: a half-sent segment must not be completed, because its receiver may not know that it
 * was removed.
 */
static void cut_senders(struct rig_world *world, const struct rig_rank *rank, const struct pccl_transfer *transfer)
{
    for (uint32_t i = 0; i < world->connection_count; i++)
        for (uint32_t side = 0; side < 2; side++) {
            struct rig_connection *connection = &world->connections[i];
            const struct rig_end *end = &connection->ends[side];
            if (rig_end_rank(world, connection, side) == rank && end->sending && end->departure.transfer == transfer)
                rig_close_end(world, connection, side);
        }
}

void rig_stop(struct rig_attempt *attempt, bool committed)
{
    struct rig_world *world = attempt->world;
    struct rig_rank *rank = &world->ranks[attempt->rank];
    rig_trace(world, "rank %u: operation %u use %u is %s", rank->number, attempt->op, attempt->use,
              committed ? "committed" : "aborted");
    if (committed && attempt->state != RIG_DONE)
        rig_violation(world, "rank %u: operation %u is committed and was not done", rank->number, attempt->op);
    if (committed && attempt->view == world->view && !attempt->at_rest && !attempt->lost)
        rig_violation(world, "rank %u: all are done with operation %u, and it is not at rest", rank->number,
                      attempt->op);
    if (committed && attempt->transfer != NULL)
        cut_senders(world, rank, attempt->transfer);
    if (attempt->transfer != NULL)
        pccl_exchange_stop(rank->exchange, attempt->transfer, committed);
    attempt->transfer = NULL;
    attempt->state = RIG_STOPPED;
    rank->running[attempt->op] = NULL;
    if (!committed && attempt->in_place && attempt->place.gives && rig_plant(world, RIG_PLANT_unrestored))
        attempt->given[attempt->place.input_bytes / 2] ^= 1;
    if (!committed && attempt->in_place && keeps_packed(attempt) && rig_plant(world, RIG_PLANT_packed_input))
        memcpy(attempt->given,
               rig_reference(world->spec, attempt->op, attempt->round, attempt->use, attempt->view, attempt->rank) +
                   attempt->place.own,
               attempt->place.input_bytes);
    point_into(world, attempt);
    check_stopped(attempt, committed);
    buffer_return(&attempt->input);
    buffer_return(&attempt->result);
    if (committed)
        world->totals->commits++;
    else
        world->totals->aborts++;
}

/* Checks that nothing points to memory that the library has declared unneeded, even before the outcome. */
void rig_check_state(struct rig_rank *rank)
{
    const char *broken = pccl_exchange_check(rank->exchange);
    if (broken != NULL)
        rig_violation(rank->world, "state of rank %u, not so: %s", rank->number, broken);
}

void rig_check_at_rest(struct rig_rank *rank)
{
    for (uint32_t op = 0; op < rank->world->spec->op_count; op++) {
        struct rig_attempt *attempt = rank->running[op];
        if (attempt == NULL || !attempt->at_rest)
            continue;
        const struct rig_buffer *buffers[] = {&attempt->input, &attempt->result};
        for (uint32_t i = 0; i < 2; i++)
            if (buffers[i]->block != NULL &&
                rig_points_into(rank->world, rank->number, buffers[i]->block, buffers[i]->block_bytes))
                rig_violation(rank->world, "rank %u: operation %u is at rest, and its memory is in use", rank->number,
                              op);
    }
}

/* ---- the master's messages ---- */

/*
 * Checks that all members of the view in which an outcome is decided learn the same one. Dead ranks do not count: they
 * may have given the operation up with an earlier view.
 */
static void note_outcome(const struct rig_rank *rank, uint32_t op, uint32_t use, bool committed)
{
    struct rig_decision *decision = &rank->world->decisions[op][use];
    *(committed ? &decision->committed_by : &decision->aborted_by) |= UINT32_C(1) << rank->number;
    if (decision->committed_by != 0 && (decision->aborted_by & decision->view) != 0)
        rig_violation(rank->world, "operation %u use %u is committed for one and aborted for another", op, use);
}

static void take_outcome(struct rig_rank *rank, const struct rig_mail *mail)
{
    struct rig_attempt *attempt = rank->running[mail->op];
    note_outcome(rank, mail->op, mail->use, mail->committed);
    if (attempt != NULL && attempt->use == mail->use) {
        rig_stop(attempt, mail->committed);
        rank->use[mail->op]++;
        rank->rounds[mail->op] += mail->committed;
    } else if (mail->committed) {
        rig_violation(rank->world, "rank %u is told a commit of operation %u use %u, which it does not run",
                      rank->number, mail->op, mail->use);
    } else if (mail->use >= rank->use[mail->op]) {
        rank->tombstones[mail->op] |= UINT64_C(1) << mail->use;
    }
}

static void take_view(struct rig_rank *rank, const struct rig_mail *mail)
{
    rank->view_number = mail->view_number;
    rank->view = mail->view;
    for (uint32_t op = 0; op < rank->world->spec->op_count; op++) {
        struct rig_attempt *attempt = rank->running[op];
        if (attempt == NULL)
            continue;
        note_outcome(rank, op, attempt->use, false);
        report(attempt, RIG_MAIL_KILLED, PCCL_CLASS_PEER_LOST);
        rig_stop(attempt, false);
        rank->use[op]++;
    }
}

void rig_take_order(struct rig_rank *rank)
{
    const struct rig_mail mail = rig_fetch(&rank->from_master);
    if (mail.kind == RIG_MAIL_VIEW)
        take_view(rank, &mail);
    else
        take_outcome(rank, &mail);
}

/* ---- the end ---- */

static void stop_all(struct rig_rank *rank)
{
    for (uint32_t op = 0; op < rank->world->spec->op_count; op++)
        if (rank->running[op] != NULL)
            rig_stop(rank->running[op], false);
}

void rig_rank_fini(struct rig_rank *rank)
{
    struct rig_world *world = rank->world;
    rank->memory.fail_at = 0;
    const bool stop_first = pccl_prng_below(&world->prng, 2) == 0;
    if (stop_first)
        stop_all(rank);
    for (uint32_t i = 0; i < world->connection_count; i++)
        for (uint32_t side = 0; side < 2; side++)
            if (rig_end_rank(world, &world->connections[i], side) == rank && world->connections[i].ends[side].open)
                rig_close_end(world, &world->connections[i], side);
    stop_all(rank);
    if (rig_plant(world, RIG_PLANT_leak) && pccl_allocate(&rank->memory.memory, 1) == NULL)
        rig_violation(world, "no memory");
    pccl_exchange_destroy(rank->exchange);
    rank->exchange = NULL;
    if (rank->memory.live_blocks != 0)
        rig_violation(world, "rank %u leaks %zu blocks", rank->number, rank->memory.live_blocks);
}

void rig_release_attempts(struct rig_world *world)
{
    while (world->attempts != NULL) {
        struct rig_attempt *attempt = world->attempts;
        world->attempts = attempt->next;
        buffer_release(world, &attempt->input, attempt->state == RIG_STOPPED);
        buffer_release(world, &attempt->result, attempt->state == RIG_STOPPED);
        free(attempt);
    }
}
