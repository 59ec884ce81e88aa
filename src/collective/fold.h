/*
 * Operations on the bytes of a piece in scratch and in the caller's memory: fold, finish, store and pack. A schedule
 * (schedule.h) selects the operation, but nothing here depends on the schedule. Does not use messages, lanes or the
 * window.
 */
#ifndef PCCL_COLLECTIVE_FOLD_H
#define PCCL_COLLECTIVE_FOLD_H

#include "collective/internal.h"

/* ---- data to send ---- */

/* Returns this rank's part of a piece in the caller's memory, or NULL if pccl_fold_make must create it. */
const uint8_t *pccl_fold_input(const struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Creates this rank's part of a piece in scratch: packed, scaled, or copied from several extents. In a scan also writes
 * the first rank's result. Returns NULL if out of memory.
 */
struct pccl_scratch *pccl_fold_make(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Returns the payload of a step after the first, which is a sum or a result: in *scratch or, if that is NULL, in the
 * caller's result. May replace *scratch, because a sum may be wider than the part that begins it. Returns NULL if out
 * of memory.
 */
const uint8_t *pccl_fold_later(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                               struct pccl_scratch **scratch);

/* ---- received data ---- */

/*
 * Returns the address of a piece in the result if the received bytes can be stored there directly, and saves the input
 * at that address. Returns NULL if the bytes must be converted, or belong in several extents.
 */
uint8_t *pccl_fold_place(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Does the work on a piece received in this step, except PCCL_WORK_COLLECT. Takes ownership of the scratch, which is
 * NULL if the piece was received into the result. Returns the scratch from which the piece must be sent on; NULL if it
 * is sent from the result or not at all.
 */
struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch);
/* Does the work on all collected parts, in the order in which they are folded; this rank's part is the last. */
struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count);

/* ---- data that stays on its rank ---- */

/* Copies this rank's part of a piece to the result, unless it is there already. Returns the number of bytes copied. */
size_t pccl_fold_keep(struct pccl_transfer *transfer, const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
void pccl_fold_unpack(struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *packed);

#endif
