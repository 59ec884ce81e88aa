/*
 * All-to-all (plan.h). Piece p is sent by rank p. In each turn, every rank sends to the rank that is a fixed number of
 * places ahead in the ring, the largest number first. The last turn contains the parts that stay at their rank.
 *
 * Along the ring, a piece is passed on from rank to rank. In direct exchange, it is sent straight to its destination.
 */
#include "collective/schedule.h"

static bool keeps(struct pccl_seat seat, uint32_t number)
{
    return number == seat.rank && pccl_exchange_places(seat) == 0;
}

/* ---- along the ring ---- */

static uint32_t ring_steps(struct pccl_seat seat) { return seat.ranks - 1; }

/* Returns the number of buffers: one for each piece that is passed on. */
static uint32_t ring_buffers(struct pccl_seat seat, bool packed)
{
    (void)packed;
    return seat.ranks - 1;
}

static uint32_t ring_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    return step < pccl_exchange_places(seat) ? (sender + seat.ranks - step) % seat.ranks : PCCL_NO_PIECE;
}

static bool is_last(struct pccl_seat seat, uint32_t step) { return step + 1 == pccl_exchange_places(seat); }

static enum pccl_content ring_carries(struct pccl_seat seat, uint32_t step)
{
    return is_last(seat, step) ? PCCL_CONTENT_RESULT : PCCL_CONTENT_PART;
}

static struct pccl_task ring_arrived(struct pccl_seat seat, uint32_t step)
{
    if (is_last(seat, step))
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    return (struct pccl_task){
        .work = PCCL_WORK_PASS, .step = step + 1, .to = pccl_seat_next(seat, seat.rank), .to_count = 1};
}

const struct pccl_schedule pccl_exchange_ring = {.name = "exchanging along the ring",
                                                 .pieces = pccl_pieces_of_ranks,
                                                 .steps = ring_steps,
                                                 .turns = pccl_pieces_of_ranks,
                                                 .buffers = ring_buffers,
                                                 .sends = pccl_sends_to_next,
                                                 .piece = ring_piece,
                                                 .carries = ring_carries,
                                                 .keeps = keeps,
                                                 .keeps_unsent = true,
                                                 .arrived = ring_arrived};

/* ---- direct exchange ---- */

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)step;
    return pccl_seat_distance(seat, sender, receiver) == pccl_exchange_places(seat) ? sender : PCCL_NO_PIECE;
}

const struct pccl_schedule pccl_exchange_direct = {.name = "exchanging directly",
                                                   .pieces = pccl_pieces_of_ranks,
                                                   .steps = pccl_one_step,
                                                   .turns = pccl_pieces_of_ranks,
                                                   .buffers = pccl_one_buffer,
                                                   .sends = pccl_sends_to_all,
                                                   .piece = direct_piece,
                                                   .carries = pccl_carries_results,
                                                   .keeps = keeps,
                                                   .keeps_unsent = true,
                                                   .arrived = pccl_stores};
