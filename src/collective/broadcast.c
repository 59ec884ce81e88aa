/*
 * Broadcast (plan.h).
 *
 * The chain is for long tensors: the root sends each segment to the next rank, and each receiver passes it on, up to
 * the rank before the root, so each byte crosses each of these links once. Spread is for short tensors: the root sends
 * a different piece to each other rank, and the other ranks exchange these pieces. Star is for even shorter ones: the
 * root sends everything to each other rank.
 */
#include "collective/schedule.h"

/* Returns the number of steps: the root sends, then the others pass on. */
static uint32_t steps(struct pccl_seat seat)
{
    (void)seat;
    return 2;
}

static bool is_sent(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    return receiver != seat.root && (sender == seat.root) == (step == 0);
}

static bool keeps(struct pccl_seat seat, uint32_t number)
{
    (void)number;
    return seat.rank == seat.root;
}

/* ---- along a chain ---- */

static uint32_t chain_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    return is_sent(seat, sender, receiver, step) ? 0 : PCCL_NO_PIECE;
}

static struct pccl_task chain_arrived(struct pccl_seat seat, uint32_t step)
{
    (void)step;
    uint32_t next = pccl_seat_next(seat, seat.rank);
    return (struct pccl_task){.work = PCCL_WORK_STORE, .step = 1, .to = next, .to_count = next != seat.root};
}

const struct pccl_schedule pccl_chain = {.name = "chain",
                                         .pieces = pccl_one_piece,
                                         .steps = steps,
                                         .buffers = pccl_one_buffer,
                                         .sends = pccl_sends_to_next,
                                         .piece = chain_piece,
                                         .carries = pccl_carries_results,
                                         .keeps = keeps,
                                         .arrived = chain_arrived};

/* ---- spread: piece p belongs to the rank p + 1 places after the root ---- */

static uint32_t spread_pieces(struct pccl_seat seat) { return seat.ranks - 1; }

/* Returns the number of buffers: all pieces if they are packed. */
static uint32_t spread_buffers(struct pccl_seat seat, bool packed) { return packed ? spread_pieces(seat) : 1; }

/*
 * Returns true if there is a flow. The root receives no data, but there is an empty flow to it from the rank before it.
 */
static bool spread_sends(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return sender != receiver && (receiver != seat.root || pccl_sends_to_next(seat, sender, receiver));
}

static uint32_t spread_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    if (!is_sent(seat, sender, receiver, step))
        return PCCL_NO_PIECE;
    uint32_t owner = step == 0 ? receiver : sender;
    return (owner + seat.ranks - seat.root - 1) % seat.ranks;
}

static struct pccl_task spread_arrived(struct pccl_seat seat, uint32_t step)
{
    if (step > 0)
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    uint32_t next = pccl_seat_next(seat, seat.rank);
    if (next == seat.root)
        next = pccl_seat_next(seat, next);
    return (struct pccl_task){.work = PCCL_WORK_STORE, .step = 1, .to = next, .to_count = seat.ranks - 2};
}

const struct pccl_schedule pccl_spread = {.name = "spread",
                                          .pieces = spread_pieces,
                                          .steps = steps,
                                          .buffers = spread_buffers,
                                          .sends = spread_sends,
                                          .piece = spread_piece,
                                          .carries = pccl_carries_results,
                                          .keeps = keeps,
                                          .arrived = spread_arrived};

/* ---- star ---- */

static uint32_t star_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    (void)step;
    return sender == seat.root ? 0 : PCCL_NO_PIECE;
}

const struct pccl_schedule pccl_star = {.name = "star",
                                        .pieces = pccl_one_piece,
                                        .steps = pccl_one_step,
                                        .buffers = pccl_one_buffer,
                                        .sends = pccl_root_sends,
                                        .piece = star_piece,
                                        .carries = pccl_carries_results,
                                        .keeps = keeps,
                                        .arrived = pccl_stores};
