/*
 * Schedules: who sends which piece to whom in which step, what becomes of a piece that came in, and
 * what is sent on. Pure arithmetic on ranks, steps and numbers of pieces. A schedule returns what
 * is to be done and calls nothing; it must not know elements, bytes, memory, messages or the
 * window. The engine (receiving.c, fold.c) does what the schedule returns, and must not know which
 * schedule it runs. A new one is a file of small functions and a row of the table, and is proven
 * without the engine (unit/schedule).
 *
 * An operation is cut into stripes (plan.h). Each stripe runs the whole schedule by itself; how
 * many run at a time is the window's business. A stripe has pieces; any may be empty: they are not
 * sent, and nothing of the others may wait for them. A message is named by (sender, receiver, step)
 * and carries one piece.
 *
 *   Step 0         is what a rank sends by itself: its own part, from its input. Whoever has
 *                  nothing to begin with, sends nothing in it. So a rank with several pieces for one
 *                  neighbor sends them in several stripes, which take turns (`turns`).
 *   A later step   is sent because a piece came in, and carries that same piece (pccl_task).
 *
 * The engine relies on this: all messages of a step that come to a rank carry the same content; where
 * sums travel at all, they do in step 1, and in step 0 too if each rank's result is another sum; parts that are
 * collected come in step 0, one from each rank that sends to this one, fewer than PCCL_MESH_PEERS_MAX; what is kept is
 * sent in step 0 or never, and who keeps a piece collects none; results are folded in the order of the ring, so every
 * schedule gives the same bits. Every rank sends to the next one in the ring, even if it has no piece for it: the
 * receiver of an empty flow says READY like any other, so each rank is compared with the next one, whatever the two
 * plan.
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
 * The line of a scan: the ranks in the order in which their tensors are folded, which is not the ring's. Along the ring
 * sums pass from each to the next in it in several laps, which begin at the first.
 */
struct pccl_line {
    uint32_t first, last;
    uint32_t before, after; /* neighbors of this rank in the line; the rank itself at an end */
    uint32_t lap, laps;     /* the lap with the sum for this rank; the last one */
};

/* How many take part, as which rank, which rank is the root, where there is one, and whose turn the stripe is. */
struct pccl_seat {
    uint32_t ranks, rank; /* in the order of the ring; ranks >= 2 */
    union {               /* small enough for two registers: it is passed by value for each segment */
        struct {
            uint32_t root;
            uint32_t turn; /* 0 for the first stripes; each turn follows the one before */
        };
        const struct pccl_line *line; /* of a scan, which has no root and no turns; it is in the plan */
    };
};

static inline uint32_t pccl_seat_next(struct pccl_seat seat, uint32_t rank)
{
    return rank + 1 < seat.ranks ? rank + 1 : 0;
}

/* How far it is along the ring. */
static inline uint32_t pccl_seat_distance(struct pccl_seat seat, uint32_t from, uint32_t to)
{
    return to >= from ? to - from : to + seat.ranks - from;
}

/* In an all-to-all: how many places farther on along the ring belongs what is sent in this turn. */
static inline uint32_t pccl_exchange_places(struct pccl_seat seat) { return seat.ranks - 1 - seat.turn; }

enum pccl_content {
    PCCL_CONTENT_PART,   /* of one rank: to be folded, or passed on */
    PCCL_CONTENT_SUM,    /* folded so far */
    PCCL_CONTENT_RESULT, /* final; also the part of one rank where nothing is folded */
};

enum pccl_work {
    PCCL_WORK_FOLD,   /* Fold the own part into it: a sum. */
    PCCL_WORK_FINISH, /* The same, and the sum is the result. */
    /*
     * Keep it until all parts of the piece are here; then fold them, the own one last, which makes
     * the result.
     */
    PCCL_WORK_COLLECT,
    PCCL_WORK_STORE, /* It is the result as it is. */
    PCCL_WORK_PASS,  /* It is for others. */
    PCCL_WORK_SCAN,  /* Fold the own part into it: a sum. The result is the sum before this, or after it. */
};

/*
 * What is to be done with a piece that came in. All but PCCL_WORK_FOLD and PCCL_WORK_PASS make one
 * result of this rank.
 */
struct pccl_task {
    enum pccl_work work; /* first */
    uint32_t step;       /* Then (of collected parts: with the last one) it is sent in this step: */
    /* to so many of the ranks that it sends to, from `to` on in the order of the ring; 0: to nobody. */
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
    uint32_t (*turns)(struct pccl_seat seat); /* stripes with other pieces, one after the other; NULL: one */
    /*
     * Pieces of a stripe that may be in scratch at once: parts and sums; if they are packed,
     * results as well.
     */
    uint32_t (*buffers)(struct pccl_seat seat, bool packed);
    /* Whether there is a flow from the sender to the receiver, be it an empty one. */
    bool (*sends)(struct pccl_seat seat, uint32_t sender, uint32_t receiver);
    /*
     * The piece of a message between two ranks of which `sends` is true, in an existing step.
     * PCCL_NO_PIECE: no message.
     */
    uint32_t (*piece)(struct pccl_seat seat, uint32_t sender, uint32_t receiver, uint32_t step);
    enum pccl_content (*carries)(struct pccl_seat seat, uint32_t step);
    /*
     * The message in which this rank's own part of a piece goes out. Until then nobody can have
     * made the result, and the part must not be overwritten by it: in place, the input is where the
     * result belongs. NULL: no result that comes in has a part of this rank in it.
     */
    struct pccl_sending (*spent)(struct pccl_seat seat, uint32_t piece);
    /*
     * Whether the own part of a piece is its result here, which nobody sends; if it is sent packed,
     * what it is unpacked to. NULL: never.
     */
    bool (*keeps)(struct pccl_seat seat, uint32_t piece);
    bool keeps_unsent; /* what is kept is never sent, and so not packed; else it is sent in step 0 */
    /* A message of this step came in. */
    struct pccl_task (*arrived)(struct pccl_seat seat, uint32_t step);
};

/* ---- answers that several rows give ---- */

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

/* Results come in where they belong; only what came ahead is in scratch, or what is packed, until it is sent on. */
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

/* Of a root, whose own part nobody else gets. */
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

/* Makes the line of this rank. positions: by rank. Proportional to the square of the number of ranks. */
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
