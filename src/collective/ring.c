/*
 * The ring (plan.h). This rank's own part of a segment is used up when the segment comes by for the first time, and
 * what comes of that is sent on before the finished segment can come by: so the finished one may be written over the
 * input.
 */
#include "collective/internal.h"
#include "kernels/prefetch.h"

enum { FOLD_BYTES = 4096 }; /* folded at once, finished and copied while they are in the first cache */

struct pccl_group_shape pccl_ring_shape(const struct pccl_plan *plan, uint32_t segments)
{
    /* Every segment comes by twice and is sent twice, but for where it begins, where it is finished, and where it ends.
     */
    uint32_t begins = plan->rank, finishes = (plan->rank + 1) % plan->ranks, ends = (plan->rank + 2) % plan->ranks;
    return (struct pccl_group_shape){2 * segments - (begins < segments) - (finishes < segments),
                                     2 * segments - (finishes < segments) - (ends < segments)};
}

/* A finished segment is sent on at once: its sum is made where it is hot, and copied to a result that goes away. */
static bool is_copied_away(const struct pccl_transfer *transfer, uint32_t number)
{
    return pccl_is_finisher(&transfer->plan, number) && pccl_goes_away(transfer);
}

/* The own part, and what came in in this step. */
static struct pccl_step work_of(const struct pccl_plan *plan, uint32_t step, bool finish)
{
    return (struct pccl_step){.datatype = plan->datatype,
                              .from = step > 0 ? plan->folded_datatype : plan->datatype,
                              .to = finish ? plan->datatype : plan->folded_datatype,
                              .reduction = plan->reduction,
                              .ranks = finish ? plan->ranks : 0};
}

struct pccl_scratch *pccl_ring_widen(struct pccl_transfer *transfer, const struct pccl_segment *segment,
                                     struct pccl_scratch *received)
{
    const struct pccl_plan *plan = &transfer->plan;
    struct pccl_scratch_pool *pool = &transfer->exchange->scratch;
    const struct pccl_step work = work_of(plan, 0, false);
    struct pccl_scratch *wide = pccl_scratch_take(pool, pccl_plan_bytes(plan, 1, segment->count));
    if (wide != NULL)
        pccl_combine_step(transfer->exchange->config.kernels, &work, wide->bytes, received->bytes,
                          pccl_input_of(transfer, segment), segment->count);
    pccl_scratch_give(pool, received);
    return wide;
}

/* Leaves the sum of both in `received`, and in the result what is finished: there only, if it is not copied away. */
static void fold_elements(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step, uint32_t number,
                          struct pccl_scratch *received)
{
    const struct pccl_plan *plan = &transfer->plan;
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    struct pccl_segment segment = pccl_plan_segment(plan, group->number, number);
    const uint8_t *own = pccl_input_of(transfer, &segment);
    uint8_t *result = pccl_result_of(transfer, &segment);
    bool finish = pccl_is_finisher(plan, number), away = is_copied_away(transfer, number);
    uint8_t *sum = finish && !away ? result : received->bytes;
    const struct pccl_step work = work_of(plan, step, finish);
    const size_t from_bytes = pccl_datatype_bytes(work.from), to_bytes = pccl_datatype_bytes(work.to);
    if (finish)
        pccl_transfer_save(transfer, group->number, number);
    uint32_t most = FOLD_BYTES / plan->element_bytes, count = 0;
    for (uint32_t first = 0; first < segment.count; first += count) {
        count = (uint32_t)pccl_min_u64(most, segment.count - first);
        size_t at = (size_t)first * plan->element_bytes, bytes = (size_t)count * plan->element_bytes;
        if (first + count < segment.count)
            pccl_prefetch(own + at + bytes, bytes);
        pccl_combine_step(kernels, &work, sum + first * to_bytes, received->bytes + first * from_bytes, own + at,
                          count);
        if (away)
            pccl_copy_away(kernels, result + at, sum + at, bytes);
    }
    if (away)
        pccl_copied_away(kernels);
}

static void fold(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step, uint32_t number,
                 struct pccl_scratch *received)
{
    if (step == 0 && pccl_plan_is_wide(&transfer->plan, 1))
        return; /* when it is sent on, into memory of its own */
    if (transfer->plan.codec == NULL)
        fold_elements(transfer, group, step, number, received);
    else
        pccl_packed_fold(transfer, group->number, number, &received->bytes, 1, received->bytes);
}

void pccl_ring_received(struct pccl_transfer *transfer, struct pccl_group *group, uint32_t step,
                        struct pccl_scratch *scratch)
{
    const struct pccl_plan *plan = &transfer->plan;
    uint32_t number = (plan->rank + 2 * plan->ranks - 1 - step) % plan->ranks;
    uint32_t to = (plan->rank + 1) % plan->ranks;
    bool gathering = step >= plan->ranks - 1;
    if (gathering && scratch != NULL)
        pccl_packed_store(transfer, group->number, number, scratch->bytes);
    else if (!gathering)
        fold(transfer, group, step, number, scratch);
    bool finished = gathering || pccl_is_finisher(plan, number);
    if (finished && plan->codec == NULL && (gathering || !is_copied_away(transfer, number))) {
        /* it goes on from the result */
        pccl_scratch_give(&transfer->exchange->scratch, scratch);
        scratch = NULL;
    }
    if (step + 1 < pccl_plan_steps(plan))
        pccl_transfer_send(transfer, group, step + 1, to, scratch);
    else
        pccl_scratch_give(&transfer->exchange->scratch, scratch);
    if (finished)
        pccl_transfer_result(transfer, group);
}
