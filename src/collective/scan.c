/*
 * Exclusive and inclusive scan (plan.h): each rank of the line sends the sum to the next one.
 *
 * In direct exchange, the sum crosses the link between the two ranks. Along the ring, the ranks between them pass the
 * sum on, so each link transfers a segment once in each lap.
 */
#include "collective/schedule.h"

/* Returns true if the rank starts the sum with its own part. */
static bool begins(struct pccl_seat seat, uint32_t rank) { return rank == seat.line->first; }

/* Returns true on the first rank, whose result does not depend on other ranks. */
static bool keeps(struct pccl_seat seat, uint32_t number)
{
    (void)number;
    return begins(seat, seat.rank);
}

static enum pccl_content carries(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return PCCL_CONTENT_SUM;
}

/* ---- along the ring: the first rank begins with step 0; all others send in step 1 + l, where l is the lap ---- */

static uint32_t ring_steps(struct pccl_seat seat) { return seat.line->laps + 2; }

static uint32_t ring_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    (void)receiver;
    if (begins(seat, sender) && step <= 1)
        return step == 0 ? 0 : PCCL_NO_PIECE;
    if (step == 0 || step > seat.line->laps + 1)
        return PCCL_NO_PIECE;
    const bool is_last_lap = step == seat.line->laps + 1;
    const bool is_before_last = pccl_seat_distance(seat, seat.line->first, sender) <
                                pccl_seat_distance(seat, seat.line->first, seat.line->last);
    return !is_last_lap || is_before_last ? 0 : PCCL_NO_PIECE;
}

static struct pccl_task ring_arrived(struct pccl_seat seat, uint32_t step)
{
    const uint32_t next = pccl_seat_next(seat, seat.rank), lap = step > 0 ? step - 1 : 0;
    if (begins(seat, seat.rank))
        return (struct pccl_task){.work = PCCL_WORK_PASS, .step = step + 1, .to = next, .to_count = 1};
    const bool is_its_lap = lap == seat.line->lap, ends = is_its_lap && seat.rank == seat.line->last;
    return (struct pccl_task){
        .work = is_its_lap ? PCCL_WORK_SCAN : PCCL_WORK_PASS, .step = lap + 1, .to = next, .to_count = !ends};
}

const struct pccl_schedule pccl_scan_ring = {.name = "scanning along the ring",
                                             .pieces = pccl_one_piece,
                                             .steps = ring_steps,
                                             .buffers = pccl_one_buffer,
                                             .sends = pccl_sends_to_next,
                                             .piece = ring_piece,
                                             .carries = carries,
                                             .keeps = keeps,
                                             .arrived = ring_arrived};

/* ---- direct exchange: the first rank sends in step 0, and the others in step 1 ---- */

/* Returns true if the sum is sent from sender to receiver. One of them is this rank. */
static bool is_next(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    const struct pccl_line *line = seat.line;
    return sender != receiver && (sender == seat.rank ? receiver == line->after : sender == line->before);
}

static bool direct_sends(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return pccl_sends_to_next(seat, sender, receiver) || is_next(seat, sender, receiver);
}

static uint32_t direct_steps(struct pccl_seat seat)
{
    (void)seat;
    return 2;
}

static uint32_t direct_piece(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step)
{
    return is_next(seat, sender, receiver) && begins(seat, sender) == (step == 0) ? 0 : PCCL_NO_PIECE;
}

static struct pccl_task direct_arrived(struct pccl_seat seat, uint32_t step)
{
    (void)step;
    return (struct pccl_task){
        .work = PCCL_WORK_SCAN, .step = 1, .to = seat.line->after, .to_count = seat.rank != seat.line->last};
}

const struct pccl_schedule pccl_scan_direct = {.name = "scanning directly",
                                               .pieces = pccl_one_piece,
                                               .steps = direct_steps,
                                               .buffers = pccl_one_buffer,
                                               .sends = direct_sends,
                                               .piece = direct_piece,
                                               .carries = carries,
                                               .keeps = keeps,
                                               .arrived = direct_arrived};

/* ---- the line ---- */

static uint32_t rank_at(const uint32_t *positions, uint32_t position)
{
    uint32_t rank = 0;
    while (positions[rank] != position)
        rank++;
    return rank;
}

struct pccl_line pccl_line_make(uint32_t ranks, uint32_t rank, const uint32_t *positions)
{
    const struct pccl_seat seat = {.ranks = ranks, .rank = rank};
    const uint32_t first = rank_at(positions, 0);
    struct pccl_line line = {.first = first, .last = first, .before = rank, .after = rank};
    for (uint32_t position = 1; position < ranks; position++) {
        const uint32_t next = rank_at(positions, position);
        line.laps += pccl_seat_distance(seat, first, next) < pccl_seat_distance(seat, first, line.last);
        if (next == rank) {
            line.before = line.last;
            line.lap = line.laps;
        }
        if (line.last == rank)
            line.after = next;
        line.last = next;
    }
    return line;
}
