/*
 * Work on the bytes of a piece: fold, finish, store and pack, between scratch and the caller's memory. A schedule
 * (schedule.h) names the work; nothing here depends on the schedule. Must not know messages, lanes or the window.
 */
#ifndef PCCL_COLLECTIVE_FOLD_H
#define PCCL_COLLECTIVE_FOLD_H

#include "collective/internal.h"

/* ---- data to send ---- */

/* Returns this rank's part of a piece in the caller's memory. Returns NULL if it must be made (pccl_fold_make). */
const uint8_t *pccl_fold_input(const struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Makes this rank's part of a piece: packed, scaled, or copied together; in a scan also its result. Returns NULL if
 * memory is short.
 */
struct pccl_scratch *pccl_fold_make(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Returns the payload of a step after the first: a sum or a result, from scratch or (NULL) from the result. A sum may
 * be longer than the part that it begins with: then the scratch is replaced. Returns NULL if memory is short.
 */
const uint8_t *pccl_fold_later(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                               struct pccl_scratch **scratch);

/* ---- received data ---- */

/*
 * Returns the place of a piece in the result, if its bytes can be received there; saves the input that is there.
 * Returns NULL if the bytes must be changed, or belong in several places.
 */
uint8_t *pccl_fold_place(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Does the work on a piece received in this step; not PCCL_WORK_COLLECT. Takes over the scratch (NULL: the piece was
 * received into the result). Returns the scratch from which the piece is sent on, with an added reference; NULL: it is
 * sent from the result, or not at all.
 */
struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch);
/* Does the same for all collected parts, in the order in which they are folded; this rank's part is last. */
struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count);

/* ---- data that stays ---- */

/* Writes this rank's part of a piece, which is its result, unless it is there already. Returns the bytes written. */
size_t pccl_fold_keep(struct pccl_transfer *transfer, const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* Does the same for a finished piece that is packed. */
void pccl_fold_unpack(struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *packed);

#endif
