/* Folds (reduces), packs and unpacks elements, and writes results. Data is in scratch and in the caller's memory. */
#include "collective/fold.h"

#include "kernels/prefetch.h"

#include <string.h>

enum {
    FOLD_BYTES = 4096, /* block of a fold whose output is also copied, small enough for the first-level cache */
    WORK_BYTES = PCCL_PACKING_BLOCK * sizeof(double),
};

static uint32_t at_most(uint32_t most, uint32_t count) { return count < most ? count : most; }

/* ---- the caller's memory ---- */

static size_t bytes_of(const struct pccl_piece *piece)
{
    return (size_t)piece->segment.count * piece->plan->element_bytes;
}

/*
 * Returns `count` elements of a segment's input, from element `first` on. The pointer may refer to a copy and is valid
 * until the next call.
 */
static const uint8_t *input_part(const struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t first,
                                 uint32_t count)
{
    const struct pccl_extents *input = &transfer->config->buffers.input;
    const size_t element = piece->plan->element_bytes, bytes = count * element;
    const size_t at = pccl_plan_input_at(piece->plan, &piece->segment) + first * element;
    if (pccl_extents_together(input, at, bytes) == bytes)
        return pccl_extents_at(input, at);
    PCCL_ASSERT(bytes <= transfer->room_bytes);
    pccl_extents_read(input, at, bytes, transfer->input_room, NULL);
    return transfer->input_room;
}

static const uint8_t *input_of(const struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    return input_part(transfer, piece, 0, piece->segment.count);
}

/* Returns true if the result of the segment is in one extent. Other segments are received and sent in scratch. */
static bool is_whole(const struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    const struct pccl_extents *result = &transfer->config->buffers.result;
    return result->list == NULL || pccl_extents_together(result, pccl_plan_result_at(piece->plan, &piece->segment),
                                                         bytes_of(piece)) == bytes_of(piece);
}

/* Returns the address to which a segment's result must be written before result_written. */
static uint8_t *result_of(const struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    if (!is_whole(transfer, piece))
        return transfer->result_room;
    return pccl_extents_at(&transfer->config->buffers.result, pccl_plan_result_at(piece->plan, &piece->segment));
}

static bool is_scaled(const struct pccl_transfer *transfer, const struct pccl_plan *plan)
{
    return transfer->scales && plan->reduction == PCCL_PREMUL_SUM;
}

/*
 * Returns this rank's contribution: its elements or, for a premultiplied sum, their products with the factor, written
 * to `room`, which must have the same size.
 */
static const uint8_t *contribution_of(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                      const uint8_t *elements, size_t count, uint8_t *room)
{
    if (!is_scaled(transfer, plan))
        return elements;
    pccl_scale(transfer->exchange->config.kernels, plan->datatype, room, elements, count, transfer->config->factor);
    return room;
}

/* Saves a segment of the result before it is overwritten, because in place it still contains the input. */
static void save(struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    if (transfer->backup.block != NULL)
        pccl_backup_save(&transfer->backup, transfer->exchange->config.kernels, piece->plan, piece->stripe,
                         piece->number);
}

/*
 * Returns true if writes of the result bypass the caches: it is large and not needed soon. An in-place result is
 * already in the caches, because it was the input.
 */
static bool is_streamed(const struct pccl_transfer *transfer) { return transfer->plan.large && !transfer->in_place; }

uint8_t *pccl_fold_place(struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    if (pccl_packing_packs(&piece->plan->packing) || !is_whole(transfer, piece))
        return NULL;
    save(transfer, piece);
    return result_of(transfer, piece);
}

const uint8_t *pccl_fold_input(const struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    const bool is_made =
        pccl_packing_packs(&piece->plan->packing) || transfer->scales || piece->plan->scan != PCCL_NO_SCAN;
    return is_made || !is_whole(transfer, piece) ? NULL : input_of(transfer, piece);
}

/* ---- elements ---- */

/* Returns the kernel call that folds this rank's part and the data received in this step. */
static struct pccl_step work_of(const struct pccl_plan *plan, uint32_t step, bool finish)
{
    return (struct pccl_step){.datatype = plan->datatype,
                              .from = step > 0 ? plan->folded_datatype : plan->datatype,
                              .to = finish ? plan->datatype : plan->folded_datatype,
                              .reduction = plan->reduction,
                              .ranks = finish ? plan->seat.ranks : 0};
}

/*
 * Returns the number of elements per kernel call. Elements that are scaled or in several extents are processed in
 * blocks.
 */
static uint32_t elements_at_once(const struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    const bool in_blocks = transfer->scales || !is_whole(transfer, piece);
    return in_blocks ? FOLD_BYTES / piece->plan->element_bytes : piece->segment.count;
}

/* Adds the received elements and this rank's elements to a sum, whose elements may be wider. */
static void widen(const struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *received,
                  uint8_t *sum)
{
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    const struct pccl_step work = work_of(piece->plan, 0, false);
    const uint32_t most = elements_at_once(transfer, piece);
    for (uint32_t first = 0, count = 0; first < piece->segment.count; first += count) {
        const size_t at = (size_t)first * piece->plan->element_bytes;
        count = at_most(most, piece->segment.count - first);
        const uint8_t *own = input_part(transfer, piece, first, count);
        pccl_combine_step(transfer->exchange->config.kernels, &work, sum + first * pccl_datatype_bytes(work.to),
                          received + at, contribution_of(transfer, piece->plan, own, count, room), count);
    }
}

/*
 * Folds the first part, which was received as elements, and this rank's part into a sum of wider elements (f32 for
 * narrow floats). Takes ownership of the scratch. Returns NULL if out of memory.
 */
static struct pccl_scratch *widen_first(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                        struct pccl_scratch *received)
{
    struct pccl_scratch_pool *pool = &transfer->exchange->scratch;
    struct pccl_scratch *wide = pccl_scratch_take(pool, pccl_plan_bytes(piece->plan, 1, piece->segment.count));
    if (wide != NULL)
        widen(transfer, piece, received->bytes, wide->bytes);
    pccl_scratch_give(pool, received);
    return wide;
}

/* Writes elements, beginning with element `first` of the segment, to the result. A large copy bypasses the caches. */
static void write_result(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t first, uint32_t count,
                         const uint8_t *from)
{
    const size_t element = piece->plan->element_bytes;
    const size_t at = pccl_plan_result_at(piece->plan, &piece->segment) + first * element;
    pccl_extents_write(&transfer->config->buffers.result, at, count * element, from,
                       is_streamed(transfer) ? transfer->exchange->config.kernels : NULL);
}

static void copy_to_result(struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *from)
{
    write_result(transfer, piece, 0, piece->segment.count, from);
}

static void result_written(struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    if (!is_whole(transfer, piece))
        pccl_extents_write(&transfer->config->buffers.result, pccl_plan_result_at(piece->plan, &piece->segment),
                           bytes_of(piece), transfer->result_room, NULL);
}

/*
 * Folds this rank's part into `received`. A finished sum is also written to the result, or only to the result if it is
 * not sent on.
 */
static void fold_elements(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step, bool finish,
                          struct pccl_scratch *received)
{
    const struct pccl_plan *plan = piece->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    uint8_t *result = result_of(transfer, piece);
    const bool whole = is_whole(transfer, piece);
    const bool streams = is_streamed(transfer);
    const bool away = finish && streams && whole; /* copied to the result while it is in the cache */
    uint8_t *sum = finish && !away && whole ? result : received->bytes;
    struct pccl_step work = work_of(plan, step, finish);
    const size_t from_bytes = pccl_datatype_bytes(work.from), to_bytes = pccl_datatype_bytes(work.to);
    const uint32_t most = elements_at_once(transfer, piece);
    if (finish)
        save(transfer, piece);
    for (uint32_t first = 0, count = 0; first < piece->segment.count; first += count) {
        const size_t at = (size_t)first * plan->element_bytes;
        count = at_most(most, piece->segment.count - first);
        const uint8_t *own = input_part(transfer, piece, first, count);
        if (transfer->scales && whole && first + count < piece->segment.count)
            pccl_prefetch(own + (size_t)count * plan->element_bytes, FOLD_BYTES);
        work.copy = away ? result + at : NULL;
        pccl_combine_step(kernels, &work, sum + first * to_bytes, received->bytes + first * from_bytes,
                          contribution_of(transfer, plan, own, count, room), count);
        if (finish && !whole && !streams)
            write_result(transfer, piece, first, count, sum + at);
    }
    if (away)
        pccl_copied_streaming(kernels);
    if (finish && !whole && streams) /* in one copy, because waiting for memory after each block costs more */
        copy_to_result(transfer, piece, sum);
}

/* ---- scans ---- */

/* Converts elements to the type of sums, or rounds sums to elements. Multiplies by 1, so only the type changes. */
static void convert(const struct pccl_transfer *transfer, const struct pccl_plan *plan, bool widens, const void *from,
                    size_t count, void *to)
{
    _Alignas(PCCL_CACHE_LINE) uint8_t ones[FOLD_BYTES];
    const struct pccl_step step = {.datatype = plan->datatype,
                                   .from = widens ? plan->datatype : plan->folded_datatype,
                                   .to = widens ? plan->folded_datatype : plan->datatype,
                                   .reduction = PCCL_PROD};
    PCCL_ASSERT(count * plan->element_bytes <= sizeof ones);
    pccl_fill_identity(plan->datatype, PCCL_PROD, count, ones);
    pccl_combine_step(transfer->exchange->config.kernels, &step, to, from, ones, count);
}

/* Converts a sum to a result: rounds it, makes NaNs canonical, and makes bools 0 or 1. */
static void finish_sum(const struct pccl_transfer *transfer, const struct pccl_plan *plan, const void *sum,
                       size_t count, uint8_t *result)
{
    if (plan->folded_datatype != plan->datatype)
        convert(transfer, plan, false, sum, count, result);
    else
        pccl_combine_all(transfer->exchange->config.kernels, plan->datatype, plan->reduction, &sum, 1, count, result);
}

/*
 * Folds this rank's part into the sum of the earlier ranks; the first rank starts the sum. An exclusive scan writes the
 * sum before this step to the result, an inclusive one the sum after it. In place, this overwrites this rank's part.
 */
static void scan(struct pccl_transfer *transfer, const struct pccl_piece *piece, bool is_first, uint8_t *sum)
{
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    const struct pccl_plan *plan = piece->plan;
    const size_t sum_bytes = pccl_datatype_bytes(plan->folded_datatype);
    const struct pccl_step step = {
        plan->datatype, plan->folded_datatype, plan->folded_datatype, plan->reduction, 0, NULL};
    uint8_t *result = result_of(transfer, piece);
    save(transfer, piece);
    for (uint32_t first = 0, count = 0; first < piece->segment.count;
         first += count, sum += count * sum_bytes, result += count * plan->element_bytes) {
        count = at_most(FOLD_BYTES / plan->element_bytes, piece->segment.count - first);
        const uint8_t *own = contribution_of(transfer, plan, input_part(transfer, piece, first, count), count, room);
        if (own == result)
            own = memcpy(room, own, (size_t)count * plan->element_bytes);
        if (plan->scan == PCCL_EXCLUSIVE && is_first)
            pccl_fill_identity(plan->datatype, plan->reduction, count, result);
        else if (plan->scan == PCCL_EXCLUSIVE)
            finish_sum(transfer, plan, sum, count, result);
        if (!is_first)
            pccl_combine_step(transfer->exchange->config.kernels, &step, sum, sum, own, count);
        else if (pccl_plan_is_wide(plan, 0))
            convert(transfer, plan, true, own, count, sum);
        else
            memcpy(sum, own, (size_t)count * plan->element_bytes);
        if (plan->scan == PCCL_INCLUSIVE)
            finish_sum(transfer, plan, sum, count, result);
    }
}

/* ---- with a codec, block by block, so that unpacked elements stay in the first-level cache ---- */

/* Block of a segment: its first element, its number of elements, and its offset in the packed bytes. */
struct block {
    uint32_t first, count;
    size_t at;
};

static bool next_block(const struct pccl_plan *plan, uint32_t segment_count, struct block *block)
{
    block->first += block->count;
    block->at += pccl_packing_bytes(&plan->packing, block->count);
    block->count = at_most(PCCL_PACKING_BLOCK, segment_count - block->first);
    return block->count > 0;
}

static void unpack(struct pccl_transfer *transfer, const struct pccl_plan *plan, const uint8_t *packed, uint32_t count,
                   uint8_t *result)
{
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    if (is_streamed(transfer))
        pccl_packing_decode_streaming(&plan->packing, kernels, packed, count, result);
    else
        pccl_packing_decode(&plan->packing, kernels, packed, count, result);
}

static void unpacked(const struct pccl_transfer *transfer)
{
    if (is_streamed(transfer))
        pccl_copied_streaming(transfer->exchange->config.kernels);
}

static bool feeds_back(const struct pccl_transfer *transfer)
{
    return pccl_feedback_is_kept(&transfer->config->feedback);
}

/* Returns the index of the residual of the block's first element. */
static size_t feedback_at(const struct pccl_piece *piece, const struct block *block)
{
    return (size_t)(piece->plan->elements_before + piece->segment.first - piece->plan->input_from) + block->first;
}

/* Returns this rank's contribution to a block: elements, or floats with feedback. `room` has space for both. */
static const uint8_t *contribution_of_block(const struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                            const struct block *block, uint8_t *room)
{
    uint8_t *scaled = room + WORK_BYTES / 2;
    const uint8_t *elements = input_part(transfer, piece, block->first, block->count);
    elements = contribution_of(transfer, piece->plan, elements, block->count, feeds_back(transfer) ? scaled : room);
    if (!feeds_back(transfer))
        return elements;
    pccl_feedback_add(transfer->exchange->config.kernels, piece->plan->datatype, elements,
                      transfer->config->feedback.kept + feedback_at(piece, block), block->count, (float *)(void *)room);
    return room;
}

/*
 * With feedback, stores the error of packing these floats as the next residual, or zero if they were not packed. The
 * rank that finishes a sum stores the error of the sum.
 */
static void keep_feedback(const struct pccl_transfer *transfer, const struct pccl_piece *piece,
                          const struct block *block, bool finished, const float *meant, const uint8_t *packed)
{
    const struct pccl_plan *plan = piece->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    float *next = transfer->config->feedback.next + feedback_at(piece, block);
    _Alignas(PCCL_CACHE_LINE) uint8_t came[WORK_BYTES];
    const struct pccl_packing *packing = finished ? &plan->packing : &plan->folded_packing;
    const float times = finished && plan->reduction == PCCL_AVG ? (float)plan->seat.ranks : 1;
    if (packed == NULL) {
        memset(next, 0, block->count * sizeof *next);
        return;
    }
    pccl_packing_decode(packing, kernels, packed, block->count, came);
    pccl_feedback_keep(kernels, finished ? plan->datatype : PCCL_F32, meant, came, block->count, times, next);
}

static void pack_own(const struct pccl_transfer *transfer, const struct pccl_piece *piece, uint8_t *packed)
{
    const uint64_t place = pccl_plan_place(piece->plan, piece->stripe, piece->number);
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    const struct pccl_packing *packing = feeds_back(transfer) ? &piece->plan->folded_packing : &piece->plan->packing;
    _Alignas(PCCL_CACHE_LINE) uint8_t room[WORK_BYTES];
    struct block block = {0, 0, 0};
    if (!transfer->scales && !feeds_back(transfer)) {
        pccl_packing_encode(packing, kernels, input_of(transfer, piece), piece->segment.count, place, transfer->seed,
                            packed);
        return;
    }
    while (next_block(piece->plan, piece->segment.count, &block)) {
        const uint8_t *elements = contribution_of_block(transfer, piece, &block, room);
        pccl_packing_encode(packing, kernels, elements, block.count, place + block.first, transfer->seed,
                            packed + block.at);
        if (feeds_back(transfer))
            keep_feedback(transfer, piece, &block, false, (const float *)(const void *)room, packed + block.at);
    }
}

void pccl_fold_unpack(struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *packed)
{
    save(transfer, piece);
    unpack(transfer, piece->plan, packed, piece->segment.count, result_of(transfer, piece));
    unpacked(transfer);
    result_written(transfer, piece);
}

/*
 * Folds all parts, with this rank's part last, and packs the sum to `packed`, which may be one of the parts. The rank
 * that finishes the sum unpacks it to the result. `packed` is NULL if a finished sum is not sent; the result is then
 * the sum itself, without packing.
 */
static void fold_packed(struct pccl_transfer *transfer, const struct pccl_piece *piece, bool finish,
                        uint8_t *const *parts, uint32_t part_count, uint8_t *packed)
{
    const struct pccl_plan *plan = piece->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    _Alignas(PCCL_CACHE_LINE) uint8_t sum[WORK_BYTES], part[WORK_BYTES];
    if (finish)
        save(transfer, piece);
    const uint8_t *own = is_whole(transfer, piece) ? input_of(transfer, piece) : NULL;
    uint8_t *result = result_of(transfer, piece);
    const bool rounds = finish && !(feeds_back(transfer) && packed != NULL); /* feedback needs the unrounded sum */
    const struct pccl_step step = {.datatype = feeds_back(transfer) ? PCCL_F32 : plan->datatype,
                                   .from = plan->folded_datatype,
                                   .to = rounds ? plan->datatype : plan->folded_datatype,
                                   .reduction = plan->reduction,
                                   .ranks = finish ? plan->seat.ranks : 0};
    const uint64_t place = pccl_plan_place(plan, piece->stripe, piece->number);
    struct block block = {0, 0, 0};
    while (next_block(plan, piece->segment.count, &block)) {
        size_t at = (size_t)block.first * plan->element_bytes, bytes = (size_t)block.count * plan->element_bytes;
        size_t packed_bytes = pccl_packing_bytes(&plan->packing, block.count);
        if (block.first + block.count < piece->segment.count) {
            if (own != NULL)
                pccl_prefetch(own + at + bytes, bytes);
            for (uint32_t i = 0; i < part_count; i++)
                pccl_prefetch(parts[i] + block.at + packed_bytes, packed_bytes);
        }
        pccl_packing_decode(&plan->folded_packing, kernels, parts[0] + block.at, block.count, sum);
        for (uint32_t i = 1; i < part_count; i++) {
            pccl_packing_decode(&plan->folded_packing, kernels, parts[i] + block.at, block.count, part);
            pccl_combine(kernels, plan->folded_datatype, plan->reduction, sum, sum, part, block.count);
        }
        pccl_combine_step(kernels, &step, packed != NULL ? sum : result + at, sum,
                          contribution_of_block(transfer, piece, &block, part), block.count);
        if (packed != NULL)
            pccl_packing_encode(rounds ? &plan->packing : &plan->folded_packing, kernels, sum, block.count,
                                place + block.first, transfer->seed, packed + block.at);
        if (finish && packed != NULL)
            unpack(transfer, plan, packed + block.at, block.count, result + at);
        if (feeds_back(transfer))
            keep_feedback(transfer, piece, &block, finish, (const float *)(const void *)sum,
                          packed != NULL ? packed + block.at : NULL);
    }
    unpacked(transfer);
    if (finish)
        result_written(transfer, piece);
}

/* ---- payloads ---- */

struct pccl_scratch *pccl_fold_make(struct pccl_transfer *transfer, const struct pccl_piece *piece)
{
    const struct pccl_plan *plan = piece->plan;
    struct pccl_scratch *own =
        pccl_scratch_take(&transfer->exchange->scratch, pccl_plan_bytes(plan, 0, piece->segment.count));
    if (own == NULL)
        return NULL;
    if (pccl_packing_packs(&plan->packing)) {
        pack_own(transfer, piece, own->bytes);
        return own;
    }
    if (plan->scan != PCCL_NO_SCAN)
        scan(transfer, piece, true, own->bytes);
    else if (is_scaled(transfer, plan))
        contribution_of(transfer, plan, input_of(transfer, piece), piece->segment.count, own->bytes);
    else
        pccl_extents_read(&transfer->config->buffers.input, pccl_plan_input_at(plan, &piece->segment), bytes_of(piece),
                          own->bytes, NULL);
    return own;
}

const uint8_t *pccl_fold_later(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                               struct pccl_scratch **scratch)
{
    if (*scratch == NULL)
        return result_of(transfer, piece);
    if (step == 1 && pccl_plan_is_wide(piece->plan, step) && !pccl_plan_is_wide(piece->plan, 0))
        *scratch = widen_first(transfer, piece, *scratch);
    return *scratch != NULL ? (*scratch)->bytes : NULL;
}

/* ---- received data ---- */

/* Returns the memory for the packed sum, which is the memory of the first part, or NULL if the sum is not sent. */
static uint8_t *packed_at(const struct pccl_task *task, struct pccl_scratch *first)
{
    return task->to_count > 0 ? first->bytes : NULL;
}

static void fold_one(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                     const struct pccl_task *task, struct pccl_scratch *received)
{
    bool finish = task->work == PCCL_WORK_FINISH;
    if (step == 0 && pccl_plan_is_wide(piece->plan, 1))
        return; /* folded into other memory when the sum is sent on (pccl_fold_later) */
    if (!pccl_packing_packs(&piece->plan->packing))
        fold_elements(transfer, piece, step, finish, received);
    else
        fold_packed(transfer, piece, finish, &received->bytes, 1, packed_at(task, received));
}

size_t pccl_fold_keep(struct pccl_transfer *transfer, const struct pccl_plan *plan, uint64_t stripe, uint32_t number)
{
    const struct pccl_piece piece = {
        .plan = plan, .stripe = stripe, .number = number, .segment = pccl_plan_segment(plan, stripe, number)};
    if (transfer->in_place)
        return 0;
    copy_to_result(transfer, &piece, input_of(transfer, &piece));
    return bytes_of(&piece);
}

static void store(struct pccl_transfer *transfer, const struct pccl_piece *piece, const struct pccl_scratch *scratch)
{
    if (pccl_packing_packs(&piece->plan->packing)) {
        pccl_fold_unpack(transfer, piece, scratch->bytes);
        return;
    }
    save(transfer, piece);
    copy_to_result(transfer, piece, scratch->bytes);
}

struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch)
{
    const struct pccl_plan *plan = piece->plan;
    if (task->work == PCCL_WORK_SCAN)
        scan(transfer, piece, false, scratch->bytes);
    if (task->work == PCCL_WORK_SCAN || task->work == PCCL_WORK_PASS)
        return scratch;
    if (task->work != PCCL_WORK_STORE)
        fold_one(transfer, piece, step, task, scratch);
    else if (scratch != NULL)
        store(transfer, piece, scratch);
    /* A sum is sent on from scratch; so is a result that is packed, still in the cache, or in several extents. */
    if (task->work == PCCL_WORK_FOLD || pccl_packing_packs(&plan->packing) ||
        (task->work == PCCL_WORK_FINISH && is_streamed(transfer)) || !is_whole(transfer, piece))
        return scratch;
    pccl_scratch_give(&transfer->exchange->scratch, scratch);
    return NULL;
}

/*
 * Folds the collected parts and this rank's part. Returns true if the result is only in the caller's memory, false if
 * it is also in the memory of the first part.
 */
static bool fold_all_elements(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                              struct pccl_scratch *const *parts, uint32_t part_count)
{
    const struct pccl_plan *plan = piece->plan;
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    const void *bytes[PCCL_MESH_PEERS_MAX];
    const uint32_t most = elements_at_once(transfer, piece);
    const bool whole = is_whole(transfer, piece);
    const bool streams = is_streamed(transfer);
    uint8_t *result = whole ? result_of(transfer, piece) : parts[0]->bytes;
    save(transfer, piece);
    for (uint32_t first = 0, count = 0; first < piece->segment.count; first += count) {
        const size_t at = (size_t)first * plan->element_bytes;
        count = at_most(most, piece->segment.count - first);
        for (uint32_t i = 0; i < part_count; i++)
            bytes[i] = parts[i]->bytes + at;
        bytes[part_count] = contribution_of(transfer, plan, input_part(transfer, piece, first, count), count, room);
        pccl_combine_all(transfer->exchange->config.kernels, plan->datatype, plan->reduction, bytes, part_count + 1,
                         count, result + at);
        if (!whole && !streams)
            write_result(transfer, piece, first, count, result + at);
    }
    if (!whole && streams)
        copy_to_result(transfer, piece, result);
    return whole;
}

static void fold_all_packed(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                            const struct pccl_task *task, struct pccl_scratch *const *parts, uint32_t part_count)
{
    PCCL_ASSERT(part_count > 0);
    uint8_t *bytes[PCCL_MESH_PEERS_MAX];
    for (uint32_t i = 0; i < part_count; i++)
        bytes[i] = parts[i]->bytes;
    fold_packed(transfer, piece, true, bytes, part_count, packed_at(task, parts[0]));
}

struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count)
{
    bool goes_on = pccl_packing_packs(&piece->plan->packing);
    if (goes_on)
        fold_all_packed(transfer, piece, task, parts, part_count);
    else
        goes_on = !fold_all_elements(transfer, piece, parts, part_count);
    for (uint32_t i = goes_on; i < part_count; i++)
        pccl_scratch_give(&transfer->exchange->scratch, parts[i]);
    return goes_on ? parts[0] : NULL;
}
