/*
 * Reduce and gather (plan.h): collect the data of all ranks on the root.
 *
 * Along a chain, data is passed on toward the root, from the rank after the root on. In direct exchange, every rank
 * sends its own part straight to the root.
 */
#include "collective/schedule.h"

/*
 * Returns true if there is a flow. Every rank has a flow to its successor, which may be empty; the root sends no data.
 */
static bool sends_to_root(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return sender != receiver && (receiver == seat.root || pccl_sends_to_next(seat, sender, receiver));
}

/* Returns the number of buffers of a rank to which all others send. */
static uint32_t buffers(struct pccl_seat seat, bool packed)
{
    (void)packed;
    return seat.ranks - 1;
}

static uint32_t chain_steps(struct pccl_seat seat) { return seat.ranks - 1; }

/* ---- reduce: one piece, which is folded from the rank after the root to the root ---- */

/* Returns the piece: in step s, the rank s + 1 places after the root sends. */
static uint32_t reduce_chain_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    return pccl_seat_distance(seat, seat.root, sender) == step + 1 ? 0 : PCCL_NO_PIECE;
}

static enum pccl_content reduce_chain_carries(struct pccl_seat seat, uint32_t step)
{
    return step > 0 && step < chain_steps(seat) ? PCCL_CONTENT_SUM : PCCL_CONTENT_PART;
}

static struct pccl_task reduce_chain_arrived(struct pccl_seat seat, uint32_t step)
{
    if (seat.rank == seat.root)
        return (struct pccl_task){.work = PCCL_WORK_FINISH};
    return (struct pccl_task){
        .work = PCCL_WORK_FOLD, .step = step + 1, .to = pccl_seat_next(seat, seat.rank), .to_count = 1};
}

const struct pccl_schedule pccl_reduce_chain = {.name = "reducing along a chain",
                                                .pieces = pccl_one_piece,
                                                .steps = chain_steps,
                                                .buffers = pccl_one_buffer,
                                                .sends = pccl_sends_to_next,
                                                .piece = reduce_chain_piece,
                                                .carries = reduce_chain_carries,
                                                .arrived = reduce_chain_arrived};

static uint32_t reduce_direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)sender;
    (void)step;
    return receiver == seat.root ? 0 : PCCL_NO_PIECE;
}

const struct pccl_schedule pccl_reduce_direct = {.name = "reducing directly",
                                                 .pieces = pccl_one_piece,
                                                 .steps = pccl_one_step,
                                                 .buffers = buffers,
                                                 .sends = sends_to_root,
                                                 .piece = reduce_direct_piece,
                                                 .carries = pccl_carries_parts,
                                                 .arrived = pccl_collects};

/* ---- gather: piece p belongs to the part of rank p ---- */

/*
 * Returns the piece. A rank first sends its own piece and then passes on the pieces of the ranks before it, up to the
 * rank after the root.
 */
static uint32_t chain_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    bool is_sent = step < pccl_seat_distance(seat, seat.root, sender);
    return is_sent ? (sender + seat.ranks - step) % seat.ranks : PCCL_NO_PIECE;
}

static enum pccl_content chain_carries(struct pccl_seat seat, uint32_t step)
{
    (void)step;
    return seat.rank == seat.root ? PCCL_CONTENT_RESULT : PCCL_CONTENT_PART;
}

static struct pccl_task chain_arrived(struct pccl_seat seat, uint32_t step)
{
    if (seat.rank == seat.root)
        return (struct pccl_task){.work = PCCL_WORK_STORE};
    return (struct pccl_task){
        .work = PCCL_WORK_PASS, .step = step + 1, .to = pccl_seat_next(seat, seat.rank), .to_count = 1};
}

const struct pccl_schedule pccl_to_root_chain = {.name = "gathering at the root along a chain",
                                                 .pieces = pccl_pieces_of_ranks,
                                                 .steps = chain_steps,
                                                 .buffers = buffers,
                                                 .sends = pccl_sends_to_next,
                                                 .piece = chain_piece,
                                                 .carries = chain_carries,
                                                 .keeps = pccl_root_keeps,
                                                 .keeps_unsent = true,
                                                 .arrived = chain_arrived};

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)step;
    return receiver == seat.root ? sender : PCCL_NO_PIECE;
}

const struct pccl_schedule pccl_to_root_direct = {.name = "gathering at the root directly",
                                                  .pieces = pccl_pieces_of_ranks,
                                                  .steps = pccl_one_step,
                                                  .buffers = buffers,
                                                  .sends = sends_to_root,
                                                  .piece = direct_piece,
                                                  .carries = pccl_carries_results,
                                                  .keeps = pccl_root_keeps,
                                                  .keeps_unsent = true,
                                                  .arrived = pccl_stores};
