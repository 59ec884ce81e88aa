/*
 * The work on packed segments, block by block, so that the unpacked elements never leave the first
 * cache.
 */
#include "collective/fold.h"

#include "kernels/prefetch.h"

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

static void store(struct pccl_transfer *transfer, const uint8_t *packed, uint32_t count, uint8_t *result)
{
    const struct pccl_plan *plan = &transfer->plan;
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

void pccl_packed_own(const struct pccl_transfer *transfer, const struct pccl_segment *segment, uint64_t place,
                     uint8_t *packed)
{
    const struct pccl_plan *plan = &transfer->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    const uint8_t *own = pccl_input_of(transfer, segment);
    _Alignas(PCCL_CACHE_LINE) uint8_t room[WORK_BYTES];
    struct block block = {0, 0, 0};
    if (!transfer->scales) {
        pccl_packing_encode(&plan->packing, kernels, own, segment->count, place, transfer->seed, packed);
        return;
    }
    while (next_block(plan, segment->count, &block)) {
        const uint8_t *elements = own + (size_t)block.first * plan->element_bytes;
        elements = pccl_contribution_of(transfer, elements, block.count, room);
        pccl_packing_encode(&plan->packing, kernels, elements, block.count, place + block.first, transfer->seed,
                            packed + block.at);
    }
}

void pccl_packed_store(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, const uint8_t *packed)
{
    const struct pccl_plan *plan = &transfer->plan;
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    pccl_fold_save(transfer, stripe, number);
    store(transfer, packed, segment.count, pccl_result_of(transfer, &segment));
    stored(transfer);
}

void pccl_packed_fold(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, bool finish,
                      uint8_t *const *parts, uint32_t part_count, uint8_t *packed)
{
    const struct pccl_plan *plan = &transfer->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    _Alignas(PCCL_CACHE_LINE) uint8_t sum[WORK_BYTES], part[WORK_BYTES]; /* the own part at last */
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    if (finish)
        pccl_fold_save(transfer, stripe, number);
    const uint8_t *own = pccl_input_of(transfer, &segment);
    uint8_t *result = pccl_result_of(transfer, &segment);
    const struct pccl_step step = {.datatype = plan->datatype,
                                   .from = plan->folded_datatype,
                                   .to = finish ? plan->datatype : plan->folded_datatype,
                                   .reduction = plan->reduction,
                                   .ranks = finish ? plan->seat.ranks : 0};
    const uint64_t place = pccl_plan_place(plan, stripe, number);
    struct block block = {0, 0, 0};
    while (next_block(plan, segment.count, &block)) {
        size_t at = (size_t)block.first * plan->element_bytes, bytes = (size_t)block.count * plan->element_bytes;
        size_t packed_bytes = pccl_packing_bytes(&plan->packing, block.count);
        if (block.first + block.count < segment.count) {
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
                          pccl_contribution_of(transfer, own + at, block.count, part), block.count);
        if (packed == NULL)
            continue;
        pccl_packing_encode(finish ? &plan->packing : &plan->folded_packing, kernels, sum, block.count,
                            place + block.first, transfer->seed, packed + block.at);
        if (finish)
            store(transfer, packed + block.at, block.count, result + at);
    }
    stored(transfer);
}
