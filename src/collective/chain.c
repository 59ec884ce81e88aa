/*
 * Broadcast along the ring (plan.h), for long tensors: the root sends each segment to the next
 * rank, and whoever receives it passes it on, up to the rank before the root. Each byte passes each
 * of these links once.
 */
#include "collective/schedule.h"

static uint32_t pieces(struct pccl_seat seat)
{
    (void)seat;
    return 1;
}

/* What the root sends, and what the others pass on. */
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
    return receiver == pccl_seat_next(seat, sender);
}

static uint32_t piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    bool is_sent = receiver != seat.root && (sender == seat.root) == (step == 0);
    return is_sent ? 0 : PCCL_NO_PIECE;
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
    (void)step;
    uint32_t next = pccl_seat_next(seat, seat.rank);
    return (struct pccl_task){.work = PCCL_WORK_STORE, .step = 1, .to = next, .to_count = next != seat.root};
}

const struct pccl_schedule pccl_chain = {.name = "chain",
                                         .pieces = pieces,
                                         .steps = steps,
                                         .buffers = buffers,
                                         .sends = sends,
                                         .piece = piece,
                                         .carries = carries,
                                         .keeps = keeps,
                                         .arrived = arrived};
