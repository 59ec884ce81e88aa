/*
 * The work on the bytes of a piece: fold, finish, store and pack, between scratch and the caller's
 * memory. A schedule (schedule.h) names the work; nothing here depends on which schedule. Must not
 * know messages, lanes or the window.
 */
#ifndef PCCL_COLLECTIVE_FOLD_H
#define PCCL_COLLECTIVE_FOLD_H

#include "collective/internal.h"

#include <string.h>

/* The input of a part of a segment; it holds until another one is asked for, as it may be a copy (tensors.h). */
static inline const uint8_t *pccl_input_part(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                             const struct pccl_segment *segment, uint32_t first, uint32_t count)
{
    if (transfer->inputs != NULL)
        return transfer->inputs[segment->part % plan->seat.ranks] + pccl_plan_part_at(plan, segment) +
               (size_t)first * plan->element_bytes;
    const size_t at = pccl_plan_input_at(plan, segment) + (size_t)first * plan->element_bytes;
    if (transfer->sections == NULL)
        return transfer->input + at;
    return pccl_tensors_input(&transfer->tensors, at, (size_t)count * plan->element_bytes);
}
static inline const uint8_t *pccl_input_of(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                           const struct pccl_segment *segment)
{
    return pccl_input_part(transfer, plan, segment, 0, segment->count);
}
/* Copies the input of a segment. */
static inline void pccl_input_take(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                   const struct pccl_segment *segment, uint8_t *to)
{
    const size_t bytes = (size_t)segment->count * plan->element_bytes;
    if (transfer->sections == NULL)
        memcpy(to, pccl_input_of(transfer, plan, segment), bytes);
    else
        pccl_tensors_take(&transfer->tensors, pccl_plan_input_at(plan, segment), bytes, to);
}
/* Where the result of a segment is to be written, before pccl_result_written. */
static inline uint8_t *pccl_result_of(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                      const struct pccl_segment *segment)
{
    const size_t at = pccl_plan_result_at(plan, segment);
    if (transfer->sections == NULL)
        return transfer->result + at;
    return pccl_tensors_result(&transfer->tensors, at, (size_t)segment->count * plan->element_bytes);
}
static inline void pccl_result_written(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                       const struct pccl_segment *segment)
{
    if (transfer->sections != NULL)
        pccl_tensors_written(&transfer->tensors, pccl_plan_result_at(plan, segment),
                             (size_t)segment->count * plan->element_bytes);
}
/* Whether the segment lies in one place of the caller's memory. Others come in, and are sent, by way of scratch. */
static inline bool pccl_segment_is_whole(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                         const struct pccl_segment *segment)
{
    return transfer->sections == NULL || pccl_tensors_are_whole(&transfer->tensors, pccl_plan_result_at(plan, segment),
                                                                (size_t)segment->count * plan->element_bytes);
}
static inline bool pccl_piece_is_whole(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                       uint64_t stripe, uint32_t number)
{
    if (transfer->sections == NULL)
        return true;
    const struct pccl_segment segment = pccl_plan_segment(plan, stripe, number);
    return pccl_segment_is_whole(transfer, plan, &segment);
}

static inline bool pccl_is_scaled(const struct pccl_transfer *transfer, const struct pccl_plan *plan)
{
    return transfer->scales && plan->reduction == PCCL_PREMUL_SUM;
}
/*
 * What this rank contributes of some elements of its input: they themselves; to a premultiplied sum
 * what it makes of them, in `room`, which is as large.
 */
static inline const uint8_t *pccl_contribution_of(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                                  const uint8_t *elements, size_t count, uint8_t *room)
{
    if (!pccl_is_scaled(transfer, plan))
        return elements;
    pccl_scale(transfer->exchange->config.kernels, plan->datatype, room, elements, count, transfer->factor);
    return room;
}

/* Before a segment of the result is overwritten: in place, it is still the input. */
static inline void pccl_fold_save(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number)
{
    pccl_backup_save(&transfer->backup, transfer->exchange->config.kernels, pccl_plan_of(transfer, stripe), stripe,
                     number);
}
/* The own part of a piece is the result: writes it there, if it is not there already. */
void pccl_fold_keep(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number);
/*
 * Does the work on a piece that came in with this step; not PCCL_WORK_COLLECT. Takes over the
 * scratch (NULL: the piece came into the result). Returns the scratch from which the piece is sent
 * on, with a reference of its own; NULL: it is sent from the result, or to nobody.
 */
struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch);
/*
 * The same for all parts that were collected, in the order in which they are folded; the own part
 * comes last.
 */
struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count);
/*
 * Folds the first part, which came in as elements, and the own one into a sum whose elements are
 * longer (f32 for narrow floats). Takes over the scratch; NULL: memory is short.
 */
struct pccl_scratch *pccl_fold_widen(struct pccl_transfer *transfer, const struct pccl_plan *plan,
                                     const struct pccl_segment *segment, struct pccl_scratch *received);

/*
 * A large result is written past the caches if nothing of it is needed soon; in place it is in them
 * already, as it was the input.
 */
static inline bool pccl_is_streamed(const struct pccl_transfer *transfer)
{
    return transfer->plan.large && !transfer->in_place;
}

/* ---- packed.c: with a codec ---- */

/*
 * Folds all parts and the own one, which comes last, and packs the sum; `packed` may be one of the
 * parts. Who finishes it writes to the result what the bytes say. `packed` is NULL if a finished sum
 * is not sent: then the result is the sum itself.
 */
void pccl_packed_fold(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, bool finish,
                      uint8_t *const *parts, uint32_t part_count, uint8_t *packed);
/* Packs what this rank contributes of a segment, which has this place (pccl_plan_place). */
void pccl_packed_own(const struct pccl_transfer *transfer, const struct pccl_plan *plan,
                     const struct pccl_segment *segment, uint64_t place, uint8_t *packed);
/* A finished segment. */
void pccl_packed_store(struct pccl_transfer *transfer, uint64_t stripe, uint32_t number, const uint8_t *packed);

#endif
