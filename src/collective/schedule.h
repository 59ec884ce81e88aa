/*
 * Schedules. A schedule defines the sender, receiver and step of each piece, the work on a received piece, and where
 * that piece is sent next. It is pure arithmetic on ranks, steps and numbers of pieces: it returns tasks, calls
 * nothing, and does not depend on elements, bytes, memory, messages or the window. The code that carries out the tasks
 * (receiving.c, fold.c) does not depend on a particular schedule. A new schedule is a file of small functions and a row
 * of the table, and can be verified without the rest (unit/schedule).
 *
 * An operation is divided into stripes (plan.h). Each stripe runs the whole schedule independently, and the window
 * limits how many run at a time. A stripe has several pieces, any of which may be empty. Empty pieces are not sent, and
 * no other piece may wait for them. A message is identified by (sender, receiver, step) and contains one piece.
 *
 *   Step 0         sends the rank's own part, from its input. A rank that has nothing to begin with
 *                  sends nothing. A rank with several pieces for one neighbor sends them in
 *                  several stripes, which take turns (`turns`).
 *   A later step   sends on a piece that was received in an earlier step (pccl_task).
 *
 * Every schedule must follow these rules. All messages of a step to one rank have the same content. Sums, if any, are
 * sent in step 1, and also in step 0 if each rank's result is a different sum. Collected parts are received in step 0,
 * one from each rank that sends to this one, fewer than PCCL_MESH_PEERS_MAX in total. Kept pieces are sent in step 0 or
 * never, and a rank that keeps a piece collects no parts. Results are folded in ring order, so every schedule gives the
 * same bits. Every rank has a flow to the next rank of the ring, even if it sends no data: the receiver of an empty
 * flow sends READY like any other, so each rank is compared with the next one even if their plans differ.
 */
#ifndef PCCL_COLLECTIVE_SCHEDULE_H
#define PCCL_COLLECTIVE_SCHEDULE_H

#include "core/base.h"

/* Value of the field `algorithm` of READY, which is the index in the table. */
enum pccl_algorithm {
    PCCL_RING,
    PCCL_DIRECT,
    PCCL_CHAIN,
    PCCL_SPREAD,
    PCCL_GATHER_RING,
    PCCL_GATHER_DIRECT,
    PCCL_SCATTER_RING,
    PCCL_SCATTER_DIRECT,
    PCCL_REDUCE_CHAIN,
    PCCL_REDUCE_DIRECT,
    PCCL_TO_ROOT_CHAIN,
    PCCL_TO_ROOT_DIRECT,
    PCCL_FROM_ROOT_CHAIN,
    PCCL_FROM_ROOT_DIRECT,
    PCCL_EXCHANGE_RING,
    PCCL_EXCHANGE_DIRECT,
    PCCL_SCAN_RING,
    PCCL_SCAN_DIRECT,
    PCCL_STAR,
    PCCL_ALGORITHMS
};

#define PCCL_NO_PIECE UINT32_MAX

/*
 * Line of a scan: the ranks in the order in which their tensors are folded, which differs from the order of the ring.
 * Along the ring, sums are passed from each rank to its successor in the line, in several laps that begin at the first
 * rank.
 */
struct pccl_line {
    uint32_t first, last;
    uint32_t before, after; /* neighbors of this rank in the line; at an end of the line, the rank itself */
    uint32_t lap, laps;     /* lap in which this rank receives the sum; number of the last lap */
};

/* A rank's view of a stripe: the number of ranks, its rank, the root if there is one, and the turn. */
struct pccl_seat {
    uint32_t ranks, rank; /* in ring order; ranks >= 2 */
    union {               /* small enough for two registers, because a seat is passed by value for each segment */
        struct {
            uint32_t root;
            uint32_t turn; /* turn of the stripe: its number / turn_stripes, modulo the number of turns */
        };
        const struct pccl_line *line; /* for a scan, which has no root and no turns; stored in the plan */
    };
};

static inline uint32_t pccl_seat_next(struct pccl_seat seat, uint32_t rank)
{
    return rank + 1 < seat.ranks ? rank + 1 : 0;
}

/* Returns the distance along the ring from one rank to another. */
static inline uint32_t pccl_seat_distance(struct pccl_seat seat, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + seat.ranks - from;
}

/* Returns the distance along the ring between sender and receiver in this turn of an all-to-all. */
static inline uint32_t pccl_exchange_places(struct pccl_seat seat) { return seat.ranks - 1 - seat.turn; }

enum pccl_content {
    PCCL_CONTENT_PART, /* part of one rank, to fold or to pass on */
    PCCL_CONTENT_SUM,
    PCCL_CONTENT_RESULT, /* final result, or the part of one rank if nothing is folded */
};

enum pccl_work {
    PCCL_WORK_FOLD,   /* fold this rank's part into the piece, which gives a sum */
    PCCL_WORK_FINISH, /* the same, but the sum is the result */
    /* collect all parts of the piece; then fold them, this rank's part last, which gives the result */
    PCCL_WORK_COLLECT,
    PCCL_WORK_STORE, /* store the piece unchanged: it is the result */
    PCCL_WORK_PASS,  /* pass the piece on: it is for other ranks */
    PCCL_WORK_SCAN,  /* fold this rank's part into the sum; the result is the sum before or after that */
};

/* Task for a received piece. Every task except PCCL_WORK_FOLD and PCCL_WORK_PASS gives one result on this rank. */
struct pccl_task {
    enum pccl_work work; /* work to do before the piece is sent on */
    uint32_t step;       /* step in which the piece is sent on; collected parts are sent on as one piece */
    /* receivers: to_count of the ranks that this one sends to, in ring order from `to` on; 0: not sent */
    uint32_t to, to_count;
};

/* A message that this rank sends. */
struct pccl_sending {
    uint32_t step, to;
};

struct pccl_schedule {
    const char *name; /* for messages */
    uint32_t (*pieces)(struct pccl_seat seat);
    uint32_t (*steps)(struct pccl_seat seat);
    uint32_t (*turns)(struct pccl_seat seat); /* number of consecutive stripes with different pieces; NULL: 1 */
    /* Number of pieces of a stripe that may be in scratch at once: parts and sums and, if they are packed, results. */
    uint32_t (*buffers)(struct pccl_seat seat, bool packed);
    /* Returns true if there is a flow, which may be empty, from sender to receiver. */
    bool (*sends)(struct pccl_seat seat, uint32_t sender, uint32_t receiver);
    /*
     * Returns the piece of a message between two ranks for which `sends` returns true, in an existing step, or
     * PCCL_NO_PIECE if there is no message.
     */
    uint32_t (*piece)(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step);
    enum pccl_content (*carries)(struct pccl_seat seat, uint32_t step);
    /*
     * Returns the message that contains this rank's own part of a piece. The result cannot exist before that message is
     * sent, and in place the part must not be overwritten before. NULL: received results never contain a part of this
     * rank.
     */
    struct pccl_sending (*spent)(struct pccl_seat seat, uint32_t piece);
    /*
     * Returns true if this rank's part of a piece is the piece's result on this rank, which therefore does not receive
     * it. If the part is sent packed, the result is unpacked from it. NULL: never.
     */
    bool (*keeps)(struct pccl_seat seat, uint32_t piece);
    bool keeps_unsent; /* kept pieces are never sent and so not packed; otherwise they are sent in step 0 */
    struct pccl_task (*arrived)(struct pccl_seat seat, uint32_t step);
};

/* ---- functions that several rows share ---- */

static inline uint32_t pccl_pieces_of_ranks(struct pccl_seat seat) { return seat.ranks; }

static inline bool pccl_sends_to_next(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return receiver == pccl_seat_next(seat, sender);
}

static inline bool pccl_sends_to_all(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    (void)seat;
    return sender != receiver;
}

static inline uint32_t pccl_one_step(struct pccl_seat seat)
{
    (void)seat;
    return 1;
}

static inline uint32_t pccl_one_piece(struct pccl_seat seat)
{
    (void)seat;
    return 1;
}

/* Results are received in their place; scratch is only for early data, or for packed data until it is sent on. */
static inline uint32_t pccl_one_buffer(struct pccl_seat seat, bool packed)
{
    (void)seat;
    (void)packed;
    return 1;
}

static inline enum pccl_content pccl_carries_results(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return PCCL_CONTENT_RESULT;
}

static inline enum pccl_content pccl_carries_parts(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return PCCL_CONTENT_PART;
}

/* Returns true for a flow if only the root sends data; the other ranks have empty flows to their successors. */
static inline bool pccl_root_sends(struct pccl_seat seat, uint32_t sender, uint32_t receiver)
{
    return sender != receiver && (sender == seat.root || pccl_sends_to_next(seat, sender, receiver));
}

/* Returns true for the root's own part, which the root does not send. */
static inline bool pccl_root_keeps(struct pccl_seat seat, uint32_t piece)
{
    return seat.rank == seat.root && piece == seat.root;
}

static inline struct pccl_task pccl_stores(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return (struct pccl_task){.work = PCCL_WORK_STORE};
}

static inline struct pccl_task pccl_collects(struct pccl_seat seat, uint32_t step)
{
    (void)seat;
    (void)step;
    return (struct pccl_task){.work = PCCL_WORK_COLLECT};
}

/* Indexed by enum pccl_algorithm. */
extern const struct pccl_schedule *const pccl_schedules[PCCL_ALGORITHMS];

/* Computes the line of this rank in time proportional to the square of the number of ranks. positions: by rank. */
struct pccl_line pccl_line_make(uint32_t ranks, uint32_t rank, const uint32_t *positions);

/* ---- the rows: all-reduce, broadcast, all-gather, reduce-scatter, reduce, gather, scatter, all-to-all, scan ---- */
extern const struct pccl_schedule pccl_ring, pccl_direct;
extern const struct pccl_schedule pccl_chain, pccl_spread, pccl_star;
extern const struct pccl_schedule pccl_gather_ring, pccl_gather_direct;
extern const struct pccl_schedule pccl_scatter_ring, pccl_scatter_direct;
extern const struct pccl_schedule pccl_reduce_chain, pccl_reduce_direct;
extern const struct pccl_schedule pccl_to_root_chain, pccl_to_root_direct;
extern const struct pccl_schedule pccl_from_root_chain, pccl_from_root_direct;
extern const struct pccl_schedule pccl_exchange_ring, pccl_exchange_direct;
extern const struct pccl_schedule pccl_scan_ring, pccl_scan_direct;

#endif
