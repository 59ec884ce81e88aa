/*
 * All-reduce along the ring (plan.h). Piece p is folded from rank p to rank p - 1, which finishes it and sends the
 * result around the ring. Every piece passes each rank twice, as a sum and as a result. A rank adds its own part to the
 * sum before it sends it on, so its part is no longer needed when the result arrives.
 */
#include "collective/schedule.h"

/* Returns the number of steps: each piece crosses all links but one as a sum, and all links but one as a result. */
static uint32_t steps(struct pccl_seat seat) { return 2 * (seat.ranks - 1); }

static uint32_t buffers(struct pccl_seat seat, bool packed) { return packed ? seat.ranks : seat.ranks - 1; }

/* Both halves use the same formula: r + 1 - (s - (ranks - 1)) equals r - s, modulo ranks. */
static uint32_t piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    return (sender + 2 * seat.ranks - step) % seat.ranks;
}

static enum pccl_content carries(struct pccl_seat seat, uint32_t step)
{
    if (step >= seat.ranks - 1)
        return PCCL_CONTENT_RESULT;
    return step > 0 ? PCCL_CONTENT_SUM : PCCL_CONTENT_PART;
}

static struct pccl_sending spent(struct pccl_seat seat, uint32_t number)
{
    return (struct pccl_sending){.step = (seat.rank + seat.ranks - number) % seat.ranks,
                                 .to = pccl_seat_next(seat, seat.rank)};
}

static struct pccl_task arrived(struct pccl_seat seat, uint32_t step)
{
    struct pccl_task task = {.work = PCCL_WORK_STORE,
                             .step = step + 1,
                             .to = pccl_seat_next(seat, seat.rank),
                             .to_count = step + 1 < steps(seat)};
    if (step < seat.ranks - 1)
        task.work = step + 2 < seat.ranks ? PCCL_WORK_FOLD : PCCL_WORK_FINISH;
    return task;
}

const struct pccl_schedule pccl_ring = {.name = "ring",
                                        .pieces = pccl_pieces_of_ranks,
                                        .steps = steps,
                                        .buffers = buffers,
                                        .sends = pccl_sends_to_next,
                                        .piece = piece,
                                        .carries = carries,
                                        .spent = spent,
                                        .arrived = arrived};
