/*
 * The work on packed segments, block by block, so that the unpacked elements never leave the first
 * cache.
 */
#include "collective/fold.h"

#include "kernels/prefetch.h"

#include <string.h>

enum { WORK_BYTES = PCCL_PACKING_BLOCK * sizeof(double) };

/*
 * A block of a segment: its elements from `first`, `count` of them, and where its bytes are among
 * the packed ones.
 */
struct block {
    uint32_t first, count;
    size_t at;
};

static bool next_block(const struct pccl_plan *plan, uint32_t segment_count, struct block *block)
{
    block->first += block->count;
    block->at += pccl_packing_bytes(&plan->packing, block->count);
    block->count = (uint32_t)pccl_min_u64(segment_count - block->first, PCCL_PACKING_BLOCK);
    return block->count > 0;
}

static void store(struct pccl_transfer *transfer, const struct pccl_plan *plan, const uint8_t *packed, uint32_t count,
                  uint8_t *result)
{
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    if (pccl_is_streamed(transfer))
        pccl_packing_decode_streaming(&plan->packing, kernels, packed, count, result);
    else
        pccl_packing_decode(&plan->packing, kernels, packed, count, result);
}

static void stored(const struct pccl_transfer *transfer)
{
    if (pccl_is_streamed(transfer))
        pccl_copied_streaming(transfer->exchange->config.kernels);
}

static bool feeds_back(const struct pccl_transfer *transfer) { return pccl_feedback_is_kept(&transfer->feedback); }

/* Where feedback has its floats of a block. */
static size_t feedback_at(const struct pccl_plan *plan, const struct pccl_segment *segment, const struct block *block)
{
    return (size_t)(plan->elements_before + segment->first - plan->input_from) + block->first;
}

/* What this rank contributes of a block: elements, or with feedback floats; room for both is in `room`. */
static const uint8_t *contribution_of(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                      const struct pccl_segment *segment, const struct block *block, uint8_t *room)
{
    uint8_t *scaled = room + WORK_BYTES / 2;
    const uint8_t *elements = pccl_input_part(transfer, plan, segment, block->first, block->count);
    elements = pccl_contribution_of(transfer, plan, elements, block->count, feeds_back(transfer) ? scaled : room);
    if (!feeds_back(transfer))
        return elements;
    pccl_feedback_add(transfer->exchange->config.kernels, plan->datatype, elements,
                      transfer->feedback.kept + feedback_at(plan, segment, block), block->count, (float *)(void *)room);
    return room;
}

/*
 * With feedback: keeps what packing took from these floats, if they were packed. Who finishes a sum
 * keeps what all miss of it.
 */
static void keep(const struct pccl_transfer *transfer, const struct pccl_plan *plan, const struct pccl_segment *segment,
                 const struct block *block, bool finished, const float *meant, const uint8_t *packed)
{
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    float *next = transfer->feedback.next + feedback_at(plan, segment, block);
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

void pccl_packed_own(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                     const struct pccl_segment *segment, uint64_t place, uint8_t *packed)
{
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    const struct pccl_packing *packing = feeds_back(transfer) ? &plan->folded_packing : &plan->packing;
    _Alignas(PCCL_CACHE_LINE) uint8_t room[WORK_BYTES];
    struct block block = {0, 0, 0};
    if (!transfer->scales && !feeds_back(transfer)) {
        pccl_packing_encode(packing, kernels, pccl_input_of(transfer, plan, segment), segment->count, place,
                            transfer->seed, packed);
        return;
    }
    while (next_block(plan, segment->count, &block)) {
        const uint8_t *elements = contribution_of(transfer, plan, segment, &block, room);
        pccl_packing_encode(packing, kernels, elements, block.count, place + block.first, transfer->seed,
                            packed + block.at);
        if (feeds_back(transfer))
            keep(transfer, plan, segment, &block, false, (const float *)(const void *)room, packed + block.at);
    }
}

void pccl_packed_store(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, const uint8_t *packed)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    pccl_fold_save(transfer, stripe, number);
    store(transfer, plan, packed, segment.count, pccl_result_of(transfer, plan, &segment));
    stored(transfer);
    pccl_result_written(transfer, plan, &segment);
}

void pccl_packed_fold(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, bool finish,
                      uint8_t *const *parts, uint32_t part_count, uint8_t *packed)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    _Alignas(PCCL_CACHE_LINE) uint8_t sum[WORK_BYTES], part[WORK_BYTES]; /* the own part at last */
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    if (finish)
        pccl_fold_save(transfer, stripe, number);
    const uint8_t *own =
        pccl_segment_is_whole(transfer, plan, &segment) ? pccl_input_of(transfer, plan, &segment) : NULL;
    uint8_t *result = pccl_result_of(transfer, plan, &segment);
    const bool rounds = finish && !(feeds_back(transfer) && packed != NULL); /* not before feedback has seen the sum */
    const struct pccl_step step = {.datatype = feeds_back(transfer) ? PCCL_F32 : plan->datatype,
                                   .from = plan->folded_datatype,
                                   .to = rounds ? plan->datatype : plan->folded_datatype,
                                   .reduction = plan->reduction,
                                   .ranks = finish ? plan->seat.ranks : 0};
    const uint64_t place = pccl_plan_place(plan, stripe, number);
    struct block block = {0, 0, 0};
    while (next_block(plan, segment.count, &block)) {
        size_t at = (size_t)block.first * plan->element_bytes, bytes = (size_t)block.count * plan->element_bytes;
        size_t packed_bytes = pccl_packing_bytes(&plan->packing, block.count);
        if (block.first + block.count < segment.count) {
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
                          contribution_of(transfer, plan, &segment, &block, part), block.count);
        if (packed != NULL)
            pccl_packing_encode(rounds ? &plan->packing : &plan->folded_packing, kernels, sum, block.count,
                                place + block.first, transfer->seed, packed + block.at);
        if (finish && packed != NULL)
            store(transfer, plan, packed + block.at, block.count, result + at);
        if (feeds_back(transfer))
            keep(transfer, plan, &segment, &block, finish, (const float *)(const void *)sum,
                 packed != NULL ? packed + block.at : NULL);
    }
    stored(transfer);
    if (finish)
        pccl_result_written(transfer, plan, &segment);
}
