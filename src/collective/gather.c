/*
 * All-gather (plan.h). Piece p belongs to the part of rank p.
 *
 * Along the ring, every piece is passed on from its rank to the rank before it. In direct exchange, each rank sends its
 * part to all others.
 */
#include "collective/schedule.h"

static bool keeps(struct pccl_seat seat, uint32_t number) { return number == seat.rank; }

/* ---- along the ring ---- */

/* Returns the number of buffers: one or, if pieces are packed, one for each piece until it has been sent on. */
static uint32_t ring_buffers(struct pccl_seat seat, bool packed) { return packed ? seat.ranks : 1; }

static uint32_t ring_steps(struct pccl_seat seat) { return seat.ranks - 1; }

static uint32_t ring_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    return (sender + seat.ranks - step) % seat.ranks;
}

static struct pccl_task ring_arrived(struct pccl_seat seat, uint32_t step)
{
    return (struct pccl_task){.work = PCCL_WORK_STORE,
                              .step = step + 1,
                              .to = pccl_seat_next(seat, seat.rank),
                              .to_count = step + 1 < ring_steps(seat)};
}

const struct pccl_schedule pccl_gather_ring = {.name = "gathering along the ring",
                                               .pieces = pccl_pieces_of_ranks,
                                               .steps = ring_steps,
                                               .buffers = ring_buffers,
                                               .sends = pccl_sends_to_next,
                                               .piece = ring_piece,
                                               .carries = pccl_carries_results,
                                               .keeps = keeps,
                                               .arrived = ring_arrived};

/* ---- direct exchange ---- */

/*
 * Returns the number of buffers: one for early data of each other rank and, if pieces are packed, one for this rank's
 * piece.
 */
static uint32_t direct_buffers(struct pccl_seat seat, bool packed) { return packed ? seat.ranks : seat.ranks - 1; }

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)seat;
    (void)receiver;
    (void)step;
    return sender;
}

const struct pccl_schedule pccl_gather_direct = {.name = "gathering directly",
                                                 .pieces = pccl_pieces_of_ranks,
                                                 .steps = pccl_one_step,
                                                 .buffers = direct_buffers,
                                                 .sends = pccl_sends_to_all,
                                                 .piece = direct_piece,
                                                 .carries = pccl_carries_results,
                                                 .keeps = keeps,
                                                 .arrived = pccl_stores};
