/*
 * Schedules: the sender, receiver and step of each piece, the work on a received piece, and its further path. Pure
 * arithmetic on ranks, steps and numbers of pieces. A schedule returns tasks and calls nothing; it must not know
 * elements, bytes, memory, messages or the window. The engine (receiving.c, fold.c) carries out the tasks, and must not
 * know which schedule it runs. A new one is a file of small functions and a row of the table, and is proven without the
 * engine (unit/schedule).
 *
 * An operation is divided into stripes (plan.h). Each stripe runs the whole schedule by itself; the window decides how
 * many run at a time. A stripe has pieces, any of which may be empty: empty ones are not sent, and no other piece may
 * wait for them. A message is named by (sender, receiver, step) and carries one piece.
 *
 *   Step 0         is the rank's own part, from its input. A rank that has nothing to begin with
 *                  sends nothing in it. A rank with several pieces for one neighbor sends them
 *                  in several stripes, which take turns (`turns`).
 *   A later step   is caused by a received piece, and carries that same piece (pccl_task).
 *
 * The engine relies on these rules: all messages of a step to one rank carry the same content; where sums travel at
 * all, they do in step 1, and in step 0, too, if each rank's result is another sum; collected parts are received in
 * step 0, one from each rank that sends to this one, fewer than PCCL_MESH_PEERS_MAX; kept pieces are sent in step 0 or
 * never, and a rank that keeps a piece collects none; results are folded in the order of the ring, so every schedule
 * gives the same bits. Every rank sends to the next one in the ring, even if it has no piece for it: the receiver of an
 * empty flow sends READY like any other, so each rank is compared with the next one, whatever their plans.
 */
#ifndef PCCL_COLLECTIVE_SCHEDULE_H
#define PCCL_COLLECTIVE_SCHEDULE_H

#include "core/base.h"

/* Values of the field `algorithm` of READY: row of the table. */
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
    PCCL_ALGORITHMS
};

#define PCCL_NO_PIECE UINT32_MAX

/*
 * Line of a scan: the ranks in the order in which their tensors are folded, which differs from the ring's. Along the
 * ring sums pass from each rank to its successor in the line in several laps, which begin at the first.
 */
struct pccl_line {
    uint32_t first, last;
    uint32_t before, after; /* neighbors of this rank in the line; the rank itself at an end */
    uint32_t lap, laps;     /* lap with the sum for this rank; number of the last lap */
};

/* A participant's view of a stripe: number of ranks, its own rank, the root if there is one, and the turn. */
struct pccl_seat {
    uint32_t ranks, rank; /* in ring order; ranks >= 2 */
    union {               /* small enough for two registers: passed by value for each segment */
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

/* Returns the distance along the ring. */
static inline uint32_t pccl_seat_distance(struct pccl_seat seat, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + seat.ranks - from;
}

/* All-to-all: returns the distance along the ring that the pieces of this turn travel. */
static inline uint32_t pccl_exchange_places(struct pccl_seat seat) { return seat.ranks - 1 - seat.turn; }

enum pccl_content {
    PCCL_CONTENT_PART,   /* of one rank: to fold or pass on */
    PCCL_CONTENT_SUM,    /* intermediate sum */
    PCCL_CONTENT_RESULT, /* final; also the part of one rank where nothing is folded */
};

enum pccl_work {
    PCCL_WORK_FOLD,   /* Fold this rank's part into it: a sum. */
    PCCL_WORK_FINISH, /* The same, and the sum is the result. */
    /* Keep it until all parts of the piece are here; then fold them, this rank's own last, which makes the result. */
    PCCL_WORK_COLLECT,
    PCCL_WORK_STORE, /* It is the result, unchanged. */
    PCCL_WORK_PASS,  /* It is for other ranks. */
    PCCL_WORK_SCAN,  /* Fold this rank's part into it: a sum. The result is the sum before this, or after it. */
};

/* Task for a received piece. All but PCCL_WORK_FOLD and PCCL_WORK_PASS make one result of this rank. */
struct pccl_task {
    enum pccl_work work; /* done first */
    uint32_t step;       /* Step in which the piece (collected parts: with the last one) is then sent: */
    /* to the first to_count ranks that this one sends to, from `to` on in ring order; 0: not sent. */
    uint32_t to, to_count;
};

/* A message of this rank. */
struct pccl_sending {
    uint32_t step, to;
};

struct pccl_schedule {
    const char *name; /* for messages */
    uint32_t (*pieces)(struct pccl_seat seat);
    uint32_t (*steps)(struct pccl_seat seat);
    uint32_t (*turns)(struct pccl_seat seat); /* consecutive stripes with different pieces; NULL: one */
    /* Pieces of a stripe that may be in scratch at once: parts and sums; if they are packed, results as well. */
    uint32_t (*buffers)(struct pccl_seat seat, bool packed);
    /* Returns true if there is a flow from the sender to the receiver, possibly an empty one. */
    bool (*sends)(struct pccl_seat seat, uint32_t sender, uint32_t receiver);
    /*
     * Piece of a message between two ranks for which `sends` is true, in an existing step. PCCL_NO_PIECE: no message.
     */
    uint32_t (*piece)(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step);
    enum pccl_content (*carries)(struct pccl_seat seat, uint32_t step);
    /*
     * Message with this rank's own part of a piece. Before it the result cannot exist, and the part must not be
     * overwritten: in place, the input is in the place of the result. NULL: received results never contain a part of
     * this rank.
     */
    struct pccl_sending (*spent)(struct pccl_seat seat, uint32_t piece);
    /*
     * Returns true if this rank's part of a piece is its result here, which this rank does not receive; if it is sent
     * packed, the result is unpacked from it. NULL: never.
     */
    bool (*keeps)(struct pccl_seat seat, uint32_t piece);
    bool keeps_unsent; /* kept pieces are never sent, and so not packed; otherwise they are sent in step 0 */
    /* Returns the task for a received message of this step. */
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

/* Results are received in their place; only early data is in scratch, or packed data until it is sent on. */
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

/* Returns true for the root's own part, which it does not send. */
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

/* By enum pccl_algorithm. */
extern const struct pccl_schedule *const pccl_schedules[PCCL_ALGORITHMS];

/* Makes the line of this rank. positions: by rank. Takes time proportional to the square of the number of ranks. */
struct pccl_line pccl_line_make(uint32_t ranks, uint32_t rank, const uint32_t *positions);

/* ---- the rows: all-reduce, broadcast, all-gather, reduce-scatter, reduce, gather, scatter, all-to-all, scan ---- */
extern const struct pccl_schedule pccl_ring, pccl_direct;
extern const struct pccl_schedule pccl_chain, pccl_spread;
extern const struct pccl_schedule pccl_gather_ring, pccl_gather_direct;
extern const struct pccl_schedule pccl_scatter_ring, pccl_scatter_direct;
extern const struct pccl_schedule pccl_reduce_chain, pccl_reduce_direct;
extern const struct pccl_schedule pccl_to_root_chain, pccl_to_root_direct;
extern const struct pccl_schedule pccl_from_root_chain, pccl_from_root_direct;
extern const struct pccl_schedule pccl_exchange_ring, pccl_exchange_direct;
extern const struct pccl_schedule pccl_scan_ring, pccl_scan_direct;

#endif
