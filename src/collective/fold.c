/*
 * Folds parts and sums of elements, and writes results. packed.c does the same for packed elements.
 */
#include "collective/fold.h"

#include "kernels/prefetch.h"

#include <string.h>

enum { FOLD_BYTES = 4096 }; /* folded at once, finished and copied while they are in the first cache */

/* The kernel call that folds the own part and what came in with this step. */
static struct pccl_step work_of(const struct pccl_plan *plan, uint32_t step, bool finish)
{
    return (struct pccl_step){.datatype = plan->datatype,
                              .from = step > 0 ? plan->folded_datatype : plan->datatype,
                              .to = finish ? plan->datatype : plan->folded_datatype,
                              .reduction = plan->reduction,
                              .ranks = finish ? plan->seat.ranks : 0};
}

/*
 * So many elements at once: of what a rank does not contribute as it is, what has room; of what lies in several
 * places, what stays in the first cache.
 */
static uint32_t elements_at_once(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                 const struct pccl_segment *segment)
{
    const bool in_blocks = transfer->scales || !pccl_segment_is_whole(transfer, plan, segment);
    return in_blocks ? FOLD_BYTES / plan->element_bytes : segment->count;
}

/* Both are elements; the sum may be longer. */
static void widen(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                  const struct pccl_segment *segment, const uint8_t *received, uint8_t *sum)
{
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    const struct pccl_step work = work_of(plan, 0, false);
    const uint32_t most = elements_at_once(transfer, plan, segment);
    for (uint32_t first = 0, count = 0; first < segment->count; first += count) {
        const size_t at = (size_t)first * plan->element_bytes;
        count = (uint32_t)pccl_min_u64(most, segment->count - first);
        const uint8_t *own = pccl_input_part(transfer, plan, segment, first, count);
        pccl_combine_step(transfer->exchange->config.kernels, &work, sum + first * pccl_datatype_bytes(work.to),
                          received + at, pccl_contribution_of(transfer, plan, own, count, room), count);
    }
}

struct pccl_scratch *pccl_fold_widen(struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                     const struct pccl_segment *segment, struct pccl_scratch *received)
{
    struct pccl_scratch_pool *pool = &transfer->exchange->scratch;
    struct pccl_scratch *wide = pccl_scratch_take(pool, pccl_plan_bytes(plan, 1, segment->count));
    if (wide != NULL)
        widen(transfer, plan, segment, received->bytes, wide->bytes);
    pccl_scratch_give(pool, received);
    return wide;
}

/* Writes elements from `first` on to a result that lies in several places. */
static void scatter(struct pccl_transfer *transfer, const struct pccl_plan *plan, const struct pccl_segment *segment,
                    uint32_t first, uint32_t count, const uint8_t *from)
{
    const size_t at = pccl_plan_result_at(plan, segment) + (size_t)first * plan->element_bytes;
    pccl_tensors_write(&transfer->tensors, at, (size_t)count * plan->element_bytes, from,
                       pccl_is_streamed(transfer) ? transfer->exchange->config.kernels : NULL);
}

/* A large copy bypasses the caches. */
static void copy_to_result(struct pccl_transfer *transfer, const struct pccl_plan *plan,
                           const struct pccl_segment *segment, const uint8_t *from)
{
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    size_t bytes = (size_t)segment->count * plan->element_bytes;
    if (transfer->sections != NULL) {
        scatter(transfer, plan, segment, 0, segment->count, from);
    } else if (pccl_is_streamed(transfer)) {
        pccl_copy_streaming(kernels, pccl_result_of(transfer, plan, segment), from, bytes);
        pccl_copied_streaming(kernels);
    } else {
        memcpy(pccl_result_of(transfer, plan, segment), from, bytes);
    }
}

/*
 * Leaves the sum of both in `received`, and a finished one in the result as well, or only there if
 * it is not sent on.
 */
static void fold_elements(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, uint32_t step, bool finish,
                          struct pccl_scratch *received)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    const struct pccl_kernels *kernels = transfer->exchange->config.kernels;
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    uint8_t *result = pccl_result_of(transfer, plan, &segment);
    const bool is_whole = pccl_segment_is_whole(transfer, plan, &segment);
    const uint8_t *whole = is_whole ? pccl_input_of(transfer, plan, &segment) : NULL;
    const bool streams = pccl_is_streamed(transfer);
    bool away = finish && streams && is_whole; /* copied while it is hot */
    uint8_t *sum = finish && !away && is_whole ? result : received->bytes;
    const struct pccl_step work = work_of(plan, step, finish);
    const size_t from_bytes = pccl_datatype_bytes(work.from), to_bytes = pccl_datatype_bytes(work.to);
    if (finish)
        pccl_fold_save(transfer, stripe, number);
    uint32_t most = FOLD_BYTES / plan->element_bytes, count = 0;
    for (uint32_t first = 0; first < segment.count; first += count) {
        count = (uint32_t)pccl_min_u64(most, segment.count - first);
        size_t at = (size_t)first * plan->element_bytes, bytes = (size_t)count * plan->element_bytes;
        const uint8_t *own = is_whole ? whole + at : pccl_input_part(transfer, plan, &segment, first, count);
        if (is_whole && first + count < segment.count)
            pccl_prefetch(own + bytes, bytes);
        pccl_combine_step(kernels, &work, sum + first * to_bytes, received->bytes + first * from_bytes,
                          pccl_contribution_of(transfer, plan, own, count, room), count);
        if (away)
            pccl_copy_streaming(kernels, result + at, sum + at, bytes);
        else if (finish && !is_whole && !streams)
            scatter(transfer, plan, &segment, first, count, sum + at);
    }
    if (away)
        pccl_copied_streaming(kernels);
    if (finish && !is_whole && streams) /* at once: to wait for memory after each block costs more */
        copy_to_result(transfer, plan, &segment, sum);
}

/* Where a sum is packed: where the first part was, or nowhere, if nobody gets it. */
static uint8_t *packed_at(const struct pccl_task *task, struct pccl_scratch *first)
{
    return task->to_count > 0 ? first->bytes : NULL;
}

static void fold_one(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, uint32_t step,
                     const struct pccl_task *task, struct pccl_scratch *received)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    bool finish = task->work == PCCL_WORK_FINISH;
    if (step == 0 && pccl_plan_is_wide(plan, 1))
        return; /* when it is sent on, into memory of its own */
    if (!pccl_packing_packs(&plan->packing))
        fold_elements(transfer, stripe, number, step, finish, received);
    else
        pccl_packed_fold(transfer, stripe, number, finish, &received->bytes, 1, packed_at(task, received));
}

void pccl_fold_keep(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    if (!transfer->in_place)
        copy_to_result(transfer, plan, &segment, pccl_input_of(transfer, plan, &segment));
}

static void store(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, const struct pccl_scratch *scratch)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    if (pccl_packing_packs(&plan->packing)) {
        pccl_packed_store(transfer, stripe, number, scratch->bytes);
        return;
    }
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    pccl_fold_save(transfer, stripe, number);
    copy_to_result(transfer, plan, &segment, scratch->bytes);
}

struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    if (task->work == PCCL_WORK_PASS)
        return scratch;
    if (task->work != PCCL_WORK_STORE)
        fold_one(transfer, stripe, number, step, task, scratch);
    else if (scratch != NULL)
        store(transfer, stripe, number, scratch);
    /* A sum goes on; and so does a result that is packed, hot where it was made, or in several places. */
    if (task->work == PCCL_WORK_FOLD || pccl_packing_packs(&plan->packing) ||
        (task->work == PCCL_WORK_FINISH && pccl_is_streamed(transfer)) ||
        !pccl_piece_is_whole(transfer, plan, stripe, number))
        return scratch;
    pccl_scratch_give(&transfer->exchange->scratch, scratch);
    return NULL;
}

/* Whether the result is in its place only; if not, it is also where the first part was. */
static bool fold_all_elements(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number,
                              struct pccl_scratch *const *parts, uint32_t part_count)
{
    const struct pccl_plan *plan = pccl_plan_of(transfer, stripe);
    struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    _Alignas(PCCL_CACHE_LINE) uint8_t room[FOLD_BYTES];
    const void *bytes[PCCL_MESH_PEERS_MAX];
    const uint32_t most = elements_at_once(transfer, plan, &segment);
    const bool is_whole = pccl_segment_is_whole(transfer, plan, &segment);
    const bool streams = pccl_is_streamed(transfer);
    uint8_t *result = is_whole ? pccl_result_of(transfer, plan, &segment) : parts[0]->bytes;
    pccl_fold_save(transfer, stripe, number);
    for (uint32_t first = 0, count = 0; first < segment.count; first += count) {
        const size_t at = (size_t)first * plan->element_bytes;
        count = (uint32_t)pccl_min_u64(most, segment.count - first);
        for (uint32_t i = 0; i < part_count; i++)
            bytes[i] = parts[i]->bytes + at;
        bytes[part_count] =
            pccl_contribution_of(transfer, plan, pccl_input_part(transfer, plan, &segment, first, count), count, room);
        pccl_combine_all(transfer->exchange->config.kernels, plan->datatype, plan->reduction, bytes, part_count + 1,
                         count, result + at);
        if (!is_whole && !streams)
            scatter(transfer, plan, &segment, first, count, result + at);
    }
    if (!is_whole && streams)
        copy_to_result(transfer, plan, &segment, result);
    return is_whole;
}

static void fold_all_packed(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number,
                            const struct pccl_task *task, struct pccl_scratch *const *parts, uint32_t part_count)
{
    PCCL_ASSERT(part_count > 0);
    uint8_t *bytes[PCCL_MESH_PEERS_MAX];
    for (uint32_t i = 0; i < part_count; i++)
        bytes[i] = parts[i]->bytes;
    pccl_packed_fold(transfer, stripe, number, true, bytes, part_count, packed_at(task, parts[0]));
}

struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count)
{
    bool goes_on = pccl_packing_packs(&pccl_plan_of(transfer, stripe)->packing);
    if (goes_on)
        fold_all_packed(transfer, stripe, number, task, parts, part_count);
    else
        goes_on = !fold_all_elements(transfer, stripe, number, parts, part_count);
    for (uint32_t i = goes_on; i < part_count; i++)
        pccl_scratch_give(&transfer->exchange->scratch, parts[i]);
    return goes_on ? parts[0] : NULL;
}
