/*
 * Scatter (plan.h): each rank receives its part of the root's tensor. Piece p belongs to the part of rank p.
 *
 * Along a chain, a stripe contains the part of one rank, the farthest rank first; the ranks before that rank pass it
 * on. In direct exchange, the root sends each part straight to its rank.
 */
#include "collective/schedule.h"

/* ---- along a chain ---- */

/* Returns the number of steps: the root sends, then the others pass it on. */
static uint32_t chain_steps(struct pccl_seat seat)
{
    (void)seat;
    return 2;
}

/* Returns the rank whose part is in the stripe. The last turn has the root's own part. */
static uint32_t receiver_of(struct pccl_seat seat) { return (seat.root + seat.ranks - 1 - seat.turn) % seat.ranks; }

static bool chain_keeps(struct pccl_seat seat, uint32_t number)
{
    return pccl_root_keeps(seat, number) && receiver_of(seat) == seat.root;
}

static uint32_t chain_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    uint32_t last = receiver_of(seat);
    (void)receiver;
    bool is_on_the_way = pccl_seat_distance(seat, seat.root, sender) < pccl_seat_distance(seat, seat.root, last);
    return is_on_the_way && (sender == seat.root) == (step == 0) ? last : PCCL_NO_PIECE;
}

static enum pccl_content chain_carries(struct pccl_seat seat, uint32_t step)
{
    (void)step;
    return seat.rank == receiver_of(seat) ? PCCL_CONTENT_RESULT : PCCL_CONTENT_PART;
}

static struct pccl_task chain_arrived(struct pccl_seat seat, uint32_t step)
{
    (void)step;
    if (seat.rank == receiver_of(seat))
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    return (struct pccl_task){.work = PCCL_WORK_PASS, .step = 1, .to = pccl_seat_next(seat, seat.rank), .to_count = 1};
}

const struct pccl_schedule pccl_from_root_chain = {.name = "scattering from the root along a chain",
                                                   .pieces = pccl_pieces_of_ranks,
                                                   .steps = chain_steps,
                                                   .turns = pccl_pieces_of_ranks,
                                                   .buffers = pccl_one_buffer,
                                                   .sends = pccl_sends_to_next,
                                                   .piece = chain_piece,
                                                   .carries = chain_carries,
                                                   .keeps = chain_keeps,
                                                   .keeps_unsent = true,
                                                   .arrived = chain_arrived};

/* ---- direct exchange ---- */

/* Returns the number of buffers: one for early data, or the root's pieces if they are packed. */
static uint32_t direct_buffers(struct pccl_seat seat, bool packed) { return packed ? seat.ranks - 1 : 1; }

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)step;
    return sender == seat.root ? receiver : PCCL_NO_PIECE;
}

const struct pccl_schedule pccl_from_root_direct = {.name = "scattering from the root directly",
                                                    .pieces = pccl_pieces_of_ranks,
                                                    .steps = pccl_one_step,
                                                    .buffers = direct_buffers,
                                                    .sends = pccl_root_sends,
                                                    .piece = direct_piece,
                                                    .carries = pccl_carries_results,
                                                    .keeps = pccl_root_keeps,
                                                    .keeps_unsent = true,
                                                    .arrived = pccl_stores};
