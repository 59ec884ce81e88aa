/*
 * Reduce-scatter (plan.h). Piece p belongs to the share of rank p.
 *
 * Along the ring, the piece is folded from rank p + 1 to rank p, which finishes it. In direct exchange, every rank
 * sends its part to rank p, which folds all parts when the last one has arrived.
 */
#include "collective/schedule.h"

/* ---- along the ring ---- */

static uint32_t ring_steps(struct pccl_seat seat) { return seat.ranks - 1; }

static uint32_t buffers(struct pccl_seat seat, bool packed)
{
    (void)packed;
    return seat.ranks - 1;
}

static uint32_t ring_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    return (sender + 2 * seat.ranks - 1 - step) % seat.ranks;
}

static enum pccl_content ring_carries(struct pccl_seat seat, uint32_t step)
{
    return step > 0 && step < ring_steps(seat) ? PCCL_CONTENT_SUM : PCCL_CONTENT_PART;
}

static struct pccl_task ring_arrived(struct pccl_seat seat, uint32_t step)
{
    if (step + 1 == ring_steps(seat))
        return (struct pccl_task){.work = PCCL_WORK_FINISH};
    return (struct pccl_task){
        .work = PCCL_WORK_FOLD, .step = step + 1, .to = pccl_seat_next(seat, seat.rank), .to_count = 1};
}

const struct pccl_schedule pccl_scatter_ring = {.name = "scattering along the ring",
                                                .pieces = pccl_pieces_of_ranks,
                                                .steps = ring_steps,
                                                .buffers = buffers,
                                                .sends = pccl_sends_to_next,
                                                .piece = ring_piece,
                                                .carries = ring_carries,
                                                .arrived = ring_arrived};

/* ---- direct exchange ---- */

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)seat;
    (void)sender;
    (void)step;
    return receiver;
}

const struct pccl_schedule pccl_scatter_direct = {.name = "scattering directly",
                                                  .pieces = pccl_pieces_of_ranks,
                                                  .steps = pccl_one_step,
                                                  .buffers = buffers,
                                                  .sends = pccl_sends_to_all,
                                                  .piece = direct_piece,
                                                  .carries = pccl_carries_parts,
                                                  .arrived = pccl_collects};
