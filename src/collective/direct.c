/*
 * All-reduce by direct exchange (plan.h). Every rank sends its part of piece p to the owner of the piece, rank p - 1.
 * When the owner has all parts, it folds them and sends the result to all ranks.
 */
#include "collective/schedule.h"

static uint32_t steps(struct pccl_seat seat)
{
    (void)seat;
    return 2;
}

/*
 * Returns the number of buffers: one for each part of this rank's piece. If elements are packed, also one for each
 * result of another piece, because packed results cannot be received in the caller's memory.
 */
static uint32_t buffers(struct pccl_seat seat, bool packed) { return (packed ? 2 : 1) * (seat.ranks - 1); }

static uint32_t piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    uint32_t owner = step == 0 ? receiver : sender;
    return (owner + 1) % seat.ranks;
}

static enum pccl_content carries(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    return step == 0 ? PCCL_CONTENT_PART : PCCL_CONTENT_RESULT;
}

static struct pccl_sending spent(struct pccl_seat seat, uint32_t number)
{
    return (struct pccl_sending){.step = 0, .to = (number + seat.ranks - 1) % seat.ranks};
}

static struct pccl_task arrived(struct pccl_seat seat, uint32_t step)
{
    if (step > 0)
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    return (struct pccl_task){
        .work = PCCL_WORK_COLLECT, .step = 1, .to = (seat.rank + 1) % seat.ranks, .to_count = seat.ranks - 1};
}

const struct pccl_schedule pccl_direct = {.name = "direct exchange",
                                          .pieces = pccl_pieces_of_ranks,
                                          .steps = steps,
                                          .buffers = buffers,
                                          .sends = pccl_sends_to_all,
                                          .piece = piece,
                                          .carries = carries,
                                          .spent = spent,
                                          .arrived = arrived};
