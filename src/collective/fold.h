/*
 * The work on the bytes of a piece: fold, finish, store and pack, between scratch and the caller's
 * memory. A schedule (schedule.h) names the work; nothing here depends on which schedule. Must not
 * know messages, lanes or the window.
 */
#ifndef PCCL_COLLECTIVE_FOLD_H
#define PCCL_COLLECTIVE_FOLD_H

#include "collective/internal.h"

/* ---- what is sent ---- */

/* Returns this rank's part of a piece in the caller's memory. NULL: the part has to be made (pccl_fold_make). */
const uint8_t *pccl_fold_input(const struct pccl_transfer *transfer, const struct pccl_piece *piece);
/* Makes it: packed, scaled or collected; of a scan, and its result with it. NULL: memory is short. */
struct pccl_scratch *pccl_fold_make(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * The payload of a step after the first: a sum or a result, from scratch or (NULL) from the result. A sum may be longer
 * than the part that it begins with: then the scratch is replaced. NULL: memory is short.
 */
const uint8_t *pccl_fold_later(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                               struct pccl_scratch **scratch);

/* ---- what comes in ---- */

/*
 * Returns the place of a piece in the result, if its bytes can be received there; saves the input that is there.
 * NULL: the bytes have to be changed, or belong in several places.
 */
uint8_t *pccl_fold_place(struct pccl_transfer *transfer, const struct pccl_piece *piece);
/*
 * Does the work on a piece that came in with this step; not PCCL_WORK_COLLECT. Takes over the
 * scratch (NULL: the piece came into the result). Returns the scratch from which the piece is sent
 * on, with a reference of its own; NULL: it is sent from the result, or to nobody.
 */
struct pccl_scratch *pccl_fold_arrived(struct pccl_transfer *transfer, const struct pccl_piece *piece, uint32_t step,
                                       const struct pccl_task *task, struct pccl_scratch *scratch);
/*
 * The same for all parts that were collected, in the order in which they are folded; the own part
 * comes last.
 */
struct pccl_scratch *pccl_fold_collected(struct pccl_transfer *transfer, const struct pccl_piece *piece,
                                         const struct pccl_task *task, struct pccl_scratch *const *parts,
                                         uint32_t part_count);

/* ---- what stays ---- */

/* The own part of a piece is the result: writes it there, if it is not there already. Returns the bytes written. */
size_t pccl_fold_keep(struct pccl_transfer *transfer, const struct pccl_plan *plan, uint64_t stripe, uint32_t number);
/* The same for a finished piece that is packed. */
void pccl_fold_unpack(struct pccl_transfer *transfer, const struct pccl_piece *piece, const uint8_t *packed);

#endif
