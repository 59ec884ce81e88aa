/*
 * Broadcast in two steps (plan.h), for short tensors: the root sends each of the others a piece of
 * its own, and they send these to one another. Piece p is that of the rank p + 1 places behind the
 * root. Nobody sends data to the root; the rank before it has an empty flow to it.
 */
#include "collective/schedule.h"

static uint32_t pieces(struct pccl_seat seat) { return seat.ranks - 1; }

static uint32_t steps(struct pccl_seat seat)
{
    (void)seat;
    return 2;
}

/* What came ahead. */
static uint32_t buffers(struct pccl_seat seat, bool packed)
{
    (void)seat;
    (void)packed;
    return 1;
}

static bool sends(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return sender != receiver && (receiver != seat.root || pccl_seat_next(seat, sender) == receiver);
}

static uint32_t piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    if (receiver == seat.root || (sender == seat.root) != (step == 0))
        return PCCL_NO_PIECE;
    uint32_t owner = step == 0 ? receiver : sender;
    return (owner + seat.ranks - seat.root - 1) % seat.ranks;
}

static enum pccl_content carries(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return PCCL_CONTENT_RESULT;
}

static bool keeps(struct pccl_seat seat, uint32_t number)
{
    (void)number;
    return seat.rank == seat.root;
}

static struct pccl_task arrived(struct pccl_seat seat, uint32_t step)
{
    if (step > 0)
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    uint32_t next = pccl_seat_next(seat, seat.rank);
    if (next == seat.root)
        next = pccl_seat_next(seat, next);
    return (struct pccl_task){.work = PCCL_WORK_STORE, .step = 1, .to = next, .to_count = seat.ranks - 2};
}

const struct pccl_schedule pccl_spread = {.name = "spread",
                                          .pieces = pieces,
                                          .steps = steps,
                                          .buffers = buffers,
                                          .sends = sends,
                                          .piece = piece,
                                          .carries = carries,
                                          .keeps = keeps,
                                          .arrived = arrived};
